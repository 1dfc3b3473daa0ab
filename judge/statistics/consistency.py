"""Do judges agree? Conflict of sign, consistency of ranking, variation, and how far a metric goes with people.

Conflict score and ranking consistency: Abdelrahman et al. 2024 (ImageCaptioner2), section 5.5. Coefficient of
variation and its reduction: Nair et al. 2026 (DBAC), Table 5. Human alignment: ImageCaptioner2, Table 5. What is not
defined is NaN; each function says when.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from judge.metrics import Metric
from judge.statistics.correlation import Correlation, correlate
from judge.statistics.summary import Summary


def conflict_score(a: Sequence[float], b: Sequence[float], *, neutral: float = 0.0) -> float:
    """Share, in [0, 1], of captioners that one judge calls biased and the other does not.

    Biased is a value above ``neutral``, as in the paper ("positive means biased"): no amplification at all counts as
    not biased, with the values below it. The paper gives the share in percent.

    Args:
        a: the first judge's amplifications, one per captioner.
        b: the second judge's, of the same captioners in the same order.
        neutral: the value that means no amplification; 1 for ratios.

    Returns:
        NaN without captioners, or where a value is NaN (that judge came to no conclusion).

    Raises:
        ValueError: the lists differ in length.
    """
    if len(a) != len(b):
        raise ValueError(f"{len(a)} and {len(b)} values")
    if len(a) == 0 or np.isnan([*a, *b]).any():
        return math.nan
    return float(np.mean((np.asarray(a) > neutral) != (np.asarray(b) > neutral)))


def ranking_consistency(a: Sequence[float], b: Sequence[float]) -> float:
    """Pearson's correlation, in [-1, 1], of two judges' amplifications over captioners; 1 means one ranking.

    Returns:
        NaN for fewer than three captioners, where a list is constant (to the last digits), or holds NaN or infinity.

    Raises:
        ValueError: the lists differ in length.
    """
    found = correlate(a, b).pearson
    return math.nan if found is None else found


def human_alignment(values: Sequence[float], human: Sequence[float]) -> float:
    """Pearson's correlation, in [-1, 1], of a metric's values with people's score of the same captioners.

    NaN as for :func:`ranking_consistency`.

    Raises:
        ValueError: the lists differ in length.
    """
    return ranking_consistency(values, human)


def coefficient_of_variation(values: Sequence[float]) -> float:
    """Sample standard deviation over |mean|, in [0, inf): how far one captioner's value depends on the judge.

    With n - 1 below the root: so DBAC's Table 5 was made. Of a mean near 0 it says little, however small the values.

    Returns:
        NaN for fewer than two values, a mean of 0 (to within rounding), or NaN or infinity among the values.
    """
    found = np.asarray(values, dtype=np.float64)
    if len(found) < 2 or not np.isfinite(found).all():
        return math.nan
    mean = abs(math.fsum(found)) / len(found)
    if mean <= np.finfo(np.float64).eps * np.abs(found).max():
        return math.nan
    return float(found.std(ddof=1) / mean)


def percent_reduction(x: float, y: float) -> float:
    """How much smaller ``y`` is than ``x``, in percent of ``x``: 100 (x - y) / x. DBAC, Table 5.

    For the coefficients of variation that it is made for, at most 100; negative where ``y`` is larger.

    Returns:
        NaN where ``x`` is 0, or either is NaN or infinite.
    """
    if x == 0 or not math.isfinite(x) or not math.isfinite(y):
        return math.nan
    return 100 * (x - y) / x


@dataclass(frozen=True, slots=True)
class JudgePair:
    """How far two judges of a metric agree over captioners.

    Attributes:
        metric: by which.
        first, second: the judges.
        captioners: how many both have an amplification of.
        conflict: see :func:`conflict_score`.
        ranking: of the amplifications; its ``pearson`` is :func:`ranking_consistency`, None where that is NaN.
    """

    metric: Metric
    first: str
    second: str
    captioners: int
    conflict: float
    ranking: Correlation


@dataclass(frozen=True, slots=True)
class Variation:
    """How far a captioner's amplification depends on the judge.

    Attributes:
        metric, captioner: of which row.
        judges: how many have an amplification of it; at least two.
        mean: of the amplifications.
        cv: see :func:`coefficient_of_variation`; NaN where that is.
    """

    metric: Metric
    captioner: str
    judges: int
    mean: float
    cv: float


@dataclass(frozen=True, slots=True)
class HumanAlignment:
    """How far a metric, by one judge, agrees with people over captioners.

    Attributes:
        metric, judge: of which row.
        alignment: of the amplifications with people's scores; its ``pearson`` is :func:`human_alignment`, None where
            that is NaN.
    """

    metric: Metric
    judge: str
    alignment: Correlation


@dataclass(frozen=True, slots=True)
class Consistency:
    """The consistency tables of a run: empty for a run with one judge a metric, and without people's scores."""

    pairs: tuple[JudgePair, ...]
    variations: tuple[Variation, ...]
    alignments: tuple[HumanAlignment, ...] = ()


def measure_consistency(summaries: Sequence[Summary], human: Mapping[str, float] | None = None) -> Consistency:
    """Every pair of judges of every metric, and every captioner that two judges or more have an amplification of.

    Where people's scores of the captioners are given (``human``), every metric and judge is compared with them.

    Metrics, judges and captioners stand in order of appearance. Rows without an amplification (a metric of one side,
    NaN) are left out, and so are pairs of judges without a captioner in common.
    """
    by_metric: dict[Metric, dict[str, dict[str, float]]] = {}
    for row in summaries:
        if row.amplification is not None and not math.isnan(row.amplification):
            by_metric.setdefault(row.metric, {}).setdefault(row.judge, {})[row.captioner] = row.amplification
    pairs: list[JudgePair] = []
    variations: list[Variation] = []
    for metric, by_judge in by_metric.items():
        found = (_pair(metric, judges, by_judge) for judges in combinations(by_judge, 2))
        pairs += [pair for pair in found if pair.captioners]
        variations += _variations(metric, by_judge)
    alignments = [
        HumanAlignment(metric, judge, correlate(list(of.values()), [human[name] for name in of]))
        for metric, by_judge in by_metric.items()
        for judge, of in by_judge.items()
        if human
    ]
    return Consistency(tuple(pairs), tuple(variations), tuple(alignments))


def _pair(metric: Metric, judges: tuple[str, str], by_judge: Mapping[str, Mapping[str, float]]) -> JudgePair:
    a, b = (by_judge[judge] for judge in judges)
    both = [name for name in a if name in b]
    first, second = [a[name] for name in both], [b[name] for name in both]
    conflict = conflict_score(first, second, neutral=metric.neutral)
    return JudgePair(metric, *judges, len(both), conflict, correlate(first, second))


def _variations(metric: Metric, by_judge: Mapping[str, Mapping[str, float]]) -> list[Variation]:
    found = []
    for captioner in dict.fromkeys(name for values in by_judge.values() for name in values):
        values = [of[captioner] for of in by_judge.values() if captioner in of]
        if len(values) > 1:
            cv = coefficient_of_variation(values)
            found.append(Variation(metric, captioner, len(values), float(np.mean(values)), cv))
    return found
