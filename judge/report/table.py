"""Tables as data: columns that read raw values from rows, and how each value is written. ``render.py`` prints them."""

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from operator import itemgetter
from typing import Any, Generic, Literal, TypeVar

from judge.errors import printable
from judge.statistics.inference import SIGNIFICANT
from judge.types import Interval

ABSENT = "-"
# How values are written: format specifications, "#" for the digits of the row. Intervals and pairs by their parts.
TEXT, COUNT, NUMBER, SIGNED, THREE, SHARE = "", ",", ".3f", "+.#f", ".3g", ".1%"
R = TypeVar("R")
K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class Column(Generic[R]):
    """A column of a table whose rows are of type R.

    Attributes:
        heading: above it.
        value: row -> raw value; None where absent.
        format: how a value is written: a specification as above, or a function.
        align: "left" for text. The first columns, as far as they are left-aligned, say what a row is about.
        optional: left out where no row has a value.
        merit: raw value -> how good it is; None for a value that does not count. The best cells are printed in bold.
    """

    heading: str
    value: Callable[[R], Any]
    format: str | Callable[[Any], str] = TEXT
    align: Literal["left", "right"] = "right"
    optional: bool = False
    merit: Callable[[Any], float | None] | None = None


@dataclass(frozen=True, slots=True)
class Table(Generic[R]):
    """A table as data.

    ``rows``: whatever the columns read their values from. ``notes``: lines below it. ``digits``: row -> digits after
    the point of the values that an interval goes with. ``quiet``: row -> whether it is printed in grey.
    """

    columns: tuple[Column[R], ...]
    rows: tuple[R, ...]
    title: str = ""
    notes: tuple[str, ...] = ()
    digits: Callable[[R], int] = lambda _: 3
    quiet: Callable[[R], bool] = lambda _: False

    def shown(self) -> list[tuple[Column[R], list[str]]]:
        """The columns to show, each with its cells as text."""
        cells = [(column, [self._cell(column, row) for row in self.rows]) for column in self.columns]
        return [(column, of) for column, of in cells if not column.optional or {*of} - {ABSENT}]

    def best(self, column: Column[R]) -> set[int]:
        """Numbers of the rows that have the best value of a column, or print it; none where fewer than two count."""
        found = [column.merit(column.value(row)) if column.merit else None for row in self.rows]
        known = {place: merit for place, merit in enumerate(found) if merit is not None}
        if len(known) < 2:
            return set()
        cells = {place: self._cell(column, self.rows[place]) for place in known}
        most = max(known.values())
        best = {cells[place] for place, merit in known.items() if merit == most}
        return {place for place, cell in cells.items() if cell in best}

    def _cell(self, column: Column[R], row: R) -> str:
        value, how = column.value(row), column.format
        if isinstance(how, str):
            return printable(write(value, how, self.digits(row)))
        return ABSENT if value is None else printable(how(value))


def names(heading: str, value: Callable[[R], str | None]) -> Column[R]:
    """A column of text."""
    return Column(heading, value, align="left")


def table_of(
    texts: Sequence[str],
    numbers: Sequence[tuple[str, str | Callable[[Any], str]]],
    rows: Iterable[tuple[Any, ...]],
    title: str = "",
    notes: Sequence[str] = (),
) -> Table[tuple[Any, ...]]:
    """A table whose rows are tuples: texts under the headings ``texts``, then ``numbers`` (heading, format)."""
    columns: list[Column[tuple[Any, ...]]] = [names(text, itemgetter(place)) for place, text in enumerate(texts)]
    columns += [Column(heading, itemgetter(len(texts) + k), how) for k, (heading, how) in enumerate(numbers)]
    return Table(tuple(columns), tuple(rows), title, tuple(notes))


def write(value: Any, how: str, digits: int = 3) -> str:
    """A value as text: a number, [low, high] of an interval, "human / generated" of a pair; "-" where absent."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ABSENT
    if isinstance(value, Interval):
        return f"[{write(value.low, how, digits)}, {write(value.high, how, digits)}]"
    if isinstance(value, tuple):
        return " / ".join(write(part, how, digits) for part in value)
    return format(value, how.replace("#", str(digits)))


def as_json(value: Any) -> Any:
    """A value as JSON holds it: classes by field, intervals as [low, high]; NaN and infinity are null."""
    if isinstance(value, Interval):
        value = [value.low, value.high]
    if is_dataclass(value):
        return {part.name: as_json(getattr(value, part.name)) for part in fields(value)}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, Mapping):
        return {str(name): as_json(of) for name, of in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(of) for of in value]
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    return value


def json_text(value: Any) -> str:
    """A file of :func:`as_json` values."""
    return json.dumps(as_json(value), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def grouped(pairs: Iterable[tuple[K, V]]) -> dict[K, list[V]]:
    """Key -> its values, both in order of appearance."""
    found: dict[K, list[V]] = {}
    for key, value in pairs:
        found.setdefault(key, []).append(value)
    return found


def how_many(count: int, noun: str) -> str:
    """A count and its noun, with a plural "s": "1 image", "1,000 images"."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def span(counts: Iterable[int]) -> str:
    """The smallest and the largest of counts, once where they are the same: "3,597", "158 to 160"."""
    known = set(counts)
    return " to ".join(f"{count:,}" for count in sorted({min(known), max(known)}))


def write_p(value: float) -> str:
    """A p-value: three digits after the point. It is never rounded up to the limit that it is below."""
    if value < 0.001:
        return "<0.001"
    return f"<{SIGNIFICANT:.3f}" if value < SIGNIFICANT <= round(value, 3) else f"{value:.3f}"


def digits_of(found: Interval | None) -> int:
    """Number of digits that show where in an interval a value lies: 3, or 5 for a narrow one (DBA of many objects)."""
    return 5 if found and 0 < found.high - found.low < 0.002 else 3
