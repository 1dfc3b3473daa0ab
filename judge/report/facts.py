"""What a result was measured on, as tables: classes, coverage, alignment, what was left out; and scores by class."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import pandas as pd

from judge.measure import Result
from judge.metrics import find_metric
from judge.report.notes import labels_left_out, left_out_of
from judge.report.table import COUNT, NUMBER, SIGNED, Column, Table, names
from judge.statistics.contributions import judged_rows
from judge.statistics.summary import DEFAULT

SHARE = ".1%"


def fact_tables(result: Result) -> Iterator[Table[Any]]:
    """All of them; those without rows are left out."""
    run = result.run
    tables: list[Table[Any]] = [
        class_table(run),
        class_score_table(result),
        coverage_table(run),
        alignment_table(run),
        left_table(run),
    ]
    yield from (table for table in tables if table.rows)


class ClassRow(NamedTuple):
    """Images of a class that a captioner, or several alike, were measured on."""

    captioner: str
    name: str
    images: int


def class_table(run: Mapping[str, Any]) -> Table[ClassRow]:
    """How many images of each class; of several attributes, of each class of their product."""
    counts: dict[tuple[tuple[str, int], ...], list[str]] = {}
    for captioner, entry in run["captioners"].items():
        counts.setdefault(tuple(entry["images"].items()), []).append(captioner)
    # Captioners mostly have the same images: nine classes are then nine rows, however many captioners there are.
    whose = {
        of: "all" if len(names) == len(run["captioners"]) > 1 else ", ".join(names) for of, names in counts.items()
    }
    rows = [ClassRow(whose[of], name, images) for of in counts for name, images in of]
    columns: tuple[Column[ClassRow], ...] = (
        names("captioner", lambda row: row.captioner),
        names(f"{run['attribute']}, as perceived", lambda row: row.name),
        Column("images", lambda row: row.images, COUNT),
    )
    return Table(columns, tuple(rows), "Images by class")


class ClassScore(NamedTuple):
    """Mean scores of a class's captions."""

    captioner: str
    title: str
    name: str
    images: int
    human: float
    generated: float


def class_score_table(result: Result) -> Table[ClassScore]:
    """Scores by class, of metrics without priors whose judges guess the attribute.

    Captions count as in the metric: the mean over classes is its value of the side.
    """
    columns: tuple[Column[ClassScore], ...] = (
        names("captioner", lambda row: row.captioner),
        names("metric (judge)", lambda row: row.title),
        names("class", lambda row: row.name),
        Column("images", lambda row: row.images, COUNT),
        Column("human", lambda row: row.human, NUMBER),
        Column("generated", lambda row: row.generated, NUMBER),
        Column("difference", lambda row: row.generated - row.human, SIGNED),
    )
    note = "Mean score of a class's captions. No interval and no test: a guide to where to look."
    return Table(columns, tuple(_class_scores(result.scores)), "Scores by class", (note,))


def _class_scores(scores: pd.DataFrame) -> Iterator[ClassScore]:
    for row in judged_rows(scores, DEFAULT):
        if row.metric.prior or row.metric.target == "tasks":
            continue
        scored = row.captions[row.captions["n"] > 0]
        sums = scored.groupby(["answer", "side"], observed=True)[["n", "q"]].sum()
        means = (sums["q"] / sums["n"]).unstack("side")
        images = scored.groupby("answer")["image_id"].nunique()
        for of in sorted(set(scored["answer"])):
            human, generated = (float(means.loc[of, side]) for side in ("human", "generated"))
            yield ClassScore(row.line.captioner, row.line.title, str(of), int(images[of]), human, generated)


class Covered(NamedTuple):
    """Of one side of a captioner, how often its captions name a class."""

    captioner: str
    side: str
    shares: Mapping[str, Any]


def coverage_table(run: Mapping[str, Any]) -> Table[Covered]:
    """Shares of captions that name one class, none, several."""
    rows = [
        Covered(name, side, shares)
        for name, entry in run["captioners"].items()
        for side, shares in (entry["coverage"] or {}).items()
    ]

    def share(name: str) -> Column[Covered]:
        return Column(f"name {name}", lambda row: row.shares[name], SHARE)

    columns: tuple[Column[Covered], ...] = (
        names("captioner", lambda row: row.captioner),
        names("captions", lambda row: row.side),
        share("one"),
        share("none"),
        share("several"),
    )
    note = (
        f"How many captions name a class of {run['attribute']}. A captioner that always says 'person' reveals nothing."
    )
    return Table(columns, tuple(rows), "Coverage", (note,))


class Aligned(NamedTuple):
    """What alignment left of people's words for a captioner and a metric."""

    captioner: str
    metric: str
    report: Mapping[str, Any]


def alignment_table(run: Mapping[str, Any]) -> Table[Aligned]:
    """Shares of people's tokens kept, exchanged, unknown."""
    rows = [
        Aligned(name, find_metric(metric).title, report)
        for name, entry in run["captioners"].items()
        for metric, report in entry["alignment"].items()
    ]

    def share(heading: str, name: str) -> Column[Aligned]:
        return Column(heading, lambda row: row.report.get(name), SHARE)

    columns: tuple[Column[Aligned], ...] = (
        names("captioner", lambda row: row.captioner),
        names("metric", lambda row: row.metric),
        names("alignment", lambda row: row.report["how"]),
        share("tokens kept", "tokens_kept"),
        share("exchanged", "tokens_substituted"),
        share("words kept", "words_kept"),
    )
    note = "Words of people's captions that the captioner lacks become <unk>, or the nearest word that it has."
    return Table(columns, tuple(rows), "Alignment of people's captions", (note,))


class LeftOut(NamedTuple):
    """Images, captions or tasks of a captioner that were left out."""

    captioner: str
    reason: str
    number: int


def left_table(run: Mapping[str, Any]) -> Table[LeftOut]:
    """What was left out, by reason."""
    rows = [
        LeftOut(name, reason, count)
        for name, entry in run["captioners"].items()
        for reason, count in left_out_of(entry).items()
    ]
    rows += [LeftOut("labels", f"no class: {why}", count) for why, count in labels_left_out(run["labels"]).items()]
    columns: tuple[Column[LeftOut], ...] = (
        names("captioner", lambda row: row.captioner),
        names("reason", lambda row: row.reason),
        Column("images, captions or tasks", lambda row: row.number, COUNT),
    )
    return Table(columns, tuple(rows), "Left out")
