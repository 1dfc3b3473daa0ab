"""The sections of a report, in order. Every renderer (terminal, Markdown, LaTeX, page) walks this list.

A new section is a row of ``SECTIONS``, and the functions that make its tables and figures.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from judge.measure import Result
from judge.report import figures
from judge.report.detail_tables import breakdown_tables, consistency_tables, run_tables
from judge.report.notes import class_notes, footnotes, summary_lines
from judge.report.plots import Drawing
from judge.report.table import Table
from judge.report.tables import difference_table, quality_table, result_table
from judge.report.warnings import warnings

# Limits of all such measurements.
LIMITS = (
    "A small amplification is no proof of fairness: judges find only what they can learn, about what was labelled.",
    "Labels are perceived classes. They leave out many people, and say nothing about anyone's identity.",
    "Compare captioners under one judge, metric and protocol on the same images, never with a paper's table.",
    "Never use a judge to infer an attribute of a person.",
)


class Detail(NamedTuple):
    """How much of the tables is shown.

    Attributes:
        verbose: all columns, tables and notes.
        extra: further columns of the main table; see :func:`~judge.report.tables.result_table`.
        most: differences between captioners; no table of more.
        titles: of the main tables too.
    """

    verbose: bool = True
    extra: Mapping[str, Mapping[str, str]] | None = None
    most: float = math.inf
    titles: bool = True


EVERYTHING = Detail()


def _nothing(*_: Any) -> tuple[()]:
    return ()


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a report; on a page it is left out where it has no content.

    Attributes:
        name: of its place on the page.
        heading: above it.
        intro: a sentence below the heading.
        figures: its figures, on the page alone.
        tables: its tables; those without rows are left out.
        warnings, lines: sentences of the page alone; warnings in bold.
        folded: sentences of the page that are shown on demand.
    """

    name: str
    heading: str
    intro: str = ""
    figures: Callable[[Result], Iterable[Drawing]] = _nothing
    tables: Callable[[Result, Detail], Iterable[Table[Any]]] = _nothing
    warnings: Callable[[Result], Iterable[str]] = _nothing
    lines: Callable[[Result], Iterable[str]] = _nothing
    folded: Callable[[Result], Iterable[str]] = _nothing


def _main_tables(result: Result, detail: Detail) -> Iterator[Table[Any]]:
    found = result.differences()
    tables: list[Table[Any]] = [result_table(result, verbose=detail.verbose, extra=detail.extra)]
    tables += [difference_table(found, verbose=detail.verbose)] if len(found) <= detail.most else []
    yield from tables if detail.titles else (replace(table, title="") for table in tables)


SECTIONS = (
    Section("amplification", "Amplification", figures=figures.forests),
    Section(
        "measured",
        "What was measured, on what",
        lines=lambda result: [*summary_lines(result), *class_notes(result.run["labels"])],
    ),
    Section("limits", "What this cannot show", warnings=warnings, lines=lambda _: LIMITS),
    Section("table", "All numbers", tables=_main_tables, folded=footnotes),
    Section(
        "sides",
        "Human and generated side",
        "Scores of human and of generated captions: the amplification is between them.",
        figures=figures.sides,
    ),
    Section(
        "quality",
        "Amplification against caption quality",
        "Captioners that describe better may amplify more, or less.",
        figures=figures.qualities,
        tables=lambda result, detail: [quality_table(result.quality, verbose=detail.verbose)] if result.quality else [],
    ),
    Section(
        "judges",
        "Do judges agree?",
        "The same captioners by different judges.",
        figures=figures.judges,
        tables=lambda result, detail: consistency_tables(result, verbose=detail.verbose),
    ),
    Section(
        "tasks",
        "Tasks and words",
        "What the amplification comes from.",
        tables=lambda result, detail: breakdown_tables(result.breakdown, verbose=detail.verbose),
    ),
    Section(
        "facts",
        "Classes, coverage, alignment, and what was left out",
        "What the numbers rest on.",
        tables=lambda result, detail: run_tables(result) if detail.verbose else [],
    ),
)


def tables_of(result: Result, detail: Detail = EVERYTHING) -> Iterator[Table[Any]]:
    """Every table of a result that has a row, the main one first."""
    return (table for section in SECTIONS for table in section.tables(result, detail) if table.rows)
