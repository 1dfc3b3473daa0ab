"""The category of pictures that goes most with the attribute."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from judge.commands.pictures import Correlated, correlated_category
from judge.errors import JudgeError
from judge.masking.detectors.ground_truth import GroundTruth
from judge.types import Labels


def truth_of(path: Path, objects: Sequence[Sequence[str]], categories: Sequence[str]) -> GroundTruth:
    """A COCO file: picture n holds ``objects[n]``; what is held twice counts once."""
    box = {"bbox": [0, 0, 1, 1], "iscrowd": 0}
    document = {
        "images": [{"id": n, "file_name": f"{n:012}.jpg", "height": 4, "width": 4} for n in range(len(objects))],
        "annotations": [
            box | {"image_id": n, "category_id": 10 * categories.index(name)}
            for n, held in enumerate(objects)
            for name in held
        ],
        "categories": [{"id": 10 * index, "name": name} for index, name in enumerate(categories)],
    }
    path.write_text(json.dumps(document), encoding="utf-8")
    return GroundTruth.read(path)


def labels_of(classes: Sequence[str]) -> Labels:
    return Labels("gender", tuple(sorted(set(classes))), {str(n): name for n, name in enumerate(classes)}, "x.csv")


NAMES = ["person", "oven", "tie", "dog"]


def test_the_category_that_goes_most_with_the_attribute(tmp_path: Path) -> None:
    """Oven: 3 of 4 women; tie: 4 of 5 men, the most; dog: half. People themselves never count."""
    classes = [*"fffm", *"mmmmf", *"fm"]
    objects = [["oven", "person"]] * 4 + [["tie", "person", "tie"]] * 5 + [["dog"], ["dog", "person"]]
    found = correlated_category(truth_of(tmp_path / "i.json", objects, NAMES), labels_of(classes))
    assert found == Correlated("tie", "m", 0.8, 5)


def test_three_classes(tmp_path: Path) -> None:
    """Oven: a 2, b 1, c 1; tie: a 1, b 1, c 3; dog: two of each."""
    classes = [*"aabc", *"abccc", *"abcabc"]
    objects = [["oven"]] * 4 + [["tie"]] * 5 + [["dog"]] * 6
    found = correlated_category(truth_of(tmp_path / "i.json", objects, NAMES), labels_of(classes))
    assert found == Correlated("tie", "c", 0.6, 5)


def test_of_equals_the_first_class_then_the_first_category(tmp_path: Path) -> None:
    classes = ["m", "f", "f", "m"]
    objects = [["dog"], ["tie"], ["oven"], ["person"]]
    found = correlated_category(truth_of(tmp_path / "i.json", objects, NAMES), labels_of(classes))
    assert (found.category, found.class_, found.share) == ("oven", "f", 1.0)


def test_a_rare_category_tells_nothing(tmp_path: Path) -> None:
    """Of 400 labelled pictures a category must be in 4. Ties are in 3, all of men; ovens in 4."""
    classes = ["m", "m", "m", "f", "f", "f", "m"] + ["f", "m"] * 197
    objects = [["tie"]] * 3 + [["oven"]] * 4 + [["dog"]] * 394
    truth = truth_of(tmp_path / "i.json", objects[:400], NAMES)
    assert correlated_category(truth, labels_of(classes[:400])) == Correlated("oven", "f", 0.75, 4)
    assert correlated_category(truth, labels_of(classes[:400]), at_least=3).category == "tie"
    assert correlated_category(truth, labels_of(classes[:400]), at_least=5) == Correlated("dog", "f", 197 / 393, 393)
    with pytest.raises(JudgeError, match="no category occurs in 394 labelled pictures"):
        correlated_category(truth, labels_of(classes[:400]), at_least=394)


def test_pictures_without_label_do_not_count(tmp_path: Path) -> None:
    truth = truth_of(tmp_path / "i.json", [["tie"], ["tie"], ["oven"], ["tie"]], NAMES)
    labels = Labels("gender", ("f", "m"), {"0": "f", "1": "m", "2": "m", "77": "f"}, "x.csv")
    assert correlated_category(truth, labels) == Correlated("oven", "m", 1.0, 1)


@pytest.mark.parametrize("objects", [[["person"], ["person"]], [[], ["person"]]])
def test_nothing_but_people(tmp_path: Path, objects: list[list[str]]) -> None:
    with pytest.raises(JudgeError, match="no category occurs in 1 labelled pictures") as caught:
        correlated_category(truth_of(tmp_path / "i.json", objects, NAMES), labels_of(["f", "m"]))
    assert "\n" not in str(caught.value)


def test_no_picture_in_common(tmp_path: Path) -> None:
    labels = Labels("gender", ("f", "m"), {"900": "f", "901": "m"}, "x.csv")
    with pytest.raises(JudgeError, match="no picture has a label"):
        correlated_category(truth_of(tmp_path / "i.json", [["tie"], ["oven"]], NAMES), labels)
