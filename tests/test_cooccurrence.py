"""Counts of attributes and labels against loops; the category that goes most with the attribute."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge.cooccurrence import attribute_shares, counts
from judge.errors import JudgeError
from judge.jobs.pictures import Correlated, correlated_category
from judge.masking.detectors.ground_truth import GroundTruth
from judge.types import Labels


@st.composite
def samples(draw: st.DrawFn) -> tuple[list[int], list[list[bool]], int, int]:
    """Classes and tasks of some samples; there may be none of either, and classes that nobody has."""
    classes, tasks = draw(st.integers(1, 4)), draw(st.integers(0, 5))
    row = st.tuples(st.integers(0, classes - 1), st.lists(st.booleans(), min_size=tasks, max_size=tasks))
    drawn = draw(st.lists(row, max_size=30))
    return [class_ for class_, _ in drawn], [held for _, held in drawn], classes, tasks


@given(samples())
def test_against_loops(drawn: tuple[list[int], list[list[bool]], int, int]) -> None:
    attribute, held, classes, tasks = drawn
    table = counts(np.array(attribute, dtype=np.int64), np.array(held, dtype=bool).reshape(len(held), tasks), classes)
    shares = attribute_shares(table)
    assert (table.shape, table.dtype, shares.shape) == ((classes, tasks), np.int64, (classes, tasks))
    for task in range(tasks):
        total = sum(row[task] for row in held)
        for class_ in range(classes):
            together = sum(own == class_ and row[task] for own, row in zip(attribute, held, strict=True))
            assert table[class_, task] == together
            if total:
                assert shares[class_, task] == pytest.approx(float(Fraction(together, total)), abs=1e-15)
            else:
                assert math.isnan(shares[class_, task])


def test_by_hand() -> None:
    """Zhao et al. 2017: of 10 pictures of cooking 8 show women, so b(woman, cooking) = 8 / 10."""
    attribute = np.array([0] * 8 + [1] * 2 + [1] * 5)
    tasks = np.array([[True, False]] * 10 + [[False, False]] * 5)
    table = counts(attribute, tasks, 3)
    assert table.tolist() == [[8, 0], [2, 0], [0, 0]]
    assert attribute_shares(table)[:, 0].tolist() == [0.8, 0.2, 0.0]
    assert np.isnan(attribute_shares(table)[:, 1]).all()


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
