"""However a command is ended, it ends in one line, its processes with it, and the same command goes on."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from helpers import inputs_of
from launching import start

from judge.calibration.grammar import WorldFiles

INTERRUPTED = "judge: interrupted; give the same command again\n"


def run(files: WorldFiles, out: Path, judge: str) -> list[object]:
    """A run of many small judges: half a minute."""
    asked = ["--metrics", "lic", "--judge", judge, "--protocol", "paper", "--seeds", 8, "--workers", 2]
    asked += ["--refits", 0, "--training", "epochs=3"] if judge == "lstm" else ["--refits", 300]
    return [sys.executable, "-m", "judge", "evaluate", *inputs_of(files, "much"), *asked, "--out", out]


@pytest.mark.parametrize(("moment", "number", "judge"), [
    (0.5, signal.SIGINT, "linear"),
    pytest.param(1.0, signal.SIGHUP, "linear", marks=pytest.mark.slow),
    pytest.param(0.5, signal.SIGTERM, "lstm", marks=pytest.mark.slow),
])  # fmt: skip
def test_an_interrupt_leaves_no_traceback(
    finished_world: WorldFiles, tmp_path: Path, moment: float, number: signal.Signals, judge: str
) -> None:
    """While the run works; ``attack/kills.py`` has other commands."""
    process = start(*run(finished_world, tmp_path / "out", judge))
    while process.poll() is None and not (tmp_path / "out.partial" / "members").exists():
        time.sleep(0.01)
    time.sleep(moment)
    process.send_signal(number)
    assert process.communicate(timeout=60)[1].endswith(INTERRUPTED)
    assert process.returncode == 128 + number


def test_a_second_signal_ends_at_once_and_one_at_the_end_is_silent(tmp_path: Path) -> None:
    """A command that takes its time to end; and one that is done, but whose interpreter is not."""
    code = """
import sys, time
from judge.__main__ import main
from judge.commands.app import app
import judge.commands.demo, atexit
def slow():
    try:
        print("there", flush=True)
        time.sleep(60)
    finally:
        time.sleep(60)
def late():
    print("there", flush=True)
    time.sleep(60)
app.command("slow")(slow)
if sys.argv[1] == "late":
    atexit.register(late)
main(*sys.argv[2:])
"""
    for arguments, waits, expected in (
        (["now", "slow"], [0.0, 1.5], (130, "")),
        (["late", "data", "list"], [0], (-2, "")),
    ):
        process = start(sys.executable, "-c", code, *arguments)
        assert process.stdout
        while "there" not in process.stdout.readline():
            assert process.poll() is None
        for wait in waits:
            time.sleep(wait)
            process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=10)
        assert (process.returncode, errors) == expected


def shell(line: str, *words: object) -> subprocess.CompletedProcess[str]:
    command = " ".join(map(str, words))
    return subprocess.run(["bash", "-c", line.format(command)], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("line", "why"),
    [("{} >/dev/full", "No space left on device"), ("{} >&-", "it is closed"), ("{} >/dev/full 2>&-", None)],
)
def test_standard_output_that_takes_nothing(line: str, why: str | None) -> None:
    done = shell(line, sys.executable, "-m", "judge", "data", "list")
    assert done.returncode == 1
    errors = [line for line in done.stderr.splitlines() if line[:1].isalpha()]
    what = f"judge: standard output: cannot be written ({why}); what the command leaves in files is complete."
    assert errors == ([what] if why else [])


def test_too_little_memory_is_one_line(finished_world: WorldFiles, tmp_path: Path) -> None:
    done = shell("ulimit -v 400000; {}", *run(finished_world, tmp_path / "out", "lstm"))
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("judge: memory has run out. Let fewer work at a time (--workers 1)")
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out").exists()


def test_a_signal_whose_exception_is_lost_comes_again() -> None:
    """Python only reports what a finaliser raises."""
    code = """
import os, signal, time
from judge.utils.terminal import Interrupted, handle_signals
handle_signals()
class Dying:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.01)
try:
    Dying()
    time.sleep(30)
except Interrupted as error:
    print(error)
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=20, check=False)
    assert (ended.stdout, ended.stderr) == ("15\n", "")
