"""Functions on arrays refuse what they cannot mean: shapes, ranges, NaN, lengths, sums, labels out of range."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import judge
from judge.metrics.counted.multi import Multi

Y, P = [0, 1], [[0.6, 0.4], [0.8, 0.2]]
NOT_ONE = [[0.9, 0.9], [0.5, 0.5]]
TASKS = [[1, 0], [0, 1]]
WRONG: dict[str, tuple[Callable[[], object], str]] = {
    "sum": (lambda: judge.lic(Y, NOT_ONE, P), "probabilities: those of sample 0 sum to 1.8, not to 1; give a softmax"),
    "sum of generated": (lambda: judge.leakage(Y, P, NOT_ONE[::-1]), "those of sample 1 sum to 1.8"),
    "sum of captions": (lambda: judge.theils_u(Y, P, Y, NOT_ONE), "those of sample 0 sum to 1.8"),
    "sum for priors": (lambda: judge.dbac(Y, NOT_ONE, P, TASKS, TASKS), "those of sample 0 sum to 1.8"),
    "NaN": (lambda: judge.lic(Y, [[np.nan, 0.4], P[1]], P), "probabilities are not all in [0, 1]: some are NaN"),
    "logits": (lambda: judge.lic(Y, [[-1.0, 2.0], P[1]], P), "not all in [0, 1]: give a softmax of logits"),
    "lengths": (lambda: judge.lic(Y, P[:1], P), "differ in their number of samples: y 2, probabilities 1"),
    "lengths of mentions": (lambda: judge.dpac(Y, P, P, [[1]], [[1], [1]]), "number of samples: y 2, mentions 1"),
    "label": (lambda: judge.lic([0, 2], P, P), "probabilities: [N, 3] are needed, got shape (2, 2)"),
    "negative": (lambda: judge.lic([0, -1], P, P), "y: labels must be whole numbers from 0"),
    "names": (lambda: judge.lic(["male", "female"], P, P), "y: bool, int or float is needed"),
    "widths": (lambda: judge.lic(Y, P, [[0.5, 0.3, 0.2]] * 2), "probabilities: arrays of 2 and 3 columns"),
    "width of tasks": (
        lambda: judge.dbac(TASKS, [[0.5] * 3] * 2, [[0.5] * 3] * 2, Y, Y, "T->A"),
        "probabilities: [N, 2] are needed, got shape (2, 3)",
    ),
    "vector": (lambda: judge.lic(Y, [0.6, 0.8], P), "probabilities: [N, 2] are needed, got shape (2,)"),
    "ragged": (lambda: judge.lic(Y, [[0.6, 0.4], [1.0]], P), "probabilities: no array of numbers with rows of one"),
    "texts": (lambda: judge.lic(Y, [["a", "b"]] * 2, P), "probabilities: no array of numbers"),
    "ragged tasks": (lambda: judge.dpa([[1, 0], [1]], TASKS), "attribute: no array of numbers with rows of one"),
    "no truth": (lambda: judge.lic(None, P, P), "y: an array is needed, got None"),  # type: ignore[arg-type]
    "nobody": (lambda: judge.error(None, Y), "an array is needed, got None"),  # type: ignore[arg-type]
    "one class": (lambda: judge.ratio(TASKS, first=1, second=1), "mention: classes 1 and 1 of 2; give the indices of"),
    "no such class": (lambda: judge.ratio(TASKS, first=0, second=-1), "mention: classes 0 and -1 of 2"),
    "among": (lambda: judge.error(Y, Y, among="all"), 'among is "annotated" or "naming", not \'all\''),  # type: ignore[arg-type]
    "largest": (lambda: judge.multi(Y, TASKS, variant=Multi(largest=0)), "largest: sets have one label or more, got 0"),
    "direction": (lambda: judge.dba(Y, TASKS, direction="up"), "the direction is"),  # type: ignore[arg-type]
    "multi-hot": (lambda: judge.ba_mals([[1.0, 0.0], [np.nan, 1.0]], TASKS), "a multi-hot array holds 0 and 1 only"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_arrays_cannot_mean_is_refused(case: str) -> None:
    call, message = WRONG[case]
    with pytest.raises(ValueError, match=re.escape(message)):
        call()


@pytest.mark.parametrize("kind", [np.float64, np.float32, np.float16])
def test_a_softmax_of_any_precision_is_taken(kind: Any) -> None:
    """Also bfloat16, which keeps eight bits, and three digits."""
    logits = np.random.default_rng(0).normal(0, 3, (50, 400))
    softmax = (np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)).astype(np.float32)
    y = softmax.argmax(axis=1)
    short = (softmax.view(np.uint32) + 0x8000 & 0xFFFF0000).view(np.float32)
    given = softmax.astype(kind)
    assert judge.lic(y, given, short).value == pytest.approx(0, abs=2e-3)
    assert judge.leakage([0, 1, 2], [[0.333, 0.333, 0.333]] * 3, np.eye(3)).value == pytest.approx(2 / 3)


def test_tasks_need_no_sum() -> None:
    """Each task has a probability of its own."""
    assert judge.dbac(TASKS, [[0.9, 0.9]] * 2, [[0.9, 0.9]] * 2, Y, Y, "T->A").value == 0
