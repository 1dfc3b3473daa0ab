"""Which words of a caption, and which pixels of an image, a judge's answer or a captioner's word comes from."""
