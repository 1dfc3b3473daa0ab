"""``judge evaluate`` with GRIT and with VL-LIC's BERT, from files to a table, on a tiny drawn world."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import few, inputs_of, judge, pictures_of, results_of
from tiny_bert import save_bert

from judge.calibration.grammar import WorldFiles, make_world, write_world
from judge.calibration.world import FAITHFUL
from judge.commands.pictures import RunPictures
from judge.config import RunConfig, make_config
from judge.errors import JudgeError
from judge.masking.regions import MOST

SIZE = 64
BLIND = ["--backbone-weights", "random", "--image-size", SIZE]
QUICK = ["--protocol", "paper", "--seeds", "1", "--epochs", "1", "--resamples", "200", "--workers", "1"]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> WorldFiles:
    """Sixty scenes, and of the human captions one each."""
    folder = tmp_path_factory.mktemp("drawn") / "world"
    return few(write_world(make_world(60, seed=5), {"plain": FAITHFUL}, folder, pictures=SIZE))


def arguments(world: WorldFiles) -> list[object]:
    return ["evaluate", *inputs_of(world, "plain"), *pictures_of(world), *QUICK, *BLIND]


def regions(folder: Path) -> np.ndarray:
    """[N, 4], in pixels: the boxes of all regions in a folder of features."""
    kept = np.concatenate([np.load(path) for path in folder.rglob("*.npy")])[:, -MOST:]
    assert set(np.unique(kept[..., -1])) == {0, 1}
    return kept[kept[..., -1] == 1][:, -5:-1].astype(float) * SIZE


def annotated(world: WorldFiles, *, people: bool) -> np.ndarray:
    """[N, 4]: corners of the annotated things, without or with people."""
    file = json.loads((world.folder / "instances.json").read_text(encoding="utf-8"))
    boxes = [one["bbox"] for one in file["annotations"] if people or one["category_id"] != person_of(file)]
    return np.array([(x, y, x + width, y + height) for x, y, width, height in boxes])


def person_of(file: dict[str, Any]) -> int:
    return next(category["id"] for category in file["categories"] if category["name"] == "person")


def test_grit_sees_things_of_all_categories_but_those_hidden(world: WorldFiles, tmp_path: Path) -> None:
    given = [*arguments(world), "--metrics", "imagecaptioner2"]
    swin, three = "swin_tiny_patch4_window7_224", ("grit", "grit-caption-only", "grit-image-only")
    for mask, eyes, judges in (("segment", swin, three), ("none", "resnet18", ("grit",))):
        out = tmp_path / f"out-{mask}"
        told = ["--mask", mask, "--backbone", eyes, "--judge", ",".join(judges), "--features", tmp_path / mask]
        done = judge(*given, *told, "--out", out)
        assert done.exit_code == 0, done.output
        assert set(results_of(out)) == {("imagecaptioner2", name) for name in judges}
        assert all(0 < row["human"] < 1 for row in results_of(out).values())
        assert "ImageCaptioner2 (grit)" in done.stdout
    found = results_of(tmp_path / "out-segment")
    # With captions blanked both sides are the same evidence.
    assert found["imagecaptioner2", "grit-image-only"]["amplification"] == 0
    assert found["imagecaptioner2", "grit"]["amplification"] != 0
    left, everything = (regions(tmp_path / mask) for mask in ("segment", "none"))
    things, people = (annotated(world, people=people) for people in (False, True))
    assert len(everything) == len(people) > len(things) >= len(left) > len(things) / 2
    for found_boxes, true in ((left, things), (everything, people)):
        for corners in found_boxes:
            # What is left of a thing lies within it; half precision moves a border by some hundredths of a pixel.
            inside = (true[:, :2] <= corners[:2] + 0.1) & (true[:, 2:] >= corners[2:] - 0.1)
            assert inside.all(axis=1).any()


def test_other_categories_are_read_for_judges_that_ask_alone(world: WorldFiles, tmp_path: Path) -> None:
    """A thing that is no person and has a broken outline is in nobody's way but GRIT's."""
    file = json.loads((world.folder / "instances.json").read_text(encoding="utf-8"))
    thing = next(one for one in file["annotations"] if one["category_id"] != person_of(file))
    thing |= {"segmentation": [[1, 2, 3]], "bbox": [0, 0, 1, 1]}
    (tmp_path / "instances.json").write_text(json.dumps(file), encoding="utf-8")
    told = {"human": world.human, "captions": [world.captions["plain"]], "images": world.folder / "images"}
    ids = [str(image["id"]) for image in file["images"]]
    for name in ("sat", "hf:x/y", "self", "grit-image-only"):
        settings = told | {"instances": tmp_path / "instances.json", "judge": ["linear", name]}
        config = make_config(settings, RunConfig)
        if name.startswith("grit"):
            with pytest.raises(JudgeError, match=f"annotation {thing['id']}: polygon of an odd number"):
                RunPictures(config).hidden(ids)
        else:
            assert RunPictures(config).hidden(ids).regions == {}


def test_vl_lic_reads_with_the_encoder_in_a_folder(world: WorldFiles, tmp_path: Path) -> None:
    out, bert = tmp_path / "out", save_bert(tmp_path / "bert")
    given = [*arguments(world), "--backbone", "resnet18", "--metrics", "vl-lic", "--features", tmp_path / "eyes"]
    done = judge(*given, "--reader", bert, "--judge", "vl-lic,vl-lic-image-only", "--out", out)
    assert done.exit_code == 0, done.output
    found = results_of(out)
    assert set(found) == {("vl-lic", "vl-lic"), ("vl-lic", "vl-lic-image-only")}
    assert 0 < found["vl-lic", "vl-lic"]["human"] < 1
    assert f"reader: {bert}" in (out / "run.yaml").read_text(encoding="utf-8")
    # The metric's own judge, and another encoder: refused before a picture is looked at.
    done = judge(*given, "--reader", tmp_path / "none", "--out", tmp_path / "other")
    assert done.exit_code == 2
    assert done.stderr == f"judge: --reader {tmp_path / 'none'}: no such folder. Check the path.\n"
    assert not (tmp_path / "other").exists()
