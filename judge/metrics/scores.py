"""Scores: from a judge's probabilities on held-out captions to one number per side; and the priors of captions.

Every score is the pooled (weighted) mean of a quantity per caption. With K equally likely classes the chance level of
an unsure judge is 1/K, and 1/K^2 for LIC's score; for a judge that is sure and wrong LIC's score tends to 1/K too
(judges trained on shuffled labels estimate it: ``judge.measure.refits``).

A directional metric weighs captions by a prior w: DPAC's psi is the mean of q w, DBAC's omega the score Q of the side
times the mean of w. Priors are frequencies among all captions of the side, those that judges learn from and those that
they score. Every resample estimates them again.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from judge.text.coded import multi_hot
from judge.types import BoolArray, FloatArray, Predictions, Sample, TargetKind

# The note of a judge that is chosen among several seeds.
VALIDATION_LOSS = "validation loss"


@dataclass(frozen=True, slots=True)
class Judged:
    """A judge's answers on N held-out captions.

    Attributes:
        probability: p of the true class, [N]; for tasks p of the whole set, the product of the labels' Bernoulli
            probabilities.
        correct: whether the most probable answer is the true one, [N]; for tasks, every label on its side of 1/2.
        loss: cross-entropy with the truth, [N], natural log; for tasks the mean binary one over labels; of judges that
            read what is known, the squared error.
        known: loss of the judge that does not read the caption, [N] or 0.
    """

    probability: FloatArray
    correct: BoolArray
    loss: FloatArray
    known: FloatArray | float = 0.0

    @classmethod
    def of(cls, samples: Sequence[Sample], predictions: Predictions) -> Self:
        """The scores' input for ``predictions`` of ``samples``."""
        truth = multi_hot([sample.answers for sample in samples], len(predictions.target.classes))
        return cls.of_arrays(truth, predictions.probabilities, predictions.target.kind)

    @classmethod
    def of_arrays(cls, truth: BoolArray, probabilities: FloatArray, kind: TargetKind) -> Self:
        """``probabilities``, [N, A], where ``truth`` holds, [N, A]; a loss is infinite where one of the truth is 0."""
        one = kind == "attribute"
        with np.errstate(divide="ignore"):
            logs = (
                np.log(probabilities[truth])[:, None]
                if one
                else np.where(truth, np.log(probabilities), np.log1p(-probabilities))
            )
        correct = (guessed(probabilities, kind) == truth).all(axis=1)
        return cls(np.exp(logs.sum(axis=1)), correct, np.asarray(-logs.mean(axis=1)))


def guessed(probabilities: FloatArray, kind: TargetKind) -> BoolArray:
    """The predicted classes, [N, A]: the most probable one (the first of ties), or the tasks with p >= 1/2."""
    if kind == "tasks":
        return np.asarray(probabilities >= 0.5)
    return np.asarray(np.arange(probabilities.shape[1]) == probabilities.argmax(axis=1)[:, None])


def centre(values: FloatArray) -> FloatArray:
    """Each class's value less the mean of the others', [..., A]."""
    classes = values.shape[-1]
    return np.asarray((values - values.mean(axis=-1, keepdims=True)) * (classes / (classes - 1)))


@dataclass(frozen=True, slots=True)
class Score:
    """A score: the pooled mean of a quantity per caption.

    Attributes:
        quantity: answers on N captions -> [N].
        pool: mean(s) of the quantity, any shape -> value(s) of the side; None for the mean itself.
        chance: shares of the classes, [K], -> the score of a judge that knows only these: 1/K if they are equal.
        relative: whether the value is 1 - mean / mean of the same for :func:`frequency_loss`.
    """

    quantity: Callable[[Judged], FloatArray]
    pool: Callable[[FloatArray], FloatArray] | None
    chance: Callable[[FloatArray], float]
    relative: bool = False


def _reciprocal(mean: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore"):
        return np.asarray(1.0 / mean)


SCORES: dict[str, Score] = {
    # Whether the most probable answer is the true one: Leakage's lambda (CVPR 2022, eq. 5-6).
    "accuracy": Score(lambda judged: judged.correct.astype(np.float64), None, np.max),
    # p(true) where the most probable answer is the true one, else 0: LIC (CVPR 2022, eq. 9-10).
    "confident_accuracy": Score(
        lambda judged: judged.probability * judged.correct, None, lambda shares: np.max(shares) ** 2
    ),
    # p(true), right or wrong: ImageCaptioner2 (AAAI 2024), DPAC.
    "confidence": Score(lambda judged: judged.probability, None, lambda shares: np.sum(shares**2)),
    # One over the mean loss, 0 where a judge gave a truth probability 0: DBAC (WACV 2026).
    "inverse_cross_entropy": Score(
        lambda judged: judged.loss, _reciprocal, lambda shares: -1 / np.sum(shares * np.log(shares))
    ),
    # By how much a caption lowers the loss, given what is known: conditional usable information.
    "gain": Score(lambda judged: judged.known - judged.loss, None, lambda _: 0.0),
    # 1 - CE(answer | evidence) / CE(answer): Theil's uncertainty coefficient, cross-validated.
    "uncertainty": Score(lambda judged: judged.loss, None, lambda _: 0.0, relative=True),
}


def frequency_loss(counts: FloatArray, total: int, truth: BoolArray, kind: TargetKind) -> FloatArray:
    """Loss, [N], of a judge that knows only how frequent answers are among the captions that it learns from.

    An answer that all of these have, or none, counts as if half a caption more were otherwise, as in linear judges.
    ``counts``: how many of these ``total`` captions have each answer, [A], or [N, A] where they differ. ``truth``:
    the answers of the captions that it is scored on, [N, A].
    """
    if kind == "attribute" and truth.shape[1] > 2:
        share = np.where(counts > 0, counts / max(total, 1), 0.5 / (total + 1))
        share /= share.sum(axis=-1, keepdims=True)
    else:
        never = 0.5 / (total + 1.5)
        share = np.where(counts == 0, never, np.where(counts == total, 1 - never, counts / max(total, 1)))
    return Judged.of_arrays(truth, np.broadcast_to(share, truth.shape), kind).loss


def frequency(counts: FloatArray) -> FloatArray:
    """``counts``, [U, ...], over their sum along the first axis, in [0, 1]; NaN where all are 0."""
    total = counts.sum(axis=0)
    return np.asarray(np.divide(counts, total, out=np.full(counts.shape, np.nan), where=total > 0))
