"""Commands that are killed at any moment, and given again: what they make is then as if nothing had happened."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress

import psutil
from launching import start

from attack.writers import Writers, differing, states, tree

SOON, LATEST = 5.0, 300.0
"""Seconds in which a killed command's processes must end after it, and in which it must end itself."""
_BEGUN = 1.0  # Seconds in which Python itself may still be starting: a signal is then answered by Python.
_REPORTED = "judge: interrupted; give the same command again\n"


def check_kills(writers: Writers, name: str, number: signal.Signals, whom: str, shares: Sequence[float]) -> None:
    """Kill a command at shares of the time that it takes, one after the other, then let it end.

    Args:
        number: SIGKILL, SIGTERM or SIGINT.
        whom: "group" or "parent": all processes of the command, or the command alone.
    """
    place, began = writers.place, time.monotonic()
    writers.reset()
    assert _end(writers, _begin(writers, name))[0] == 0
    seconds, expected = time.monotonic() - began, tree(place)
    writers.reset()
    others = states(place)
    for moment in (max(0.3, share * seconds) for share in shares):
        process = _begin(writers, name)
        with suppress(subprocess.TimeoutExpired):
            process.wait(moment)
        if process.poll() is not None:
            break
        (os.killpg if whom == "group" else os.kill)(process.pid, number)
        code, printed = _end(writers, process)
        whole = moment < _BEGUN or not differing(tree(place), expected)
        ended = -number if number == signal.SIGKILL else 128 + number
        assert code == ended or (whole and code in {0, -number}), printed
        assert code != 128 + number or printed.endswith(_REPORTED), printed
        assert "Traceback" not in printed or (moment < _BEGUN and "/judge/" not in printed), printed
        assert others.items() <= states(place).items(), "a file of others was changed"
    code, printed = _end(writers, _begin(writers, name))
    # Temporary files of a library or of ours stay if SIGKILL met their writing.
    found = {name: one for name, one in tree(place).items() if ".judge-" not in name or name in expected}
    assert differing(found, expected) == []
    # An output that was complete when the command was killed is refused.
    assert code == 0 or "another " in printed or "is there already" in printed, printed


def _begin(writers: Writers, name: str) -> subprocess.Popen[str]:
    """Start the command with two workers in a session of its own; what it prints is in a file."""
    words = " ".join(writers.commands()[name]).replace("--workers 1", "--workers 2").split()
    environment = os.environ | {"TMPDIR": str(writers.temp)}
    with (writers.root / "printed").open("wb") as printed:
        how = {"env": environment, "stdout": printed, "stderr": printed, "start_new_session": True}
        return start(sys.executable, "-m", "judge", *words, **how)


def _end(writers: Writers, process: subprocess.Popen[str]) -> tuple[int, str]:
    """Wait for a command and for the processes of its session; its exit code, and what it printed."""
    try:
        code = process.wait(LATEST)
        _, outlived = psutil.wait_procs(_members(process.pid), timeout=SOON)
        assert outlived == []
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    return code, (writers.root / "printed").read_text(errors="replace")


def _members(session: int) -> list[psutil.Process]:
    """Processes of a session."""
    found = []
    for process in psutil.process_iter():
        with suppress(ProcessLookupError, psutil.NoSuchProcess):
            if os.getsid(process.pid) == session and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found
