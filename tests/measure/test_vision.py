"""Judges that see, from files to a table: ``judge evaluate --images``, on drawn and on real pictures."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
from helpers import few, inputs_of, judge, pictures_of, results_of, save_captioner
from typer.testing import Result

from judge.calibration.grammar import WorldFiles, make_world, write_world
from judge.calibration.world import FAITHFUL, Parameters

SIZE, IMAGES, FEW = 96, 400, 80
# A random network sees settings well enough, and no test downloads one.
EYES = ["--backbone", "resnet18", "--backbone-weights", "random", "--image-size", SIZE]
QUICK = ["--epochs", "10", "--batch-size", "32", "--learning-rate", "0.0005", "--resamples", "200"]
PAPER = ["--protocol", "paper", "--seeds", "1", "--workers", "1"]


def told_by_the_setting(images: int, out: Path) -> WorldFiles:
    """The setting goes with the attribute, and no caption names it."""
    parameters = Parameters(association=0.0, setting_association=0.95, place=0.0)
    world = make_world(images, seed=5, parameters=parameters)
    # Two captions an image, of five: every one more is another judge to train.
    return few(write_world(world, {"plain": FAITHFUL}, out, pictures=SIZE), 2)


def given(world: WorldFiles, folder: Path) -> list[object]:
    """What every run of a drawn world is given."""
    return [*inputs_of(world, "plain"), *pictures_of(world), "--features", folder / "features", *EYES, *QUICK, *PAPER]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> WorldFiles:
    """A small one, for all that no learning is asked of."""
    return told_by_the_setting(FEW, tmp_path_factory.mktemp("setting") / "world")


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
    arguments, out = given(told_by_the_setting(IMAGES, tmp_path / "world"), tmp_path), tmp_path / "out"
    metrics, judges = "imagecaptioner2,imagecaptioner2-ratio,lic", "sat,sat-caption-only,sat-image-only,vl-lic-lstm"
    done = evaluate(*arguments, "--metrics", metrics, "--judge", judges, "--out", out)
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
    # With captions blanked both sides and all human captions are the same evidence: one judge, and no amplification.
    assert looking["amplification"] == 0
    blind = scores[(scores["judge"] == "sat-image-only") & (scores["metric"] == "imagecaptioner2")]
    by_image = blind.groupby("image_id")["probability"]
    assert set(by_image.size()) == {3}
    assert set(by_image.nunique()) == {1}


def test_masks_decide_what_is_seen_and_features_are_kept(arguments: list[object], tmp_path: Path) -> None:
    def kept(name: str, *more: str) -> dict[Path, int]:
        """Features there are after another run, and when they were written."""
        evaluate(*arguments, "--metrics", "imagecaptioner2", "--epochs", "1", *more, "--out", tmp_path / name)
        return {path: path.stat().st_mtime_ns for path in (tmp_path / "features").rglob("*.npy")}

    first = kept("one")
    assert first
    assert kept("two") == first  # Not written again either.
    assert results_of(tmp_path / "one") == results_of(tmp_path / "two")
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
        (["--images", most], f"no picture of image '1' (2 of {FEW} images have none)"),
        ([], "--images: judges of imagecaptioner2 see pictures"),
    ):
        done = judge("evaluate", *inputs_of(world, "plain"), *pictures, *EYES, *common)
        assert done.exit_code == 2
        assert message in done.stderr
