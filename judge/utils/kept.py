"""Kept files carry a checksum of their content and of what it is: one that fails counts as absent, and that is told.

Whatever a run keeps for itself or the next one (judges' answers and weights, trainings under way, features, detections,
captions, trials) is made anew where its checksum does not hold: a damaged disk costs time, never a result.
"""

from __future__ import annotations

import errno
import hashlib
import json
import logging
import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from judge.utils.files import LOG, as_mendable, raise_unless_gone, write_whole
from judge.utils.opening import NotRegularError, open_regular, read_bytes

_CHECKSUM = "checksum"
_CHUNK = 1 << 20
_LONGEST_HEADER = 100_000_000  # As safetensors has it.
UNCHECKED = "without a checksum"
DAMAGED = "damaged"
_logger = logging.getLogger("judge")

Teller = Callable[[str, str], None]
"""Called with a file and what is the matter with it."""


class DamagedError(Exception):
    """A kept file that does not hold what was kept; it says what is the matter."""


def digest(*parts: bytes) -> str:
    """A checksum, 32 characters."""
    found = hashlib.blake2b(digest_size=16)
    for part in parts:
        found.update(len(part).to_bytes(8, "little"))
        found.update(part)
    return found.hexdigest()


def digest_rest(file: BinaryIO, *parts: bytes) -> str:
    """A checksum of the rest of a file and of ``parts``."""
    found = hashlib.blake2b(digest(*parts).encode(), digest_size=16)
    while chunk := file.read(_CHUNK):
        found.update(chunk)
    return found.hexdigest()


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """A kept file, to be read.

    Raises:
        DamagedError: it is something else, such as a pipe, which would be waited for.
        FileNotFoundError: there is none.
        JudgeError: it cannot be read, now: it may be whole, so it is not made anew.
    """
    try:
        with open_regular(path) as file:
            yield file
    except FileNotFoundError:
        raise
    except OSError as error:
        if isinstance(error, NotRegularError | IsADirectoryError) or error.errno == errno.ELOOP:
            raise DamagedError("no file") from None
        raise as_mendable(error, str(path)) or error from error


def seal(value: Any, key: str = "") -> bytes:
    """A JSON value as one line that :func:`unseal` reads, without its break; ``key`` says what it is, unwritten."""
    return json.dumps([_seal_of(value, key), value]).encode()


def _seal_of(value: Any, key: str) -> str:
    return digest(key.encode(), json.dumps(value).encode())


def unseal(line: bytes, key: str = "") -> Any:
    """The value that :func:`seal` wrote under this key.

    Raises:
        DamagedError: anything else.
    """
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        raise DamagedError(DAMAGED) from None
    if not isinstance(found, list) or len(found) != 2 or not isinstance(found[0], str):
        raise DamagedError(UNCHECKED)
    if found[0] != _seal_of(found[1], key):
        raise DamagedError(DAMAGED)
    return found[1]


def read_lines(path: Path) -> list[Any]:
    """Values that were sealed, a line each, in a file that a kill may have cut; what else is damaged is told."""
    lines = [line for line in read_bytes(path).split(b"\n")[:-1] if line] if path.is_file() else []
    found, faults = list[Any](), Counter[str]()
    for line in lines:
        try:
            found.append(unseal(line))
        except DamagedError as error:
            faults[str(error)] += 1
    for what, count in faults.items():
        tell_damaged(path, f"{what} in {count} of {len(lines)} lines")
    return found


def name_tensors(path: Path) -> dict[str, str]:
    """Metadata of a file of tensors to be written to ``path``, for :func:`seal_tensors` to complete."""
    return {"file": path.name, _CHECKSUM: "?" * 32}


def seal_tensors(written: Path) -> None:
    """Put the checksum of tensors and metadata into a file of safetensors, which has ``name_tensors`` of its name."""
    found = _checksum(written)[1]
    with written.open("rb+") as file:
        size = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(size))
        # Sorted: safetensors writes metadata in any order, and equal tensors are to be equal files.
        header["__metadata__"] = dict(sorted({**header["__metadata__"], _CHECKSUM: found}.items()))
        text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode().ljust(size)
        assert len(text) == size
        file.seek(8)
        file.write(text)


def _checksum(path: Path) -> tuple[dict[str, str], str]:
    """Metadata of a file of safetensors, and what its checksum must be: metadata stand in any order there."""
    with opened(path) as file:
        size = int.from_bytes(file.read(8), "little")
        try:
            header = json.loads(file.read(min(size, _LONGEST_HEADER)))
            told = dict(header.get("__metadata__") or {})
        except (ValueError, TypeError, AttributeError, RecursionError):
            raise DamagedError(DAMAGED) from None
        signed = {**header, "__metadata__": {name: told[name] for name in told.keys() - {_CHECKSUM}}}
        return told, digest_rest(file, json.dumps(signed, sort_keys=True).encode())


def check_tensors(path: Path, *, given: bool = False) -> None:
    """Check a file of safetensors against its checksum, and whether it was kept under this name.

    ``given``: by the user, who may have named it otherwise, or have it from a version that wrote no checksums.

    Raises:
        DamagedError: what is the matter.
        FileNotFoundError, JudgeError: as :func:`opened`.
    """
    told, found = _checksum(path)
    if _CHECKSUM not in told:
        if given:
            return
        raise DamagedError(UNCHECKED)
    if told[_CHECKSUM] != found:
        raise DamagedError(DAMAGED)
    if not given and told.get("file") != path.name:
        raise DamagedError("a copy of another file")


def is_sound(path: Path) -> bool:
    """Whether a kept file of safetensors is there, and whole; one that is there and is not is told.

    Raises:
        JudgeError: it cannot be read.
    """
    try:
        check_tensors(path)
    except FileNotFoundError:
        return False
    except DamagedError as error:
        tell_damaged(path, str(error))
        return False
    return True


def note_digest(path: Path, key: str) -> None:
    """Note the checksum of a file in a form that others read, and of what it is, beside it; of a folder, inside.

    Raises:
        OSError: it cannot be read, or the note not written.
    """
    write_whole(_note_of(path), _digest_below(path, key).encode())


def is_noted(path: Path, key: str) -> bool:
    """Whether a file or folder is there as :func:`note_digest` found it; one that is there otherwise is told.

    Raises:
        JudgeError, OSError: it cannot be read.
    """
    if not path.exists():
        return False
    try:
        with opened(_note_of(path)) as file:
            what = "" if file.read() == _digest_below(path, key).encode() else DAMAGED
    except FileNotFoundError:
        what = UNCHECKED
    except DamagedError as error:
        what = str(error)
    if what:
        tell_damaged(path, what)
    return not what


def _note_of(path: Path) -> Path:
    return path / f".{_CHECKSUM}" if path.is_dir() else path.with_name(f".{path.name}.{_CHECKSUM}")


def _digest_below(path: Path, key: str) -> str:
    """Of a key, and of a file, or of all files below a folder and their names, the note apart."""
    below = os.walk(path, onerror=raise_unless_gone)  # ``rglob`` passes over folders that cannot be read.
    files = {path}
    if path.is_dir():
        files = {Path(base, name) for base, _, names in below for name in names} - {_note_of(path)}
    parts = [key.encode()]
    for file in sorted(files):
        with opened(file) as content:
            parts += [str(file.relative_to(path)).encode(), digest_rest(content).encode()]
    return digest(*parts)


class ToldInLog:
    """Tells of damaged files once on standard error and, where there is a log, by an event in it.

    Args:
        log: takes an event and its facts; events wait while its folder is not made yet.
    """

    def __init__(self, log: Callable[..., None] | None = None) -> None:
        self.log, self.waiting = log, list[dict[str, str]]()

    def __call__(self, file: str, what: str) -> None:
        """See ``Teller``."""
        more = f"more kept files are made anew{f'; {LOG} names them' if self.log else ''}"
        _logger.warning("%s is %s: it is made anew", file, what, extra={"more": more})
        if self.log:
            self.waiting.append({"file": file, "what": what})
            self.flush()

    def flush(self) -> None:
        """Write what waits, where that is possible by now."""
        with suppress(OSError):
            while self.log and self.waiting:
                self.log("damaged", **self.waiting[0])
                del self.waiting[0]


_tellers: list[Teller] = [ToldInLog()]


@contextmanager
def telling(teller: Teller) -> Iterator[None]:
    """Who is told of damaged files meanwhile."""
    _tellers.append(teller)
    try:
        yield
    finally:
        _tellers.remove(teller)


def who_is_told() -> Teller:
    """The innermost of :func:`telling`."""
    return _tellers[-1]


def tell_damaged(path: Path, what: str) -> None:
    """Tell that a kept file counts as absent, and why."""
    who_is_told()(str(path), what)
