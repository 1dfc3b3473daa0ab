"""Conclusions from a table: verdicts, differences between captioners, and what is detectable."""

import math
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from types import MappingProxyType
from typing import NamedTuple

from judge.metrics import Metric
from judge.statistics.inference import SIGNIFICANT, smallest_detectable, t_interval, t_test
from judge.statistics.summary import Summary, name_row
from judge.types import Interval

NO_VERDICT, PRIOR_ONLY, CANNOT_TELL = "no verdict", "prior only", "cannot tell"
LIKE_TYPICAL, ABOVE, BELOW = "like a typical person", "above human captions", "below human captions"
Key = tuple[str, str, str]
"""Captioner, metric and judge of a row."""
# Verdicts below human captions that say nothing against a captioner, and so need no typical person.
_NO_FAULT = {"mitigates", "errs less"}
# Verdict of a captioner -> the word for a difference between two.
_COMPARATIVE = {"amplifies": "more", "changes": "more"}


@dataclass(frozen=True, slots=True)
class Difference:
    """One captioner against another, by one metric and judge.

    Attributes:
        value: amplification of the first less that of the second; interval, p and error are None where a row has none.
        p_holm: corrected for all differences of this metric and judge that are compared.
        paired: whether both were measured on the same images; else their errors are taken for independent.
        reason, prior_only: why a check voids the row of one of the two, or their difference; whether one of them moves
            by its prior alone.
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
            return CANNOT_TELL
        if self.prior_only:
            return PRIOR_ONLY
        above, _ = self.metric.verdicts
        return f"{self.first if self.value > 0 else self.second} {_COMPARATIVE.get(above, above)}"

    @property
    def title(self) -> str:
        """Metric and judge as tables name them."""
        return name_row(self.metric, self.judge)


@dataclass(frozen=True, slots=True)
class Conclusion:
    """The conclusion from a row of the table.

    Attributes:
        p_holm: its p corrected for the captioners that have a row of this metric and judge (Holm 1979); None without a
            test, and of the typical person.
        verdict: as docs/trust.md lists them; None without ``p_holm``. Metrics have words of their own for "amplifies"
            and "mitigates" (``Metric.verdicts``); those of one side are "above chance" or "below chance", whatever a
            typical person is. Of Ratio and Multi neither direction is the better one: both must go beyond the typical
            person.
        detectable: the smallest amplification that such data show above human captions with 80% power, at the level of
            the least p of as many captioners; None without a test.
        reason: why there is no verdict (:mod:`judge.statistics.validity`); None where nothing voids the row.
        beyond: captioner less typical person, with ``p_holm`` corrected as above; None where nothing compares.
    """

    p_holm: float | None
    verdict: str | None
    detectable: float | None
    reason: str | None = None
    beyond: Difference | None = None


class Pair(NamedTuple):
    """Two rows, of the images that both have, to compare.

    ``paired``: whether these are the same images; ``left_out``: number of images that one of the two alone has;
    ``reason``: why there is no verdict on which amplifies more.
    """

    first: Summary
    second: Summary
    paired: bool = True
    left_out: int = 0
    reason: str | None = None


PairRows = Callable[[Summary, Summary], Pair | None]
"""Gives two rows of a metric and judge on the images that they share; None where they do not compare."""


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Holm's step-down correction (Scandinavian Journal of Statistics 1979) over those that are there, at most 1."""
    order = sorted((p, place) for place, p in enumerate(p_values) if p is not None)
    found: list[float | None] = [None] * len(p_values)
    least = 0.0
    for rank, (p, place) in enumerate(order):
        least = max(least, min(1.0, p * (len(order) - rank)))
        found[place] = least
    return found


def _holm_within(groups: Sequence[Hashable], p_values: Sequence[float | None]) -> list[float | None]:
    """Holm's correction within each group, so that p of one metric does not depend on which others are measured."""
    found: list[float | None] = [None] * len(p_values)
    for group in dict.fromkeys(groups):
        places = [place for place, of in enumerate(groups) if of == group]
        for place, p in zip(places, holm([p_values[place] for place in places]), strict=True):
            found[place] = p
    return found


def conclude(
    summaries: Sequence[Summary],
    reasons: Mapping[Key, str] | None = None,
    *,
    people: Collection[str] = (),
    typical: Mapping[Key, str] = MappingProxyType({}),
    pair: PairRows | None = None,
    level: float = 0.95,
) -> list[Conclusion]:
    """The conclusion from each row of a table; Holm's correction is over the captioners of a metric and judge.

    ``reasons``: key of a row -> why it has no verdict (:func:`judge.statistics.validity.void_rows`). ``people``: the
    typical persons of the table; ``typical``: key of a row -> that of its captioner. ``pair`` gives two rows on the
    images that they share. ``level`` is that of the intervals of ``Conclusion.beyond``.
    """
    void = reasons or {}
    kinds = [row.key[1:] for row in summaries]
    corrected = _holm_within(kinds, [None if row.captioner in people else row.p_value for row in summaries])
    beyond = [*_beyond(summaries, typical, pair, level)] if pair else [None] * len(summaries)
    corrected_beyond = _holm_within(kinds, [of.p_value if of else None for of in beyond])
    found = list[Conclusion]()
    for row, p, known, p_beyond in zip(summaries, corrected, beyond, corrected_beyond, strict=True):
        other = known and replace(known, p_holm=p_beyond)
        verdict = NO_VERDICT if row.key in void and p is not None else _verdict(row, p, other)
        family = sum(of is not None for kind, of in zip(kinds, corrected, strict=True) if kind == row.key[1:])
        tested = row.p_value is not None and row.standard_error
        detectable = smallest_detectable(tested, row.degrees, family or 1) if tested else None
        found.append(Conclusion(p, verdict, detectable, void.get(row.key), other))
    return found


def _beyond(
    summaries: Sequence[Summary], typical: Mapping[Key, str], pair: PairRows, level: float
) -> Iterator[Difference | None]:
    """Each captioner less its typical person; None where one of them was measured on less than half of the images.

    Metrics of captions that name one class are of other images for each captioner: errors are then independent.
    """
    rows = {row.key: row for row in summaries}
    for row in summaries:
        other = rows.get((typical.get(row.key, ""), *row.key[1:]))
        pairs = pair(row, other) if other and _has_value(row) and _has_value(other) else None
        if pairs and 2 * min(of.images for of in pairs[:2]) >= max(of.images for of in pairs[:2]):
            found = difference(pairs.first, pairs.second, same_images=pairs.paired, level=level)
            yield replace(found, left_out=pairs.left_out)
        else:
            yield None


def _has_value(row: Summary) -> bool:
    return row.amplification is not None and math.isfinite(row.amplification)


def _verdict(row: Summary, p_holm: float | None, beyond: Difference | None) -> str | None:
    if p_holm is None or row.amplification is None:
        return None
    (above, below), neutral = row.metric.verdicts, row.metric.neutral
    rises = row.amplification > neutral
    if p_holm >= SIGNIFICANT:
        return CANNOT_TELL
    if row.metric.prior:
        # Q must move significantly, and the same way as the whole.
        own = row.guessing
        if own is None or own.p_value is None or own.p_value >= SIGNIFICANT or (own.amplification > neutral) != rises:
            return PRIOR_ONLY
    compared = row.metric.amplification != "one_side"
    if compared and (rises or below not in _NO_FAULT):
        if beyond is None or beyond.p_holm is None:
            return ABOVE if rises else BELOW
        if beyond.p_holm >= SIGNIFICANT or (beyond.value > 0) != rises:
            return LIKE_TYPICAL
    return above if rises else below


def differences(
    summaries: Sequence[Summary],
    pair: PairRows,
    *,
    level: float = 0.95,
    reasons: Mapping[Key, str] | None = None,
    baseline: str = "",
) -> list[Difference]:
    """All pairs of captioners, metric by metric and judge by judge; arguments are those of :func:`conclude`.

    With a ``baseline``, each other captioner less that one, in place of all pairs.
    """
    void = reasons or {}
    concluded = zip(summaries, conclude(summaries, void), strict=True)
    prior_only = {row.key for row, of in concluded if of.verdict == PRIOR_ONLY}
    groups: dict[tuple[Metric, str], list[Summary]] = {}
    for row in summaries:
        if _has_value(row):
            groups.setdefault((row.metric, row.judge), []).append(row)
    pairs = (pair(*rows) for of in groups.values() for rows in _pairs(of, baseline))
    return corrected(
        [
            replace(
                difference(first, second, same_images=paired, level=level),
                reason=void.get(first.key) or void.get(second.key) or reason,
                prior_only=not prior_only.isdisjoint({first.key, second.key}),
                left_out=left_out,
            )
            for first, second, paired, left_out, reason in filter(None, pairs)
        ]
    )


def _pairs(rows: Sequence[Summary], baseline: str) -> Iterator[tuple[Summary, Summary]]:
    """All pairs of rows; with a baseline, those of it, where it is the second."""
    if not baseline:
        return iter(combinations(rows, 2))
    base = [row for row in rows if row.captioner == baseline]
    return ((row, of) for of in base for row in rows if row is not of)


def corrected(found: Sequence[Difference]) -> list[Difference]:
    """With p corrected for all of the same metric and judge."""
    p_values = _holm_within([(row.metric, row.judge) for row in found], [row.p_value for row in found])
    return [replace(row, p_holm=p) for row, p in zip(found, p_values, strict=True)]


def difference(first: Summary, second: Summary, *, same_images: bool, level: float = 0.95) -> Difference:
    """One captioner against another, from their values on the same parts of the data."""
    assert first.amplification is not None
    assert second.amplification is not None
    value = first.amplification - second.amplification
    one, other = first.replicates, second.replicates
    paired = bool(same_images and one and other and (one.kind, len(one.values)) == (other.kind, len(other.values)))
    error, degrees = None, min(first.degrees, second.degrees, *(of.degrees for of in (one, other) if paired and of))
    if paired and one and other:
        # Each row's deviations are scaled as its own error is.
        gaps = [one.scale * a - other.scale * b for a, b in zip(one.values, other.values, strict=True)]
        error = replace(one, scale=1.0).error(gaps)
    elif first.standard_error is not None and second.standard_error is not None:
        error = math.hypot(first.standard_error, second.standard_error)
    names = first.metric, first.judge, first.captioner, second.captioner, value
    p_value = t_test(value, error, degrees) if error is not None and math.isfinite(error) and degrees else None
    if error is None or p_value is None:
        return Difference(*names, None, None, paired)
    return Difference(*names, t_interval(value, error, degrees, level), p_value, paired, error)
