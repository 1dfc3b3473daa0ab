"""Where a judge, or a captioner, looked in a picture."""
