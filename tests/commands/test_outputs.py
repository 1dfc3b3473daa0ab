"""Outputs of every command: nothing foreign is replaced, and an interrupted calibration resumes."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers import done_well, inputs_of, judge, pictures_of, refusal, tree

from judge.calibration.grammar import WorldFiles
from judge.commands import console

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
FILES = {"caption": "model images", "predict": "weights generated", "compare": "runs", "report": "run"}


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
def test_a_folder_of_something_else_is_refused(
    command: str, finished_world: WorldFiles, finished_run: Path, tmp_path: Path
) -> None:
    """With --overwrite too: a run without it is tested in ``utils``."""
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "thesis.tex").write_text("years of work", encoding="utf-8")
    given = options(finished_world, finished_run, FOLDERS[command])
    line = refusal(*command.split(), *given, "--out", tmp_path / "thesis", "--overwrite")
    assert f"--out {tmp_path / 'thesis'}: holds something that is no " in line
    assert [path.name for path in tmp_path.rglob("*")] == ["thesis", "thesis.tex"]


@pytest.mark.parametrize("command", FILES)
def test_a_file_that_is_there_is_refused(
    command: str, finished_world: WorldFiles, finished_run: Path, tmp_path: Path
) -> None:
    (tmp_path / "thesis.tex").write_text("years of work", encoding="utf-8")
    given = options(finished_world, finished_run, FILES[command])
    line = refusal(command, *given, "--out", tmp_path / "thesis.tex")
    assert "thesis.tex: is there already" in line
    assert (tmp_path / "thesis.tex").read_text(encoding="utf-8") == "years of work"


def test_an_interrupted_calibration_resumes(
    finished_world: WorldFiles, finished_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given again, it makes the same bytes as an undisturbed one; other commands are killed in ``attack``."""
    steps, last = [0], [10**9]

    def count_steps(*_: object) -> None:
        steps[0] += 1
        if steps[0] >= last[0]:
            raise KeyboardInterrupt

    monkeypatch.setattr(console._Lines, "show", count_steps)
    quick = "--metrics error --changes A->T --doses 0.8 --draws 2 --nulls 2 --workers 1 --sample 60"
    out = tmp_path / "out"
    given = ["calibrate", *options(finished_world, finished_run, "human labels"), *quick.split(), "--out", out]
    done_well(*given)
    whole, undisturbed = tree(out), steps[0]
    out.rename(tmp_path / "whole")
    steps[0], last[0] = 0, undisturbed * 2 // 3
    assert judge(*given).exit_code == 130
    assert not out.exists()
    steps[0], last[0] = 0, 10**9
    done_well(*given)
    assert tree(out) == whole
    assert steps[0] < undisturbed
