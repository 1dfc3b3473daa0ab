"""Opening a file and recognising its format by its content, never by its name."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from judge.corpus.columnar import load_parquet
from judge.corpus.datasets import find_parts, read_rows
from judge.corpus.ids import kind_of
from judge.corpus.pickles import load_pickle
from judge.corpus.shards import find_shards, read_shards
from judge.corpus.tables import Row, load_csv, load_json, load_xlsx
from judge.errors import JudgeError
from judge.utils.reading import NotRegularError, named_alike, read_bytes

# Protocol 2 and later say so in two bytes; earlier ones begin with the list or dict they hold
# (or, where somebody hides a call, with a class).
_PICKLE = rb"\x80[\x02-\x05]|\([ld](?:p[0-9]+\n|[q(.])|[\]}][q(.]|c[\w.]+\n[\w.]+\n(?:\(|p[0-9]+\n|q)"
_BINARY: Mapping[re.Pattern[bytes], Callable[..., object]] = {
    re.compile(rb"PAR1"): load_parquet,
    re.compile(rb"PK\x03\x04"): load_xlsx,
    re.compile(_PICKLE): load_pickle,
}
_REFUSED = {
    b"\x1f\x8b": "a gzip archive",
    b"BZh": "a bzip2 archive",
    b"\xfd7zXZ": "an xz archive",
    b"\xd0\xcf\x11\xe0": "an old Excel file (.xls)",
    b"\xff\xfe\0\0": "UTF-32 text",
    b"\0\0\xfe\xff": "UTF-32 text",
    b"\xff\xfe": "UTF-16 text",
    b"\xfe\xff": "UTF-16 text",
    b"\x89PNG": "a picture",
    b"\xff\xd8\xff": "a picture",
}
_MENDS = {"archive": "unpack it first", "Excel": "save it as .xlsx or CSV", "UTF-": "save it as UTF-8"}


@dataclass(frozen=True, slots=True)
class Document:
    """What a file holds, whatever its format: a list of rows (dicts), or a dict.

    Attributes:
        value: of a table, its rows; of JSON and pickles, the value as it stands, not checked.
        source: the path, for messages.
    """

    value: object
    source: str


def read_document(path: str | os.PathLike[str], *, wanted: Collection[str] | None = None) -> Document:
    """Read JSON, JSON lines, CSV, TSV, Parquet, Excel or a pickle of plain values, recognised by content.

    UTF-8 with or without a byte order mark. Also WebDataset shards (:mod:`judge.corpus.shards`) and folders of
    `datasets` (:mod:`judge.corpus.datasets`), as rows.

    Args:
        path: a file, a folder of shards or of a data set, or a range of shards.
        wanted: columns of shards and data sets that are read, in lower case; None for all.

    Raises:
        JudgeError: missing, another folder, not readable, empty, too large, not UTF-8, or damaged.
    """
    source = os.fspath(path)
    if (rows := _read_container(Path(path), source, wanted)) is not None:
        return Document(rows, source)
    data = _read_bytes(Path(path), source)
    for start, load in _BINARY.items():
        if start.match(data):
            return Document(load(data, source=source), source)
    text = _decode(data, source)
    if not text.strip():
        raise JudgeError("file is empty", where=source, mend="give a file with captions or labels in it")
    if text.lstrip()[0] in "[{":
        return Document(load_json(text, source=source), source)
    return Document(load_csv(text.lstrip("\r\n"), source=source), source)


def table_in_memory(given: Any, source: str) -> Document:
    """A mapping, a list of records, or a series or frame of pandas as a document; ``source`` stands for its path."""
    if isinstance(given, Mapping):
        return Document(dict(given), source)
    if hasattr(given, "notna"):  # pandas, which need not be imported for it. A series may hold an image several times.
        given = given.astype(object).where(given.notna(), None)
        if not hasattr(given, "columns"):
            return Document([{"image_id": image, "label": value} for image, value in given.items()], source)
        return Document((given.reset_index() if given.index.name else given).to_dict("records"), source)
    if isinstance(given, Sequence) and not isinstance(given, bytes):
        return Document([dict(row) if isinstance(row, Mapping) else row for row in given], source)
    what = f"is {kind_of(given)}, not a table"
    raise JudgeError(what, where=source, mend="give {image: class}, a list of records, or a table of pandas")


def _read_container(path: Path, source: str, wanted: Collection[str] | None) -> list[Row] | None:
    """The rows of shards or of a data set; None of anything else."""
    try:
        shards = find_shards(path)
        parts = find_parts(path) if path.is_dir() and not shards else []
    except OSError:
        return None  # Reading it as a file says why it cannot be.
    if shards:
        return read_shards(path, shards, wanted=wanted)
    rows = [row for part in parts for found in read_rows(part, source=source, wanted=wanted) for row in found]
    return rows if parts else None


def _read_bytes(path: Path, source: str) -> bytes:
    try:
        # All human captions of COCO are 0.1 GB; their values take some six times that.
        return read_bytes(path, instead="keep only ids and captions")
    except IsADirectoryError:
        mend = "give one file, or a folder of .tar shards, of Parquet files or of a saved data set"
        raise JudgeError("is a folder", where=source, mend=mend) from None
    except NotRegularError:
        raise JudgeError("is not a regular file", where=source, mend="give a file on disk") from None
    except FileNotFoundError:
        raise JudgeError("no such file", where=source, mend=named_alike(path)) from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = getattr(error, "strerror", None) or str(error)
        what = f"cannot be read ({reason})"
        raise JudgeError(what, where=source, mend="check the path and its permissions") from error


def _decode(data: bytes, source: str) -> str:
    for start, what in _REFUSED.items():
        if data.startswith(start):
            mend = next((mend for word, mend in _MENDS.items() if word in what), "give JSON or a table")
            raise JudgeError(f"is {what}", where=source, mend=mend)
    if (zero := data.find(b"\0", 0, 4096)) >= 0:
        line = data.count(b"\n", 0, zero) + 1
        what = f"holds zero bytes, so it is no text (the first on line {line})"
        raise JudgeError(what, where=source, mend="give JSON or CSV as UTF-8, Parquet or xlsx")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        what = f"not UTF-8 (byte {data[error.start]:#04x} on line {line})"
        raise JudgeError(what, where=source, mend="save it as UTF-8") from error
