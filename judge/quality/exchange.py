"""Permutation tests of caption quality: classes are exchanged among images, by scipy, or among scenes."""

from collections.abc import Sequence

import numpy as np

from judge.quality.library import Part
from judge.types import FloatArray, IntArray

# Numbers that a batch of permutations gathers: 80 MB.
_CELLS = 10_000_000


def values_of(part: Part, rows: IntArray) -> FloatArray:
    """The V scores of ``rows``, [..., n], of the part's table: [..., V]."""
    return np.moveaxis(part.pool(np.moveaxis(part.table[rows].sum(axis=-2), -1, 0)), 0, -1)


def exchange_p(
    part: Part,
    groups: Sequence[IntArray],
    *,
    generator: np.random.Generator,
    resamples: int,
    units: IntArray | None = None,
) -> list[float | None]:
    """The p-value of the largest gap between ``groups`` of images, for each score; None where it has no value.

    Images are exchanged among groups, or within ``units``, [N], that have images of several groups, else whole units.
    """
    from scipy import stats

    if units is not None:
        return _exchange_units(part, groups, units, generator, resamples)

    # Scipy permutes along the last axis, and wants an array for each score.
    def gap(*rows: IntArray, axis: int) -> FloatArray:
        return np.asarray(np.ptp([values_of(part, of[..., 0, :]) for of in rows], axis=0))

    found = stats.permutation_test(
        [np.broadcast_to(rows, (len(part.names), len(rows))) for rows in groups],
        gap,
        permutation_type="independent",
        alternative="greater",
        n_resamples=resamples,
        batch=max(1, _CELLS // (sum(map(len, groups)) * part.table.shape[1])),
        vectorized=True,
        axis=-1,
        rng=generator,
    )
    known = np.isfinite(found.statistic)
    return [float(p) if ok else None for p, ok in zip(found.pvalue, known, strict=True)]


def _exchange_units(
    part: Part, groups: Sequence[IntArray], units: IntArray, generator: np.random.Generator, resamples: int
) -> list[float | None]:
    """The same for units."""
    rows, group = np.concatenate(groups), np.repeat(range(len(groups)), [len(of) for of in groups])
    first, unit = np.unique(units[rows], return_index=True, return_inverse=True)[1:]
    mixed, places = (group[first][unit] != group).any(), np.argsort(unit, kind="stable")

    def move() -> IntArray:
        if not mixed:
            return np.asarray(group[first][generator.permutation(len(first))][unit])
        moved = np.empty_like(group)
        moved[places] = group[np.lexsort((generator.random(len(unit)), unit))]
        return moved

    def measure(group: IntArray) -> FloatArray:
        return np.asarray(np.ptp([values_of(part, rows[group == k]) for k in range(len(groups))], axis=0))

    observed, draws = measure(group), [measure(move()) for _ in range(resamples)]
    # Sums in another order differ by less.
    reached = np.abs(draws) >= np.abs(observed) * (1 - 1e-12)
    p_values = (1 + reached.sum(axis=0)) / (resamples + 1)
    return [float(p) if np.isfinite(value) else None for p, value in zip(p_values, observed, strict=True)]
