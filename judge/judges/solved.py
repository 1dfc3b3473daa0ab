"""Logistic regressions that are solved: what they answer, and what each feature adds to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from judge.types import FloatArray, IntArray

# Log odds are kept within: at 37 a probability is 1 in float64, and the loss of a miss infinite.
_SURE = 36.0


@dataclass(frozen=True)
class Solved:
    """P problems of A answers. Of two exclusive answers one question is solved, A' = 1; else A' = A.

    Attributes:
        coefficients: of G merged features and, last, of a column of ones, [G + 1, P, A'].
        open: answers that some of a problem's samples have, and some have not, [P, A'].
        shown: answers that any of them has, [P, A'].
        learnt: how many samples each learnt from, [P, 1].
        two: whether the answers are two, and exclude each other.
        softmax: whether they are three or more that do.
    """

    coefficients: FloatArray
    open: npt.NDArray[np.bool_]
    shown: npt.NDArray[np.bool_]
    learnt: IntArray
    two: bool
    softmax: bool

    def only(self, problem: int) -> Solved:
        """One of them."""
        part = slice(problem, problem + 1)
        own = self.coefficients[:, part].copy()  # A view would keep all of them in memory.
        return Solved(own, self.open[part], self.shown[part], self.learnt[part], self.two, self.softmax)

    def probabilities(self, rows: Any) -> FloatArray:
        """Probabilities [M, P, A], in (0, 1), of samples' features [M, G + 1]."""
        from scipy.special import expit, softmax

        odds = self.odds(rows)
        if self.two or not self.softmax:
            found = np.asarray(expit(odds))
            return np.concatenate([1 - found, found], axis=2) if self.two else found
        found = np.where(self.shown, softmax(odds, axis=2), 0.5 / (self.learnt + 1))
        return np.asarray(found / found.sum(axis=2, keepdims=True))

    def odds(self, rows: Any) -> FloatArray:
        """Log odds [M, P, A'], within 36; of three or more exclusive answers up to what all share."""
        found = np.asarray(rows @ self.coefficients.reshape(len(self.coefficients), -1)).reshape(
            rows.shape[0], *self.coefficients.shape[1:]
        )
        if not self.softmax:
            found = np.where(self.open, found, np.where(self.shown, 1, -1) * np.log(2 * self.learnt + 2))
        return np.clip(found, -_SURE, _SURE)

    def weights(self, merge: Any) -> FloatArray:
        """What each of F features adds to the log odds of an answer, [P, F, A].

        Of exclusive answers: to log probabilities, up to what all answers share (of two answers all of it to the
        second), but for one of three or more that training never shows: its probability is the same for all samples.

        Args:
            merge: of features into merged ones, [F, G], sparse.
        """
        problems, answers = self.coefficients.shape[1:]
        flat = self.coefficients.reshape(len(self.coefficients), -1)
        found = np.asarray(merge @ flat[:-1]).reshape(-1, problems, answers).transpose(1, 0, 2)
        return np.concatenate([np.zeros_like(found), found], axis=2) if self.two else found


def widen(table: Any, merge: Any) -> Any:
    """Samples' features [M, F] as :class:`Solved` takes them, [M, G + 1]: merged, and a column of ones."""
    from scipy.sparse import csr_matrix, hstack

    return hstack([table @ merge, csr_matrix(np.ones((table.shape[0], 1)))], format="csr")


def merging(groups: IntArray) -> Any:
    """[F, G]: adds up the features of each group, which are numbered from 0; k of them weigh 1 / sqrt(k) each."""
    from scipy.sparse import csr_matrix

    shares = 1 / np.sqrt(np.bincount(groups))
    return csr_matrix((shares[groups], (np.arange(len(groups)), groups)), shape=(len(groups), len(shares)))
