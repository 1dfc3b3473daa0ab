"""Commands that are killed at any moment, and given again: what they make is then as if nothing had happened."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import count, product
from pathlib import Path

import psutil

from attack.writers import Writers, differing, states, tree

SIGNALS = {"SIGKILL": signal.SIGKILL, "SIGTERM": signal.SIGTERM, "SIGINT": signal.SIGINT}
WHOM = "group", "parent"
SOON, LATEST = 5.0, 120.0
"""Seconds in which a killed command's processes must end once it has, and in which it must have ended itself."""
COSTLY = {"demo", "calibrate", "train-seen"}
_BEGUN = 1.0  # Seconds in which Python itself may still be starting: a signal is then answered by Python.
_REPORTED = "judge: interrupted; give the same command again\n"


@dataclass(frozen=True)
class Finding:
    """What a command did that it must not; ``how``: signal, whom, and the seconds before each kill."""

    command: str
    how: str
    what: str


class Attack:
    """Kills of one command; the command is let through once, to know what it makes.

    Args:
        name: of ``writers.commands()``.
        writers: with the inputs of commands.
    """

    def __init__(self, name: str, writers: Writers) -> None:
        self.name, self.writers, self.place = name, writers, writers.place
        words = writers.commands()[name]
        two = [2 if before == "--workers" else word for before, word in zip([None, *words], words, strict=False)]
        self.command = [sys.executable, "-m", "judge", *map(str, two)]
        self.findings: list[Finding] = []
        self.seconds, began = LATEST, time.monotonic()
        writers.reset()
        assert self._code(self._start()) == 0, self.printed
        self.seconds, self.expected = time.monotonic() - began, tree(self.place)

    def kill(self, which: str, whom: str, shares: Sequence[float]) -> int:
        """Kill the command at shares of the time that it takes, one after the other, then let it end; how often it was.

        Args:
            which: of ``SIGNALS``.
            whom: of ``WHOM``: all its processes, or the command alone.
        """
        moments = [max(0.3, share * self.seconds) for share in shares]
        how = f"{which} to the {whom} after {', '.join(f'{moment:.2f} s' for moment in moments)}"
        self.writers.reset()
        foreign, kills = states(self.place), 0
        for moment in moments:
            process = self._start()
            with suppress(subprocess.TimeoutExpired):
                process.wait(moment)
            if process.poll() is not None:
                self._code(process)
                break
            send = os.killpg if whom == "group" else os.kill
            send(process.pid, SIGNALS[which])
            kills += 1
            self._check(process, which, moment, how)
            if foreign.items() - states(self.place).items():
                self._find(how, "a file of others was changed")
        self._finish(how)
        return kills

    def _check(self, process: subprocess.Popen[bytes], which: str, moment: float, how: str) -> None:
        """How a command ended that was killed, its processes too."""
        code, left = self._code(process), _members(process.pid)
        _, alive = psutil.wait_procs(left, timeout=SOON)
        for one in alive:
            with suppress(psutil.NoSuchProcess):
                self._find(how, f"a process outlived it by {SOON} s: {' '.join(one.cmdline())[:200]}")
                one.kill()
        number = SIGNALS[which]
        whole = moment < _BEGUN or not differing(tree(self.place), self.expected)
        ends = {-number} if which == "SIGKILL" else {128 + number}
        if code not in ends and not (whole and code in {0, -number}):
            self._find(how, f"it ended with {code}: {self.printed[-1000:]}")
        elif code == 128 + number and not self.printed.endswith(_REPORTED):
            self._find(how, f"it printed {self.printed[-1000:]!r}")
        if "Traceback" in self.printed and not (moment < _BEGUN and "/judge/" not in self.printed):
            self._find(how, self.printed[-2000:])

    def _finish(self, how: str) -> None:
        """The same command once more: what it makes must be what was expected, and nothing else be left."""
        code = self._code(self._start())
        # Temporary files of a library or of ours stay if SIGKILL met their writing.
        found = {name: one for name, one in tree(self.place).items() if ".judge-" not in name or name in self.expected}
        different = differing(found, self.expected)
        # An output that was complete when the command was killed is refused.
        if code != 0 and (different or ("another " not in self.printed and "is there already" not in self.printed)):
            self._find(how, f"given again it ended with {code}: {self.printed[-1000:]}")
        if different:
            self._find(how, f"given again it made others: {', '.join(different)}")

    def _find(self, how: str, what: str) -> None:
        self.findings.append(Finding(self.name, how, what))

    def _start(self) -> subprocess.Popen[bytes]:
        """The command, in a session of its own."""
        environment = os.environ | {"TMPDIR": str(self.writers.temp)}
        # What is in the background of a shell ignores Ctrl-C, and so would what it starts.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        with (self.writers.root / "printed").open("wb") as printed:
            process = subprocess.Popen(
                self.command, env=environment, stdout=printed, stderr=printed, start_new_session=True
            )
        signal.signal(signal.SIGINT, before)
        return process

    def _code(self, process: subprocess.Popen[bytes]) -> int:
        """With which it ends, in time; what it printed meanwhile is in ``printed``."""
        try:
            process.wait(LATEST + 5 * self.seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            self._find("", "it did not end")
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


def long_form(seed: int, end: float, names: Sequence[str]) -> int:
    """Kill commands until ``end``, three times one after the other before each is let through; print a line a command.

    Each signal goes to all processes of a command, or to it alone, at moments drawn by the seed.
    """
    kills, found, began = Counter[str](), 0, time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        writers = Writers(Path(folder, "root"))
        writers.prepare()
        attacks = {name: Attack(name, writers) for name in names or writers.commands().keys() - COSTLY}
        end += time.monotonic() - began  # Undisturbed runs take none of the time.
        plan = (one for turn in count() for one in product([turn], SIGNALS, WHOM, sorted(attacks)))
        for turn, which, whom, name in plan:
            if time.monotonic() > end:
                break
            rng, attack = random.Random(f"{seed} {turn} {name} {which} {whom}"), attacks[name]
            before = len(attack.findings)
            kills[name] += attack.kill(which, whom, [rng.random() for _ in range(3)])
            found += len(attack.findings) > before
            for one in attack.findings[before:]:
                print(f"FOUND {one.command}, {one.how}: {one.what}\n", flush=True)
    print("| command | kills |\n| --- | --: |")
    print("".join(f"| {name} | {kills[name]} |\n" for name in attacks))
    print(f"{kills.total()} kills, {found} with findings; seed {seed}")
    return found
