"""How every file that is read is opened: never a pipe, a device or a socket, which would be waited for or never end."""

from __future__ import annotations

import errno
import io
import os
import stat
from pathlib import Path
from typing import BinaryIO

from judge.utils.limits import file_limit, memory_limit, refuse_large


class NotRegularError(OSError):
    """A pipe, a device or a socket."""

    def __init__(self, path: Path) -> None:
        super().__init__(errno.EINVAL, "it is not a regular file", str(path))


def regular(path: Path) -> Path:
    """``path``, for libraries that open it themselves.

    Raises:
        OSError: it is absent, or no regular file.
    """
    open_regular(path).close()
    return path


def open_regular(path: Path) -> io.BufferedReader:
    """Open a file to read its bytes.

    Raises:
        OSError: it cannot be opened; a folder, a pipe, a device.
    """
    file = open(path, "rb", opener=_without_waiting)  # noqa: SIM115 - the caller closes it
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise NotRegularError(path)
    return file


def _without_waiting(path: str, flags: int) -> int:
    """A named pipe is opened at once, whether anybody writes into it or not."""
    return os.open(path, flags | os.O_NONBLOCK)


def size_of(file: BinaryIO) -> int:
    """Bytes of an open file."""
    return os.fstat(file.fileno()).st_size


def read_bytes(path: Path, limit: int | None = None, instead: str = "give a smaller file") -> bytes:
    """The bytes of a file, of at most ``limit``: :func:`judge.utils.limits.file_limit` unless given.

    ``instead``: how to make it smaller.

    Raises:
        OSError: as ``open_regular``.
        JudgeError: it is larger.
    """
    with open_regular(path) as file:
        # As many times the limit of memory as the limit of the file.
        refuse_large(size_of(file) * (memory_limit() / (limit or file_limit())), str(path), instead=instead)
        return file.read()


def read_text(path: Path, errors: str = "strict") -> str:
    """The text of a file, whatever its line breaks; as ``read_bytes``.

    Raises:
        UnicodeDecodeError: it is not UTF-8.
    """
    return io.TextIOWrapper(io.BytesIO(read_bytes(path)), encoding="utf-8", errors=errors).read()
