"""Conclusions from a table: verdicts, differences between captioners, and what is detectable."""

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import NamedTuple

from judge.metrics import Metric
from judge.statistics.inference import SIGNIFICANT, smallest_detectable, t_interval, t_test
from judge.statistics.summary import Summary, name_row
from judge.types import Interval

NO_VERDICT, PRIOR_ONLY, CANNOT_TELL = "no verdict", "prior only", "cannot tell"
AMPLIFIES, TELLS_LESS, LIKE_PERSON = "amplifies", "tells less than a person", "like a person"
ABOVE, BELOW = "above human captions", "below human captions"
ABOVE_CHANCE, BELOW_CHANCE = "above chance", "below chance"
NOT_SHOWN, NOT_SHOWN_CHANCE = "not shown to differ from human captions", "not shown to differ from chance"
# What a row is compared with -> verdicts on values above and below it, and on others.
_WORDS = {
    "gain": (AMPLIFIES, TELLS_LESS, CANNOT_TELL),
    "chance": (ABOVE_CHANCE, BELOW_CHANCE, NOT_SHOWN_CHANCE),
    "people": (ABOVE, BELOW, NOT_SHOWN),
}
HIGHER, LOWER = frozenset({AMPLIFIES, ABOVE, ABOVE_CHANCE}), frozenset({TELLS_LESS, BELOW, BELOW_CHANCE})
"""Verdicts on values that were shown to be above the neutral one, and below it."""
Key = tuple[str, str, str]
"""Captioner, metric and judge of a row."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One captioner against another, by one metric and judge.

    Attributes:
        value: amplification of the first less that of the second; interval, p and error are None where a row has none.
        p_holm: corrected for all differences of this metric and judge that are compared.
        paired: whether both were measured on the same images; else their errors are taken for independent.
        because: why a check voids the row of one of the two; "" where none does.
        prior_only: whether one of them moves by its prior alone.
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
    because: str = ""
    prior_only: bool = False
    left_out: int = 0

    @property
    def verdict(self) -> str | None:
        """Which is higher, by ``p_holm`` below 0.05; None without a test, "no verdict" where a row is void."""
        if self.p_holm is None:
            return None
        if self.because:
            return NO_VERDICT
        if self.p_holm >= SIGNIFICANT:
            return CANNOT_TELL
        return PRIOR_ONLY if self.prior_only else f"{self.first if self.value > 0 else self.second} higher"

    @property
    def title(self) -> str:
        """Metric and judge as tables name them."""
        return name_row(self.metric, self.judge)


@dataclass(frozen=True, slots=True)
class Conclusion:
    """The conclusion from a row of the table: a verdict of docs/trust.md, and its reason, a clause or "".

    ``detectable``: the smallest amplification that such data show with 80% power; it and verdict: None without a test.
    """

    verdict: str | None
    because: str
    detectable: float | None


class Pair(NamedTuple):
    """Two rows, of the images that both have, to compare.

    ``paired``: whether these are the same images; ``left_out``: number of images that one of the two alone has.
    """

    first: Summary
    second: Summary
    paired: bool = True
    left_out: int = 0


PairRows = Callable[[Summary, Summary], Pair | None]
"""Gives two rows of a metric and judge on the images that they share; None where they do not compare."""


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Holm's step-down correction (Scandinavian Journal of Statistics 1979) over those that are there, at most 1.

    >>> holm([0.01, None, 0.04, 0.03])
    [0.03, None, 0.06, 0.06]
    """
    order = sorted((p, place) for place, p in enumerate(p_values) if p is not None)
    found: list[float | None] = [None] * len(p_values)
    least = 0.0
    for rank, (p, place) in enumerate(order):
        least = max(least, min(1.0, p * (len(order) - rank)))
        found[place] = least
    return found


def conclude(
    summaries: Sequence[Summary], void: Mapping[Key, str] | None = None, *, small: float = 0.02
) -> list[Conclusion]:
    """The conclusion from each row of a table, which does not depend on the other rows.

    ``void``: key of a row -> why it has no verdict (:func:`judge.statistics.validity.void_rows`). ``small``: the
    largest amplification that is "like a person" by metrics of a gain.
    """
    return [_conclude(row, (void or {}).get(row.key, ""), small) for row in summaries]


def _conclude(row: Summary, void: str, small: float) -> Conclusion:
    tested = row.p_value is not None and row.standard_error
    detectable = smallest_detectable(tested, row.degrees) if tested else None
    if void:
        return Conclusion(NO_VERDICT, void, detectable)
    if row.p_value is None or row.amplification is None:
        return Conclusion(None, "", detectable)
    gain, rises = row.metric.score == "gain", row.amplification > row.metric.neutral
    against = "gain" if gain else "chance" if row.metric.amplification == "one_side" else "people"
    higher, lower, verdict = _WORDS[against]
    because = ""
    if row.p_value < SIGNIFICANT:
        verdict = PRIOR_ONLY if _is_of_prior(row, rises) else higher if rises else lower
    elif gain and row.interval and -small <= row.interval.low <= row.interval.high <= small:
        verdict, because = LIKE_PERSON, f"its interval lies within +-{small:g}"
    elif gain and detectable is not None:
        because = f"only an amplification of more than {detectable:.3f} would have been found"
    return Conclusion(verdict, because, detectable)


def _is_of_prior(row: Summary, rises: bool) -> bool:
    """Whether Q of a metric with priors does not move significantly, and the same way as the whole."""
    own = row.guessing
    moves = own is not None and own.p_value is not None and own.p_value < SIGNIFICANT
    return bool(row.metric.prior) and not (own and moves and (own.amplification > row.metric.neutral) == rises)


def differences(
    summaries: Sequence[Summary],
    pair: PairRows,
    *,
    level: float = 0.95,
    void: Mapping[Key, str] | None = None,
    cancels: Collection[Key] = (),
    baseline: str = "",
) -> list[Difference]:
    """All pairs of captioners, metric by metric and judge by judge; ``void`` is that of :func:`conclude`.

    ``cancels``: keys of void rows whose reason lies in the human captions alone. It does not void a difference between
    captioners of the same images, since both subtract the same human side. With a ``baseline``, each other captioner
    less that one, in place of all pairs.
    """
    void = void or {}
    concluded = zip(summaries, conclude(summaries, void), strict=True)
    prior_only = {row.key for row, of in concluded if of.verdict == PRIOR_ONLY}
    groups: dict[tuple[Metric, str], list[Summary]] = {}
    for row in summaries:
        if row.amplification is not None and math.isfinite(row.amplification):
            groups.setdefault((row.metric, row.judge), []).append(row)
    pairs = (pair(*rows) for of in groups.values() for rows in _pairs(of, baseline))
    return corrected(
        [
            replace(
                difference(first, second, same_images=paired, level=level),
                because=_because(first.key, second.key, void, cancels if paired else ()),
                prior_only=not prior_only.isdisjoint({first.key, second.key}),
                left_out=left_out,
            )
            for first, second, paired, left_out in filter(None, pairs)
        ]
    )


def _because(first: Key, second: Key, void: Mapping[Key, str], cancels: Collection[Key]) -> str:
    """The reason of the first row, else of the second, that voids their difference; "" without one."""
    return next((void[key] for key in (first, second) if key in void and key not in cancels), "")


def _pairs(rows: Sequence[Summary], baseline: str) -> Iterator[tuple[Summary, Summary]]:
    """All pairs of rows; with a baseline, those of it, where it is the second."""
    if not baseline:
        return iter(combinations(rows, 2))
    base = [row for row in rows if row.captioner == baseline]
    return ((row, of) for of in base for row in rows if row is not of)


def corrected(found: Sequence[Difference]) -> list[Difference]:
    """With p corrected within each metric and judge: it does not depend on which others are measured."""
    groups: dict[tuple[Metric, str], list[float | None]] = {}
    for row in found:
        groups.setdefault((row.metric, row.judge), []).append(row.p_value)
    p_values = {group: iter(holm(of)) for group, of in groups.items()}
    return [replace(row, p_holm=next(p_values[row.metric, row.judge])) for row in found]


def difference(first: Summary, second: Summary, *, same_images: bool, level: float = 0.95) -> Difference:
    """One captioner against another, from their values on the same parts of the data."""
    assert first.amplification is not None
    assert second.amplification is not None
    value = first.amplification - second.amplification
    one, other = first.replicates, second.replicates
    error, degrees, paired = None, min(first.degrees, second.degrees), False
    # The first halves of a captioner with more of them are those of the other.
    if (
        same_images
        and one
        and other
        and one.kind == other.kind
        and (one.kind == "half" or one.degrees == other.degrees)
    ):
        paired, degrees = True, min(degrees, one.degrees, other.degrees)
        # Each row's deviations are scaled as its own error is.
        gaps = [one.scale * a - other.scale * b for a, b in zip(one.values, other.values, strict=False)]
        error = replace(one, scale=1.0).error(gaps)
    elif first.standard_error is not None and second.standard_error is not None:
        error = math.hypot(first.standard_error, second.standard_error)
    names = first.metric, first.judge, first.captioner, second.captioner, value
    p_value = t_test(value, error, degrees) if error is not None and math.isfinite(error) and degrees else None
    if error is None or p_value is None:
        return Difference(*names, None, None, paired)
    return Difference(*names, t_interval(value, error, degrees, level), p_value, paired, error)
