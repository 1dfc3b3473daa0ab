"""What judges see: nothing that is hidden, and a key that changes exactly when what is seen does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from judge.errors import JudgeError
from judge.masking.detectors.ground_truth import GroundTruth
from judge.masking.folder import Hiding
from judge.masking.hidden import HiddenPictures, find_hidden
from judge.masking.images import encode
from judge.masking.instances import Instance, from_mask

SIZE = (30, 40)
PERSON = np.zeros(SIZE, dtype=bool)
PERSON[5:20, 10:20] = True
DOG = np.zeros(SIZE, dtype=bool)
DOG[20:28, 25:35] = True
NAMES = {"1": "one.png", "2": "two.png"}


def drawn(number: int) -> np.ndarray:
    return np.random.default_rng(number).integers(1, 256, (*SIZE, 3), dtype=np.uint8)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for image, name in NAMES.items():
        (tmp_path / name).write_bytes(encode(drawn(int(image))))
    return tmp_path


def seen(folder: Path, hiding: Hiding | None, *masks: np.ndarray) -> HiddenPictures:
    instances = tuple(from_mask(mask, "person") for mask in masks)
    return HiddenPictures(folder, NAMES, hiding, dict.fromkeys(NAMES.values(), instances))


@pytest.mark.parametrize("fill", ["black", "mean", "blur", "noise"])
def test_hidden_pixels_are_hidden_and_others_as_they_were(folder: Path, fill: str) -> None:
    hiding = Hiding(fill=fill)
    pictures = seen(folder, hiding, PERSON)
    before = pictures.read("1")
    assert np.array_equal(before[~PERSON], drawn(1)[~PERSON])
    # Noise on noise: not even by chance does a pixel come out as it was.
    assert not (before[PERSON] == drawn(1)[PERSON]).all(axis=1).any()
    # Another person in the same place is the same picture, though its file is another.
    other, key = drawn(1), pictures.key("1")
    other[PERSON] = 7
    (folder / "one.png").write_bytes(encode(other))
    assert np.array_equal(pictures.read("1"), before)
    assert pictures.key("1") != key


def test_nothing_is_hidden_where_nothing_is_to_be(folder: Path) -> None:
    assert np.array_equal(HiddenPictures(folder, NAMES).read("2"), drawn(2))
    assert np.array_equal(seen(folder, Hiding()).read("2"), drawn(2))


def test_the_key_tells_apart_whatever_is_seen(folder: Path) -> None:
    """What is hidden, and how; each is another picture, and another key."""
    more: list[dict[str, Any]] = [{"dilation": 2}, {"mode": "partial"}, {"mode": "partial", "share": 0.25}]
    more += [{"fill": "mean"}, {"fill": "noise"}, {"fill": "noise", "seed": 1}]
    ways = [seen(folder, None), *(seen(folder, Hiding(), *masks) for masks in ((PERSON,), (DOG,), (PERSON, DOG)))]
    ways += [seen(folder, Hiding(**how), PERSON) for how in more]
    assert len({way.read("1").tobytes() for way in ways}) == len(ways)
    assert len({way.key("1") for way in ways}) == len(ways)


def test_what_changes_no_pixel_changes_no_key(folder: Path) -> None:
    """Or every picture would be encoded anew."""
    person, sure = from_mask(PERSON, "person", score=0.7), from_mask(PERSON, "person", score=0.9)
    dog = from_mask(DOG, "dog", score=0.9)

    def way(instances: tuple[Instance, ...], **how: Any) -> HiddenPictures:
        return HiddenPictures(folder, NAMES, Hiding(**how), dict.fromkeys(NAMES.values(), instances))

    more: list[dict[str, Any]] = [{}, {"seed": 1}, {"threshold": 0.6}, {"share": 0.25}, {"foreground": "largest"}]
    more += [{"labels": ("person", "cat")}]
    same = [way((sure,)), way((person, dog)), *(way((person,), **how) for how in more)]
    assert len({one.read("1").tobytes() for one in same}) == 1
    assert len({one.key("1") for one in same}) == 1
    # Hidden by nothing, it is the picture as it is.
    plain = HiddenPictures(folder, NAMES)
    for nothing in (way(()), way((dog,)), way((person,), threshold=0.8), way((), fill="noise", seed=3)):
        assert np.array_equal(nothing.read("1"), plain.read("1"))
        assert nothing.key("1") == plain.key("1")


def test_the_key_is_of_content_not_of_names_or_folders(folder: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "renamed.png").write_bytes(encode(drawn(1)))
    for hiding in (None, Hiding(), Hiding(fill="noise")):
        instances = (from_mask(PERSON, "person"),)
        here = HiddenPictures(folder, NAMES, hiding, {"one.png": instances})
        there = HiddenPictures(elsewhere, {"9": "renamed.png"}, hiding, {"renamed.png": instances})
        same_key, same_pixels = here.key("1") == there.key("9"), np.array_equal(here.read("1"), there.read("9"))
        # Noise is drawn anew for every name.
        assert same_key == same_pixels == (hiding is None or hiding.fill != "noise")


def test_the_key_needs_no_decoding_and_is_the_same_again(folder: Path) -> None:
    pictures = seen(folder, Hiding(), PERSON)
    before = pictures.key("1")
    assert pictures.key("1") == before
    (folder / "one.png").write_bytes(b"no picture")
    assert pictures.key("1") != before
    with pytest.raises(JudgeError, match="is not a picture"):
        pictures.read("1")


def test_people_are_looked_for_once_a_picture(folder: Path, tmp_path: Path) -> None:
    """From an instances file; two images may be one picture."""
    rows = [{"id": int(image), "file_name": name, "height": 30, "width": 40} for image, name in NAMES.items()]
    box = {"id": 1, "image_id": 1, "category_id": 1, "bbox": [10, 5, 10, 15]}
    dog = {"id": 2, "image_id": 1, "category_id": 2, "bbox": [25, 20, 10, 8]}
    people = [{"id": 1, "name": "person"}, {"id": 2, "name": "dog"}]
    path = tmp_path / "instances.json"
    path.write_text(json.dumps({"images": rows, "annotations": [box, dog], "categories": people}))
    told: list[int] = []
    pictures = find_hidden(
        folder, NAMES | {"3": "one.png"}, detector=GroundTruth.read(path), hiding=Hiding(),
        progress=lambda what, done, total: told.append(done),
    )  # fmt: skip
    assert {name: len(found) for name, found in pictures.hidden.items()} == {"one.png": 1, "two.png": 0}
    assert (pictures.read("1") == 0).all(axis=2).tolist() == PERSON.tolist()
    assert pictures.key("3") == pictures.key("1")
    assert told == [1, 2]


def test_faults(folder: Path) -> None:
    pictures = seen(folder, Hiding(), PERSON)
    with pytest.raises(JudgeError, match="no picture of image '5'"):
        pictures.read("5")
    (folder / "one.png").unlink()
    for look in (pictures.key, pictures.read):
        with pytest.raises(JudgeError, match=r"one\.png: "):
            look("1")
