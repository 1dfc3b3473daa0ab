"""A judge that reads what is known of an image, and a caption: ridge regression, each image left out in turn.

How much its loss falls when it also reads the caption is conditional usable information (Xu et al., ICLR 2020; Hewitt
et al., EMNLP 2021, "Conditional probing") of linear predictors under squared loss. Ridge regression has leave-one-out
errors in closed form (Allen's PRESS, Technometrics 1974): no judge learns from the image that it predicts, no folds
are drawn, and training takes a fraction of a second.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from judge.types import FloatArray, IntArray

Reals = npt.NDArray[np.float32]
PENALTIES = tuple(float(2**power) for power in range(9))
"""What is known has the one of these penalties with the smallest loss."""
CAPTION_PENALTY = 1 / 30
"""Penalty of the caption over the number of images: half of the images then measure the same quantity. A penalty that
was chosen by the loss varied so much from run to run that half as many doses of bias were found."""
# The value of the constant column: its penalty hardly counts.
_CONSTANT = 10.0


class Told(NamedTuple):
    """Captions: their ``features``, [N, D], and the ``rest`` of these, which what is known does not predict.

    A judge that reads both learns from the rest alone (Frisch and Waugh, Econometrica 1933).
    """

    features: Reals
    rest: Reals


class Given:
    """What is known of N images, and the judge that reads nothing else.

    Classes count equally. A loss is the squared error of the predicted shares of the K classes over the variance of the
    classes: it is 0 for a judge that is right and certain, and its mean over balanced classes is about 1 for a judge
    that knows nothing.

    Args:
        known: features of the images, [N, D], of length 1 or so; D may be 0.
        classes: class of each image, [N], whole numbers from 0 to K - 1, each at least twice.
        units: images with equal numbers, [N], are left out together; None where each image is left out by itself.

    Attributes:
        errors: truth less prediction of the judge, [N, K]; the sum of squares is the loss.
        penalty: of what is known.
    """

    penalty: float
    errors: FloatArray

    def __init__(self, known: Reals, classes: IntArray, units: IntArray | None = None) -> None:
        counts = np.bincount(classes)
        self._weights = _single(len(classes) / len(counts) / counts[classes])[:, None]
        self._truth = truth_of(classes, len(counts))
        self._groups = [] if units is None else _groups(units)
        rows = np.column_stack([_single(known), np.full(len(classes), _CONSTANT, dtype=np.float32)])
        values, axes = np.linalg.eigh(rows.T @ (self._weights * rows))
        self._values, self.penalty = np.maximum(values, 0), PENALTIES[0]
        self._factors = rows @ (axes / np.sqrt(self._values + np.float32(self.penalty)))

    def penalise(self, penalty: float) -> Self:
        """Give what is known this ``penalty``."""
        self._factors *= np.sqrt((self._values + np.float32(self.penalty)) / (self._values + np.float32(penalty)))
        self.penalty = penalty
        self._residual = self._truth - self._fit(self._truth, self._factors)
        self.errors = np.asarray(self._left_out(self._residual, self._factors), dtype=np.float64)
        return self

    @property
    def loss(self) -> float:
        """Mean over images, classes counting equally."""
        return float((self._weights * self.errors**2).mean())

    def tell(self, features: Reals) -> Told:
        """Captions with these features, [N, D]."""
        features = _single(features)
        return Told(features, features - self._fit(features, self._factors))

    def reading(self, told: Told) -> FloatArray:
        """``errors`` of the judge that also reads captions."""
        factors, _ = self._factorise(told)
        errors = self._left_out(self._residual - self._fit(self._truth, factors), self._factors, factors)
        return np.asarray(errors, dtype=np.float64)

    def expect(self, told: Told) -> Reals:
        """Predict features of captions from what is known, less their mean: [N, D].

        Prediction and mean of a row are learnt from the captions of the other images alone.
        """
        scale = np.sqrt(_CONSTANT**2 * self._weights.sum() + np.float32(self.penalty))
        mean = np.full((len(told.rest), 1), _CONSTANT / scale, dtype=np.float32)
        less_mean = self._left_out(told.features - self._fit(told.features, mean), mean)
        return less_mean - self._left_out(told.rest, self._factors)

    def weights(self, told: Told) -> FloatArray:
        """By how much each feature of a caption raises the predicted share of each class, [D, K]."""
        from scipy.linalg import solve_triangular

        factors, lower = self._factorise(told)
        found = solve_triangular(lower, factors.T @ (self._weights * self._truth), lower=True, trans="T")
        return np.asarray(found * _scale(self._truth.shape[1]), dtype=np.float64)

    def _factorise(self, told: Told) -> tuple[Reals, Reals]:
        """Factors of the rest of captions, [N, D], and the Cholesky factor that they were divided by."""
        from scipy.linalg import cholesky, solve_triangular

        size, width = told.rest.shape
        penalty = np.float32(CAPTION_PENALTY * size) * np.eye(width, dtype=np.float32)
        lower = _single(cholesky(told.features.T @ (self._weights * told.rest) + penalty, lower=True))
        return _single(solve_triangular(lower, told.rest.T, lower=True).T), lower

    def _fit(self, values: Reals, factors: Reals) -> Reals:
        """Values of the images, [N, ...], as ``factors`` F predict them: F F' W values."""
        return np.asarray(factors @ (factors.T @ (self._weights * values)))

    def _left_out(self, residual: Reals, *factors: Reals) -> Reals:
        """Errors, [N, ...], of predictions F F' W values without the images (or units) that they are of."""
        weights = self._weights[:, 0]
        leverage = weights * np.sum([np.einsum("nd,nd->n", block, block) for block in factors], axis=0)
        errors = residual / np.maximum(1 - leverage, 1e-6)[:, None]
        for group in self._groups:
            own = np.sum([block[group] @ block[group].T for block in factors], axis=0) * weights[group]
            errors[group] = np.linalg.solve(np.eye(len(group), dtype=np.float32) - own, residual[group])
        return np.asarray(errors)


def give(known: Sequence[Reals], classes: IntArray, units: IntArray | None = None) -> list[Given]:
    """A judge for each of several things that are known of the same images, [N, D] each, with one penalty for all.

    It is the one of ``PENALTIES`` with the smallest loss.
    """
    found = [Given(of, classes, units) for of in known]
    losses = {of: sum(judge.penalise(of).loss for judge in found) for of in PENALTIES}
    best = min(losses, key=losses.__getitem__)
    return [judge.penalise(best) for judge in found]


def truth_of(classes: IntArray, count: int) -> Reals:
    """A column for each of ``count`` classes, [N, K], of mean 0 and joint variance 1 where classes are balanced."""
    return _single((np.eye(count)[classes] - 1 / count) / _scale(count))


def _scale(count: int) -> float:
    """The standard deviation of ``count`` balanced classes."""
    return math.sqrt(1 - 1 / count)


def shares_of(errors: FloatArray, classes: IntArray) -> FloatArray:
    """The predicted share of each class, [N, K], in [0, 1], of predictions with these ``errors``."""
    count = errors.shape[1]
    predicted = (truth_of(classes, count) - errors) * _scale(count) + 1 / count
    return np.asarray(np.clip(predicted, 0, 1), dtype=np.float64)


def _groups(units: IntArray) -> list[IntArray]:
    """Places of the images of each unit that has several."""
    order = np.argsort(units, kind="stable")
    parts = np.split(order, np.flatnonzero(np.diff(units[order])) + 1)
    return [part for part in parts if len(part) > 1]


def _single(values: npt.ArrayLike) -> Reals:
    return np.asarray(values, dtype=np.float32)
