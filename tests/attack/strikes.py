"""Commands that end themselves at one of their steps on the disk: each folder made, file opened, renamed or removed."""

from __future__ import annotations

import importlib
import os
import pkgutil
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import judge.commands
from attack.kills import SIGNALS, Attack
from judge.__main__ import main

STEP = "itself, at a step"
_STEPS = {"os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.truncate"}
_LIBRARIES = "torch sklearn.linear_model transformers cv2 timm pyarrow.parquet matplotlib.figure judge.commands.app"


def load() -> None:
    """Import what commands need: they are forked off, which takes no time."""
    for name in _LIBRARIES.split():
        importlib.import_module(name)
    for module in pkgutil.iter_modules(judge.commands.__path__, "judge.commands."):
        importlib.import_module(module.name)


class Forked:
    """A command in a fork of this process; of :class:`subprocess.Popen` as much as is needed."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None

    def wait(self, timeout: float) -> None:
        """Until it ends."""
        deadline = time.monotonic() + timeout
        while self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
            elif time.monotonic() > deadline:
                raise subprocess.TimeoutExpired(str(self.pid), timeout)
            else:
                time.sleep(0.002)


class Struck(Attack):
    """Signals at steps of one command; see :class:`Attack`.

    Attributes:
        steps: how many it makes where nothing disturbs it.
    """

    def __init__(self, name: str, folder: Path) -> None:
        load()
        self.number, self.which = 0, ""
        super().__init__(name, folder)
        self.steps = int((folder / "steps").read_text())

    def kill(self, which: str, whom: str, shares: Sequence[float]) -> int:
        """As of every attack, but at shares of the steps; ``whom`` is itself."""
        numbers = [1 + int(share * self.steps) for share in shares]
        how, kills = f"{which} at step {' and '.join(map(str, numbers))} of {self.steps}", 0
        self.which = which
        with self._place() as place:
            for self.number in numbers:
                process: Any = self._start(place)
                self._check(process, which, 60, place, how)
                kills += process.returncode != 0
            self.number = 0
            self._refused(place, how)
            self._finish(place, how)
        return kills

    def _start(self, place: Path) -> Any:
        sys.stdout.flush()
        if pid := os.fork():
            return Forked(pid)
        code = 1
        try:
            os.setsid()
            self._begin(place)
            main(*shlex.split(self.case.line.replace("--workers 2", "--workers 1")))
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
        except BaseException:
            import traceback

            traceback.print_exc()
        finally:
            with suppress(OSError):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(code)

    def _begin(self, place: Path) -> None:
        """In the fork."""
        told = os.open(place.parent / "told", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(told, 1)
        os.dup2(told, 2)
        os.chdir(place)
        tempfile.tempdir = os.environ["TMPDIR"] = str(place.parent / "temporary")
        signal.signal(signal.SIGINT, signal.default_int_handler)
        sys.addaudithook(_counting(self.number, SIGNALS.get(self.which), place))


def _counting(number: int, ends_by: int | None, place: Path) -> Callable[[str, tuple[Any, ...]], None]:
    """An audit hook: sends this process a signal at its step of this number; 0 counts them, into a file ``steps``."""
    done, roots = 0, tuple(str(place.with_name(name)) for name in (place.name, "temporary"))
    counter = -1 if number else os.open(place.parent / "steps", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)

    def hook(event: str, given: tuple[Any, ...]) -> None:
        nonlocal done
        writes = event == "open" and isinstance(given[2], int) and bool(given[2] & (os.O_WRONLY | os.O_RDWR))
        if not (writes or event in _STEPS) or not isinstance(given[0], str | Path):
            return
        path = os.path.abspath(given[0])  # noqa: PTH100 - nothing is opened here.
        if not path.startswith(roots):
            return
        done += 1
        if not number:
            os.pwrite(counter, str(done).encode(), 0)
        if done == number and ends_by:
            done += 1  # Its own opening is no step.
            if writes and given[2] & os.O_CREAT and ends_by == signal.SIGKILL:
                os.close(os.open(path, given[2], 0o666))  # Between opening and writing.
            os.kill(os.getpid(), ends_by)

    return hook
