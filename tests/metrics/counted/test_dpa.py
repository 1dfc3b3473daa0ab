"""DPA in closed form, by hand; against loops and by invariants in ``test_pairs.py``."""

from __future__ import annotations

import math

import numpy as np
import pytest

from judge.metrics.counted.dpa import Dpa, dpa


def test_by_hand() -> None:
    """Class 0 has labels 0 0 1 2, class 1 has 1 1 2 2. Guessing 0 and 1 is right 2 + 2 times of 8; told, 4 + 2.

    From the labels: 0 is of class 0 (2 right), 1 of class 1 (2 of 3), 2 of class 1 (2 of 3): 6 of 8.
    """
    classes, held = [0, 0, 0, 0, 1, 1, 1, 1], [0, 0, 1, 2, 1, 1, 2, 2]
    told = [0, 0, 0, 0, 1, 1, 2, 2]
    found = dpa(classes, held, told)
    assert (found.truth, found.predicted) == (4 / 8, 6 / 8)
    assert found.value == pytest.approx((6 - 4) / (6 + 4))
    assert found.pairs.tolist() == [[2 / 8, 0, 0], [0, 0, 0]]
    back = dpa(classes, held, None, [0, 0, 0, 1, 1, 1, 1, 1], "T->A")
    # Predicted: 0 is of class 0 (2), 1 once of class 0 and twice of 1, 2 thrice of class 1.
    assert (back.truth, back.predicted) == (6 / 8, 7 / 8)
    assert back.pairs.tolist() == [[0, 0, 0], [0, 0, 1 / 8]]


def test_classes_of_unequal_sizes() -> None:
    """80 and 20, each with the same halves: accuracy is 0.8 without any association, balanced 1/2."""
    classes, held = np.repeat([0, 1], [80, 20]), np.tile([0, 1], 50)
    assert dpa(classes, held, direction="T->A", variant=Dpa(score="accuracy")).truth == pytest.approx(0.8)
    assert dpa(classes, held, direction="T->A", variant=Dpa(score="balanced")).truth == pytest.approx(0.5)


def test_a_task_that_is_there_or_not() -> None:
    """One column: by label, class 0 has it 3 of 4 times, class 1 never: 7 of 8 right, (3/3 + 4/5) / 2 balanced."""
    classes, held = [0, 0, 0, 0, 1, 1, 1, 1], np.array([1, 1, 1, 0, 0, 0, 0, 0])[:, None]
    plain, balanced = Dpa(unit="label"), Dpa(unit="label", score="balanced")
    assert dpa(classes, held, variant=plain).truth == 7 / 8
    assert dpa(classes, held, variant=balanced).truth == pytest.approx(0.9)
    # From the task to the class: there 3 of 3, not there 4 of 5; balanced, 3/4 and 4/4.
    assert dpa(classes, held, direction="T->A", variant=plain).truth == 7 / 8
    assert dpa(classes, held, direction="T->A", variant=balanced).truth == pytest.approx(7 / 8)
    # Among one label there is nothing to guess.
    assert math.isnan(dpa(classes, held).value)
    assert math.isnan(dpa(classes, held).truth)


def test_labels_of_all_or_none_are_not_asked() -> None:
    """Of three labels only the last is a question; the model never tells it: balanced, it is guessed by chance."""
    classes, held = [0, 0, 1, 1], np.array([[1, 0, 1], [1, 0, 1], [1, 0, 0], [1, 0, 0]])
    told = held * [1, 1, 0]
    found = dpa(classes, held, told, variant=Dpa(unit="label", score="balanced"))
    assert (found.truth, found.predicted) == (1, 0.5)
    assert (found.pairs[:, :2] == 0).all()
    assert math.isnan(dpa(classes, held[:, :2], variant=Dpa(unit="label")).value)
    # Nobody has a label.
    assert math.isnan(dpa([0, 1], np.zeros((2, 2))).value)
    assert math.isnan(dpa([0, 1], np.eye(2), np.zeros((2, 2))).value)
