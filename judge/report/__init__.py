"""Reports: tables, figures and notes of results, and the folder of a run."""
