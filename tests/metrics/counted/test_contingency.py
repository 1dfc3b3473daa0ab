"""Labels read from arrays: what is taken, what is refused; counts of samples."""

from __future__ import annotations

import re

import numpy as np
import pytest

from judge.metrics.counted import contingency as module
from judge.metrics.counted.contingency import contingency, hot, label_sets

A = np.array([[1, 0, 0], [1, 1, 0], [0, 0, 0], [0, 1, 0]])
T = np.array([[1, 0], [1, 1], [0, 0], [0, 0]])


def test_counts_by_hand() -> None:
    """Sample 1 has two classes and two labels, sample 2 has nothing, class 2 nobody."""
    found = contingency(A, T)
    assert found.together.tolist() == [[2, 1], [1, 1], [0, 0]]
    assert (found.attribute.tolist(), found.tasks.tolist()) == ([2, 2, 0], [2, 1])
    assert float(found.samples) == 4


def test_sets_are_counted_as_their_labels_together() -> None:
    """{0, 1} is in sample 1 alone; {0} and {1} are the labels."""
    found = contingency(A, T, sets=((0,), (1,), (0, 1)))
    assert found.together.tolist() == [[2, 1, 1], [1, 1, 1], [0, 0, 0]]
    assert found.tasks.tolist() == [2, 1, 1]
    assert label_sets(T) == ((0,), (1,), (0, 1))


def test_too_many_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 8 labels there are 8 + 28 sets of at most two, and 255 in all."""
    monkeypatch.setattr(module, "_SETS", 100)
    with pytest.raises(ValueError, match="more than 100 sets of labels occur; name the largest="):
        label_sets(np.ones((1, 8)))
    monkeypatch.undo()
    assert len(label_sets(np.ones((1, 8)), largest=2)) == 36


def test_widths() -> None:
    one, other, same = hot("tasks", [0, 2], [[1, 1, 0, 0], [0, 0, 0, 1]], None)
    assert one.tolist() == same.tolist() == [[True, False, False, False], [False, False, True, False]]
    assert other.shape == (2, 4)
    assert [array.shape for array in hot("tasks", [0, 1], [4, 1])] == [(2, 5), (2, 5)]
    assert hot("tasks", np.array([True, False]))[0].tolist() == [[False, True], [True, False]]
    with pytest.raises(ValueError, match="tasks: arrays of 2 and 3 columns; give all the same"):
        hot("tasks", np.zeros((1, 2)), np.zeros((1, 3)))
    with pytest.raises(ValueError, match="tasks: label 2 is beyond the 2 columns of the multi-hot array"):
        hot("tasks", np.zeros((1, 2)), [2])


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ([["m"], ["f"]], "tasks: bool, int or float is needed, got <U1"),
        *((given, "tasks: bool, int or float is needed") for given in (["m", "f"], [[1j]])),
        *(([[given, 1]], "tasks: a multi-hot array holds 0 and 1 only") for given in (2, -1, 0.5, np.nan, np.inf)),
        *(([0, given], "tasks: labels must be whole numbers from 0") for given in (-1, 0.5, np.nan, np.inf)),
        ([0, 581929], "tasks: labels are indices from 0, and 581929 is not meant as one"),
        (1, "tasks: [N, K] of 0 and 1 or [N] labels are needed, got shape ()"),
        ([[[1]]], "got shape (1, 1, 1)"),
        ([], "tasks: no samples or no columns, shape (0,)"),
        (np.zeros((3, 0)), "tasks: no samples or no columns, shape (3, 0)"),
        ([[1, 0]] * 3, "the arrays differ in their number of samples: attribute 4, tasks 3"),
    ],
)
def test_refused(given: object, told: str) -> None:
    with pytest.raises(ValueError, match=re.escape(told)) as caught:
        contingency(A, given)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)
