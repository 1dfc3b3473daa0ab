"""The score q of one side: from a judge's probabilities on held-out captions to numbers in [0, 1].

Every score is a quantity per caption whose (weighted) mean is pooled into the side's value. Chance with K equally
likely classes, of a judge that is never sure: 1/K, and 1/K^2 for LIC's; of a judge that is sure and wrong LIC's tends
to 1/K too (labels shuffled among images tell: ``judge.measure.refits``).

A directional metric weighs captions by a prior w. Of a score per caption it takes the mean of q w (DPAC's psi); of a
pooled one, Q times the mean of w (DBAC's omega).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from judge.types import BoolArray, FloatArray, Predictions, Sample, TargetKind

# What a judge that is chosen among several seeds notes beside its predictions.
VALIDATION_LOSS = "validation loss"


@dataclass(frozen=True, slots=True)
class Judged:
    """What a judge said of N held-out captions.

    Attributes:
        probability: of the true answer, [N]: of the class; of several tasks, of the whole set: the product of its
            labels' Bernoulli probabilities.
        correct: whether the most probable answer is the true one, [N]; of tasks, every label on its side of 1/2.
        loss: cross-entropy with the truth, [N], natural log; of tasks the mean over labels of the binary one.
    """

    probability: FloatArray
    correct: BoolArray
    loss: FloatArray

    @classmethod
    def of(cls, samples: Sequence[Sample], predictions: Predictions) -> Self:
        """The scores' input for ``predictions`` of ``samples``."""
        truth = shown(samples, len(predictions.target.classes))
        return cls.of_arrays(truth, predictions.probabilities, predictions.target.kind)

    @classmethod
    def of_arrays(cls, truth: BoolArray, probabilities: FloatArray, kind: TargetKind) -> Self:
        """The scores' input for a judge's ``probabilities``, [N, A], where ``truth`` holds, [N, A].

        A loss is infinite where a probability of the truth is 0.
        """
        one = kind == "attribute"
        with np.errstate(divide="ignore"):
            logs = (
                np.log(probabilities[truth])[:, None]
                if one
                else np.where(truth, np.log(probabilities), np.log1p(-probabilities))
            )
        correct = (guessed(probabilities, kind) == truth).all(axis=1)
        return cls(np.exp(logs.sum(axis=1)), correct, np.asarray(-logs.mean(axis=1)))


def shown(samples: Sequence[Sample], classes: int) -> BoolArray:
    """Which classes are true of each sample, [N, classes]."""
    table = np.zeros((len(samples), classes), dtype=np.bool_)
    for row, sample in enumerate(samples):
        table[row, list(sample.answers)] = True
    return table


def guessed(probabilities: FloatArray, kind: TargetKind) -> BoolArray:
    """The classes that a judge predicts, [N, A]: the most probable one, the first of equals; tasks of at least 1/2."""
    if kind == "tasks":
        return np.asarray(probabilities >= 0.5)
    return np.asarray(np.arange(probabilities.shape[1]) == probabilities.argmax(axis=1)[:, None])


def centre(values: FloatArray) -> FloatArray:
    """Of each class, less the mean of the others, [..., A]."""
    classes = values.shape[-1]
    return np.asarray((values - values.mean(axis=-1, keepdims=True)) * (classes / (classes - 1)))


@dataclass(frozen=True, slots=True)
class Score:
    """A score as (quantity per caption, pooling of its mean).

    Attributes:
        quantity: of N captions -> [N].
        pool: mean(s) of the quantity, any shape -> value(s) of the side; None for the mean itself.
        chance: value of a judge that knows nothing of one attribute, as a function of its K classes.
    """

    quantity: Callable[[Judged], FloatArray]
    pool: Callable[[FloatArray], FloatArray] | None
    chance: Callable[[int], float]


def accuracy(judged: Judged) -> FloatArray:
    """1 where the most probable answer is the true one. Leakage's lambda (CVPR 2022, eq. 5-6)."""
    return judged.correct.astype(np.float64)


def confident_accuracy(judged: Judged) -> FloatArray:
    """p(true) where the most probable answer is the true one, else 0. LIC (CVPR 2022, eq. 9-10)."""
    return judged.probability * judged.correct


def confidence(judged: Judged) -> FloatArray:
    """p(true), right or wrong. ImageCaptioner2 (AAAI 2024), DPAC."""
    return np.asarray(judged.probability, dtype=np.float64)


def cross_entropy(judged: Judged) -> FloatArray:
    """The loss, infinite where a judge was certain and wrong. DBAC (WACV 2026)."""
    return judged.loss


def _reciprocal(mean: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore"):
        return np.asarray(1.0 / mean)


SCORES: dict[str, Score] = {
    "accuracy": Score(accuracy, None, lambda k: 1 / k),
    "confident_accuracy": Score(confident_accuracy, None, lambda k: 1 / k**2),
    "confidence": Score(confidence, None, lambda k: 1 / k),
    "inverse_cross_entropy": Score(cross_entropy, _reciprocal, lambda k: 1 / np.log(k)),
}
