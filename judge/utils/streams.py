"""Standard output and error that may be closed, or full: the work goes on, and what could not be printed is told."""

from __future__ import annotations

import io
import os
import sys
from typing import Any, TextIO


class _Forgiving(io.FileIO):
    """A file that remembers the first fault of writing, and takes everything from then on."""

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


_kept: dict[str, _Forgiving] = {}


def guard_streams() -> None:
    """From now on nothing fails since standard output or error is closed or full; see :func:`output_fault`."""
    sys.stdout, sys.stderr = _guarded("stdout", 1), _guarded("stderr", 2)


def _guarded(name: str, number: int) -> TextIO:
    before: TextIO | None = getattr(sys, name)
    if before is None:  # Closed by whoever started the command.
        raw = _Forgiving(os.devnull, "w")
        raw.fault = OSError(9, "it is closed")
        encoding, errors = "utf-8", "backslashreplace"
    else:
        before.flush()
        raw = _Forgiving(number, "w", closefd=False)
        encoding, errors = before.encoding, before.errors or "strict"
    _kept[name] = raw
    buffered = before is not None and name == "stdout" and not raw.isatty()
    return io.TextIOWrapper(io.BufferedWriter(raw), encoding=encoding, errors=errors, line_buffering=not buffered)


def output_fault() -> OSError | None:
    """Why what was printed on standard output did not get there; None if it did."""
    raw = _kept.get("stdout")
    if raw is None:
        return None
    sys.stdout.flush()
    return raw.fault
