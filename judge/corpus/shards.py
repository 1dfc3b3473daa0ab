"""WebDataset shards: tar archives in which files of one name, apart from the suffix, are a sample.

``000000042.jpg``, ``000000042.txt``, ``000000042.json`` are the image, caption and fields of sample 000000042; the
key is the name up to the first dot, as in the package `webdataset`. Nothing is unpacked: members are found by
their headers and read in place.
"""

import re
import tarfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import BinaryIO, NamedTuple

from judge.corpus.records import Placed, Row, kind_of
from judge.corpus.tables import load_json
from judge.errors import JudgeError
from judge.utils.files import is_encodable
from judge.utils.reading import CELL, MEMBER, ROW, TEXT, open_regular, refuse_large

KEY = "__key__"
#: Members that are texts; each is a column of that name.
TEXTS = ("txt", "text", "caption", "cls")
FIELDS = "json"

_MAGIC, _MAGIC_AT = b"ustar", 257
_BLOCK = tarfile.BLOCKSIZE
_MAX_HEADER = 2**16  # Bytes of a member's headers: names and times.
_MAX_PADDING = 2**20  # Zeros that may follow the end of an archive.
_CUT = "it may be cut off: copy or download it again"


class Member(NamedTuple):
    """A file in a shard: its kind is what follows its sample's key and a dot ("seg.png"); its place is in bytes."""

    key: str
    kind: str
    name: str
    offset: int
    size: int


def find_shards(path: Path) -> list[Path]:
    """The shards at ``path``: a tar archive, or the files ``*.tar`` of a folder, in the order of their names."""
    if path.is_dir():
        return sorted(found for found in path.glob("*.tar") if not found.name.startswith("."))
    with suppress(OSError):  # Reading it as a file then reports the reason.
        if path.is_file():
            with open_regular(path) as file:
                return [path] if file.read(_BLOCK)[_MAGIC_AT:].startswith(_MAGIC) else []
    return []


def read_shards(path: Path, shards: Sequence[Path]) -> list[Row]:
    """A row for each sample: its key (column ``__key__``), the fields of its JSON member, and its text members.

    A text member wins over a field of its name.
    """
    samples: dict[str, tuple[Path, dict[str, str]]] = {}  # Key -> its shard, and kind -> text.
    size = 0
    for shard, member in read_members(path, shards):
        _, texts = samples.setdefault(member.key, (shard, {}))
        if member.kind in (*TEXTS, FIELDS):
            texts[member.kind] = _read_text(shard, member, label(path, shard))
            size += len(texts[member.kind])
        refuse_large(len(samples) * (ROW + 2 * CELL) + TEXT * size, str(path), instead="give fewer shards")
    rows: list[Row] = []
    for key, (shard, texts) in samples.items():
        where = f"{label(path, shard)}, {key[:100]}.{FIELDS}"
        fields = load_json(texts.pop(FIELDS, "{}"), source=where)
        if not isinstance(fields, dict):
            raise JudgeError(f"is {kind_of(fields)}, not an object", where=where, mend="give an object of fields")
        at = f"sample '{key[:100]}'" if shard == path else f"{shard.name}, sample '{key[:100]}'"
        rows.append(Placed(fields | {KEY: key} | texts, at))
    return rows


def label(path: Path, shard: Path) -> str:
    """A shard in messages: the path that the user gave, and which of its files."""
    return str(shard) if shard == path else f"{path}, {shard.name}"


def read_bytes(shard: Path, member: Member) -> bytes:
    """The bytes of a member; OSError if they cannot be read, or no longer exist."""
    with open_regular(shard) as file:
        file.seek(member.offset)
        data = file.read(member.size)
    if len(data) != member.size:
        raise OSError("the shard ends before the end of it")
    return data


def read_members(path: Path, shards: Sequence[Path]) -> Iterator[tuple[Path, Member]]:
    """The members of all ``shards``, in order, without folders, hidden files and files without a suffix.

    ``path``: the shards as the user named them, for messages. Links, devices, names that lead elsewhere, two members of
    one key and kind, and a key in two shards are refused.
    """
    home: dict[str, Path] = {}
    for shard in shards:
        source, seen = label(path, shard), set[tuple[str, str]]()
        for member in _members(shard, source):
            if home.setdefault(member.key, shard) is not shard:
                what = f"sample '{member.key[:100]}' is in {home[member.key].name[:100]} too"
                raise JudgeError(what, where=source, mend="give each sample a name of its own")
            if (member.key, member.kind) in seen:
                where = f"{source}, {member.name[:100]}"
                raise JudgeError("occurs twice in the shard", where=where, mend="keep one of the two")
            seen.add((member.key, member.kind))
            yield shard, member


def _members(shard: Path, source: str) -> Iterator[Member]:
    end = 0
    try:
        with open_regular(shard) as file:
            with tarfile.open(fileobj=_Headers(file), mode="r:") as archive:  # type: ignore[call-overload]  # the stubs ask for more
                while (found := archive.next()) is not None:
                    if found.size < 0 or archive.offset <= found.offset:
                        raise tarfile.ReadError("negative size")
                    end, name = archive.offset, _checked(found, source)
                    stem, _, kind = name.rpartition("/")[2].partition(".")
                    if stem and kind:
                        key = name[: len(name) - len(kind) - 1]
                        yield Member(key, kind.lower(), name, found.offset_data, found.size)
                    archive.members.clear()  # It would keep them all.
            # tarfile would accept an archive without the zeros that end it, and ignore what follows them.
            file.seek(end)
            rest = file.read(_MAX_PADDING + 1)
    except (tarfile.TarError, OSError, ValueError, EOFError, RecursionError, OverflowError) as error:
        reason = " ".join(str(error).split())[:100] or type(error).__name__
        raise JudgeError(f"tar archive cannot be read ({reason})", where=source, mend=_CUT) from error
    if len(rest) < _BLOCK:
        raise JudgeError("tar archive has no end", where=source, mend=_CUT)
    if rest.count(0) != len(rest) or len(rest) > _MAX_PADDING:
        mend = "write it again, as one archive"
        raise JudgeError(f"tar archive holds something else after {end:,} bytes", where=source, mend=mend)


def _read_text(shard: Path, member: Member, source: str) -> str:
    where = f"{source}, {member.name[:100]}"
    MEMBER.refuse(member.size, where, instead="leave it out")
    try:
        return read_bytes(shard, member).decode("utf-8-sig")
    except OSError as error:
        raise JudgeError(f"cannot be read ({error})", where=where, mend=_CUT) from error
    except UnicodeDecodeError as error:
        raise JudgeError(f"not UTF-8 (byte {error.start + 1})", where=where, mend="save it as UTF-8") from error


class _Headers:
    """What tarfile reads headers from; refuses headers of an impossible size, which a damaged archive may claim."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file
        self.seek, self.tell = file.seek, file.tell

    def read(self, size: int) -> bytes:
        if not 0 <= size <= _MAX_HEADER:
            raise tarfile.ReadError("header of an impossible size")
        return self.file.read(size)


def _checked(found: tarfile.TarInfo, source: str) -> str:
    """The member's name, without "./"; "" for a folder. All but files with names of files in a folder are refused."""
    name = re.sub(r"^(\./)+", "", found.name)
    where = f"{source}, {f'{name[:100]!a}' if name else f'the member at byte {found.offset:,}'}"
    if found.isdir():
        return ""
    if not found.isreg() or found.issparse():
        what = "is a link, a device or a sparse file, not a plain file"
        raise JudgeError(what, where=where, mend="write the shard again without it")
    path = PurePosixPath(name.replace("\\", "/"))
    if not name or "\0" in name or not is_encodable(name):
        raise JudgeError("is no name of a file", where=where, mend="rename it")
    if path.is_absolute() or ".." in path.parts or PureWindowsPath(name).drive:
        raise JudgeError("the name leads out of the shard", where=where, mend="use relative names")
    return name
