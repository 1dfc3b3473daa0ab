"""Cells of CSV files that people open in a spreadsheet, which would compute a text that begins as a formula does."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

_FORMULA = re.compile(r"[=+\-@\t\r']")


def guard(cell: str) -> str:
    """A cell that no spreadsheet takes for a formula: an apostrophe goes before = + - @ (and before an apostrophe)."""
    return f"'{cell}" if _FORMULA.match(cell) else cell


def unguard(cell: str) -> str:
    """What :func:`guard` was given; a spreadsheet may have taken the apostrophe away already."""
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell[1:]) else cell


def table_csv(table: pd.DataFrame, **how: Any) -> str:
    """A table as CSV, its texts guarded; numbers stay numbers. ``how``: further options of ``DataFrame.to_csv``."""
    guarded = _changed(table, guard)
    text = str(guarded.to_csv(index=False, lineterminator="\n", **how))
    if "\r" in text:  # Python before 3.13 does not quote it, and readers take it for the end of a row.
        text = str(guarded.to_csv(index=False, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC, **how))
    return text


def read_guarded(table: pd.DataFrame) -> pd.DataFrame:
    """The table that :func:`table_csv` was given, of what pandas read."""
    return _changed(table, unguard)


def _changed(table: pd.DataFrame, change: Callable[[str], str]) -> pd.DataFrame:
    texts = table.select_dtypes(exclude="number").columns
    return table.assign(
        **{name: table[name].map(lambda cell: change(cell) if isinstance(cell, str) else cell) for name in texts}
    )
