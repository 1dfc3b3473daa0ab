"""Signals that end a command (Ctrl-C, SIGTERM, SIGHUP), and standard output that is closed or full."""

import io
import os
import signal
import sys
import time
from types import FrameType
from typing import Any, TextIO

from judge.utils.launch import is_main_process, launched

_ENDING = signal.SIGINT, signal.SIGTERM, signal.SIGHUP
_AGAIN = 1.0  # Seconds. A second signal that comes sooner is ignored: a terminal and a launcher both send one.
_first: tuple[int, float] | None = None  # The signal that came first, and when.


class Interrupted(KeyboardInterrupt):
    """A signal ended the command; its argument is the signal's number."""


def handle_signals() -> None:
    """Let the first signal that is not ignored raise :class:`Interrupted`, and a second one end the process at once."""
    for number in _ENDING:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _handle)


def reset_signals() -> None:
    """Let a signal end this process at once: it has nothing more to do."""
    for number in _ENDING:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)


def ignore_signals() -> None:
    """Ignore signals in a worker: its parent gets them too, and ends it."""
    for number in _ENDING:
        signal.signal(number, signal.SIG_IGN)


def interrupted_by(error: BaseException) -> int | None:
    """The signal behind ``error``, if any. Libraries that are interrupted may raise errors of their own."""
    if _first is not None:
        return _first[0]
    return signal.SIGINT if isinstance(error, KeyboardInterrupt) else None


def report_interrupt(number: int) -> None:
    """Print one line on standard error; one for all processes of a launch."""
    what = "interrupted"
    if launched() and number == signal.SIGTERM:
        # A launcher sends it to all processes when one has ended.
        what = "ended by the launcher, by a signal to it or because another process has ended (did memory run out?)"
    if is_main_process():
        sys.stderr.write(f"judge: {what}; give the same command again\n")
        sys.stderr.flush()


def _handle(number: int, _: FrameType | None) -> None:
    """Raise the first signal. In a launch the launcher ends processes that do not end by themselves."""
    global _first  # noqa: PLW0603 - signals are the process's
    if _first is None:
        _first = number, time.monotonic()
        raise Interrupted(number)
    if time.monotonic() - _first[1] > _AGAIN and not launched():
        os._exit(128 + number)


class _Tolerant(io.FileIO):
    """A file that remembers the first error of writing, and drops everything after it."""

    fault: OSError | None = None

    def write(self, data: Any, /) -> int:
        if self.fault is None:
            try:
                return super().write(data)
            except BlockingIOError:
                raise
            except OSError as error:
                self.fault = error
        return memoryview(data).nbytes


_guards: dict[str, _Tolerant] = {}


def guard_streams() -> None:
    """Let nothing fail because standard output or error is closed or full; see :func:`output_fault`."""
    for number, name in ((1, "stdout"), (2, "stderr")):
        before: TextIO | None = getattr(sys, name)
        if before is None:  # Closed by whoever started the command.
            raw = _Tolerant(os.devnull, "w")
            raw.fault = OSError(9, "it is closed")
            encoding, errors = "utf-8", "backslashreplace"
        else:
            before.flush()
            raw = _Tolerant(number, "w", closefd=False)
            encoding, errors = before.encoding, before.errors or "strict"
        _guards[name] = raw
        lines = before is None or name == "stderr" or raw.isatty()
        text = io.TextIOWrapper(io.BufferedWriter(raw), encoding=encoding, errors=errors, line_buffering=lines)
        setattr(sys, name, text)


def output_fault() -> OSError | None:
    """Why standard output could not be written; None if it could."""
    sys.stdout.flush()
    return _guards["stdout"].fault if _guards else None
