"""Processes that are killed while others work with them: a run's workers, the ranks of a launch."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
from launching import start

Which = Callable[[psutil.Process], bool]


def killed(
    command: Sequence[object],
    *,
    which: Which,
    ready: Callable[[], bool],
    kill: Callable[[psutil.Process], Any] = psutil.Process.kill,
) -> tuple[int, str]:
    """Start a command, kill the first of its descendants that is ``which`` once it is ``ready``; wait for all to end.

    Returns:
        Its exit code, and what it printed on standard error.
    """
    process = start(*command, stdout=subprocess.DEVNULL, start_new_session=True)
    try:
        victim, deadline = None, time.monotonic() + 120
        while victim is None:
            assert time.monotonic() < deadline
            assert process.poll() is None, process.communicate()
            time.sleep(0.02)
            children = psutil.Process(process.pid).children(recursive=True) if ready() else []
            with suppress(psutil.Error):
                victim = next(filter(which, children), None)
        kill(victim)
        _, printed = process.communicate(timeout=60)
        assert psutil.wait_procs(children, timeout=30)[1] == []
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    return process.returncode, printed


def judge_lines(printed: str) -> list[str]:
    """The lines that the package itself printed."""
    return [line for line in printed.splitlines() if line.startswith("judge: ")]


def members(out: Path) -> list[Path]:
    """Answers of finished members, of an unfinished run."""
    store = out.with_name(f"{out.name}.partial") / "members"
    return [path for path in store.glob("*.safetensors") if "." not in path.stem]


def is_worker(process: psutil.Process) -> bool:
    """Whether a process is one of joblib's that is at work: its interpreter has long started."""
    return "loky.backend.popen_loky_posix" in " ".join(process.cmdline()) and process.memory_info().rss > 2**27


def has_rank(number: int) -> Which:
    """Which process of a launch."""
    return lambda process: process.environ().get("RANK") == str(number)
