"""``judge calibrate``, end to end: on a world whose doses have a closed form, and on real captions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from helpers import done_well, inputs_of, read_json, refusal

from judge.calibration.grammar import WorldFiles, make_world, write_world

QUICK = (
    *("--metrics", "lic,dba-o,error", "--changes", "A->T,T->A,silence", "--doses", "0.4,0.8"),
    *("--draws", 2, "--nulls", 3, "--sample", 300, "--resamples", 100, "--judge", "linear", "--folds", 2),
)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> WorldFiles:
    folder = tmp_path_factory.mktemp("calibrate")
    return write_world(make_world(900, seed=6), {}, folder / "world")


def results(out: Path) -> dict[str, dict[str, Any]]:
    found = read_json(out / "calibration.json")["results"]
    return {row["metric"]: row for row in found}


@pytest.mark.slow
def test_files_and_what_they_say(files: WorldFiles, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = done_well("calibrate", *inputs_of(files), *QUICK, "--workers", 1, "--out", out)
    assert "Error finds T->A doses from 0.4 on." in done.stdout
    *lines, last = done.stdout.splitlines()
    assert last == f"Everything is in {out}"
    assert [line for line in lines if len(line.rstrip()) > 100] == []
    names = ".caption-judge calibrate.yaml calibration.json calibration.png calibration.svg log.jsonl trials.parquet"
    assert sorted(path.name for path in out.iterdir()) == names.split()
    found = results(out)
    assert list(found) == ["lic", "dba-o", "error"]
    assert [row["nulls"]["draws"] for row in found.values()] == [3] * 3
    assert found["error"]["changes"]["T->A"]["found_from"] == 0.4
    # What hides no word of the other direction is not moved by it, to the last digit.
    lic = found["lic"]["changes"]
    assert {point["mean"] for point in lic["T->A"]["points"]} == {lic["A->T"]["points"][0]["mean"]}
    rows = pd.read_parquet(out / "trials.parquet")
    assert rows.groupby("metric").size().tolist() == [3 + 2 * 2 * 3] * 3


@pytest.mark.parametrize(("arguments", "message"), [
    (["--tasks", "TASKS.yaml"], "no task that captions name 10 times goes with"),
    (
        ["--lexicon", "none"],
        "attribute 'gender': T->A exchanges words for people, and none is known for another's.",
    ),
    (["--lexicon", "LEXICON.yaml"], "Give a lexicon with 'counterparts', or leave T->A out."),
    (["--lexicon", "gender-ja"], "--lexicon: doses change words between spaces. Give captions with spaces."),
    (["--metrics", "sc"], "--metrics: SC has one side, so no amplification. Calibrate the others: --metrics lic."),
    (
        ["--metrics", "lic,vl-lic,imagecaptioner2"],
        "--metrics: VL-LIC uses images, and doses change captions and leave images alone. Measure judges of images",
    ),
    (
        ["--metrics", "conditional"],
        "--metrics: Conditional leakage needs three human captions of an image, and a trial has one on each side. Use",
    ),
])  # fmt: skip
def test_what_cannot_be_calibrated(files: WorldFiles, tmp_path: Path, arguments: list[str], message: str) -> None:
    words = {"TASKS.yaml": "{flying: [flies]}", "LEXICON.yaml": "{female: [woman], male: [man]}"}
    for name, classes in words.items():
        (tmp_path / name).write_text(f"name: gender\nclasses: {classes}\n", encoding="utf-8")
    given = [tmp_path / argument if argument in words else argument for argument in arguments]
    assert message in refusal("calibrate", *inputs_of(files), "--metrics", "lic", *given, "--out", tmp_path / "out")
    assert "'human' is missing. Give --human" in refusal("calibrate", "--out", tmp_path / "out")
    assert {path.name for path in tmp_path.iterdir()} == {*words}


@pytest.mark.slow
def test_neither_side_is_favoured(files: WorldFiles, tmp_path: Path) -> None:
    """Tasks are of all captions: by those of one side alone, DBAC T->A of nothing is far from 0."""
    given = ["--metrics", "dbac-ta", "--changes", "brevity", "--doses", "0.5", "--draws", 2, "--nulls", 8]
    given += ["--sample", 300, "--folds", 2, "--judge", "linear"]
    done_well("calibrate", *inputs_of(files), *given, "--out", tmp_path / "out")
    nulls = results(tmp_path / "out")["dbac-ta"]["nulls"]
    assert abs(nulls["mean"]) < 3 * nulls["sd"] / 8**0.5
