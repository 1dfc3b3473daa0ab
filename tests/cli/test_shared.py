"""What a user sees while work goes on where there is no terminal."""

from __future__ import annotations

import pytest
from helpers import judge

from judge.cli import shared


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
            lines.tell("reading", 0, 0)
        else:
            lines.tell("training judges", 100 + 2 * (second - 20), 700)
    assert capsys.readouterr().err.splitlines() == [
        "12:00:00 reading",
        "12:00:00 training judges: 100 of 700",
        "12:00:00 training judges: 220 of 700, 0:04:00 left",
        "12:00:00 training judges: 340 of 700, 0:03:00 left",
        "12:00:00 training judges: 460 of 700, 0:02:00 left",
    ]
