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


def format_number(value: float | None, *, signed: bool = False) -> str:
    """Three digits after the point; a dash for what is absent."""
    if value is None or math.isnan(value):
        return "-"
    return f"{value:+.3f}" if signed else f"{value:.3f}"


def format_interval(found: Interval | None, *, signed: bool = False) -> str:
    """[low, high]; a dash for what is absent."""
    return f"[{format_number(found.low, signed=signed)}, {format_number(found.high, signed=signed)}]" if found else "-"
