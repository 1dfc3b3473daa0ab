"""Maps over pictures: what is bright, what shows through, and that any shape of picture has one."""

from __future__ import annotations

import numpy as np
import pytest

from judge.attribution.people import overlay, sheet

LINES = ["image 1: 'caf\u00e9' (+1.00), grad-cam", "a caption " * 60]


def test_the_most_is_brightest_and_nothing_is_grey() -> None:
    pixels = np.full((80, 120, 3), (200, 40, 40), dtype=np.uint8)
    mass = np.zeros((80, 120))
    mass[10:30, 10:40] = 3.0
    people = np.zeros((80, 120), dtype=bool)
    people[40:70, 60:90] = True
    drawn = overlay(pixels, mass, people).astype(int)
    # Yellow where the mass is; grey, darker than the picture, where none is; a white outline.
    red, green, blue = drawn[20, 25]
    assert min(red, green) > blue + 40
    assert len(set(drawn[75, 5])) == 1
    assert drawn[20, 25].sum() > drawn[75, 5].sum() + 200
    assert (drawn[40, 60:90] == 255).all()
    assert len(set(drawn[55, 75])) == 1
    assert np.array_equal(overlay(pixels, mass * 1e-6, people), drawn)


@pytest.mark.parametrize("size", [(64, 64), (40, 300), (300, 24), (480, 640), (1, 1)])
def test_a_sheet_of_any_picture(size: tuple[int, int]) -> None:
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (*size, 3), dtype=np.uint8)
    for mass in (rng.random(size), np.zeros(size)):
        made = sheet(pixels, mass, np.zeros(size, dtype=bool), LINES)
        times = -(-360 // max(size))
        assert made.dtype == np.uint8
        assert made.shape[1] == 2 * times * size[1] + 8
        assert made.shape[0] > times * size[0]
        assert np.array_equal(made[: times * size[0] : times, : times * size[1] : times], pixels)
