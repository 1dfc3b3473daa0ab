"""Counts of attributes and labels that occur together. Plain functions on arrays."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from judge.types import FloatArray, IntArray


def counts(attribute: IntArray, tasks: npt.NDArray[np.bool_], classes: int) -> IntArray:
    """c_al: samples of class a with label l, [A, L].

    Args:
        attribute: class of each sample, [N], in 0 .. ``classes`` - 1.
        tasks: which labels each sample has, [N, L].
        classes: A.
    """
    onehot = attribute[:, None] == np.arange(classes)
    return np.asarray(onehot.astype(np.float64).T @ tasks.astype(np.float64)).round().astype(np.int64)


def attribute_shares(table: IntArray) -> FloatArray:
    """b_al = c_al / sum_a c_al of a table of counts, [A, L]: BA's share of each class among the samples with a label.

    NaN for a label that never occurs. Zhao et al. 2017, "Men also like shopping", section 3.
    """
    totals = table.sum(axis=0, keepdims=True)
    return np.asarray(np.divide(table, totals, out=np.full(table.shape, np.nan), where=totals > 0))
