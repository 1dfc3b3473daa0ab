"""DPA: how well labels are guessed from the class, or the class from labels, on each side; in closed form.

The Bayes-optimal guesser of a table answers, in each condition, what occurs most often in it. Like an attacker, each
side has its own; :class:`FrozenGuesses` keeps both, so that a bootstrap does not choose new ones (the best guess of a
resample is better than it should be, every time).

What several labels of a sample tell together has no closed form: :func:`attack` trains a guesser.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from judge.metrics.counted.contingency import ContingencyTable, contingency, divide, hot, same_samples
from judge.types import Direction, FloatArray


@dataclass(frozen=True, slots=True)
class DpaVariant:
    """What is guessed, and how guesses count.

    Attributes:
        unit: each pair of a class and a label of a sample is one guess among all labels (all classes), "mention"; or
            each label is a question by itself, present or absent in the sample, and the mean over labels is taken
            ("label": kerner-lab's elementwise accuracy). They differ even where each sample has one label. By "label",
            one that all samples of both sides have, or none, is left out for "A->T": there is nothing to guess. Or
            whole sets: a trained guesser sees all labels (all classes) of a sample at once, "attacker".
        score: share of right guesses ("accuracy"), or its mean over the answers ("balanced"). Without association the
            first is the share of the most frequent answer, the second 1 / (number of answers that occur).
    """

    unit: Literal["mention", "label", "attacker"] = "mention"
    score: Literal["accuracy", "balanced"] = "accuracy"


_DPA = DpaVariant()
_FOLDS = 5


@dataclass(frozen=True, slots=True, eq=False)
class Predictability:
    """DPA.

    Attributes:
        value: (predicted - truth) / (predicted + truth), in (-1, 1); NaN where there is nothing to guess: a side
            without any pair, or a single column of answers (``unit="label"`` is for a task that is there or not).
        pairs: what each pair adds to ``predicted`` - ``truth``, signed, [A, L]; NaN of an attacker, who sees no pairs.
        truth: predictability of the truth, in [0, 1] (DPA_H of the DBAC paper, Table 3).
        predicted: that of the model.
    """

    value: float
    pairs: FloatArray
    truth: float
    predicted: float


class Values(NamedTuple):
    """Of tables with leading axes: as in :class:`Predictability`, [...] and [..., A, L]."""

    value: FloatArray
    pairs: FloatArray
    truth: FloatArray
    predicted: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class FrozenGuesses:
    """The best guessers of both sides, chosen once. Axes: questions, conditions, answers.

    Attributes:
        truth: 1 at the answer that is guessed in a condition, else 0, [..., Q, X, Y].
        predicted: the same of the model's side.
        asked: questions that count, [..., Q].
        answers: answers that occur on either side, of each question, [..., Q].
        direction: "A->T" guesses labels from the class, "T->A" the class from labels.
        variant: see there.
    """

    truth: FloatArray
    predicted: FloatArray
    asked: npt.NDArray[np.bool_]
    answers: FloatArray
    direction: Direction
    variant: DpaVariant

    def evaluate(self, truth: ContingencyTable, predicted: ContingencyTable) -> Values:
        """Values and pairs of tables with any leading axes."""
        sides = [self._right(guess, of) for guess, of in ((self.truth, truth), (self.predicted, predicted))]
        before, after = (right.sum(axis=(-3, -2, -1)) for right in sides)
        value = divide(after - before, before + after)
        return Values(value, _pairs(sides[1] - sides[0], self.direction, self.variant), before, after)

    def _right(self, guess: FloatArray, table: ContingencyTable) -> FloatArray:
        """Share of right guesses in each cell, [..., Q, X, Y]; NaN of a table without anything to guess."""
        cells = _cells(table, self.direction, self.variant)
        right = guess * cells * _worth(cells, self.answers, self.variant)
        return divide(np.where(self.asked[..., None, None], right, 0.0), self.asked.sum(axis=-1)[..., None, None, None])


def freeze_dpa(
    truth: ContingencyTable, predicted: ContingencyTable, direction: Direction, *, variant: DpaVariant = _DPA
) -> FrozenGuesses:
    """The best guessers of two tables.

    Raises:
        ValueError: the direction is neither "A->T" nor "T->A"; or an attacker is asked for, whom tables do not tell.
    """
    _check(direction)
    if variant.unit == "attacker":
        raise ValueError("an attacker learns from samples, not from their counts")
    before, after = (_cells(table, direction, variant) for table in (truth, predicted))
    occur = [cells.sum(axis=-2) > 0 for cells in (before, after)]
    answers = (occur[0] | occur[1]).sum(axis=-1).astype(np.float64)
    asked = occur[0].any(axis=-1) & occur[1].any(axis=-1) & (occur[0].shape[-1] > 1)
    if variant.unit == "label" and direction == "A->T":
        asked &= answers > 1
    guesses = [_best(cells * _worth(cells, answers, variant)) for cells in (before, after)]
    return FrozenGuesses(guesses[0], guesses[1], asked, answers, direction, variant)


def attack(
    conditions: npt.NDArray[np.bool_], answers: npt.NDArray[np.bool_], images: npt.NDArray[np.int64] | None = None
) -> FloatArray:
    """How right a trained guesser of ``answers`` is, who sees all ``conditions`` of a sample at once.

    Logistic regression (scikit-learn, C = 1), trained on four fifths of the images to guess the others: of one answer a
    sample multinomial, else of each answer whether it is there.

    Args:
        conditions: multi-hot, [N, X].
        answers: multi-hot, [N, Y].
        images: whose sample each is, [N]: samples of an image are guessed together. Default: one an image.

    Returns:
        The share of a sample's answers that are guessed right, [N]: 0 or 1 of one, else a mean over all Y.
    """
    from sklearn.model_selection import KFold

    whose = np.arange(len(answers)) if images is None else images
    parts = KFold(_FOLDS, shuffle=True, random_state=0).split(np.unique(whose))
    held = [np.isin(whose, np.unique(whose)[part]) for _, part in parts]
    single = bool((answers.sum(axis=1) == 1).all())
    questions = [answers.argmax(axis=1)] if single else list(answers.T)
    return np.asarray(np.mean([_learn(conditions, asked, held) for asked in questions], axis=0), dtype=np.float64)


def _learn(
    conditions: npt.NDArray[np.bool_], answers: npt.NDArray[np.generic], held: Sequence[npt.NDArray[np.bool_]]
) -> FloatArray:
    """1 where the answer is guessed right, [N]; an answer that is the only one in training is always guessed."""
    from sklearn.dummy import DummyClassifier
    from sklearn.linear_model import LogisticRegression

    right = np.zeros(len(answers))
    for part in held:
        known = np.unique(answers[~part])
        guesser = LogisticRegression(max_iter=1000) if len(known) > 1 else DummyClassifier()
        guesser.fit(conditions[~part], answers[~part])
        right[part] = guesser.predict(conditions[part]) == answers[part]
    return right


def _check(direction: Direction) -> None:
    if direction not in ("A->T", "T->A"):
        raise ValueError(f'the direction is "A->T" or "T->A", not {direction!r}')


def dpa(
    attribute: npt.ArrayLike,
    tasks: npt.ArrayLike,
    predicted_tasks: npt.ArrayLike | None = None,
    predicted_attribute: npt.ArrayLike | None = None,
    direction: Direction = "A->T",
    *,
    variant: DpaVariant = _DPA,
) -> Predictability:
    """Directional predictability amplification of categories: (M - H) / (M + H) of the two sides' predictability.

    Tokas, Nair and Kerner 2025, with the Bayes-optimal guesser of the counts for the attacker. "A->T" guesses labels
    from the class (T^ from A, against T from A), "T->A" the class from labels. Nothing is trained or held out: a side
    whose conditions are rare is guessed too well. Samples of several labels (classes) are so many guesses; where it
    matters what they say together, ``DpaVariant(unit="attacker")`` trains a guesser (:func:`attack`), which for
    "T->A" leaves out samples that have no class or several. The paper's quality equalisation (noise put on the truth
    until it is as wrong as the model) is not applied.

    Table 3 of the DBAC paper has 0.5 for one side, where two genders and three tasks are balanced, and does not say
    what is guessed. ``truth`` of "T->A" is 1/2 there; of "A->T" it is 1/3 by default, the chance of three tasks, and
    1/2 with ``DpaVariant(unit="label", score="balanced")``.

    Args:
        attribute: multi-hot, [N, A], or one class a sample, [N]; see :func:`judge.metrics.counted.contingency.hot`.
        tasks: multi-hot, [N, L], or one label a sample, [N].
        predicted_tasks: like ``tasks``; None: the truth.
        predicted_attribute: like ``attribute``; None: the truth.
        direction: "A->T" or "T->A".
        variant: what is guessed, and how guesses count.

    Raises:
        ValueError: arrays of other values or shapes, or another direction.
    """
    a, a_hat = hot("attribute", attribute, predicted_attribute)
    t, t_hat = hot("tasks", tasks, predicted_tasks)
    same_samples(attribute=a, tasks=t, predicted_tasks=t_hat, predicted_attribute=a_hat)
    if variant.unit == "attacker":
        _check(direction)
        sides = [(a, t), (a, t_hat)] if direction == "A->T" else [(t, a), (t, a_hat)]
        before, after = (divide(*attack_terms(*side, direction).sum(axis=0)) for side in sides)
        pairs = np.full((a.shape[1], t.shape[1]), np.nan)
        return Predictability(float(divide(after - before, before + after)), pairs, float(before), float(after))
    truth = contingency(a, t)
    predicted = contingency(a, t_hat) if direction == "A->T" else contingency(a_hat, t)
    found = freeze_dpa(truth, predicted, direction, variant=variant).evaluate(truth, predicted)
    return Predictability(float(found.value), found.pairs, float(found.truth), float(found.predicted))


def attack_terms(
    conditions: npt.NDArray[np.bool_],
    answers: npt.NDArray[np.bool_],
    direction: Direction,
    images: npt.NDArray[np.int64] | None = None,
) -> FloatArray:
    """How right the guess of each sample is, and 1, [N, 2]: predictability is their sums' ratio. See :func:`attack`.

    (0, 0) for samples that are left out: "T->A" guesses one class, "A->T" any labels, none of them too.
    """
    asked = answers.sum(axis=1) == 1 if direction == "T->A" else np.ones(len(answers), dtype=np.bool_)
    terms = np.zeros((len(answers), 2))
    if asked.sum() >= _FOLDS:
        terms[asked, 0] = attack(conditions[asked], answers[asked], None if images is None else images[asked])
        terms[asked, 1] = 1
    return terms


def _cells(table: ContingencyTable, direction: Direction, variant: DpaVariant) -> FloatArray:
    """Counts by question, condition and answer, [..., Q, X, Y]."""
    if variant.unit == "mention":
        cells = table.together[..., None, :, :]
        return np.asarray(cells if direction == "A->T" else cells.swapaxes(-1, -2))
    absent = table.attribute[..., :, None] - table.together
    answered = np.stack([table.together, absent], axis=-1).swapaxes(-3, -2)  # [..., L, A, 2]
    return np.asarray(answered if direction == "A->T" else answered.swapaxes(-1, -2))


def _worth(cells: FloatArray, answers: FloatArray, variant: DpaVariant) -> FloatArray:
    """What a right guess of each answer is worth, [..., Q, 1, Y], so that all right is 1."""
    if variant.score == "accuracy":
        return np.nan_to_num(divide(1.0, cells.sum(axis=(-2, -1), keepdims=True)))
    return np.nan_to_num(divide(1.0, cells.sum(axis=-2, keepdims=True) * answers[..., None, None]))


def _best(cells: FloatArray) -> FloatArray:
    """1 at the greatest answer of each condition, the first of equals."""
    return np.asarray(np.arange(cells.shape[-1]) == cells.argmax(axis=-1)[..., None], dtype=np.float64)


def _pairs(cells: FloatArray, direction: Direction, variant: DpaVariant) -> FloatArray:
    """[..., Q, X, Y] of questions as [..., A, L] of pairs."""
    if variant.unit == "mention":
        summed = cells.sum(axis=-3)
        return np.asarray(summed if direction == "A->T" else summed.swapaxes(-1, -2))
    return np.asarray(cells.sum(axis=-1 if direction == "A->T" else -2).swapaxes(-1, -2))
