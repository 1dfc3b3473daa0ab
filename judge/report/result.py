"""What ``judge evaluate`` prints: the table that matters, and what must be known to read it."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from judge.errors import shortened
from judge.measure import Result
from judge.report.breakdown import breakdown_tables
from judge.report.caveats import void_notes, warnings
from judge.report.consistency import pair_table, people_table, variation_table
from judge.report.notes import class_notes, footnotes, summary_lines
from judge.report.quality import quality_table
from judge.report.render import open_console, print_table, print_text
from judge.report.table import Table, how_many
from judge.report.tables import difference_table, result_table
from judge.statistics.consistency import measure_consistency
from judge.types import Doubt

# More differences than these are in metrics.json alone, or in the long output.
MOST_DIFFERENCES, MOST_VERBOSE = 12, 24
# Notes below the table, beside those that are never left out.
MOST_NOTES = 3
_ENDS = ".", "!", "?", '"'


def print_result(
    result: Result,
    *,
    folder: Path | None = None,
    verbose: bool = False,
    extra: Mapping[str, Mapping[str, str]] | None = None,
) -> None:
    """Print the table of a result, and what must be known to read it.

    Args:
        result: of a run.
        folder: of the run; None where it has none. What is not printed is shown by ``judge report`` of it.
        verbose: all columns, tables, notes and warnings.
        extra: further columns; see :func:`~judge.report.tables.result_table`.
    """
    console = open_console()
    most = MOST_VERBOSE if verbose else MOST_DIFFERENCES
    for table in tables_of(result, verbose=verbose, extra=extra, most=most):
        print_table(table, console)
        console.print()
    if verbose:
        for line in [*_lost(result, MOST_VERBOSE), *footnotes(result)]:
            print_text(line, console)
        for line in warnings(result):
            print_text(_note(line), console, bold=True)
    else:
        for line in [*summary_lines(result), *_lost(result, MOST_DIFFERENCES)]:
            print_text(line, console)
        for line in brief_notes(result, folder):
            print_text(line, console, bold=True)


def tables_of(
    result: Result,
    *,
    verbose: bool = True,
    extra: Mapping[str, Mapping[str, str]] | None = None,
    most: float = math.inf,
) -> Iterator[Table[Any]]:
    """Every table of a result that has a row, the main one first.

    Args:
        result: of a run, or of several.
        verbose: with all columns and tables.
        extra: further columns of the main one; see :func:`~judge.report.tables.result_table`.
        most: differences between captioners; no table of more.
    """
    for table in _tables(result, verbose, extra, most):
        if table.rows:
            yield table


def _tables(
    result: Result, verbose: bool, extra: Mapping[str, Mapping[str, str]] | None, most: float
) -> Iterator[Table[Any]]:
    yield result_table(result, verbose=verbose, extra=extra)
    found = result.differences()
    if len(found) <= most:
        yield difference_table(found, verbose=verbose)
    if result.breakdown:
        yield from breakdown_tables(result.breakdown)
    if result.quality:
        yield quality_table(result.quality, verbose=verbose)
    consistency = measure_consistency(result.summaries, result.run.get("human_scores"))
    yield pair_table(consistency)
    if verbose:
        yield variation_table(consistency)
    yield people_table(consistency)


def _lost(result: Result, most: int) -> list[str]:
    found = len(result.differences())
    return [f"{found} differences between captioners are in metrics.json."] if found > most else []


def brief_notes(result: Result, folder: Path | None = None) -> Iterator[str]:
    """What voids numbers, classes that are missing and doubts about input; of other warnings the first few.

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
