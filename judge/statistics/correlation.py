"""Do two lists of scores agree? Pearson's r with Fisher's interval, Spearman's with Bonett and Wright's.

Intervals suppose that pairs are drawn independently, Fisher's also that both lists are normal. How often they hold the
truth for 4, 5 and 9 captioners is in docs/guides/anonymous.md and in tests/statistics/test_correlation.py.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from judge.metrics import Metric
from judge.statistics.summary import Summary
from judge.types import Interval

# Two pairs always lie on a line.
FEWEST = 3


@dataclass(frozen=True, slots=True)
class Correlation:
    """Agreement of two lists.

    Attributes:
        pearson: r in [-1, 1]; None for fewer than three pairs, or where a list is constant (to the last digits), or
            holds NaN or infinity.
        interval: of r, by Fisher's transformation; None for fewer than four pairs.
        spearman: rank correlation in [-1, 1]; None where ``pearson`` is.
        pairs: how many.
        spearman_interval: of ``spearman``, by Bonett and Wright's standard error; None for fewer than four pairs.
    """

    pearson: float | None
    interval: Interval | None
    spearman: float | None
    pairs: int
    spearman_interval: Interval | None = None


def correlate(first: Sequence[float], second: Sequence[float], *, level: float = 0.95) -> Correlation:
    """Pearson's and Spearman's correlation of two lists of one length (scipy).

    Raises:
        ValueError: the lists differ in length.
    """
    from scipy import stats

    pairs = len(first)
    if len(second) != pairs:
        raise ValueError(f"{pairs} and {len(second)} values")
    nothing = Correlation(None, None, None, pairs)
    if pairs < FEWEST or not np.isfinite([*first, *second]).all() or np.ptp(first) == 0 or np.ptp(second) == 0:
        return nothing
    with warnings.catch_warnings():
        warnings.simplefilter("error", stats.NearConstantInputWarning)
        try:
            found = stats.pearsonr(first, second)
        except stats.NearConstantInputWarning:
            return nothing
    interval = None
    if pairs > 3:
        bounds = found.confidence_interval(level)
        interval = Interval(float(bounds.low), float(bounds.high), level)
    ranks = float(stats.spearmanr(first, second).statistic)
    return Correlation(float(found.statistic), interval, ranks, pairs, spearman_interval(ranks, pairs, level=level))


def spearman_interval(value: float, pairs: int, *, level: float = 0.95) -> Interval | None:
    """Interval of a rank correlation: Fisher's transformation with variance (1 + value^2 / 2) / (pairs - 3).

    Bonett and Wright, Psychometrika 2000. Equal rankings of few are no proof of equal ones of all: there the
    transformed value would be infinite, so that the inner bound is that of the value half a step nearer 0 (two
    neighbours exchanged are a step of 12 / (pairs^3 - pairs)), and the outer one is 1.

    Returns:
        None for fewer than four pairs.
    """
    from scipy import stats

    if pairs < 4:
        return None
    most = 1 - 6 / (pairs**3 - pairs)
    inner = max(-most, min(most, value))
    reach = float(stats.norm.isf((1 - level) / 2)) * math.sqrt((1 + inner**2 / 2) / (pairs - 3))
    low, high = (math.tanh(math.atanh(inner) + side * reach) for side in (-1, 1))
    return Interval(-1.0 if value < -most else low, 1.0 if value > most else high, level)


@dataclass(frozen=True, slots=True)
class Agreement:
    """How far amplifications of a variant of a run go with those of its first variant, over captioners."""

    metric: Metric
    judge: str
    variant: str
    correlation: Correlation


def agreements(variants: Mapping[str, Sequence[Summary]], *, level: float = 0.95) -> list[Agreement]:
    """Every variant against the first, metric by metric and judge by judge."""
    first, *others = variants
    found = []
    for metric, judge in dict.fromkeys((row.metric, row.judge) for row in variants[first]):
        truth = _amplifications(variants[first], metric, judge)
        for other in others:
            known = _amplifications(variants[other], metric, judge)
            both = [name for name in truth if name in known]
            pairs = [truth[name] for name in both], [known[name] for name in both]
            found.append(Agreement(metric, judge, other, correlate(*pairs, level=level)))
    return found


def _amplifications(rows: Sequence[Summary], metric: Metric, judge: str) -> dict[str, float]:
    mine = [row for row in rows if (row.metric, row.judge) == (metric, judge)]
    return {row.captioner: row.amplification for row in mine if row.amplification is not None}
