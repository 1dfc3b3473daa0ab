"""Pictures that lie in WebDataset shards or in a folder of `datasets`, read where they are.

Everything that takes a folder of pictures takes these too: :mod:`judge.masking.images` lists and reads pictures of all
three, and nothing else opens one. Nothing is unpacked to disk, so there is nothing to keep in step or to clean up.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

from judge.corpus.columns import ROW_NUMBERS, detect, id_column, wanted_columns
from judge.corpus.datasets import BYTES, Part, faults, find_parts, is_image, read_rows
from judge.corpus.layouts import row_number
from judge.corpus.records import canonical_id, place_of
from judge.corpus.shards import Member, find_shards, label, read_bytes, read_members
from judge.errors import JudgeError
from judge.utils.limits import PICTURE, refuse_large
from judge.utils.opening import regular

SUFFIXES = frozenset({".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff"})
# Groups of rows of Parquet files that stay in memory; `datasets` writes a hundred pictures to a group.
_GROUPS = 4
_PICTURES = (("image", "img", "picture", "photo"), ("jpg", "jpeg", "png", "webp"))


class Archive(Protocol):
    """Pictures by name, wherever they lie."""

    def names(self) -> list[str]:
        """All names, in a fixed order."""
        ...

    def holds(self, name: str) -> bool:
        """Whether there is a picture of this name."""
        ...

    def where(self, name: str) -> str:
        """Where a picture lies, for messages."""
        ...

    def read(self, name: str) -> bytes:
        """The picture's file.

        Raises:
            JudgeError: no such picture; it cannot be read; it has changed since it was listed.
        """
        ...


def find_archive(path: Path) -> Archive | None:
    """The archive that ``path`` is; None of a folder of pictures, or where there is nothing.

    - Shards: a tar archive, a range of them, or a folder that holds ``*.tar`` and no picture beside them. A picture is
      called by its key and suffix.
    - A data set: a folder as ``save_to_disk`` leaves it, or of Parquet files, with a column of pictures. A picture is
      called by its image id.

    What is found is remembered until the file or folder changes.

    Raises:
        JudgeError: shards or data set cannot be read; no picture in them; two of one name.
    """
    try:
        changed = path.stat().st_mtime_ns
    except (OSError, ValueError):
        changed = 0  # A range of shards is no file.
        if "{" not in str(path):
            return None
    return _find(path, changed)


@lru_cache(maxsize=8)
def _find(path: Path, _changed: int) -> Archive | None:
    try:
        if path.is_dir() and _has_pictures(path):
            return None
        if shards := find_shards(path):
            return ShardPictures(path, shards)
        if path.is_dir() and (parts := find_parts(path)) and (columns := _picture_columns(parts, path)):
            return DatasetPictures(path, parts, columns)
    except OSError as error:
        reason = error.strerror
        raise JudgeError(
            f"cannot be read ({reason})", where=f"--images {path}", mend="check its permissions"
        ) from error
    return None


def _has_pictures(folder: Path) -> bool:
    return any(path.suffix.lower() in SUFFIXES for path in folder.iterdir() if not path.name.startswith("."))


class ShardPictures:
    """The pictures of WebDataset shards."""

    def __init__(self, path: Path, shards: Sequence[Path]) -> None:
        self.path, self.shards = path, shards
        self.states = [_state(shard) for shard in shards]
        self.members: dict[str, tuple[int, Member]] = {}
        home: dict[str, int] = {}
        for number, shard in enumerate(shards):
            for key, member in _pictures_of(shard, label(path, shard)):
                if home.setdefault(key, number) != number:
                    what = f"sample '{key[:100]}' is in {shards[home[key]].name[:100]} too"
                    raise JudgeError(what, where=label(path, shard), mend="give each sample a name of its own")
                self.members[f"{key}.{member.kind.rpartition('.')[2]}"] = number, member
        if not self.members:
            mend = "give shards that hold pictures, such as 000000042.jpg"
            raise JudgeError("holds no picture", where=f"--images {path}", mend=mend)

    def names(self) -> list[str]:
        """See :class:`Archive`."""
        return sorted(self.members)

    def holds(self, name: str) -> bool:
        """See :class:`Archive`."""
        return name in self.members

    def where(self, name: str) -> str:
        """See :class:`Archive`."""
        if name not in self.members:
            return str(self.path / name[:200])
        number, member = self.members[name]
        return f"{label(self.path, self.shards[number])}, {member.name[:100]}"

    def read(self, name: str) -> bytes:
        """See :class:`Archive`."""
        where = self.where(name)
        if name not in self.members:
            raise JudgeError("no such picture", where=where, mend="check --images")
        number, member = self.members[name]
        shard = self.shards[number]
        PICTURE.refuse(member.size / 2**30, where, instead="leave it out")
        try:
            if _state(shard) != self.states[number]:
                raise _changed(shard)
            return read_bytes(shard, member.offset, member.size)
        except OSError as error:
            reason = error.strerror or str(error)
            raise JudgeError(f"cannot be read ({reason})", where=where, mend="check the shard") from error


def _pictures_of(shard: Path, source: str) -> Iterator[tuple[str, Member]]:
    """Key and picture of each sample that has one.

    Of ``42.jpg`` and ``42.depth.png`` the first is the picture; where all have a suffix of two parts there must be one.
    """
    found: dict[str, dict[str, Member]] = {}
    for member in read_members(shard, source=source):
        if f".{member.kind.rpartition('.')[2]}" in SUFFIXES:
            kinds = found.setdefault(member.key, {})
            if member.kind in kinds:
                where = f"{source}, {member.name[:100]}"
                raise JudgeError("stands twice in the shard", where=where, mend="keep one of the two")
            kinds[member.kind] = member
    for key, kinds in found.items():
        plain = [kind for kind in kinds if "." not in kind] or list(kinds)
        if len(plain) > 1:
            what = f"sample '{key[:100]}' has several pictures ({', '.join(sorted(plain))[:100]})"
            raise JudgeError(what, where=source, mend="keep one of them")
        yield key, kinds[plain[0]]


class DatasetPictures:
    """The pictures of a data set's column, by image id; of an image that stands in several rows the first."""

    def __init__(self, path: Path, parts: Sequence[Part], columns: Sequence[str]) -> None:
        self.path, self.parts = path, parts
        self.column = _choose(columns, path)
        self.states = [_state(part.path) for part in parts]
        self.named: list[str] = []
        self.places: dict[str, tuple[int, int]] = {}
        self._tables: OrderedDict[tuple[int, int], Any] = OrderedDict()
        self._lock = threading.Lock()
        for part, row, name, key in self._rows():
            if key not in self.places:
                self.places[key] = part, row
                self.named.append(name)
        if not self.places:
            raise JudgeError("holds no picture", where=f"--images {path}", mend="give a data set with rows")

    def _rows(self) -> Iterator[tuple[int, int, str, str]]:
        """Number of the file, number of the row in it, name and image id, of every row."""
        wanted, source = wanted_columns(), str(self.path)
        for number, part in enumerate(self.parts):
            rows = list(read_rows(part, source=source, wanted=wanted))
            column = id_column(rows, source=source, option="a column image_id") if rows else ""
            for place, row in enumerate(rows):
                name = row.get(column)
                if column.strip().lower() in ROW_NUMBERS:
                    name = row_number(column, name)  # As captions of the same table are called.
                try:
                    yield number, place, str(name), canonical_id(name)
                except (ValueError, OverflowError) as error:
                    where = f"{source}, {place_of(row, place + 1)}, field '{column}'"
                    raise JudgeError(f"image id {error}", where=where, mend="give each row an image id") from None

    def names(self) -> list[str]:
        """See :class:`Archive`; in the order of the files."""
        return list(self.named)

    def holds(self, name: str) -> bool:
        """See :class:`Archive`; any spelling of the image id."""
        return _key(name) in self.places

    def where(self, name: str) -> str:
        """See :class:`Archive`."""
        if (place := self.places.get(_key(name))) is None:
            return str(self.path / name[:200])
        return f"{self.path}, {self.parts[place[0]].name}, record {place[1] + 1}, field '{self.column}'"

    def read(self, name: str) -> bytes:
        """See :class:`Archive`."""
        where = self.where(name)
        if (place := self.places.get(_key(name))) is None:
            raise JudgeError("no such picture", where=where, mend="check --images")
        number, row = place
        part = self.parts[number]
        with faults("picture", where):
            if _state(part.path) != self.states[number]:
                raise _changed(part.path)
            data = self._cell(number, row)
        if not data:
            mend = "save the data set with the pictures in it"
            raise JudgeError("holds no picture, or only the path of one", where=where, mend=mend)
        return data

    def _cell(self, number: int, row: int) -> bytes | None:
        """The bytes in a row of a file: of its group of rows, which stays in memory for the next picture."""
        with self._lock:
            starts = self._group(number, -1)
            group = next((place for place, (first, count) in enumerate(starts) if first <= row < first + count), -1)
            column = self._group(number, group)
        # A damaged file may say that it has more rows than it has.
        if group < 0 or len(column) != starts[group][1]:
            raise ValueError("rows are missing")
        held = column[row - starts[group][0]]
        data: bytes | None = held[BYTES].as_py() if held.is_valid else None
        return data

    def _group(self, number: int, group: int) -> Any:
        """Group of rows ``group`` of a file, its pictures alone; -1: (first row, rows) of each of its groups."""
        key = number, group
        if key not in self._tables:
            open_ = _parquet_group if self.parts[number].is_parquet else _arrow_group
            self._tables[key] = open_(self.parts[number].path, self.column, group)
            for old in [key for key in self._tables if key[1] >= 0][:-_GROUPS]:
                del self._tables[old]
        self._tables.move_to_end(key)
        return self._tables[key]


def _parquet_group(path: Path, column: str, group: int) -> Any:
    from pyarrow import parquet

    with parquet.ParquetFile(regular(path), memory_map=True) as file:
        if group >= 0:
            refuse_large(file.metadata.row_group(group).total_byte_size, f"{path}, group {group + 1} of its rows")
            return file.read_row_group(group, columns=[column], use_threads=False).column(column)
        counts = [file.metadata.row_group(place).num_rows for place in range(file.metadata.num_row_groups)]
    return _starts(counts)


def _arrow_group(path: Path, column: str, group: int) -> Any:
    """Batches of a mapped file take no memory until they are looked at."""
    import pyarrow as pa

    counts = []
    with pa.memory_map(str(regular(path))) as file, pa.ipc.open_stream(file) as reader:
        for number, batch in enumerate(reader):
            if number == group:
                found = batch.column(column)
                found.validate(full=True)
                return found
            counts.append(batch.num_rows)
    return _starts(counts)


def _starts(counts: Sequence[int]) -> list[tuple[int, int]]:
    starts, first = [], 0
    for count in counts:
        starts.append((first, count))
        first += count
    return starts


def _picture_columns(parts: Sequence[Part], path: Path) -> list[str]:
    """The columns of pictures of the first file; each file must have the one that is chosen."""
    import pyarrow as pa
    from pyarrow import parquet

    first = parts[0]
    with faults("data set", f"{path}, {first.name}"):
        if first.is_parquet:
            schema = parquet.read_schema(regular(first.path), memory_map=True)
        else:
            with pa.memory_map(str(regular(first.path))) as file, pa.ipc.open_stream(file) as reader:
                schema = reader.schema
        return [field.name for field in schema if is_image(field.type)]


def _choose(columns: Sequence[str], path: Path) -> str:
    found = list(columns) if len(columns) == 1 else detect(columns, _PICTURES)
    if len(found) != 1:
        several = " and ".join(f"'{name[:40]}'" for name in columns[:5])
        what = f"columns {several} all hold pictures"
        raise JudgeError(what, where=f"--images {path}", mend="call the one that is meant 'image'")
    return found[0]


def _key(name: str) -> str:
    with suppress(ValueError):
        return canonical_id(name)
    return ""


def _changed(path: Path) -> JudgeError:
    _find.cache_clear()
    return JudgeError("has changed since its pictures were listed", where=str(path), mend="give the command again")


def _state(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_size, found.st_mtime_ns
