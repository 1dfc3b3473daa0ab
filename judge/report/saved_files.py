"""Single files of a run's folder, read so that whatever else lies there is told apart; nothing is executed."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from judge.errors import JudgeError
from judge.measure.refits import COLUMNS
from judge.report.breakdown import FOLDER
from judge.report.directory import EXAMPLES, PICTURES, REPLICATES
from judge.statistics.summary import ROW
from judge.utils.cells import read_guarded
from judge.utils.reading import CELL, parse_yaml, read_bytes, read_text, refuse_large, regular

# Columns of each file, by what is in them.
_TEXTS = {
    "scores": ("image_id", "captioner", "side", "metric", "judge", "named", "tasks", "answer", "predicted"),
    "counts": ("image_id", "captioner", "side", "class", "named", "words", "objects"),
    REPLICATES: (*ROW, "kind"),
    f"{FOLDER}/images": (*ROW, "image_id"),
    f"{FOLDER}/captions": ("image_id", "captioner", "side", "class", "objects", "caption"),
    EXAMPLES: (*ROW, "chosen", "image_id", "class", "tasks", "side", "caption", "read", "predicted", "words"),
    PICTURES: ("image_id",),
}
_WHOLE = {
    "scores": ("index", "seed", "fold"),
    "counts": ("index",),
    REPLICATES: ("number",),
    f"{FOLDER}/images": (),
    f"{FOLDER}/captions": ("index",),
    EXAMPLES: ("rank", "index"),
    PICTURES: (),
}
_REAL = {
    "scores": ("probability", "loss", "validation_loss"),
    "counts": (),
    REPLICATES: tuple(COLUMNS[5:]),
    f"{FOLDER}/images": ("contribution",),
    f"{FOLDER}/captions": (),
    EXAMPLES: ("contribution", "probability"),
    PICTURES: (),
}
_BYTES = {PICTURES: ("picture",)}
_CSV_TEXTS = {*ROW, "task", "basis", "term", "leans_to", "examples", "score", "group"}


class Unreadable(ValueError):  # noqa: N818
    """What is written is not what a run writes; the message says what, and where in the file."""


def read_json(path: Path) -> Mapping[str, Any]:
    """``metrics.json``: an object, in which no number is infinite or none.

    Raises:
        Unreadable: it is damaged, or something else.
    """

    def number(text: str) -> float:
        found = float(text)
        if not math.isfinite(found):
            raise Unreadable(f"{path.name} holds {text[:20]}, which is no number")
        return found

    text = read_text(path)
    try:
        document = json.loads(text, parse_float=number, parse_constant=number)
    except json.JSONDecodeError as error:
        raise Unreadable(f"{path.name} is damaged: line {error.lineno}: {error.msg}") from error
    except RecursionError as error:
        raise Unreadable(f"{path.name} is damaged: nested too deeply") from error
    if not isinstance(document, dict):
        raise Unreadable(f"{path.name} holds no object")
    return document


def read_settings(path: Path) -> Mapping[str, Any]:
    """``run.yaml``.

    Raises:
        Unreadable: it is damaged, or something else.
    """
    text = read_text(path)
    try:
        settings = parse_yaml(text, where="", mend="")
    except JudgeError as error:
        raise Unreadable(f"{path.name} is damaged: {error.what}") from error
    if not isinstance(settings, dict):
        raise Unreadable(f"{path.name} holds no settings")
    return settings


def read_parquet(folder: Path, name: str) -> pd.DataFrame:
    """A table, once its columns are known to be those that a run writes.

    Args:
        folder: of the run.
        name: of the table, without ".parquet".

    Raises:
        FileNotFoundError: it is not there.
        Unreadable: it is damaged, or has other columns.
    """
    import pyarrow as pa
    from pyarrow import parquet, types

    path = folder / f"{name}.parquet"
    if not path.is_file():
        raise FileNotFoundError(2, "No such file or directory", str(path))
    # A column without any value has no type.
    kinds: dict[str, Any] = dict.fromkeys(_TEXTS[name], (types.is_string, types.is_large_string, types.is_null))
    kinds |= dict.fromkeys(_WHOLE[name], (types.is_integer,))
    kinds |= dict.fromkeys(_REAL[name], (types.is_floating, types.is_null))
    kinds |= dict.fromkeys(_BYTES.get(name, ()), (types.is_binary, types.is_large_binary))
    try:
        schema = parquet.read_schema(regular(path))
        for column, of in kinds.items():
            if column not in schema.names:
                raise Unreadable(f"{path.name} has no column '{column}'")
            if not any(is_of(schema.field(column).type) for is_of in of):
                raise Unreadable(f"column '{column}' of {path.name} is {schema.field(column).type}")
        if unknown := [column for column in schema.names if column not in kinds]:
            raise Unreadable(f"{path.name} has a column '{unknown[0]}', which no run writes")
        return _within_memory(path).astype(dict.fromkeys(_REAL[name], "float64"))
    except (pa.ArrowException, OSError) as error:
        raise Unreadable(f"{path.name} is damaged") from error


def _within_memory(path: Path) -> pd.DataFrame:
    """The table of a Parquet file, unless it is too large: a few bytes stand for millions of rows."""
    import pyarrow as pa
    from pyarrow import parquet

    with parquet.ParquetFile(path) as file:
        size, batches = 0, []
        for batch in file.iter_batches(use_threads=False):
            size += batch.nbytes + CELL * batch.num_rows
            refuse_large(size, str(path), instead="give the run's own file", packed=True)
            batches.append(batch)
        table: pd.DataFrame = pa.Table.from_batches(batches, file.schema_arrow).to_pandas()
        return table


def read_csv(path: Path) -> pd.DataFrame:
    """A table as it was written: every digit, and texts as texts.

    Raises:
        Unreadable: it is damaged, or something else.
    """
    try:
        table = read_guarded(pd.read_csv(io.BytesIO(read_bytes(path)), dtype=str, keep_default_na=False))
    except pd.errors.EmptyDataError:
        return pd.DataFrame()
    except ValueError as error:
        raise Unreadable(f"{path.name} is damaged: {str(error)[:80]}") from error
    numbers = [name for name in table.columns if name not in _CSV_TEXTS]
    return table.assign(**{name: _parsed(table[name].tolist()) for name in numbers}) if len(table) else table


def _parsed(cells: Sequence[str]) -> list[Any]:
    """Whole numbers, or numbers of which some may be absent."""
    if all(cell.isdecimal() for cell in cells):
        return list(map(int, cells))
    return [float(cell) if cell else math.nan for cell in cells]
