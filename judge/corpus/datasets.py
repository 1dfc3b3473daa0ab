"""Data sets of Hugging Face's `datasets`, and Parquet files, read by pyarrow, a batch of rows at a time.

- ``Dataset.save_to_disk``: ``state.json`` names the Arrow files beside it; ``DatasetDict.save_to_disk``:
  ``dataset_dict.json`` names the splits, each a folder like that.
- Parquet: ``train-00000-of-00002.parquet`` in the folder, in ``data/``, or in folders named after the split.

Neither the package `datasets` nor any code in such a folder runs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from judge.corpus.records import Placed, Row
from judge.corpus.tables import header_of, load_json
from judge.errors import JudgeError
from judge.utils.reading import CELL, ROW, TEXT, read_small_text, refuse_large, regular

DICT, STATE = "dataset_dict.json", "state.json"
#: The fields of an image's cell.
BYTES, PATH = "bytes", "path"
_BATCH = 256  # Rows per batch: a few bytes may repeat a long text.
_SHARD = re.compile(r"(.+?)-[0-9]+-of-[0-9]+(?:-[0-9a-f]+)?")
_SPLIT = re.compile(r"(?:train|training|valid|validation|val|dev|test|testing|eval|evaluation)", re.IGNORECASE)
_AGAIN = "save the data set again"
_TEXTS = re.compile(r"null|(?:large_)?string|string_view")
_PLAIN = re.compile(rf"u?int\d+|halffloat|float|double|bool|{_TEXTS.pattern}")


@dataclass(frozen=True, slots=True)
class Part:
    """A file of a data set.

    Attributes:
        path: the file.
        name: relative to the folder, for messages.
        split: the split that it belongs to; None if unknown.
    """

    path: Path
    name: str
    split: str | None

    @property
    def is_parquet(self) -> bool:
        """Whether it is Parquet; else it is Arrow."""
        return self.path.suffix == ".parquet"


def find_parts(folder: Path) -> list[Part]:
    """The files of the data set in ``folder``, in order; none if it is no data set.

    Raises:
        JudgeError: what describes the data set cannot be read; it names files elsewhere, or a saved selection.
    """
    if (folder / DICT).is_file():
        splits = _described(folder / DICT, "splits")
        names = [_file_name(split, folder / DICT) for split in splits]
        return [part for name in names for part in _saved(folder, folder / name, name)]
    if (folder / STATE).is_file():
        return _saved(folder, folder, None)
    if not folder.is_dir():
        return []
    found = (sorted(folder.glob(f"{below}*.parquet")) for below in ("", "data/", "*/"))
    return [_parquet_part(folder, path) for path in next(filter(None, found), [])]


def _saved(root: Path, folder: Path, split: str | None) -> list[Part]:
    files = _described(folder / STATE, "_data_files")
    names = [_file_name(file.get("filename") if isinstance(file, dict) else file, folder / STATE) for file in files]
    return [Part(folder / name, (folder / name).relative_to(root).as_posix(), split) for name in names]


def _described(path: Path, key: str) -> list[object]:
    """A list in a JSON file that describes a data set."""
    found = load_json(read_small_text(path), source=str(path))
    listed = found.get(key) if isinstance(found, dict) else None
    if not isinstance(listed, list):
        raise JudgeError(f"'{key}' is no list", where=str(path), mend=_AGAIN)
    if isinstance(found, dict) and (found.get("_indices_files") or found.get("_indices_data_files")):
        what = "is a selection of other rows, saved by an old version of datasets"
        raise JudgeError(what, where=str(path), mend="load it, flatten_indices() and save it again")
    return listed


def _file_name(name: object, where: Path) -> str:
    """The name of a file in the same folder."""
    if not isinstance(name, str) or name in {"", ".."} or PurePosixPath(name).name != name or "\\" in name:
        raise JudgeError(f"{str(name)[:60]!a} is no file's name", where=str(where), mend=_AGAIN)
    return name


def _parquet_part(root: Path, path: Path) -> Part:
    """The split is the part of the name before "-00000-of-00002", or a usual name of the file or its folder."""
    if found := _SHARD.fullmatch(path.stem):
        split: str | None = found[1]
    else:
        # The folder's own name is the user's choice, and no split.
        names = (path.stem,) if path.parent == root else (path.stem, path.parent.name)
        split = next((name for name in names if _SPLIT.fullmatch(name)), None)
    return Part(path, path.relative_to(root).as_posix(), split)


def read_parts(folder: Path, parts: Sequence[Part]) -> Iterator[Row]:
    """The rows of all files; see :func:`read_rows`."""
    for part in parts:
        yield from read_rows(part, source=str(folder))


def read_rows(part: Part, *, source: str) -> Iterator[Row]:
    """The rows of a file; those of a split get a column ``split``, if there is none.

    Args:
        part: the file.
        source: its data set, for messages.

    Raises:
        JudgeError: cut off or damaged; too large when unpacked; two columns of one name.
    """
    where = f"{source}, {part.name}"
    with faults("Parquet" if part.is_parquet else "Arrow", where):
        path = regular(part.path)
        rows = _parquet_rows(path, where) if part.is_parquet else _arrow_rows(path, where)
        for number, row in enumerate(rows, start=1):
            if part.split is not None:
                row.setdefault("split", part.split)
            yield Placed(row, f"{part.name}, record {number}")


def load_parquet(data: bytes, *, source: str) -> list[Row]:
    """Rows of a Parquet file, without columns of bytes and structures; images become their file names.

    Raises:
        JudgeError: as :func:`read_rows`.
    """
    import pyarrow as pa

    with faults("Parquet", source):
        return list(_parquet_rows(pa.BufferReader(data), source))


def _parquet_rows(file: Any, source: str) -> Iterator[Row]:
    """``file``: a path, or what pyarrow reads bytes from."""
    from pyarrow import parquet

    with parquet.ParquetFile(file, memory_map=isinstance(file, Path)) as opened:
        # A few bytes may claim any number of rows without a value. The sizes that the file states of its columns are
        # not looked at: damaged ones make pyarrow end the process.
        refuse_large(opened.metadata.num_rows * (ROW + CELL), source, packed=True)
        names, images = _columns(opened.schema_arrow, source)
        read = [*names, *(f"{name}.{PATH}" for name in images)]
        batches = opened.iter_batches(_BATCH, columns=read, use_threads=False)
        yield from _rows(batches, names, images, opened.schema_arrow.metadata, source)


def _arrow_rows(path: Path, source: str) -> Iterator[Row]:
    """From Arrow's streaming format, in which `datasets` saves."""
    import pyarrow as pa

    with pa.memory_map(str(path)) as file, pa.ipc.open_stream(file) as reader:
        names, images = _columns(reader.schema, source)
        batches = (batch.select([*names, *images]) for batch in reader)
        yield from _rows(batches, names, images, reader.schema.metadata, source)


@contextmanager
def faults(kind: str, source: str) -> Iterator[None]:
    """Turn what pyarrow raises for a damaged file into one line.

    Raises:
        JudgeError: it was raised.
    """
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, OSError, ValueError, MemoryError, RecursionError) as error:
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        mend = "it may be cut off: copy or write it again"
        raise JudgeError(f"{kind} cannot be read ({reason})", where=source, mend=mend) from error


def _columns(schema: Any, source: str) -> tuple[list[str], list[str]]:
    """The columns of texts, numbers and lists of texts; and those of images, of which only the file name is read."""
    header_of(schema.names, source)
    names = [field.name for field in schema if _is_plain(field.type)]
    return names, [field.name for field in schema if is_image(field.type)]


def _rows(
    batches: Iterable[Any], names: list[str], images: list[str], metadata: Mapping[bytes, bytes] | None, source: str
) -> Iterator[Row]:
    """The rows of pyarrow batches; the file name of an image is a column "image.path".

    Raises:
        JudgeError: too large; a number of no class.
    """
    from pyarrow import compute

    classes = _classes(metadata)
    size = number = 0
    for batch in batches:
        batch.validate(full=True)  # Damaged offsets would lead out of the file.
        refuse_large(size + TEXT * batch.nbytes, source, packed=True)
        cells = {name: _values(batch.column(name)) for name in names}
        size += batch.num_rows * ROW + sum(_size(cell) for column in cells.values() for cell in column)
        refuse_large(size, source, packed=True)
        paths = {name: compute.struct_field(batch.column(name), [PATH]).to_pylist() for name in images}
        for place in range(batch.num_rows):
            number += 1
            row: Row = {name: column[place] for name, column in cells.items()}
            for name in classes.keys() & cells.keys():
                row[name] = _class(row[name], classes[name], f"{source}, record {number}, field '{name}'")
            row.update({f"{name}.{PATH}": held[place] for name, held in paths.items() if held[place]})
            yield row


def _is_plain(kind: Any) -> bool:
    """Whether cells of a pyarrow type are texts, numbers or lists of texts; lists of numbers are embeddings."""
    from pyarrow import types

    is_list = types.is_list(kind) or types.is_large_list(kind)
    value = kind.value_type if is_list or types.is_dictionary(kind) else kind
    return bool((_TEXTS if is_list else _PLAIN).fullmatch(str(value)))


def _values(column: Any) -> list[object]:
    """The values of a column; a text of a dictionary is in memory once."""
    if hasattr(column, "dictionary"):
        places = column.indices.to_pylist()
        words = {place: None if place is None else column.dictionary[place].as_py() for place in set(places)}
        return [words[place] for place in places]
    found: list[object] = column.to_pylist()
    return found


def _size(cell: object) -> int:
    """Bytes of a cell in memory, about; a text counts as often as it is repeated."""
    if isinstance(cell, list):
        return CELL + sum(map(_size, cell))
    return CELL + TEXT * len(cell) if isinstance(cell, str) else CELL


def is_image(kind: Any) -> bool:
    """Whether a pyarrow type is how `datasets` keeps images: ``{"bytes": ..., "path": ...}``."""
    from pyarrow import types

    if not types.is_struct(kind):
        return False
    fields = {field.name: str(field.type) for field in kind}
    return fields.keys() == {BYTES, PATH} and "binary" in fields[BYTES] and fields[PATH] in {"string", "null"}


def _classes(metadata: Mapping[bytes, bytes] | None) -> dict[str, Sequence[str]]:
    """Column -> class names, as `datasets` describes its ClassLabel; none for any other description."""
    try:
        features = json.loads((metadata or {})[b"huggingface"])["info"]["features"]
        names = {name: feature["names"] for name, feature in features.items() if feature.get("_type") == "ClassLabel"}
        return {name: of for name, of in names.items() if isinstance(of, list) and set(map(type, of)) <= {str}}
    except (KeyError, ValueError, TypeError, AttributeError, RecursionError):
        return {}


def _class(value: object, names: Sequence[str], where: str) -> object:
    if not isinstance(value, int):
        return value
    if value == -1:  # No class, in `datasets`.
        return None
    if not 0 <= value < len(names):
        what = f"class {value} of {len(names)} ({', '.join(names)[:100]})"
        raise JudgeError(what, where=where, mend="write the data set again")
    return names[value]
