"""What a user sees while work goes on where there is no terminal."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
import typer
from helpers import judge

from judge.commands import console as shared
from judge.errors import JudgeError
from judge.utils.files import warn_damaged


def test_processes_that_srun_starts_alone_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """One line in all; a batch script itself, and what a launcher starts, go on."""
    monkeypatch.setenv("SLURM_STEP_NUM_TASKS", "4")
    arguments = ["evaluate", "--human", "no.json", "--captions", "none.json"]
    for rank, told in (("0", "judge: srun: srun started 4 processes that do not know of each other."), ("1", "")):
        monkeypatch.setenv("SLURM_PROCID", rank)
        done = judge(*arguments)
        assert (done.exit_code, done.stderr[: len(told) or None]) == (2, told)
    monkeypatch.setenv("RANK", "0")
    assert "none.json: no such file" in judge(*arguments).stderr


def test_a_command_of_one_process_is_not_launched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    told = "judge: accelerate launch: this command runs in one process. Give it without a launcher.\n"
    for arguments in (["demo"], ["compare", "a", "b"], ["mask", "--images", "a", "--out", "b"]):
        done = judge(*arguments)
        assert (done.exit_code, done.stderr) == (2, told)


def test_lines_for_a_scheduler(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """None of short work; then one where work changes, one a minute, with the time left at the speed so far."""
    now = 0.0
    monkeypatch.setattr(shared.time, "monotonic", lambda: now)
    monkeypatch.setattr(shared.time, "strftime", lambda _: "12:00:00")
    lines = shared._Lines()
    for second in range(201):
        now = float(second)
        if second < 20:
            lines.show("reading", 0, 0)
        else:
            lines.show("training judges", 100 + 2 * (second - 20), 700)
    assert capsys.readouterr().err.splitlines() == [
        "12:00:00 reading",
        "12:00:00 training judges: 100 of 700",
        "12:00:00 training judges: 220 of 700, 0:04:00 left",
        "12:00:00 training judges: 340 of 700, 0:03:00 left",
        "12:00:00 training judges: 460 of 700, 0:02:00 left",
    ]


def test_faults_of_long_names_fit_in_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    fault = JudgeError("w" * 400, where="x" * 300, mend="m" * 300)
    with pytest.raises(typer.Exit):
        shared.report_failures([("n" * 99 + str(i), fault) for i in range(6)], 6, "masked")
    first, last = capsys.readouterr().err.splitlines()
    assert len(first) <= 500
    assert " and 1 more: " in first
    assert last == "judge: 6 of 6 images could not be masked"


def test_damaged_files_cost_two_lines(capsys: pytest.CaptureFixture[str]) -> None:
    with shared.show_progress():
        for number in range(12):
            warn_damaged(Path(f"{number:0600}"))
        logging.getLogger("judge").warning("another")
    first, other, count = capsys.readouterr().err.splitlines()
    assert first.endswith("0 is damaged: it is computed again")
    assert len(first) <= 500
    assert other == "judge: another"
    assert count == "judge: 11 more cache files are computed again"
