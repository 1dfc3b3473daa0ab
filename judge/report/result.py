"""What ``judge evaluate`` prints: the table that matters, and a few lines below it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from textwrap import shorten
from typing import Any

from rich.console import Console

from judge.errors import shortened
from judge.measure import Result
from judge.report.breakdown import breakdown_tables
from judge.report.caveats import warnings
from judge.report.consistency import pair_table, people_table, variation_table
from judge.report.notes import class_notes, footnotes, summary_lines
from judge.report.quality import quality_table
from judge.report.render import open_console, page_lines, print_table, print_text
from judge.report.table import Table
from judge.report.tables import difference_table, parts_table, result_table
from judge.statistics.consistency import measure_consistency
from judge.types import Doubt

# More differences than these are in metrics.json alone, or in the long output.
MOST_DIFFERENCES, MOST_VERBOSE = 12, 24
# Lines below the table.
MOST_LINES = 6


def print_result(
    result: Result, *, verbose: bool = False, extra: Mapping[str, Mapping[str, str]] | None = None
) -> None:
    """Print the table of a result, and what must be known to read it, in six lines.

    Args:
        result: of a run.
        verbose: all columns, tables, notes and warnings; without, ``metrics.json`` has what is not printed.
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
        _print_briefly(result, console)


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
    if verbose:
        yield parts_table(result)
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


def _print_briefly(result: Result, console: Console) -> None:
    # Which classes are missing, and what input is probably wrong, is never cut.
    doubts = [line for line in warnings(result) if isinstance(line, Doubt)]
    whole = [*class_notes(result.run["labels"]), *doubts]
    lines = [*summary_lines(result), *map(_note, whole), *_lost(result, MOST_DIFFERENCES)]
    for line in lines:
        print_text(line, console)
    room = max(1, MOST_LINES - sum(len(page_lines(line, console)) for line in lines))
    found = [line for line in warnings(result) if line not in whole]
    for number, line in enumerate(found[:room], 1):
        more = f" (+{len(found) - room} more: --verbose)" if number == room < len(found) else ""
        # Each begins with what matters most.
        rest = " ..." if more else " ... (--verbose)"
        brief = shorten(_note(line), console.width - len(more), placeholder=rest)
        print_text(brief + more, console, bold=True)


def _note(line: str) -> str:
    return f"NOTE: {shortened(line, 490)}"
