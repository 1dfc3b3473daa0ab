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

SOON, LATEST = 5.0, 120.0
"""Seconds in which a killed command's processes must end after it, and in which it must end itself."""
_BEGUN = 1.0  # Seconds in which Python itself may still be starting: a signal is then answered by Python.
_REPORTED = "judge: interrupted; give the same command again\n"


class Attack:
    """Kills of one command of ``writers``; the command is run once undisturbed, to know what it makes.

    What it does that it must not is in ``findings``, with the signal, the processes and the moments.
    """

    def __init__(self, name: str, writers: Writers) -> None:
        self.name, self.writers, self.place, self.how = name, writers, writers.place, ""
        words = writers.commands()[name]
        self.command = [sys.executable, "-m", "judge", *" ".join(words).replace("--workers 1", "--workers 2").split()]
        self.findings: list[str] = []
        self.seconds, began = LATEST, time.monotonic()
        writers.reset()
        assert self._code(self._start()) == 0, self.printed
        self.seconds, self.expected = time.monotonic() - began, tree(self.place)

    def kill(self, number: signal.Signals, whom: str, shares: Sequence[float]) -> int:
        """Kill the command at shares of the time that it takes, one after the other, then let it end.

        Args:
            number: SIGKILL, SIGTERM or SIGINT.
            whom: "group" or "parent": all processes of the command, or the command alone.

        Returns:
            How often it was killed.
        """
        moments = [max(0.3, share * self.seconds) for share in shares]
        self.how = f"{number.name} to the {whom} after {', '.join(f'{moment:.2f} s' for moment in moments)}"
        self.writers.reset()
        others, kills = states(self.place), 0
        for moment in moments:
            process = self._start()
            with suppress(subprocess.TimeoutExpired):
                process.wait(moment)
            if process.poll() is not None:
                self._code(process)
                break
            (os.killpg if whom == "group" else os.kill)(process.pid, number)
            kills += 1
            self._check(process, number, moment)
            if others.items() - states(self.place).items():
                self._find("a file of others was changed")
        self._finish()
        return kills

    def _check(self, process: subprocess.Popen[str], number: signal.Signals, moment: float) -> None:
        """Check how a killed command and its processes ended."""
        code, left = self._code(process), _members(process.pid)
        _, alive = psutil.wait_procs(left, timeout=SOON)
        for one in alive:
            with suppress(psutil.NoSuchProcess):
                self._find(f"a process outlived it by {SOON} s: {' '.join(one.cmdline())[:200]}")
                one.kill()
        whole = moment < _BEGUN or not differing(tree(self.place), self.expected)
        expected = -number if number == signal.SIGKILL else 128 + number
        if code != expected and not (whole and code in {0, -number}):
            self._find(f"it ended with {code}: {self.printed[-1000:]}")
        elif code == 128 + number and not self.printed.endswith(_REPORTED):
            self._find(f"it printed {self.printed[-1000:]!r}")
        if "Traceback" in self.printed and not (moment < _BEGUN and "/judge/" not in self.printed):
            self._find(self.printed[-2000:])

    def _finish(self) -> None:
        """Run the same command once more: it must make what was expected, and leave nothing else."""
        code = self._code(self._start())
        # Temporary files of a library or of ours stay if SIGKILL met their writing.
        found = {name: one for name, one in tree(self.place).items() if ".judge-" not in name or name in self.expected}
        different = differing(found, self.expected)
        # An output that was complete when the command was killed is refused.
        if code != 0 and (different or ("another " not in self.printed and "is there already" not in self.printed)):
            self._find(f"given again it ended with {code}: {self.printed[-1000:]}")
        if different:
            self._find(f"given again it made others: {', '.join(different)}")

    def _find(self, what: str) -> None:
        self.findings.append(f"{self.name}, {self.how}: {what}")

    def _start(self) -> subprocess.Popen[str]:
        """Start the command in a session of its own; what it prints is in a file."""
        environment = os.environ | {"TMPDIR": str(self.writers.temp)}
        with (self.writers.root / "printed").open("wb") as printed:
            return start(*self.command, env=environment, stdout=printed, stderr=printed, start_new_session=True)

    def _code(self, process: subprocess.Popen[str]) -> int:
        """Wait for the exit code; ``printed`` is what the command printed."""
        try:
            process.wait(LATEST + 5 * self.seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            self._find("it did not end")
        self.printed = (self.writers.root / "printed").read_text(errors="replace")
        return process.returncode


def _members(session: int) -> list[psutil.Process]:
    """Processes of a session."""
    found = []
    for process in psutil.process_iter():
        with suppress(ProcessLookupError, psutil.NoSuchProcess):
            if os.getsid(process.pid) == session and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found
