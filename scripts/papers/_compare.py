"""Published figures and ours, beside each other, and how far they are apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from _ours import Column, Ours, Value
from _published import Published, Row

from judge.report.table import COUNT, NUMBER, names
from judge.report.table import Column as Shown
from judge.report.table import Table as Printed
from judge.statistics.correlation import correlate


def comparison(
    published: Published, columns: Sequence[Column], ours: Ours, title: str, *, apart: bool = True
) -> Printed[Row]:
    """The table as it was published, and ours behind every column that we have a figure of.

    ``apart``: with the difference in parentheses.
    """
    rows = dict.fromkeys([*published.rows, *(row for row, _ in ours)])
    shown: list[Shown[Row]] = [
        names(key, lambda row, place=place: row[place])  # type: ignore[misc]  # mypy knows no defaults of lambdas
        for place, key in enumerate(published.keys)
    ]
    for column in columns:
        shown += [
            Shown(column.heading, partial(_as_published, published, column), str, optional=True),
            Shown(
                f"{column.heading}: ours",
                partial(_as_ours, published if apart else None, column, ours),
                str,
                optional=True,
            ),
        ]
    return Printed(tuple(shown), tuple(rows), title)


def _as_published(published: Published, column: Column, row: Row) -> str | None:
    value, spread = (of.get((row, column.key)) for of in (published.values, published.spreads))
    if value is None:
        return None
    return f"{value:.{column.digits}f}" + ("" if spread is None else f" ± {spread:.{column.digits}f}")


def _as_ours(published: Published | None, column: Column, ours: Ours, row: Row) -> str | None:
    found = ours.get((row, column.key))
    printed = None if published is None else published.values.get((row, column.key))
    if found is None:
        return None
    digits = column.digits
    text = f"{found.value:.{digits}f}"
    if found.interval:
        text += f" [{found.interval.low:.{digits}f}, {found.interval.high:.{digits}f}]"
    return text if printed is None else f"{text} ({found.value - printed:+.{digits}f})"


@dataclass(frozen=True, slots=True)
class Distance:
    """How far a column of ours is from the published one.

    Attributes:
        column: which.
        figures: cells that both have.
        apart: mean absolute difference, in the paper's units.
        rank: Spearman's correlation over rows; None for fewer than three.
        signs: figures of one sign, of columns whose sign says that something is amplified; else None.
        inside: published figures inside our interval.
        intervals: figures of ours that have an interval.
    """

    column: Column
    figures: int
    apart: float
    rank: float | None
    signs: int | None
    inside: int
    intervals: int


def distances(published: Published, columns: Sequence[Column], ours: Ours) -> list[Distance]:
    """Of every column that ours and the published table have a figure of."""
    found = []
    for column in columns:
        pairs = [
            (published.values[row, column.key], ours[row, column.key])
            for row in published.rows
            if (row, column.key) in ours and (row, column.key) in published.values
        ]
        if pairs:
            found.append(_distance(column, pairs))
    return found


def _distance(column: Column, pairs: Sequence[tuple[float, Value]]) -> Distance:
    theirs, mine = [printed for printed, _ in pairs], [value.value for _, value in pairs]
    bounded = [(printed, value.interval) for printed, value in pairs if value.interval]
    return Distance(
        column,
        len(pairs),
        sum(abs(a - b) for a, b in zip(theirs, mine, strict=True)) / len(pairs),
        correlate(theirs, mine).spearman if len(pairs) > 2 else None,
        sum((a > 0) == (b > 0) for a, b in zip(theirs, mine, strict=True)) if column.signed else None,
        sum(bounds.low <= printed <= bounds.high for printed, bounds in bounded),
        len(bounded),
    )


def distance_table(found: Sequence[Distance], title: str = "How far apart") -> Printed[Distance]:
    """A row a column."""
    columns: tuple[Shown[Distance], ...] = (
        names("column", lambda row: row.column.heading),
        Shown("figures", lambda row: row.figures, COUNT),
        Shown("mean difference", lambda row: f"{row.apart:.{row.column.digits + 1}f}", str),
        Shown("rank correlation", lambda row: row.rank, NUMBER, optional=True),
        Shown("of one sign", lambda row: row.signs, COUNT, optional=True),
        Shown("published inside our interval", lambda row: f"{row.inside} of {row.intervals}", str),
    )
    note = "Differences without their signs; rank correlation: Spearman's, over rows."
    return Printed(columns, tuple(found), title, (note,))
