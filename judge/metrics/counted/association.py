"""Bias amplification counted on labels, without a judge: BA (MALS), DBA and Multi->. Plain functions on arrays.

Which pairs count, and with which sign, is chosen once from the truth (:class:`Frozen`); the bootstrap evaluates
tables of resamples under it and never chooses again::

    truth, predicted = contingency(attribute, tasks), contingency(attribute, predicted_tasks)
    frozen = freeze_dba(truth, "A->T")
    values, pairs = frozen.evaluate(truth, predicted)
    drawn = generator.multinomial(n, np.full(n, 1 / n), size=1000)      # [R, N]: how often each sample is drawn
    values, pairs = frozen.evaluate(
        contingency(attribute, tasks, weights=drawn), contingency(attribute, predicted_tasks, weights=drawn)
    )
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from judge.metrics.counted.contingency import (
    ContingencyTable,
    contingency,
    divide,
    hot,
    label_sets,
    same_samples,
    set_contingency,
)
from judge.metrics.counted.dpa import DpaVariant, dpa
from judge.metrics.counted.ratio_error import error, ratio
from judge.types import Direction, FloatArray, IntArray

# What users call lies here; pieces for the bootstrap are imported from where they are made.
__all__ = ["DpaVariant", "attribute_shares", "ba_mals", "counts", "dba", "dpa", "error", "multi", "ratio"]

Train = tuple[npt.ArrayLike, npt.ArrayLike]
Share = Literal["of samples", "of the class", "of the class's labels", "of the label", "of the label's classes"]
Pool = Literal["sum over classes", "mean", "mean size"]


@dataclass(frozen=True, slots=True)
class BaVariant:
    """Where codes of BA differ. The default is Zhao et al. 2017.

    Attributes:
        share: what is compared: b_al = c_al / sum_a c_al ("conditional": Zhao 2017, Princeton) or c_al / N ("joint":
            kerner-lab). The pairs are those of the conditional share in both.
        threshold: b_al must be more than 1/A, or than 1/(A-1) (Sony, where none is at A = 2).
        empty: a label that one side never has: left out of the sum and of |L| ("skip"), or of share 0 ("zero").
    """

    share: Literal["conditional", "joint"] = "conditional"
    threshold: Literal["1/A", "1/(A-1)"] = "1/A"
    empty: Literal["skip", "zero"] = "skip"


@dataclass(frozen=True, slots=True)
class DbaVariant:
    """Where codes of DBA differ. The default is Wang and Russakovsky 2021 (empty: their code).

    Attributes:
        tie: pairs of P(a, l) = P(a) P(l) have y = 0 and count as -delta ("negative": the paper, kerner-lab, Facebook),
            or not at all ("zero": Princeton, Sony).
        empty: pairs whose condition nobody meets: left out ("skip": Princeton), or of probability 0 ("zero":
            kerner-lab).
        per: P(l|a) is a share of the samples of class a ("samples": the paper, Princeton, Sony) or of their labels
            ("mentions": kerner-lab); P(a|l) likewise. They agree where each sample has one label (one class).
        rows: samples that y counts: "all", or only those with any class or label ("labelled": Sony).
    """

    tie: Literal["negative", "zero"] = "negative"
    empty: Literal["skip", "zero"] = "skip"
    per: Literal["samples", "mentions"] = "samples"
    rows: Literal["all", "labelled"] = "all"


@dataclass(frozen=True, slots=True)
class MultiVariant:
    """Where codes of Multi-> differ. The default is Zhao, Andrews and Xiang 2023.

    Attributes:
        sets: all sets of labels that some sample has, with others or alone ("subsets": the paper, kerner-lab), or the
            exact label sets of samples ("exact": Sony). Both belong to every sample that has all of their labels.
        largest: labels in a set at most; None: any number.
        least: samples that must have a set.
        ddof: of the variance: 0 (Sony) or 1 (kerner-lab).
        spread: whose variance: the change of probability ("change": the paper, Sony), the change with the sign of y
            ("signed": kerner-lab), or its size ("size").
        change: variant of the change and its sign, as in DBA.
    """

    sets: Literal["subsets", "exact"] = "subsets"
    largest: int | None = None
    least: int = 1
    ddof: Literal[0, 1] = 0
    spread: Literal["change", "signed", "size"] = "change"
    change: DbaVariant = DbaVariant()


_BA, _DBA, _MULTI = BaVariant(), DbaVariant(), MultiVariant()


@dataclass(frozen=True, slots=True, eq=False)
class Amplification:
    """A counted metric.

    Attributes:
        value: fraction, not x100; NaN where no pair is defined.
        pairs: the signed change of each pair, [A, L], whose mean DBA is, and BA the sum by |L|; NaN where it is
            undefined (and left out of the value).
    """

    value: float
    pairs: FloatArray

    @property
    def left_out(self) -> int:
        """Pairs that are undefined: nobody meets their condition."""
        return int(np.isnan(self.pairs).sum())


@dataclass(frozen=True, slots=True, eq=False)
class BiasAmplification(Amplification):
    """BA: ``value`` is ``predicted`` - ``truth``.

    Attributes:
        truth: bias of the truth: the share of a label's samples that are of the classes that it goes with, a mean over
            labels. 1/A where labels go with no class (BA_H of the DBAC paper, Table 3), up to 1. Of joint shares: their
            sum over the pairs that count, by |L|.
        predicted: that of the model.
    """

    truth: float
    predicted: float


@dataclass(frozen=True, slots=True, eq=False)
class MultiAmplification(Amplification):
    """Multi->: ``value`` is the mean size of the pairs, [A, M].

    Attributes:
        variance: see :class:`MultiVariant`; NaN where no pair is defined.
        sets: the M sets of labels, as indices.
    """

    variance: float
    sets: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Frozen:
    """The pairs of a metric and their signs, chosen once.

    Attributes:
        sign: +1, -1, or 0 for pairs that do not count, [A, L].
        share: whose change is measured.
        empty: what undefined shares are: left out, or 0.
        pool: pairs to value: BA's (1/|L|) sum, DBA's mean, or Multi's mean size. Undefined pairs are left out, and
            labels (BA) or pairs (DBA, Multi) of them from the number that is divided by.
    """

    sign: FloatArray
    share: Share
    empty: Literal["skip", "zero"]
    pool: Pool

    def evaluate(self, truth: ContingencyTable, predicted: ContingencyTable) -> tuple[FloatArray, FloatArray]:
        """Values, [...], and signed pairs, [..., A, L], of tables with any leading axes."""
        change = self.change(truth, predicted)
        pairs = self.sign * change + 0.0  # No -0.
        defined = np.isfinite(change)
        summed = np.where(defined, np.abs(change) if self.pool == "mean size" else pairs, 0.0).sum(axis=(-2, -1))
        counted = defined.all(axis=-2) if self.pool == "sum over classes" else defined.sum(axis=-2)
        return divide(summed, counted.sum(axis=-1)), pairs

    def change(self, truth: ContingencyTable, predicted: ContingencyTable) -> FloatArray:
        """Delta: predicted minus true shares, without the sign, [..., A, L]; NaN where one is undefined."""
        before, after = self._sides(truth, predicted)
        return after - before

    def bias(self, truth: ContingencyTable, predicted: ContingencyTable) -> tuple[FloatArray, FloatArray]:
        """BA's two sides, [...] each, whose difference is BA (:class:`BiasAmplification`)."""
        sides = self._sides(truth, predicted)
        counted = np.isfinite(sides[1] - sides[0]).all(axis=-2)
        # A label that goes with no class adds 1/A to both sides.
        even = np.where(self.sign.any(axis=-2), 0.0, 1 / self.sign.shape[-2])
        even = even if self.share == "of the label's classes" else np.zeros_like(even)
        found = [np.where(counted, (self.sign * side).sum(axis=-2) + even, 0.0).sum(axis=-1) for side in sides]
        before, after = (divide(side, counted.sum(axis=-1)) for side in found)
        return before, after

    def _sides(self, truth: ContingencyTable, predicted: ContingencyTable) -> tuple[FloatArray, FloatArray]:
        """Shares in the truth and in what is predicted, [..., A, L]."""
        before, after = (_shares(table, self.share) for table in (truth, predicted))
        return (np.nan_to_num(before), np.nan_to_num(after)) if self.empty == "zero" else (before, after)


def freeze_ba(truth: ContingencyTable, *, variant: BaVariant = _BA) -> Frozen:
    """BA's pairs: b_al > 1/A in the truth (Zhao et al. 2017, "Men also like shopping", eq. 1).

    Raises:
        ValueError: fewer than two classes.
    """
    classes = truth.together.shape[-2]
    if classes < 2:
        raise ValueError("BA needs two classes or more; give the attribute as [N, A] with A >= 2, or as labels")
    total = truth.together.sum(axis=-2, keepdims=True)
    times = classes if variant.threshold == "1/A" else classes - 1
    sign = (truth.together * times > total).astype(np.float64)  # Counts compared as counts: no rounding at a tie.
    share: Share = "of the label's classes" if variant.share == "conditional" else "of samples"
    return Frozen(sign, share, variant.empty, "sum over classes")


def freeze_dba(
    truth: ContingencyTable, direction: Direction, *, variant: DbaVariant = _DBA, size: bool = False
) -> Frozen:
    """DBA's signs: +1 where P(a, l) > P(a) P(l) in the truth, else -1 (Wang and Russakovsky 2021, eq. 1-3).

    Args:
        truth: the table that chooses, of training or of test samples.
        direction: which change is measured.
        variant: see there.
        size: the mean of sizes, for Multi->, instead of the mean.

    Raises:
        ValueError: the direction is neither "A->T" nor "T->A".
    """
    if direction not in ("A->T", "T->A"):
        raise ValueError(f'the direction is "A->T" or "T->A", not {direction!r}')
    samples = truth.samples - (truth.blank if variant.rows == "labelled" else 0)
    together = truth.together * samples[..., None, None]
    expected = truth.attribute[..., :, None] * truth.tasks[..., None, :]
    sign = np.sign(together - expected)
    if variant.tie == "negative":
        sign = np.where(sign > 0, 1.0, -1.0)
    mentions = variant.per == "mentions"
    given: Share = "of the class's labels" if mentions else "of the class"
    if direction == "T->A":
        given = "of the label's classes" if mentions else "of the label"
    return Frozen(sign, given, variant.empty, "mean size" if size else "mean")


def ba_mals(
    attribute: npt.ArrayLike,
    tasks: npt.ArrayLike,
    predicted_tasks: npt.ArrayLike | None = None,
    predicted_attribute: npt.ArrayLike | None = None,
    *,
    variant: BaVariant = _BA,
) -> BiasAmplification:
    """Bias amplification: (1/|L|) sum over pairs of (b^_al - b_al) 1[b_al > 1/A], b_al = c_al / sum_a c_al.

    Zhao et al. 2017; LIC (CVPR 2022), eq. 2-3. Positive: the model ties labels closer to the classes that they go with.

    Args:
        attribute: multi-hot, [N, A], or one class a sample, [N]; see :func:`judge.metrics.counted.contingency.hot`.
        tasks: multi-hot, [N, L], or one label a sample, [N].
        predicted_tasks: like ``tasks``; None: the truth.
        predicted_attribute: like ``attribute``; None: the truth.
        variant: where published codes differ.

    Raises:
        ValueError: arrays of other values or shapes, or fewer than two classes.
    """
    a, a_hat = hot("attribute", attribute, predicted_attribute)
    t, t_hat = hot("tasks", tasks, predicted_tasks)
    same_samples(attribute=a, tasks=t, predicted_tasks=t_hat, predicted_attribute=a_hat)
    truth, predicted = contingency(a, t), contingency(a_hat, t_hat)
    frozen = freeze_ba(truth, variant=variant)
    value, pairs = frozen.evaluate(truth, predicted)
    before, after = frozen.bias(truth, predicted)
    return BiasAmplification(float(value), pairs, float(before), float(after))


def dba(
    attribute: npt.ArrayLike,
    tasks: npt.ArrayLike,
    predicted_tasks: npt.ArrayLike | None = None,
    predicted_attribute: npt.ArrayLike | None = None,
    direction: Direction = "A->T",
    *,
    train: Train | None = None,
    variant: DbaVariant = _DBA,
) -> Amplification:
    """Directional bias amplification (BA->): mean over pairs of y delta + (1 - y)(-delta), y = 1[P(a, l) > P(a) P(l)].

    Wang and Russakovsky 2021, eq. 1-3. delta is P(l^|a) - P(l|a) for "A->T" (LIC's DBA_O), P(a^|l) - P(a|l) for "T->A"
    (its DBA_G). The other prediction is not looked at. Positive: the model amplifies.

    Args:
        attribute: multi-hot, [N, A], or one class a sample, [N]; see :func:`judge.metrics.counted.contingency.hot`.
        tasks: multi-hot, [N, L], or one label a sample, [N].
        predicted_tasks: like ``tasks``; None: the truth.
        predicted_attribute: like ``attribute``; None: the truth.
        direction: "A->T" or "T->A".
        train: (attribute, tasks) of the training samples, to choose y from; default: the truth given.
        variant: where published codes differ.

    Raises:
        ValueError: arrays of other values or shapes, or another direction.
    """
    train_a, train_t = (None, None) if train is None else train
    a, a_hat, train_a = hot("attribute", attribute, predicted_attribute, train_a)
    t, t_hat, train_t = hot("tasks", tasks, predicted_tasks, train_t)
    same_samples(attribute=a, tasks=t, predicted_tasks=t_hat, predicted_attribute=a_hat)
    truth = contingency(a, t)
    frozen = freeze_dba(truth if train is None else contingency(train_a, train_t), direction, variant=variant)
    predicted = contingency(a, t_hat) if direction == "A->T" else contingency(a_hat, t)
    value, pairs = frozen.evaluate(truth, predicted)
    return Amplification(float(value), pairs)


def multi(
    attribute: npt.ArrayLike,
    tasks: npt.ArrayLike,
    predicted_tasks: npt.ArrayLike | None = None,
    predicted_attribute: npt.ArrayLike | None = None,
    direction: Direction = "A->T",
    *,
    train: Train | None = None,
    variant: MultiVariant = _MULTI,
) -> MultiAmplification:
    """Multi->: the mean size, and the variance, of DBA's change over classes and *sets* of labels.

    Zhao, Andrews and Xiang 2023, "Men also do laundry", whose groups are the classes here, and whose attributes the
    labels. A sample has a set if it has all its labels. Sizes do not cancel, so 0 means no change at all, and the value
    does not tell amplification from its opposite: the signed pairs do.

    Args:
        attribute: multi-hot, [N, A], or one class a sample, [N]; see :func:`judge.metrics.counted.contingency.hot`.
        tasks: multi-hot, [N, L], or one label a sample, [N].
        predicted_tasks: like ``tasks``; None: the truth.
        predicted_attribute: like ``attribute``; None: the truth.
        direction: "A->T" (the paper's G->M) or "T->A" (M->G).
        train: (attribute, tasks) of the training samples, to choose sets and y from; only sets that the truth has too
            are kept. Default: the truth given.
        variant: where published codes differ.

    Raises:
        ValueError: arrays of other values or shapes, another direction, or more than 250,000 sets.
    """
    train_a, train_t = (None, None) if train is None else train
    a, a_hat, train_a = hot("attribute", attribute, predicted_attribute, train_a)
    t, t_hat, train_t = hot("tasks", tasks, predicted_tasks, train_t)
    same_samples(attribute=a, tasks=t, predicted_tasks=t_hat, predicted_attribute=a_hat)
    sets = label_sets(train_t, exact=variant.sets == "exact", largest=variant.largest, least=variant.least)
    if train is not None:
        kept = set_contingency(a, t, sets).tasks >= max(1, variant.least)
        sets = tuple(labels for labels, keep in zip(sets, kept, strict=True) if keep)
    truth = set_contingency(a, t, sets)
    chooser = truth if train is None else set_contingency(train_a, train_t, sets)
    frozen = freeze_dba(chooser, direction, variant=variant.change, size=True)
    predicted = set_contingency(a, t_hat, sets) if direction == "A->T" else set_contingency(a_hat, t, sets)
    value, pairs = frozen.evaluate(truth, predicted)
    change = frozen.change(truth, predicted)
    spreads = {"change": change, "signed": pairs, "size": np.abs(change)}
    return MultiAmplification(float(value), pairs, float(variance(spreads[variant.spread], ddof=variant.ddof)), sets)


def variance(pairs: FloatArray, *, ddof: int = 0) -> FloatArray:
    """Variance over the pairs that are defined, [..., A, L] -> [...]; NaN where these are no more than ``ddof``."""
    defined = np.isfinite(pairs)
    number = defined.sum(axis=(-2, -1))
    mean = divide(np.where(defined, pairs, 0.0).sum(axis=(-2, -1)), number)
    squares = np.where(defined, (pairs - mean[..., None, None]) ** 2, 0.0)
    return divide(squares.sum(axis=(-2, -1)), np.maximum(number - ddof, 0))


def counts(attribute: IntArray, tasks: npt.NDArray[np.bool_], classes: int) -> IntArray:
    """c_al: samples of class a with label l, [A, L].

    Args:
        attribute: class of each sample, [N], in 0 .. ``classes`` - 1.
        tasks: which labels each sample has, [N, L].
        classes: A.
    """
    onehot = attribute[:, None] == np.arange(classes)
    return np.asarray(onehot.astype(np.float64).T @ tasks.astype(np.float64)).round().astype(np.int64)


def attribute_shares(table: IntArray) -> FloatArray:
    """b_al = c_al / sum_a c_al of a table of counts, [A, L]: BA's share of each class among the samples with a label.

    NaN for a label that never occurs. Zhao et al. 2017, "Men also like shopping", section 3.
    """
    totals = table.sum(axis=0, keepdims=True)
    return np.asarray(np.divide(table, totals, out=np.full(table.shape, np.nan), where=totals > 0))


def _shares(table: ContingencyTable, share: Share) -> FloatArray:
    """c_al over what it is a share of, [..., A, L]; NaN where that is 0."""
    whole = {
        "of samples": table.samples[..., None, None],
        "of the class": table.attribute[..., :, None],
        "of the class's labels": table.together.sum(axis=-1, keepdims=True),
        "of the label": table.tasks[..., None, :],
        "of the label's classes": table.together.sum(axis=-2, keepdims=True),
    }
    return divide(table.together, whole[share])
