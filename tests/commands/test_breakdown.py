"""``judge evaluate --breakdown``: the files that it leaves, and what it prints."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from helpers import done_well, few, inputs_of, judge, known, results_of

from judge.calibration.grammar import make_world, write_world
from judge.calibration.world import CAPTIONERS


def test_files_and_tables(tmp_path: Path) -> None:
    files = few(write_world(make_world(240, seed=3), CAPTIONERS, tmp_path / "world"), 2)
    quick = ["--folds", 5, "--refits", 0, "--chance", 0, "--resamples", 100, "--breakdown"]
    out = tmp_path / "out"
    done = done_well("evaluate", *inputs_of(files, "much"), "--metrics", "lic,leakage,dba", *quick, "--out", out)
    for title in ("Tasks that add most", "Words that add most"):
        assert title in done.stdout
    tasks = pd.read_csv(out / "breakdown" / "tasks.csv")
    for (metric, name), row in results_of(out).items():
        mine = tasks[(tasks["metric"] == metric) & (tasks["judge"] == name)]
        assert mine["contribution"].sum() == pytest.approx(known(row["amplification"]), abs=1e-9)
        assert (mine["contribution"].abs().diff().dropna() <= 1e-15).all()  # The greatest first.
    every = pd.read_parquet(out / "breakdown" / "images.parquet")
    images = pd.read_csv(out / "breakdown" / "images.csv", dtype={"image_id": str})
    of_lic = images[images["metric"] == "lic"]
    extreme = every[every["metric"] == "lic"].sort_values("contribution")
    assert len(of_lic) == 50
    assert {*of_lic["image_id"]} >= {*extreme["image_id"].head(20), *extreme["image_id"].tail(20)}
    captions = pd.read_parquet(out / "breakdown" / "captions.parquet")
    first = of_lic.iloc[0]
    said = captions[(captions["image_id"] == first["image_id"]) & (captions["side"] == "human")]["caption"]
    assert first["human"] == " / ".join(said)
    assert len(said) == 2
    words = pd.read_csv(out / "breakdown" / "words.csv")
    assert {"lic|leakage"} == {*words["metric"]}


def test_a_metric_of_one_side_has_none(tmp_path: Path) -> None:
    files = few(write_world(make_world(60, seed=3), CAPTIONERS, tmp_path / "world"))
    quick = ["--metrics", "sc", "--folds", 3, "--refits", 0, "--chance", 0, "--breakdown"]
    done = done_well("evaluate", *inputs_of(files, "much"), *quick, "--out", tmp_path / "out")
    assert "Tasks that add most" not in done.stdout
    assert not (tmp_path / "out" / "breakdown" / "tasks.csv").exists()


def test_few_splits_are_marked(tmp_path: Path) -> None:
    files = few(write_world(make_world(90, seed=3), CAPTIONERS, tmp_path / "world"))
    quick = ["--metrics", "lic", "--folds", 3, "--refits", 0, "--chance", 0, "--resamples", 100, "--breakdown"]
    done = done_well("evaluate", *inputs_of(files, "much"), *quick, "--out", tmp_path / "out")
    assert "* For these judges alone, as they were trained." in done.stdout
    assert "]*" in done.stdout.split("Tasks that add most")[1]


def test_tasks_that_nobody_names_are_refused(tmp_path: Path) -> None:
    files = write_world(make_world(60, seed=3), CAPTIONERS, tmp_path / "world")
    lexicon = tmp_path / "tasks.yaml"
    lexicon.write_text("# made up\ntoken: <task>\nclasses:\n  unicorn: [unicorn]\n", encoding="utf-8")
    done = judge("evaluate", *inputs_of(files, "much"), "--tasks", lexicon, "--breakdown", "--out", tmp_path / "out")
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1), done.output
    assert "unicorn" in done.stderr or "none of 1 tasks" in done.stderr
    assert not (tmp_path / "out").exists()
