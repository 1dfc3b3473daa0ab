"""DBA: directional bias amplification of Wang and Russakovsky 2021 (BA->)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from judge.metrics.counted.association import Empty, FrozenPairs, Share, mean, mean_slope
from judge.metrics.counted.contingency import ContingencyTable, Train, contingency, read_samples
from judge.metrics.counted.spec import Amplification, CountedMetric
from judge.types import Direction, FloatArray


@dataclass(frozen=True, kw_only=True)
class Dba(CountedMetric):
    """DBA. The default is Wang and Russakovsky 2021, eq. 1-3 (empty: their code).

    Attributes:
        tie: pairs of P(a, l) = P(a) P(l) have y = 0 and count as -delta ("negative": the paper, kerner-lab, Facebook),
            or not at all ("zero": Princeton, Sony).
        empty: pairs whose condition nobody meets: left out ("skip": Princeton), or of probability 0 ("zero":
            kerner-lab).
        per: P(l|a) is a share of the samples of class a ("samples": the paper, Princeton, Sony) or of their labels
            ("mentions": kerner-lab); P(a|l) likewise. They agree where each sample has one label (one class).
        rows: samples that y counts: "all", or only those with any class or label ("labelled": Sony).
    """

    direction: Direction | None = "A->T"
    tie: Literal["negative", "zero"] = "negative"
    empty: Empty = "skip"
    per: Literal["samples", "mentions"] = "samples"
    rows: Literal["all", "labelled"] = "all"

    variants: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "annotation": {"against": "annotation"},
        "princeton": {"tie": "zero"},
        "sony": {"tie": "zero", "rows": "labelled"},
        "kerner-lab": {"empty": "zero", "per": "mentions"},
    }

    def freeze(self, truth: ContingencyTable, predicted: ContingencyTable) -> FrozenPairs:
        """Signs: +1 where P(a, l) > P(a) P(l) in ``truth``, the table of training or of test samples; else -1."""
        samples = truth.samples - (truth.blank if self.rows == "labelled" else 0)
        together = truth.together * samples[..., None, None]
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
        """What each change is multiplied by in the value."""
        return mean_slope(sign, change)


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
    (its DBA_G). The other prediction is not looked at. Positive: the model amplifies.

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
