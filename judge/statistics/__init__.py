"""Intervals, tests and summaries; they apply to every row of METRICS alike."""
