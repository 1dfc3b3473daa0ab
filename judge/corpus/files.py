"""Open a file and parse it; the format is recognised by content, never by name: :data:`CONTAINERS`, :data:`BINARY`."""

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from judge.corpus.datasets import find_parts, load_arrow, load_parquet, read_rows
from judge.corpus.records import Row, kind_of
from judge.corpus.shards import find_shards, read_shards
from judge.corpus.tables import frame_rows, header_of, load_csv, load_json, load_pickle
from judge.errors import JudgeError
from judge.utils.reading import opening, read_bytes

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

InMemory: TypeAlias = "Mapping[Any, object] | Sequence[object] | pd.Series | pd.DataFrame | pa.Table"
"""A table in memory: image -> value, records, a list with a value for each image, or a table of pandas, `datasets`,
pyarrow or polars. The index of a series holds the images."""
Given: TypeAlias = "str | os.PathLike[str] | InMemory"
"""A file or a table in memory."""


class Document(NamedTuple):
    """What a file holds: the rows of a table, or the unchecked ``value`` of JSON or a pickle; ``source``: its path."""

    value: object
    source: str


# Several files, or archives of them: (finds the parts of a path, reads their rows).
CONTAINERS: tuple[tuple[Callable[[Path], list[Any]], Callable[..., Iterable[Row]]], ...] = (
    (find_shards, read_shards),
    (find_parts, read_rows),
)
# Protocols 2 and later begin with two fixed bytes, earlier ones with the list or dict
# (or, where somebody hides a call, with a class).
_PICKLE = rb"\x80[\x02-\x05]|\([ld](?:p[0-9]+\n|[q(.])|[\]}][q(.]|c[\w.]+\n[\w.]+\n(?:\(|p[0-9]+\n|q)"
# How a file's bytes begin -> what parses them; other files are JSON or tables of text.
BINARY: Mapping[re.Pattern[bytes], Callable[..., object]] = {
    re.compile(rb"PAR1"): load_parquet,
    re.compile(_PICKLE): load_pickle,
}
# How a file's bytes begin, what it is then, and how to mend that. UTF-32 is before UTF-16, whose mark begins alike.
_REFUSED = (
    ((b"\x1f\x8b", b"BZh", b"\xfd7zXZ"), "a compressed file", "unpack it first"),
    ((b"PK\x03\x04", b"\xd0\xcf\x11\xe0"), "an Excel file or an archive", "save the sheet as CSV, or unpack it"),
    ((b"\xff\xfe\0\0", b"\0\0\xfe\xff"), "UTF-32 text", "save it as UTF-8"),
    ((b"\xff\xfe", b"\xfe\xff"), "UTF-16 text", "save it as UTF-8"),
    ((b"\x89PNG", b"\xff\xd8\xff"), "an image", "give JSON or a table"),
)


def read_document(path: Given, *, memory: str = "table in memory", value: str = "label") -> Document:
    """Read JSON, JSON lines, CSV, TSV, Parquet, a pickle of plain values, shards or a folder of Parquet files.

    Text is UTF-8, with or without a byte order mark. ``memory``: the name of a table in memory, for messages;
    ``value``: the column of the values of a series.

    Raises:
        JudgeError: missing, another folder, not readable, empty, too large, not UTF-8, or damaged.
    """
    if not isinstance(path, str | os.PathLike):
        return _in_memory(path, memory, value)
    source = os.fspath(path)
    for find, read in CONTAINERS:
        try:
            parts = find(Path(path))
        except OSError:
            break  # Reading it as a file then reports the reason.
        if parts:
            return Document(list(read(Path(path), parts)), source)
    folder = "give one file, or a folder of .tar shards or of Parquet files"
    with opening(path, folder=folder):
        # All human captions of COCO are 0.1 GB; their values take some six times that.
        data = read_bytes(Path(path), instead="keep only ids and captions")
    for start, load in BINARY.items():
        if start.match(data):
            return Document(load(data, source=source), source)
    text = _decode(data, source)
    if not text.strip():
        raise JudgeError("file is empty", where=source, mend="give a file with captions or labels in it")
    if text.lstrip()[0] in "[{":
        return Document(frame_rows(load_json(text, source=source), source), source)
    return Document(load_csv(text.lstrip("\r\n"), source=source), source)


def _in_memory(given: Any, source: str, value: str) -> Document:
    """A table in memory as a document; in a list without records the place of a value is the image's id."""
    given = listed(given)
    if isinstance(given, Mapping) and not any(hasattr(held, "features") for held in given.values()):
        return Document({image: _plain(held) for image, held in given.items()}, source)
    if hasattr(given, "iloc"):  # pandas, which is not imported for this.
        return Document(_frame_rows(given, source, value), source)
    if hasattr(given, "features") or hasattr(given, "__arrow_c_stream__"):
        return Document(load_arrow(given, source), source)
    if isinstance(given, Sequence) and not isinstance(given, bytes):
        if given and not any(isinstance(row, Mapping) for row in given):
            return Document({f"{place}": _plain(held) for place, held in enumerate(given)}, source)
        return Document([dict(row) if isinstance(row, Mapping) else row for row in given], source)
    what = "is a DatasetDict" if isinstance(given, Mapping) else f"is {kind_of(given)}, not a table"
    mend = "give one of its splits" if isinstance(given, Mapping) else f"give {{image: {value}}}, records, or a table"
    raise JudgeError(what, where=source, mend=mend)


def listed(given: Any) -> Any:
    """The values of an array or a column of numpy, pandas, polars, pyarrow or `datasets`; anything else as it is."""
    if isinstance(given, Sequence) and not isinstance(given, str | bytes | list | tuple):
        return [*given]
    tables = hasattr(given, "iloc") or hasattr(given, "column_names") or hasattr(given, "features")
    names = [] if tables else [name for name in ("tolist", "to_list", "to_pylist") if hasattr(given, name)]
    return getattr(given, names[0])() if names else given


def _frame_rows(given: Any, source: str, value: str) -> list[Row]:
    """The rows of a series or a frame of pandas, with the named levels of its index as columns.

    A level that repeats the column of its name is none.
    """
    if not hasattr(given, "columns"):
        given = (given.rename_axis("image_id") if given.index.nlevels == 1 else given).to_frame(value)
    if given.columns.nlevels > 1:
        mend = "join them: table.columns = ['_'.join(map(str, names)) for names in table.columns]"
        raise JudgeError("has column names of several levels", where=source, mend=mend)
    parts = [(name, given.index.get_level_values(n)) for n, name in enumerate(given.index.names) if name is not None]
    parts += [(name, given.iloc[:, place]) for place, name in enumerate(given.columns)]
    columns = [(name, [*map(_plain, cells.astype(object).where(cells.notna(), None))]) for name, cells in parts]
    columns = [column for place, column in enumerate(columns, start=1) if column not in columns[place:]]
    header = header_of([name for name, _ in columns], source)
    return [dict(zip(header, row, strict=True)) for row in zip(*(cells for _, cells in columns), strict=True)]


def _plain(value: Any) -> Any:
    """Tuples and arrays as lists, since the reader of JSON makes lists."""
    return list(value) if isinstance(value, tuple | set) else value.tolist() if hasattr(value, "tolist") else value


def _decode(data: bytes, source: str) -> str:
    for starts, what, mend in _REFUSED:
        if data.startswith(starts):
            raise JudgeError(f"is {what}", where=source, mend=mend)
    if (zero := data.find(b"\0", 0, 4096)) >= 0:
        line = data.count(b"\n", 0, zero) + 1
        what = f"holds zero bytes, so it is no text (the first on line {line})"
        raise JudgeError(what, where=source, mend="give JSON or CSV as UTF-8, or Parquet")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        what = f"not UTF-8 (byte {data[error.start]:#04x} on line {line})"
        raise JudgeError(what, where=source, mend="save it as UTF-8") from error
