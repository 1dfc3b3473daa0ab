"""Shares of pairs of a class and a label, and how they change: what BA, DBA and Multi-> have in common."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from judge.metrics.counted.contingency import ContingencyTable, divide
from judge.metrics.counted.spec import Compared, pieces_of
from judge.types import FloatArray

Share = Literal["of samples", "of the class", "of the class's labels", "of the label", "of the label's classes"]
Empty = Literal["skip", "zero"]


@dataclass(frozen=True, slots=True, eq=False)
class FrozenPairs:
    """The pairs that count and their signs, chosen once.

    Attributes:
        sign: +1, -1, or 0 for pairs that do not count, [A, L].
        share: whose change is measured.
        empty: what undefined shares are: left out, or 0.
        pool: changes and signed changes, [..., A, L] each, to values, [...].
        slope: (sign, change) -> what each change is multiplied by in the value, [..., A, L]: the products add up to it.
    """

    sign: FloatArray
    share: Share
    empty: Empty
    pool: Callable[[FloatArray, FloatArray], FloatArray]
    slope: Callable[[FloatArray, FloatArray], FloatArray]

    def compare(self, truth: ContingencyTable, predicted: ContingencyTable) -> Compared:
        """Values, and the signed change of each pair."""
        before, after = self.shares(truth, predicted)
        change = after - before
        pairs = self.sign * change + 0.0  # No -0.
        value = self.pool(change, pairs)
        return Compared(value, pairs, np.full_like(value, np.nan), np.full_like(value, np.nan))

    def parts(self, truth: ContingencyTable, predicted: ContingencyTable) -> FloatArray:
        """What each pair adds to the value."""
        before, after = self.shares(truth, predicted)
        change = after - before
        return np.nan_to_num(self.slope(self.sign, change) * change)

    def pieces(self, truth: ContingencyTable, predicted: ContingencyTable) -> tuple[ContingencyTable, ContingencyTable]:
        """What each sample of a class with a label adds: its part of the share, times the slope of the change."""
        before, after = self.shares(truth, predicted)
        change = after - before
        slope = np.where(np.isfinite(change), self.slope(self.sign, change), 0.0)
        wholes = _whole(truth, self.share), _whole(predicted, self.share)
        parts = [np.nan_to_num(divide(slope, whole)) for whole in wholes]
        return pieces_of(truth, parts[0]), pieces_of(predicted, parts[1])

    def shares(self, truth: ContingencyTable, predicted: ContingencyTable) -> tuple[FloatArray, FloatArray]:
        """Shares in the truth and in what is predicted, [..., A, L]; NaN where one is undefined."""
        before, after = (_shares(table, self.share) for table in (truth, predicted))
        return (np.nan_to_num(before), np.nan_to_num(after)) if self.empty == "zero" else (before, after)


def mean(pairs: FloatArray) -> FloatArray:
    """Mean over the pairs that are defined, [..., A, L] -> [...]; NaN where none is."""
    defined = np.isfinite(pairs)
    return divide(np.where(defined, pairs, 0.0).sum(axis=(-2, -1)), defined.sum(axis=(-2, -1)))


def mean_slope(sign: FloatArray, change: FloatArray) -> FloatArray:
    """What changes are multiplied by in the mean of ``sign`` times them, over those that are defined, [..., A, L]."""
    return np.asarray(sign / np.maximum(np.isfinite(change).sum(axis=(-2, -1), keepdims=True), 1))


def variance(pairs: FloatArray, *, ddof: int = 0) -> FloatArray:
    """Variance over the pairs that are defined, [..., A, L] -> [...]; NaN where these are no more than ``ddof``."""
    defined = np.isfinite(pairs)
    squares = np.where(defined, (pairs - mean(pairs)[..., None, None]) ** 2, 0.0)
    return divide(squares.sum(axis=(-2, -1)), np.maximum(defined.sum(axis=(-2, -1)) - ddof, 0))


def _shares(table: ContingencyTable, share: Share) -> FloatArray:
    """c_al over what it is a share of, [..., A, L]; NaN where that is 0."""
    return divide(table.together, _whole(table, share))


def _whole(table: ContingencyTable, share: Share) -> FloatArray:
    """What c_al is a share of, [..., A, L]."""
    whole = {
        "of samples": table.samples[..., None, None],
        "of the class": table.attribute[..., :, None],
        "of the class's labels": table.together.sum(axis=-1, keepdims=True),
        "of the label": table.tasks[..., None, :],
        "of the label's classes": table.together.sum(axis=-2, keepdims=True),
    }
    return np.broadcast_to(whole[share], table.together.shape)
