"""Tables as data: columns that read raw values from rows, and how each value is written. ``render.py`` prints them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from judge.types import Interval

ABSENT = "-"
R = TypeVar("R")
Format = Callable[[Any, int], str]
"""(value, digits of its row) -> text."""


@dataclass(frozen=True, slots=True)
class Column(Generic[R]):
    """A column of a table whose rows are of type R.

    Attributes:
        heading: above it.
        value: row -> raw value; None where absent.
        format: how a value is written.
        align: "left" for text. The first columns, as far as they are left-aligned, say what a row is about.
        optional: left out where no row has a value.
    """

    heading: str
    value: Callable[[R], Any]
    format: Format
    align: Literal["left", "right"] = "right"
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Table(Generic[R]):
    """A table as data.

    Attributes:
        columns: from left to right.
        rows: whatever the columns read their values from.
        title: above it; "" for none.
        notes: lines below it.
        digits: row -> digits after the point of the values that an interval goes with.
    """

    columns: tuple[Column[R], ...]
    rows: tuple[R, ...]
    title: str = ""
    notes: tuple[str, ...] = ()
    digits: Callable[[R], int] = lambda _: 3

    def shown(self) -> list[tuple[Column[R], list[str]]]:
        """The columns to show, each with its cells as text."""
        cells = [(column, [self._cell(column, row) for row in self.rows]) for column in self.columns]
        return [(column, of) for column, of in cells if not column.optional or {*of} - {ABSENT}]

    def _cell(self, column: Column[R], row: R) -> str:
        value = column.value(row)
        return ABSENT if _is_absent(value) else column.format(value, self.digits(row))


def names(heading: str, value: Callable[[R], str | None]) -> Column[R]:
    """A column of text."""
    return Column(heading, value, text, align="left")


def digits_of(found: Interval | None) -> int:
    """How many digits tell where in an interval a value lies: 3, or 5 for a narrow one (DBA of many objects)."""
    return 5 if found and 0 < found.high - found.low < 0.002 else 3


def text(value: object, _: int = 0) -> str:
    """As it is."""
    return str(value)


def count(value: int, _: int = 0) -> str:
    """A whole number: 1,200."""
    return f"{value:,}"


def number(value: float, _: int = 3) -> str:
    """Three digits after the point."""
    return f"{value:.3f}"


def exact(value: float, digits: int = 3) -> str:
    """As many digits after the point as the row has."""
    return f"{value:.{digits}f}"


def significant(value: float, _: int = 4) -> str:
    """Four significant digits: values of any size."""
    return f"{value:.4g}"


def signed(value: float, digits: int = 3) -> str:
    """With its sign."""
    return f"{value:+.{digits}f}"


def percent(value: float, _: int = 1) -> str:
    """A percentage, two digits after the point."""
    return f"{value:.2f}%"


def p_value(value: float, _: int = 3) -> str:
    """Three digits after the point."""
    return "<0.001" if value < 0.001 else f"{value:.3f}"


def pair(values: tuple[float, float], _: int = 3) -> str:
    """Human side / generated side."""
    return " / ".join(map(number, values))


def interval(found: Interval, _: int = 3) -> str:
    """As [low, high]."""
    return f"[{found.low:.3f}, {found.high:.3f}]"


def signed_interval(found: Interval, digits: int = 3) -> str:
    """As [low, high], with signs."""
    return f"[{signed(found.low, digits)}, {signed(found.high, digits)}]"


def coverage(shares: Mapping[str, float], _: int = 0) -> str:
    """Shares of captions that name one class, none and several: 74%/25%/1%."""
    return "/".join(f"{shares[share]:.0%}" for share in ("one", "none", "several"))


def _is_absent(value: object) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))
