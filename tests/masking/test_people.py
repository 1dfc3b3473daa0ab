"""Masks, boxes and the selection of instances; no hidden pixel has any influence; nothing else changes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from judge.errors import JudgeError
from judge.masking.detectors.annotations import read_annotation
from judge.masking.instances import BoolMask, Instance, Pixels, from_mask, union
from judge.masking.people import Fill, Hiding, Mode, hide

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
            assert (x, y) == (columns.min(), rows.min())
            assert (x + width, y + height) == (columns.max() + 1, rows.max() + 1)


def instance(label: str, score: float, area: int) -> Instance:
    mask = np.zeros((10, 10), dtype=bool)
    mask.ravel()[:area] = True
    return from_mask(mask, label, score=score)


KINDS = ("person", 0.5, 20), ("dog", 0.9, 90), ("person", 0.4999, 80), ("person", 1.0, 30), ("person", 0.7, 30)
FOUND = [instance(*kind) for kind in (*KINDS, ("person", 0.9, 0))]
CROWD = replace(instance("person", 1.0, 90), crowd=True)


@pytest.mark.parametrize(("arguments", "expected"), [
    ({}, [0, 3, 4, 5]),
    ({"threshold": 0.05}, [0, 2, 3, 4, 5]),
    ({"labels": ("person", "dog")}, [0, 1, 3, 4, 5]),
    ({"labels": ("cat",), "foreground": "largest"}, []),
    ({"labels": ()}, [1]),  # All but people.
    ({"labels": (), "background": True}, [0, 1, 3, 4, 5]),
    ({"labels": (), "background": True, "foreground": "largest"}, [3, 1]),
    ({"foreground": "largest"}, [3]),  # The first of two of the same size.
    ({"foreground": "largest", "threshold": 0.05}, [2]),
    ({"foreground": "largest", "labels": ("person", "dog")}, [3, 1]),  # One of each category.
    ({"foreground": 0.3}, [3, 4]),  # At least, not only more than.
    ({"foreground": 0.31}, []),
    ({"foreground": 1e-9}, [0, 3, 4]),  # An empty mask covers no share.
])  # fmt: skip
def test_select(arguments: dict[str, object], expected: list[int]) -> None:
    assert Hiding(**arguments).chosen(FOUND) == tuple(FOUND[index] for index in expected)  # type: ignore[arg-type]


def test_a_crowd_is_the_largest_only_where_nobody_stands_alone() -> None:
    largest = Hiding(foreground="largest")
    assert largest.chosen([CROWD, *FOUND]) == (FOUND[3],)
    assert largest.chosen([CROWD, FOUND[1]]) == (CROWD,)
    assert Hiding(labels=("person", "dog"), foreground="largest").chosen([CROWD, *FOUND]) == (FOUND[3], FOUND[1])


def test_all_of_a_crowd_is_hidden_in_part() -> None:
    """Of one person of 90 pixels the upper half."""
    partial = Hiding(mode="partial")
    assert partial.region([CROWD], (10, 10)).sum() == 90
    assert partial.region([replace(CROWD, crowd=False)], (10, 10)).sum() == 45


HEIGHT, WIDTH = SIZE = (11, 17)
FILLS: tuple[Fill, ...] = ("black", "mean")
MODES: tuple[Mode, ...] = ("partial", "segment", "box")


@st.composite
def annotations(draw: st.DrawFn) -> dict[str, Any]:
    """Polygons over the border or of no area; run lengths, empty ones too; boxes, not always of the mask; crowds."""
    x, y = st.floats(-2, WIDTH + 2), st.floats(-2, HEIGHT + 2)
    found: dict[str, Any] = {}
    shape = draw(st.sampled_from(["polygons", "runs", "box"]))
    if shape == "polygons":
        points = st.lists(st.tuples(x, y) | st.tuples(st.just(3.0), st.just(4.0)), min_size=3, max_size=7)
        drawn = draw(st.lists(points, min_size=1, max_size=2))
        found["segmentation"] = [[number for point in polygon for number in point] for polygon in drawn]
        assume(not any(all(0 <= number <= 1 for number in polygon) for polygon in found["segmentation"]))
    elif shape == "runs":
        mask = draw(arrays.arrays(np.bool_, SIZE, elements=st.booleans(), fill=st.booleans()))
        edges = np.flatnonzero(np.diff(np.concatenate([[False], mask.T.ravel()]))).tolist()
        counts = np.diff([0, *edges, mask.size]).tolist()
        for place in draw(st.lists(st.integers(0, len(counts)), max_size=2)):
            counts[place:place] = [0, 0]  # Which changes no pixel.
        found["segmentation"] = {"size": list(SIZE), "counts": counts}
    if shape == "box" or draw(st.booleans()):
        left, top = draw(st.floats(-2, WIDTH)), draw(st.floats(-2, HEIGHT))
        found["bbox"] = [left, top, draw(st.floats(0, WIDTH - left)), draw(st.floats(0, HEIGHT - top))]
        assume(not all(0 <= number <= 1 for number in found["bbox"]))
    return found | {"iscrowd": draw(st.integers(0, 1))}


INSTANCES = st.lists(annotations(), max_size=4).map(
    lambda found: [read_annotation(annotation, "person", SIZE, where="x") for annotation in found]
)
PIXELS = arrays.arrays(np.uint8, (*SIZE, 3))


def in_box(instance: Instance, row: int, column: int) -> bool:
    x, y, width, height = instance.box
    touched = x < column + 1 and column < x + width and y < row + 1 and row < y + height
    return width > 0 and height > 0 and touched


def upper_part(mask: BoolMask, share: float) -> BoolMask:
    """The first ceil(share x area) pixels in reading order, one after the other."""
    left = math.ceil(Decimal(str(share)) * int(mask.sum()))
    part = np.zeros_like(mask)
    for row, column in np.argwhere(mask)[:left]:
        part[row, column] = True
    return part


def expected_region(
    instances: Sequence[Instance], mode: Mode, share: float, dilation: int, *, background: bool
) -> BoolMask:
    """Pixel by pixel."""
    region = np.zeros(SIZE, dtype=bool)
    for instance in instances:
        region |= upper_part(instance.mask, share) if mode == "partial" and not instance.crowd else instance.mask
        if mode == "box":
            region |= np.array([[in_box(instance, r, c) for c in range(WIDTH)] for r in range(HEIGHT)])
    region = region != background
    hidden = np.argwhere(region)
    if not len(hidden) or not dilation:
        return region
    everywhere = np.argwhere(np.ones(SIZE, dtype=bool))
    squares = ((everywhere[:, None] - hidden[None]) ** 2).sum(axis=2).min(axis=1)
    return (squares <= dilation**2).reshape(SIZE)


@settings(max_examples=80, deadline=None)
@given(INSTANCES, st.sampled_from(MODES), st.integers(1, 99).map(lambda n: n / 100), st.integers(0, 9), st.booleans())
def test_the_hidden_region(
    instances: list[Instance], mode: Mode, share: float, dilation: int, background: bool
) -> None:
    region = Hiding(mode=mode, share=share, dilation=dilation, background=background).region(instances, SIZE)
    np.testing.assert_array_equal(region, expected_region(instances, mode, share, dilation, background=background))


@settings(max_examples=80, deadline=None)
@given(INSTANCES, st.sampled_from(MODES), st.sampled_from([0, 1, 3, 40]), st.sampled_from(FILLS), PIXELS, PIXELS)
def test_no_hidden_pixel_has_any_influence(
    instances: list[Instance], mode: Mode, dilation: int, fill: Fill, before: Pixels, noise: Pixels
) -> None:
    """Two images that differ in the hidden region alone become one."""
    region = Hiding(mode=mode, dilation=dilation).region(instances, SIZE)
    kept, other = before.copy(), np.where(region[:, :, None], noise, before)
    after, again = (hide(image, region, fill=fill) for image in (before, other))
    assert (after.shape, after.dtype) == (before.shape, np.uint8)
    np.testing.assert_array_equal(after[~region], before[~region])
    np.testing.assert_array_equal(after, again)
    np.testing.assert_array_equal(before, kept)
    assert fill != "black" or not after[region].any()


@pytest.mark.parametrize("mode", MODES)
def test_masks_of_another_size_are_refused(mode: Mode) -> None:
    with pytest.raises(JudgeError, match="a mask of 4x5 pixels on an image of 5x5"):
        Hiding(mode=mode).region([from_mask(np.ones((5, 4), dtype=bool), "person")], (5, 5))


def test_mean_is_that_of_the_visible_pixels() -> None:
    pixels = np.zeros((2, 3, 3), dtype=np.uint8)
    pixels[0, 0], pixels[0, 1], pixels[1, 2] = (10, 20, 30), (20, 41, 255), (200, 200, 200)
    region = np.ones((2, 3), dtype=bool)
    region[0, :2] = False
    after = hide(pixels, region, fill="mean")
    assert after[region].tolist() == [[15, 30, 142]] * 4  # (20 + 41) / 2 and (30 + 255) / 2 are rounded to even.
    assert hide(pixels, np.ones((2, 3), dtype=bool), fill="mean").tolist() == [[[128] * 3] * 3] * 2
