"""Intervals and tests over images. The generator is always the caller's."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from judge.statistics.inference import Exchanged
from judge.types import FloatArray, Interval

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Statistic = Callable[[FloatArray], FloatArray]
"""Sums over images, [S, ...] -> the value(s), [...]."""

# Rows of a batch of resamples: about 10 MB of indices, whatever the number of images.
_CELLS = 1_000_000


def bootstrap_pooled(
    table: FloatArray | csr_array,
    statistic: Statistic,
    *,
    generator: np.random.Generator,
    resamples: int = 2000,
    level: float = 0.95,
    strata: npt.NDArray[np.int64] | None = None,
) -> list[Interval | None]:
    """Percentile bootstrap over images of values that are made of sums over images (scipy).

    Args:
        table: what each image adds, [N, S]; sparse where most add nothing.
        statistic: sums over images, [S, ...] -> values, [V, ...].
        generator: of the resamples.
        resamples: how many.
        level: of the intervals.
        strata: of which group each image is, [N], drawn anew within each; None for one group.

    Returns:
        V intervals; None where a group has one image, or a resample has no value.
    """
    from scipy import stats

    columns = _columns(table)
    images = columns.shape[1]
    values = statistic(np.asarray(columns.sum(axis=1), dtype=np.float64))
    groups = np.zeros(images, dtype=np.int64) if strata is None else strata
    parts = [np.flatnonzero(groups == group) for group in np.unique(groups)]
    if min(map(len, parts)) < 2:
        return [None] * len(values)

    def of_images(*chosen: Any, axis: int = -1) -> FloatArray:
        return statistic(columns @ _times_drawn(np.concatenate(chosen, axis=-1), images).T)

    with warnings.catch_warnings():
        # Scipy warns of resamples without a value; here they give None.
        warnings.simplefilter("ignore", stats.DegenerateDataWarning)
        found = stats.bootstrap(
            parts,
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


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """What captions (or other rows) of images add to sums, both sides together.

    Attributes:
        table: [C, S], sparse where most add nothing.
        image: index of each row's image, [C]; every image has a row on each side.
        generated: which rows are of the generated side, [C].
    """

    table: FloatArray | csr_array
    image: npt.NDArray[np.int64]
    generated: npt.NDArray[np.bool_]

    def weights(self) -> tuple[FloatArray, FloatArray]:
        """Weights of the rows on the human and on the generated side, [C] each, so that images count equally.

        Whole numbers: sums of counts are exact, and ties are ties (below 2^53, which dozens of different numbers of
        captions an image may pass).
        """
        counts = [np.bincount(self.image[of]) for of in (~self.generated, self.generated)]
        common = math.lcm(*(count for side in counts for count in np.unique(side).tolist()))
        human, generated = (common / side.astype(np.float64)[self.image] for side in counts)
        return human, generated

    def by_image(self) -> tuple[csr_array, csr_array]:
        """What each image adds on the human and on the generated side, [N, S] each."""
        from scipy.sparse import csr_array

        human, generated = self.weights()
        shape = int(self.image.max()) + 1, len(self.image)
        places = self.image, np.arange(len(self.image))
        sides = [
            csr_array((weight * of, places), shape=shape) @ csr_array(self.table)
            for weight, of in ((human, ~self.generated), (generated, self.generated))
        ]
        return sides[0], sides[1]


def permutation_pooled(
    rows: Rows,
    statistic: Callable[[FloatArray, FloatArray], FloatArray],
    *,
    generator: np.random.Generator,
    resamples: int = 2000,
) -> Exchanged | None:
    """Test of "an image's captions are exchangeable between the sides".

    In each permutation every image has as many captions on either side as before, drawn from all that it has.

    Args:
        rows: the captions of both sides.
        statistic: sums of both sides, [S, ...] each -> values, [...]. What it chooses from the human side (pairs and
            their signs) it chooses anew in every permutation: chosen once, they would favour the data as they are.
        generator: of the permutations.
        resamples: how many.

    Returns:
        p is at least 2 / (resamples + 1), and 1 for identical sides; None where a permutation has no value.
    """
    null = exchanged_values(rows, statistic, generator=generator, resamples=resamples)
    if not np.isfinite(null).all():
        return None
    value = float(_by_roles(rows, rows.table, statistic)(rows.generated.astype(np.float64)[:, None])[0])
    return Exchanged(float(null.mean()), float(null.std(ddof=1)), len(null), permutation_p(value, null))


def exchanged_values(
    rows: Rows,
    statistic: Callable[[FloatArray, FloatArray], FloatArray],
    *,
    generator: np.random.Generator,
    resamples: int,
    table: csr_array | None = None,
) -> FloatArray:
    """Values where an image's captions have changed sides, [..., R].

    Args:
        rows: as of :func:`permutation_pooled`.
        statistic: as there, of one value or of several.
        generator: in the same state it gives the same draws as there.
        resamples: as there.
        table: what each row adds to the statistic's sums, [C, S]; None for that of ``rows``.
    """
    adds = rows.table if table is None else table
    value = _by_roles(rows, adds, statistic)
    sides = rows.by_image()
    if not (sides[0] - sides[1]).data.any():
        alike = value(rows.generated.astype(np.float64)[:, None])
        return np.broadcast_to(alike, (*alike.shape[:-1], resamples))
    draw, batch = _Roles(rows, generator), max(8, int(_CELLS // max(rows.table.shape)))
    sizes = [min(batch, resamples - start) for start in range(0, resamples, batch)]
    return np.concatenate([value(draw(size=(size, len(rows.image))).T) for size in sizes], axis=-1)


def _by_roles(
    rows: Rows, table: FloatArray | csr_array, statistic: Callable[[FloatArray, FloatArray], FloatArray]
) -> Callable[[FloatArray], FloatArray]:
    """The statistic as a function of which rows play the generated side, [C, B] -> [..., B]."""
    human, generated = rows.weights()
    columns = _columns(table)
    if len(np.unique(human)) == len(np.unique(generated)) == 1 and not (columns.data % 1).any():
        # Products of whole numbers are exact: one is enough.
        shares = float(human[0]), float(generated[0])
        total = np.asarray(columns.sum(axis=1), dtype=np.float64)[:, None]

        def of_sums(chosen: FloatArray) -> FloatArray:
            drawn = columns @ chosen
            return statistic(shares[0] * (total - drawn), shares[1] * drawn)

        return of_sums
    as_human, as_generated = columns.multiply(human[None]).tocsr(), columns.multiply(generated[None]).tocsr()
    whole = np.asarray(as_human.sum(axis=1), dtype=np.float64)[:, None]
    return lambda chosen: statistic(whole - as_human @ chosen, as_generated @ chosen)


def permutation_p(value: float, draws: FloatArray) -> float:
    """Two-sided p of a permutation test whose values have been drawn (scipy)."""
    from scipy import stats

    # Sums of the same parts in another order are the same value, and what they leave of nothing is nothing.
    scale = float(np.abs(draws).max(initial=max(abs(value), 1e-6)))
    *drawn, observed = np.round(np.append(draws, value) / scale, 9)
    found = stats.monte_carlo_test(
        [observed],
        rvs=lambda size: np.reshape(drawn, size),
        statistic=lambda sample, axis: np.take(sample, 0, axis=axis),
        vectorized=True,
        n_resamples=len(draws),
    )
    return float(found.pvalue)


def excess_of_parts(
    rows: Rows,
    statistic: Callable[[FloatArray, FloatArray], FloatArray],
    parts: npt.NDArray[np.bool_],
    *,
    generator: np.random.Generator,
    exchanges: int,
    table: csr_array | None = None,
) -> FloatArray:
    """The value(s) of each part of the images less their mean over captions that changed sides, [..., P].

    Args:
        rows: the captions of both sides.
        statistic: as of :func:`permutation_pooled`, of one value or of several, [...].
        parts: which images each part holds, [P, N].
        generator: of the exchanges, which are the same for all parts.
        exchanges: how many.
        table: what each row adds to the statistic's sums; None for that of ``rows``.
    """
    from scipy.sparse import csr_array, diags_array

    held = parts.T.astype(np.float64)
    places = csr_array((np.ones(len(rows.image)), (rows.image, np.arange(len(rows.image)))))
    adds = csr_array(rows.table if table is None else table)

    human, generated = rows.weights()

    def values(roles: FloatArray) -> FloatArray:
        sides = [
            places @ (diags_array(weight * played) @ adds)
            for weight, played in ((human, 1 - roles), (generated, roles))
        ]
        columns = [csr_array(side.T) for side in sides]
        batch = max(1, _CELLS // max(columns[0].shape))
        found = [
            statistic(*(np.asarray(side @ held[:, start : start + batch]) for side in columns))
            for start in range(0, held.shape[1], batch)
        ]
        return np.concatenate(found, axis=-1)

    draw = _Roles(rows, generator)
    chance_level = np.mean([values(draw(size=(1, len(rows.image)))[0]) for _ in range(exchanges)], axis=0)
    return np.asarray(values(rows.generated.astype(np.float64)) - chance_level)


class _Roles:
    """Draws which of an image's rows play the generated side, as many as do."""

    def __init__(self, rows: Rows, generator: np.random.Generator) -> None:
        self.generator = generator
        self.order = np.argsort(rows.image, kind="stable")
        self.sizes = np.bincount(rows.image)
        self.chosen = np.bincount(rows.image[rows.generated])
        self.starts = np.cumsum(self.sizes) - self.sizes

    def __call__(self, *, size: tuple[int, ...]) -> npt.NDArray[np.float64]:
        """[B, C]: 1 for rows of the generated side, else 0."""
        roles = np.zeros(size[::-1], dtype=np.float64).T  # In the layout of the product, which would copy it otherwise.
        lines = np.arange(size[0])[:, None]
        if (self.chosen == 1).all():
            drawn = self.generator.integers(0, self.sizes, size=(size[0], len(self.sizes)))
            roles[lines, self.order[self.starts + drawn]] = 1
            return roles
        # Shuffled within images: the first of each play.
        image = np.repeat(np.arange(len(self.sizes)), self.sizes)
        shuffled = np.argsort(image + self.generator.random(size), axis=1)
        first = np.arange(size[1]) - self.starts[image] < self.chosen[image]
        roles[lines, self.order[shuffled[:, first]]] = 1
        return roles


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
