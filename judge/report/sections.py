"""The sections of a report, in order. Every renderer (terminal, Markdown, LaTeX, page) walks this list.

A new section is a row of ``SECTIONS``, and the functions that make its tables and figures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

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
        tables: its tables, of a result, with all rows and columns or few; those without rows are left out.
        warnings, lines: sentences of the page alone; warnings in bold.
        folded: sentences of the page that are shown on demand.
    """

    name: str
    heading: str
    intro: str = ""
    figures: Callable[[Result], Iterable[Drawing]] = _nothing
    tables: Callable[[Result, bool], Iterable[Table[Any]]] = _nothing
    warnings: Callable[[Result], Iterable[str]] = _nothing
    lines: Callable[[Result], Iterable[str]] = _nothing
    folded: Callable[[Result], Iterable[str]] = _nothing


SECTIONS = (
    Section("amplification", "Amplification", figures=figures.forests),
    Section(
        "measured",
        "What was measured, on what",
        lines=lambda result: [*summary_lines(result), *class_notes(result.run["labels"])],
    ),
    Section("limits", "What this cannot show", warnings=warnings, lines=lambda _: LIMITS),
    Section(
        "table",
        "All numbers",
        tables=lambda result, verbose: [
            result_table(result, verbose=verbose),
            difference_table(result.differences(), verbose=verbose),
        ],
        folded=footnotes,
    ),
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
        tables=lambda result, verbose: [quality_table(result.quality, verbose=verbose)] if result.quality else [],
    ),
    Section(
        "judges",
        "Do judges agree?",
        "The same captioners by different judges.",
        figures=figures.judges,
        tables=consistency_tables,
    ),
    Section(
        "tasks",
        "Tasks and words",
        "What the amplification comes from.",
        tables=breakdown_tables,
    ),
    Section(
        "facts",
        "Classes, coverage, alignment, and what was left out",
        "What the numbers rest on.",
        tables=run_tables,
    ),
)


def tables_of(result: Result, *, verbose: bool = True) -> Iterator[Table[Any]]:
    """Every table of a result that has a row, the main one first; ``verbose``: all columns and tables."""
    return (table for section in SECTIONS for table in section.tables(result, verbose) if table.rows)
