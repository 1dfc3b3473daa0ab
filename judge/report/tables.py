"""The main tables of a result: amplification, differences between captioners, caption quality."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from judge.measure import Result
from judge.quality import Quality, QualityScore
from judge.quality.library import CHAIR
from judge.report.notes import difference_notes
from judge.report.table import COUNT, NUMBER, SIGNED, THREE, Column, Table, digits_of, names, table_of, write, write_p
from judge.statistics.comparisons import HIGHER, LOWER, NO_VERDICT, PRIOR_ONLY, Conclusion, Difference
from judge.statistics.summary import Summary
from judge.types import Interval

DIFFERENCES = "Differences between captioners"
# Papers print BLEU-4; the shorter ones are in quality.csv.
_HIDDEN = {"BLEU-1", "BLEU-2", "BLEU-3"}
_MARKS = {**dict.fromkeys(HIGHER | LOWER, "*"), NO_VERDICT: "()", PRIOR_ONLY: "\u2020"}
"""Verdict -> its mark in the layout of papers."""


class Line(NamedTuple):
    """A row of the main table."""

    summary: Summary
    conclusion: Conclusion

    @property
    def void(self) -> bool:
        """True where a check of the run voids the row; it then shows its value and the reason alone."""
        return self.conclusion.verdict == NO_VERDICT

    @property
    def verdict(self) -> str | None:
        """The verdict, with the reason where there is none."""
        verdict, because = self.conclusion.verdict, self.conclusion.because
        return f"{verdict}: {because}" if self.void and because else verdict

    @property
    def interval(self) -> str | None:
        """The interval as text; None for a void row."""
        return None if self.void else write_interval(self.summary.interval, self.summary.basis)


def lines_of(result: Result) -> tuple[Line, ...]:
    """The rows of the main table, in the order of the result."""
    return tuple(map(Line, result.summaries, result.conclusions()))


def void_last(result: Result) -> tuple[Line, ...]:
    """The rows of the main table as readers see them: void ones are last."""
    return tuple(sorted(lines_of(result), key=lambda line: line.void))


def result_table(
    result: Result,
    *,
    verbose: bool = False,
    sides: bool = False,
    extra: Mapping[str, Mapping[str, str]] | None = None,
) -> Table[Line]:
    """The table of ``judge evaluate``: one row per captioner, metric and judge. Fractions.

    It has the captioner, the amplification with its interval, the verdict, and the metric and judge on which this
    rests. ``sides``: in place of these also the value of each side, and p. ``verbose``: also Q (how well judges guess)
    and the mean prior of metrics that have one, "human / generated" each, and all further columns. ``extra``: heading
    -> {"captioner metric" -> text}: further columns, e.g. of a known world.
    """
    level = f"{100 * result.run['level']:g}% interval"
    captioner: Column[Line] = names("captioner", lambda row: row.summary.captioner)
    rests_on: Column[Line] = names("metric (judge)", lambda row: row.summary.title)
    published: Column[Line] = Column("as published", lambda row: row.summary.published, SIGNED, optional=True)
    known: list[Column[Line]] = [
        Column(heading, partial(_known, cells), optional=True) for heading, cells in (extra or {}).items()
    ]
    verdict: Column[Line] = Column("verdict", lambda row: row.verdict, align="left", optional=True)
    if not (verbose or sides):
        value: Column[Line] = Column(f"amplification [{level}]", _value_with_interval)
        columns = [captioner, published, value, *known, verdict, rests_on]
    else:
        columns = [
            captioner,
            rests_on,
            Column("human", lambda row: row.summary.human, NUMBER),
            Column("generated", lambda row: row.summary.generated, NUMBER),
            Column("Q", lambda row: row.summary.qualities if verbose else None, THREE, optional=True),
            Column("prior", lambda row: row.summary.priors if verbose else None, THREE, optional=True),
            published,
            Column("amplification", lambda row: row.summary.amplification, SIGNED),
            *known,
            Column(level, lambda row: row.interval, optional=True),
            Column("p", lambda row: None if row.void else row.summary.p_value, write_p, optional=True),
            verdict,
        ]
    return Table(
        (*columns, *(_details(result) if verbose else ())),
        void_last(result),
        "Amplification",
        digits=lambda row: digits_of(row.summary.interval),
        quiet=lambda row: row.void,
    )


def paper_table(result: Result) -> Table[str]:
    """A row for each captioner, as papers print it: its amplification by each metric, then its caption quality."""
    lines = {(line.summary.captioner, line.summary.title): line for line in lines_of(result)}
    columns: list[Column[str]] = [names("captioner", str)]
    for title in dict.fromkeys(title for _, title in lines):
        found = {name: line for (name, of), line in lines.items() if of == title}
        columns.append(Column(title, found.get, _in_paper, merit=_nearness))
    for score in _scores_of(result.quality):
        values = {name: of.value(score) for name, of in result.quality.items()}
        columns.append(Column(score, values.get, NUMBER, merit=partial(_merit, score)))
    table = Table(tuple(columns), tuple(result.run["captioners"]), "Amplification")
    marks = set(map(_mark, lines.values()))
    notes = {
        "*: shown to differ from no amplification (p < 0.05).": "*" in marks,
        "In parentheses: a check of the run voids the value.": "()" in marks,
        "\u2020: the value may come from how often classes or tasks are named (prior only).": "\u2020" in marks,
        "Bold: nearest to no amplification, or best in quality; see the tests of differences.": any(
            map(table.best, columns)
        ),
    }
    return replace(table, notes=(" ".join(note for note, holds in notes.items() if holds),))


def _mark(line: Line) -> str:
    return _MARKS.get(line.conclusion.verdict or "", "")


def _in_paper(line: Line) -> str:
    value = write(line.summary.amplification, SIGNED, digits_of(line.summary.interval))
    return f"({value})" if line.void else value + _mark(line)


def _nearness(line: Line | None) -> float | None:
    """Minus the distance of a row from no amplification; None for one without a value or a verdict of its own."""
    counts = line and _mark(line) in {"", "*"} and math.isfinite(line.summary.distance)
    return -line.summary.distance if line and counts else None


def _merit(score: str, value: float | None) -> float | None:
    """A score of caption quality, negative where less is better."""
    if value is None or math.isnan(value):
        return None
    return -value if score in CHAIR else value


def _details(result: Result) -> list[Column[Line]]:
    """The columns for readers who want all."""
    captioners, attribute = result.run["captioners"], result.run["attribute"]
    return [
        Column("p of Q", lambda row: row.summary.guessing and row.summary.guessing.p_value, write_p, optional=True),
        Column("detectable", lambda row: row.conclusion.detectable, ".#f", optional=True),
        Column("chance", lambda row: row.summary.chance, NUMBER, optional=True),
        Column("chance level", lambda row: row.summary.chance_level, SIGNED, optional=True),
        Column("sd", lambda row: row.summary.sd, NUMBER, optional=True),
        Column("images", lambda row: row.summary.images, COUNT),
        Column("seeds", lambda row: row.summary.seeds if row.summary.seeds > 1 else None, COUNT, optional=True),
        Column(
            f"names {attribute}: one/none/several",
            lambda row: (captioners[row.summary.captioner]["coverage"] or {}).get("generated"),
            lambda shares: "/".join(f"{shares[share]:.0%}" for share in ("one", "none", "several")),
        ),
    ]


def _value_with_interval(row: Line) -> str:
    """The amplification, and its interval unless the row is void."""
    value = write(row.summary.amplification, SIGNED, digits_of(row.summary.interval))
    return f"{value} {row.interval}" if row.interval else value


def _known(cells: Mapping[str, str], row: Line) -> str | None:
    return cells.get(" ".join(row.summary.key[:2]))


def write_interval(interval: Interval | None, basis: str | None, digits: int | None = None) -> str | None:
    """An interval, with a star where it leaves out training noise (see :mod:`judge.report.warnings`)."""
    if interval is None:
        return None
    return write(interval, SIGNED, digits or digits_of(interval)) + ("*" if basis == "these judges" else "")


def difference_table(found: Sequence[Difference], *, verbose: bool = True) -> Table[Difference]:
    """A row per pair of captioners, metric and judge: amplification of the first less that of the second."""
    level = max((row.interval.level for row in found if row.interval), default=0.95)
    columns: list[Column[Difference]] = [
        names("metric (judge)", lambda row: row.title),
        names("first - second", lambda row: f"{row.first} - {row.second}"),
        Column("difference", lambda row: row.value, SIGNED),
        Column(f"{100 * level:g}% interval", lambda row: row.interval, SIGNED, optional=True),
        Column("p", lambda row: row.p_value if verbose else None, write_p, optional=True),
        Column("p (Holm)", lambda row: row.p_holm, write_p, optional=True),
        Column("verdict", lambda row: row.verdict, align="left", optional=True),
    ]
    notes = tuple(difference_notes(found)) if verbose else ()
    return Table(tuple(columns), tuple(found), DIFFERENCES, notes, lambda row: digits_of(row.interval))


def quality_table(found: Mapping[str, Quality], *, verbose: bool = False) -> Table[tuple[Any, ...]]:
    """A row per captioner and class, and three of the largest gap between two classes. Fractions."""
    scores = _scores_of(found)
    numbers: list[tuple[str, str | Callable[[Any], str]]] = [("images", COUNT), *((score, str) for score in scores)]
    numbers += [("vocabulary", COUNT), ("length", ".1f")] if verbose else []
    rows: list[tuple[Any, ...]] = []
    for name, quality in found.items():
        for group, images in {row.group: row.images for row in quality.groups}.items():
            of_captions = (quality.vocabulary, quality.mean_length) if group == "all" else ({}, {})
            values = [write(quality.value(score, group), NUMBER) for score in scores]
            rows.append((name, group, images, *values, *(of.get("generated") for of in of_captions)))
        gaps = {gap.score: gap for gap in quality.gaps}
        rows += [(name, label, None, *cells, None, None) for label, *cells in _gap_rows(gaps, scores)]
    return table_of(["captioner", "images of"], numbers, rows, "Caption quality")


def _gap_rows(found: Mapping[str, QualityScore], scores: Sequence[str]) -> Iterator[tuple[str | None, ...]]:
    """The largest gaps of ``scores``, their intervals and their p; no row where there is nothing."""
    parts = [("largest gap", "value"), ("its interval", "interval"), ("its p", "p_value")]
    for label, part in parts if found else ():
        values = [getattr(found.get(score), part, None) for score in scores]
        yield label, *(of if of is None else write_p(of) if part == "p_value" else write(of, NUMBER) for of in values)


def _scores_of(found: Mapping[str, Quality]) -> list[str]:
    """The scores to show: those of the COCO evaluation, then those given."""
    every = dict.fromkeys(row.score for of in found.values() for row in of.groups)
    return [name for name in every if name not in _HIDDEN]
