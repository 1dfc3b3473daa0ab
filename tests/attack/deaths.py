"""Processes that die, or have no memory left, while others work with them: a run's workers, the ranks of a launch."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

Harm = Callable[[psutil.Process], Any]
Which = Callable[[psutil.Process], bool]


def kill(process: psutil.Process) -> None:
    """As the system does where memory runs out."""
    process.kill()


@dataclass(frozen=True)
class Ended:
    """How a command ended one of whose processes was harmed.

    ``seconds``: from the harm to the end of the last process. ``kept``: members that were finished then.
    """

    code: int
    lines: list[str]
    seconds: float
    kept: list[Path]
    whole: str


def harmed(
    command: Sequence[object],
    out: Path,
    *,
    harm: Harm,
    which: Which,
    ready: Callable[[], bool],
) -> Ended:
    """Start a command; harm the first of its descendants that is asked for once it is ``ready``; wait for the end."""
    told = subprocess.PIPE
    process = subprocess.Popen(
        [str(part) for part in command], stdout=subprocess.DEVNULL, stderr=told, text=True, start_new_session=True
    )
    try:
        victim = _victim(process, which, ready)
        harm(victim)
        begun = time.monotonic()
        children = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
        _, text = process.communicate(timeout=120)
        _, left = psutil.wait_procs(children, timeout=60)
        assert left == []
        seconds = time.monotonic() - begun
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    lines = [line for line in text.splitlines() if line.startswith("judge: ")]
    return Ended(process.returncode, lines, seconds, sorted(members(out)), text)


def members(out: Path) -> list[Path]:
    """Answers of finished members, of an unfinished run."""
    store = out.with_name(f"{out.name}.partial") / "members"
    return [path for path in store.glob("*.safetensors") if "." not in path.stem]


def _victim(process: Any, which: Which, ready: Callable[[], bool]) -> psutil.Process:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        assert process.poll() is None, process.communicate()
        if ready():
            for child in psutil.Process(process.pid).children(recursive=True):
                with suppress(psutil.Error):
                    if which(child):
                        return child
        time.sleep(0.01)
    raise TimeoutError


def is_worker(process: psutil.Process) -> bool:
    """One of joblib's that is at work: its interpreter has begun long since."""
    return "loky.backend.popen_loky_posix" in " ".join(process.cmdline()) and process.memory_info().rss > 2**27


def has_rank(number: int) -> Which:
    """Of a launch."""
    return lambda process: process.environ().get("RANK") == str(number)


WORKERS = [
    *("--metrics", "lic", "--judge", "linear", "--resamples", 100, "--workers", 2),
    *("--folds", 5, "--refits", 30, "--chance", 5),
]
"""Options of a run of some seconds, in two workers."""


def evaluate(out: Path, *options: object) -> list[object]:
    """``judge evaluate``, in a process of its own."""
    return [sys.executable, "-m", "judge", "evaluate", *options, "--out", out]
