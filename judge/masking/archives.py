"""Images in WebDataset shards or in a data set of `datasets`, read where they lie.

:mod:`judge.masking.images` lists and reads images of folders, shards and data sets alike; nothing is unpacked to disk.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from judge.corpus.columns import ROW_NUMBERS, detect, id_column
from judge.corpus.datasets import BYTES, Part, faults, find_parts, is_image, read_rows
from judge.corpus.layouts import row_number
from judge.corpus.records import canonical_id, place_of
from judge.corpus.shards import Member, find_shards, label, read_bytes, read_members
from judge.errors import JudgeError
from judge.utils.reading import PICTURE, refuse_large, regular

SUFFIXES = frozenset({".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff"})
# Groups of rows of Parquet files that stay in memory; `datasets` writes a hundred images to a group.
_GROUPS = 4
_COLUMNS = (("image", "img", "picture", "photo"), ("jpg", "jpeg", "png", "webp"))


def find_archive(path: Path) -> Archive | None:
    """The archive at ``path``; None for a folder of images, or if there is nothing.

    - Shards: a tar archive, or a folder that holds ``*.tar`` and no image beside them. An image is
      called by its key and suffix.
    - A data set: a folder as ``save_to_disk`` leaves it, or of Parquet files, with a column of images. An image is
      called by its image id; if several rows have the id, it is that of the first.

    Results are remembered until the file or folder changes.

    Raises:
        JudgeError: shards or data set cannot be read; no image in them; two of one name.
    """
    try:
        return _find(path, path.stat().st_mtime_ns)
    except (OSError, ValueError):
        return None


@lru_cache(maxsize=8)
def _find(path: Path, _changed: int) -> Archive | None:
    with faults("folder", f"--images {path}"):
        if path.is_dir() and any(p.suffix.lower() in SUFFIXES for p in path.iterdir() if not p.name.startswith(".")):
            return None
        if shards := find_shards(path):
            return ShardImages(path, shards)
        if path.is_dir() and (parts := find_parts(path)) and (columns := _image_columns(parts[0], path)):
            return DatasetImages(path, parts, columns)
    return None


class Archive:
    """Images by name.

    Attributes:
        path: as the user gave it.
        files: that hold the images.
        places: image -> number of its file, and its place in it.
    """

    def __init__(self, path: Path, files: Sequence[Path]) -> None:
        self.path, self.files = path, files
        self.places: dict[str, tuple[int, Any]] = {}
        self.states = [_state(file) for file in files]

    def names(self) -> list[str]:
        """All names, in a fixed order."""
        return sorted(self.places)

    def holds(self, name: str) -> bool:
        """Whether there is an image of this name."""
        return self._key(name) in self.places

    def where(self, name: str) -> str:
        """Where an image lies, for messages."""
        if not self.holds(name):
            return str(self.path / name[:200])
        return self._where(*self.places[self._key(name)])

    def read(self, name: str) -> bytes:
        """The image's file.

        Raises:
            JudgeError: no such image; it cannot be read; it has changed since it was listed.
        """
        where = self.where(name)
        if not self.holds(name):
            raise JudgeError("no such image", where=where, mend="check --images")
        number, place = self.places[self._key(name)]
        file = self.files[number]
        with faults("image", where):
            if _state(file) == self.states[number]:
                return self._read(file, place, where)
        _find.cache_clear()
        raise JudgeError("has changed since its images were listed", where=str(file), mend="give the command again")

    def _key(self, name: str) -> str:
        return name

    def _where(self, number: int, place: Any) -> str:
        raise NotImplementedError

    def _read(self, file: Path, place: Any, where: str) -> bytes:
        raise NotImplementedError


class ShardImages(Archive):
    """The images of WebDataset shards."""

    def __init__(self, path: Path, shards: Sequence[Path]) -> None:
        super().__init__(path, shards)
        samples: dict[str, tuple[Path, dict[str, Member]]] = {}  # Key -> its shard, and kind -> image.
        for shard, member in read_members(path, shards):
            if f".{member.kind.rpartition('.')[2]}" in SUFFIXES:
                samples.setdefault(member.key, (shard, {}))[1][member.kind] = member
        numbers = {shard: number for number, shard in enumerate(shards)}
        for key, (shard, kinds) in samples.items():
            member = _image_of(key, kinds, label(path, shard))
            self.places[f"{key}.{member.kind.rpartition('.')[2]}"] = numbers[shard], member
        if not self.places:
            raise JudgeError("holds no image", where=f"--images {path}", mend="give shards that hold images")

    def _where(self, number: int, place: Member) -> str:
        return f"{label(self.path, self.files[number])}, {place.name[:100]}"

    def _read(self, file: Path, place: Member, where: str) -> bytes:
        PICTURE.refuse(place.size, where, instead="leave it out")
        return read_bytes(file, place)


def _image_of(key: str, kinds: dict[str, Member], source: str) -> Member:
    """The image of a sample: of ``42.jpg`` and ``42.depth.png`` the first.

    Raises:
        JudgeError: several of the kind of the first; without any, several of the other kind.
    """
    plain = [kind for kind in kinds if "." not in kind] or list(kinds)
    if len(plain) > 1:
        what = f"sample '{key[:100]}' has several images ({', '.join(sorted(plain))[:100]})"
        raise JudgeError(what, where=source, mend="keep one of them")
    return kinds[plain[0]]


class DatasetImages(Archive):
    """The images in a data set's column."""

    def __init__(self, path: Path, parts: Sequence[Part], columns: Sequence[str]) -> None:
        super().__init__(path, [part.path for part in parts])
        self.parts, self._names = parts, list[str]()
        chosen = list(columns) if len(columns) == 1 else detect(columns, _COLUMNS)
        if len(chosen) != 1:
            several = " and ".join(f"'{name[:40]}'" for name in columns[:5])
            what, mend = f"columns {several} all hold images", "call the right one 'image'"
            raise JudgeError(what, where=f"--images {path}", mend=mend)
        self.column = chosen[0]
        for number, part in enumerate(parts):
            for row, (name, key) in enumerate(_row_names(part, str(path))):
                if key not in self.places:
                    self.places[key] = number, row
                    self._names.append(name)
        if not self.places:
            raise JudgeError("holds no image", where=f"--images {path}", mend="give a data set with rows")

    def names(self) -> list[str]:
        """All names, in the order of the files."""
        return list(self._names)

    def _key(self, name: str) -> str:
        with suppress(ValueError):
            return canonical_id(name)
        return ""

    def _where(self, number: int, place: int) -> str:
        return f"{self.path}, {self.parts[number].name}, record {place + 1}, field '{self.column}'"

    def _read(self, file: Path, place: int, where: str) -> bytes:
        state = _state(file)
        sizes, group = _group_sizes(file, state), 0
        while group < len(sizes) and place >= sizes[group]:
            place, group = place - sizes[group], group + 1
        column = _group(file, state, self.column, group) if group < len(sizes) else ()
        if place >= len(column):  # A damaged file may claim more rows than it has.
            raise ValueError("rows are missing")
        data: bytes | None = column[place][BYTES].as_py() if column[place].is_valid else None
        if not data:
            raise JudgeError("holds no image, or only its path", where=where, mend="save the data set with its images")
        return data


def _row_names(part: Part, source: str) -> Iterator[tuple[str, str]]:
    """Name and image id of every row of a file."""
    rows = list(read_rows(part, source=source))
    column = id_column(rows, source=source, option="a column image_id") if rows else ""
    for place, row in enumerate(rows):
        name = row.get(column)
        if column.strip().lower() in ROW_NUMBERS:
            name = row_number(column, name)  # As captions of the same table are called.
        try:
            yield str(name), canonical_id(name)
        except (ValueError, OverflowError) as error:
            where = f"{source}, {place_of(row, place + 1)}, field '{column}'"
            raise JudgeError(f"image id {error}", where=where, mend="give each row an image id") from None


@lru_cache(maxsize=1024)
def _group_sizes(path: Path, _state: tuple[int, int]) -> list[int]:
    """Rows in each group of a Parquet file, or in each batch of an Arrow file."""
    import pyarrow as pa
    from pyarrow import parquet

    if path.suffix == ".parquet":
        found = parquet.read_metadata(regular(path))
        return [found.row_group(group).num_rows for group in range(found.num_row_groups)]
    with pa.memory_map(str(regular(path))) as file, pa.ipc.open_stream(file) as reader:
        return [batch.num_rows for batch in reader]


@lru_cache(maxsize=_GROUPS)
def _group(path: Path, _state: tuple[int, int], column: str, group: int) -> Any:
    """The images of a group of rows; batches of a mapped Arrow file take no memory until they are read."""
    import pyarrow as pa
    from pyarrow import parquet

    if path.suffix == ".parquet":
        with parquet.ParquetFile(regular(path), memory_map=True) as table:
            refuse_large(table.metadata.row_group(group).total_byte_size, f"{path}, group {group + 1} of its rows")
            return table.read_row_group(group, columns=[column], use_threads=False).column(column)
    with pa.memory_map(str(regular(path))) as file, pa.ipc.open_stream(file) as reader:
        found = next(batch for number, batch in enumerate(reader) if number == group).column(column)
        found.validate(full=True)
        return found


def _image_columns(part: Part, path: Path) -> list[str]:
    """The columns of images in the first file; each file must have the one that is chosen."""
    import pyarrow as pa
    from pyarrow import parquet

    with faults("data set", f"{path}, {part.name}"):
        if part.is_parquet:
            schema = parquet.read_schema(regular(part.path), memory_map=True)
        else:
            with pa.memory_map(str(regular(part.path))) as file, pa.ipc.open_stream(file) as reader:
                schema = reader.schema
        return [field.name for field in schema if is_image(field.type)]


def _state(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_size, found.st_mtime_ns
