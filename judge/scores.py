"""The score q of one side: from a judge's probabilities on held-out captions to numbers in [0, 1].

Every score is a quantity per caption whose (weighted) mean is pooled into the side's value, so that one
bootstrap serves all of them. Chance with K equally likely classes: 1/K, and 1/K^2 for LIC's.

A directional metric weighs captions by a prior w. Of a score per caption it takes the mean of q w (DPAC's psi); of a
pooled one, Q times the mean of w (DBAC's omega): a caption then has two columns, q and w.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from judge.types import FloatArray

BoolArray = npt.NDArray[np.bool_]


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
    def of_class(cls, probability: FloatArray, correct: BoolArray) -> Self:
        """Of judges that guess one class: the loss is -log p, infinite for p = 0."""
        with np.errstate(divide="ignore"):
            return cls(probability, correct, -np.log(probability))


@dataclass(frozen=True, slots=True)
class Score:
    """A score as (quantity per caption, pooling of its mean).

    Attributes:
        quantity: of N captions -> [N].
        pool: mean(s) of the quantity, any shape -> value(s) of the side; None for the mean itself.
        chance: value of a judge that knows nothing of one attribute, as a function of its K classes.
        source: paper and equation.
    """

    quantity: Callable[[Judged], FloatArray]
    pool: Callable[[FloatArray], FloatArray] | None
    chance: Callable[[int], float]
    source: str

    def columns(self, judged: Judged, prior: FloatArray | None = None) -> FloatArray:
        """What is averaged over captions, [1, N]; [2, N] where a pooled quantity goes with weights ``prior`` [N]."""
        quantity = self.quantity(judged)
        if prior is None:
            return quantity[None]
        return np.stack([quantity, prior]) if self.pool else (quantity * prior)[None]

    def value(self, means: FloatArray) -> FloatArray:
        """Q, psi or omega of a side, [...], out of its columns' means, [1, ...] or [2, ...]."""
        quality = self.pool(means[0]) if self.pool else means[0]
        return quality * means[1] if len(means) == 2 else quality


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
    """The loss, infinite where a judge was certain and wrong."""
    return judged.loss


def _reciprocal(mean: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore"):
        return np.asarray(1.0 / mean)


SCORES: dict[str, Score] = {
    "accuracy": Score(accuracy, None, lambda k: 1 / k, "CVPR 2022, eq. 5-6"),
    "confident_accuracy": Score(confident_accuracy, None, lambda k: 1 / k**2, "CVPR 2022, eq. 9-10"),
    "confidence": Score(confidence, None, lambda k: 1 / k, "AAAI 2024"),
    "inverse_cross_entropy": Score(cross_entropy, _reciprocal, lambda k: 1 / np.log(k), "WACV 2026 (DBAC)"),
}
