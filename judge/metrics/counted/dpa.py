"""DPA: how well labels are guessed from the class, or the class from labels, on each side; in closed form.

The Bayes-optimal guesser of a table answers, in each condition, with the most frequent answer. Each side has its own,
like an attacker; :class:`FrozenGuesses` keeps both, as the best guesses of a resample would be right too often.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from judge.metrics.counted.contingency import ContingencyTable, contingency, divide, read_samples
from judge.metrics.counted.spec import Amplification, Compared, CountedMetric, pieces_of
from judge.types import BoolArray, Direction, FloatArray


@dataclass(frozen=True, kw_only=True)
class Dpa(CountedMetric):
    """DPA of Tokas, Nair and Kerner 2024: what is guessed, and how guesses count.

    Attributes:
        unit: each pair of a class and a label of a sample is one guess among all labels (all classes), "mention"; or
            each label is a question by itself, present or absent in the sample, and the mean over labels is taken
            ("label": kerner-lab's elementwise accuracy). They differ even where each sample has one label. By "label",
            one that all samples of both sides have, or none, is left out for "A->T": there is nothing to guess.
        score: share of right guesses ("accuracy"), or its mean over the answers ("balanced"). Without association the
            first is the share of the most frequent answer, the second 1 / (number of answers that occur).
    """

    direction: Direction | None = "A->T"
    unit: Literal["mention", "label"] = "mention"
    score: Literal["accuracy", "balanced"] = "accuracy"

    amplification: ClassVar[str] = "normalised"
    variants: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "annotation": {"against": "annotation"},
        "label": {"unit": "label"},
        "balanced": {"score": "balanced"},
        "label-balanced": {"unit": "label", "score": "balanced"},
    }

    def freeze(self, truth: ContingencyTable, predicted: ContingencyTable) -> FrozenGuesses:
        """The best guessers of two tables."""
        before, after = self.cells(truth), self.cells(predicted)
        occur = [cells.sum(axis=-2) > 0 for cells in (before, after)]
        answers = (occur[0] | occur[1]).sum(axis=-1).astype(np.float64)
        asked = occur[0].any(axis=-1) & occur[1].any(axis=-1) & (occur[0].shape[-1] > 1)
        if self.unit == "label" and self.direction == "A->T":
            asked &= answers > 1
        guesses = [_best(cells * self.worth(cells, answers)) for cells in (before, after)]
        return FrozenGuesses(guesses[0], guesses[1], asked, answers, self)

    def cells(self, table: ContingencyTable) -> FloatArray:
        """Counts by question, condition and answer, [..., Q, X, Y]."""
        cells = table.together[..., None, :, :]
        if self.unit == "label":
            absent = table.attribute[..., :, None] - table.together
            cells = np.stack([table.together, absent], axis=-1).swapaxes(-3, -2)  # [..., L, A, 2]
        return cells if self.direction == "A->T" else cells.swapaxes(-1, -2)

    def worth(self, cells: FloatArray, answers: FloatArray) -> FloatArray:
        """The score of a right guess of each answer, [..., Q, 1, Y]; all right guesses together score 1."""
        if self.score == "accuracy":
            return np.nan_to_num(divide(1.0, cells.sum(axis=(-2, -1), keepdims=True)))
        return np.nan_to_num(divide(1.0, cells.sum(axis=-2, keepdims=True) * answers[..., None, None]))

    def pairs(self, cells: FloatArray) -> FloatArray:
        """Cells, [..., Q, X, Y], as pairs, [..., A, L]."""
        forward = cells if self.direction == "A->T" else cells.swapaxes(-1, -2)
        return np.asarray(forward.sum(axis=-3) if self.unit == "mention" else forward.sum(axis=-1).swapaxes(-1, -2))


@dataclass(frozen=True, slots=True, eq=False)
class FrozenGuesses:
    """The best guessers of both sides. Axes: questions, conditions, answers.

    ``truth``, ``predicted``: 1 at the answer that is guessed in a condition, else 0, of either side, [..., Q, X, Y].
    ``asked``: questions that count, [..., Q]; ``answers``: those that occur on either side, of each question, [..., Q].
    """

    truth: FloatArray
    predicted: FloatArray
    asked: BoolArray
    answers: FloatArray
    metric: Dpa

    def compare(self, truth: ContingencyTable, predicted: ContingencyTable) -> Compared:
        """Values, pairs and both sides' predictability."""
        sides = []
        for guess, table in ((self.truth, truth), (self.predicted, predicted)):
            cells = self.metric.cells(table)
            right = np.where(self.asked[..., None, None], guess * cells * self.metric.worth(cells, self.answers), 0.0)
            sides.append(divide(right, self.asked.sum(axis=-1)[..., None, None, None]))
        before, after = (right.sum(axis=(-3, -2, -1)) for right in sides)
        value = divide(after - before, before + after)
        return Compared(value, self.metric.pairs(sides[1] - sides[0]), before, after)

    def parts(self, truth: ContingencyTable, predicted: ContingencyTable) -> FloatArray:
        """What each pair adds to the difference of the sides, over their sum."""
        found = self.compare(truth, predicted)
        return np.asarray(np.nan_to_num(found.pairs) / (found.truth + found.predicted)[..., None, None])

    def pieces(self, truth: ContingencyTable, predicted: ContingencyTable) -> tuple[ContingencyTable, ContingencyTable]:
        """What each sample adds: the score of a right guess, over the questions and the sum of the sides."""
        found = self.compare(truth, predicted)
        scale = divide(1.0, (found.truth + found.predicted) * self.asked.sum(axis=-1))[..., None, None, None]
        sides = []
        for guess, table in ((self.truth, truth), (self.predicted, predicted)):
            worth = self.metric.worth(self.metric.cells(table), self.answers)
            cells = np.where(self.asked[..., None, None], guess * worth, 0.0) * scale
            if self.metric.unit == "mention":
                sides.append(pieces_of(table, self.metric.pairs(cells)))
                continue
            # Absent labels count too: samples of the class less those with the label.
            forward = cells if self.metric.direction == "A->T" else cells.swapaxes(-1, -2)
            there, absent = (forward[..., place].swapaxes(-1, -2) for place in (0, 1))
            sides.append(pieces_of(table, there - absent, attribute=absent.sum(axis=-1)))
        return sides[0], sides[1]


def dpa(
    attribute: npt.ArrayLike,
    tasks: npt.ArrayLike,
    predicted_tasks: npt.ArrayLike | None = None,
    predicted_attribute: npt.ArrayLike | None = None,
    direction: Direction = "A->T",
    *,
    variant: Dpa | None = None,
) -> Amplification:
    """Directional predictability amplification of categories: (M - H) / (M + H) of the two sides' predictability.

    Tokas, Nair and Kerner 2024, with the Bayes-optimal guesser of the counts for the attacker. "A->T" guesses labels
    from the class (T^ from A, against T from A), "T->A" the class from labels. Nothing is trained or held out: a side
    with rare conditions is guessed too well. Each label (class) of a sample is one guess. The paper's quality
    equalisation (noise put on the truth until it is as wrong as the model) is not applied.

    Table 3 of the DBAC paper has 0.5 for one side, where two genders and three tasks are balanced. ``truth`` is 1/2
    there for "T->A", and for "A->T" with ``Dpa(unit="label", score="balanced")``; by default it is 1/3.

    Class 0 has the labels 0 0 1 2 and class 1 has 1 1 2 2: the best guesses, 0 and 1, are right four times of eight. Of
    the model's labels they are right six times:

        >>> found = dpa([0, 0, 0, 0, 1, 1, 1, 1], [0, 0, 1, 2, 1, 1, 2, 2], [0, 0, 0, 0, 1, 1, 2, 2])
        >>> found.truth, found.predicted, found.value
        (0.5, 0.75, 0.2)

    Arrays are as in :func:`judge.ba_mals`; ``variant`` says what is guessed, and how guesses count.

    Returns:
        ``value`` in (-1, 1); NaN where there is nothing to guess: a side without any pair, or a single column of
        answers (``unit="label"`` is for a task that is there or not). ``truth`` and ``predicted`` are the sides'
        predictability, in [0, 1] (``truth``: DPA_H of the DBAC paper, Table 3). ``pairs`` are what each pair adds to
        their difference.

    Raises:
        ValueError: arrays of other values or shapes, or another direction.
    """
    sides = read_samples(attribute, tasks, predicted_tasks, predicted_attribute, direction)
    metric = replace(variant or Dpa(), direction=direction)
    tables = contingency(*sides.truth), contingency(*sides.predicted)
    return Amplification.of(metric.freeze(*tables).compare(*tables))


def _best(cells: FloatArray) -> FloatArray:
    """1 at the largest answer of each condition, the first of ties."""
    return np.asarray(np.arange(cells.shape[-1]) == cells.argmax(axis=-1)[..., None], dtype=np.float64)
