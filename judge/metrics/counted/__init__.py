"""Metrics that are counted, without a judge."""
