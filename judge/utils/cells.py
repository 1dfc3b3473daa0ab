"""Cells of tables, and of CSV files that a spreadsheet opens: it would compute a text that begins as a formula does."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

# Spaces, control characters and characters without width, which a spreadsheet may pass over; signs of full width too.
FORMULA = r"[\t\r\n']|[\s\0-\x1f\u200b-\u200f\u2060\ufeff]*[=+\-@\uff0b\uff0d\uff1d\uff20]"
"""How a cell begins that a spreadsheet may compute, as a regular expression of Python and of a rating page's script."""
_FORMULA = re.compile(FORMULA)


def guard(cell: str) -> str:
    """A cell that no spreadsheet takes for a formula: an apostrophe goes before ``FORMULA`` (and an apostrophe)."""
    return f"'{cell}" if _FORMULA.match(cell) else cell


def unguard(cell: str) -> str:
    """What :func:`guard` was given; a spreadsheet may have taken the apostrophe away already."""
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell[1:]) else cell


def rows_csv(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Rows as :func:`table_csv` writes a table; whole numbers stay so beside cells that are None, which are empty."""
    import pandas as pd

    return table_csv(pd.DataFrame(map(list, rows), columns=list(columns), dtype=object))


def table_csv(table: pd.DataFrame, **how: Any) -> str:
    """A table as CSV, its texts and headings guarded. ``how``: further options of ``DataFrame.to_csv``."""
    write = partial(_changed(table, guard).to_csv, index=False, lineterminator="\n", **how)
    text = str(write())
    # Python before 3.13 does not quote a carriage return, and readers take it for the end of a row.
    return str(write(quoting=csv.QUOTE_NONNUMERIC)) if "\r" in text else text


def read_guarded(table: pd.DataFrame) -> pd.DataFrame:
    """The table that :func:`table_csv` was given, of what pandas read."""
    return _changed(table, unguard)


def _changed(table: pd.DataFrame, change: Callable[[str], str]) -> pd.DataFrame:
    texts = table.select_dtypes(exclude="number").columns
    import pandas as pd

    changed = table.copy()
    for name in texts:
        cells = [change(cell) if isinstance(cell, str) else cell for cell in table[name]]
        # Of objects whole numbers stay so beside empty cells.
        changed[name] = pd.Series(cells, table.index, object if table[name].dtype == object else None)
    return changed.rename(columns=change)


def in_text(table: pd.DataFrame) -> pd.DataFrame:
    """A table with text in place of categories; missing values stay missing."""
    return table.astype({name: table[name].cat.categories.dtype for name in table.select_dtypes("category")})


def constant(name: str, count: int) -> pd.Categorical[str]:
    """The same name so many times."""
    import numpy as np
    import pandas as pd

    return pd.Categorical.from_codes(np.zeros(count, dtype=np.int8), pd.Index([name]))


def joined_tables(tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Tables one after the other; columns that are categories in all of them stay such."""
    import pandas as pd
    from pandas.api.types import union_categoricals

    tables = [table for table in tables if len(table)] or tables[:1]
    if len(tables) < 2:
        return tables[0].reset_index(drop=True) if tables else pd.DataFrame()
    known = [name for name in tables[0] if all(isinstance(of.dtypes.get(name), pd.CategoricalDtype) for of in tables)]
    table = pd.concat([of.drop(columns=known) for of in tables], ignore_index=True)
    for place, name in enumerate(tables[0]):
        if name in known:
            names = union_categoricals([of[name] for of in tables], sort_categories=True)
            table.insert(place, name, pd.Series(names))
    return table
