"""Intervals and tests over images. The generator is always the caller's."""

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.sparse import csr_array

from judge.statistics.inference import Exchanged
from judge.types import BoolArray, FloatArray, IntArray, Interval

Statistic = Callable[[FloatArray], FloatArray]
"""Sums over images, [S, ...] -> the value(s), [...]."""

# Cells of a batch of resamples, about 10 MB; and exchanges that are drawn together at least, which saves time.
_CELLS, _DRAWS = 1_000_000, 16


def bootstrap_pooled(
    table: FloatArray | csr_array,
    statistic: Statistic,
    *,
    generator: np.random.Generator,
    resamples: int = 2000,
    level: float = 0.95,
    strata: npt.NDArray[np.int64] | None = None,
    units: IntArray | None = None,
) -> list[Interval | None]:
    """Percentile bootstrap over images of values that are made of sums over images (scipy).

    ``table``, [N, S], is what each image adds, and ``statistic`` maps sums, [S, ...], to values, [V, ...]. Images are
    drawn within the groups ``strata``, [N]; None for one group. Where images are of ``units``, [N], these are drawn
    instead, and have the strata. Gives V intervals; None where a group has one image, or a resample has no value.
    """
    from scipy import stats

    # Sparse products add in one order, whatever the threads: sums are the same on every machine.
    columns = csr_array((csr_array(table) if units is None else _sum_by(units) @ csr_array(table)).T)
    images = columns.shape[1]
    values = statistic(np.asarray(columns.sum(axis=1), dtype=np.float64))
    groups = np.zeros(images, dtype=np.int64) if strata is None else strata
    parts = [np.flatnonzero(groups == group) for group in np.unique(groups)]
    if min(map(len, parts)) < 2:
        return [None] * len(values)

    def of_images(*chosen: Any, axis: int = -1) -> FloatArray:
        rows = np.concatenate(chosen, axis=-1).reshape(-1, images)
        places = rows + np.arange(len(rows))[:, None] * images
        drawn = np.bincount(places.ravel(), minlength=places.size).reshape(rows.shape)
        return statistic(columns @ drawn.T.astype(np.float64))

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
        table: what the D kinds of rows add, [D, S], sparse where most add nothing.
        image: index of each row's image, [C]; every image has a row on each side.
        generated: which rows are of the generated side, [C].
        kind: the row of ``table`` that each row adds, [C]; None where each has its own.
        units: index of each image's unit (:mod:`judge.corpus.units`), [N]; None where images are units.
        copied: generated rows of images whose generated captions repeat human ones word for word, [C]; None for none.
    """

    table: FloatArray | csr_array
    image: npt.NDArray[np.int64]
    generated: npt.NDArray[np.bool_]
    kind: IntArray | None = None
    units: IntArray | None = None
    copied: BoolArray | None = None

    @property
    def kinds(self) -> IntArray:
        """The row of ``table`` that each row adds, [C]."""
        return np.arange(len(self.image)) if self.kind is None else self.kind

    def weights(self) -> tuple[FloatArray, FloatArray]:
        """Weights of the rows on the human and on the generated side, [C] each, so that images count equally.

        Whole numbers: sums of counts are exact, and ties are ties (below 2^53).
        """
        counts = [np.bincount(self.image[of]) for of in (~self.generated, self.generated)]
        common = math.lcm(*(count for side in counts for count in np.unique(side).tolist()))
        human, generated = (common / side.astype(np.float64)[self.image] for side in counts)
        return human, generated

    def by_image(self) -> tuple[csr_array, csr_array]:
        """What each image adds on the human and on the generated side, [N, S] each."""
        human, generated = self.weights()
        amounts, table = (human * ~self.generated, generated * self.generated), csr_array(self.table)
        places = self.image, self.kinds
        before, after = (csr_array((of, places), (self.image.max() + 1, table.shape[0])) @ table for of in amounts)
        return before, after

    def sums(self) -> tuple[FloatArray, FloatArray]:
        """Sums of the human and of the generated side, [S] each."""
        human, generated = (np.asarray(side.sum(axis=0), dtype=np.float64) for side in self.by_image())
        return human, generated


class Exchange:
    """Values of a statistic where an image's captions change sides, as many on each side as before.

    Captions of images of one unit change sides together: those that have the same place on their side. Where a
    captioner repeats human captions, its captions are any of these, and the human side stays as it is: exchanged, the
    sides would have less in common than they have.

    ``statistic``: sums of both sides, [S, ...] each -> values, [...]. What it chooses from the human side (pairs and
    their signs) it must choose anew in every call: chosen once, they would favour the data as they are.
    """

    def __init__(
        self,
        rows: Rows,
        statistic: Callable[[FloatArray, FloatArray], FloatArray],
        *,
        generator: np.random.Generator,
    ) -> None:
        self.rows, self.statistic, self.generator = rows, statistic, generator
        copied = np.zeros(len(rows.image), dtype=np.bool_) if rows.copied is None else rows.copied
        fixed = np.isin(rows.image, rows.image[copied])
        # Rows of one kind, of images with as many captions, add the same: a draw sums what they add once.
        weights = rows.weights()
        code = rows.kinds
        for of in (*weights, fixed):
            values, number = np.unique(of, return_inverse=True)
            code = code * len(values) + number
        _, first, self._kind = np.unique(code, return_index=True, return_inverse=True)
        self._table = csr_array(rows.table)[rows.kinds[first]]
        self._people, self._generated = (weight[first] for weight in weights)
        # What the human side loses with a row that is drawn as generated: nothing where it stays as it is.
        self._taken = self._people * ~fixed[first]
        self._whole = np.flatnonzero(~(rows.generated & fixed))
        every = np.bincount(self._kind[self._whole], minlength=len(first)).astype(np.float64)
        self._every = self._sum(np.arange(len(first)), every[:, None], self._people)
        self._order = np.argsort(rows.image, kind="stable")
        self._sizes = np.bincount(rows.image)
        self._written = np.bincount(rows.image[rows.generated])
        self._starts = np.cumsum(self._sizes) - self._sizes
        # Of rows in the order of their images: those of copies, and the first of those that change sides together.
        self._fixed = bool(fixed.any())
        self._copies, self._first = copied[self._order], np.arange(len(copied))
        if rows.units is not None:
            place = pd.Series(self._order).groupby([rows.image, rows.generated]).cumcount()
            keys = np.stack([rows.units[rows.image], rows.generated, place])[:, self._order]
            _, first, key = np.unique(keys, axis=1, return_index=True, return_inverse=True)
            self._first = first[key.ravel()]

    def values(self, resamples: int) -> FloatArray:
        """Values of ``resamples`` draws, [..., R]; those of the data themselves where both sides are identical."""
        human, generated = self.rows.by_image()
        if not (human - generated).data.any():
            alike = self._value(np.flatnonzero(self.rows.generated)[None])
            return np.broadcast_to(alike, (*alike.shape[:-1], resamples))
        batch = max(_DRAWS, _CELLS // max(len(self.rows.image), self.rows.table.shape[1]))
        sizes = [min(batch, resamples - start) for start in range(0, resamples, batch)]
        return np.concatenate([self._value(self._draw(size)) for size in sizes], axis=-1)

    def chance(self, resamples: int) -> Exchanged | None:
        """Mean and sd of the values of ``resamples`` draws; None where one of them has no value."""
        return Exchanged.of(self.values(resamples))

    def excess(self, parts: npt.NDArray[np.bool_], *, exchanges: int) -> FloatArray:
        """Values of parts of the images, [P, N], less their means over the same ``exchanges`` draws, [..., P]."""
        held = np.ascontiguousarray(parts.T, dtype=np.float64)

        def count(rows: IntArray) -> tuple[IntArray, FloatArray]:  # Kinds, and their rows in each part.
            kinds, place = self._kinds(rows)
            places = csr_array((np.ones(len(rows)), (self.rows.image[rows], place)), (len(held), len(kinds)))
            return kinds, np.asarray(places.T @ held)

        whole = self._sum(*count(self._whole), self._people)
        mean = np.mean([self._compare(whole, *count(self._draw(1)[0])) for _ in range(exchanges)], axis=0)
        return np.asarray(self._compare(whole, *count(np.flatnonzero(self.rows.generated))) - mean)

    def _value(self, generated: IntArray) -> FloatArray:
        """Values [..., B], by the rows that are generated in each draw, [B, G]."""
        kinds, place = self._kinds(generated)
        draws = len(generated)
        places = (place + len(kinds) * np.arange(draws)[:, None]).ravel()
        counts = np.bincount(places, minlength=len(kinds) * draws).reshape(draws, -1).T
        return self._compare(self._every, kinds, counts.astype(np.float64))

    def _kinds(self, rows: IntArray) -> tuple[IntArray, IntArray]:
        """The kinds of some rows, [K], and the place of each row's kind among them."""
        held = np.zeros(len(self._people), dtype=np.bool_)
        held[self._kind[rows]] = True
        return np.flatnonzero(held), (np.cumsum(held) - 1)[self._kind[rows]]

    def _sum(self, kinds: IntArray, counts: FloatArray, weights: FloatArray) -> FloatArray:
        """What rows add, each times the weight of its kind, [S, ...]; ``counts``: rows of each kind, [K, ...]."""
        return np.asarray(self._table[kinds].T @ (counts * weights[kinds][:, None]))

    def _compare(self, whole: FloatArray, kinds: IntArray, counts: FloatArray) -> FloatArray:
        """Values, by sums of the whole human side, [S, ...], and the rows of each of ``kinds`` that are generated."""
        weights = self._taken[kinds], self._generated[kinds]
        if all(np.ptp(of) == 0 for of in weights):  # One product for both sides.
            sums = self._table[kinds].T @ counts
            human, generated = (of[0] * sums for of in weights)
        else:
            human, generated = (self._sum(kinds, counts, of) for of in (self._taken, self._generated))
        return self.statistic(whole - human, generated)

    def _draw(self, count: int) -> IntArray:
        """Draw which rows are generated, [count, G]."""
        if (self._written == 1).all() and self.rows.units is None and not self._fixed:
            drawn = self.generator.integers(0, self._sizes, size=(count, len(self._sizes)))
            return np.asarray(self._order[self._starts + drawn])
        # Shuffled within images: the first of each are generated.
        image = np.repeat(np.arange(len(self._sizes)), self._sizes)
        random = self.generator.random((count, len(image)))[:, self._first]
        if self._copies.any():  # They come after all others.
            random = (random + self._copies) / 2
        shuffled = np.argsort(image + random, axis=1)
        first = np.arange(len(image)) - self._starts[image] < self._written[image]
        return np.asarray(self._order[shuffled[:, first]])


def _sum_by(groups: IntArray) -> csr_array:
    return csr_array((np.ones(len(groups)), (groups, np.arange(len(groups)))))
