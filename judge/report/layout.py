"""What all tables share: their frame, and how numbers and intervals are written."""

from __future__ import annotations

import math

from rich.table import Table

from judge.types import Interval


def start_table(*headings: str) -> Table:
    """A table of ours, and its columns of text."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in headings:
        table.add_column(heading, no_wrap=True)
    return table


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
