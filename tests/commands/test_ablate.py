"""``judge ablate detectors``, from files to a table."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from detector_samples import tiny_onnx, tiny_yolo
from helpers import done_well, judge, refusal
from pycocotools.coco import COCO

from judge.calibration.grammar import make_world, write_world
from judge.masking.images import read_image


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A few drawn scenes."""
    return write_world(make_world(16, seed=2), {}, tmp_path_factory.mktemp("drawn") / "world", pictures=96).folder


def table(out: Path) -> dict[str, dict[str, float]]:
    rows = json.loads((out / "detectors.json").read_text(encoding="utf-8"))["results"]
    return {row["detector"]: row for row in rows}


def real(shared: Path, split: str, out: Path, *more: object) -> tuple[COCO, dict[str, float]]:
    """Real images' annotations, and how ground truth compares with itself on them."""
    coco = shared / "coco-mini"
    instances = coco / "annotations" / f"instances_{split}.json"
    arguments = ["--images", coco / split, "--instances", instances, "--detectors", "gt", "--out", out]
    done_well("ablate", "detectors", *arguments, "--resamples", "100", *more)
    return COCO(instances), table(out)["gt"]


@pytest.mark.parametrize("split", ["val2017", "train2017"])
def test_ground_truth_against_itself_on_real_pictures(shared: Path, tmp_path: Path, split: str) -> None:
    truth, row = real(shared, split, tmp_path / "out")
    assert (row["recall"], row["iou"], row["visible"], row["beside"]) == (1, 1, 0, 0)
    people = [a for a in truth.anns.values() if a["category_id"] == 1]
    assert row["people"] == row["people_found"] == len(people)
    assert read_image(tmp_path / "out", "contact_sheet.png").pixels.size


def test_boxes_of_real_people_hide_what_is_beside(shared: Path, tmp_path: Path) -> None:
    """Mode box: the share beside equals that of pycocotools' boxes and masks."""
    truth, row = real(shared, "val2017", tmp_path / "out", "--mask", "box")
    hidden = people = 0
    for image in truth.imgs.values():
        mask = np.zeros((image["height"], image["width"]), dtype=bool)
        boxes = mask.copy()
        for annotation in truth.imgToAnns[image["id"]]:
            if annotation["category_id"] == 1:
                mask |= truth.annToMask(annotation).astype(bool)
                x, y, w, h = annotation["bbox"]
                boxes[int(np.floor(y)) : int(np.ceil(y + h)), int(np.floor(x)) : int(np.ceil(x + w))] = True
        hidden += (boxes | mask).sum()
        people += mask.sum()
    assert row["beside"] == pytest.approx((hidden - people) / hidden)


def test_a_bad_picture_is_listed_and_the_others_are_compared(drawn: Path, tmp_path: Path) -> None:
    images = tmp_path / "images"
    shutil.copytree(drawn / "images", images)
    (images / "000000000003.png").write_bytes(b"no image")
    out = tmp_path / "out"
    arguments = ["--images", images, "--instances", drawn / "instances.json", "--detectors", "gt", "--out", out]
    done = judge("ablate", "detectors", *arguments, "--resamples", "100")
    assert done.exit_code == 1
    assert "000000000003.png" in done.stderr
    assert table(out)["gt"]["images"] == 15


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--detectors", "gt,yolo"], "needs weights"),
        (["--detectors", "gtt"], "Did you mean 'gt'?"),
        (["--detectors", "yolo", "--weights", "yolo=nowhere.onnx"], "no such file"),
        (["--threshold", "0.01", "--detectors", "gt"], "'threshold'"),
        (["--foreground", "2", "--detectors", "gt"], "'foreground'"),
    ],
)
def test_faults_are_one_line(drawn: Path, tmp_path: Path, arguments: list[str], told: str) -> None:
    where = ["--images", drawn / "images", "--instances", drawn / "instances.json", "--out", tmp_path / "out"]
    assert told in refusal("ablate", "detectors", *where, *arguments)
    assert not list(tmp_path.iterdir())


def test_from_weights_to_a_table(drawn: Path, tmp_path: Path) -> None:
    world = ["--images", drawn / "images", "--instances", drawn / "instances.json"]
    weights = ["--weights", f"yolo={tiny_onnx(tiny_yolo(tmp_path))}"]
    out, cache = tmp_path / "out", tmp_path / "cache"
    arguments = [*world, *weights, "--detectors", "gt,yolo", "--cache", cache, "--resamples", "100"]
    arguments += ["--threshold", "0.05"]
    done = done_well("ablate", "detectors", *arguments, "--out", out)
    rows = table(out)
    assert list(rows) == ["gt", "yolo"]
    assert rows["gt"]["recall"] == 1
    assert 0 < rows["yolo"]["recall"] <= 1
    assert rows["yolo"]["visible"] == pytest.approx(1 - rows["yolo"]["recall"])
    assert f"{rows['yolo']['recall']:.3f}" in done.stdout
    # Detections are cached: the same table again, without the network.
    assert len(list(cache.rglob("*.json"))) == 16
    done_well("ablate", "detectors", *arguments, "--out", tmp_path / "again")
    assert table(tmp_path / "again") == rows
    masked = tmp_path / "masked"
    found = ["--detector", "yolo", *weights, "--cache", cache, "--allow-unmasked"]
    done_well("mask", *world[:2], *found, "--out", masked)
    assert len(list(masked.glob("0*.png"))) == 16
