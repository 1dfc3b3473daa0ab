"""The published figures: a CSV a table, in ``published/``; typed from the papers (see README.md there)."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from judge.errors import JudgeError

FOLDER = Path(__file__).parent / "published"
Row = tuple[str, ...]
# Columns that say what a row is about; all others are figures, or spreads of the figure before them.
_KEYS = {"captioner", "image", "dataset", "emotion", "attribute", "masked", "encoders", "set", "trend", "task", "verb"}
_SPREADS = ("_sd", "_ci")


@dataclass(frozen=True, slots=True)
class Published:
    """A published table.

    Attributes:
        keys: names of the columns that say what a row is about.
        rows: their values, in the paper's order.
        columns: names of the columns of figures.
        values: (row, column) -> figure, as printed.
        spreads: (row, column) -> what stands behind its plus-minus sign: a standard deviation or half an interval.
    """

    keys: tuple[str, ...]
    rows: tuple[Row, ...]
    columns: tuple[str, ...]
    values: Mapping[tuple[Row, str], float]
    spreads: Mapping[tuple[Row, str], float]

    def column(self, name: str, rows: Sequence[Row] = ()) -> list[float]:
        """A column, of all rows or of some."""
        return [self.values[row, name] for row in rows or self.rows]


def read_published(name: str) -> Published:
    """The figures in ``published/NAME.csv``.

    Raises:
        JudgeError: no such file; a cell that is no number.
    """
    path = FOLDER / f"{name}.csv"
    try:
        with path.open(encoding="utf-8", newline="") as file:
            head, *lines = list(csv.reader(file))
    except (OSError, ValueError) as error:
        raise JudgeError("no published figures there", where=str(path), mend="see scripts/papers/published") from error
    keys = tuple(column for column in head if column in _KEYS)
    values: dict[tuple[Row, str], float] = {}
    spreads: dict[tuple[Row, str], float] = {}
    rows = []
    for number, line in enumerate(lines, start=2):
        row = tuple(line[: len(keys)])
        rows.append(row)
        for column, text in zip(head[len(keys) :], line[len(keys) :], strict=True):
            if not text:  # The table has nothing there.
                continue
            plain = column[:-3] if column.endswith(_SPREADS) and column[:-3] in head else None
            into, name_of = (values, column) if plain is None else (spreads, plain)
            try:
                into[row, name_of] = float(text)
            except ValueError as error:
                where = f"{path}, line {number}, {column}"
                raise JudgeError(f"'{text}' is no number", where=where, mend="type it as the paper has it") from error
    columns = tuple(dict.fromkeys(column for _, column in values))
    return Published(keys, tuple(rows), columns, values, spreads)
