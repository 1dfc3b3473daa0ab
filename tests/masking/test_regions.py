"""Boxes of what can still be seen: which things count, where they end, and that they come from one look."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest
from detector_samples import FakeDetector

from judge.masking.folder import Hiding
from judge.masking.hidden import HiddenPictures, find_hidden
from judge.masking.instances import BoolMask, Instance, from_mask
from judge.masking.regions import MOST, visible_boxes

SIZE = (20, 40)
NOTHING = np.zeros(SIZE, dtype=np.bool_)


def block(top: int, bottom: int, left: int, right: int) -> BoolMask:
    mask = np.zeros(SIZE, dtype=np.bool_)
    mask[top:bottom, left:right] = True
    return mask


def thing(top: int, bottom: int, left: int, right: int, label: str = "dog", score: float = 1.0) -> Instance:
    return from_mask(block(top, bottom, left, right), label, score=score)


def test_the_box_is_that_of_what_is_left() -> None:
    """Ten columns of which four are hidden leave the box of six; of which six are hidden, no box at all."""
    # Shares of the picture.
    found = visible_boxes([thing(5, 10, 4, 20), thing(0, 20, 0, 40)], NOTHING)
    assert found == ((0.0, 0.0, 1.0, 1.0), (0.1, 0.25, 0.5, 0.5))
    dog = thing(0, 10, 10, 20)
    assert visible_boxes([dog], block(0, 20, 0, 14)) == ((14 / 40, 0.0, 0.5, 0.5),)
    assert visible_boxes([dog], block(0, 20, 0, 15)) == ((15 / 40, 0.0, 0.5, 0.5),)
    assert visible_boxes([dog], block(0, 20, 0, 16)) == ()
    # A hole moves no border.
    assert visible_boxes([dog], block(3, 6, 12, 16)) == ((0.25, 0.0, 0.5, 0.5),)


def test_the_certain_first_then_the_large_and_at_most_twenty() -> None:
    small, large, sure = thing(0, 2, 0, 2, score=0.6), thing(0, 9, 0, 9, score=0.6), thing(0, 1, 0, 1, score=0.9)
    assert visible_boxes([small, large, sure], NOTHING) == visible_boxes([sure, large, small], NOTHING)
    assert [box[2] for box in visible_boxes([small, large, sure], NOTHING)] == [1 / 40, 9 / 40, 2 / 40]
    assert visible_boxes([small, large, sure], NOTHING, threshold=0.7) == ((0, 0, 1 / 40, 1 / 20),)
    assert len(visible_boxes([thing(0, 5, n, n + 3) for n in range(30)], NOTHING)) == MOST
    # What is hidden takes nobody's place.
    hidden = [thing(10, 20, n, n + 3) for n in range(30)]
    assert len(visible_boxes([*hidden, thing(0, 2, 0, 2)], block(10, 20, 0, 40))) == 1
    # Masks without a pixel are nowhere.
    assert visible_boxes([from_mask(NOTHING, "dog")], NOTHING) == ()


def finder_of(*instances: Instance) -> FakeDetector:
    return FakeDetector(lambda _: instances)


PERSON = thing(0, 20, 0, 10, "person")
TIE = thing(5, 10, 4, 6, "tie")
DOG = thing(10, 20, 5, 25)
UNSURE = thing(0, 5, 30, 40, "cat", 0.3)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("1.png", "2.png"):
        cv2.imwrite(str(tmp_path / name), np.full((*SIZE, 3), 200, np.uint8))
    return tmp_path


NAMES = {"1": "1.png", "2": "2.png"}


def test_one_look_finds_what_is_hidden_and_what_is_not(folder: Path) -> None:
    """The dog behind somebody hidden ends where they begin; their tie is nowhere, nor is what is too uncertain."""
    finder = finder_of(PERSON, TIE, DOG, UNSURE)
    seen = find_hidden(folder, NAMES, detector=finder, hiding=Hiding(), regions=True)
    assert finder.asked == [["1.png", "2.png"]]
    assert seen.boxes("1") == seen.boxes("2") == ((0.25, 0.5, 25 / 40, 1.0),)
    assert not seen.read("1")[:, :10].any()
    wide = find_hidden(folder, NAMES, detector=finder, hiding=Hiding(threshold=0.2), regions=True)
    assert wide.boxes("1") == (*seen.boxes("1"), (0.75, 0.0, 1.0, 0.25))


def test_half_of_a_person_that_is_left_has_a_box(folder: Path) -> None:
    hiding = Hiding(mode="partial", share=0.4)
    seen = find_hidden(folder, NAMES, detector=finder_of(PERSON), hiding=hiding, regions=True)
    ((left, top, right, bottom),) = seen.boxes("1")
    assert (left, right, bottom) == (0.0, 0.25, 1.0)
    assert top == pytest.approx(0.4, abs=0.05)


def test_nothing_is_hidden_and_everything_has_a_box(folder: Path) -> None:
    seen = find_hidden(folder, NAMES, detector=finder_of(PERSON, TIE), hiding=None, regions=True)
    assert seen.boxes("2") == ((0.0, 0.0, 0.25, 1.0), (0.1, 0.25, 0.15, 0.5))
    assert (seen.read("2") == 200).all()
    assert seen.key("1") == HiddenPictures(folder, NAMES).key("1")
    # Where nobody asks for boxes, nothing is kept.
    finder = finder_of(PERSON, DOG)
    plain = find_hidden(folder, NAMES, detector=finder, hiding=Hiding())
    told = find_hidden(folder, NAMES, detector=finder, hiding=Hiding(), regions=True)
    assert plain.boxes("1") == ()
    assert plain.key("1") == told.key("1")
    assert replace(told, regions={}) == plain
