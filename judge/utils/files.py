"""Files that appear whole or not at all, cache files that may be damaged, and errors of the system as one line."""

import errno
import json
import logging
import os
import re
import shutil
import socket
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from judge.errors import FAULTS, JudgeError, lack_of_memory
from judge.utils.reading import NotRegularError, read_bytes

LOG = "log.jsonl"
TEMPORARY = ".judge-"  # Begins the names of locks and of files that are being written.
_MEND = "name a folder that you own, on a disk with room"
_FULL_OR_FOREIGN = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS}
_TOO_MANY_OPEN = {errno.EMFILE, errno.ENFILE}
_FEWER = "raise the limit (ulimit -n), or use fewer --workers; then give the same command again"
_CHECK = "check its permissions and its disk; then give the same command again"
_ANY_SIZE = 2**50
_SURROGATE = re.compile("[\ud800-\udfff]")
_logger = logging.getLogger("judge")


@contextmanager
def writing(where: str | Path, mend: str = _MEND) -> Iterator[None]:
    """Turn errors of writing into one line for the user."""
    try:
        yield
    except JudgeError:
        raise
    except Exception as error:
        if (fault := _system_error(error)) is None:
            raise
        mend = "choose a shorter name" if fault.errno == errno.ENAMETOOLONG else mend
        raise JudgeError(f"cannot be written ({fault.strerror})", where=str(where), mend=mend) from error


def _system_error(error: BaseException) -> OSError | None:
    """The error of the system behind ``error``; libraries in Rust, such as safetensors, wrap it."""
    if isinstance(error, OSError):
        return error
    wrapped = re.search(r"\(os error (\d+)\)$", str(error))
    return OSError(int(wrapped[1]), os.strerror(int(wrapped[1]))) if wrapped else None


def as_mendable(error: BaseException, where: str) -> JudgeError | None:
    """The message for an ``error`` that the user can mend, of work on ``where``; None for a fault of the program."""
    if isinstance(error, JudgeError):
        return error
    if lack := lack_of_memory(error):
        return lack
    fault = _system_error(error)
    if fault is None or fault.errno is None or isinstance(fault, ConnectionError):
        return None
    if isinstance(fault, socket.gaierror):
        return JudgeError(f"a server cannot be found ({fault.strerror})", mend="check the connection")
    if fault.errno in _TOO_MANY_OPEN:
        return JudgeError(f"no more files can be opened ({fault.strerror})", mend=_FEWER)
    what, mend = f"cannot be read or written ({fault.strerror})", _CHECK
    if fault.errno == errno.ENAMETOOLONG:
        what, mend = "the name is too long", "choose a shorter one"
    elif fault.errno in _FULL_OR_FOREIGN:
        what, mend = f"{'' if where else 'a file '}cannot be written ({fault.strerror})", _MEND
    elif isinstance(fault.filename, str):
        where = fault.filename
    return JudgeError(what, where=where, mend=mend)


def with_way_on(error: JudgeError, command: str, place: str) -> JudgeError:
    """``error`` with the advice to give the same command again, which continues from what is finished."""
    go_on = f"the same command ({command} ... {place}) goes on from what is finished"
    mend = error.mend.removesuffix("; then give the same command again")
    # Another folder would hold nothing to go on from.
    mend = "make room on its disk, or see to its permissions" if mend == _MEND else mend
    return JudgeError(error.what, where=error.where, mend=f"{mend}; then {go_on}" if mend else go_on)


@contextmanager
def beside(path: Path) -> Iterator[Path]:
    """A file to write, renamed to ``path`` at the end: readers see the old file or the new one, never half of it."""
    with tempfile.TemporaryDirectory(prefix=TEMPORARY, dir=path.parent, ignore_cleanup_errors=True) as folder:
        written = Path(folder) / "written"
        yield written
        with written.open("rb+") as file:
            os.fsync(file.fileno())
        written.replace(path)


def write_whole(path: Path, data: bytes) -> None:
    """Write a file whole or not at all; see :func:`beside`."""
    with beside(path) as written:
        written.write_bytes(data)


def check_writable(folder: Path) -> None:
    """Make a folder in ``folder``, and remove it; an OSError if that cannot be done."""
    with tempfile.TemporaryDirectory(prefix=TEMPORARY, dir=folder):
        pass


def remove(path: Path) -> None:
    """Remove a file, or a folder and all that is in it; errors are ignored."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()


def remove_empty(folders: Iterable[Path]) -> None:
    """Remove the folders that hold nothing."""
    for folder in folders:
        with suppress(OSError):
            folder.rmdir()


def append(log: Path, event: str, **facts: Any) -> None:
    """Append one line to a log: time (seconds since 1970), event, facts."""
    with log.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"time": round(time.time(), 3), "event": event, **facts}) + "\n")


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Turn an error of reading a cache file that may be whole into one line; if it is absent, FileNotFoundError."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        raise as_mendable(error, str(path)) or error from error


def warn_damaged(path: Path, what: str = "damaged") -> None:
    """Warn that a cache file cannot be used and is computed again."""
    more = "more cache files are computed again"
    _logger.warning("%s is %s: it is computed again", path, what, extra={"more": more})


def read_json_cache(path: Path) -> list[Any] | None:
    """The list in a JSON cache file; None if there is none, or if it is damaged, of which the user is warned."""
    found = None
    try:
        with readable(path), suppress(NotRegularError, IsADirectoryError, *FAULTS):
            found = json.loads(read_bytes(path, _ANY_SIZE))
    except FileNotFoundError:
        return None
    if not isinstance(found, list):
        warn_damaged(path)
    return found if isinstance(found, list) else None


def read_json_lines(path: Path) -> list[Any]:
    """The values of a file of JSON lines, none if it is absent; lines that a killed command has cut are left out."""
    lines, found = list[bytes](), list[Any]()
    with suppress(FileNotFoundError):
        lines = read_bytes(path, _ANY_SIZE).split(b"\n")[:-1]  # The last one ends in no line break: it was cut.
    for line in lines:
        with suppress(*FAULTS):
            found.append(json.loads(line))
    if len(found) < len(lines):
        warn_damaged(path, f"damaged in {len(lines) - len(found)} of {len(lines)} lines")
    return found


def is_encodable(text: str) -> bool:
    """Whether ``text`` can be written as UTF-8; half of a surrogate pair (JSON allows one) cannot."""
    return not _SURROGATE.search(text)


def check_names(value: object, *, where: str = "") -> None:
    """Refuse paths and names that are not UTF-8, at any depth of ``value``: files of results could not hold them."""
    if isinstance(value, Mapping):
        value = (*value, *value.values())
    if isinstance(value, str | Path) and not is_encodable(str(value)):
        raise JudgeError(f"'{value}' is not UTF-8", where=where, mend="rename it, or name a place without such bytes")
    if isinstance(value, list | tuple | set | frozenset):
        for part in value:
            check_names(part, where=where)


def resolved(path: Path) -> Path:
    """The absolute path, links followed; links in a circle, at which ``Path.resolve`` fails, are refused."""
    found = Path(os.path.realpath(path))
    try:
        found.stat()
    except OSError as error:
        if error.errno == errno.ELOOP:
            what, mend = "is a link to itself", "remove it, or name another place"
            raise JudgeError(what, where=str(path), mend=mend) from None
    return found  # Any other fault is reported when the file is opened.


def from_home(path: str) -> Path:
    """A path with ``~`` expanded; an unknown user's stays, where ``Path.expanduser`` raises RuntimeError."""
    return Path(os.path.expanduser(path))  # noqa: PTH111 - see above


def split_name(entry: str) -> tuple[str, str]:
    """The name and the text of ``NAME=TEXT``; "" and the whole of any other text.

    A path may hold "=" too: it stays whole if it exists and what follows its "=" does not, or if a separator stands
    before its "=" ("./lr=0.1/captions.json").
    """
    name, equals, text = entry.partition("=")
    # Only the first folders are looked up: the file may not exist yet.
    whole, rest = (os.path.lexists(path.partition(os.sep)[0] or os.sep) for path in (entry, text))
    is_path = os.sep in name or (whole and not rest)
    return (name, text) if name and equals and not is_path else ("", entry)
