"""Intervals, tests and summaries; they apply to every row of METRICS alike. Consistency of judges, by name."""

from judge.statistics.consistency import (
    coefficient_of_variation,
    conflict_score,
    percent_reduction,
    ranking_consistency,
)

__all__ = [
    "coefficient_of_variation",
    "conflict_score",
    "percent_reduction",
    "ranking_consistency",
]
