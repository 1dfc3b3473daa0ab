"""Signals that end a command (Ctrl-C, SIGTERM, SIGHUP), and standard output that is closed or full."""

import io
import os
import signal
import sys
import time
from threading import Timer
from types import FrameType
from typing import Any, TextIO

from judge.utils.launch import is_main_process, launched

_ENDING = signal.SIGINT, signal.SIGTERM, signal.SIGHUP
_AGAIN = 1.0  # Seconds. A second signal that comes sooner is ignored: a terminal and a launcher both send one.
_SOON = 0.05  # Seconds until a signal whose exception was lost is sent again: what lost it has ended by then.
_first: tuple[int, float] | None = None  # The signal that came first, and when.


class Interrupted(KeyboardInterrupt):
    """A signal ended the command; its argument is the signal's number."""


def handle_signals() -> None:
    """Let the first signal raise :class:`Interrupted` in the main thread, and a second one end the process at once.

    Signals that the process was started to ignore (``nohup``, the background of a shell) stay ignored.
    """
    for number in _ENDING:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _handle)
    sys.unraisablehook = _send_again


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


def _send_again(lost: Any) -> None:
    """Send a signal again that came in a finaliser, or a callback of a weak reference: exceptions are lost there."""
    global _first  # noqa: PLW0603 - signals are the process's
    if not isinstance(lost.exc_value, Interrupted):
        sys.__unraisablehook__(lost)
        return
    _first = None
    again = Timer(_SOON, os.kill, (os.getpid(), lost.exc_value.args[0]))
    again.daemon = True
    again.start()


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
    raw = _guards.get("stdout")
    if raw is None:
        return None
    sys.stdout.flush()
    return raw.fault
