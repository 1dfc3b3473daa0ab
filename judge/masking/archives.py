"""Images in WebDataset shards or in Parquet files of `datasets`, read where they lie: nothing is unpacked to disk."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

from judge.corpus.columns import ROW_NUMBERS, detect, id_column
from judge.corpus.datasets import BYTES, Part, faults, find_parts, is_image, read_rows
from judge.corpus.layouts import row_number
from judge.corpus.records import canonical_id, place_of
from judge.corpus.shards import Member, find_shards, label, read_bytes, read_members
from judge.errors import JudgeError
from judge.utils.reading import PICTURE, refuse_large, regular

SUFFIXES = frozenset({".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff"})
_State = tuple[int, int]  # Size of a file, and when it was changed last (ns).
_COLUMNS = (("image", "img", "picture", "photo"), ("jpg", "jpeg", "png", "webp"))


def usable_id(value: object) -> str | None:
    """An image id in its canonical spelling; None for what is none."""
    with suppress(ValueError, OverflowError):
        return canonical_id(value)
    return None


def find_archive(path: Path) -> Archive | None:
    """The archive at ``path``, remembered until that changes; None for a folder of images, or if there is nothing.

    Shards are a tar archive, or a folder that holds ``*.tar`` and no image beside them; an image is called by its key
    and suffix. A data set is a folder of Parquet files with a column of images; an image is called by its image id,
    and of several rows with that id the first counts.
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
            return _list_shards(path, shards)
        if path.is_dir() and (parts := find_parts(path)):
            from pyarrow import parquet

            # The columns of images in the first file; each file must have the one that is chosen.
            with faults("data set", f"{path}, {parts[0].name}"):
                schema = parquet.read_schema(regular(parts[0].path), memory_map=True)
                columns = [field.name for field in schema if is_image(field.type)]
            if columns:
                return _list_dataset(path, parts, columns)
    return None


class _Entry(NamedTuple):
    """An image: its file, the file's state when it was listed, where it is, for messages, and what reads it."""

    file: Path
    state: _State
    where: str
    load: Callable[[], bytes]


class Archive(NamedTuple):
    """Images by name, in the order of ``names``; ``images``: key of a name, from ``key_of``, -> the image."""

    path: Path
    names: Sequence[str]
    images: Mapping[str | None, _Entry]
    key_of: Callable[[str], str | None] = str

    def holds(self, name: str) -> bool:
        """Whether there is an image of this name."""
        return self.key_of(name) in self.images

    def where(self, name: str) -> str:
        """Where an image lies, for messages."""
        return self.images[self.key_of(name)].where if self.holds(name) else str(self.path / name[:200])

    def read(self, name: str) -> bytes:
        """The image's file; one that is not there, not readable, or has changed since it was listed is refused."""
        if not self.holds(name):
            raise JudgeError("no such image", where=self.where(name), mend="check --images")
        entry = self.images[self.key_of(name)]
        with faults("image", entry.where):
            if _state(entry.file) == entry.state:
                return entry.load()
        _find.cache_clear()
        what = "has changed since its images were listed"
        raise JudgeError(what, where=str(entry.file), mend="give the command again")


def _list_shards(path: Path, shards: Sequence[Path]) -> Archive:
    """The images of WebDataset shards; of ``42.jpg`` and ``42.depth.png`` the first is the image."""
    states = {shard: _state(shard) for shard in shards}
    samples: dict[str, tuple[Path, dict[str, Member]]] = {}  # Key -> its shard, and kind -> image.
    for shard, member in read_members(path, shards):
        if f".{member.kind.rpartition('.')[2]}" in SUFFIXES:
            samples.setdefault(member.key, (shard, {}))[1][member.kind] = member
    found: dict[str | None, _Entry] = {}
    for key, (shard, kinds) in samples.items():
        source = label(path, shard)
        plain = [kind for kind in kinds if "." not in kind] or list(kinds)
        if len(plain) > 1:
            what = f"sample '{key[:100]}' has several images ({', '.join(sorted(plain))[:100]})"
            raise JudgeError(what, where=source, mend="keep one of them")
        member, where = kinds[plain[0]], f"{source}, {kinds[plain[0]].name[:100]}"
        name = f"{key}.{member.kind.rpartition('.')[2]}"
        found[name] = _Entry(shard, states[shard], where, partial(_load_member, shard, member, where))
    if not found:
        raise JudgeError("holds no image", where=f"--images {path}", mend="give shards that hold images")
    return Archive(path, sorted(map(str, found)), found)


def _load_member(shard: Path, member: Member, where: str) -> bytes:
    PICTURE.refuse(member.size, where, instead="leave it out")
    return read_bytes(shard, member)


def _list_dataset(path: Path, parts: Sequence[Part], columns: Sequence[str]) -> Archive:
    chosen = list(columns) if len(columns) == 1 else detect(columns, _COLUMNS)
    if len(chosen) != 1:
        several = " and ".join(f"'{name[:40]}'" for name in columns[:5])
        what, mend = f"columns {several} all hold images", "call the right one 'image'"
        raise JudgeError(what, where=f"--images {path}", mend=mend)
    found: dict[str | None, _Entry] = {}
    names = []
    for part in parts:
        state, rows = _state(part.path), list(read_rows(path, [part]))
        column = id_column(rows, source=str(path), option="a column image_id") if rows else ""
        for number, (values, place) in enumerate(zip(rows, _places(part.path), strict=True), start=1):
            name = values.get(column)
            if column.strip().lower() in ROW_NUMBERS:
                name = row_number(column, name)  # Captions of the same table are named in this way.
            try:
                key = canonical_id(name)
            except (ValueError, OverflowError) as error:
                where = f"{path}, {place_of(values, number)}, field '{column}'"
                raise JudgeError(f"image id {error}", where=where, mend="give each row an image id") from None
            if key not in found:
                names.append(str(name))
                where = f"{path}, {part.name}, record {number}, field '{chosen[0]}'"
                load = partial(_load_cell, part.path, state, chosen[0], place, where)
                found[key] = _Entry(part.path, state, where, load)
    if not found:
        raise JudgeError("holds no image", where=f"--images {path}", mend="give a data set with rows")
    return Archive(path, names, found, usable_id)


def _places(path: Path) -> Iterator[tuple[int, int]]:
    """The group of each row of a Parquet file, and the row's place in it."""
    from pyarrow import parquet

    groups = parquet.read_metadata(regular(path))
    return ((group, row) for group in range(groups.num_row_groups) for row in range(groups.row_group(group).num_rows))


def _load_cell(path: Path, state: _State, column: str, place: tuple[int, int], where: str) -> bytes:
    group, row = place
    cells = _group(path, state, column, group).slice(row, 1).to_pylist()
    if not cells:  # A damaged file may claim more rows than it has.
        raise ValueError("rows are missing")
    data: bytes | None = cells[0] and cells[0][BYTES]
    if not data:
        raise JudgeError("holds no image, or only its path", where=where, mend="save the data set with its images")
    return data


@lru_cache(maxsize=4)  # `datasets` writes a hundred images to a group.
def _group(path: Path, _state: _State, column: str, group: int) -> Any:
    from pyarrow import parquet

    with parquet.ParquetFile(regular(path), memory_map=True) as table:
        refuse_large(table.metadata.row_group(group).total_byte_size, f"{path}, group {group + 1} of its rows")
        return table.read_row_group(group, columns=[column], use_threads=False).column(column)


def _state(path: Path) -> _State:
    found = path.stat()
    return found.st_size, found.st_mtime_ns
