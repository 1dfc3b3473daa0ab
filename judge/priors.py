"""How frequent what a caption says is on its side: the weights of directional metrics (DBAC, DPAC).

Each frequency is of the side that it describes, all its captions: those that judges learn from and those that they are
scored on alike. Frequencies are of the data as they are; intervals hold them fixed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt

from judge.types import FloatArray

PriorForm = Literal["joint", "product"]


def frequency(values: Sequence[Hashable]) -> FloatArray:
    """The share of ``values`` that are the same as each of them, [N] in (0, 1]."""
    counts = Counter(values)
    return np.array([counts[value] / len(values) for value in values], dtype=np.float64)


def set_frequency(tasks: npt.NDArray[np.bool_], *, form: PriorForm = "joint") -> FloatArray:
    """How frequent each row's set of tasks is, the empty set included, [N] in (0, 1].

    Args:
        tasks: which tasks each caption (or image) has, [N, L].
        form: ``joint``: the share of rows with this very set; ``product``: as if tasks came independently, the product
            of their shares, and of 1 - share for those that are not there.

    Source: WACV 2026 (DBAC), equations of omega: P(t).
    """
    if form == "joint":
        return frequency([row.tobytes() for row in np.packbits(tasks, axis=1)])
    shares = tasks.mean(axis=0)
    return np.asarray(np.where(tasks, shares, 1 - shares).prod(axis=1), dtype=np.float64)


def mention(classes: frozenset[str]) -> str:
    """What a caption says of the attribute: its class; "none" and "several" are mentions of their own."""
    return next(iter(classes)) if len(classes) == 1 else ("several" if classes else "none")
