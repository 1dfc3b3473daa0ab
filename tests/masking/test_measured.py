"""What masks hide is measured, and decides whether a run goes on and whether metrics of images have a verdict."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from judge.commands.evaluate import RunConfig
from judge.commands.images import RunImages
from judge.config import make_config
from judge.corpus import Corpus
from judge.errors import JudgeError
from judge.masking.detectors.ground_truth import GroundTruth
from judge.masking.folder import Hiding
from judge.masking.hidden import find_hidden
from judge.masking.measured import hide_nobody, tell_masks
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
    pictures = find_hidden(tmp_path / "images", names, detector=found, hiding=Hiding(), truth=truth)
    assert pictures.masks == {
        "of": 4, "images": 0.5, "people": 0.5, "pixels": pytest.approx(0.075), "recall": 0.5,
        "precision": pytest.approx(2 / 3),
    }  # fmt: skip
    told = "Masks hide people in 50.0% of 4 images, and 7.5% of the pixels; pixels against ground truth: recall 50.0%"
    assert tell_masks(pictures.masks) == f"{told}, precision 66.7%."


MASKS = {"of": 100, "images": 1.0, "people": 1.0, "pixels": 0.1, "recall": None, "precision": None}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({}, ""),
        ({"people": 0.05}, ""),
        ({"people": 0.04}, "masks hide somebody in 4.0% of 100 images"),
        # Of images most of which show nobody a good detector hides few.
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
    pictures = RunImages(make_config(settings | {"allow_unmasked": True}, RunConfig))
    pictures.hidden(images)
    assert pictures.masks["masks"]["people"] == pytest.approx(1 / 31)
    assert RunImages(make_config(settings | {"mask": "none"}, RunConfig)).hidden(images).masks is None


def test_several_files_of_human_captions(tmp_path: Path) -> None:
    rows = [{"image_id": n, "caption": f"a man number {n}"} for n in range(4)]
    paths = [tmp_path / "a.json", tmp_path / "b.json", tmp_path / "c.json"]
    for path, part in zip(paths, (rows[:2], rows[2:], [rows[1] | {"caption": "another"}]), strict=True):
        path.write_text(json.dumps(part), encoding="utf-8")
    (tmp_path / "mine.json").write_text(json.dumps([one | {"caption": "a dog"} for one in rows]), encoding="utf-8")
    config = make_config({"human": paths[:2], "captions": [tmp_path / "mine.json"]}, RunConfig)
    assert {*paths[:2]} <= {*config.inputs()}
    assert make_config({"human": str(paths[0])}, RunConfig).human == paths[0]
    corpus = Corpus.read(human=paths[:2], captions=tmp_path / "mine.json")
    assert [*corpus.human.by_image] == ["0", "1", "2", "3"]
    with pytest.raises(JudgeError, match="image '1' has other captions than in another file of --human"):
        Corpus.read(human=[paths[0], paths[2]], captions=tmp_path / "mine.json")
