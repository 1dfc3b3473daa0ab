"""Multi->: DBA's change over sets of labels, of Zhao, Andrews and Xiang 2023 ("Men also do laundry")."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from judge.errors import JudgeError
from judge.metrics.counted.contingency import Sets, Train, contingency, holding, label_sets, read_samples
from judge.metrics.counted.pairs import Dba, mean, variance
from judge.metrics.counted.spec import Amplification, CaptionTable, Terms
from judge.types import BoolArray, Direction, FloatArray


@dataclass(frozen=True, kw_only=True)
class Multi(Dba):
    """Multi->. The default is Zhao, Andrews and Xiang 2023; the change and its sign are DBA's.

    Attributes:
        statistic: the mean size of the changes, or their variance.
        largest: labels in a set at most; None: any number.
    """

    statistic: Literal["mean size", "variance"] = "mean size"
    largest: int | None = None

    signed: ClassVar[bool] = False
    variants: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "annotation": {"against": "annotation"},
        "pairs": {"largest": 2},
        "variance": {"statistic": "variance"},
    }

    def find_sets(self, tasks: BoolArray) -> Sets:
        """The sets of labels that samples with ``tasks``, [N, L], have, with others or alone."""
        return label_sets(tasks, largest=self.largest)

    def terms(self, truth: CaptionTable, predicted: CaptionTable) -> list[Terms]:
        """The sets of labels of the truth that each row has; a JudgeError if there are too many."""
        try:
            sets = self.find_sets((truth.labels > 0).toarray())
        except ValueError as error:
            name = "multi-at" if self.direction == "A->T" else "multi-ta"
            what = "images show more than 250,000 sets of objects"
            raise JudgeError(what, where=f"--metrics {name}", mend=f"use {name}:pairs") from error
        return [(self.side_terms(side)[0], holding(side.labels, sets)) for side in (truth, predicted)]

    def columns(self, truth: CaptionTable, names: Sequence[str]) -> list[tuple[str, ...]]:
        """The sets of labels."""
        return [tuple(names[place] for place in members) for members in self.find_sets((truth.labels > 0).toarray())]

    def pool(self, change: FloatArray, pairs: FloatArray) -> FloatArray:
        """The mean size of changes, or their variance."""
        return variance(change) if self.statistic == "variance" else mean(np.abs(change))

    def slope(self, sign: FloatArray, change: FloatArray) -> FloatArray:
        """The factor of each change: its sign, or its distance from the mean."""
        factor = np.sign(change) if self.statistic == "mean size" else change - mean(change)[..., None, None]
        return Dba.slope(self, factor, change)


@dataclass(frozen=True, slots=True, eq=False)
class MultiAmplification(Amplification):
    """Multi-> of arrays: ``value`` is the mean size of the M sets' ``pairs``, [A, M].

    Attributes:
        variance: of the changes; NaN where no pair is defined.
        sets: the M sets of labels, as indices.
    """

    variance: float
    sets: Sets


def multi(
    attribute: npt.ArrayLike,
    tasks: npt.ArrayLike,
    predicted_tasks: npt.ArrayLike | None = None,
    predicted_attribute: npt.ArrayLike | None = None,
    direction: Direction = "A->T",
    *,
    train: Train | None = None,
    variant: Multi | None = None,
) -> MultiAmplification:
    """Multi->: the mean size, and the variance, of DBA's change over classes and *sets* of labels.

    Zhao, Andrews and Xiang 2023, "Men also do laundry", whose groups are the classes here, and whose attributes the
    labels. A sample has a set if it has all its labels. Sizes do not cancel: 0 means no change at all, and only the
    signed pairs distinguish amplification from its opposite.

    Of class 0 one sample in two has both labels, and the model gives both to the other too:

        >>> found = multi([0, 0, 1, 1], [[1, 1], [1, 0], [0, 1], [0, 1]], [[1, 1], [1, 1], [0, 1], [0, 1]])
        >>> found.sets, round(found.value, 4), found.pairs.tolist()
        (((0,), (1,), (0, 1)), 0.1667, [[0.0, -0.5, 0.5], [0.0, 0.0, 0.0]])

    Arrays are as in :func:`judge.ba_mals`; "A->T" is the paper's G->M. ``train`` is (attribute, tasks) of the training
    samples, to choose sets and y from; only sets that the truth has too are kept. Default: the truth given. ``variant``
    limits the size of sets (``largest``).

    Raises:
        ValueError: arrays of other values or shapes, another direction, or more than 250,000 sets.
    """
    sides = read_samples(attribute, tasks, predicted_tasks, predicted_attribute, direction, train=train)
    metric = replace(variant or Multi(), direction=direction)
    sets = metric.find_sets(sides.train[1])
    if train is not None:
        held = contingency(*sides.truth, sets=sets).tasks
        sets = tuple(labels for labels, count in zip(sets, held, strict=True) if count)
    truth, predicted = contingency(*sides.truth, sets=sets), contingency(*sides.predicted, sets=sets)
    frozen = metric.freeze(truth if train is None else contingency(*sides.train, sets=sets), predicted)
    found = frozen.compare(truth, predicted)
    before, after = frozen.shares(truth, predicted)
    return MultiAmplification.of(found, variance=float(variance(after - before)), sets=sets)
