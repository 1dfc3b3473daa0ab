"""The placement of a network's input in the image, against the library's own resizing, cropping and padding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import transformers as tf
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from judge.attribution.maps import fitted, ramps, stretched
from judge.attribution.people import AGAINST, FOR, overlay, sheet

SIDES = st.integers(1, 40)
SQUARE = {"height": 32, "width": 32}
# Height and width of the image -> step and start of rows and columns, by hand.
PROCESSORS: dict[str, tuple[Callable[[], Any], tuple[int, int], list[tuple[float, float]]]] = {
    "resized": (lambda: tf.ViTImageProcessor(size=SQUARE), (40, 56), [(40 / 32, 0), (56 / 32, 0)]),
    # The shorter side becomes 32, the longer one 44 (of 44.8), of which the middle 32 are kept.
    "cropped": (
        lambda: tf.CLIPImageProcessor(size={"shortest_edge": 32}, crop_size=SQUARE),
        (40, 56),
        [(40 / 32, 0), (56 / 44, 6 * 56 / 44)],
    ),
    "cropped, upright": (
        lambda: tf.CLIPImageProcessor(size={"shortest_edge": 32}, crop_size=SQUARE),
        (120, 60),
        [(120 / 64, 16 * 120 / 64), (60 / 32, 0)],
    ),
    # 60 x 90 becomes 21 x 32 and is put in the middle of 32 x 32: 5 rows of padding above.
    "padded": (
        lambda: tf.DonutImageProcessor(size=SQUARE, do_align_long_axis=False),
        (60, 90),
        [(60 / 21, -5 * 60 / 21), (90 / 32, 0)],
    ),
}


def shown_by(processor: Any, pictures: list[np.ndarray]) -> np.ndarray:
    made = processor([Image.fromarray(one) for one in pictures], return_tensors="np")["pixel_values"]
    return np.asarray(made, dtype=float).sum(axis=1)


@pytest.mark.parametrize("name", PROCESSORS)
def test_placement_of_processors(name: str) -> None:
    """Within a hundredth of the image's side; and a spot is found at its position."""
    make, size, (rows, columns) = PROCESSORS[name]
    processor = make()
    found = fitted(size, shown_by(processor, ramps(size)))
    assert found is not None
    assert found.input_size == (32, 32)
    for axis, expected, side in ((found.rows, rows, size[0]), (found.columns, columns, size[1])):
        ends = [axis[1], axis[0] * 32 + axis[1]]
        assert ends == pytest.approx([expected[1], expected[0] * 32 + expected[1]], abs=0.01 * side + 0.15)
    spot = np.zeros((*size, 3), dtype=np.uint8)
    y, x = size[0] // 3, size[1] * 2 // 3
    spot[y - 4 : y + 4, x - 4 : x + 4] = 255
    dark, seen = shown_by(processor, [np.zeros_like(spot), spot])
    mass = found.spread((seen - dark).clip(min=0))
    centre = [(np.indices(size)[axis] + 0.5)[mass > 0] @ mass[mass > 0] / mass.sum() for axis in (0, 1)]
    assert centre == pytest.approx([y, x], abs=0.6)


def test_a_processor_that_transposes_images_has_no_placement() -> None:
    size = (40, 56)
    turned = np.stack([one[..., 0].T.astype(float) for one in ramps(size)])
    assert fitted(size, turned) is None
    assert fitted(size, np.zeros((4, 8, 8))) is None


@given(SIDES, SIDES, SIDES, SIDES)
def test_mass_is_preserved_and_a_flat_grid_is_flat(height: int, width: int, high: int, wide: int) -> None:
    rng = np.random.default_rng([height, width, high, wide])
    placement = stretched((height, width), (high, wide))
    mass = rng.random((high, wide))
    spread = placement.spread(mass)
    assert spread.shape == (height, width)
    assert spread.sum() == pytest.approx(mass.sum())
    assert (spread >= 0).all()
    assert placement.enlarge(np.full((3, 2), 0.7)) == pytest.approx(np.full((height, width), 0.7))


LINES = ["image 1: 'caf\u00e9' (+1.00), grad-cam", "a caption " * 60]


def test_the_maximum_is_brightest_and_zero_is_grey() -> None:
    pixels = np.full((80, 120, 3), (200, 40, 40), dtype=np.uint8)
    mass = np.zeros((80, 120))
    mass[10:30, 10:40] = 3.0
    people = np.zeros((80, 120), dtype=bool)
    people[40:70, 60:90] = True
    drawn = overlay(pixels, mass, people).astype(int)
    # Yellow at the mass; grey, darker than the image, elsewhere; a white outline.
    red, green, blue = drawn[20, 25]
    assert min(red, green) > blue + 40
    assert len(set(drawn[75, 5])) == 1
    assert drawn[20, 25].sum() > drawn[75, 5].sum() + 200
    assert (drawn[40, 60:90] == 255).all()
    assert len(set(drawn[55, 75])) == 1
    assert np.array_equal(overlay(pixels, mass * 1e-6, people), drawn)


def test_for_and_against_have_two_colours() -> None:
    mass = np.zeros((60, 90))
    mass[:, :30], mass[:, 60:] = 1, -1
    drawn = overlay(np.zeros((60, 90, 3), np.uint8), mass, np.zeros((60, 90), np.bool_)).astype(float)
    for place, colour in ((5, FOR), (85, AGAINST)):
        assert drawn[30, place] == pytest.approx(0.85 * np.array(colour), abs=1)
    assert not drawn[30, 45].any()


@pytest.mark.parametrize("size", [(40, 300), (300, 24), (1, 1)])
def test_a_sheet_of_any_image(size: tuple[int, int]) -> None:
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (*size, 3), dtype=np.uint8)
    for mass in (rng.random(size), np.zeros(size)):
        made = sheet(pixels, mass, np.zeros(size, dtype=bool), LINES)
        times = -(-360 // max(size))
        assert made.dtype == np.uint8
        assert made.shape[1] == 2 * (times * size[1] + 8)
        assert made.shape[0] > times * size[0]
        assert np.array_equal(made[: times * size[0] : times, : times * size[1] : times], pixels)
