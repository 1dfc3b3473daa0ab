"""Judges that see, from files to a table: ``judge evaluate --images``, on drawn and on real pictures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from helpers import few, inputs_of, judge, pictures_of, results_of, save_captioner
from tiny_bert import save_bert
from typer.testing import Result

from judge.calibration.grammar import WorldFiles, make_world, write_world
from judge.calibration.world import FAITHFUL, Parameters
from judge.commands.evaluate import RunConfig
from judge.commands.run_images import RunImages
from judge.config import make_config
from judge.errors import JudgeError
from judge.masking.instances import MAX_BOXES

SIZE, TINY, IMAGES, FEW = 96, 64, 400, 80
# A random network sees settings well enough, and no test downloads one.
EYES = ["--backbone", "resnet18", "--backbone-weights", "random", "--image-size", SIZE]
QUICK = ["--epochs", "2", "--batch-size", "32", "--learning-rate", "0.0005", "--resamples", "200"]
BRIEF = ["--epochs", "1", "--image-size", TINY]
PAPER = ["--protocol", "paper", "--seeds", "1", "--workers", "1", "--refits", "0", "--chance", "0"]


def told_by_the_setting(images: int, out: Path, captions: int) -> WorldFiles:
    """The setting goes with the attribute, and no caption names it. Every caption more is another judge to train."""
    parameters = Parameters(association=0.0, setting_association=0.95, place=0.0)
    world = make_world(images, seed=5, parameters=parameters)
    return few(write_world(world, {"plain": FAITHFUL}, out, pictures=SIZE), captions)


def given(world: WorldFiles, folder: Path) -> list[object]:
    """What every run of a drawn world is given."""
    return [*inputs_of(world, "plain"), *pictures_of(world), "--features", folder / "features", *EYES, *QUICK, *PAPER]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> WorldFiles:
    """A small one, for all that no learning is asked of."""
    return told_by_the_setting(FEW, tmp_path_factory.mktemp("setting") / "world", 2)


@pytest.fixture
def arguments(world: WorldFiles, tmp_path: Path) -> list[object]:
    """What runs of the small world are given."""
    return given(world, tmp_path)


def evaluate(*arguments: object) -> Result:
    done = judge("evaluate", *arguments)
    assert done.exit_code == 0, done.output
    return done


def test_images_carry_what_captions_do_not(tmp_path: Path) -> None:
    """Issue: sat's score on the human side exceeds the text-only judge's by 0.15, image-blanked sat's does not."""
    arguments, out = given(told_by_the_setting(IMAGES, tmp_path / "world", 1), tmp_path), tmp_path / "out"
    metrics, judges = "imagecaptioner2,imagecaptioner2-ratio,lic", "sat,sat-caption-only,sat-image-only,vl-lic-lstm"
    done = evaluate(*arguments, "--metrics", metrics, "--judge", judges, "--epochs", 10, "--out", out)
    found = results_of(out)
    names = ("sat", "sat-caption-only", "sat-image-only")
    seeing, reading, looking = (found["imagecaptioner2", name] for name in names)
    assert seeing["human"] > reading["human"] + 0.15
    assert looking["human"] > 0.7
    assert reading["human"] == pytest.approx(0.5, abs=0.1)
    ratio = seeing["generated"] / seeing["human"]
    assert found["imagecaptioner2-ratio", "sat"]["amplification"] == pytest.approx(ratio)
    assert found["imagecaptioner2", "vl-lic-lstm"]["human"] > 0.6
    # Text metrics are measured by a judge of text, whatever sees.
    assert found["lic", "linear"]["human"] == pytest.approx(0.25, abs=0.12)
    assert ("lic", "sat") not in found
    assert "ImageCaptioner2 (sat)" in done.stdout
    scores = pd.read_parquet(out / "scores.parquet")
    # 70/10/20 of balanced classes.
    assert scores[scores["judge"] == "sat"]["image_id"].nunique() == pytest.approx(0.2 * IMAGES, rel=0.1)
    # With captions blanked both sides are the same evidence.
    assert looking["amplification"] == 0


def test_masks_decide_what_is_seen_and_features_are_kept(arguments: list[object], tmp_path: Path) -> None:
    def kept(name: str, *more: str) -> dict[Path, int]:
        """Features there are after another run, and when they were written."""
        evaluate(*arguments, "--metrics", "imagecaptioner2", "--epochs", "1", *more, "--out", tmp_path / name)
        return {path: path.stat().st_mtime_ns for path in (tmp_path / "features").rglob("*.npy")}

    first = kept("one", "--judge", "sat,sat-image-only")
    assert first
    assert kept("two", "--judge", "sat,sat-image-only") == first  # Not written again either.
    assert results_of(tmp_path / "one") == results_of(tmp_path / "two")
    # With captions blanked both sides and both human captions are the same evidence: one judge, and no amplification.
    assert results_of(tmp_path / "one")["imagecaptioner2", "sat-image-only"]["amplification"] == 0
    scores = pd.read_parquet(tmp_path / "one" / "scores.parquet")
    by_image = scores[scores["judge"] == "sat-image-only"].groupby("image_id")["probability"]
    assert set(by_image.size()) == {3}
    assert set(by_image.nunique()) == {1}
    kept("box", "--mask", "box")
    every = kept("none", "--mask", "none")
    assert first.items() <= every.items()
    assert len(every) == 3 * len(first)


def test_real_pictures(shared: Path, tmp_path: Path) -> None:
    """Captions, masks, training, scores, a table, on 159 real images; people's second captions play the captioner."""
    coco = shared / "coco-mini"
    people = {"images": [], "annotations": [], "categories": [{"id": 1, "name": "person"}]}
    human, results, labels = {"images": [], "annotations": []}, [], ["image_id,gender"]
    folder = tmp_path / "images"
    folder.mkdir()
    for split in ("val2017", "train2017"):
        instances = json.loads((coco / "annotations" / f"instances_{split}.json").read_text())
        people["images"] += instances["images"]
        people["annotations"] += [a for a in instances["annotations"] if a["category_id"] == 1]
        for path in (coco / split).iterdir():
            (folder / path.name).write_bytes(path.read_bytes())
        captions = json.loads((coco / "annotations" / f"captions_{split}.json").read_text())
        human["images"] += captions["images"]
        by_image: dict[int, list[str]] = {}
        for annotation in captions["annotations"]:
            by_image.setdefault(annotation["image_id"], []).append(annotation["caption"])
        for n, (image, told) in enumerate(sorted(by_image.items())):
            human["annotations"].append({"id": image, "image_id": image, "caption": told[0]})
            results.append({"image_id": image, "caption": told[1]})
            labels.append(f"{image},{'female' if n % 2 else 'male'}")
    for name, content in (("instances", people), ("human", human), ("mine", results)):
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
    (tmp_path / "labels.csv").write_text("\n".join(labels))
    out, seen = tmp_path / "out", ["--images", folder, "--instances", tmp_path / "instances.json"]
    wrote = judge("caption", "--model", save_captioner(tmp_path / "git"), *seen, "--out", tmp_path / "git.json")
    assert wrote.exit_code == 0, wrote.output
    assert len(json.loads((tmp_path / "git.json").read_text())) == 159
    done = evaluate(
        "--human", tmp_path / "human.json", "--captions", tmp_path / "mine.json", "--captions", tmp_path / "git.json",
        "--labels", tmp_path / "labels.csv", *seen, "--mask", "segment", "--dilation", "2", *EYES, "--epochs", "2",
        "--metrics", "imagecaptioner2,vl-lic", "--judge", "sat,vl-lic-lstm", *PAPER, "--resamples", "200",
        "--features", tmp_path / "features", "--out", out,
    )  # fmt: skip
    found = results_of(out)
    assert set(found) == {(name, seer) for name in ("imagecaptioner2", "vl-lic") for seer in ("sat", "vl-lic-lstm")}
    assert 0 < found["imagecaptioner2", "sat"]["human"] < 1
    assert "mine" in done.stdout
    table = json.loads((out / "metrics.json").read_text(encoding="utf-8"))["results"]
    assert {row["captioner"] for row in table} == {"mine", "git"}


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        (["--template", "Therefore, the gender is"], "--template: 'Therefore, the gender is' has 0 times [Answer]"),
        (["--answer", "femal=woman"], "no class 'femal'. Did you mean 'female'?"),
        (["--backbone", "resnet1818"], "--backbone: timm has no network 'resnet1818'"),
        (["--backbone-weights", "nowhere.safetensors"], "nowhere.safetensors: cannot be read"),
        (["--judge", "sat-blind"], "unknown judge 'sat-blind'"),
        (["--judge", "linear-image-only"], "judge 'linear' takes in the caption alone"),
        (["--detector", "yolo"], "--weights: detector 'yolo' needs weights"),
        (["--images", "nowhere"], "--images nowhere: is no folder"),
    ],
)
def test_faults(arguments: list[object], tmp_path: Path, extra: list[object], message: str) -> None:
    out = tmp_path / "out"
    done = judge("evaluate", *arguments, "--metrics", "imagecaptioner2", "--out", out, *extra)
    assert done.exit_code == 2, done.output
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert not out.exists()
    assert [path.name for path in tmp_path.iterdir() if path.name != "features"] == []


def test_without_pictures_nothing_is_seen(world: WorldFiles, tmp_path: Path) -> None:
    most = tmp_path / "most"
    most.mkdir()
    for path in sorted((world.folder / "images").iterdir())[2:]:
        (most / path.name).write_bytes(path.read_bytes())
    common = ["--mask", "none", "--metrics", "imagecaptioner2", "--out", tmp_path / "out"]
    for pictures, message in (
        (["--images", most], f"no file of image '1' (2 of {FEW} images have none)"),
        ([], "--images: judges of imagecaptioner2 see pictures"),
    ):
        done = judge("evaluate", *inputs_of(world, "plain"), *pictures, *EYES, *common)
        assert done.exit_code == 2
        assert message in done.stderr


# GRIT, and VL-LIC's BERT


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> WorldFiles:
    """Sixty scenes, and of the human captions one each."""
    folder = tmp_path_factory.mktemp("drawn") / "world"
    return few(write_world(make_world(60, seed=5), {"plain": FAITHFUL}, folder, pictures=TINY))


def regions(folder: Path) -> np.ndarray:
    """[N, 4], in pixels: the boxes of all regions in a folder of features."""
    kept = np.concatenate([np.load(path) for path in folder.rglob("*.npy")])[:, -MAX_BOXES:]
    assert set(np.unique(kept[..., -1])) == {0, 1}
    return kept[kept[..., -1] == 1][:, -5:-1].astype(float) * TINY


def annotated(tiny: WorldFiles, *, people: bool) -> np.ndarray:
    """[N, 4]: corners of the annotated things, without or with people."""
    file = json.loads((tiny.folder / "instances.json").read_text(encoding="utf-8"))
    boxes = [one["bbox"] for one in file["annotations"] if people or one["category_id"] != person_of(file)]
    return np.array([(x, y, x + width, y + height) for x, y, width, height in boxes])


def person_of(file: dict[str, Any]) -> int:
    return next(category["id"] for category in file["categories"] if category["name"] == "person")


def test_grit_sees_things_of_all_categories_but_those_hidden(tiny: WorldFiles, tmp_path: Path) -> None:
    asked = [*given(tiny, tmp_path), *BRIEF, "--metrics", "imagecaptioner2"]
    swin, three = "swin_tiny_patch4_window7_224", ("grit", "grit-caption-only", "grit-image-only")
    for mask, eyes, judges in (("segment", swin, three), ("none", "resnet18", ("grit",))):
        out = tmp_path / f"out-{mask}"
        told = ["--mask", mask, "--backbone", eyes, "--judge", ",".join(judges), "--features", tmp_path / mask]
        done = evaluate(*asked, *told, "--out", out)
        assert set(results_of(out)) == {("imagecaptioner2", name) for name in judges}
        assert all(0 < row["human"] < 1 for row in results_of(out).values())
        assert "ImageCaptioner2 (grit)" in done.stdout
    found = results_of(tmp_path / "out-segment")
    # With captions blanked both sides are the same evidence.
    assert found["imagecaptioner2", "grit-image-only"]["amplification"] == 0
    assert found["imagecaptioner2", "grit"]["amplification"] != 0
    left, everything = (regions(tmp_path / mask) for mask in ("segment", "none"))
    things, people = (annotated(tiny, people=people) for people in (False, True))
    assert len(everything) == len(people) > len(things) >= len(left) > len(things) / 2
    for found_boxes, true in ((left, things), (everything, people)):
        for corners in found_boxes:
            # What is left of a thing lies within it; half precision moves a border by some hundredths of a pixel.
            inside = (true[:, :2] <= corners[:2] + 0.1) & (true[:, 2:] >= corners[2:] - 0.1)
            assert inside.all(axis=1).any()


def test_other_categories_are_read_for_judges_that_ask_alone(tiny: WorldFiles, tmp_path: Path) -> None:
    """A thing that is no person and has a broken outline is in nobody's way but GRIT's."""
    file = json.loads((tiny.folder / "instances.json").read_text(encoding="utf-8"))
    thing = next(one for one in file["annotations"] if one["category_id"] != person_of(file))
    thing |= {"segmentation": [[1, 2, 3]], "bbox": [0, 0, 9, 9]}
    (tmp_path / "instances.json").write_text(json.dumps(file), encoding="utf-8")
    told = {"human": tiny.human, "captions": [tiny.captions["plain"]], "images": tiny.folder / "images"}
    ids = [str(image["id"]) for image in file["images"]]
    for name in ("sat", "hf:x/y", "self", "grit-image-only"):
        settings = told | {"instances": tmp_path / "instances.json", "judge": ["linear", name]}
        config = make_config(settings, RunConfig)
        if name.startswith("grit"):
            with pytest.raises(JudgeError, match=f"annotation {thing['id']}: polygon of an odd number"):
                RunImages(config, config.judge).hidden(ids)
        else:
            assert RunImages(config, config.judge).hidden(ids).regions == {}


def test_vl_lic_reads_with_the_encoder_in_a_folder(tiny: WorldFiles, tmp_path: Path) -> None:
    out, bert = tmp_path / "out", save_bert(tmp_path / "bert")
    asked = [*given(tiny, tmp_path), *BRIEF, "--metrics", "vl-lic"]
    evaluate(*asked, "--reader", bert, "--judge", "vl-lic,vl-lic-image-only", "--out", out)
    found = results_of(out)
    assert set(found) == {("vl-lic", "vl-lic"), ("vl-lic", "vl-lic-image-only")}
    assert 0 < found["vl-lic", "vl-lic"]["human"] < 1
    assert f"reader: {bert}" in (out / "run.yaml").read_text(encoding="utf-8")
    # The metric's own judge, and another encoder: refused before a picture is looked at.
    done = judge("evaluate", *asked, "--reader", tmp_path / "none", "--out", tmp_path / "other")
    assert done.exit_code == 2
    assert done.stderr == f"judge: --reader {tmp_path / 'none'}: no such folder. Check the path.\n"
    assert not (tmp_path / "other").exists()
