"""Published figures, ours out of results with intervals, and how far the two are apart."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np

from judge.errors import JudgeError
from judge.measure import Result
from judge.report.table import COUNT, NUMBER, names
from judge.report.table import Column as Shown
from judge.report.table import Table as Printed
from judge.statistics import conflict_score, ranking_consistency
from judge.statistics.consistency import correlate
from judge.statistics.intervals import bootstrap_pooled
from judge.statistics.summary import DEFAULT, JudgedRow, Summary
from judge.types import Interval

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
    """A column of a published table, and where ours is found in a result.

    Attributes:
        key: its name in the CSV.
        heading: as tables show it.
        digits: after the point, as published.
        metric: of ours, a name of METRICS, or a score of captions such as BLEU-4; "" where a script finds it itself.
        judge: who judges; "" for counted metrics and scores of captions.
        field: which value of the row.
        scale: of ours to the paper's units: its tables are mostly times 100.
        signed: whether the sign says that something is amplified.
    """

    key: str
    heading: str
    digits: int = 1
    metric: str = ""
    judge: str = ""
    field: Field = "amplification"
    scale: float = 100
    signed: bool = False


def by_captioner(
    columns: Iterable[Column], results: Iterable[Result], stand_ins: Mapping[str, str]
) -> dict[tuple[Row, str], Value]:
    """Ours of tables with a row a captioner. A stand-in's figures stand once, under the first judge that it is for.

    Args:
        columns: of the table.
        results: of ``judge evaluate``; each holds some metrics.
        stand_ins: judge -> the judge that was asked in its place.
    """
    found: dict[tuple[Row, str], Value] = {}
    once: dict[tuple[str, str, str], Column] = {}
    for column in columns:
        once.setdefault((column.metric, stand_ins.get(column.judge, column.judge), column.field), column)
    for result in results:
        for (_, judge, _), column in once.items():
            for captioner, value in _values(result, column, judge):
                found[(captioner,), column.key] = value.times(column.scale)
    return found


def _values(result: Result, column: Column, judge: str) -> Iterator[tuple[str, Value]]:
    if column.field == "quality":
        for captioner, quality in result.quality.items():
            for score in quality.groups:
                if (score.score, score.group) == (column.metric, None) and np.isfinite(score.value):
                    yield captioner, Value(score.value, score.interval)
        return
    for row in result.summaries:
        if row.metric.name == column.metric and (row.judge == judge or row.metric.counted):
            value = value_of(result, row, column.field)
            if value is not None:
                yield row.captioner, value


def value_of(result: Result, row: Summary, field: Field) -> Value | None:
    """A value of a row with its interval; None where the row has none, or one that is not finite.

    Of an amplification the interval is the row's own. A published form of a counted metric differs from that by the
    chance level, and so do its bounds. A judged side's interval is over images, for the judges as they were trained;
    with a prior there is none: images drawn again lack rare tasks, and the side's value is lower in nearly all.
    """
    value = None if field == "quality" else getattr(row, field)
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


def difference(published: Published, whole: str, minuend: str, subtrahend: str, *, within: float = 0.1001) -> str:
    """How many rows have ``whole = minuend - subtrahend``, up to the rounding of three figures."""
    columns = [published.column(name) for name in (whole, minuend, subtrahend)]
    apart = [abs(a - b + c) for a, b, c in zip(*columns, strict=True)]
    off = [" ".join(row) for row, d in zip(published.rows, apart, strict=True) if d > within]
    right = f"{len(apart) - len(off)} of {len(apart)} rows"
    text = f"Published {whole} = {minuend} - {subtrahend} to within rounding in {right}"
    return f"{text}; not in {', '.join(off)}." if off else f"{text}."


def judges_agree(published: Published, first: str, second: str, told: str) -> str:
    """Conflict score and ranking consistency of two judges (ImageCaptioner2, section 5.5.2) from published columns."""
    a, b = published.column(first), published.column(second)
    conflict, ranking = conflict_score(a, b), ranking_consistency(a, b)
    return (
        f"From the published figures of {first} and {second}: conflict score {conflict:.2%}, ranking consistency "
        f"{ranking:.3f}{told}."
    )


def equal(first: Sequence[float], second: Sequence[float], what: str) -> str:
    """How many figures of two published columns are the same."""
    same = sum(a == b for a, b in zip(first, second, strict=True))
    return f"{what}: {same} of {len(first)} figures are the same."
