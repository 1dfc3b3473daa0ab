"""Amplifications: (human, generated) -> one signed number; positive means that the captioner amplifies."""

from collections.abc import Callable

import numpy as np

from judge.types import FloatArray


def difference(human: FloatArray, generated: FloatArray) -> FloatArray:
    """Generated - human. LIC (eq. 11), Leakage (eq. 4), ImageCaptioner2; 0 means no amplification."""
    return generated - human


def ratio(human: FloatArray, generated: FloatArray) -> FloatArray:
    """Generated / human; 1 means no amplification; NaN where the human side is 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(human == 0, np.nan, generated / human)


def normalised(human: FloatArray, generated: FloatArray) -> FloatArray:
    """(generated - human) / (generated + human), in [-1, 1]; 0 where both are 0. DPAC, DBAC (WACV 2026).

    The papers add an epsilon to the denominator. It would dominate scores as small as itself: a product of 80
    probabilities of 1/2 is 8e-25.
    """
    total = generated + human
    return (generated - human) / np.where(total == 0, 1.0, total)


def one_side(human: FloatArray, generated: FloatArray) -> FloatArray:
    """Score of the generated side less the chance level, which takes the place of a human side."""
    return generated - human


def log_mean(first: FloatArray, second: FloatArray) -> FloatArray:
    """(a - b) / (log a - log b) of positive numbers: between their geometric and their arithmetic mean.

    Dividing the terms of a - b by it splits log a - log b into a sum over these terms.
    """
    low, high = np.minimum(first, second), np.maximum(first, second)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(low == high, low, (high - low) / np.log1p((high - low) / low))


AMPLIFICATIONS: dict[str, Callable[[FloatArray, FloatArray], FloatArray]] = {
    "difference": difference,
    "ratio": ratio,
    "normalised": normalised,
    "one_side": one_side,
}

# The value of each without amplification.
NEUTRAL = {"difference": 0.0, "ratio": 1.0, "normalised": 0.0, "one_side": 0.0}
