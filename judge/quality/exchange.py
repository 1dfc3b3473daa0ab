"""Permutation tests of caption quality: classes or captioners are exchanged among images; by scipy, or among scenes."""

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
    parts: Sequence[Part],
    groups: Sequence[IntArray],
    *,
    generator: np.random.Generator,
    resamples: int,
    units: IntArray | None = None,
) -> list[float | None]:
    """The p-value of each score; None where it has no value.

    One part: tests the largest gap between ``groups`` of images, by exchanging the groups of images. Two captioners'
    parts, of the same images: tests their difference (one group) or the difference between their largest gaps, by
    exchanging the two captions of an image; two-sided. The tests are exact, but for the number of ``resamples``, if
    images, or the captions of an image, are exchangeable. Where images are of ``units``, [N], these are exchanged: the
    two captioners of all images of a unit, and the groups within units if units have images of several, else of units.
    """
    from scipy import stats

    if units is not None:
        return _exchange_units(parts, groups, units, generator, resamples)
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


def _exchange_units(
    parts: Sequence[Part], groups: Sequence[IntArray], units: IntArray, generator: np.random.Generator, resamples: int
) -> list[float | None]:
    """The same for units."""
    rows = np.concatenate(groups)
    tables, group = [part.table[rows] for part in parts], np.repeat(range(len(groups)), [len(of) for of in groups])
    first, unit = np.unique(units[rows], return_index=True, return_inverse=True)[1:]
    mixed, places = (group[first][unit] != group).any(), np.argsort(unit, kind="stable")

    def move() -> IntArray:
        if not mixed:
            return np.asarray(group[first][generator.permutation(len(first))][unit])
        moved = np.empty_like(group)
        moved[places] = group[np.lexsort((generator.random(len(unit)), unit))]
        return moved

    def measure(group: IntArray, swap: IntArray) -> FloatArray:
        sides = [np.where(swap[:, None], other, table) for table, other in zip(tables, tables[::-1], strict=True)]
        values = [[parts[0].pool(of[group == k].sum(axis=0)) for k in range(len(groups))] for of in sides]
        found = [of[0] if len(groups) == 1 else np.ptp(of, axis=0) for of in values]
        return np.asarray(np.subtract.reduce(found) if len(parts) > 1 else found[0])

    same = np.zeros_like(unit)
    observed, draws = measure(group, same), []
    for _ in range(resamples):
        swap = generator.integers(2, size=len(first))[unit] if len(parts) > 1 else same
        draws.append(measure(group if len(parts) > 1 else move(), swap))
    # Sums in another order differ by less.
    reached = np.abs(draws) >= np.abs(observed) * (1 - 1e-12)
    p_values = (1 + reached.sum(axis=0)) / (resamples + 1)
    return [float(p) if np.isfinite(value) else None for p, value in zip(p_values, observed, strict=True)]
