"""Judges that see, from files to a table: ``judge evaluate --images``, on drawn images."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from helpers import few, inputs_of, judge, pictures_of, results_of
from typer.testing import Result

from judge.calibration.grammar import WorldFiles, make_world, write_world
from judge.calibration.world import FAITHFUL, Parameters

SIZE, IMAGES = 96, 400
# A random network sees settings well enough, and no test downloads one.
EYES = ["--backbone", "resnet18", "--backbone-weights", "random", "--image-size", SIZE]
QUICK = ["--epochs", "2", "--batch-size", "32", "--learning-rate", "0.0005", "--resamples", "200"]
PAPER = ["--protocol", "paper", "--seeds", "1", "--workers", "1", "--refits", "0", "--chance", "0"]


def told_by_the_setting(images: int, out: Path, captions: int) -> WorldFiles:
    """The setting goes with the attribute, and no caption names it. Every caption more is another judge to train."""
    parameters = Parameters(association=0.0, setting_association=0.95, place=0.0)
    world = make_world(images, seed=5, parameters=parameters)
    return few(write_world(world, {"plain": FAITHFUL}, out, pictures=SIZE), captions)


def given(world: WorldFiles, folder: Path) -> list[object]:
    """What every run of a drawn world is given."""
    return [*inputs_of(world, "plain"), *pictures_of(world), "--features", folder / "features", *EYES, *QUICK, *PAPER]


def evaluate(*arguments: object) -> Result:
    done = judge("evaluate", *arguments)
    assert done.exit_code == 0, done.output
    return done


@pytest.mark.slow
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
