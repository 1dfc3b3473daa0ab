"""Faults of the file system: the n-th operation below a folder fails, or all from the n-th on, in this process.

Operations are those of Python (``open``, reads and writes of its files, ``os.mkdir`` ...) and files of safetensors,
which are written in Rust. What C++ writes (pyarrow) meets its faults on a small disk alone.
"""

from __future__ import annotations

import builtins
import errno
import io
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal
from unittest.mock import patch

import safetensors
import safetensors.numpy
import safetensors.torch

Fault = tuple[str, str, int]
"""Kind of operation, path, number of the error."""
Disk = Literal["once", "full", "read-only", "gone"]
"""What becomes of the disk: one fault; from then on no room; nothing can be changed; nothing works."""
CODES = {
    **dict.fromkeys(("write", "close", "fsync"), (errno.ENOSPC, errno.EIO)),
    **dict.fromkeys(("make", "mkdir", "rename"), (errno.ENOSPC, errno.EIO, errno.EROFS, errno.EACCES)),
    **dict.fromkeys(("unlink", "rmdir"), (errno.EIO, errno.EROFS, errno.EACCES)),
    **dict.fromkeys(("open", "list", "stat"), (errno.EIO, errno.EACCES)),
    "read": (errno.EIO,),
}
"""Kind of operation -> what the system may say of it."""
LASTING: dict[Disk, tuple[int, tuple[str, ...]]] = {
    "full": (errno.ENOSPC, ("write", "make", "mkdir")),
    "read-only": (errno.EROFS, ("write", "make", "mkdir", "rename", "unlink", "rmdir")),
    "gone": (errno.EIO, tuple(CODES)),
}


class Faults:
    """Counts the operations below ``root``; lets the one of number ``at`` fail, or what ``disk`` says from it on.

    Attributes:
        seen: the kind of each, its path, and which lines of the package asked for it, in turn.
        met: the fault, where one was met.
    """

    def __init__(
        self,
        root: Path,
        *,
        at: int = -1,
        disk: Disk = "once",
        choose: Callable[[str], int] = lambda kind: CODES[kind][0],
    ) -> None:
        self.root, self.at, self.disk, self.choose = os.path.realpath(root), at, disk, choose
        self.seen: list[tuple[str, str, str]] = []
        self.met: Fault | None = None
        self._lock = threading.Lock()

    def below(self, path: Any) -> str | None:
        """The absolute path if it is below the root."""
        if not isinstance(path, str | os.PathLike):
            return None
        found = os.path.abspath(os.fsdecode(path))  # noqa: PTH100 - of every path of the process; it asks no disk
        return found if found.startswith(self.root + "/") else None

    def fault(self, kind: str, path: Any) -> OSError | None:
        """The error of an operation, or None."""
        if (found := self.below(path)) is None:
            return None
        with self._lock:
            number = len(self.seen)
            self.seen.append((kind, found, _site()))
            once = self.disk == "once"
            code, kinds = (0, (kind,)) if once else LASTING[self.disk]
            if not 0 <= self.at <= number or (once and number > self.at) or kind not in kinds:
                return None
            code = code or self.choose(kind)
            self.met = self.met or (kind, found, code)
            return OSError(code, os.strerror(code), found)

    def check(self, kind: str, path: Any) -> None:
        """Raise the error of an operation."""
        if fault := self.fault(kind, path):
            raise fault


def _site() -> str:
    """The three innermost lines of the package that are under way."""
    found: list[str] = []
    frame = sys._getframe()
    while frame and len(found) < 3:
        if f"{os.sep}judge{os.sep}" in frame.f_code.co_filename:
            found.append(f"{Path(frame.f_code.co_filename).stem}:{frame.f_lineno}")
        frame = frame.f_back
    return " ".join(found)


class _Raw(io.FileIO):
    """A file whose reads and writes may fail; of a write that does half is done."""

    faults: Faults
    place: str

    def readinto(self, buffer: Any, /) -> Any:
        self.faults.check("read", self.place)
        return super().readinto(buffer)

    def readall(self) -> bytes:
        self.faults.check("read", self.place)
        return super().readall()

    def write(self, data: Any, /) -> Any:
        if fault := self.faults.fault("write", self.place):
            super().write(memoryview(data)[: memoryview(data).nbytes // 2])
            raise fault
        return super().write(data)

    def close(self) -> None:
        if self.closed:
            return
        fault = self.faults.fault("close", self.place) if self.writable() else None
        super().close()
        if fault:
            raise fault


def _opening(faults: Faults) -> Callable[..., Any]:
    real = io.open

    def opened(  # noqa: PLR0917 - as of the real one
        file: Any, mode: str = "r", buffering: int = -1, encoding: Any = None, errors: Any = None,
        newline: Any = None, closefd: bool = True, opener: Any = None,
    ) -> Any:  # fmt: skip
        if (place := faults.below(file)) is None:
            return real(file, mode, buffering, encoding, errors, newline, closefd, opener)
        writes = not set(mode).isdisjoint("wax+")
        faults.check("make" if writes else "open", file)
        raw = _Raw(file, mode.replace("b", "").replace("t", ""), closefd, opener)
        raw.faults, raw.place = faults, place
        if buffering == 0:
            return raw
        kind: Any = io.BufferedRandom if "+" in mode else io.BufferedWriter if writes else io.BufferedReader
        return kind(raw) if "b" in mode else io.TextIOWrapper(kind(raw), encoding, errors, newline, buffering == 1)

    return opened


def _checked(faults: Faults, name: str, kind: str) -> Any:
    """One of the functions of ``os``; paths relative to an open folder become whole."""
    real = getattr(os, name)

    def call(path: Any = ".", *rest: Any, **how: Any) -> Any:
        folder = how.get("dir_fd")
        place = path if folder is None else f"{Path(f'/proc/self/fd/{folder}').readlink()}/{os.fsdecode(path)}"
        if isinstance(path, int):
            place = Path(f"/proc/self/fd/{path}").readlink() if name in {"fsync", "scandir"} else None
        writes = name == "open" and rest and rest[0] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        faults.check("make" if writes else kind, place)
        return real(path, *rest, **how)

    return call


def _saving(faults: Faults, module: Any) -> Any:
    real = module.save_file

    def save(tensors: Any, path: Any, *rest: Any, **how: Any) -> None:
        if fault := faults.fault("write", path):
            Path(path).write_bytes(b"half")
            raise safetensors.SafetensorError(
                f"Error while serializing: I/O error: {fault.strerror} (os error {fault.errno})"
            )
        real(tensors, path, *rest, **how)

    return save


_KINDS = {
    "open": "open", "mkdir": "mkdir", "rmdir": "rmdir", "unlink": "unlink", "remove": "unlink", "rename": "rename",
    "replace": "rename", "link": "rename", "fsync": "fsync", "listdir": "list", "scandir": "list", "stat": "stat",
}  # fmt: skip


@contextmanager
def injected(faults: Faults) -> Iterator[Faults]:
    """Operations of this process go through ``faults`` meanwhile."""
    opened = _opening(faults)
    patches = [patch.object(where, "open", opened) for where in (builtins, io)]
    patches += [patch.object(os, name, _checked(faults, name, kind)) for name, kind in _KINDS.items()]
    patches += [patch.object(of, "save_file", _saving(faults, of)) for of in (safetensors.numpy, safetensors.torch)]
    for one in patches:
        one.start()
    try:
        yield faults
    finally:
        for one in patches:
            one.stop()
