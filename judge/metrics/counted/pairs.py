"""Changes of shares of pairs of a class and a label: BA, DBA, and what Multi-> shares with them.

BA: Zhao et al. 2017 ("Men also like shopping"; MALS). DBA (BA->): Wang and Russakovsky 2021.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from judge.metrics.counted.contingency import ContingencyTable, Train, contingency, divide, read_samples
from judge.metrics.counted.spec import Amplification, Compared, CountedMetric, LabelKind, pieces_of
from judge.types import Direction, FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class FrozenPairs:
    """The chosen pairs and their signs: +1, -1, or 0 for pairs that do not count, [A, L]."""

    sign: FloatArray
    metric: Ba | Dba

    def compare(self, truth: ContingencyTable, predicted: ContingencyTable) -> Compared:
        """Values, and the signed change of each pair; of BA also both sides."""
        before, after = self.shares(truth, predicted)
        pairs = self.sign * (after - before) + 0.0  # No -0.
        value = self.metric.pool(after - before, pairs)
        if isinstance(self.metric, Ba):
            return Compared(value, pairs, *self.metric.bias(self.sign, before, after))
        return Compared(value, pairs, np.full_like(value, np.nan), np.full_like(value, np.nan))

    def parts(self, truth: ContingencyTable, predicted: ContingencyTable) -> FloatArray:
        """What each pair adds to the value."""
        before, after = self.shares(truth, predicted)
        return np.nan_to_num(self.metric.slope(self.sign, after - before) * (after - before))

    def pieces(self, truth: ContingencyTable, predicted: ContingencyTable) -> tuple[ContingencyTable, ContingencyTable]:
        """What each sample of a class with a label adds: its part of the share, times the slope of the change."""
        before, after = self.shares(truth, predicted)
        slope = np.where(np.isfinite(after - before), self.metric.slope(self.sign, after - before), 0.0)
        parts = [np.nan_to_num(divide(slope, self.metric.denominators(table))) for table in (truth, predicted)]
        return pieces_of(truth, parts[0]), pieces_of(predicted, parts[1])

    def shares(self, truth: ContingencyTable, predicted: ContingencyTable) -> tuple[FloatArray, FloatArray]:
        """Shares of both sides, [..., A, L]; NaN where undefined."""
        before, after = (divide(table.together, self.metric.denominators(table)) for table in (truth, predicted))
        return before, after


def mean(pairs: FloatArray) -> FloatArray:
    """Mean over the defined pairs, [..., A, L] -> [...]; NaN without any."""
    defined = np.isfinite(pairs)
    return divide(np.where(defined, pairs, 0.0).sum(axis=(-2, -1)), defined.sum(axis=(-2, -1)))


def variance(pairs: FloatArray) -> FloatArray:
    """Variance over the defined pairs, [..., A, L] -> [...]; NaN without any."""
    return mean((pairs - mean(pairs)[..., None, None]) ** 2)


@dataclass(frozen=True, kw_only=True)
class Ba(CountedMetric):
    """BA. Its pairs are those of b_al > 1/A in the truth (Zhao et al. 2017, eq. 1).

    A label that one side never has is left out of the sum and of |L|.
    """

    labels: LabelKind | None = "words"

    def by_construction(self, attribute: str, *, has_words: bool, derived: bool) -> Iterator[str]:
        """Classes that are the annotated ones."""
        if not has_words:
            yield f"no words of {attribute} are known: BA counts the annotated classes, on both sides."

    def freeze(self, truth: ContingencyTable, predicted: ContingencyTable) -> FrozenPairs:
        """The pairs of the truth; a ValueError for fewer than two classes."""
        classes = truth.together.shape[-2]
        if classes < 2:
            raise ValueError("BA needs two classes or more; give the attribute as [N, A] with A >= 2, or as labels")
        # Integer counts: exact at a tie.
        return FrozenPairs((truth.together * classes > self.denominators(truth)).astype(np.float64), self)

    def denominators(self, table: ContingencyTable) -> FloatArray:
        """The denominators of shares, [..., 1, L]: samples of any class with the label."""
        return np.asarray(table.together.sum(axis=-2, keepdims=True))

    def pool(self, change: FloatArray, pairs: FloatArray) -> FloatArray:
        """(1/|L|) times the sum over pairs; labels with undefined pairs are left out of both."""
        defined = np.isfinite(change)
        return divide(np.where(defined, pairs, 0.0).sum(axis=(-2, -1)), defined.all(axis=-2).sum(axis=-1))

    def slope(self, sign: FloatArray, change: FloatArray) -> FloatArray:
        """The factor of each change in the value, [..., A, L]."""
        labels = np.isfinite(change).all(axis=-2).sum(axis=-1)
        return np.asarray(sign / np.maximum(labels, 1)[..., None, None])

    def bias(self, sign: FloatArray, before: FloatArray, after: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The bias of both sides (:func:`ba_mals`); a label without any chosen pair adds 1/A to both."""
        counted = np.isfinite(after - before).all(axis=-2)
        even = np.where(sign.any(axis=-2), 0.0, 1 / sign.shape[-2])
        sums = [np.where(counted, (sign * side).sum(axis=-2) + even, 0.0).sum(axis=-1) for side in (before, after)]
        return divide(sums[0], counted.sum(axis=-1)), divide(sums[1], counted.sum(axis=-1))


@dataclass(frozen=True, kw_only=True)
class Dba(CountedMetric):
    """DBA. The default is Wang and Russakovsky 2021, eq. 1-3; pairs whose condition no sample meets are left out.

    Attributes:
        tie: pairs of P(a, l) = P(a) P(l) have y = 0 and count as -delta ("negative": the paper), or do not count
            ("zero": Princeton's code).
    """

    direction: Direction | None = "A->T"
    tie: Literal["negative", "zero"] = "negative"

    variants: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "annotation": {"against": "annotation"},
        "princeton": {"tie": "zero"},
    }

    def freeze(self, truth: ContingencyTable, predicted: ContingencyTable) -> FrozenPairs:
        """Signs: +1 where P(a, l) > P(a) P(l) in ``truth``, the table of training or of test samples; else -1."""
        together = truth.together * truth.samples[..., None, None]
        sign = np.sign(together - truth.attribute[..., :, None] * truth.tasks[..., None, :])
        return FrozenPairs(np.where(sign > 0, 1.0, -1.0) if self.tie == "negative" else sign, self)

    def denominators(self, table: ContingencyTable) -> FloatArray:
        """The denominators of shares: samples of the class, [..., A, 1], or with the label, [..., 1, L]."""
        return table.tasks[..., None, :] if self.direction == "T->A" else table.attribute[..., :, None]

    def pool(self, change: FloatArray, pairs: FloatArray) -> FloatArray:
        """The value of pairs, [..., A, L] -> [...]."""
        return mean(pairs)

    def slope(self, sign: FloatArray, change: FloatArray) -> FloatArray:
        """The factor of each change in the value, [..., A, L]."""
        return np.asarray(sign / np.maximum(np.isfinite(change).sum(axis=(-2, -1), keepdims=True), 1))


def ba_mals(
    attribute: npt.ArrayLike,
    tasks: npt.ArrayLike,
    predicted_tasks: npt.ArrayLike | None = None,
    predicted_attribute: npt.ArrayLike | None = None,
) -> Amplification:
    """Bias amplification: (1/|L|) sum over pairs of (b^_al - b_al) 1[b_al > 1/A], b_al = c_al / sum_a c_al.

    Zhao et al. 2017; LIC (CVPR 2022), eq. 2-3. Positive: labels go more often with their classes. A label that one side
    never has is left out of the sum and of |L|.

    Two of the three samples with the label are of class 1, and the model gives it to three of class 1:

        >>> found = ba_mals([1, 1, 1, 0, 0], [[1], [1], [0], [1], [0]], [[1], [1], [1], [0], [0]])
        >>> round(found.value, 4), round(found.truth, 4), found.predicted
        (0.3333, 0.6667, 1.0)

    Args:
        attribute: multi-hot, [N, A], or one class a sample, [N]; see :func:`judge.metrics.counted.contingency.hot`.
        tasks: multi-hot, [N, L], or one label a sample, [N].
        predicted_tasks: like ``tasks``; None: the truth.
        predicted_attribute: like ``attribute``; None: the truth.

    Returns:
        ``value`` is ``predicted`` - ``truth``, and the sum of ``pairs`` by |L|. ``truth`` is the share of a label's
        samples that are of the classes that it goes with, a mean over labels: from 1/A, where labels go with no class
        (BA_H of the DBAC paper, Table 3), to 1.

    Raises:
        ValueError: arrays of other values or shapes, or fewer than two classes.
    """
    sides = read_samples(attribute, tasks, predicted_tasks, predicted_attribute)
    tables = contingency(*sides.truth), contingency(*sides.predicted)
    return Amplification.of(Ba().freeze(*tables).compare(*tables))


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

    Arrays are as in :func:`judge.ba_mals`. ``train`` is (attribute, tasks) of the training samples, to choose y from;
    by default the truth. ``variant`` says where published codes differ; by default it is the paper's.

    Raises:
        ValueError: arrays of other values or shapes, or another direction.
    """
    sides = read_samples(attribute, tasks, predicted_tasks, predicted_attribute, direction, train=train)
    truth, predicted = contingency(*sides.truth), contingency(*sides.predicted)
    chooser = truth if train is None else contingency(*sides.train)
    frozen = replace(variant or Dba(), direction=direction).freeze(chooser, predicted)
    return Amplification.of(frozen.compare(truth, predicted))
