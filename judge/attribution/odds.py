"""Log odds: what contributions of words add up to. Natural logarithms."""

from __future__ import annotations

import numpy as np

from judge.types import FloatArray, Predictions


def centre(values: FloatArray) -> FloatArray:
    """Of each class, less the mean of the others, [..., A]."""
    classes = values.shape[-1]
    return np.asarray((values - values.mean(axis=-1, keepdims=True)) * (classes / (classes - 1)))


def log_odds(predictions: Predictions) -> FloatArray:
    """[N, A]: log p of a class less the mean log p of the others (of two: log p / (1 - p)); of a task log p / (1 - p).

    Infinite where a probability is 0, or a task's 1.
    """
    p = predictions.probabilities
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.log(p) - np.log1p(-p)) if predictions.target.kind == "tasks" else centre(np.log(p))
