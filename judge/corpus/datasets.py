"""Folders of Parquet files, as Hugging Face's `datasets` writes them, read by pyarrow, a batch of rows at a time.

Files are ``train-00000-of-00002.parquet`` in the folder, in ``data/``, or in folders named after the split. Neither the
package `datasets` nor any code in such a folder runs.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from judge.corpus.records import Placed, Row
from judge.corpus.tables import header_of
from judge.errors import JudgeError
from judge.utils.reading import CELL, ROW, TEXT, refuse_large, regular

#: The fields of an image's cell.
BYTES, PATH = "bytes", "path"
_SAVED = "dataset_dict.json", "state.json"
_BATCH = 256  # Rows per batch: a few bytes may repeat a long text.
_SHARD = re.compile(r"(.+?)-[0-9]+-of-[0-9]+(?:-[0-9a-f]+)?")
_SPLIT = re.compile(r"(?:train|training|valid|validation|val|dev|test|testing|eval|evaluation)", re.IGNORECASE)
_TEXTS = re.compile(r"null|(?:large_)?string|string_view")
_PLAIN = re.compile(rf"u?int\d+|halffloat|float|double|bool|{_TEXTS.pattern}")


class Part(NamedTuple):
    """A file of a data set, its ``name`` relative to the folder, and its split, None if unknown."""

    path: Path
    name: str
    split: str | None


def find_parts(folder: Path) -> list[Part]:
    """The Parquet files of the data set in ``folder``, in order; none if it is no data set."""
    if any((folder / name).is_file() for name in _SAVED):
        mend = "write Parquet files instead: dataset.to_parquet('FOLDER/SPLIT.parquet')"
        raise JudgeError("is a folder of save_to_disk", where=str(folder), mend=mend)
    if not folder.is_dir():
        return []
    found = (sorted(folder.glob(f"{below}*.parquet")) for below in ("", "data/", "*/"))
    return [_part(folder, path) for path in next(filter(None, found), [])]


def _part(root: Path, path: Path) -> Part:
    """The split is the part of the name before "-00000-of-00002", or a usual name of the file or its folder."""
    # The folder's own name is the user's choice, and no split.
    names = (path.stem,) if path.parent == root else (path.stem, path.parent.name)
    found = _SHARD.fullmatch(path.stem)
    split = found[1] if found else next((name for name in names if _SPLIT.fullmatch(name)), None)
    return Part(path, path.relative_to(root).as_posix(), split)


def read_rows(folder: Path, parts: Sequence[Part]) -> Iterator[Row]:
    """The rows of all files; those of a split get a column ``split``, if there is none."""
    for part in parts:
        where = f"{folder}, {part.name}"
        with faults("Parquet", where):
            for number, row in enumerate(_parquet_rows(regular(part.path), where), start=1):
                if part.split is not None:
                    row.setdefault("split", part.split)
                yield Placed(row, f"{part.name}, record {number}")


def load_parquet(data: bytes, *, source: str) -> list[Row]:
    """Rows of a Parquet file, without columns of bytes and structures; images become their file names."""
    import pyarrow as pa

    with faults("Parquet", source):
        return list(_parquet_rows(pa.BufferReader(data), source))


@contextmanager
def faults(kind: str, source: str) -> Iterator[None]:
    """Turn what pyarrow raises for a damaged file into one line."""
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, OSError, ValueError, MemoryError, RecursionError) as error:
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        mend = "it may be cut off: copy or write it again"
        raise JudgeError(f"{kind} cannot be read ({reason})", where=source, mend=mend) from error


def load_arrow(given: Any, source: str) -> list[Row]:
    """Rows of a table in memory: of `datasets`, pyarrow, polars, or any that gives Arrow's C stream."""
    import pyarrow as pa

    with faults("table", source):
        if hasattr(given, "with_format"):  # A Dataset, whose features describe its classes.
            table = given.with_format("arrow")[:].replace_schema_metadata(given.features.arrow_schema.metadata)
        else:
            table = pa.table(given)
        return list(_arrow_rows(table.schema, lambda _: table.to_batches(_BATCH), source))


def _parquet_rows(file: Any, source: str) -> Iterator[Row]:
    """The rows of ``file``, a path or what pyarrow reads bytes from."""
    from pyarrow import parquet

    with parquet.ParquetFile(file, memory_map=isinstance(file, Path)) as opened:
        # A few bytes may claim any number of rows without a value. The sizes that the file states of its columns are
        # not looked at: damaged ones make pyarrow end the process.
        refuse_large(opened.metadata.num_rows * (ROW + CELL), source, packed=True)
        yield from _arrow_rows(
            opened.schema_arrow, lambda read: opened.iter_batches(_BATCH, columns=read, use_threads=False), source
        )


def _arrow_rows(schema: Any, batches: Callable[[Sequence[str]], Iterable[Any]], source: str) -> Iterator[Row]:
    """The rows of ``batches``: columns of texts, numbers and lists of texts; file names of images ("image.path")."""
    from pyarrow import compute

    size = number = 0
    header_of(schema.names, source)
    names = [field.name for field in schema if _is_plain(field.type)]
    images = [field.name for field in schema if is_image(field.type)]
    classes = _classes(schema.metadata)
    for batch in batches([*names, *(f"{name}.{PATH}" for name in images)]):
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
