"""Statistics of masks, which decide whether a run goes on; overlap with ground truth against loops and pycocotools."""

from __future__ import annotations

import json
import math
from dataclasses import astuple
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis.extra.numpy import arrays
from PIL import Image

from judge.commands.evaluate import RunConfig
from judge.commands.run_images import RunImages
from judge.config import make_config
from judge.errors import JudgeError
from judge.masking.detectors.ground_truth import GroundTruth
from judge.masking.instances import Instance, from_box, from_mask
from judge.masking.masked_images import find_hidden
from judge.masking.measured import average_precision, count, describe_masks, hide_nobody, pool
from judge.masking.people import Hiding
from judge.metrics import METRICS
from judge.statistics.summary import Summary
from judge.statistics.validity import void_rows


def world(folder: Path, boxes: list[list[int] | None], name: str = "i.json") -> Path:
    """Images of 10 x 10; in each a person in a box, or nobody."""
    (folder / "images").mkdir(exist_ok=True)
    for n in range(len(boxes)):
        Image.fromarray(np.full((10, 10, 3), 9, dtype=np.uint8)).save(folder / "images" / f"{n}.png")
    value = {
        "images": [{"id": n, "file_name": f"{n}.png", "width": 10, "height": 10} for n in range(len(boxes))],
        "annotations": [{"id": n, "image_id": n, "category_id": 1, "bbox": box} for n, box in enumerate(boxes) if box],
        "categories": [{"id": 1, "name": "person"}],
    }
    (folder / name).write_text(json.dumps(value), encoding="utf-8")
    return folder / name


def test_shares_recall_and_precision(tmp_path: Path) -> None:
    """20 of 40 pixels of people are found, and 10 of nobody: recall 1/2, precision 2/3; 30 of 400 pixels are hidden."""
    truth = GroundTruth.read(world(tmp_path, [[0, 0, 10, 2], [0, 0, 10, 2], None, None], "truth.json"))
    found = GroundTruth.read(world(tmp_path, [[0, 0, 10, 2], None, [0, 0, 10, 1], None]))
    names = {str(n): f"{n}.png" for n in range(4)}
    images = find_hidden(tmp_path / "images", names, detector=found, hiding=Hiding(), truth=truth)
    assert images.masks == {
        "of": 4, "images": 0.5, "people": 0.5, "pixels": pytest.approx(0.075), "recall": 0.5,
        "precision": pytest.approx(2 / 3),
    }  # fmt: skip
    text = "Masks hide people in 50.0% of 4 images, and 7.5% of the pixels; pixels against ground truth: recall 50.0%"
    assert describe_masks(images.masks) == f"{text}, precision 66.7%."


MASKS = {"of": 100, "images": 1.0, "people": 1.0, "pixels": 0.1, "recall": None, "precision": None}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"people": 0.05}, ""),
        ({"people": 0.04}, "masks hide somebody in 4.0% of 100 images"),
        # If most images show nobody, a good detector hides little.
        ({"people": 0.04, "recall": 0.9, "precision": 0.9}, ""),
        ({"recall": 0.049, "precision": 0.9}, "masks find 4.9% of the pixels of people"),
        ({"people": None, "images": 0.0}, ""),
    ],
)
def test_masks_that_hide_nobody_void_metrics_of_images(changes: dict[str, Any], reason: str) -> None:
    masks = MASKS | changes
    assert hide_nobody(masks) == reason
    run = {"masks": masks, "attribute": "gender", "captioners": {"c": {"images": {"f": 9, "m": 9}}}}
    rows = [Summary("c", METRICS[name], "sat", 0.9, 0.9, 0.1, human_error=0.01) for name in ("lic", "imagecaptioner2")]
    assert [*void_rows(rows, run).values()] == [reason] * bool(reason)


def test_a_run_is_refused_before_judges_are_trained(tmp_path: Path) -> None:
    world(tmp_path, [None] * 30 + [[0, 0, 5, 5]])
    settings = {"human": "-", "images": tmp_path / "images", "instances": tmp_path / "i.json"}
    images = [str(n) for n in range(31)]
    with pytest.raises(JudgeError, match=r"masks hide somebody in 3\.2% of 31 images"):
        RunImages(make_config(settings, RunConfig)).hidden(images)
    allowed = RunImages(make_config(settings | {"allow_unmasked": True}, RunConfig))
    allowed.hidden(images)
    assert allowed.masks["masks"]["people"] == pytest.approx(1 / 31)


def square(top: int, left: int, side: int, *, score: float = 1.0, label: str = "person") -> Instance:
    mask = np.zeros((20, 20), dtype=np.bool_)
    mask[top : top + side, left : left + side] = True
    return from_mask(mask, label, score=score)


def test_overlap_by_hand() -> None:
    """A person of 100 pixels, found as 10 x 8 of it and 2 x 8 beside: 80 found, 20 missed, 16 beside."""
    found = [from_box((0, 0, 12, 8), (20, 20), "person", score=0.9)]
    counts = count([square(0, 0, 10)], found, Hiding(), (20, 20))
    assert astuple(counts) == (100, 96, 80, 20, 96)
    assert pool(np.array(astuple(counts), dtype=float)) == pytest.approx((0.8, 80 / 116, 0.2, 16 / 96))
    # A triangle found exactly: its upper half leaves half visible, its box hides much beside.
    truth = [from_mask(np.tri(20, dtype=np.bool_), "person")]
    for hiding, expected in ((Hiding(mode="partial"), (0.5, 0)), (Hiding(mode="box"), (0, 190 / 400))):
        assert tuple(pool(np.array(astuple(count(truth, truth, hiding, (20, 20))), float))[2:]) == expected


def test_thresholds_labels_and_foreground_select_on_both_sides() -> None:
    small, large, dog = square(15, 15, 3), square(0, 0, 10), square(0, 12, 6, label="dog")
    unsure = square(0, 0, 10, score=0.3)
    assert count([small, large, dog], [unsure], Hiding(), (20, 20)).found == 0
    assert count([small, large, dog], [unsure], Hiding(threshold=0.2), (20, 20)).both == 100
    assert count([small, large, dog], [small], Hiding(foreground="largest"), (20, 20)).truth == 100
    assert count([small, large, dog], [dog], Hiding(labels=("dog",)), (20, 20)).both == 36


@given(arrays(np.bool_, (7, 9)), arrays(np.bool_, (7, 9)))
def test_counts_equal_a_loop(truth: np.ndarray, found: np.ndarray) -> None:
    counts = count([from_mask(truth, "person")], [from_mask(found, "person")], Hiding(), (7, 9))
    pairs = [(bool(t), bool(f)) for t, f in zip(truth.flat, found.flat, strict=True)]
    assert counts.truth == sum(t for t, _ in pairs)
    assert counts.both == sum(t and f for t, f in pairs)
    assert counts.visible == sum(t and not f for t, f in pairs)
    iou = pool(np.array(astuple(counts), dtype=np.float64))[1]
    either = sum(t or f for t, f in pairs)
    assert iou == pytest.approx(counts.both / either) if either else math.isnan(iou)


def test_average_precision_by_hand() -> None:
    """Two people in two images; one is found, a false alarm scores higher: precision 1/2 up to recall 1/2."""
    truth = {"a": [square(0, 0, 10)], "b": [square(0, 0, 10)]}
    assert average_precision(truth, truth, "person") == (1.0, 1.0)
    found = {"a": [square(0, 0, 10, score=0.6)], "b": [square(10, 10, 10, score=0.9)]}
    # 101 recall points, of which 0.00 to 0.50 have precision 1/2.
    assert average_precision(truth, found, "person") == pytest.approx((51 / 101 / 2, 51 / 101 / 2))
    # IoU 0.8: right up to the threshold 0.80, that is at 7 of 10 thresholds.
    looser = {name: [from_box((0, 0, 10, 8), (20, 20), "person")] for name in truth}
    assert average_precision(truth, looser, "person") == pytest.approx((0.7, 1.0))
    nothing: dict[str, list[Instance]] = {"a": []}
    assert all(map(math.isnan, average_precision(nothing, nothing, "person")))
    assert average_precision({"a": [square(0, 0, 5)]}, nothing, "person") == (0.0, 0.0)
