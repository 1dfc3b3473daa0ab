"""Outputs appear whole or not at all: written beside, then renamed."""

from __future__ import annotations

import errno
import json
import os
import re
import secrets
import socket
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Any

from judge.errors import JudgeError, lack_of_memory
from judge.utils.locks import Lock, remove, remove_left, to_the_end

LOG = "log.jsonl"
TRACKING = "tracking"  # Folder of what experiment trackers write.
HALF_WRITTEN = ".judge-"  # Begins the names of files that are being written, and of folders for them.
_swept = set[Path]()  # Folders in which this process writes: looked through once.
_MEND = "name a folder that you own, on a disk with room"
_FULL_OR_FOREIGN = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS}
_NO_LINKS = {errno.EPERM, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EMLINK}  # FAT has none.
_TOO_MANY_OPEN = {errno.EMFILE, errno.ENFILE}
_FEWER = "raise the limit (ulimit -n), or let fewer work at a time (--workers 1); then give the same command again"
_CHECK = "check its permissions and its disk; then give the same command again"


@contextmanager
def writing(where: str | Path, mend: str = _MEND) -> Iterator[None]:
    """Errors of writing become one line for the user.

    Raises:
        JudgeError: a full or foreign disk, a folder that is a file.
    """
    try:
        yield
    except JudgeError:
        raise
    except Exception as error:
        if (fault := _of_system(error)) is None:
            raise
        mend = "choose a shorter name" if fault.errno == errno.ENAMETOOLONG else mend
        raise JudgeError(f"cannot be written ({fault.strerror})", where=str(where), mend=mend) from error


def _of_system(error: BaseException) -> OSError | None:
    """What the system said; libraries in Rust, such as safetensors, put it into errors of their own."""
    if isinstance(error, OSError):
        return error
    told = re.search(r"\(os error (\d+)\)$", str(error))
    return OSError(int(told[1]), os.strerror(int(told[1]))) if told else None


def as_mendable(error: BaseException, where: str) -> JudgeError | None:
    """What a user can mend of what ended a command at work on ``where``; None of a fault of the program's."""
    if isinstance(error, JudgeError):
        return error
    if lack := lack_of_memory(error):
        return lack
    fault = _of_system(error)
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


def raise_unless_gone(error: OSError) -> None:
    """For :func:`os.walk`, which else passes over folders that cannot be read; others may have removed what it lists.

    Raises:
        OSError: any other error.
    """
    if not isinstance(error, FileNotFoundError):
        raise error


def write_whole(path: Path, data: bytes, *, new: bool = False) -> None:
    """Write ``data`` beside ``path`` and rename: readers see the old file or the new one, never half of it.

    ``new``: nothing is replaced, whatever appears there meanwhile.

    Raises:
        FileExistsError: something is there, and ``new``.
    """
    with _half_written(path.parent) as written:
        written.write_bytes(data)
        _place(written, path, new=new)


@contextmanager
def beside(path: Path) -> Iterator[Path]:
    """A file to write, which is then renamed to ``path``; nothing is left of it where writing fails.

    Of a process that is killed it stays, and goes when the next one writes into that folder; but where the file system
    knows no locks, nobody can tell, and it stays.
    """
    # In a folder of its own, locked by a file beside this: libraries put others in place of the files that they write,
    # and when they are killed leave those, under names that nobody knows.
    with _half_written(path.parent, ".lock") as folder:
        written = folder / "written"
        folder.mkdir()
        yield written
        _place(written, path)


def _place(written: Path, path: Path, *, new: bool = False) -> None:
    with written.open("rb+") as file:
        os.fsync(file.fileno())
    if not new or not _linked(written, path):
        written.replace(path)


def _linked(written: Path, path: Path) -> bool:
    """Give a file another name, which unlike a rename replaces nothing; False where there are no links, and no file."""
    try:
        os.link(written, path)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        if os.path.lexists(path):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path)) from None
        return False
    return True


def check_writable(folder: Path) -> None:
    """Make a file in ``folder``, and remove it.

    Raises:
        OSError: that cannot be done.
    """
    _swept.discard(folder)
    with _half_written(folder):
        pass


@contextmanager
def _half_written(folder: Path, lock_ending: str = "") -> Iterator[Path]:
    """A file or a folder in ``folder`` that this process holds, and that goes if it is still there.

    ``lock_ending``: ends the name of its lock; without any it is its own.
    """
    if folder not in _swept:
        _swept.add(folder)
        sweep(folder)
    written = folder / f"{HALF_WRITTEN}{secrets.token_hex(8)}"  # No longer than names may be.
    lock = Lock(written.with_name(f"{written.name}{lock_ending}"), str(folder))
    try:
        lock.acquire()
        yield written
    finally:
        to_the_end(lambda: _let_go(written, lock))


def _let_go(written: Path, lock: Lock) -> None:
    try:
        remove(written)
    except OSError:  # It may not go: the next one that is written here tries again.
        _swept.discard(written.parent)
    lock.release()


def remove_empty(folders: Iterable[Path]) -> None:
    """Remove folders, those that hold something by now apart."""
    for folder in folders:
        with suppress(OSError):
            folder.rmdir()


def sweep(folder: Path) -> None:
    """Remove what killed processes were writing in ``folder``."""
    with suppress(OSError):
        for path in folder.iterdir():
            if is_half_written(path.name):
                lock = path.with_name(f"{path.name}.lock")
                remove_left(path.with_suffix(""), lock if lock.exists() else path)


def is_half_written(name: str) -> bool:
    """Whether a file of this name was never completed, or is the lock of one."""
    return re.fullmatch(re.escape(HALF_WRITTEN) + r"[0-9a-f]{16}(\.lock)?", name) is not None


def append(log: Path, event: str, **facts: Any) -> None:
    """Append one line to a log: time (seconds since 1970), event, facts."""
    with log.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"time": round(time.time(), 3), "event": event, **facts}) + "\n")


def fingerprint_of(reference: str) -> tuple[tuple[str, int, int], ...]:
    """Fingerprint of a weights folder: (name, bytes, time of writing in ns) of its files.

    Empty for anything but a folder: a name on the hub stands for itself.
    """
    folder = from_home(reference)
    known = bool(reference) and folder.is_dir()  # Of "" pathlib makes the folder that one happens to be in.
    files = sorted(path for path in folder.iterdir() if path.is_file()) if known else []
    return tuple((path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in files)


def is_encodable(text: str) -> bool:
    """Whether ``text`` can be written as UTF-8; half of a surrogate pair (JSON allows one) cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def check_names(value: object, *, where: str = "") -> None:
    """Refuse paths and names that are not UTF-8, at any depth of ``value``: files of results could not hold them.

    Raises:
        JudgeError: there is one.
    """
    if isinstance(value, Mapping):
        value = (*value, *value.values())
    if isinstance(value, str | Path) and not is_encodable(str(value)):
        raise JudgeError(f"'{value}' is not UTF-8", where=where, mend="rename it, or name a place without such bytes")
    if isinstance(value, list | tuple | set | frozenset):
        for part in value:
            check_names(part, where=where)


def resolved(path: Path) -> Path:
    """The absolute path, links followed; for ``Path.resolve``, which raises RuntimeError of links in a circle.

    Raises:
        JudgeError: it is, or lies in, a link that leads to itself.
    """
    found = Path(os.path.realpath(path))
    try:
        found.stat()
    except OSError as error:
        if error.errno == errno.ELOOP:
            what, mend = "is a link to itself", "remove it, or name another place"
            raise JudgeError(what, where=str(path), mend=mend) from None
    return found  # Whatever else is wrong, opening says so.


def from_home(path: str) -> Path:
    """A path with ``~`` read as shells do: that of nobody stays, where ``Path.expanduser`` raises RuntimeError."""
    return Path(os.path.expanduser(path))  # noqa: PTH111 - that is the one that raises


def split_name(entry: str) -> tuple[str, str]:
    """The name and the text of ``NAME=TEXT``; "" and the whole of any other text.

    A path may hold "=" too ("lr=0.1/captions.json"): it stays whole where it exists and what follows its "=" does not,
    or where a separator stands before its "=" ("./lr=0.1/captions.json").
    """
    name, equals, text = entry.partition("=")
    # Of their first folders: a range of shards has no file of its name.
    whole, rest = (os.path.lexists(path.partition(os.sep)[0] or os.sep) for path in (entry, text))
    is_path = os.sep in name or (whole and not rest)
    return (name, text) if name and equals and not is_path else ("", entry)


def named_alike(path: Path) -> str:
    """What to do where there is no ``path``: to give the file beside it that is called nearly so, or to check it."""
    import difflib

    try:
        names = [entry.name for entry in islice(os.scandir(path.parent), 10_000)]
    except (OSError, ValueError):  # ValueError: a NUL in the path.
        names = []
    close = difflib.get_close_matches(path.name, names, n=1, cutoff=0.7)
    return f"did you mean '{path.with_name(close[0])}'?" if close else "check the path"


def with_way_on(error: JudgeError, command: str, place: str) -> JudgeError:
    """``error`` of ``command``, which goes on from what is finished if it is given again with its ``place``."""
    go_on = f"the same command ({command} ... {place}) goes on from what is finished"
    mend = error.mend.removesuffix("; then give the same command again")
    # Another place would hold nothing to go on from.
    mend = "make room on its disk, or see to its permissions" if mend == _MEND else mend
    return JudgeError(error.what, where=error.where, mend=f"{mend}; then {go_on}" if mend else go_on)
