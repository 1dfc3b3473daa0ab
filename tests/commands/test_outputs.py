"""Every command leaves alone what is not its own, and replaces its own output only with ``--overwrite``."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers import inputs_of, pictures_of, refusal

from judge.calibration.grammar import WorldFiles

FOLDERS = {
    "evaluate": "captions labels",
    "align": "captions labels",
    "calibrate": "human labels",
    "mask": "images",
    "ablate detectors": "images",
    "ablate masks": "captions labels images",
    "attribute": "weights generated",
    "export": "weights",
    "anonymous": "generated",
}
FILES = {
    "caption": "model images",
    "predict": "weights generated",
    "compare": "runs",
    "report": "run",
}


def options(files: WorldFiles, run: Path, parts: str) -> list[object]:
    """Inputs of a command, named by ``parts``."""
    known: dict[str, list[object]] = {
        "captions": [part for part in inputs_of(files, "much") if part not in {"--labels", files.labels}],
        "generated": ["--captions", files.captions["much"]],
        "human": ["--human", files.human],
        "labels": ["--labels", files.labels],
        "images": pictures_of(files),
        "weights": ["--judge-weights", files.human],
        "model": ["--model", files.folder],
        "run": [run],
        "runs": [run, run.parent / "world"],
    }
    return [part for name in parts.split() for part in known[name]]


@pytest.mark.parametrize("command", FOLDERS)
@pytest.mark.parametrize("overwrite", [[], ["--overwrite"]])
def test_a_folder_of_something_else_is_refused(
    command: str, overwrite: list[str], finished_world: WorldFiles, finished_run: Path, tmp_path: Path
) -> None:
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "thesis.tex").write_text("years of work", encoding="utf-8")
    given = options(finished_world, finished_run, FOLDERS[command])
    told = refusal(*command.split(), *given, "--out", tmp_path / "thesis", *overwrite)
    assert f"--out {tmp_path / 'thesis'}: holds something that is no " in told
    assert [path.name for path in tmp_path.rglob("*")] == ["thesis", "thesis.tex"]


@pytest.mark.parametrize("command", FILES)
def test_a_file_that_is_there_is_refused(
    command: str, finished_world: WorldFiles, finished_run: Path, tmp_path: Path
) -> None:
    (tmp_path / "thesis.tex").write_text("years of work", encoding="utf-8")
    given = options(finished_world, finished_run, FILES[command])
    told = refusal(command, *given, "--out", tmp_path / "thesis.tex")
    assert "thesis.tex: is there already" in told
    assert (tmp_path / "thesis.tex").read_text(encoding="utf-8") == "years of work"


def test_an_earlier_run_needs_overwrite(finished_world: WorldFiles, finished_run: Path) -> None:
    before = (finished_run / "metrics.json").read_bytes()
    told = refusal("evaluate", *inputs_of(finished_world, "much"), "--out", finished_run)
    assert told == f"judge: --out {finished_run}: holds another run. Name another folder, or add --overwrite.\n"
    assert (finished_run / "metrics.json").read_bytes() == before
