"""Intervals and tests over images. The generator is always the caller's."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from judge.types import FloatArray, Interval

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
    table: FloatArray,
    statistic: Statistic,
    *,
    generator: np.random.Generator,
    resamples: int = 2000,
    level: float = 0.95,
) -> list[Interval | None]:
    """Percentile bootstrap over images of values that are made of sums over images (scipy).

    Args:
        table: what each image adds, [N, S].
        statistic: sums over images, [S, ...] -> values, [V, ...].
        generator: of the resamples.
        resamples: how many.
        level: of the intervals.

    Returns:
        V intervals; None where there is one image, or a resample has no value.
    """
    from scipy import stats

    values = statistic(table.sum(axis=0))
    if len(table) < 2:
        return [None] * len(values)

    def of_images(chosen: Any, axis: int = -1) -> FloatArray:
        # [..., N] indices -> [N, ..., S] rows would be large: sum column by column.
        return statistic(np.stack([column[chosen].sum(axis=axis) for column in table.T]))

    with warnings.catch_warnings():
        # Scipy's word for a resample without a value, which is told by None here.
        warnings.simplefilter("ignore", stats.DegenerateDataWarning)
        found = stats.bootstrap(
            (np.arange(len(table)),),
            of_images,
            n_resamples=resamples,
            batch=max(1, _CELLS // len(table)),
            vectorized=True,
            confidence_level=level,
            method="percentile",
            rng=generator,
        ).confidence_interval
    bounds = zip(np.atleast_1d(found.low), np.atleast_1d(found.high), strict=True)
    return [Interval(float(low), float(high), level) if np.isfinite(low + high) else None for low, high in bounds]


def permutation_test(
    sides: Sides, statistic: Statistic, *, generator: np.random.Generator, resamples: int = 2000
) -> float:
    """Two-sided p-value of "the sides are exchangeable, image by image" (scipy, paired permutations).

    At least 2 / (resamples + 1); 1 for identical sides.
    """
    from scipy import stats

    weights = np.concatenate([np.full(len(t), 1 / (len(sides.trials) * t.sum())) for t in sides.trials])
    human, generated = np.concatenate(sides.sums, axis=-1) * weights
    both = np.concatenate([human, generated], axis=-1)
    images = np.arange(human.shape[-1])

    def of_sides(first: Any, second: Any, axis: int = -1) -> FloatArray:
        return statistic(np.stack([both[:, first].sum(axis=axis), both[:, second].sum(axis=axis)]))

    if np.array_equal(human, generated):
        return 1.0
    found = stats.permutation_test(
        # Places, not values: the columns of an image change sides together.
        (images, images + len(images)),
        of_sides,
        permutation_type="samples",
        n_resamples=resamples,
        batch=_batch(sides.trials),
        vectorized=True,
        rng=generator,
    )
    return float(found.pvalue)


def _batch(trials: Sequence[FloatArray]) -> int:
    return max(1, _CELLS // max(1, sum(map(len, trials))))
