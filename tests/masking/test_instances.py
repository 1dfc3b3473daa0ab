"""Masks, boxes and the selection of instances, each against a loop."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from judge.masking.instances import Instance, from_mask, select, union

SIZES = st.tuples(st.integers(1, 12), st.integers(1, 12))


@given(SIZES.flatmap(lambda size: st.lists(arrays.arrays(np.bool_, size), max_size=5).map(lambda found: (size, found))))
def test_masks_and_their_union(drawn: tuple[tuple[int, int], list[np.ndarray]]) -> None:
    """Overlapping, empty and repeated ones as well."""
    size, masks = drawn
    masks = [*masks, *masks[:1]]
    instances = [from_mask(mask, "person") for mask in masks]
    np.testing.assert_array_equal(union(instances, size), np.any([np.zeros(size, dtype=bool), *masks], axis=0))
    for mask, found in zip(masks, instances, strict=True):
        np.testing.assert_array_equal(found.mask, mask)
        assert (found.area, found.size, found.score, found.crowd) == (mask.sum(), mask.shape, 1.0, False)
        rows, columns = np.nonzero(mask)
        x, y, width, height = found.box
        if len(rows):
            assert (x, y, x + width, y + height) == (
                columns.min(), rows.min(), columns.max() + 1, rows.max() + 1,
            )  # fmt: skip


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
        ({"labels": ["person", "dog"]}, [0, 1, 3, 4, 5]),
        ({"labels": ["cat"], "foreground": "largest"}, []),
        ({"foreground": "largest"}, [3]),  # The first of two of the same size.
        ({"foreground": "largest", "threshold": 0.05}, [2]),
        ({"foreground": "largest", "labels": ["person", "dog"]}, [3, 1]),  # One of each category.
        ({"foreground": 0.3}, [3, 4]),  # At least, not only more than.
        ({"foreground": 0.31}, []),
        ({"foreground": 1e-9}, [0, 3, 4]),  # An empty mask covers no share.
    ],
)
def test_select(arguments: dict[str, object], expected: list[int]) -> None:
    assert select(FOUND, **arguments) == tuple(FOUND[index] for index in expected)  # type: ignore[arg-type]
