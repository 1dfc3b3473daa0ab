"""Logistic regressions of many labels on the same sparse features, solved side by side.

scikit-learn fits one label at a time: 77 labels of 2,878 captions took it 4.5 to 6 s of CPU, choice of C and all. Here
a sparse product serves all labels that are still open: 0.8 to 1.2 s. Mean log losses of four captioners' sides differ
by 4e-7 at most, DPAC by 5e-5, probabilities by 0.0013: by what the tolerance leaves open. scipy's solvers, given all
labels as one problem, go on for all until the slowest is done, and took 3 to 8 times as long as this.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from judge.types import FloatArray, IntArray

# Of the mean gradient. Not to be loosened: at 1e-3 LIC of a real captioner moved by its standard error, 0.005.
TOLERANCE = 1e-5
MAX_ITERATIONS = 1000
# How far conjugate gradients go in a Newton step. Anything from 0.1 to 0.5 takes as long.
FORCING = 0.1
TINY = np.finfo(np.float64).tiny


class Logistic:
    """Yes or no of every label, by the samples that it is made with; each fit starts from the last.

    Args:
        features: [N, F], sparse.
        answers: [N, L] of 0 and 1. A label that is always one of them is not fitted: the other has the share of half
            an image.
        weights: of the samples, [N].
    """

    def __init__(self, features: Any, answers: IntArray, weights: FloatArray) -> None:
        self._merge = _merge_twins(features)
        self._design = _Design(self._widen(features), weights[:, None])
        shares = (weights[:, None] * answers).sum(axis=0) / weights.sum()
        self._open = answers.any(axis=0) & ~answers.all(axis=0)
        self._answers = answers[:, self._open].astype(np.float64)
        # The last row is the intercept. What training never showed has the share of half an image, here as log odds.
        self._found = np.zeros((self._design.rows.shape[1], answers.shape[1]))
        self._found[-1] = np.where(answers.any(axis=0), 1, -1) * np.log(2 * len(answers) + 2)
        self._found[-1, self._open] = np.log(shares[self._open] / (1 - shares[self._open]))

    def fit(self, c: float) -> None:
        """L2-penalised by 1/``c``; the intercept is not."""
        if self._open.any():
            self._found[:, self._open] = _solve(self._design, self._answers, self._found[:, self._open], c=c)

    def guess(self, features: Any) -> FloatArray:
        """Probabilities [N, L], in (0, 1)."""
        from scipy.special import expit

        return np.asarray(expit(self._log_odds(features)))

    def loss(self, features: Any, answers: IntArray, weights: FloatArray) -> float:
        """Weighted log loss, summed."""
        return float((weights[:, None] * _log_loss(self._log_odds(features), answers)).sum())

    def _log_odds(self, features: Any) -> FloatArray:
        # At 37 a probability is 1 in float64, and the loss of a miss infinite.
        return np.asarray(np.clip(self._widen(features) @ self._found, -36, 36))

    def _widen(self, features: Any) -> Any:
        """Twins merged, and a column of ones."""
        from scipy.sparse import csr_matrix, hstack

        return hstack([features @ self._merge, csr_matrix(np.ones((features.shape[0], 1)))], format="csr")


class _Design:
    """Features [N, F], the last all ones, in the forms that a solver multiplies by; weights of the samples [N, 1]."""

    def __init__(self, rows: Any, weights: FloatArray) -> None:
        self.rows, self.weights = rows, weights
        self.columns = rows.T.tocsr()
        self.squares = self.columns.power(2)

    def penalty(self, c: float) -> FloatArray:
        """What is added to second derivatives, [F, 1]: of the intercept nothing."""
        found = np.full((self.rows.shape[1], 1), 1 / c)
        found[-1] = 0
        return found


def _merge_twins(features: Any) -> Any:
    """[F, G]: adds up features that occur in the same samples, such as all that occur once and in one caption.

    Exact: k equal columns get equal weights, u each, with penalty k u^2; one column sqrt(k) times as large with weight
    sqrt(k) u says and costs the same. Of COCO's captions' columns a sixth (human) to a third (generated) go.
    """
    from scipy.sparse import csr_matrix

    table = features.tocsc()
    places: dict[bytes, int] = {}
    place = [places.setdefault(table.indices[a:b].tobytes(), len(places)) for a, b in pairwise(table.indptr)]
    shares = 1 / np.sqrt(np.bincount(place))
    return csr_matrix((shares[place], (np.arange(len(place)), place)))


def _log_loss(odds: FloatArray, answers: Any) -> FloatArray:
    """Of log odds and answers 0 or 1, both [N, L]; stable for large odds."""
    return np.asarray(np.logaddexp(0, odds) - answers * odds)


def _solve(design: _Design, answers: FloatArray, start: FloatArray, *, c: float) -> FloatArray:
    """Weights [F, L] of the least penalised log loss: Newton's method, its linear systems by conjugate gradients.

    As scikit-learn's "newton-cg" and to the same tolerance, but for all labels in step: one whose gradient is within
    TOLERANCE is left alone from then on. No product of dense matrices is taken: threads cannot change a digit.
    """
    from scipy.special import expit
    from sklearn.exceptions import ConvergenceWarning

    found, penalty = start.copy(), design.penalty(c)
    odds = design.rows @ found
    for _ in range(MAX_ITERATIONS):
        guesses = expit(odds)
        gradient = design.columns @ (design.weights * (guesses - answers)) + penalty * found
        still = np.flatnonzero(np.abs(gradient).max(axis=0) > TOLERANCE * design.weights.sum())
        if not len(still):
            return found
        gradient, p = gradient[:, still], guesses[:, still]
        # Above 0 even where guesses are sure of all samples: the intercept has no penalty to divide by instead.
        curvature = design.weights * np.maximum(p * (1 - p), 1e-12)
        step = _newton_step(design, curvature, gradient, penalty)
        change = design.rows @ step
        loss = _along(design.weights, answers[:, still], (odds[:, still], change), penalty, (found[:, still], step))
        length = _step_length(loss, np.einsum("fl,fl->l", gradient, step))
        found[:, still] += length * step
        odds[:, still] += length * change
    warnings.warn(f"{len(still)} labels have not converged", ConvergenceWarning, stacklevel=2)
    return found


def _newton_step(design: _Design, curvature: FloatArray, gradient: FloatArray, penalty: FloatArray) -> FloatArray:
    """-H^-1 gradient of each label, roughly: conjugate gradients, preconditioned by the diagonal of H.

    H = X^T diag(curvature) X + penalty. Until the residual is FORCING of the first, by the preconditioner's norm.
    """
    scale = 1 / (design.squares @ curvature + penalty)
    step, residual = np.zeros_like(gradient), -gradient
    direction = scale * residual
    size = np.einsum("fl,fl->l", residual, direction)
    goal = FORCING**2 * size
    for _ in range(MAX_ITERATIONS):
        image = design.columns @ (curvature * (design.rows @ direction)) + penalty * direction
        length = size / np.maximum(np.einsum("fl,fl->l", direction, image), TINY)
        step += length * direction
        image *= length
        residual -= image
        solved = scale * residual
        size, before = np.einsum("fl,fl->l", residual, solved), size
        if (size <= goal).all():
            break
        direction *= size / np.maximum(before, TINY)
        direction += solved
    return step


def _along(
    weights: FloatArray,
    answers: FloatArray,
    odds: tuple[FloatArray, FloatArray],
    penalty: FloatArray,
    found: tuple[FloatArray, FloatArray],
) -> Callable[[FloatArray], FloatArray]:
    """Penalised log loss [L] at any part of a step [L]; ``odds`` and ``found`` are (where it starts, whole step)."""
    tilt = (penalty * found[0] * found[1]).sum(axis=0)
    bend = (penalty * found[1] ** 2).sum(axis=0) / 2

    def loss(part: FloatArray) -> FloatArray:
        told = weights * _log_loss(odds[0] + part * odds[1], answers)
        return np.asarray(told.sum(axis=0) + part * tilt + part**2 * bend)

    return loss


def _step_length(loss: Callable[[FloatArray], FloatArray], slope: FloatArray) -> FloatArray:
    """Of each label the first of 1, 1/2, 1/4, ... that lowers its loss enough (Armijo's rule), but for rounding."""
    length = np.ones_like(slope)
    start = loss(np.zeros_like(slope))
    for _ in range(50):
        far = loss(length) > start + 1e-4 * length * slope + 1e-12 * (1 + start)
        if not far.any():
            break
        length[far] /= 2
    return length
