"""Masks, boxes and the choice of instances, each against a loop."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from judge.errors import JudgeError
from judge.masking.instances import Instance, box_mask, from_box, from_mask, select, union

SIZES = st.tuples(st.integers(1, 12), st.integers(1, 12))
MASKS = SIZES.flatmap(lambda size: arrays.arrays(np.bool_, size))
NUMBERS = st.floats(-3, 16, allow_nan=False) | st.integers(-3, 16).map(float)


@given(MASKS)
def test_a_mask_comes_back_as_it_was(mask: np.ndarray) -> None:
    found = from_mask(mask, "person")
    assert found.mask.dtype == np.bool_
    np.testing.assert_array_equal(found.mask, mask)
    assert (found.area, found.size, found.score, found.crowd) == (mask.sum(), mask.shape, 1.0, False)
    rows, columns = np.nonzero(mask)
    x, y, width, height = found.box
    if len(rows):
        assert (x, y) == (columns.min(), rows.min())
        assert (x + width, y + height) == (columns.max() + 1, rows.max() + 1)
    else:
        assert width * height == 0


@given(SIZES, NUMBERS, NUMBERS, NUMBERS, NUMBERS)
def test_a_box_covers_every_pixel_that_it_touches(
    size: tuple[int, int], x: float, y: float, width: float, height: float
) -> None:
    expected = np.zeros(size, dtype=bool)
    for row in range(size[0]):
        for column in range(size[1]):
            # Pixel (row, column) is the open square from (column, row) to (column + 1, row + 1).
            across = column < x + width and column + 1 > x
            down = row < y + height and row + 1 > y
            expected[row, column] = width > 0 and height > 0 and across and down
    np.testing.assert_array_equal(box_mask((x, y, width, height), size), expected)
    found = from_box((x, y, width, height), size, "dog", score=0.5)
    np.testing.assert_array_equal(found.mask, expected)
    assert (found.box, found.label, found.score) == ((x, y, width, height), "dog", 0.5)


@given(SIZES.flatmap(lambda size: st.lists(arrays.arrays(np.bool_, size), max_size=5).map(lambda found: (size, found))))
def test_a_union_is_what_any_of_them_covers(drawn: tuple[tuple[int, int], list[np.ndarray]]) -> None:
    """Overlapping, empty and repeated ones as well."""
    size, masks = drawn
    masks = [*masks, *masks[:1]]
    expected = np.zeros(size, dtype=bool)
    for mask in masks:
        expected |= mask
    np.testing.assert_array_equal(union([from_mask(mask, "person") for mask in masks], size), expected)


def test_a_union_of_many_and_of_another_size() -> None:
    masks = np.eye(300, dtype=bool).reshape(300, 15, 20)
    assert union([from_mask(mask, "person") for mask in masks], (15, 20)).all()
    with pytest.raises(JudgeError, match="a mask of 4x3 pixels on an image of 3x4"):
        union([from_mask(np.ones((3, 4), dtype=bool), "person")], (4, 3))


def instance(label: str, score: float, area: int) -> Instance:
    mask = np.zeros((10, 10), dtype=bool)
    mask.ravel()[:area] = True
    return from_mask(mask, label, score=score)


KINDS = ("person", 0.5, 20), ("dog", 0.9, 90), ("person", 0.4999, 80), ("person", 1.0, 30), ("person", 0.7, 30)
FOUND = [instance(*kind) for kind in (*KINDS, ("person", 0.9, 0))]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({}, [0, 3, 4, 5]),
        ({"threshold": 0.05}, [0, 2, 3, 4, 5]),
        ({"threshold": 0.9}, [3, 5]),
        ({"labels": ["person", "dog"]}, [0, 1, 3, 4, 5]),
        ({"labels": ["dog"]}, [1]),
        ({"labels": ["cat"], "foreground": "largest"}, []),
        ({"foreground": "largest"}, [3]),  # of two as large the first
        ({"foreground": "largest", "threshold": 0.05}, [2]),
        ({"foreground": "largest", "labels": ["person", "dog"]}, [3, 1]),  # one of each: hiding a dog hides no person
        ({"foreground": 0.3}, [3, 4]),  # as much as, not only more than
        ({"foreground": 0.31}, []),
        ({"foreground": 1e-9}, [0, 3, 4]),  # an empty mask covers no share
    ],
)
def test_select(arguments: dict[str, object], expected: list[int]) -> None:
    assert select(FOUND, **arguments) == tuple(FOUND[index] for index in expected)  # type: ignore[arg-type]


@pytest.mark.parametrize("foreground", [0.0, 1.0, -0.5, 2.0, float("nan"), "smallest"])
def test_a_foreground_that_is_none(foreground: object) -> None:
    with pytest.raises(JudgeError, match="foreground is"):
        select(FOUND, foreground=foreground)  # type: ignore[arg-type]
