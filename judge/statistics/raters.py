"""Do people who rated the same items agree? Krippendorff's alpha for names without order, and answers missing.

In closed form, not by the package `krippendorff`: that is under the GPL. Tests hold the two against each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from judge.statistics.shares import effective_interval
from judge.types import FloatArray, IntArray, Interval

# With fewer images that got another answer than the commonest one, 95% intervals of five raters held alpha in as few as
# half of the trials; with so many in about 95%, unless one answer is this common (scripts/bench_agreement.py).
LEAST_IMAGES = 10
_COMMON = 0.85
_NARROW = "the interval may be too narrow (of five raters such 95% intervals held alpha in 90% of trials)"


@dataclass(frozen=True, slots=True)
class RaterAgreement:
    """How far raters agree on one question.

    Attributes:
        alpha: Krippendorff's, nominal: 1 for perfect agreement, 0 for what chance gives, negative for less; None where
            no item has two answers, or all answers are the same.
        interval: for other items and the same raters; None where ``alpha`` is, and where fewer than ``LEAST_IMAGES``
            groups of items have another answer than the commonest one.
        items: with two answers or more, of which ``alpha`` is made.
        answers: to those items.
        note: why there is no alpha or no interval, or why the interval may be too narrow; None for nothing to say.
    """

    alpha: float | None
    interval: Interval | None
    items: int
    answers: int
    note: str | None = None


def krippendorff_alpha(votes: IntArray, groups: Sequence[str], *, level: float = 0.95) -> RaterAgreement:
    """Krippendorff's alpha of raters' answers (Content Analysis, 3rd edition 2013, chapter 12).

    alpha = 1 - Do / De. Do = sum_u d_u / n is the share of answers' pairs that differ, d_u = sum_{c != k} n_uc n_uk /
    (m_u - 1) over items u of m_u >= 2 answers, n_uc of them the answer c; De = sum_{c != k} n_c n_k / (n (n - 1)), with
    n_c and n the sums over these items.

    The interval is that of the share Do (:func:`effective_interval`), with the variance of alpha over groups, by the
    jackknife. (A percentile bootstrap has no width where all agree, and too little where few disagree.)

    Args:
        votes: how many raters gave each answer to each item, [items, choices].
        groups: what each item is of, such as its image, [items]: left out together.
        level: of the interval.
    """
    paired = votes.sum(axis=1) >= 2
    counts = votes[paired].astype(np.float64)
    if not len(counts):
        return RaterAgreement(None, None, 0, 0, "no caption has two raters")
    totals = counts.sum(axis=1)
    size = len(counts), int(totals.sum())
    differing = (totals**2 - (counts**2).sum(axis=1)) / (totals - 1)
    _, places = np.unique(np.asarray(groups)[paired], return_inverse=True)
    table = np.zeros((places.max() + 1, counts.shape[1] + 1))
    np.add.at(table, places, np.column_stack([differing, counts]))
    alpha, expected = (float(value) for value in _alpha(table.sum(axis=0)))
    if not expected:
        return RaterAgreement(None, None, *size, "all of their answers are the same")
    of_answers = table[:, 1:].sum(axis=0)
    others = int((np.delete(table[:, 1:], of_answers.argmax(), axis=1) > 0).any(axis=1).sum())
    if others < LEAST_IMAGES:
        why = f"images with another answer than the commonest one: {others}; an interval needs {LEAST_IMAGES}"
        return RaterAgreement(alpha, None, *size, why)
    one = of_answers.max() / size[1]
    note = f"one answer is {one:.0%} of all: {_NARROW}" if one > _COMMON else None
    pairs = int((totals * (totals - 1) / 2).sum())
    return RaterAgreement(alpha, _interval(table, pairs, level), *size, note)


def _interval(table: FloatArray, pairs: int, level: float) -> Interval:
    """Of groups' sums, [G, 1 + choices], and how many pairs of answers there are."""
    groups, sums = len(table), table.sum(axis=0)
    alpha, expected = (float(value) for value in _alpha(sums))
    without, _ = _alpha((sums - table).T)
    variance = (groups - 1) / groups * float(((without - without.mean()) ** 2).sum())
    observed = (1 - alpha) * expected
    share = effective_interval(observed, variance * expected**2, images=groups, most=pairs, level=level)
    return Interval(1 - share.high / expected, 1 - share.low / expected, level)


def _alpha(sums: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Sums, [1 + choices, ...]: d_u, and how often each answer was given -> alpha and De, [...]; NaN and 0 of one."""
    differing, counts = sums[0], sums[1:]
    total = counts.sum(axis=0)
    expected = (total**2 - (counts**2).sum(axis=0)) / (total * (total - 1))
    with np.errstate(invalid="ignore", divide="ignore"):
        return 1 - differing / total / expected, expected
