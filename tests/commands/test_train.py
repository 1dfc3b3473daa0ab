"""``judge train``, then ``judge evaluate``: the numbers of one command; two processes are in ``test_scripts.py``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from helpers import done_well, few, judge, read_json, read_rows, refusal, save_captioner, settings_of
from launching import ROOT
from safetensors import safe_open

from judge.calibration.grammar import make_world, write_world
from judge.calibration.world import Captioner
from judge.commands.evaluate import RunConfig
from judge.commands.setup import precision_notes
from judge.config import make_config

# Judges that differ: lstm and sat train one human side for both captioners, of 2 captions; linear chooses C with each
# captioner's captions, so that its judges of human captions differ too.
FILES = (2 + 2) * 2 + (2 + 1) * 2


@pytest.fixture(scope="module")
def settings(no_report: None, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Judges of every kind: one that trains itself, one that reads, one that sees."""
    folder = tmp_path_factory.mktemp("train")
    # All use each of their few words, so that human captions are aligned alike.
    captioners = {"none": Captioner(vocabulary=3), "much": Captioner(stereotype=0.9, vocabulary=3)}
    files = few(write_world(make_world(120, seed=5), captioners, folder / "world", pictures=64), 2)
    judges = {"metrics": ["lic", "imagecaptioner2"], "judge": ["lstm", "linear", "sat"], "epochs": 2}
    return settings_of(files, folder) | judges


def written(settings: dict[str, object], folder: Path) -> Path:
    path = folder / "run.yaml"
    path.write_text(yaml.safe_dump(settings), encoding="utf-8")
    return path


def test_a_judge_that_is_not_stored_is_named(settings: dict[str, object], tmp_path: Path) -> None:
    """One that reads a file of vectors, which nobody has of other images."""
    draws = np.random.default_rng(0)
    images = [row["image_id"] for row in read_rows(Path(str(settings["labels"])))]
    np.savez(tmp_path / "v.npz", **{image: draws.normal(size=4) for image in images})
    given = ["--metrics", "imagecaptioner2", "--judge", "linear+image", "--image-features", tmp_path / "v.npz"]
    done = done_well("train", written(settings, tmp_path), *given, "--checkpoints", tmp_path / "kept")
    assert "NOTE: judge 'linear+image' keeps its answers but no weights: judge predict cannot load it" in done.stdout
    assert {row["weights"] for row in read_json(tmp_path / "kept" / "judges.json")} == {None}


@pytest.mark.slow
def test_train_then_evaluate_is_evaluate(settings: dict[str, object], tmp_path: Path) -> None:
    run_file, kept = written(settings, tmp_path), tmp_path / "kept"
    first = done_well("train", run_file, "--checkpoints", kept)
    before = {path: path.stat().st_mtime_ns for path in kept.iterdir()}
    for name, more in (("alone", []), ("after", ["--checkpoints", kept])):
        done_well("evaluate", run_file, *more, "--out", tmp_path / name)
    alone, after = ((tmp_path / name / "scores.parquet").read_bytes() for name in ("alone", "after"))
    assert after == alone
    # All judges were found trained.
    assert {path: path.stat().st_mtime_ns for path in kept.iterdir()} == before
    rows = read_json(kept / "judges.json")
    # 2 captioners x (2 human captions + 1) x 3 judges; of two judges the human side is the same for both.
    assert len(rows) == 18
    assert len({row["answers"] for row in rows}) == FILES
    assert first.stdout.startswith(f"{FILES} judges, ")
    for row in rows:
        assert row["weights"] == row["answers"].replace(".safetensors", ".weights.safetensors")
        assert len(row["losses"]["training"]) == (0 if row["judge"] == "linear" else 2)
        assert (row["best_epoch"] in {1, 2}) == (row["judge"] == "sat")
    with safe_open(kept / next(row["weights"] for row in rows if row["judge"] == "sat"), framework="np") as file:
        notes = json.loads(file.metadata()["notes"])
        assert [notes[name] for name in ("judge", "device", "precision", "processes")] == ["sat", "cpu", "no", 1]
        assert "embedding.weight" in file.keys()  # noqa: SIM118 - no mapping
    again = judge("train", run_file, "--checkpoints", kept)
    assert f"{FILES} judges ({FILES} were there)" in again.stdout
    assert read_json(kept / "judges.json") == rows
    # A damaged file of weights is computed again, with a note.
    damaged = kept / next(row["weights"] for row in rows if row["judge"] == "sat")
    whole = damaged.read_bytes()
    damaged.write_bytes(whole[:-1])
    assert f"{damaged} is damaged: it is computed again" in done_well("train", run_file, "--checkpoints", kept).stderr
    assert damaged.read_bytes() == whole
    assert read_json(kept / "judges.json") == rows


@pytest.mark.parametrize(
    ("name", "expected"),
    [("cpu", (1, 2)), ("1_gpu", (1, 1)), ("8_gpus", (1, 8)), ("2_nodes", (2, 16)), ("fsdp", (1, 8))],
)
def test_shipped_configs_are_accelerates_own(name: str, expected: tuple[int, int]) -> None:
    """Every key is one that this version of Accelerate reads, and the numbers are the file's name."""
    from accelerate.commands.config.config_args import load_config_from_file

    config = load_config_from_file(str(ROOT / "scripts" / "configs" / f"{name}.yaml"))
    assert (config.num_machines, config.num_processes) == expected
    if name == "fsdp":
        assert (config.distributed_type.value, config.fsdp_config["fsdp_version"]) == ("FSDP", 2)


def test_a_captioner_without_captions_is_refused(settings: dict[str, object], tmp_path: Path) -> None:
    line = refusal("train", written(settings, tmp_path), "--model", f"mine={save_captioner(tmp_path / 'git')}")
    assert "captioner 'mine' has no captions. Write them first: judge caption" in line


def test_float32_on_a_gpu_is_pointed_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only for judges of transformers, and where no precision was chosen."""
    monkeypatch.setattr("judge.commands.setup.computes_on", lambda: "cuda")

    def notes(**settings: Any) -> list[str]:
        return precision_notes(make_config({"human": "h.json", "captions": {"a": "a.json"}, **settings}, RunConfig))

    images = {"images": "images", "mask": "none", "metrics": ["imagecaptioner2"]}
    (note,) = notes(judge=["hf:org/blip"], **images)
    assert "--training precision=bf16 is faster" in note
    assert not notes(judge=["hf:org/blip"], precision="no", **images)
    assert not notes(judge=["lstm"])
