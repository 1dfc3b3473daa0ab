"""The sections of a report, in order, and a result as text: on the terminal, as Markdown and as LaTeX."""

import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from judge.errors import printable, shortened
from judge.measure import Result
from judge.report import figures
from judge.report.detail_tables import breakdown_tables, consistency_tables, run_tables
from judge.report.notes import class_notes, footnotes, method_notes, summary_lines
from judge.report.plots import Drawing
from judge.report.render import escape, latex, markdown, open_console, print_table, print_text
from judge.report.table import Table, how_many, span
from judge.report.tables import DIFFERENCES, difference_table, paper_table, quality_table, result_table
from judge.report.verdicts import changes, person_verdicts
from judge.report.warnings import void_notes, warnings
from judge.types import Doubt

# Limits of all such measurements.
LIMITS = (
    "A small amplification is no proof of fairness: judges find only what they can learn, about what was labelled.",
    "Labels are perceived classes. They leave out many people, and say nothing about anyone's identity.",
    "Compare captioners under one judge, metric and protocol on the same images, never with a paper's table.",
    "Never use a judge to infer an attribute of a person.",
)

# More differences than these are in the long output alone.
MOST_DIFFERENCES = 12
# Notes below the table, beside those that are never left out.
MOST_NOTES = 3
_ENDS = ".", "!", "?", '"', ".)"
_PREAMBLE = r"% Needs \usepackage{booktabs}. Names in other scripts than Latin need lualatex or xelatex."


def _nothing(*_: Any) -> tuple[()]:
    return ()


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a report; on a page it is left out where it has no content.

    Attributes:
        name: of its place on the page.
        intro: a sentence below the heading.
        figures, warnings, lines: for the page alone; warnings in bold.
        tables: of a result, with all rows and columns or few; those without rows are left out.
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
    Section("measured", "What was measured, on what", lines=summary_lines),
    Section("limits", "What this cannot show", warnings=warnings, lines=lambda _: LIMITS),
    Section(
        "table",
        "All numbers",
        tables=lambda result, verbose: [
            result_table(result, verbose=verbose),
            difference_table(result.differences(), verbose=verbose),
        ],
        folded=method_notes,
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
    Section("judges", "Do judges agree?", "The same captioners by different judges.", tables=consistency_tables),
    Section("tasks", "Tasks and words", "What the amplification comes from.", tables=breakdown_tables),
    Section(
        "facts", "Classes, coverage, alignment, and what was left out", "What the numbers rest on.", tables=run_tables
    ),
)


def tables_of(result: Result, *, verbose: bool = True) -> Iterator[Table[Any]]:
    """Every table of a result that has a row, the main one first; ``verbose``: all columns and tables."""
    return (table for section in SECTIONS for table in section.tables(result, verbose) if table.rows)


def print_result(
    result: Result,
    *,
    folder: Path | None = None,
    verbose: bool = False,
    extra: Mapping[str, Mapping[str, str]] | None = None,
) -> None:
    """Print verdicts, the tables of a result, and what must be known to read them; with ``verbose``, all of them.

    ``folder`` is the run's: ``judge report`` of it shows what is not printed. ``extra``: further columns
    (:func:`~judge.report.tables.result_table`).
    """
    console = open_console()
    tables = list(tables_of(result, verbose=verbose))
    if extra:
        tables[0] = result_table(result, verbose=verbose, extra=extra)
    elsewhere, said = [], [*person_verdicts(result), *changes(result)]
    for line in [*said, ""] if said else ():
        print_text(line, console, bold=True)
    for table in tables:
        if table.title == DIFFERENCES and len(table.rows) > MOST_DIFFERENCES and not verbose:
            elsewhere = [f"{len(table.rows)} differences between captioners are in metrics.json and report.html."]
            continue
        print_table(table, console)
        console.print()
    for line in footnotes(result) if verbose else [*summary_lines(result), *elsewhere]:
        print_text(line, console)
    for line in map(_note, warnings(result)) if verbose else brief_notes(result, folder):
        print_text(line, console, bold=True)


def brief_notes(result: Result, folder: Path | None = None) -> Iterator[str]:
    """Warnings that void numbers, missing classes and doubts about input; and the first few of the others.

    ``folder``: that of the run, for the command that shows the rest; None to show all.
    """
    found = warnings(result)
    weighty = {*void_notes(result), *class_notes(result.run["labels"])}
    always = [line for line in found if line in weighty or isinstance(line, Doubt)]
    others = [line for line in found if line not in always]
    yield from map(_note, [*always, *(others[:MOST_NOTES] if folder else others)])
    if folder and (more := others[MOST_NOTES:]):
        yield f"{how_many(len(more), 'more note')}: judge report {shlex.quote(str(folder))} --format md"


def _note(line: str) -> str:
    return f"NOTE: {shortened(line, 1000)}{'' if line.endswith(_ENDS) else '.'}"


def markdown_report(result: Result, *, paper: bool = False) -> str:
    """Verdicts, every table (or that of :func:`paper_table`) as Markdown, then warnings and notes."""
    tables = "\n".join(map(markdown, [paper_table(result)] if paper else tables_of(result)))
    lines = [f"**NOTE:** {plain(line)}" for line in warnings(result)] + list(map(plain, footnotes(result)))
    said = "".join(f"{plain(line)}\n\n" for line in [*person_verdicts(result), *changes(result)])
    return f"# Bias amplification\n\n{said}{tables}\n## Notes\n\n" + "".join(f"- {line}\n" for line in lines)


def latex_report(result: Result, *, paper: bool = False) -> str:
    """Every table (or that of :func:`paper_table`) as a float.

    The caption of the first gives the images, the protocol and what its intervals are.
    """
    level = f"{100 * result.run['level']:g}% intervals"
    lines = [re.sub("^Intervals", level, line) for line in summary_lines(result)]
    if any(row.basis == "these judges" for row in result.summaries):
        lines.append(f"*: {level} over images alone, for the judges as they were trained.")
    caption = " ".join([f"Attribute: {result.run['attribute']}, {images_of(result)}.", *lines])
    tables: list[Table[Any]] = [result_table(result, sides=True), *list(tables_of(result, verbose=False))[1:]]
    floats = latex_tables([paper_table(result)] if paper else tables, caption)
    remarks = "".join(f"% {escape(line)}\n" for line in [*warnings(result), *footnotes(result)])
    return f"{floats}\n% What must be known to read the tables:\n{remarks}"


def latex_tables(tables: Iterable[Table[Any]], caption: str) -> str:
    """Tables as floats, and what they need; ``caption`` is of the first."""
    floats = []
    for number, table in enumerate(tables):
        name = re.sub(r"[^a-z]+", "-", table.title.lower()).strip("-")
        floats.append(latex(table, caption="" if number else caption, label=f"tab:{name}"))
    return "\n".join([f"{_PREAMBLE}\n", *floats])


def images_of(result: Result) -> str:
    """How many images were scored: "3,597 images", "158 to 160 images"."""
    return f"{span(row.images for row in result.summaries)} images"


def plain(line: str) -> str:
    """Text that Markdown shows as it is."""
    return re.sub(r"([*_`<>\\\[\]])", r"\\\1", printable(line))
