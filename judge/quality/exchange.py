"""Permutation tests of caption quality, by scipy: classes or captioners are exchanged among images."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from judge.quality.library import Part
from judge.types import FloatArray, IntArray

# Numbers that a batch of permutations gathers: 80 MB.
_CELLS = 10_000_000


def values_of(part: Part, rows: IntArray) -> FloatArray:
    """The V scores of ``rows``, [..., n], of the part's table: [..., V]."""
    return np.moveaxis(part.pool(np.moveaxis(part.table[rows].sum(axis=-2), -1, 0)), 0, -1)


def exchange_p(
    parts: Sequence[Part], groups: Sequence[IntArray], *, generator: np.random.Generator, resamples: int
) -> list[float | None]:
    """The p-value of each score; None where it has no value.

    One part: tests the largest gap between ``groups`` of images, by exchanging the groups of images. Two captioners'
    parts, of the same images: tests their difference (one group) or the difference between their largest gaps, by
    exchanging the two captions of an image; two-sided. The tests are exact, but for the number of ``resamples``, if
    images, or the captions of an image, are exchangeable.
    """
    from scipy import stats

    part = Part(parts[0].names, np.vstack([of.table for of in parts]), parts[0].pool)
    ends = np.cumsum([len(rows) for rows in groups])[:-1]

    # Scipy permutes along the last axis, and wants an array for each score.
    def gap(*rows: IntArray, axis: int) -> FloatArray:
        return np.asarray(np.ptp([values_of(part, of[..., 0, :]) for of in rows], axis=0))

    def less(first: IntArray, second: IntArray, axis: int) -> FloatArray:
        if len(groups) == 1:
            return values_of(part, first[..., 0, :]) - values_of(part, second[..., 0, :])
        one, other = (gap(*np.split(of, ends, axis=-1), axis=axis) for of in (first, second))
        return one - other

    chosen = np.concatenate(groups)
    data, how = [chosen, chosen + len(parts[0].table)], dict[str, Any](permutation_type="samples")
    if len(parts) == 1:
        data, how = [*groups], {"permutation_type": "independent", "alternative": "greater"}
    found = stats.permutation_test(
        [np.broadcast_to(rows, (len(part.names), len(rows))) for rows in data],
        gap if len(parts) == 1 else less,
        n_resamples=resamples,
        batch=max(1, _CELLS // (len(chosen) * part.table.shape[1])),
        vectorized=True,
        axis=-1,
        rng=generator,
        **how,
    )
    known = np.isfinite(found.statistic)
    return [float(p) if ok else None for p, ok in zip(found.pvalue, known, strict=True)]
