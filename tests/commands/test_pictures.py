"""Which picture an image id means: by the instances file's ids, by names, and never by chance."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from judge.commands.pictures import known_pictures, name_pictures
from judge.errors import JudgeError
from judge.masking.detectors.ground_truth import GroundTruth
from judge.masking.images import list_pictures


def folder_of(path: Path, *names: str) -> Path:
    """Names are all that is looked at."""
    for name in names:
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(b"x")
    return path


def named(folder: Path, truth: GroundTruth | None, images: list[str]) -> dict[str, str]:
    return name_pictures(known_pictures(folder, truth), images, folder)


def truth_of(path: Path, **names: object) -> GroundTruth:
    """An instances file: picture name without suffix -> its "id"."""
    images = [{"id": number, "file_name": f"{name}.jpg", "height": 4, "width": 4} for name, number in names.items()]
    path.write_text(json.dumps({"images": images, "annotations": [], "categories": [{"id": 1, "name": "person"}]}))
    return GroundTruth.read(path)


@pytest.mark.parametrize("name", ["000000000139.jpg", "COCO_val2014_000000000139.jpg", "val2014/000000000139.png"])
def test_cocos_names_hold_its_ids(name: str, tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "images", name, "b/cat.jpg")
    assert named(folder, None, ["139", "b/cat"]) == {"139": name, "b/cat": "b/cat.jpg"}


def test_ids_of_the_instances_file_go_before_names(tmp_path: Path) -> None:
    """There 7.jpg is number 8 and 8.jpg number 7."""
    folder = folder_of(tmp_path / "images", "7.jpg", "8.jpg", "cat.jpg", "dog.jpg")
    truth = truth_of(tmp_path / "instances.json", **{"7": 8, "8": 7, "cat": 12})
    found = named(folder, truth, ["7", "8", "12", "cat", "dog"])
    assert found == {"7": "8.jpg", "8": "7.jpg", "12": "cat.jpg", "cat": "cat.jpg", "dog": "dog.jpg"}


def test_only_what_is_asked_for_in_that_order(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "images", *(f"{n}.jpg" for n in range(5)))
    assert list(named(folder, None, ["3", "0", "4"])) == ["3", "0", "4"]


def test_of_two_pictures_of_one_image_the_first_counts(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "images", "5.png", "5.jpg", "000000000005.jpg")
    assert named(folder, None, ["5"]) == {"5": list_pictures(folder)[0]}


def test_names_that_no_image_can_have_are_passed_over(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "images", ".jpg.jpg", " .png", "1.jpg")
    assert named(folder, None, ["1"]) == {"1": "1.jpg"}


@pytest.mark.parametrize(
    ("images", "message"),
    [
        (["1", "2", "3", "4"], "no picture of image '3' (2 of 4 images have none). Add them, or leave out their"),
        (["x"], "no picture of image 'x' (1 of 1 images have none)"),
    ],
)
def test_images_without_a_picture_are_counted(images: list[str], message: str, tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "images", "1.jpg", "2.jpg")
    with pytest.raises(JudgeError) as caught:
        named(folder, None, images)
    assert str(caught.value).startswith(f"--images {folder}: {message}")


def test_a_folder_that_is_none_or_empty(tmp_path: Path) -> None:
    with pytest.raises(JudgeError, match="nowhere: is no folder"):
        named(tmp_path / "nowhere", None, ["1"])
    with pytest.raises(JudgeError, match="no picture"):
        named(tmp_path, None, ["1"])
