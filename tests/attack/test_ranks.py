"""Processes of ``accelerate launch`` that fail or die in the midst of a sum: the others end soon, in one line.

The long form is ``run_ranks.py``.
"""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import psutil
import pytest
from launching import ROOT, launch, launcher, write_run_file


@pytest.fixture(scope="module")
def run_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_run_file(tmp_path_factory.mktemp("ranks"))


@pytest.mark.parametrize(("rank", "told"), [("1", 1), ("all", 0)])
def test_a_fault_of_one_process_ends_all_that_train_with_it(run_file: Path, rank: str, told: int) -> None:
    """In the midst of a sum; said once, by the main process where it has met it too. No process waits for ever."""
    script, out = ROOT / "tests" / "attack" / "fault_in_one.py", run_file.parent / f"fault-{rank}"
    launched = ["--num_processes", 2, script, rank, run_file, "--judge", "lstm", "--sharing", "data", "--out", out]
    done = launch(*launched, timeout=90)
    assert done.returncode != 0
    lines = [line for line in done.stderr.splitlines() if line.startswith("judge: ")]
    assert lines == [f"judge: rank {told}: no room."]
    # Of its own the launcher has one to tell, of ours there is none.
    assert "judge/training" not in done.stderr
    assert not out.exists()


@pytest.mark.parametrize("victim", ["0", "1", "launcher"])
def test_a_process_that_is_killed_ends_the_launch(run_file: Path, tmp_path: Path, victim: str) -> None:
    """In the midst of sums of gradients: one line, of whoever is left to tell it, and nobody is left behind."""
    given = [run_file, "--judge", "lstm", "--sharing", "data", "--epochs", 500, "--out", tmp_path / "out"]
    command = launcher("--num_processes", 2, ROOT / "scripts" / "evaluate.py", *given)
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    log, deadline = tmp_path / "out.partial" / "log.jsonl", time.monotonic() + 120
    while not (log.is_file() and '"epoch"' in log.read_text()):
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.05)
    children = psutil.Process(process.pid).children(recursive=True)
    ranks = {child.environ().get("RANK"): child for child in children}
    (process if victim == "launcher" else ranks[victim]).kill()
    _, told = process.communicate(timeout=60)
    assert psutil.wait_procs(children, timeout=10)[1] == []
    assert process.returncode != 0
    lines = [line for line in told.splitlines() if line.startswith("judge: ")]
    # Who sees first that the launcher is gone ends in silence.
    assert len(lines) in ({0, 1} if victim == "launcher" else {1})
    assert all("another process" in line and "ive the same command again" in line for line in lines)
    assert "judge/training" not in told
