"""Signals that ask a command to end: Ctrl-C, a scheduler's or the system's SIGTERM, a terminal that closes."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from contextlib import suppress
from types import FrameType
from typing import Any

from judge.utils.launch import fault_told, is_main_process, launched, shared_store, tells_fault

_ENDING = signal.SIGINT, signal.SIGTERM, signal.SIGHUP
# A second signal that comes sooner is the same wish: a terminal and whatever passes signals on both send one.
_AGAIN = 1.0
_SOON, _IMPORT = 0.1, 10.0  # An import that goes on is asked for its end as often, and waited for as long.
_first: tuple[int, float] | None = None
_reminding = False
_reminder: threading.Timer | None = None


class Interrupted(KeyboardInterrupt):
    """The command was asked to end; its argument is the signal's number."""


def heed_signals() -> None:
    """From now on the first signal raises :class:`Interrupted` in the main thread; a second ends the process at once.

    Where that thread imports, the first one waits for the import, 10 s at most.
    What was told to ignore a signal (``nohup``, the background of a shell) goes on ignoring it.
    """
    sys.unraisablehook = _unraised
    for number in _ENDING:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _heed)


def leave_signals() -> None:
    """From now on a signal ends this process at once, as is the system's way: it has nothing more to do."""
    if _reminder is not None:
        _reminder.cancel()
    for number in _ENDING:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)


def ignore_signals() -> None:
    """In a worker: its parent gets them too, and ends it."""
    for number in _ENDING:
        signal.signal(number, signal.SIG_IGN)


def interrupted_by(error: BaseException) -> int | None:
    """The signal that ``error`` comes of, if any: libraries in the middle of an import raise errors of their own."""
    if _first is not None:
        return _first[0]
    return signal.SIGINT if isinstance(error, KeyboardInterrupt) else None


def tell_interrupt(number: int) -> None:
    """One line on standard error; of a launch, one line in all."""
    told = "interrupted"
    if launched() and number == signal.SIGTERM:
        # A launcher sends it to all when one has ended, too: the main process, or before they have met one unknown.
        tells = tells_fault() if is_main_process() or shared_store() is not None else False
        told = "ended by the launcher, as it was told or as another process has ended (did memory run out?)"
    else:
        tells = is_main_process()
    if not tells:
        return
    sys.stderr.write(f"judge: {told}; give the same command again\n")
    sys.stderr.flush()
    fault_told()


def _heed(number: int, frame: FrameType | None) -> None:
    """Raise; but never within an import, of which C++ that calls Python (torch's does) would abort the process."""
    global _first, _reminding  # noqa: PLW0603 - signals are the process's
    if _first is None or _reminding:
        known, _reminding = _first is not None, False
        _first = _first or (number, time.monotonic())
        if known and _is_ending():
            return
        importing = _is_importing(frame) and time.monotonic() - _first[1] < _IMPORT
        _remind(number, _SOON if importing else _AGAIN)
        if not importing:
            raise Interrupted(number)
        return
    # A launcher that has sent one sends SIGTERM, and much later SIGKILL.
    if time.monotonic() - _first[1] > _AGAIN and not launched():
        os._exit(128 + number)


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None and frame.f_code.co_filename != "<frozen importlib._bootstrap>":
        frame = frame.f_back
    return frame is not None


def _remind(number: int, seconds: float = _AGAIN) -> None:
    """Some libraries drop whatever is raised in what they call: the interrupt is raised again, a little later."""
    global _reminder  # noqa: PLW0603

    def again() -> None:
        global _reminding  # noqa: PLW0603
        _reminding = True
        # Wakes the main thread wherever it waits.
        signal.pthread_kill(threading.main_thread().ident or 0, number)

    _reminder = timer = threading.Timer(seconds, again)
    timer.daemon = True
    with suppress(RuntimeError):  # The interpreter is ending, and with it this process.
        timer.start()


def _is_ending() -> bool:
    """Whether the main thread, in which signals are heeded, is cleaning up after an interrupt."""
    error = sys.exception()
    while error is not None and not isinstance(error, Interrupted):
        error = error.__context__
    return error is not None


def _unraised(unraisable: Any) -> None:
    """Python drops what is raised while it cleans up after an object: the interrupt is raised again, a little later."""
    global _first  # noqa: PLW0603
    if not isinstance(unraisable.exc_value, Interrupted):
        sys.__unraisablehook__(unraisable)
        return
    _first = None
    _remind(unraisable.exc_value.args[0])
