"""Parquet and Arrow files as rows: the columns that are needed, with pictures as the names that they had."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from judge.corpus.tables import Row, header_of
from judge.errors import JudgeError
from judge.utils.reading import CELL, ROW, TEXT, refuse_large, regular

# Decoded at a time: of one long text, as often as a few bytes say. More are not faster.
_BATCH = 256
# `datasets` keeps a picture so.
BYTES, PATH = "bytes", "path"
_FEATURES = b"huggingface"
# An image without a class, of `datasets`' ClassLabel.
_UNLABELLED = -1


@contextmanager
def faults(kind: str, source: str) -> Iterator[None]:
    """What pyarrow raises of a damaged file becomes one line.

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


@dataclass(frozen=True, slots=True)
class Columns:
    """What is read of a table.

    Attributes:
        names: columns of texts, numbers and lists of them.
        pictures: columns of pictures, of which only the name is read, as a column "image.path".
        others: columns that are not needed.
        classes: column of numbers -> the classes that they stand for, by `datasets`' own description.
    """

    names: tuple[str, ...]
    pictures: tuple[str, ...]
    others: tuple[str, ...]
    classes: Mapping[str, Sequence[str]]

    @classmethod
    def of(cls, schema: Any, *, source: str, wanted: Collection[str] | None) -> Columns:
        """The columns of a pyarrow schema, those ``wanted`` (names in lower case) alone; None for all.

        Raises:
            JudgeError: two columns of one name.
        """
        header_of(schema.names, source)
        pictures = [field.name for field in schema if is_picture(field.type)]
        readable = [field.name for field in schema if _is_readable(field.type)]
        known = [name for name in readable if wanted is None or name.strip().lower() in wanted] or readable
        others = [name for name in readable if name not in known]
        return cls(tuple(known), tuple(pictures), tuple(others), _classes(schema.metadata))

    def memory(self, batch: Any) -> int:
        """About the bytes that :meth:`rows` of a batch will take."""
        return int(batch.num_rows * (ROW + CELL * batch.num_columns) + TEXT * sum(map(_decoded, batch.columns)))

    def rows(self, batch: Any, *, source: str, before: int = 0) -> list[Row]:
        """The rows of a pyarrow batch that holds these columns and has been checked, ``before`` rows into the file.

        Of a file the first row names the columns that were not read, for messages that list columns.

        Raises:
            JudgeError: a number that stands for no class.
        """
        from pyarrow import compute

        cells = {name: _values(batch.column(name)) for name in self.names}
        for name in self.classes.keys() & cells.keys():
            cells[name] = [
                _class(value, self.classes[name], f"{source}, record {number}, field '{name}'")
                for number, value in enumerate(cells[name], start=before + 1)
            ]
        rows: list[Row] = [dict(zip(cells, row, strict=True)) for row in zip(*cells.values(), strict=True)]
        for name in self.pictures:
            rows = rows or [{} for _ in range(batch.num_rows)]
            for row, held in zip(rows, compute.struct_field(batch.column(name), [PATH]).to_pylist(), strict=True):
                if held:
                    row[f"{name}.{PATH}"] = held
        if not before and rows:
            rows[0].update(dict.fromkeys(self.others))
        return rows


def load_parquet(data: bytes, *, source: str) -> list[Row]:
    """Rows of a Parquet file, without its columns of bytes and structures; of pictures the names.

    Raises:
        JudgeError: cut off or damaged; too large when unpacked.
    """
    import pyarrow as pa

    return [row for rows in _parquet(pa.BufferReader(data), source, None) for row in rows]


def read_parquet(path: Path, *, source: str, wanted: Collection[str] | None = None) -> Iterator[list[Row]]:
    """Rows of a Parquet file, part by part; of columns that are not ``wanted`` the first row names them alone.

    Raises:
        JudgeError: as ``load_parquet``; cannot be opened.
    """
    return _parquet(path, source, wanted)


def read_arrow(path: Path, *, source: str, wanted: Collection[str] | None = None) -> Iterator[list[Row]]:
    """Rows of a file of Arrow's streaming format, as `datasets` saves it; likewise.

    Raises:
        JudgeError: cut off or damaged; cannot be opened.
    """
    import pyarrow as pa

    with faults("Arrow", source), pa.memory_map(str(regular(path))) as file, pa.ipc.open_stream(file) as reader:
        columns = Columns.of(reader.schema, source=source, wanted=wanted)
        size = before = 0
        for batch in reader:
            part = batch.select([*columns.names, *columns.pictures])
            part.validate(full=True)  # Damaged offsets would lead out of the file.
            size += columns.memory(part)
            refuse_large(size, source, packed=True)
            yield columns.rows(part, source=source, before=before)
            before += part.num_rows


def _parquet(place: Any, source: str, wanted: Collection[str] | None) -> Iterator[list[Row]]:
    """``place``: a path, or what pyarrow reads bytes from."""
    from pyarrow import parquet

    with faults("Parquet", source):
        place = regular(place) if isinstance(place, Path) else place

    with faults("Parquet", source), parquet.ParquetFile(place, memory_map=isinstance(place, Path)) as file:
        columns = Columns.of(file.schema_arrow, source=source, wanted=wanted)
        read = [*columns.names, *(f"{name}.{PATH}" for name in columns.pictures)]
        # A few bytes may claim any number of rows without a value.
        refuse_large(file.metadata.num_rows * (ROW + CELL), source, packed=True)
        size = before = 0
        # The sizes that the file states of its columns are not looked at: damaged ones make pyarrow end the process.
        for batch in file.iter_batches(_BATCH, columns=read, use_threads=False):
            size += columns.memory(batch)
            refuse_large(size, source, packed=True)
            yield columns.rows(batch, source=source, before=before)
            before += batch.num_rows


def _values(column: Any) -> list[object]:
    """The values of a column; of one with a dictionary each text once in memory."""
    from pyarrow import types

    if types.is_dictionary(column.type):
        if len(column.dictionary) > len(column):
            column = column.dictionary_decode()
        else:
            words = [*column.dictionary.to_pylist(), None]
            return [words[-1 if place is None else place] for place in column.indices.to_pylist()]
    found: list[object] = column.to_pylist()
    return found


def _decoded(column: Any) -> int:
    """Bytes of a column's values, each counted as often as it stands there; of lists also their places."""
    from pyarrow import compute, types

    if types.is_dictionary(column.type):
        if not types.is_string(column.type.value_type) and not types.is_large_string(column.type.value_type):
            return len(column) * CELL
        lengths = compute.binary_length(column.dictionary)
        return int(compute.sum(compute.take(lengths, column.indices)).as_py() or 0)
    if types.is_list(column.type) or types.is_large_list(column.type):
        values = column.flatten()
        return len(values) * CELL + _decoded(values)
    return int(column.nbytes)


def is_picture(kind: Any) -> bool:
    """Whether a pyarrow type is how `datasets` keeps pictures."""
    from pyarrow import types

    if not types.is_struct(kind):
        return False
    fields = {field.name: field.type for field in kind}
    if fields.keys() != {BYTES, PATH} or not is_bytes(fields[BYTES]):
        return False
    return bool(types.is_string(fields[PATH]) or types.is_null(fields[PATH]))


def is_bytes(kind: Any) -> bool:
    """Whether a pyarrow type is bytes."""
    from pyarrow import types

    return bool(types.is_binary(kind) or types.is_large_binary(kind))


def _is_readable(kind: Any) -> bool:  # a pyarrow.DataType; pyarrow has no stubs
    from pyarrow import types

    held = kind.value_type if types.is_list(kind) or types.is_large_list(kind) or types.is_dictionary(kind) else kind
    plain = (types.is_integer, types.is_floating, types.is_boolean, types.is_null, types.is_string)
    return any(check(held) for check in (*plain, types.is_large_string)) or str(held) == "string_view"


def _classes(metadata: Mapping[bytes, bytes] | None) -> dict[str, Sequence[str]]:
    """Column -> class names, as `datasets` describes its ClassLabel; what says anything else says nothing."""
    try:
        features = json.loads((metadata or {})[_FEATURES])["info"]["features"]
        described = {name: feature for name, feature in features.items() if feature.get("_type") == "ClassLabel"}
        return {
            name: feature["names"]
            for name, feature in described.items()
            if isinstance(feature["names"], list) and all(isinstance(one, str) for one in feature["names"])
        }
    except (KeyError, ValueError, TypeError, AttributeError, RecursionError):
        return {}


def _class(value: object, names: Sequence[str], where: str) -> object:
    if not isinstance(value, int):
        return value
    if value == _UNLABELLED:
        return None
    if not 0 <= value < len(names):
        mend = "write the data set again"
        raise JudgeError(f"class {value} of {len(names)} ({', '.join(names)[:100]})", where=where, mend=mend)
    return names[value]
