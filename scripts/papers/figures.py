"""Published figures, ours out of results with intervals, and how far the two are apart."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from judge.errors import JudgeError
from judge.measure import Result
from judge.metrics import Metric
from judge.report.table import COUNT, NUMBER, TEXT, Table, table_of
from judge.statistics.consistency import correlate
from judge.statistics.intervals import bootstrap_pooled
from judge.statistics.summary import DEFAULT, JudgedRow, Summary
from judge.types import Interval

FOLDER = Path(__file__).parent / "published"
Row = tuple[str, ...]
# Columns that say what a row is about; all others are figures, or spreads of the figure before them.
_KEYS = {"captioner", "image", "dataset", "emotion", "attribute", "masked", "encoders"}
_KEYS |= {"set", "trend", "task", "verb", "judge", "metric"}


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
    rows = tuple(tuple(line[: len(keys)]) for line in lines)
    values: dict[tuple[Row, str], float] = {}
    spreads: dict[tuple[Row, str], float] = {}
    for number, (row, line) in enumerate(zip(rows, lines, strict=True), start=2):
        for column, text in zip(head[len(keys) :], line[len(keys) :], strict=True):
            spread = column.endswith(("_sd", "_ci")) and column[:-3] in head
            try:
                if text:  # Otherwise the table has nothing there.
                    (spreads if spread else values)[row, column[:-3] if spread else column] = float(text)
            except ValueError as error:
                where = f"{path}, line {number}, {column}"
                raise JudgeError(f"'{text}' is no number", where=where, mend="type it as the paper has it") from error
    return Published(keys, rows, tuple(dict.fromkeys(column for _, column in values)), values, spreads)


Field = Literal["amplification", "human", "generated", "published", "quality"]


@dataclass(frozen=True, slots=True)
class Value:
    """One of our figures, in the paper's units; ``interval``: None where there is none."""

    value: float
    interval: Interval | None = None

    def times(self, scale: float) -> Value:
        """In other units."""
        bounds = self.interval
        return Value(self.value * scale, bounds and Interval(bounds.low * scale, bounds.high * scale, bounds.level))


Ours = Mapping[tuple[Row, str], Value]


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a published table, and where ours lies in a result.

    Attributes:
        key: its name in the CSV.
        heading: as tables show it.
        digits: after the point, as published.
        metric: of ours, a name of METRICS, or a score of captions such as BLEU-4; "" where special.py finds ours.
        judge: its name; "" for counted metrics and scores of captions.
        run: name of the only run that ours is of; "" for all runs.
        field: which value of the row.
        scale: of ours to the paper's units: its tables are mostly times 100.
        signed: whether its sign says that bias is amplified.
    """

    key: str
    heading: str
    digits: int = 1
    metric: str = ""
    judge: str = ""
    run: str = ""
    field: Field = "amplification"
    scale: float = 100
    signed: bool = False


def values_of(result: Result, column: Column, judge: str) -> Iterator[tuple[str, Value]]:
    """Captioner, and ours of a column by ``judge``; none of columns without a metric."""
    if column.field == "quality":
        for captioner, quality in result.quality.items():
            for score in quality.groups:
                if (score.score, score.group) == (column.metric, "all") and np.isfinite(score.value):
                    yield captioner, Value(score.value, score.interval)
        return
    for row in result.summaries:
        if own_name(row.metric) == column.metric and (row.judge == judge or row.metric.counted):
            value = value_of(result, row, column.field)
            if value is not None:
                yield row.captioner, value


def own_name(metric: Metric) -> str:
    """The name of a metric without the balance and the hold-out of its run."""
    return metric.name.removesuffix(":unbalanced").removesuffix(f":{metric.parts}")


def value_of(result: Result, row: Summary, field: Field) -> Value | None:
    """A value of a row with its interval; None where the row has none, or one that is not finite.

    Of an amplification the interval is the row's own. A published form of a counted metric differs from that by the
    chance level, and so do its bounds. A judged side's interval is over images, for the judges as they were trained;
    with a prior there is none: images drawn again lack rare tasks, and the side's value is lower in nearly all.
    """
    value = getattr(row, field)
    if value is None or not np.isfinite(value):
        return None
    if field in {"human", "generated"}:
        interval = _of_names if row.metric.counted else _of_side
        return Value(value, None if row.metric.prior else interval(result, row, field))
    bounds = row.interval
    if field == "published" and bounds and row.amplification is not None:
        shift = value - row.amplification
        bounds = Interval(bounds.low + shift, bounds.high + shift, bounds.level)
    return Value(value, bounds)


def _of_names(result: Result, row: Summary, side: str) -> Interval | None:
    """Of Error, a share of captions, and of Ratio, the odds of one class among those that name one: Wilson's interval.

    None of other metrics, of more classes than two, and where images have several captions.
    """
    from scipy.stats import binomtest

    counts = result.counts
    mine = counts[(counts["captioner"] == row.captioner) & (counts["side"] == side)]
    value = getattr(row, side)
    if row.metric.name not in {"error", "ratio"} or mine["image_id"].duplicated().any():
        return None
    odds = row.metric.name == "ratio"
    known = mine[(mine["named"] != "") & ~mine["named"].str.contains("|", regex=False)] if odds else mine
    if odds and known["named"].nunique() != 2:
        return None
    share = value / (1 + value) if odds else value
    found = binomtest(round(share * len(known)), len(known)).proportion_ci(0.95, method="wilson")
    bounds = [float(of / (1 - of)) if odds else float(of) for of in (found.low, found.high)]
    return Interval(bounds[0], bounds[1])


def _of_side(result: Result, row: Summary, side: str) -> Interval | None:
    """Over images, drawn again within each class."""
    names = [result.scores[name] for name in ("captioner", "metric", "judge")]
    mine = result.scores[np.logical_and.reduce([of == key for of, key in zip(names, row.key, strict=True)])]
    judged = JudgedRow(row.metric, mine, DEFAULT)
    human, generated = judged.table.by_image()
    (bounds,) = bootstrap_pooled(
        human if side == "human" else generated,
        lambda sums: judged.statistic.side(sums).value[None],
        generator=np.random.default_rng(0),
        resamples=1000,
        strata=judged.strata,
    )
    return bounds


def comparison(
    published: Published, columns: Sequence[Column], ours: Ours, title: str, *, apart: bool = True
) -> Table[tuple[Any, ...]]:
    """The table as it was published, and ours behind every column that we have a figure of.

    ``apart``: with the difference in parentheses.
    """
    rows = list(dict.fromkeys([*published.rows, *(row for row, _ in ours)]))
    cells: dict[str, list[str | None]] = {}
    for column in columns:
        cells[column.heading] = [_as_published(published, column, row) for row in rows]
        cells[f"{column.heading}: ours"] = [_as_ours(published if apart else None, column, ours, row) for row in rows]
    return _table_of_columns(published.keys, rows, {heading: (TEXT, of) for heading, of in cells.items()}, title)


def _table_of_columns(
    keys: Sequence[str],
    rows: Sequence[Row],
    cells: Mapping[str, tuple[str, Sequence[Any]]],
    title: str,
    notes: Sequence[str] = (),
) -> Table[tuple[Any, ...]]:
    """Columns with their formats, without those that have no value."""
    filled = {heading: of for heading, of in cells.items() if any(value is not None for value in of[1])}
    lines = [(*row, *(values[place] for _, values in filled.values())) for place, row in enumerate(rows)]
    return table_of(keys, [(heading, how) for heading, (how, _) in filled.items()], lines, title, notes)


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


def distances(
    published: Published, columns: Sequence[Column], ours: Ours, title: str = "How far apart"
) -> Table[tuple[Any, ...]] | None:
    """How far every column of ours is from the published one; None where no cell has both.

    Cells that both have, the mean absolute difference in the paper's units, Spearman's correlation over at least three
    rows, figures of one sign (of columns whose sign says that bias is amplified), and published figures that lie in our
    intervals.
    """
    rows, found = [], []
    for column in columns:
        both = [
            (row, column.key) for row in published.rows if (row, column.key) in published.values.keys() & ours.keys()
        ]
        if not both:
            continue
        theirs, mine = [published.values[cell] for cell in both], [ours[cell].value for cell in both]
        bounds = [(published.values[cell], interval) for cell in both if (interval := ours[cell].interval)]
        rows.append((column.heading,))
        found.append(
            (
                len(both),
                f"{np.mean(np.abs(np.subtract(theirs, mine))):.{column.digits + 1}f}",
                correlate(theirs, mine).spearman if len(both) > 2 else None,
                int(np.sum((np.array(theirs) > 0) == (np.array(mine) > 0))) if column.signed else None,
                f"{sum(of.low <= value <= of.high for value, of in bounds)} of {len(bounds)}",
            )
        )
    if not rows:
        return None
    headings = ("figures", "mean difference", "rank correlation", "of one sign", "published inside our interval")
    columns_of = zip(headings, (COUNT, TEXT, NUMBER, COUNT, TEXT), zip(*found, strict=True), strict=True)
    note = "Differences without their signs; rank correlation: Spearman's, over rows."
    return _table_of_columns(("column",), rows, {name: (how, of) for name, how, of in columns_of}, title, (note,))
