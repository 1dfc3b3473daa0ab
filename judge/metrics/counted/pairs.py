"""Changes of shares of pairs of a class and a label: BA, DBA, and what Multi-> shares with them.

BA: Zhao et al. 2017 ("Men also like shopping"; MALS). DBA (BA->): Wang and Russakovsky 2021.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from judge.metrics.counted.contingency import ContingencyTable, Train, contingency, divide, read_samples
from judge.metrics.counted.spec import Amplification, Compared, CountedMetric, LabelKind, pieces_of
from judge.types import Direction, FloatArray

Share = Literal["of samples", "of the class", "of the class's labels", "of the label", "of the label's classes"]
Empty = Literal["skip", "zero"]


@dataclass(frozen=True, slots=True, eq=False)
class FrozenPairs:
    """The chosen pairs and their signs.

    Attributes:
        sign: +1, -1, or 0 for pairs that do not count, [A, L].
        share: the share whose change is measured.
        empty: undefined shares are left out ("skip") or 0 ("zero").
        pool: changes and signed changes, [..., A, L] each, to values, [...].
        slope: (sign, change) -> factors, [..., A, L]: the value is the sum of factors times changes.
    """

    sign: FloatArray
    share: Share
    empty: Empty
    pool: Callable[[FloatArray, FloatArray], FloatArray]
    slope: Callable[[FloatArray, FloatArray], FloatArray]

    def compare(self, truth: ContingencyTable, predicted: ContingencyTable) -> Compared:
        """Values, and the signed change of each pair."""
        change = self._change(truth, predicted)
        pairs = self.sign * change + 0.0  # No -0.
        value = self.pool(change, pairs)
        return Compared(value, pairs, np.full_like(value, np.nan), np.full_like(value, np.nan))

    def parts(self, truth: ContingencyTable, predicted: ContingencyTable) -> FloatArray:
        """What each pair adds to the value."""
        change = self._change(truth, predicted)
        return np.nan_to_num(self.slope(self.sign, change) * change)

    def pieces(self, truth: ContingencyTable, predicted: ContingencyTable) -> tuple[ContingencyTable, ContingencyTable]:
        """What each sample of a class with a label adds: its part of the share, times the slope of the change."""
        change = self._change(truth, predicted)
        slope = np.where(np.isfinite(change), self.slope(self.sign, change), 0.0)
        parts = [np.nan_to_num(divide(slope, _whole(table, self.share))) for table in (truth, predicted)]
        return pieces_of(truth, parts[0]), pieces_of(predicted, parts[1])

    def shares(self, truth: ContingencyTable, predicted: ContingencyTable) -> tuple[FloatArray, FloatArray]:
        """Shares of both sides, [..., A, L]; undefined ones are NaN, or 0 with ``empty="zero"``."""
        before, after = (divide(table.together, _whole(table, self.share)) for table in (truth, predicted))
        return (np.nan_to_num(before), np.nan_to_num(after)) if self.empty == "zero" else (before, after)

    def _change(self, truth: ContingencyTable, predicted: ContingencyTable) -> FloatArray:
        before, after = self.shares(truth, predicted)
        return after - before


def mean(pairs: FloatArray) -> FloatArray:
    """Mean over the defined pairs, [..., A, L] -> [...]; NaN without any."""
    defined = np.isfinite(pairs)
    return divide(np.where(defined, pairs, 0.0).sum(axis=(-2, -1)), defined.sum(axis=(-2, -1)))


def mean_slope(sign: FloatArray, change: FloatArray) -> FloatArray:
    """The factor of each change in the mean of the defined signed changes, [..., A, L]."""
    return np.asarray(sign / np.maximum(np.isfinite(change).sum(axis=(-2, -1), keepdims=True), 1))


def variance(pairs: FloatArray) -> FloatArray:
    """Variance over the defined pairs, [..., A, L] -> [...]; NaN without any."""
    return mean((pairs - mean(pairs)[..., None, None]) ** 2)


def _whole(table: ContingencyTable, share: Share) -> FloatArray:
    """The denominators of the shares c_al / whole, [..., A, L]."""
    whole = {
        "of samples": table.samples[..., None, None],
        "of the class": table.attribute[..., :, None],
        "of the class's labels": table.together.sum(axis=-1, keepdims=True),
        "of the label": table.tasks[..., None, :],
        "of the label's classes": table.together.sum(axis=-2, keepdims=True),
    }
    return np.broadcast_to(whole[share], table.together.shape)


@dataclass(frozen=True, kw_only=True)
class Ba(CountedMetric):
    """BA. Its pairs are those of b_al > 1/A in the truth (Zhao et al. 2017, eq. 1).

    Attributes:
        share: what is compared: b_al = c_al / sum_a c_al ("conditional": Zhao 2017, Princeton) or c_al / N ("joint":
            kerner-lab). The pairs are those of the conditional share in both.
        empty: a label that one side never has is left out of the sum and of |L| ("skip"), or has share 0 ("zero").
    """

    labels: LabelKind | None = "words"
    share: Literal["conditional", "joint"] = "conditional"
    empty: Empty = "skip"

    variants: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "joint": {"share": "joint"},
        "kerner-lab": {"share": "joint", "empty": "zero"},
    }

    def by_construction(self, attribute: str, *, has_words: bool, derived: bool) -> Iterator[str]:
        """Classes that are the annotated ones."""
        if not has_words:
            yield f"no words of {attribute} are known: BA counts the annotated classes, on both sides."

    def freeze(self, truth: ContingencyTable, predicted: ContingencyTable) -> FrozenBa:
        """The pairs of the truth.

        Raises:
            ValueError: fewer than two classes.
        """
        classes = truth.together.shape[-2]
        if classes < 2:
            raise ValueError("BA needs two classes or more; give the attribute as [N, A] with A >= 2, or as labels")
        total = truth.together.sum(axis=-2, keepdims=True)
        sign = (truth.together * classes > total).astype(np.float64)  # Integer counts: exact at a tie.
        share: Share = "of samples" if self.share == "joint" else "of the label's classes"
        return FrozenBa(sign, share, self.empty, _pool_ba, _slope_ba)


class FrozenBa(FrozenPairs):
    """BA's pairs; its value is the difference of its two sides."""

    def compare(self, truth: ContingencyTable, predicted: ContingencyTable) -> Compared:
        """Values, pairs, and the bias of both sides (:func:`ba_mals`)."""
        sides = self.shares(truth, predicted)
        change = sides[1] - sides[0]
        pairs = self.sign * change + 0.0
        counted = np.isfinite(change).all(axis=-2)
        # A label without any chosen pair adds 1/A to both sides.
        even = np.where(self.sign.any(axis=-2), 0.0, 1 / self.sign.shape[-2])
        even = even if self.share == "of the label's classes" else np.zeros_like(even)
        found = [np.where(counted, (self.sign * side).sum(axis=-2) + even, 0.0).sum(axis=-1) for side in sides]
        before, after = (divide(side, counted.sum(axis=-1)) for side in found)
        return Compared(self.pool(change, pairs), pairs, before, after)


def _pool_ba(change: FloatArray, pairs: FloatArray) -> FloatArray:
    """(1/|L|) times the sum over pairs; labels with undefined pairs are left out of both."""
    defined = np.isfinite(change)
    return divide(np.where(defined, pairs, 0.0).sum(axis=(-2, -1)), defined.all(axis=-2).sum(axis=-1))


def _slope_ba(sign: FloatArray, change: FloatArray) -> FloatArray:
    labels = np.isfinite(change).all(axis=-2).sum(axis=-1)
    return np.asarray(sign / np.maximum(labels, 1)[..., None, None])


@dataclass(frozen=True, kw_only=True)
class Dba(CountedMetric):
    """DBA. The default is Wang and Russakovsky 2021, eq. 1-3 (``empty``: their code).

    Attributes:
        tie: pairs of P(a, l) = P(a) P(l) have y = 0 and count as -delta ("negative": the paper, kerner-lab), or do not
            count ("zero": Princeton).
        empty: pairs whose condition no sample meets are left out ("skip": Princeton), or have probability 0 ("zero":
            kerner-lab).
        per: P(l|a) is a share of the samples of class a ("samples": the paper, Princeton) or of their labels
            ("mentions": kerner-lab); P(a|l) likewise. They agree where each sample has one label (one class).
    """

    direction: Direction | None = "A->T"
    tie: Literal["negative", "zero"] = "negative"
    empty: Empty = "skip"
    per: Literal["samples", "mentions"] = "samples"

    variants: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "annotation": {"against": "annotation"},
        "princeton": {"tie": "zero"},
        "kerner-lab": {"empty": "zero", "per": "mentions"},
    }

    def freeze(self, truth: ContingencyTable, predicted: ContingencyTable) -> FrozenPairs:
        """Signs: +1 where P(a, l) > P(a) P(l) in ``truth``, the table of training or of test samples; else -1."""
        together = truth.together * truth.samples[..., None, None]
        sign = np.sign(together - truth.attribute[..., :, None] * truth.tasks[..., None, :])
        if self.tie == "negative":
            sign = np.where(sign > 0, 1.0, -1.0)
        given: tuple[Share, Share] = ("of the class", "of the class's labels")
        if self.direction == "T->A":
            given = ("of the label", "of the label's classes")
        return FrozenPairs(sign, given[self.per == "mentions"], self.empty, self.pool, self.slope)

    def pool(self, change: FloatArray, pairs: FloatArray) -> FloatArray:
        """The value of pairs, [..., A, L] -> [...]."""
        return mean(pairs)

    def slope(self, sign: FloatArray, change: FloatArray) -> FloatArray:
        """The factor of each change in the value."""
        return mean_slope(sign, change)


def ba_mals(
    attribute: npt.ArrayLike,
    tasks: npt.ArrayLike,
    predicted_tasks: npt.ArrayLike | None = None,
    predicted_attribute: npt.ArrayLike | None = None,
    *,
    variant: Ba | None = None,
) -> Amplification:
    """Bias amplification: (1/|L|) sum over pairs of (b^_al - b_al) 1[b_al > 1/A], b_al = c_al / sum_a c_al.

    Zhao et al. 2017; LIC (CVPR 2022), eq. 2-3. Positive: labels go more often with their classes.

    Two of the three samples with the label are of class 1, and the model gives it to three of class 1:

        >>> found = ba_mals([1, 1, 1, 0, 0], [[1], [1], [0], [1], [0]], [[1], [1], [1], [0], [0]])
        >>> round(found.value, 4), round(found.truth, 4), found.predicted
        (0.3333, 0.6667, 1.0)

    Args:
        attribute: multi-hot, [N, A], or one class a sample, [N]; see :func:`judge.metrics.counted.contingency.hot`.
        tasks: multi-hot, [N, L], or one label a sample, [N].
        predicted_tasks: like ``tasks``; None: the truth.
        predicted_attribute: like ``attribute``; None: the truth.
        variant: where published codes differ; default: Zhao et al. 2017.

    Returns:
        ``value`` is ``predicted`` - ``truth``, and the sum of ``pairs`` by |L|. ``truth`` is the share of a label's
        samples that are of the classes that it goes with, a mean over labels: from 1/A, where labels go with no class
        (BA_H of the DBAC paper, Table 3), to 1. With joint shares it is their sum over the pairs that count, by |L|.

    Raises:
        ValueError: arrays of other values or shapes, or fewer than two classes.
    """
    sides = read_samples(attribute, tasks, predicted_tasks, predicted_attribute)
    tables = contingency(*sides.truth), contingency(*sides.predicted)
    return Amplification.of((variant or Ba()).freeze(*tables).compare(*tables))


def dba(
    attribute: npt.ArrayLike,
    tasks: npt.ArrayLike,
    predicted_tasks: npt.ArrayLike | None = None,
    predicted_attribute: npt.ArrayLike | None = None,
    direction: Direction = "A->T",
    *,
    train: Train | None = None,
    variant: Dba | None = None,
) -> Amplification:
    """Directional bias amplification (BA->): mean over pairs of y delta + (1 - y)(-delta), y = 1[P(a, l) > P(a) P(l)].

    Wang and Russakovsky 2021, eq. 1-3. delta is P(l^|a) - P(l|a) for "A->T" (LIC's DBA_O), P(a^|l) - P(a|l) for "T->A"
    (its DBA_G). The other prediction is ignored. Positive: the model amplifies.

    The example of its authors' metric card: of three samples of class 1 two have the label, and three are given it; of
    five of class 0 one has it, and none is given it:

        >>> tasks, predicted = [[0], [1], [1], [0], [0], [0], [0], [1]], [[1], [1], [1], [0], [0], [0], [0], [0]]
        >>> found = dba([1, 1, 1, 0, 0, 0, 0, 0], tasks, predicted)
        >>> round(found.value, 4), found.pairs.round(4).tolist()
        (0.2667, [[0.2], [0.3333]])

    Args:
        attribute: multi-hot, [N, A], or one class a sample, [N]; see :func:`judge.metrics.counted.contingency.hot`.
        tasks: multi-hot, [N, L], or one label a sample, [N].
        predicted_tasks: like ``tasks``; None: the truth.
        predicted_attribute: like ``attribute``; None: the truth.
        direction: "A->T" or "T->A".
        train: (attribute, tasks) of the training samples, to choose y from; default: the truth given.
        variant: where published codes differ; default: the paper's.

    Raises:
        ValueError: arrays of other values or shapes, or another direction.
    """
    sides = read_samples(attribute, tasks, predicted_tasks, predicted_attribute, direction, train=train)
    truth, predicted = contingency(*sides.truth), contingency(*sides.predicted)
    chooser = truth if train is None else contingency(*sides.train)
    frozen = replace(variant or Dba(), direction=direction).freeze(chooser, predicted)
    return Amplification.of(frozen.compare(truth, predicted))
