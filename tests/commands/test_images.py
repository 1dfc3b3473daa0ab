"""Which image an image id means, never by chance; which category of things goes most with the attribute."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from helpers import fault_of

from judge.commands.images import Correlated, correlated_category, find_images, known_images
from judge.masking.detectors.ground_truth import GroundTruth
from judge.types import Labels

NAMES = ["person", "oven", "tie", "dog"]


def truth_of(folder: Path, ids: Mapping[str, int], annotations: Sequence[dict[str, Any]] = ()) -> GroundTruth:
    """An instances file: image name without suffix -> its "id"."""
    images = [{"id": number, "file_name": f"{name}.jpg", "height": 4, "width": 4} for name, number in ids.items()]
    categories = [{"id": 10 * index, "name": name} for index, name in enumerate(NAMES)]
    document = {"images": images, "annotations": list(annotations), "categories": categories}
    (folder / "instances.json").write_text(json.dumps(document), encoding="utf-8")
    return GroundTruth.read(folder / "instances.json")


@pytest.mark.parametrize(("names", "ids", "expected"), [
    # COCO's names hold its ids.
    *(([name, "b/cat.jpg"], None, {"139": name, "b/cat": "b/cat.jpg"})
      for name in ("000000000139.jpg", "COCO_val2014_000000000139.jpg", "val2014/000000000139.png")),
    # Ids of the instances file go before names: there 7.jpg is number 8 and 8.jpg number 7.
    (["7.jpg", "8.jpg", "cat.jpg", "dog.jpg"], {"7": 8, "8": 7, "cat": 12},
     {"7": "8.jpg", "8": "7.jpg", "12": "cat.jpg", "cat": "cat.jpg", "dog": "dog.jpg"}),
    # Of two images of one id the first by name counts; names that no image can have are passed over.
    (["5.png", "5.jpg", "000000000005.jpg", ".jpg.jpg", " .png", "7.jpg"], None,
     {"7": "7.jpg", "5": "000000000005.jpg"}),
])  # fmt: skip
def test_which_image_an_id_means(
    names: list[str], ids: dict[str, int] | None, expected: dict[str, str], tmp_path: Path
) -> None:
    folder = tmp_path / "images"
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"x")  # Names are all that is looked at.
    known = known_images(folder, truth_of(tmp_path, ids) if ids else None)
    assert list(find_images(known, [*expected], folder).items()) == list(expected.items())
    message = "no file of image '31' (2 of 3 images have none). Add them, or leave out their"
    fault = fault_of(find_images, known, [next(iter(expected)), "31", "41"], folder)
    assert fault.startswith(f"--images {folder}: {message}")


def objects_of(folder: Path, objects: Sequence[Sequence[str]]) -> GroundTruth:
    """Image n holds ``objects[n]``; what is held twice counts once."""
    box = {"bbox": [0, 0, 1, 1], "iscrowd": 0}
    held = [(n, NAMES.index(name)) for n, names in enumerate(objects) for name in names]
    annotations = [box | {"image_id": n, "category_id": 10 * category} for n, category in held]
    return truth_of(folder, {f"{n:012}": n for n in range(len(objects))}, annotations)


def labels_of(classes: Sequence[str]) -> Labels:
    return Labels("gender", tuple(sorted(set(classes))), {str(n): name for n, name in enumerate(classes)}, "x.csv")


WOMEN_AND_MEN = [*"fffm", *"mmmmf", *"fm"]
THREE_CLASSES = [*"aabc", *"abccc", *"abcabc"]


@pytest.mark.parametrize(("classes", "objects", "expected"), [
    # Oven: 3 of 4 women; tie: 4 of 5 men, the most; dog: half. People themselves never count.
    (
        WOMEN_AND_MEN,
        [["oven", "person"]] * 4 + [["tie", "person", "tie"]] * 5 + [["dog"], ["dog", "person"]],
        Correlated("tie", "m", 0.8, 5),
    ),
    # Oven: a 2, b 1, c 1; tie: a 1, b 1, c 3; dog: two of each.
    (THREE_CLASSES, [["oven"]] * 4 + [["tie"]] * 5 + [["dog"]] * 6, Correlated("tie", "c", 0.6, 5)),
    # Of equals the first class, then the first category.
    ([*"mffm"], [["dog"], ["tie"], ["oven"], ["person"]], Correlated("oven", "f", 1.0, 1)),
    # Of 400 images a category must be in 4: ties are in 3, all of men.
    (
        [*"mmmfffm", *"fm" * 196, "f"],
        [["tie"]] * 3 + [["oven"]] * 4 + [["dog"]] * 393,
        Correlated("oven", "f", 0.75, 4),
    ),
])  # fmt: skip
def test_the_category_that_goes_most_with_the_attribute(
    tmp_path: Path, classes: list[str], objects: list[list[str]], expected: Correlated
) -> None:
    assert correlated_category(objects_of(tmp_path, objects), labels_of(classes)) == expected


def test_images_without_label_do_not_count(tmp_path: Path) -> None:
    truth = objects_of(tmp_path, [["tie"], ["tie"], ["oven"], ["tie"]])
    labels = Labels("gender", ("f", "m"), {"0": "f", "1": "m", "2": "m", "77": "f"}, "x.csv")
    assert correlated_category(truth, labels) == Correlated("oven", "m", 1.0, 1)
    assert "no image has a label" in fault_of(correlated_category, truth, replace(labels, by_image={"900": "f"}))
    truth = objects_of(tmp_path, [["person"], []])
    assert "no category occurs in 1 labelled images" in fault_of(correlated_category, truth, labels)
