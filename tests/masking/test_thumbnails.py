"""Small pictures for reports: of nobody who was not found, and hidden."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from judge.masking.folder import Hiding
from judge.masking.hidden import HiddenPictures
from judge.masking.images import encode
from judge.masking.instances import PERSON, from_box
from judge.masking.thumbnails import hides_people, make_thumbnails


@pytest.fixture
def pictures(tmp_path: Path) -> HiddenPictures:
    """Three white pictures: with a person, with a dog alone, with nothing that was found."""
    names = {image: f"{image}.png" for image in "abc"}
    for name in names.values():
        (tmp_path / name).write_bytes(encode(np.full((40, 60, 3), 255, dtype=np.uint8)))
    person, dog = (from_box((10, 5, 10, 25), (40, 60), label) for label in (PERSON, "dog"))
    return HiddenPictures(tmp_path, names, Hiding((PERSON, "dog")), {"a.png": (person,), "b.png": (dog,), "c.png": ()})


def test_a_picture_without_a_found_person_is_not_shown(pictures: HiddenPictures) -> None:
    assert [*make_thumbnails(pictures, ["a", "b", "c", "elsewhere"])] == ["a"]
    assert [*make_thumbnails(replace(pictures, hiding=None, hidden={}), "abc")] == [*"abc"]


@pytest.mark.parametrize(
    ("hiding", "whole"),
    [
        (Hiding(), True),
        (Hiding(mode="box"), True),
        (Hiding((PERSON, "dog")), True),
        (None, False),
        (Hiding(("dog",)), False),
        (Hiding(mode="partial"), False),
        (Hiding(foreground="largest"), False),
        (Hiding(foreground=0.1), False),
    ],
)
def test_what_hides_people_whole(pictures: HiddenPictures, hiding: Hiding | None, whole: bool) -> None:
    assert hides_people(replace(pictures, hiding=hiding)) == whole
