"""However a command is ended, it ends in one line, its processes with it, and the same command goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from helpers import inputs_of

from judge.calibration.grammar import WorldFiles

INTERRUPTED = "judge: interrupted; give the same command again\n"


@pytest.fixture
def run(finished_world: WorldFiles, tmp_path: Path) -> list[object]:
    """A run of many small networks: half a minute."""
    asked = ["--metrics", "lic", "--judge", "lstm", "--protocol", "paper", "--seeds", 8, "--epochs", 3, "--workers", 2]
    return ["evaluate", *inputs_of(finished_world, "much"), *asked, "--out", tmp_path / "out"]


def start(*command: object, **how: Any) -> subprocess.Popen[str]:
    """Tests in the background of a shell ignore Ctrl-C, below nohup SIGHUP, and so would what they start."""
    ours = {signal.SIGINT: signal.default_int_handler, signal.SIGHUP: signal.SIG_DFL}
    before = {number: signal.signal(number, handler) for number, handler in ours.items()}
    pipe, words = subprocess.PIPE, [sys.executable, *map(str, command)]
    process = subprocess.Popen(words, stdout=pipe, stderr=pipe, text=True, **how)
    for number, handler in before.items():
        signal.signal(number, handler)
    return process


class Command:
    """``judge evaluate``, in a process that leads a group of its own."""

    def __init__(self, run: list[object], folder: Path) -> None:
        self.out, self.kept = folder / "out", folder / "out.partial" / "members"
        self.process = start("-m", "judge", *run, start_new_session=True)

    def workers(self) -> list[psutil.Process]:
        found = psutil.Process(self.process.pid).children(recursive=True)
        return [one for one in found if "--process-name" in one.cmdline()]

    def members(self) -> int:
        return len(list(self.kept.glob("*.safetensors")))

    def until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 120
        while not condition():
            assert time.monotonic() < deadline
            assert self.process.poll() is None, self.process.communicate()
            time.sleep(0.02)


@pytest.fixture
def begin(run: list[object], tmp_path: Path) -> Iterator[Callable[[], Command]]:
    begun: list[Command] = []

    def begin() -> Command:
        begun.append(Command(run, tmp_path))
        return begun[-1]

    yield begin
    for one in begun:
        with suppress(ProcessLookupError):
            os.killpg(one.process.pid, signal.SIGKILL)
        with suppress(ValueError):  # It was read, and is closed.
            one.process.communicate()


def test_workers_end_with_their_parent(begin: Callable[[], Command]) -> None:
    """It alone is killed, as for want of memory, as soon as they are there."""
    command = begin()
    command.until(lambda: len(command.workers()) == 2)
    orphans = psutil.Process(command.process.pid).children(recursive=True)
    command.process.kill()
    _, alive = psutil.wait_procs(orphans, timeout=5)
    assert alive == []


def test_a_scheduler_ends_a_run_in_one_line(begin: Callable[[], Command]) -> None:
    """SIGTERM to the command and its workers. What is finished stays."""
    command = begin()
    command.until(lambda: command.members() >= 2)
    children = psutil.Process(command.process.pid).children(recursive=True)
    os.killpg(command.process.pid, signal.SIGTERM)
    _, errors = command.process.communicate(timeout=60)
    # Lines of progress go before.
    assert (command.process.returncode, errors[-len(INTERRUPTED) :]) == (143, INTERRUPTED)
    assert psutil.wait_procs(children, timeout=5)[1] == []
    assert command.members() >= 2
    assert not command.out.exists()


@pytest.mark.parametrize(("moment", "number"), [(0.2, signal.SIGINT), (0.4, signal.SIGTERM), (0.8, signal.SIGHUP)])
def test_an_interrupt_at_any_moment_leaves_no_traceback(
    begin: Callable[[], Command], moment: float, number: signal.Signals
) -> None:
    """While libraries are imported and files are read; ``attack/kills.py`` draws moments of the whole run."""
    command = begin()
    time.sleep(moment)
    command.process.send_signal(number)
    _, errors = command.process.communicate(timeout=60)
    assert (command.process.returncode, errors) == (128 + number, INTERRUPTED)


def test_an_interrupt_waits_for_the_end_of_an_import(tmp_path: Path) -> None:
    """Raised within it, it would end the process by an abort where C++ calls Python, as torch's does."""
    (tmp_path / "slow.py").write_text(
        "import os\nos.kill(os.getpid(), 2)\nfor _ in range(10**7): pass\nprint('whole')\n"
    )
    code = "import judge.utils.terminal as s, time; s.handle_signals()\nimport slow; time.sleep(60)"
    path = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    printed, errors = start("-c", code, env=os.environ | {"PYTHONPATH": path}).communicate(timeout=50)
    assert printed == "whole\n"
    assert errors.endswith("judge.utils.terminal.Interrupted: 2\n")


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
        process = start("-c", code, *arguments)
        assert process.stdout
        while "there" not in process.stdout.readline():
            assert process.poll() is None
        for wait in waits:
            time.sleep(wait)
            process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=10)
        assert (process.returncode, errors) == expected


def shell(line: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = " ".join(map(str, (sys.executable, "-m", "judge", *arguments)))
    return subprocess.run(["bash", "-c", line.format(command)], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("line", "why"),
    [("{} >/dev/full", "No space left on device"), ("{} >&-", "it is closed"), ("{} >/dev/full 2>&-", None)],
)
def test_standard_output_that_takes_nothing(line: str, why: str | None) -> None:
    done = shell(line, "data", "list")
    assert done.returncode == 1
    errors = [line for line in done.stderr.splitlines() if line[:1].isalpha()]
    what = f"judge: standard output: cannot be written ({why}); what the command leaves in files is complete."
    assert errors == ([what] if why else [])


def test_too_little_memory_is_one_line(run: list[object], tmp_path: Path) -> None:
    done = shell("ulimit -v 400000; {}", *run)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("judge: memory has run out. Let fewer work at a time (--workers 1)")
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out").exists()
