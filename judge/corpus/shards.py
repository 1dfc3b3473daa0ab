"""WebDataset shards: tar archives whose members of one name, apart from the suffix, are a sample.

``000000042.jpg``, ``000000042.txt``, ``000000042.json`` are the picture, caption and fields of sample 000000042; the
key is the name up to the first dot, as the `webdataset` package has it. Nothing is unpacked: members are found by
their headers and read where they lie.
"""

from __future__ import annotations

import re
import tarfile
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import BinaryIO

from judge.corpus.ids import kind_of
from judge.corpus.tables import Placed, Row, load_json
from judge.errors import JudgeError
from judge.utils.files import is_encodable
from judge.utils.reading import CELL, MEMBER, ROW, SHARDS, TEXT, open_regular, refuse_large

KEY = "__key__"
#: Members that are texts; each is a column of that name.
TEXTS = ("txt", "text", "caption", "cls")
FIELDS = "json"

_RANGE = re.compile(r"(.*?)\{([0-9]+)\.\.([0-9]+)\}(.*)", re.DOTALL)
_MAGIC, _MAGIC_AT = b"ustar", 257
_BLOCK = tarfile.BLOCKSIZE
# Of a member's headers: names and times. What is longer is read by nobody.
_MAX_HEADER = 2**16
# Zeros that may follow the end of an archive.
_MAX_PADDING = 2**20
_CUT = "it may be cut off: copy or download it again"
# Path, size and time of change of a shard -> its members; see :func:`headers_once`.
_kept: ContextVar[dict[tuple[Path, int, int], list[Member]] | None] = ContextVar("kept", default=None)


@dataclass(frozen=True, slots=True)
class Member:
    """A file in a shard.

    Attributes:
        key: of the sample.
        kind: what follows the key and a dot, in lower case: "jpg", "seg.png".
        name: of the member, as it stands there.
        offset: of its first byte in the shard.
        size: in bytes.
    """

    key: str
    kind: str
    name: str
    offset: int
    size: int


def find_shards(path: Path) -> list[Path]:
    """The shards that ``path`` names; none where it is something else.

    A tar archive; a folder that holds files ``*.tar``, in the order of their names; or a range of files, such as
    ``shards/{00000..00009}.tar``.

    Raises:
        JudgeError: a file of the range is not there; more than ``SHARDS``.
    """
    if path.is_dir():
        return sorted(found for found in path.glob("*.tar") if not found.name.startswith("."))
    if path.is_file():
        return [path] if _is_tar(path) else []
    if not _RANGE.fullmatch(str(path)):
        return []
    shards = [Path(name) for name in _expand(str(path))]
    for shard in shards:
        if not shard.is_file():
            raise JudgeError("no such file", where=str(shard), mend="check the range of shards")
    return shards


@contextmanager
def headers_once() -> Iterator[None]:
    """Inside, the headers of a shard are read once, unless the file changes: both sides and labels may lie in it."""
    before = _kept.set({})
    try:
        yield
    finally:
        _kept.reset(before)


def read_members(shard: Path, *, source: str) -> Iterable[Member]:
    """The members of a shard, in order, without folders, hidden files and files without a suffix.

    Raises:
        JudgeError: no tar archive, compressed or cut off; a link, device or sparse file; a name that leads elsewhere.
    """
    kept = _kept.get()
    if kept is None or not shard.is_file():
        return _find_members(shard, source)
    state = shard.stat()
    key = shard, state.st_size, state.st_mtime_ns
    if key not in kept:
        kept[key] = list(_find_members(shard, source))
    return kept[key]


def _find_members(shard: Path, source: str) -> Iterator[Member]:
    end = 0
    with _opened(shard, source) as file:
        try:
            with tarfile.open(fileobj=_Headers(file), mode="r:") as archive:  # type: ignore[call-overload]
                while (found := archive.next()) is not None:
                    if found.size < 0 or archive.offset <= found.offset:
                        raise tarfile.ReadError("negative size")
                    end, name = archive.offset, _checked(found, source)
                    if name and (parts := split_name(name)):
                        yield Member(*parts, name, found.offset_data, found.size)
                    archive.members.clear()  # It would keep them all.
        except (tarfile.TarError, OSError, ValueError, EOFError, RecursionError, OverflowError) as error:
            reason = " ".join(str(error).split())[:100] or type(error).__name__
            raise JudgeError(f"tar archive cannot be read ({reason})", where=source, mend=_CUT) from error
        _check_end(file, end, source)


def read_shards(path: Path, shards: list[Path], *, wanted: Collection[str] | None = None) -> list[Row]:
    """A row for each sample: its key (column ``__key__``), the fields of its JSON member and its text members.

    Where a field is called like a text member, the member counts.

    Args:
        path: as the user named the shards, for messages.
        shards: the archives.
        wanted: fields that are kept, in lower case; None for all.

    Raises:
        JudgeError: as ``read_members``; a key in two shards, a member twice, texts that are none or too large.
    """
    rows: list[Row] = []
    home: dict[str, Path] = {}
    size = 0
    for shard in shards:
        source = label(path, shard)
        samples = _texts(shard, source)
        for key, texts in samples.items():
            if home.setdefault(key, shard) is not shard:
                what = f"sample '{key[:100]}' is in {home[key].name[:100]} too"
                raise JudgeError(what, where=source, mend="give each sample a name of its own")
            size += sum(map(len, texts.values()))
        _check_amount(size, len(home), str(path))
        file = "" if shard == path else shard.name
        rows += [Placed(_row(key, texts, wanted, source), file, key) for key, texts in samples.items()]
    return rows


def label(path: Path, shard: Path) -> str:
    """A shard in messages: the path that the user gave, and which of its files."""
    return str(shard) if shard == path else f"{path}, {shard.name}"


def read_bytes(shard: Path, offset: int, size: int) -> bytes:
    """What lies there.

    Raises:
        OSError: it cannot be read, or is not there any more.
    """
    with open_regular(shard) as file:
        file.seek(offset)
        data = file.read(size)
    if len(data) != size:
        raise OSError("the shard has become shorter")
    return data


def split_name(name: str) -> tuple[str, str] | None:
    """Key and kind of a member; None of hidden files and of those without a suffix."""
    folder, slash, base = name.rpartition("/")
    stem, _, kind = base.partition(".")
    return (f"{folder}{slash}{stem}", kind.lower()) if stem and kind else None


def _texts(shard: Path, source: str) -> dict[str, dict[str, str]]:
    """Key -> kind -> text, of every sample of a shard; a sample without texts has none."""
    samples: dict[str, dict[str, str]] = {}
    with _opened(shard, source) as file:
        for member in read_members(shard, source=source):
            texts = samples.setdefault(member.key, {})
            if member.kind in (*TEXTS, FIELDS):
                if member.kind in texts:
                    where = f"{source}, {member.name[:100]}"
                    raise JudgeError("stands twice in the shard", where=where, mend="keep one of the two")
                texts[member.kind] = _read_text(file, member, source)
    return samples


def _row(key: str, texts: dict[str, str], wanted: Collection[str] | None, source: str) -> Row:
    row: Row = {}
    if FIELDS in texts:
        where = f"{source}, {key[:100]}.{FIELDS}"
        fields = load_json(texts[FIELDS], source=where)
        if not isinstance(fields, dict):
            raise JudgeError(f"is {kind_of(fields)}, not an object", where=where, mend="give an object of fields")
        row = {name: held for name, held in fields.items() if wanted is None or name.strip().lower() in wanted}
    return row | {KEY: key} | {kind: text for kind, text in texts.items() if kind != FIELDS}


def _check_amount(size: int, samples: int, source: str) -> None:
    refuse_large(samples * (ROW + 2 * CELL) + TEXT * size, source, instead="give fewer shards")


def _read_text(file: BinaryIO, member: Member, source: str) -> str:
    where = f"{source}, {member.name[:100]}"
    MEMBER.refuse(member.size, where, instead="leave it out")
    file.seek(member.offset)
    try:
        return file.read(member.size).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise JudgeError(f"not UTF-8 (byte {error.start + 1})", where=where, mend="save it as UTF-8") from error


def _is_tar(path: Path) -> bool:
    try:
        if path.stat().st_size < _BLOCK:
            return False
        with open_regular(path) as file:
            return file.read(_BLOCK)[_MAGIC_AT:].startswith(_MAGIC)
    except OSError:
        return False  # Whoever reads it says why it cannot be.


def _expand(text: str) -> list[str]:
    """``a{08..10}b`` -> a08b, a09b, a10b; of several ranges every combination."""
    found = _RANGE.fullmatch(text)
    if found is None:
        return [text]
    before, first, last, after = found.groups()
    width = len(first) if first.startswith("0") else 0
    rests = _expand(after)
    numbers = range(int(first[:9]), int(last[:9]) + 1)
    told, example = f"the range {{{first[:20]}..{last[:20]}}}", "write it like shards/{00000..00009}.tar"
    if len(first) > 9 or len(last) > 9 or not numbers:
        raise JudgeError(f"{told} is empty, or has numbers of over 9 digits", where=text[:200], mend=example)
    if len(numbers) * len(rests) > SHARDS.value():
        raise JudgeError(f"{told} {SHARDS.fault()}", where=text[:200], mend=SHARDS.raise_it(example))
    return [f"{before}{number:0{width}d}{rest}" for number in numbers for rest in rests]


class _Headers:
    """What tarfile reads headers from: of a size that headers have, whatever a damaged one claims."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file
        self.seek, self.tell = file.seek, file.tell

    def read(self, size: int) -> bytes:
        if not 0 <= size <= _MAX_HEADER:
            raise tarfile.ReadError("header of an impossible size")
        return self.file.read(size)


@contextmanager
def _opened(shard: Path, source: str) -> Iterator[BinaryIO]:
    try:
        with open_regular(shard) as file:
            yield file
    except OSError as error:
        raise JudgeError(f"cannot be read ({error.strerror})", where=source, mend="check its permissions") from error


def _checked(found: tarfile.TarInfo, source: str) -> str:
    """The member's name, without "./"; "" of a folder.

    Raises:
        JudgeError: neither a file nor a folder, or called as no member may be.
    """
    name = found.name
    while name.startswith("./"):
        name = name[2:]
    where = f"{source}, {f'{name[:100]!a}' if name else f'the member at byte {found.offset:,}'}"
    if found.isdir():
        return ""
    if not found.isreg() or found.issparse():
        kind = "a link" if found.issym() or found.islnk() else "a device or sparse file"
        raise JudgeError(f"is {kind}, not a plain file", where=where, mend="write the shard again without it")
    parts = PurePosixPath(name.replace("\\", "/"))
    if not name or "\0" in name or not is_encodable(name):
        raise JudgeError("is no name of a file", where=where, mend="rename it")
    if parts.is_absolute() or ".." in parts.parts or PureWindowsPath(name).drive:
        raise JudgeError("the name leads out of the shard", where=where, mend="use relative names")
    return name


def _check_end(file: BinaryIO, end: int, source: str) -> None:
    """Refuse a shard that stops without the zeros that end an archive: tarfile would say nothing."""
    file.seek(end)
    rest = file.read(_MAX_PADDING + 1)
    if len(rest) < _BLOCK:
        raise JudgeError("tar archive has no end", where=source, mend=_CUT)
    if rest.count(0) != len(rest) or len(rest) > _MAX_PADDING:
        mend = "write it again, as one archive"
        raise JudgeError(f"tar archive holds something else after {end:,} bytes", where=source, mend=mend)
