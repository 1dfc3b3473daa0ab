"""--precision auto: what a measurement finds, once a run, and what is written down."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from judge.calibration.grammar import make_world, write_world
from judge.calibration.world import Captioner
from judge.commands.evaluate import RunConfig, run
from judge.config import make_config
from judge.training import precision


def test_the_measurement_leaves_random_numbers_and_threads_as_they_were() -> None:
    before, threads = torch.get_rng_state(), torch.get_num_threads()
    assert 0 < precision.bf16_gain(seconds=0.01) < 100
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.get_num_threads() == threads


@pytest.mark.skipif(torch.accelerator.is_available(), reason="of CPUs")
@pytest.mark.parametrize(("gain", "found"), [(0.25, "no"), (1.1, "no"), (2.1, "bf16")])
def test_bf16_only_where_its_products_are_faster(gain: float, found: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precision, "bf16_gain", lambda: gain)
    assert precision.find_precision() == found


@pytest.mark.skipif(torch.accelerator.is_available(), reason="of CPUs")
@pytest.mark.parametrize("gain", [0.25, 4.0])
def test_auto_is_the_precision_found_in_numbers_and_records(
    gain: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run equals one that asks for it by name, whose judges it therefore finds."""
    write_world(make_world(60, seed=1), {"much": Captioner(stereotype=0.9)}, tmp_path / "world")
    world, found = tmp_path / "world", "bf16" if gain > 1 else "no"
    same: dict[str, Any] = {
        "human": world / "captions_human.json", "captions": world / "captions" / "much.json",
        "labels": world / "labels.csv", "metrics": "lic", "judge": "lstm", "folds": 2, "epochs": 1, "workers": 1,
        "resamples": 100, "refits": 0, "checkpoints": tmp_path / "judges",
    }  # fmt: skip
    asked: list[int] = []
    monkeypatch.setattr(precision, "bf16_gain", lambda: asked.append(1) or gain)
    auto = run(make_config({**same, "precision": "auto", "out": tmp_path / "auto"}, RunConfig))
    kept = {path: path.stat().st_mtime_ns for path in (tmp_path / "judges").glob("*.safetensors")}
    named = run(make_config({**same, "precision": found, "out": tmp_path / "named"}, RunConfig))
    assert asked == [1]
    assert kept == {path: path.stat().st_mtime_ns for path in (tmp_path / "judges").glob("*.safetensors")}
    assert auto.scores.equals(named.scores)
    assert yaml.safe_load((tmp_path / "auto" / "run.yaml").read_text(encoding="utf-8"))["precision"] == found
