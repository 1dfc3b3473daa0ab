"""Do people who rated the same items agree? Krippendorff's alpha for names without order, and answers missing.

In closed form, not by the package `krippendorff`: that is under the GPL. Tests hold the two against each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from judge.statistics.intervals import bootstrap_pooled
from judge.types import FloatArray, IntArray, Interval


@dataclass(frozen=True, slots=True)
class RaterAgreement:
    """How far raters agree on one question.

    Attributes:
        alpha: Krippendorff's, nominal: 1 for perfect agreement, 0 for what chance gives, negative for less; None where
            no item has two answers, or all answers are the same.
        interval: bootstrap over groups of items; None where ``alpha`` is, where there is a single group, or where all
            answers of a resample are the same.
        items: with two answers or more, of which ``alpha`` is made.
        answers: to those items.
    """

    alpha: float | None
    interval: Interval | None
    items: int
    answers: int


def krippendorff_alpha(
    votes: IntArray,
    groups: Sequence[str],
    *,
    generator: np.random.Generator,
    resamples: int = 2000,
    level: float = 0.95,
) -> RaterAgreement:
    """Krippendorff's alpha of raters' answers (Content Analysis, 3rd edition 2013, chapter 12).

    alpha = 1 - (n - 1) sum_u d_u / sum_{c != k} n_c n_k, where d_u = sum_{c != k} n_uc n_uk / (m_u - 1) over items u of
    m_u >= 2 answers, n_uc of them the answer c; n_c and n are sums over these items.

    Args:
        votes: how many raters gave each answer to each item, [items, choices].
        groups: what each item is of, such as its image, [items]: resampled together.
        generator: of the resamples.
        resamples: how many.
        level: of the interval.
    """
    paired = votes.sum(axis=1) >= 2
    counts = votes[paired].astype(np.float64)
    if not len(counts):
        return RaterAgreement(None, None, 0, 0)
    totals = counts.sum(axis=1)
    differing = (totals**2 - (counts**2).sum(axis=1)) / (totals - 1)
    _, places = np.unique(np.asarray(groups)[paired], return_inverse=True)
    table = np.zeros((places.max() + 1, counts.shape[1] + 1))
    np.add.at(table, places, np.column_stack([differing, counts]))
    alpha = float(_alpha(table.sum(axis=0))[0])
    items, answers = len(counts), int(totals.sum())
    if np.isnan(alpha):
        return RaterAgreement(None, None, items, answers)
    (interval,) = bootstrap_pooled(table, _alpha, generator=generator, resamples=resamples, level=level)
    return RaterAgreement(alpha, interval, items, answers)


def _alpha(sums: FloatArray) -> FloatArray:
    """[1 + choices, ...]: differing pairs, and how often each answer was given -> [1, ...]; NaN if all are one."""
    differing, counts = sums[0], sums[1:]
    total = counts.sum(axis=0)
    by_chance = total**2 - (counts**2).sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        found = 1 - (total - 1) * differing / by_chance
    return np.where(by_chance > 0, found, np.nan)[None]
