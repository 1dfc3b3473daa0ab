"""A result as text: what ``judge evaluate`` prints, and all tables as Markdown or LaTeX."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path

from judge.errors import printable, shortened
from judge.measure import Result
from judge.report.notes import class_notes, footnotes, summary_lines
from judge.report.render import escape, latex, markdown, open_console, print_table, print_text
from judge.report.sections import tables_of
from judge.report.table import how_many
from judge.report.tables import DIFFERENCES, result_table
from judge.report.warnings import void_notes, warnings
from judge.types import Doubt

# More differences than these are in the long output alone.
MOST_DIFFERENCES = 12
# Notes below the table, beside those that are never left out.
MOST_NOTES = 3
_ENDS = ".", "!", "?", '"'
_PREAMBLE = r"% Needs \usepackage{booktabs}. Names in other scripts than Latin need lualatex or xelatex."


def print_result(
    result: Result,
    *,
    folder: Path | None = None,
    verbose: bool = False,
    extra: Mapping[str, Mapping[str, str]] | None = None,
) -> None:
    """Print the tables of a result, and what must be known to read them.

    Args:
        result: of a run.
        folder: of the run; None where it has none. What is not printed is shown by ``judge report`` of it.
        verbose: all columns, tables, notes and warnings.
        extra: further columns; see :func:`~judge.report.tables.result_table`.
    """
    console = open_console()
    tables = list(tables_of(result, verbose=verbose))
    tables[0] = result_table(result, verbose=verbose, extra=extra)
    elsewhere = []
    for table in tables:
        if table.title == DIFFERENCES and len(table.rows) > MOST_DIFFERENCES and not verbose:
            elsewhere = [f"{len(table.rows)} differences between captioners are in metrics.json."]
            continue
        print_table(table, console)
        console.print()
    for line in footnotes(result) if verbose else [*summary_lines(result), *elsewhere]:
        print_text(line, console)
    for line in map(_note, warnings(result)) if verbose else brief_notes(result, folder):
        print_text(line, console, bold=True)


def brief_notes(result: Result, folder: Path | None = None) -> Iterator[str]:
    """Warnings that void numbers, missing classes and doubts about input; and the first few of the others.

    Args:
        result: of a run.
        folder: of the run, for the command that shows the rest; None to show all.
    """
    found = warnings(result)
    whole = {*void_notes(result), *class_notes(result.run["labels"])}
    always = [line for line in found if line in whole or isinstance(line, Doubt)]
    others = [line for line in found if line not in always]
    yield from map(_note, [*always, *(others[:MOST_NOTES] if folder else others)])
    if folder and (more := others[MOST_NOTES:]):
        yield f"{how_many(len(more), 'more note')}: judge report {shlex.quote(str(folder))} --format md"


def _note(line: str) -> str:
    return f"NOTE: {shortened(line, 1000)}{'' if line.endswith(_ENDS) else '.'}"


def markdown_report(result: Result) -> str:
    """Every table as Markdown, then warnings and notes."""
    tables = "\n".join(map(markdown, tables_of(result)))
    lines = [f"**NOTE:** {plain(line)}" for line in warnings(result)] + list(map(plain, footnotes(result)))
    return f"# Bias amplification\n\n{tables}\n## Notes\n\n" + "".join(f"- {line}\n" for line in lines)


def latex_report(result: Result) -> str:
    """Every table as a float; the caption of the first gives the images, the protocol and what its intervals are."""
    floats = []
    for number, table in enumerate(tables_of(result, verbose=False)):
        name = re.sub(r"[^a-z]+", "-", table.title.lower()).strip("-")
        floats.append(latex(table, caption="" if number else _caption(result), label=f"tab:{name}"))
    remarks = "".join(f"% {escape(line)}\n" for line in [*warnings(result), *footnotes(result)])
    return "\n".join([f"{_PREAMBLE}\n", *floats, "% What must be known to read the tables:"]) + f"\n{remarks}"


def _caption(result: Result) -> str:
    level = f"{100 * result.run['level']:g}% intervals"
    lines = [re.sub("^Intervals", level, line) for line in summary_lines(result)]
    if any(row.basis == "these judges" for row in result.summaries):
        lines.append(f"*: {level} over images alone, for the judges as they were trained.")
    return " ".join([f"Of {result.run['attribute']}, {images_of(result)}.", *lines])


def images_of(result: Result) -> str:
    """How many images were scored: "3,597 images", "158 to 160 images"."""
    counts = sorted({row.images for row in result.summaries})
    return f"{counts[0]:,} to {counts[-1]:,} images" if len(counts) > 1 else f"{counts[0]:,} images"


def plain(line: str) -> str:
    """Text that Markdown shows as it is."""
    return re.sub(r"([*_`<>\\\[\]])", r"\\\1", printable(line))
