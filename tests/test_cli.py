"""The command as a user meets it: results, resumption, and one line with exit code 2 for each fault."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml
from helpers import judge

from judge.calibration.grammar import WorldFiles, make_world, write_world
from judge.calibration.world import CAPTIONERS, Captioner
from judge.cli import app
from judge.config import (
    AblateDetectorsConfig,
    AblateMasksConfig,
    CaptionConfig,
    MaskConfig,
    RunConfig,
    Settings,
    TrainConfig,
    TrainDetectorConfig,
)
from judge.statistics.summary import Settings as SummarySettings
from judge.statistics.summary import summarise

FAST = ["--resamples", "100", "--workers", "1", "--folds", "3", "--refits", "3", "--chance", "2"]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> WorldFiles:
    world = make_world(120, seed=2)
    return write_world(
        world, {"none": Captioner(), "much": Captioner(stereotype=0.9)}, tmp_path_factory.mktemp("files") / "world"
    )


def inputs(files: WorldFiles) -> list[object]:
    return ["--human", files.human, "--captions", files.captions["much"], "--labels", files.labels]


def test_evaluate_writes_the_run(files: WorldFiles, tmp_path: Path) -> None:
    out = tmp_path / "run"
    done = judge("evaluate", *inputs(files), "--captions", files.captions["none"], *FAST, "--out", out)
    assert done.exit_code == 0, done.output
    left = ["log.jsonl", "metrics.json", "replicates.parquet", "run.yaml", "scores.parquet"]
    assert sorted(path.name for path in out.iterdir()) == left
    assert not out.with_name("run.partial").exists()
    assert done.stdout.rstrip().endswith(f"The results are in {out}")
    assert "LIC (linear)" in done.stdout
    assert "Chance: scores of both sides where labels are shuffled among images." in done.stdout
    assert "Intervals and p: of the procedure on another sample of images like these" in done.stdout
    assert "p (Holm): corrected for the 4 tests of this table" in done.stdout
    found = json.loads((out / "metrics.json").read_text(encoding="utf-8"))
    assert [(row["captioner"], row["metric"]) for row in found["results"]] == [
        (name, metric) for name in ("much", "none") for metric in ("lic", "leakage")
    ]
    first = found["results"][0]
    columns = (
        "captioner metric judge attribute direction human generated amplification sd ci p_value images seeds basis"
    )
    assert list(first)[:14] == columns.split()
    assert first["amplification"] == pytest.approx(first["generated"] - first["human"])
    assert first["ci"][0] < first["amplification"] < first["ci"][1]
    assert (first["sd"], first["direction"], first["images"], first["seeds"]) == (None, None, 120, 1)
    assert (first["basis"], first["degrees"]) == ("refits", 3)
    assert [row["metric"] for row in found["differences"]] == ["lic", "leakage"]
    assert found["differences"][0]["value"] == pytest.approx(
        found["results"][0]["amplification"] - found["results"][2]["amplification"]
    )
    columns = "image_id captioner side index metric judge seed fold named tasks answer probability predicted loss"
    scores = pd.read_parquet(out / "scores.parquet")
    assert list(scores.columns) == [*columns.split(), "validation_loss"]
    # Everything in the table comes from the two files again.
    replicates = pd.read_parquet(out / "replicates.parquet")
    assert replicates.groupby(["captioner", "metric", "kind"])["number"].count().tolist() == [3, 6, 2] * 4
    settings = SummarySettings(resamples=100, ratios={"lic": 1 / 2, "leakage": 1 / 2})
    for row, again in zip(found["results"], summarise(scores, replicates, settings), strict=True):
        assert (row["captioner"], row["metric"], row["p_value"]) == (again.captioner, again.metric, again.p_value)
        assert again.interval is not None
        assert row["ci"] == [again.interval.low, again.interval.high]
        assert row["chance"] == list(again.chance or ())
    log = [json.loads(line)["event"] for line in (out / "log.jsonl").read_text(encoding="utf-8").splitlines()]
    assert log == ["started", "finished"]


def test_captions_in_any_script(files: WorldFiles, tmp_path: Path) -> None:
    texts = ("一个人在跑 🏃‍♀️", "व्यक्ति दौड़ रहा है", "شخص يجري", "😀")
    path = tmp_path / "scripts.json"
    records = [{"image_id": i, "caption": texts[i % 4]} for i in range(1, 121)]
    path.write_text(json.dumps(records, ensure_ascii=False), encoding="utf-8")
    done = judge(
        "evaluate", "--human", files.human, "--captions", path, "--labels", files.labels, *FAST, "--out", tmp_path / "r"
    )
    assert done.exit_code == 0, done.output


def test_a_killed_run_goes_on_with_the_same_numbers(files: WorldFiles, tmp_path: Path) -> None:
    """SIGKILL in the middle of training LSTM judges; the same command then ends as if nothing had happened."""
    arguments = [*inputs(files), "--judge", "lstm", "--protocol", "paper", "--seeds", "2", "--epochs", "3"]
    arguments += ["--workers", "1", "--resamples", "100", "--learning-rate", "0.002", "--metrics", "lic"]
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    assert judge("evaluate", *arguments, "--out", whole).exit_code == 0
    command = [sys.executable, "-m", "judge", "evaluate", *map(str, arguments), "--out", str(killed)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    store = killed.with_name("killed.partial") / "members"
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and len(list(store.glob("[0-9a-f]*.safetensors"))) < 4:
        time.sleep(0.02)
    process.kill()
    process.wait()
    assert not killed.exists()
    finished = [path for path in store.glob("*.safetensors") if "training" not in path.name]
    assert 1 <= len(finished) < 12
    assert judge("evaluate", *arguments, "--out", killed).exit_code == 0
    assert (whole / "scores.parquet").read_bytes() == (killed / "scores.parquet").read_bytes()
    assert (whole / "metrics.json").read_bytes() == (killed / "metrics.json").read_bytes()
    log = [json.loads(line)["event"] for line in (killed / "log.jsonl").read_text(encoding="utf-8").splitlines()]
    assert log == ["started", "resumed", "finished"]


def test_help_is_quick_and_light() -> None:
    """Half a second is claimed in README; here only that nothing slow is imported."""
    code = """
import sys
sys.argv = ["judge", "--help"]
from judge.cli import main
try:
    main()
except SystemExit:
    print(*sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ)
    assert not {"torch", "pandas", "sklearn", "scipy", "numpy", "pydantic"} & set(done.stdout.split())


def test_demo_draws_its_world_and_keeps_the_order_of_the_knob(tmp_path: Path) -> None:
    # A demo may replace a demo.
    write_world(make_world(20), CAPTIONERS, tmp_path / "demo" / "world")
    (tmp_path / "demo" / "results").mkdir()
    (tmp_path / "demo" / "results" / "run.yaml").write_text("an earlier run", encoding="utf-8")
    done = judge("demo", "--out", tmp_path / "demo", "--images", "260")
    assert done.exit_code == 0, done.output
    found = json.loads((tmp_path / "demo" / "results" / "metrics.json").read_text(encoding="utf-8"))
    lic = [row["amplification"] for row in found["results"] if row["metric"] == "lic"]
    assert lic == sorted(lic)
    # Each metric's evidence is aligned as its row says, and told apart.
    aligned = found["run"]["captioners"]["much"]["alignment"]
    assert {name: report["how"] for name, report in aligned.items()} == {"lic": "constant", "imagecaptioner2": "none"}
    kept = aligned["lic"]["tokens_kept"]
    assert kept < aligned["imagecaptioner2"]["tokens_kept"] == 1
    assert f"alignment (LIC) keeps {kept:.1%} of human tokens" in done.stdout
    world = tmp_path / "demo" / "world"
    assert sorted(path.name for path in world.iterdir()) == [
        "captions",
        "captions_human.json",
        "contact_sheet.png",
        "images",
        "instances.json",
        "labels.csv",
        "truth.json",
        "world.yaml",
    ]
    truth = json.loads((world / "truth.json").read_text(encoding="utf-8"))
    assert list(truth) == ["none", "some", "much"]
    assert all(set(known) == {"A->T", "T->A"} for known in truth.values())
    assert str(world) in done.stdout
    # What was drawn is COCO as every command reads it: ground truth hides exactly its people.
    out = tmp_path / "masked"
    masked = judge("mask", "--images", world / "images", "--instances", world / "instances.json", "--out", out)
    assert (masked.exit_code, len(list(out.glob("0*.png")))) == (0, 260), masked.output
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("years of work", encoding="utf-8")
    assert judge("demo", "--out", tmp_path / "mine").exit_code == 2
