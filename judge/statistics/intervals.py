"""Intervals and tests over images. The generator is always the caller's."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from judge.types import FloatArray, Interval

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Statistic = Callable[[FloatArray], FloatArray]
"""Means of the two sides' columns, [2, S, ...], or other sums -> the value(s), [...]."""

# Rows of a batch of resamples: about 10 MB of indices, whatever the number of images.
_CELLS = 1_000_000


@dataclass(frozen=True, slots=True)
class Sides:
    """Paired quantities by class; within a class, column i is one image on both sides.

    Attributes:
        sums: per class, [2, S, n]: the S columns (``scores.Score.columns``) of each image's human and generated
            captions, summed over the seeds that scored it.
        trials: per class, [n]: how many seeds scored it.
    """

    sums: tuple[FloatArray, ...]
    trials: tuple[FloatArray, ...]

    def means(self) -> FloatArray:
        """[2, S]: means of the human and the generated side; strata (classes, or all images as one) count equally."""
        shares = [sums.sum(axis=-1) / trials.sum() for sums, trials in zip(self.sums, self.trials, strict=True)]
        return np.asarray(np.mean(shares, axis=0), dtype=np.float64)


def bootstrap(
    sides: Sides, statistic: Statistic, *, generator: np.random.Generator, resamples: int = 2000, level: float = 0.95
) -> Interval | None:
    """Percentile bootstrap over images, resampled within each class (scipy); None where a class has one image.

    It covers the choice of images, with both sides of an image kept together. It does not cover the training
    of the judges: the column ``sd`` shows that, where there are several seeds.
    """
    from scipy import stats

    if min(map(len, sides.trials)) < 2:
        return None

    def of_images(*chosen: Any, axis: int = -1) -> FloatArray:
        shares = [
            sums[..., index].sum(axis=axis) / trials[index].sum(axis=axis)
            for sums, trials, index in zip(sides.sums, sides.trials, chosen, strict=True)
        ]
        return statistic(np.mean(shares, axis=0))

    indices = tuple(np.arange(len(trials)) for trials in sides.trials)
    found = stats.bootstrap(
        indices,
        of_images,
        n_resamples=resamples,
        batch=_batch(sides.trials),
        vectorized=True,
        confidence_level=level,
        method="percentile",
        rng=generator,
    ).confidence_interval
    return Interval(float(found.low), float(found.high), level)


def bootstrap_pooled(
    table: FloatArray | csr_array,
    statistic: Statistic,
    *,
    generator: np.random.Generator,
    resamples: int = 2000,
    level: float = 0.95,
) -> list[Interval | None]:
    """Percentile bootstrap over images of values that are made of sums over images (scipy).

    Args:
        table: what each image adds, [N, S]; sparse where most add nothing.
        statistic: sums over images, [S, ...] -> values, [V, ...].
        generator: of the resamples.
        resamples: how many.
        level: of the intervals.

    Returns:
        V intervals; None where there is one image, or a resample has no value.
    """
    from scipy import stats

    columns = _columns(table)
    images = columns.shape[1]
    values = statistic(np.asarray(columns.sum(axis=1), dtype=np.float64))
    if images < 2:
        return [None] * len(values)

    def of_images(chosen: Any, axis: int = -1) -> FloatArray:
        return statistic(columns @ _times_drawn(chosen, images).T)

    with warnings.catch_warnings():
        # Scipy's word for a resample without a value, which is told by None here.
        warnings.simplefilter("ignore", stats.DegenerateDataWarning)
        found = stats.bootstrap(
            (np.arange(images),),
            of_images,
            n_resamples=resamples,
            batch=max(1, _CELLS // max(columns.shape)),
            vectorized=True,
            confidence_level=level,
            method="percentile",
            rng=generator,
        ).confidence_interval
    bounds = zip(np.atleast_1d(found.low), np.atleast_1d(found.high), strict=True)
    return [Interval(float(low), float(high), level) if np.isfinite(low + high) else None for low, high in bounds]


def permutation_pooled(
    human: FloatArray | csr_array,
    generated: FloatArray | csr_array,
    statistic: Callable[[FloatArray, FloatArray], FloatArray],
    *,
    generator: np.random.Generator,
    resamples: int = 2000,
) -> float | None:
    """Two-sided p-value of "the sides are exchangeable, image by image", of a value made of sums over images (scipy).

    Args:
        human: what each image adds to the human side's sums, [N, S].
        generated: the same of the generated side.
        statistic: sums of both sides, [S, ...] each -> values, [...]. What it chooses from the human side (pairs and
            their signs) it chooses anew in every permutation: chosen once, they would favour the data as they are.
        generator: of the permutations.
        resamples: how many.

    Returns:
        At least 2 / (resamples + 1), 1 for identical sides; None where a permutation has no value.
    """
    from scipy import stats

    before, after = _columns(human), _columns(generated)
    change = after - before
    if not change.data.any():
        return 1.0
    sums = [np.asarray(side.sum(axis=1), dtype=np.float64)[:, None] for side in (before, after)]

    def of_exchanges(exchanged: Any, axis: int = -1) -> FloatArray:
        moved = change @ np.atleast_2d(exchanged).T
        values = statistic(sums[0] + moved, sums[1] - moved)
        return values if np.ndim(exchanged) > 1 else values[0]

    def exchanges(*, size: tuple[int, ...]) -> npt.NDArray[np.float64]:
        return generator.integers(0, 2, size=size).astype(np.float64)

    found = stats.monte_carlo_test(
        np.zeros(change.shape[1]),  # As observed: no image's sides are exchanged.
        rvs=exchanges,
        statistic=of_exchanges,
        vectorized=True,
        n_resamples=resamples,
        batch=max(1, _CELLS // max(change.shape)),
    )
    return float(found.pvalue) if np.isfinite(found.null_distribution).all() else None


def _columns(table: FloatArray | csr_array) -> csr_array:
    """[N, S] as [S, N]. Sparse products add in one order, whatever the threads: sums are the same on every machine."""
    from scipy.sparse import csr_array

    return csr_array(csr_array(table).T)


def _times_drawn(chosen: npt.NDArray[np.int64], images: int) -> FloatArray:
    """Indices of images, [..., N] -> how often each was drawn, [B, N]."""
    rows = np.reshape(chosen, (-1, chosen.shape[-1]))
    offset = np.arange(len(rows))[:, None] * images
    counted = np.bincount((rows + offset).ravel(), minlength=len(rows) * images)
    return counted.reshape(len(rows), images).astype(np.float64)


def permutation_test(
    sides: Sides, statistic: Statistic, *, generator: np.random.Generator, resamples: int = 2000
) -> float | None:
    """:func:`permutation_pooled` of means over images, classes counting equally."""
    weights = np.concatenate([np.full(len(t), 1 / (len(sides.trials) * t.sum())) for t in sides.trials])
    human, generated = np.concatenate(sides.sums, axis=-1) * weights

    def of_sides(before: FloatArray, after: FloatArray) -> FloatArray:
        return statistic(np.stack([before, after]))

    return permutation_pooled(human.T, generated.T, of_sides, generator=generator, resamples=resamples)


def _batch(trials: Sequence[FloatArray]) -> int:
    return max(1, _CELLS // max(1, sum(map(len, trials))))
