"""Agreement of judges, of detectors and of human scores, over captioners.

Conflict score and ranking consistency: Abdelrahman et al. 2024 (ImageCaptioner2), section 5.5. Coefficient of
variation and its reduction: Nair et al. 2026 (DBAC), Table 5. Human alignment: ImageCaptioner2, Table 5.

Intervals suppose that captioners are drawn independently, Fisher's (of Pearson's r) also that both lists are normal.
docs/guides/anonymous.md has their coverage.
"""

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from judge.metrics import Metric
from judge.statistics.summary import Summary
from judge.types import Interval

# Two pairs always lie on a line.
FEWEST = 3


@dataclass(frozen=True, slots=True)
class Correlation:
    """Correlation of two lists, each in [-1, 1], with intervals; these are None for fewer than four pairs.

    Both are None for fewer than three pairs, or where a list is constant (to the last digits) or not finite.
    """

    pearson: float | None
    interval: Interval | None
    spearman: float | None
    pairs: int
    spearman_interval: Interval | None = None


def correlate(first: Sequence[float], second: Sequence[float], *, level: float = 0.95) -> Correlation:
    """Pearson's and Spearman's correlation of two lists of the same length (scipy)."""
    from scipy import stats

    pairs = len(first)
    nothing = Correlation(None, None, None, pairs)
    if pairs < FEWEST or not np.isfinite([*first, *second]).all() or np.ptp(first) == 0 or np.ptp(second) == 0:
        return nothing
    with warnings.catch_warnings():
        warnings.simplefilter("error", stats.NearConstantInputWarning)
        try:
            found = stats.pearsonr(first, second)
        except stats.NearConstantInputWarning:
            return nothing
    bounds = found.confidence_interval(level) if pairs > 3 else None
    interval = Interval(float(bounds.low), float(bounds.high), level) if bounds else None
    ranks = float(stats.spearmanr(first, second).statistic)
    return Correlation(float(found.statistic), interval, ranks, pairs, spearman_interval(ranks, pairs, level=level))


def spearman_interval(value: float, pairs: int, *, level: float = 0.95) -> Interval | None:
    """Interval of a rank correlation: Fisher's transformation with variance (1 + value^2 / 2) / (pairs - 3).

    Bonett and Wright, Psychometrika 2000. Of +-1, whose transformed value is infinite, the inner bound is that of the
    value half a step nearer 0 (exchanging two neighbours is a step of 12 / (pairs^3 - pairs)), and the outer one +-1.
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


def conflict_score(a: Sequence[float], b: Sequence[float], *, neutral: float = 0.0) -> float:
    """Share, in [0, 1], of captioners that one judge calls biased (above ``neutral``) and the other does not.

    ``a`` and ``b`` are of the same captioners. NaN without captioners, or where a value is NaN.
    """
    if not len(a) or np.isnan([*a, *b]).any():
        return math.nan
    return float(np.mean((np.asarray(a) > neutral) != (np.asarray(b) > neutral)))


def coefficient_of_variation(values: Sequence[float]) -> float:
    """Sample standard deviation (n - 1) over |mean|, in [0, inf): how far one captioner's value depends on the judge.

    NaN for fewer than two values, a mean of 0 (to within rounding), or NaN or infinity among the values.
    """
    found = np.asarray(values, dtype=np.float64)
    if len(found) < 2 or not np.isfinite(found).all():
        return math.nan
    mean = abs(math.fsum(found)) / len(found)
    vanishes = mean <= np.finfo(np.float64).eps * np.abs(found).max()
    return math.nan if vanishes else float(found.std(ddof=1) / mean)


def percent_reduction(x: float, y: float) -> float:
    """How much smaller ``y`` is than ``x``, in percent of ``x``: 100 (x - y) / x; negative where ``y`` is larger.

    NaN where ``x`` is 0, or either is NaN or infinite.
    """
    return 100 * (x - y) / x if x and math.isfinite(x) and math.isfinite(y) else math.nan


@dataclass(frozen=True, slots=True)
class JudgePair:
    """How far two judges of a metric agree on the amplifications of the captioners that both measured."""

    metric: Metric
    first: str
    second: str
    captioners: int
    conflict: float
    ranking: Correlation


@dataclass(frozen=True, slots=True)
class Variation:
    """How far a captioner's amplification depends on the judge: over two judges or more, their mean and ``cv``."""

    metric: Metric
    captioner: str
    judges: int
    mean: float
    cv: float


@dataclass(frozen=True, slots=True)
class HumanAlignment:
    """How far the amplifications of a metric, by one judge, agree with human scores over captioners."""

    metric: Metric
    judge: str
    alignment: Correlation


@dataclass(frozen=True, slots=True)
class Consistency:
    """The consistency tables of a run: empty for a run with one judge a metric, and without human scores."""

    pairs: tuple[JudgePair, ...]
    variations: tuple[Variation, ...]
    alignments: tuple[HumanAlignment, ...] = ()


def measure_consistency(summaries: Sequence[Summary], human: Mapping[str, float] | None = None) -> Consistency:
    """Every pair of judges of every metric, and every captioner that two judges or more have an amplification of.

    Every metric and judge is compared with the ``human`` scores of captioners, if given.
    """
    found = _amplifications(summaries)
    pairs, variations = [], []
    for metric in dict.fromkeys(metric for metric, _ in found):
        by_judge = {judge: of for (name, judge), of in found.items() if name == metric}
        for one, other in combinations(by_judge, 2):
            first, second = _in_both(by_judge[one], by_judge[other])
            if first:
                conflict = conflict_score(first, second, neutral=metric.neutral)
                pairs.append(JudgePair(metric, one, other, len(first), conflict, correlate(first, second)))
        for captioner in dict.fromkeys(name for values in by_judge.values() for name in values):
            values = [of[captioner] for of in by_judge.values() if captioner in of]
            if len(values) > 1:
                cv = coefficient_of_variation(values)
                variations.append(Variation(metric, captioner, len(values), float(np.mean(values)), cv))
    alignments = [HumanAlignment(*key, correlate(*_in_both(of, human))) for key, of in found.items()] if human else []
    return Consistency(tuple(pairs), tuple(variations), tuple(alignments))


@dataclass(frozen=True, slots=True)
class Agreement:
    """Correlation, over captioners, of the amplifications of a variant of a run with those of its first variant."""

    metric: Metric
    judge: str
    variant: str
    correlation: Correlation


def agreements(variants: Mapping[str, Sequence[Summary]], *, level: float = 0.95) -> list[Agreement]:
    """Every variant against the first, metric by metric and judge by judge."""
    first, *others = ((name, _amplifications(rows)) for name, rows in variants.items())
    return [
        Agreement(*key, name, correlate(*_in_both(values, of.get(key, {})), level=level))
        for key, values in first[1].items()
        for name, of in others
    ]


def _amplifications(rows: Sequence[Summary]) -> dict[tuple[Metric, str], dict[str, float]]:
    """(metric, judge) -> captioner -> amplification, without rows that have none."""
    found: dict[tuple[Metric, str], dict[str, float]] = {}
    for row in rows:
        if row.amplification is not None and not math.isnan(row.amplification):
            found.setdefault((row.metric, row.judge), {})[row.captioner] = row.amplification
    return found


def _in_both(one: Mapping[str, float], other: Mapping[str, float]) -> tuple[list[float], list[float]]:
    names = [name for name in one if name in other]
    return [one[name] for name in names], [other[name] for name in names]
