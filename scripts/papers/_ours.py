"""Our figures: out of results, with intervals, in the papers' units."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from _published import Row

from judge.measure import Result
from judge.statistics.intervals import bootstrap_pooled
from judge.statistics.summary import DEFAULT, JudgedRow, Summary
from judge.types import Interval

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
