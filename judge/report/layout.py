"""What all tables share: their frame, and how numbers and intervals are written."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any

from rich.table import Column, Table
from rich.text import Text

from judge.types import Interval


def start_table(*headings: str) -> Table:
    """A table of ours, and its columns of text."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in headings:
        table.add_column(heading, no_wrap=True)
    return table


def fold(table: Table, width: int) -> Iterator[Table]:
    """The table, in as many parts as it takes so that none is wider than ``width``: no number is ever cut.

    Every part begins with the first columns of text (to the left), which say what a row is of; where these and a single
    column more are too wide, they are wrapped.
    """
    widths = [_width(column) for column in table.columns]
    first = list(takewhile(lambda place: table.columns[place].justify == "left", range(len(widths))))
    names = len(first)
    parts, room = [list(first)], width - sum(widths[:names])
    for place in range(names, len(widths)):
        if room < widths[place] and len(parts[-1]) > names:
            parts.append(list(first))
            room = width - sum(widths[:names])
        parts[-1].append(place)
        room -= widths[place]
    for part in parts:
        columns = [table.columns[place] for place in part]
        piece = start_table()
        for place, column in zip(part, columns, strict=True):
            named = place < names
            piece.add_column(column.header, justify=column.justify, no_wrap=not named, overflow="fold")
        for row in zip(*(column.cells for column in columns), strict=True):
            piece.add_row(*row)
        yield piece


def width_of(table: Table) -> int:
    """In characters, with nothing cut."""
    return sum(map(_width, table.columns))


def _width(column: Column) -> int:
    """Of the longest cell, and the space before the next column."""
    return max(Text.from_markup(str(cell)).cell_len for cell in (column.header, *column.cells)) + 2


def format_number(value: float | None, *, signed: bool = False, digits: int = 3) -> str:
    """So many digits after the point; a dash for what is absent."""
    if value is None or math.isnan(value):
        return "-"
    return f"{value:+.{digits}f}" if signed else f"{value:.{digits}f}"


def digits_of(found: Interval | None) -> int:
    """How many digits tell where in an interval a value lies: three, of a narrow one (DBA of many objects) five."""
    return 5 if found and 0 < found.high - found.low < 0.002 else 3


def format_interval(found: Interval | None, *, signed: bool = False, digits: int = 3) -> str:
    """[low, high]; a dash for what is absent."""
    if found is None:
        return "-"
    low, high = (format_number(bound, signed=signed, digits=digits) for bound in (found.low, found.high))
    return f"[{low}, {high}]"


def format_p(value: float | None) -> str:
    """Three digits; a dash for what is absent."""
    if value is None or math.isnan(value):
        return "-"
    return "<0.001" if value < 0.001 else f"{value:.3f}"


def format_coverage(coverage: Mapping[str, Any] | None, side: str) -> str:
    """Shares of a side's captions that name one class, none and several, like 74%/25%/1%."""
    if coverage is None:
        return "-"
    shares: Sequence[float] = [coverage[side][share] for share in ("one", "none", "several")]
    return "/".join(f"{share:.0%}" for share in shares)
