"""BA: bias amplification of Zhao et al. 2017 ("Men also like shopping"; MALS)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from judge.metrics.counted.association import Empty, FrozenPairs, Share
from judge.metrics.counted.contingency import ContingencyTable, contingency, divide, read_samples
from judge.metrics.counted.spec import Amplification, Compared, CountedMetric, LabelKind
from judge.types import FloatArray


@dataclass(frozen=True, kw_only=True)
class Ba(CountedMetric):
    """BA. Its pairs are those of b_al > 1/A in the truth (Zhao et al. 2017, eq. 1).

    Attributes:
        share: what is compared: b_al = c_al / sum_a c_al ("conditional": Zhao 2017, Princeton) or c_al / N ("joint":
            kerner-lab). The pairs are those of the conditional share in both.
        threshold: b_al must be more than 1/A, or than 1/(A-1) (Sony, where none is at A = 2).
        empty: a label that one side never has: left out of the sum and of |L| ("skip"), or of share 0 ("zero").
    """

    labels: LabelKind | None = "words"
    share: Literal["conditional", "joint"] = "conditional"
    threshold: Literal["1/A", "1/(A-1)"] = "1/A"
    empty: Empty = "skip"

    variants: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "joint": {"share": "joint"},
        "kerner-lab": {"share": "joint", "empty": "zero"},
        "sony": {"threshold": "1/(A-1)"},
    }

    def by_construction(self, attribute: str, *, classes: int, has_words: bool, derived: bool) -> Iterator[str]:
        """Thresholds that no pair passes, and classes that are the annotated ones."""
        if self.threshold == "1/(A-1)" and classes == 2:
            yield "BA, sony: with two classes its threshold is a share of 1, which no pair can pass: it says nothing."
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
        times = classes if self.threshold == "1/A" else classes - 1
        sign = (truth.together * times > total).astype(np.float64)  # Counts compared as counts: no rounding at a tie.
        share: Share = "of samples" if self.share == "joint" else "of the label's classes"
        return FrozenBa(sign, share, self.empty, _pool, _slope)


class FrozenBa(FrozenPairs):
    """BA's pairs; its value is the difference of its two sides."""

    def compare(self, truth: ContingencyTable, predicted: ContingencyTable) -> Compared:
        """Values, pairs, and the bias of both sides (:func:`ba_mals`)."""
        sides = self.shares(truth, predicted)
        change = sides[1] - sides[0]
        pairs = self.sign * change + 0.0
        counted = np.isfinite(change).all(axis=-2)
        # A label that goes with no class adds 1/A to both sides.
        even = np.where(self.sign.any(axis=-2), 0.0, 1 / self.sign.shape[-2])
        even = even if self.share == "of the label's classes" else np.zeros_like(even)
        found = [np.where(counted, (self.sign * side).sum(axis=-2) + even, 0.0).sum(axis=-1) for side in sides]
        before, after = (divide(side, counted.sum(axis=-1)) for side in found)
        return Compared(self.pool(change, pairs), pairs, before, after)


def _pool(change: FloatArray, pairs: FloatArray) -> FloatArray:
    """(1/|L|) times the sum over pairs; undefined ones are left out, and their labels from |L|."""
    defined = np.isfinite(change)
    return divide(np.where(defined, pairs, 0.0).sum(axis=(-2, -1)), defined.all(axis=-2).sum(axis=-1))


def _slope(sign: FloatArray, change: FloatArray) -> FloatArray:
    """What changes are multiplied by in :func:`_pool`."""
    labels = np.isfinite(change).all(axis=-2).sum(axis=-1)
    return np.asarray(sign / np.maximum(labels, 1)[..., None, None])


def ba_mals(
    attribute: npt.ArrayLike,
    tasks: npt.ArrayLike,
    predicted_tasks: npt.ArrayLike | None = None,
    predicted_attribute: npt.ArrayLike | None = None,
    *,
    variant: Ba | None = None,
) -> Amplification:
    """Bias amplification: (1/|L|) sum over pairs of (b^_al - b_al) 1[b_al > 1/A], b_al = c_al / sum_a c_al.

    Zhao et al. 2017; LIC (CVPR 2022), eq. 2-3. Positive: the model ties labels closer to the classes that they go with.

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
        (BA_H of the DBAC paper, Table 3), to 1. Of joint shares: their sum over the pairs that count, by |L|.

    Raises:
        ValueError: arrays of other values or shapes, or fewer than two classes.
    """
    sides = read_samples(attribute, tasks, predicted_tasks, predicted_attribute)
    tables = contingency(*sides.truth), contingency(*sides.predicted)
    return Amplification.of((variant or Ba()).freeze(*tables).compare(*tables))
