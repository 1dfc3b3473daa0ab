"""Conclusions from a table: verdicts, differences between captioners, and what is detectable."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import NamedTuple

from judge.metrics import Metric
from judge.statistics.inference import SIGNIFICANT, t_interval, t_test
from judge.statistics.summary import Summary, name_row
from judge.types import Interval

POWER = 0.8
NO_VERDICT, PRIOR_ONLY = "no verdict", "prior only"
Key = tuple[str, str, str]
"""Captioner, metric and judge of a row."""
# Verdict of a captioner -> the word for a difference between two.
_COMPARATIVE = {"amplifies": "more", "changes": "more"}


@dataclass(frozen=True, slots=True)
class Conclusion:
    """The conclusion from a row of the table.

    Attributes:
        p_holm: its p corrected for all tests of the table (Holm 1979); None without a test.
        verdict: by ``p_holm`` below 0.05; None without a test; "no verdict" where the run's own checks void the row.
            Of Multi->, which has no sign, "changes"; of metrics with priors "prior only" where Q, tested by itself,
            does not move the same way.
        detectable: the smallest amplification that such data show with 80% power; None where its error is not known.
        reason: why there is no verdict (:mod:`judge.statistics.validity`); None where nothing voids the row.
    """

    p_holm: float | None
    verdict: str | None
    detectable: float | None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Difference:
    """One captioner against another, by one metric and judge.

    Attributes:
        value: amplification of the first less that of the second.
        interval, p_value: as those of the table; None where a row has no standard error.
        p_holm: corrected for all differences that are compared.
        paired: whether both were measured on the same images; else their errors are taken for independent.
        reason: why there is no verdict, where a check voids the row of one of the two; else None.
        prior_only: whether the row of one of the two moves by its prior alone.
        left_out: images that one of the two alone was measured on: they are not in ``value``.
    """

    metric: Metric
    judge: str
    first: str
    second: str
    value: float
    interval: Interval | None
    p_value: float | None
    paired: bool
    standard_error: float | None = None
    p_holm: float | None = None
    reason: str | None = None
    prior_only: bool = False
    left_out: int = 0

    @property
    def verdict(self) -> str | None:
        """Which amplifies more, by ``p_holm`` below 0.05; None without a test, "no verdict" where a row is void."""
        if self.p_holm is None:
            return None
        if self.reason:
            return NO_VERDICT
        if self.p_holm >= SIGNIFICANT:
            return "cannot tell"
        if self.prior_only:
            return PRIOR_ONLY
        above, _ = self.metric.verdicts
        return f"{self.first if self.value > 0 else self.second} {_COMPARATIVE.get(above, above)}"

    @property
    def title(self) -> str:
        """Metric and judge as tables name them."""
        return name_row(self.metric, self.judge)


class Pair(NamedTuple):
    """Two rows, of the images that both have, to compare.

    ``paired``: whether these are the same images; ``left_out``: number of images that one of the two alone has.
    """

    first: Summary
    second: Summary
    paired: bool = True
    left_out: int = 0


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Holm's step-down correction (Scandinavian Journal of Statistics 1979) over those that are there, at most 1."""
    order = sorted((p, place) for place, p in enumerate(p_values) if p is not None)
    found: list[float | None] = [None] * len(p_values)
    least = 0.0
    for rank, (p, place) in enumerate(order):
        least = max(least, min(1.0, p * (len(order) - rank)))
        found[place] = least
    return found


def conclude(summaries: Sequence[Summary], reasons: Mapping[Key, str] | None = None) -> list[Conclusion]:
    """The conclusion from each row of a table; Holm's correction is over the table.

    ``reasons``: key of a row -> why it has no verdict (:func:`judge.statistics.validity.void_rows`).
    """
    from scipy import stats

    found, corrected, void = list[Conclusion](), holm([row.p_value for row in summaries]), reasons or {}
    for row, p in zip(summaries, corrected, strict=True):
        verdict = NO_VERDICT if row.key in void and p is not None else _verdict(row, p)
        detectable = None
        if row.standard_error and row.critical is not None:
            # From ``critical`` on a value is significant; this much further, four values in five of the same truth are.
            detectable = row.critical + float(stats.t.ppf(POWER, row.degrees)) * row.standard_error
        found.append(Conclusion(p, verdict, detectable, void.get(row.key)))
    return found


def _verdict(row: Summary, p_holm: float | None) -> str | None:
    if p_holm is None or row.amplification is None:
        return None
    if p_holm >= SIGNIFICANT:
        return "cannot tell"
    above, below = row.metric.verdicts
    # The chance level of counted metrics has been subtracted.
    known = None if row.metric.counted else row.chance_level
    rises = row.amplification > (row.metric.neutral if known is None else known)
    if row.metric.prior:
        # Q must move significantly, and the same way as the whole.
        own = row.guessing
        if own is None or own.p_value is None or own.p_value >= SIGNIFICANT:
            return PRIOR_ONLY
        if (own.amplification > own.chance_level) != rises:
            return PRIOR_ONLY
    return above if rises else below


def differences(
    summaries: Sequence[Summary],
    pair: Callable[[Summary, Summary], Pair | None],
    *,
    level: float = 0.95,
    reasons: Mapping[Key, str] | None = None,
) -> list[Difference]:
    """All pairs of captioners, metric by metric and judge by judge; names of captioners differ.

    ``pair`` gives two rows on the images that they share; None where they do not compare. ``reasons``: see
    :func:`conclude`.
    """
    void = reasons or {}
    concluded = zip(summaries, conclude(summaries, void), strict=True)
    prior_only = {row.key for row, of in concluded if of.verdict == PRIOR_ONLY}
    groups: dict[tuple[Metric, str], list[Summary]] = {}
    for row in summaries:
        if row.amplification is not None and math.isfinite(row.amplification):
            groups.setdefault((row.metric, row.judge), []).append(row)
    pairs = (pair(*rows) for of in groups.values() for rows in combinations(of, 2))
    return corrected(
        [
            replace(
                difference(first, second, same_images=paired, level=level),
                reason=void.get(first.key) or void.get(second.key),
                prior_only=not prior_only.isdisjoint({first.key, second.key}),
                left_out=left_out,
            )
            for first, second, paired, left_out in filter(None, pairs)
        ]
    )


def corrected(found: Sequence[Difference]) -> list[Difference]:
    """With p corrected for all of them."""
    p_values = holm([row.p_value for row in found])
    return [replace(row, p_holm=p) for row, p in zip(found, p_values, strict=True)]


def difference(first: Summary, second: Summary, *, same_images: bool, level: float = 0.95) -> Difference:
    """One captioner against another, from their values on the same parts of the data."""
    assert first.amplification is not None
    assert second.amplification is not None
    value = first.amplification - second.amplification
    one, other = first.replicates, second.replicates
    paired = bool(same_images and one and other and (one.kind, len(one.values)) == (other.kind, len(other.values)))
    error, degrees = None, min(first.degrees, second.degrees)
    if paired and one and other:
        gaps = [a - b for a, b in zip(one.values, other.values, strict=True)]
        error = max(one.error(gaps), other.error(gaps))
    elif first.standard_error is not None and second.standard_error is not None:
        error = math.hypot(first.standard_error, second.standard_error)
    names = first.metric, first.judge, first.captioner, second.captioner, value
    if error is None or not math.isfinite(error) or not degrees:
        return Difference(*names, None, None, paired)
    interval, p_value = t_interval(value, error, degrees, level), t_test(value, error, degrees)
    return Difference(*names, interval, p_value, paired, error)
