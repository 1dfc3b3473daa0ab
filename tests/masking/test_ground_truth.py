"""``gt``: pycocotools' own masks, pixel for pixel, from any file that deserves it; a line for each other one."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import one_line
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from pycocotools import mask as coco
from pycocotools.coco import COCO

from judge.errors import JudgeError
from judge.masking.detectors.annotations import read_annotation, run_lengths
from judge.masking.detectors.ground_truth import GroundTruth
from judge.masking.instances import from_mask, union

Record = dict[str, Any]
HEIGHT, WIDTH = SIZE = (12, 20)
SQUARE = [[2.0, 3.0, 8.0, 3.0, 8.0, 9.0, 2.0, 9.0]]


def test_real_masks_equal_pycocotools_pixel_for_pixel(shared: Path) -> None:
    """Every category; all crowds, and all annotations of twenty images."""
    path = shared / "coco-mini" / "annotations" / "instances_val2017.json"
    theirs, ours = COCO(str(path)), GroundTruth.read(path)
    assert sorted(ours.images) == sorted(image["file_name"] for image in theirs.imgs.values())
    crowds = seen = 0
    crowded = [number for number, of in theirs.imgToAnns.items() if any(one["iscrowd"] for one in of)]
    for number in [*crowded, *list(theirs.imgs)[:20]]:
        image, annotations = theirs.imgs[number], theirs.imgToAnns[number]
        found = ours.instances(image["file_name"], (image["height"], image["width"]))
        assert len(found) == len(annotations)
        for instance, annotation in zip(found, annotations, strict=True):
            np.testing.assert_array_equal(instance.mask, theirs.annToMask(annotation))
            assert instance.label == theirs.cats[annotation["category_id"]]["name"]
            assert instance.box == tuple(annotation["bbox"])
            assert instance.crowd == bool(annotation["iscrowd"])
            crowds, seen = crowds + instance.crowd, seen + 1
        assert ours.categories_in(image["file_name"]) == {instance.label for instance in found}
    assert seen > 100
    assert crowds > 3


def coco_file(path: Path, annotations: Sequence[Record], /, **changes: Any) -> Path:
    """Two images of 20 x 12; ``annotations`` belong to the first, a sound one to the second."""
    sound = {"id": 99, "image_id": 2, "category_id": 1, "segmentation": SQUARE, "bbox": [2, 3, 6, 6], "iscrowd": 0}
    first = [{"id": 10 + n, "image_id": 1, "category_id": 1} | record for n, record in enumerate(annotations)]
    document = {
        "images": [{"id": n, "file_name": f"{n}.jpg", "height": HEIGHT, "width": WIDTH} for n in (1, 2)],
        "annotations": [*first, sound],
        "categories": [{"id": 1, "name": "person"}, {"id": 5, "name": "dog"}],
    }
    path.write_text(json.dumps(document | changes), encoding="utf-8")
    return path


def runs_of(mask: np.ndarray) -> list[int]:
    """Run lengths column by column, the first of zeros: a loop over pixels."""
    runs = [(value, len(list(group))) for value, group in groupby(mask.T.ravel().tolist())]
    return [length for _, length in ([(False, 0)] if runs[0][0] else []) + runs]


def compressed(mask: np.ndarray) -> bytes:
    counts: bytes = coco.encode(np.asfortranarray(mask.astype(np.uint8)))["counts"]
    return counts


def with_runs(counts: object, size: Sequence[int] = SIZE) -> Record:
    return {"segmentation": {"size": list(size), "counts": counts}}


MASKS = arrays.arrays(np.bool_, SIZE)


@settings(deadline=None)
@given(MASKS)
def test_run_lengths_compressed_or_not(mask: np.ndarray) -> None:
    assert run_lengths(compressed(mask)) == runs_of(mask)
    for counts in (compressed(mask).decode(), runs_of(mask)):
        found = read_annotation(with_runs(counts), "dog", SIZE, where="x")
        np.testing.assert_array_equal(found.mask, mask)
        assert found == from_mask(mask, "dog")


def test_empty_runs_hide_no_pixel_from_the_union() -> None:
    """pycocotools stops to merge where two masks have an empty run at one place, here after 18 of 240 pixels."""
    runs = [12, 6, 0, 6, 216], [15, 3, 0, 30, 192]
    found = [read_annotation(with_runs([*counts]), "person", SIZE, where="x") for counts in runs]
    expected = np.zeros(SIZE, dtype=bool)
    expected[:, 1:4] = True
    assert [one.area for one in found] == [12, 33]
    np.testing.assert_array_equal(union(found, SIZE), expected)
    assert all(0 not in run_lengths(one.counts)[1:] for one in found)


COMPRESSED = from_mask(np.pad(np.ones((4, 5), dtype=bool), ((3, 5), (6, 9))), "x").counts.decode()
# Too many, a negative one, halves, a huge one, none; then compressed: cut, no ASCII, and more than there is.
RUNS: list[Any] = [[230, 11], [250, -10], [239.5, 0.5], [240, 2**32], [], COMPRESSED[:-1], "é" + COMPRESSED]
RUNS += [COMPRESSED + "\0", "o" * 1_000_000, COMPRESSED[:-1] + "PPPPPPPP0"]
FAULTS: list[tuple[Record, str]] = [
    *[(with_runs(runs), "do not add up") for runs in RUNS],
    *[({"segmentation": [[1, 2, 3, 4, 5, x]]}, "not finite") for x in (math.nan, 10**400)],
    *[({"segmentation": [[1, 2, 3, 4, 5, x]]}, "no list of numbers") for x in ("6", True)],
    ({"segmentation": [[1, 2, 3, 4]]}, "polygon of 4 values"),
    ({"segmentation": [[1, 2, 3, 4, 5, 6, 7]]}, "polygon of 7 values"),
    ({"segmentation": [1, 2, 3, 4, 5, 6]}, "polygon is no list of numbers"),
    ({"segmentation": [[1, 2, 22.5, 4, 5, 6]]}, "coordinate 22.5 lies outside the image (0 to 20)"),
    ({"segmentation": [[0.1, 0.3, 0.4, 0.3, 0.4, 0.8]]}, "holds numbers from 0 to 1"),
    ({"segmentation": [], "bbox": [0, 0, 0, 0]}, "hides nothing: its mask is empty"),
    (with_runs([WIDTH * HEIGHT]), "hides nothing"),
    ({"segmentation": SQUARE, "bbox": [12, 3, 6, 6]}, "its mask lies outside of its bbox"),
    ({"segmentation": SQUARE, "bbox": [2, 3, 6, 6], "area": 100_000}, "its mask is much smaller than its area"),
    ({"segmentation": SQUARE, "iscrowd": "yes"}, "'iscrowd' is 'yes'"),
    *[({"segmentation": SQUARE, "score": score}, f"'score' is {score}") for score in (97.5, 1.001)],
    *[(record, "neither segmentation nor bbox") for record in ({}, {"segmentation": "person"})],
    ({"bbox": [1, 2, 3]}, "bbox is [1, 2, 3]"),
    ({"bbox": [1, 2, -3, 4]}, "bbox is"),
    ({"bbox": [1, 2, 30, 4]}, "coordinate 31 lies outside"),
    ({"bbox": [0.125, 0.3, 0.25, 0.5]}, "field 'bbox': holds numbers from 0 to 1"),
    ({"bbox": "1 2 3 4", "segmentation": SQUARE}, "bbox is no list of numbers"),
    *[({"segmentation": SQUARE, "category_id": x}, f"category_id {x} is not among") for x in (7, [1])],
    (with_runs(COMPRESSED, [20, 12]), "run lengths for size [20, 12]"),
    ({"segmentation": {"counts": COMPRESSED}}, "run lengths for size None"),
    (with_runs([240, "1"]), "counts is no list of numbers"),
]


@pytest.mark.parametrize(("record", "message"), FAULTS)
def test_an_unsound_annotation_costs_its_image_alone(tmp_path: Path, record: Record, message: str) -> None:
    path = coco_file(tmp_path / "i.json", [record])
    truth = GroundTruth.read(path)
    with one_line(message) as lines:
        truth.instances("1.jpg", SIZE)
    assert lines[0].startswith(f"{path}, image '1.jpg', annotation 10")
    assert truth.instances("2.jpg", SIZE)[0].area == 36


# A run of +5 in a longer spelling: pycocotools' C reader shifts an int by 35 and more.
OVERLONG = st.sampled_from(["U" + "P" * n + "0" for n in range(3, 14)] + ["k" + "o" * n + "O" for n in range(3, 14)])


@settings(max_examples=100, deadline=None)
@given(st.one_of(st.text(max_size=12), st.lists(OVERLONG | st.text("0123PQRSoOk`", max_size=3)).map("".join)), MASKS)
def test_no_run_lengths_whatever_lead_pycocotools_astray(noise: str, mask: np.ndarray) -> None:
    """What is accepted means to C's reader what it means to ours; that one would read and write out of bounds."""
    good, faults = compressed(mask).decode(), list[str]()
    for counts in (noise, good + noise, noise + good, good[:-1] + noise):
        try:
            found = read_annotation(with_runs(counts), "x", SIZE, where="x")
        except JudgeError as error:
            faults.append(str(error))
        else:
            runs = run_lengths(counts.encode())
            expected = np.repeat(np.arange(len(runs)) % 2 == 1, runs).reshape(WIDTH, HEIGHT).T
            np.testing.assert_array_equal(found.mask, expected)
            assert found.area == expected.sum()
    assert "\n" not in "".join(faults)


IMAGE = {"id": 1, "file_name": "1.jpg", "height": HEIGHT, "width": WIDTH}
PERSON_AND_SQUARE = {"category_id": 1, "segmentation": SQUARE}


@pytest.mark.parametrize(("content", "message"), [
    ({"images": None}, "'images' is no list of records"),
    ({"annotations": {"1": []}}, "'annotations' is no list of records"),
    ({"categories": ["person"]}, "categories, record 1: is a text, not an object"),
    ({"categories": [{"id": [1], "name": "person"}]}, "'id' is a list"),
    ({"annotations": [{"image_id": "7", **PERSON_AND_SQUARE}]}, "no annotation's 'image_id'"),
    *((text, "") for text in ("", "{", "[1]", "{}", "\x89PNG", "a,b\n1,2\n", "{" * 100_000)),
])  # fmt: skip
def test_a_file_that_is_not_of_coco(tmp_path: Path, content: Record | str, message: str) -> None:
    path = tmp_path / "i.json"
    if isinstance(content, str):
        path.write_text(content, encoding="utf-8")
    else:
        coco_file(path, [], **content)
    with one_line(message, str(path)):
        GroundTruth.read(path)


SOUND = {"id": 9, "image_id": 2, "category_id": 1, "segmentation": SQUARE}
OTHER = {"id": 2, "file_name": "2.jpg", "height": HEIGHT, "width": WIDTH}


@pytest.mark.parametrize(("images", "message"), [
    ([IMAGE, IMAGE | {"id": 3}], "images, record 2: 'file_name' 1.jpg occurs twice"),
    # The first would get no annotation, and its people would stay visible.
    ([IMAGE, IMAGE | {"file_name": "3.jpg"}], "images, record 2: 'id' 1 is that of '1.jpg' too"),
    ([{"file_name": "1.jpg"}], "images, record 1: 'id' is null"),
    ([IMAGE | {"id": {"a": 1}}], "'id' is an object"),
    ([IMAGE | {"height": 12.5}], "height and width are 12.5 and 20"),
    ([IMAGE | {"width": "20"}], "height and width are 12 and 20"),
    ([IMAGE | {"width": -20}], "height and width are 12 and -20"),
    ([IMAGE | {"width": 21.0}], "image '1.jpg': is 20 x 12, its annotation says 21 x 12. Use"),
    ([IMAGE | {"width": 12, "height": 20}], "annotation says 12 x 20 (turned by its EXIF orientation?"),
])  # fmt: skip
def test_a_record_at_fault_costs_its_image_alone(tmp_path: Path, images: list[Record], message: str) -> None:
    path = coco_file(tmp_path / "i.json", [], images=[*images, OTHER], annotations=[SOUND])
    truth = GroundTruth.read(path)
    assert len(truth.instances("2.jpg", (HEIGHT, WIDTH))) == 1
    for name in {image["file_name"] for image in images}:
        with one_line(message):
            truth.instances(name, SIZE)
    assert not truth.strays


COCO_URL = "http://images.cocodataset.org/val2017/1.jpg"


@pytest.mark.parametrize("named", [
    {"coco_url": COCO_URL},  # LVIS.
    {"url": f"{COCO_URL}?size=large", "file_name": None},
    {"flickr_url": "https://farm1.example/1.jpg#a/b"},
    {"coco_url": None, "flickr_url": "https://example.org/photo?id=7", "url": COCO_URL},
])  # fmt: skip
def test_images_without_a_file_name_are_called_by_their_url(tmp_path: Path, named: Record) -> None:
    sizes = {"height": HEIGHT, "width": WIDTH}
    path = coco_file(tmp_path / "i.json", [PERSON_AND_SQUARE], images=[{"id": 1, **sizes} | named, OTHER])
    truth = GroundTruth.read(path)
    assert truth.images == ("1.jpg", "2.jpg")
    assert truth.instances("1.jpg", SIZE)[0].area == 36
    assert not truth.strays


def test_images_without_any_name(tmp_path: Path) -> None:
    """One is a stray; where all have none, that is the reason, and not their annotations."""
    nameless = {"id": 1, "flickr_url": "https://example.org/photo?id=7"}
    truth = GroundTruth.read(coco_file(tmp_path / "i.json", [PERSON_AND_SQUARE], images=[nameless, OTHER]))
    assert "'file_name' is null, and no URL ends in one" in str(truth.strays[0][1])
    path = coco_file(tmp_path / "i.json", [PERSON_AND_SQUARE], images=[nameless, {"id": 2}])
    with one_line("images: no image has a 'file_name', or a URL that ends in one. Add the names of their files."):
        GroundTruth.read(path)


def test_records_that_belong_to_no_image(tmp_path: Path) -> None:
    strays = [SOUND | {"image_id": [1]}, {"category_id": 1}, SOUND | {"image_id": float("nan")}]
    path = coco_file(tmp_path / "i.json", [], annotations=[SOUND, *strays])
    truth = GroundTruth.read(path)
    assert len(truth.instances("2.jpg")) == 1
    assert [where for where, _ in truth.strays] == [f"annotations, record {number}" for number in (2, 3, 4)]
    for (where, fault), what in zip(truth.strays, ("a list", "null", "a number"), strict=True):
        assert f"{path}, {where}: 'image_id' is {what}: what it shows stays visible" in str(fault)
    with one_line("image '3.jpg' is not among its images"):
        truth.instances("3.jpg", SIZE)
