"""How frequent what a caption says is on its side: the weights of directional metrics (DBAC, DPAC).

Each frequency is of the side that it describes, all its captions: those that judges learn from and those that they are
scored on alike. They are estimates: every resample makes them anew.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

from judge.types import FloatArray

PriorForm = Literal["joint", "product"]
_TINY = np.finfo(np.float64).tiny


def frequency(counts: FloatArray) -> FloatArray:
    """Shares of ``counts`` [U, ...] along the first axis, in [0, 1]; NaN where all are 0."""
    total = counts.sum(axis=0)
    return np.asarray(np.divide(counts, total, out=np.full(counts.shape, np.nan), where=total > 0))


def set_frequency(counts: FloatArray, sets: npt.NDArray[np.bool_], *, form: PriorForm = "joint") -> FloatArray:
    """How frequent each set of tasks is, the empty set included, [U, ...] in [0, 1].

    Args:
        counts: captions (or images) with each set, and with no other task, [U, ...].
        sets: which tasks each set holds, [U, L].
        form: ``joint``: the share of captions with this very set; ``product``: as if tasks came independently, the
            product of their shares, and of 1 - share for those that are not there.

    Source: WACV 2026 (DBAC), equations of omega: P(t).
    """
    if form == "joint":
        return frequency(counts)
    held = sets.astype(np.float64)
    shares = np.tensordot(held.T, frequency(counts), axes=1)
    there, absent = (np.log(np.maximum(part, _TINY)) for part in (shares, 1 - shares))
    return np.asarray(np.exp(np.tensordot(held, there, axes=1) + np.tensordot(1 - held, absent, axes=1)))
