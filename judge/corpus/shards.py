"""WebDataset shards: tar archives in which files of one name, apart from the suffix, are a sample.

``000000042.jpg``, ``000000042.txt``, ``000000042.json`` are the image, caption and fields of sample 000000042; the
key is the name up to the first dot, as in the package `webdataset`. Nothing is unpacked: members are found by
their headers and read in place.
"""

from __future__ import annotations

import re
import tarfile
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import BinaryIO

from judge.corpus.records import Placed, Row, kind_of
from judge.corpus.tables import load_json
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
_MAX_HEADER = 2**16  # Bytes of a member's headers: names and times.
_MAX_PADDING = 2**20  # Zeros that may follow the end of an archive.
_CUT = "it may be cut off: copy or download it again"


@dataclass(frozen=True, slots=True)
class Member:
    """A file in a shard.

    Attributes:
        key: of the sample.
        kind: what follows the key and a dot, in lower case: "jpg", "seg.png".
        name: of the member.
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

    A tar archive; a folder with files ``*.tar``, in the order of their names; or a range of files, such as
    ``shards/{00000..00009}.tar``.

    Raises:
        JudgeError: a file of the range is absent; more than ``SHARDS``.
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


def read_shards(path: Path, shards: Sequence[Path], *, wanted: Collection[str] | None = None) -> list[Row]:
    """A row for each sample: its key (column ``__key__``), the fields of its JSON member, and its text members.

    A text member wins over a field of its name.

    Args:
        path: as the user named the shards, for messages.
        shards: the archives.
        wanted: fields to keep, in lower case; None for all.

    Raises:
        JudgeError: as :func:`read_members`; a key in two shards, a member twice, texts that are none or too large.
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
        refuse_large(len(home) * (ROW + 2 * CELL) + TEXT * size, str(path), instead="give fewer shards")
        file = "" if shard == path else shard.name
        rows += [Placed(_row(key, texts, wanted, source), file, key) for key, texts in samples.items()]
    return rows


def label(path: Path, shard: Path) -> str:
    """A shard in messages: the path that the user gave, and which of its files."""
    return str(shard) if shard == path else f"{path}, {shard.name}"


def read_bytes(shard: Path, offset: int, size: int) -> bytes:
    """``size`` bytes at ``offset``.

    Raises:
        OSError: they cannot be read, or no longer exist.
    """
    with open_regular(shard) as file:
        file.seek(offset)
        data = file.read(size)
    if len(data) != size:
        raise OSError("the shard has become shorter")
    return data


def read_members(shard: Path, *, source: str) -> Iterator[Member]:
    """The members of a shard, in order, without folders, hidden files and files without a suffix.

    Raises:
        JudgeError: no tar archive, compressed or cut off; a link, device or sparse file; a name that leads elsewhere.
    """
    end = 0
    with _opened(shard, source) as file:
        try:
            with tarfile.open(fileobj=_Headers(file), mode="r:") as archive:  # type: ignore[call-overload]
                while (found := archive.next()) is not None:
                    if found.size < 0 or archive.offset <= found.offset:
                        raise tarfile.ReadError("negative size")
                    end, name = archive.offset, _checked(found, source)
                    stem, _, kind = name.rpartition("/")[2].partition(".")
                    if stem and kind:
                        key = name[: len(name) - len(kind) - 1]
                        yield Member(key, kind.lower(), name, found.offset_data, found.size)
                    archive.members.clear()  # It would keep them all.
        except (tarfile.TarError, OSError, ValueError, EOFError, RecursionError, OverflowError) as error:
            reason = " ".join(str(error).split())[:100] or type(error).__name__
            raise JudgeError(f"tar archive cannot be read ({reason})", where=source, mend=_CUT) from error
        _check_end(file, end, source)


def _texts(shard: Path, source: str) -> dict[str, dict[str, str]]:
    """Key -> kind -> text, for every sample of a shard; a sample without texts has none."""
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
        with open_regular(path) as file:
            return file.read(_BLOCK)[_MAGIC_AT:].startswith(_MAGIC)
    except OSError:
        return False  # Reading it as a file says why it cannot be read.


def _expand(text: str) -> list[str]:
    """``a{08..10}b`` -> a08b, a09b, a10b; for several ranges every combination."""
    found = _RANGE.fullmatch(text)
    if found is None:
        return [text]
    before, first, last, after = found.groups()
    width = len(first) if first.startswith("0") else 0
    rests = _expand(after)
    numbers = range(int(first[:9]), int(last[:9]) + 1)
    name, example = f"the range {{{first[:20]}..{last[:20]}}}", "write it like shards/{00000..00009}.tar"
    if len(first) > 9 or len(last) > 9 or not numbers:
        raise JudgeError(f"{name} is empty, or has numbers of over 9 digits", where=text[:200], mend=example)
    SHARDS.refuse(len(numbers) * len(rests), text[:200], instead=example)
    return [f"{before}{number:0{width}d}{rest}" for number in numbers for rest in rests]


class _Headers:
    """What tarfile reads headers from; refuses headers of an impossible size, which a damaged archive may claim."""

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
    """The member's name, without "./"; "" for a folder.

    Raises:
        JudgeError: neither a file nor a folder; a name that no file may have.
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
    if not name or "\0" in name or not is_encodable(name):
        raise JudgeError("is no name of a file", where=where, mend="rename it")
    path = PurePosixPath(name.replace("\\", "/"))
    if path.is_absolute() or ".." in path.parts or PureWindowsPath(name).drive:
        raise JudgeError("the name leads out of the shard", where=where, mend="use relative names")
    return name


def _check_end(file: BinaryIO, end: int, source: str) -> None:
    """Refuse a shard without the zeros that end an archive; tarfile would accept it."""
    file.seek(end)
    rest = file.read(_MAX_PADDING + 1)
    if len(rest) < _BLOCK:
        raise JudgeError("tar archive has no end", where=source, mend=_CUT)
    if rest.count(0) != len(rest) or len(rest) > _MAX_PADDING:
        mend = "write it again, as one archive"
        raise JudgeError(f"tar archive holds something else after {end:,} bytes", where=source, mend=mend)
