"""Ratio and Error by hand, against loops, with several classes."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge import error, ratio

# Five captions: woman (0), man (1), man, both, none. Annotated: a woman, a woman, a man, a man, a man.
NAMED = np.array([[1, 0], [0, 1], [0, 1], [1, 1], [0, 0]])
SHOWN = np.array([0, 0, 1, 1, 1])


def test_ratio_by_hand() -> None:
    """One woman, two men; the caption with both names neither."""
    assert ratio(NAMED).value == 1 / 2
    assert ratio(NAMED, first=1, second=0).value == 2
    assert ratio(NAMED).pairs.tolist() == [[1, 1 / 2], [2, 1]]
    assert ratio(NAMED).counted == 2


def test_error_by_hand() -> None:
    """The second is wrong: 1 of 5 annotated, 1 of 3 that name one."""
    assert error(SHOWN, NAMED).value == 1 / 5
    assert error(SHOWN, NAMED, among="naming").value == 1 / 3
    assert error(SHOWN, NAMED).pairs.tolist() == [[0, 1 / 5], [0, 0]]
    assert error(SHOWN, NAMED).counted == 5


def test_captions_that_name_nobody() -> None:
    """No error, and no ratio: women-snowboard's perfect captioner must be seen."""
    none = np.zeros((5, 2))
    assert error(SHOWN, none).value == 0
    assert math.isnan(error(SHOWN, none, among="naming").value)
    assert error(SHOWN, none, among="naming").counted == 0
    assert math.isnan(ratio(none).value)
    assert math.isnan(ratio([0, 0, 0]).value)
    assert ratio([0, 0, 0], first=1, second=0).value == 0


def test_several_classes() -> None:
    assert ratio([0, 0, 2, 1, 2, 2], first=2, second=0).value == 3 / 2
    assert error([0, 1, 2, 2], [0, 2, 2, 1]).value == 1 / 2
    # Of four, one has none, which leaves it out, and one has two classes, each of which is right.
    shown = np.array([[1, 0, 0], [0, 0, 0], [1, 1, 0], [0, 0, 1]])
    assert error(shown, [1, 1, 1, 0]).value == 2 / 3
    assert error(shown, [1, 1, 1, 0]).pairs == pytest.approx(np.array([[0, 1, 0], [0, 0, 0], [1, 0, 0]]) / 3)


@st.composite
def captions(draw: st.DrawFn) -> tuple[list[int], list[list[bool]]]:
    classes, number = draw(st.integers(2, 4)), draw(st.integers(1, 15))
    shown = draw(st.lists(st.integers(0, classes - 1), min_size=number, max_size=number))
    row = st.lists(st.booleans(), min_size=classes, max_size=classes)
    return shown, draw(st.lists(row, min_size=number, max_size=number))


@pytest.mark.parametrize("among", ["annotated", "naming"])
@given(drawn=captions())
def test_against_loops(among: str, drawn: tuple[list[int], list[list[bool]]]) -> None:
    shown, named = drawn
    wrong = counted = first = second = 0
    for own, row in zip(shown, named, strict=True):
        names = {k for k, said in enumerate(row) if said and sum(row) == 1}
        counted += among == "annotated" or bool(names)
        wrong += bool(names - {own})
        first += 1 in names
        second += 0 in names
    found = error(shown, named, among=among)  # type: ignore[arg-type]
    assert found.counted == counted
    assert found.value == (wrong / counted if counted else pytest.approx(math.nan, nan_ok=True))
    told = ratio(named, first=1, second=0)
    assert told.value == (first / second if second else pytest.approx(math.nan, nan_ok=True))
    assert told.counted == second
    if counted:
        assert found.pairs.sum() == pytest.approx(found.value)
