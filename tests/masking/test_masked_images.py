"""What judges see: nothing that is hidden, a key that changes when what is seen does, boxes and thumbnails."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from detector_samples import FakeDetector

from judge.errors import JudgeError
from judge.masking.images import encode
from judge.masking.instances import BoolMask, Instance, from_mask, visible_boxes
from judge.masking.masked_images import MaskedImages, find_hidden, hides_people, make_thumbnails
from judge.masking.people import Hiding

SIZE = (20, 40)
NAMES = {"1": "one.png", "2": "two.png"}
NOTHING = np.zeros(SIZE, dtype=np.bool_)


def block(top: int, bottom: int, left: int, right: int) -> BoolMask:
    mask = NOTHING.copy()
    mask[top:bottom, left:right] = True
    return mask


def thing(top: int, bottom: int, left: int, right: int, label: str = "dog", score: float = 1.0) -> Instance:
    return from_mask(block(top, bottom, left, right), label, score=score)


PERSON, DOG, TIE = thing(5, 20, 10, 20, "person"), thing(10, 18, 25, 35), thing(6, 12, 12, 16, "tie")


def drawn(number: int) -> np.ndarray:
    return np.random.default_rng(number).integers(1, 256, (*SIZE, 3), dtype=np.uint8)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for image, name in NAMES.items():
        (tmp_path / name).write_bytes(encode(drawn(int(image))))
    return tmp_path


def seen(folder: Path, *instances: Instance, plain: bool = False, **how: Any) -> MaskedImages:
    hiding = None if plain else Hiding(**how)
    return MaskedImages(folder, NAMES, hiding, dict.fromkeys(NAMES.values(), instances))


@pytest.mark.parametrize("fill", ["black", "mean", "blur", "noise"])
def test_hidden_pixels_are_hidden_and_others_unchanged(folder: Path, fill: str) -> None:
    images = seen(folder, PERSON, fill=fill)
    before, mask = images.read("1"), PERSON.mask
    assert np.array_equal(before[~mask], drawn(1)[~mask])
    assert not (before[mask] == drawn(1)[mask]).all(axis=1).any()
    # With another person in the same place the masked image is the same, though its file is another.
    other, key = drawn(1), images.key("1")
    other[mask] = 7
    (folder / "one.png").write_bytes(encode(other))
    assert np.array_equal(images.read("1"), before)
    assert images.key("1") != key


def test_the_key_changes_with_the_pixels_alone(folder: Path) -> None:
    plain = seen(folder, plain=True)
    ways = [plain, seen(folder, PERSON), seen(folder, PERSON, replace(DOG, label="person"))]
    more: list[dict[str, Any]] = [{"dilation": 2}, {"mode": "partial"}, {"mode": "partial", "share": 0.25}]
    more += [{"fill": "mean"}, {"fill": "noise"}, {"fill": "noise", "seed": 1}]
    ways += [seen(folder, PERSON, **how) for how in more]
    assert len({way.read("1").tobytes() for way in ways}) == len(ways)
    assert len({way.key("1") for way in ways}) == len(ways)
    # What changes no pixel changes no key, or features would be computed again.
    more = [{"seed": 1}, {"threshold": 0.6}, {"share": 0.25}, {"foreground": "largest"}, {"labels": ("person", "cat")}]
    same = [seen(folder, replace(PERSON, score=0.7), DOG), *(seen(folder, PERSON, **how) for how in more)]
    assert {one.key("1") for one in same} == {seen(folder, PERSON).key("1")}
    nothing = [seen(folder), seen(folder, DOG), seen(folder, replace(PERSON, score=0.7), threshold=0.8)]
    assert {one.key("1") for one in nothing} == {plain.key("1")}
    assert {one.read("1").tobytes() for one in nothing} == {drawn(1).tobytes()}


def test_people_are_detected_once_per_image(folder: Path) -> None:
    """Two image ids may share a file."""
    detector = FakeDetector(lambda image: (PERSON, DOG) if image.name == "one.png" else ())
    done: list[int] = []
    names = NAMES | {"3": "one.png"}
    images = find_hidden(
        folder, names, detector=detector, hiding=Hiding(), progress=lambda _, count, total: done.append(count)
    )
    assert images.hidden == {"one.png": (PERSON,), "two.png": ()}
    assert (detector.called, done) == (["one.png", "two.png"], [1, 2])
    assert (images.read("1") == 0).all(axis=2).tolist() == PERSON.mask.tolist()
    # The checksum taken while detecting gives the key that reading the file again gives.
    assert images.key("3") == images.key("1") == replace(images, checksums={}).key("1")
    assert images.boxes("1") == ()
    with pytest.raises(JudgeError, match="no file of image '5'"):
        images.read("5")
    (folder / "one.png").unlink()
    for read in (images.read, replace(images, checksums={}).key):
        with pytest.raises(JudgeError, match=r"one\.png: no such image"):
            read("1")


def test_boxes_of_visible_parts() -> None:
    """A thing counts if half of it is visible; its box, in shares of the image, is that of the visible part."""
    assert visible_boxes([thing(5, 10, 4, 20), thing(0, 20, 0, 40)], NOTHING) == ((0, 0, 1, 1), (0.1, 0.25, 0.5, 0.5))
    dog = thing(0, 10, 10, 20)
    assert visible_boxes([dog], block(0, 20, 0, 14)) == ((14 / 40, 0.0, 0.5, 0.5),)
    assert visible_boxes([dog], block(0, 20, 0, 15)) == ((15 / 40, 0.0, 0.5, 0.5),)
    assert visible_boxes([dog], block(0, 20, 0, 16)) == ()
    assert visible_boxes([dog], block(3, 6, 12, 16)) == ((0.25, 0.0, 0.5, 0.5),)


def test_boxes_beside_what_is_hidden(folder: Path) -> None:
    """A tie on a hidden person has no box; where nothing is hidden, everything has one."""
    detector = FakeDetector(lambda image: (PERSON, DOG, TIE))
    assert find_hidden(folder, NAMES, detector=detector, hiding=Hiding(), regions=True).boxes("1") == (
        (25 / 40, 0.5, 35 / 40, 0.9),
    )
    plain = find_hidden(folder, NAMES, detector=detector, hiding=None, regions=True)
    assert len(plain.boxes("2")) == 3
    assert np.array_equal(plain.read("2"), drawn(2))


def test_thumbnails_show_nobody_who_was_not_detected(folder: Path) -> None:
    images = replace(seen(folder), hidden={"one.png": (PERSON,), "two.png": (DOG,)}, hiding=Hiding(("person", "dog")))
    assert [*make_thumbnails(images, ["1", "2", "elsewhere"])] == ["1"]
    assert [*make_thumbnails(replace(images, hiding=None, hidden={}), "12")] == ["1", "2"]


@pytest.mark.parametrize(
    ("hiding", "whole"),
    [
        (Hiding(), True),
        (Hiding(("person", "dog"), mode="box"), True),
        (None, False),
        (Hiding(("dog",)), False),
        (Hiding(mode="partial"), False),
        (Hiding(foreground="largest"), False),
    ],
)
def test_whether_people_are_hidden_whole(folder: Path, hiding: Hiding | None, *, whole: bool) -> None:
    assert hides_people(replace(seen(folder), hiding=hiding)) == whole
