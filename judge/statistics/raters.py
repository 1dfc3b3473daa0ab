"""Agreement of raters: Krippendorff's alpha for nominal data, with any answers missing.

In closed form, not by the package `krippendorff`, which is under the GPL; tests compare the two.
"""

from __future__ import annotations

from judge.types import IntArray


def krippendorff_alpha(votes: IntArray) -> float | None:
    """Krippendorff's alpha of raters' answers (Content Analysis, 3rd edition 2013, chapter 12).

    alpha = 1 - Do / De. Do = sum_u d_u / n is the share of pairs of answers that differ, d_u = sum_{c != k} n_uc n_uk /
    (m_u - 1) over items u of m_u >= 2 answers, n_uc of them the answer c; De = sum_{c != k} n_c n_k / (n (n - 1)), with
    n_c and n the sums over these items.

    Args:
        votes: how many raters gave each answer to each item, [items, answers].

    Returns:
        1 for perfect agreement, 0 for chance, negative for less; None where no item has two answers, or all answers are
        the same.
    """
    counts = votes[votes.sum(axis=1) >= 2]
    totals, of_answers = counts.sum(axis=1), counts.sum(axis=0)
    number = int(totals.sum())
    expected = number**2 - int((of_answers**2).sum())
    if not expected:
        return None
    observed = float(((totals**2 - (counts**2).sum(axis=1)) / (totals - 1)).sum())
    return 1 - observed * (number - 1) / expected
