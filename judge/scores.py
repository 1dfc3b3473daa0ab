"""The score q of one side: from a judge's probabilities on held-out captions to numbers in [0, 1].

Every score is a quantity per caption whose (weighted) mean is pooled into the side's value, so that one
bootstrap serves all of them. Chance with K equally likely classes: 1/K, and 1/K^2 for LIC's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from judge.types import FloatArray

BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Score:
    """A score as (quantity per caption, pooling of its mean).

    Attributes:
        quantity: (probability of the true answer [N], answered right [N]) -> [N].
        pool: mean(s) of the quantity, any shape -> value(s) of the side.
        chance: value of a judge that knows nothing, as a function of K.
        source: paper and equation.
    """

    quantity: Callable[[FloatArray, BoolArray], FloatArray]
    pool: Callable[[FloatArray], FloatArray]
    chance: Callable[[int], float]
    source: str


def accuracy(probability: FloatArray, correct: BoolArray) -> FloatArray:
    """1 where the most probable class is the true one. Leakage's lambda (CVPR 2022, eq. 5-6)."""
    return correct.astype(np.float64)


def confident_accuracy(probability: FloatArray, correct: BoolArray) -> FloatArray:
    """p(true) where the most probable class is the true one, else 0. LIC (CVPR 2022, eq. 9-10)."""
    return probability * correct


def confidence(probability: FloatArray, correct: BoolArray) -> FloatArray:
    """p(true), right or wrong. ImageCaptioner2 (AAAI 2024), DPAC."""
    return np.asarray(probability, dtype=np.float64)


def cross_entropy(probability: FloatArray, correct: BoolArray) -> FloatArray:
    """-log p(true), natural log; infinite for p = 0."""
    with np.errstate(divide="ignore"):
        return -np.log(probability)


def _same(mean: FloatArray) -> FloatArray:
    return mean


def _reciprocal(mean: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore"):
        return 1.0 / mean


SCORES: dict[str, Score] = {
    "accuracy": Score(accuracy, _same, lambda k: 1 / k, "CVPR 2022, eq. 5-6"),
    "confident_accuracy": Score(confident_accuracy, _same, lambda k: 1 / k**2, "CVPR 2022, eq. 9-10"),
    "confidence": Score(confidence, _same, lambda k: 1 / k, "AAAI 2024"),
    "inverse_cross_entropy": Score(cross_entropy, _reciprocal, lambda k: 1 / np.log(k), "WACV 2026 (DBAC)"),
}
