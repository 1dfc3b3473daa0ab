"""What commands share: progress, errors in one line, tables."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

from judge.errors import JudgeError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from judge.measure import Result
    from judge.types import Progress

# More pairs of captioners than these are not printed.
MOST_DIFFERENCES = 24


@contextmanager
def one_line_errors() -> Iterator[None]:
    """A mendable fault is one line on standard error and exit code 2; no traceback."""
    from judge.training.setup import is_main_process

    try:
        yield
    except JudgeError as error:
        if is_main_process():
            typer.echo(f"judge: {error}", err=True)
        raise typer.Exit(2) from None
    except KeyboardInterrupt:
        typer.echo("judge: interrupted; give the same command again", err=True)
        raise typer.Exit(130) from None


@contextmanager
def show_progress() -> Iterator[Progress]:
    """A bar with the time left, on standard error, in the main process."""
    from rich.console import Console
    from rich.progress import MofNCompleteColumn, Progress, TimeElapsedColumn

    from judge.training.setup import is_main_process

    columns = (*Progress.get_default_columns(), MofNCompleteColumn(), TimeElapsedColumn())
    console = Console(stderr=True)
    quiet = not (is_main_process() and console.is_terminal)
    with Progress(*columns, console=console, disable=quiet, transient=True) as bar:
        task = bar.add_task("reading", total=None)
        yield lambda what, done, total: bar.update(task, description=what, completed=done, total=total or None)


def print_result(result: Result, *, verbose: bool = False, extra: dict[str, dict[str, str]] | None = None) -> None:
    """The table of a result, its footnotes and its warnings; ``extra``: further columns."""
    from judge.report.notes import footnotes, warnings
    from judge.report.quality import quality_table
    from judge.report.tables import difference_table, make_table, parts_table

    console = print_table(make_table(result, extra))
    console.print()
    if parts := parts_table(result):
        print_table(parts, console)
        console.print()
    found = result.differences()
    if 0 < len(found) <= MOST_DIFFERENCES:
        print_table(difference_table(found), console)
        console.print()
    if result.quality:
        print_table(quality_table(result.quality), console)
        console.print()
    for line in footnotes(result):
        console.print(line, markup=False)
    if len(found) > MOST_DIFFERENCES:
        console.print(f"{len(found)} differences between captioners are in metrics.json.", markup=False)
    for line in warnings(result):
        console.print(f"NOTE: {line}", markup=False, style="bold")
    print_consistency(result, console)


def print_consistency(result: Result, console: Console) -> None:
    """Whether judges agree, where a metric has two or more, and with people, where their scores are given."""
    from judge.report.consistency import alignment_with_people, consistency_notes, pair_table, variation_table
    from judge.statistics.consistency import measure_consistency

    found = measure_consistency(result.summaries, result.run.get("human_scores"))
    tables = (
        (pair_table, found.pairs),
        (variation_table, found.variations),
        (alignment_with_people, found.alignments),
    )
    for table, rows in tables:
        if rows:
            console.print()
            print_table(table(found), console)
    for line in consistency_notes(found):
        console.print(line, markup=False)


def print_table(table: Table, console: Console | None = None) -> Console:
    """A table on standard output, in parts where it is wider than the terminal; returns what it was printed with."""
    from rich.console import Console

    from judge.report.layout import fold, width_of

    terminal = sys.stdout.isatty()
    # A pipe has no width: lines of text have some length, tables are as wide as they are.
    console = console or Console(width=None if terminal else 200, highlight=False)
    if not terminal:
        Console(width=width_of(table), highlight=False).print(table)
        return console
    for number, part in enumerate(fold(table, console.width)):
        if number:
            console.print()
        console.print(part)
    return console


def say(line: str) -> None:
    """One line on standard output."""
    typer.echo(line)


def tell_failures(failures: Sequence[tuple[str, JudgeError]], pictures: int, what: str) -> None:
    """Each in a line on standard error; exit code 1 if there are any."""
    for name, fault in failures:
        # A file's name may hold a line break.
        typer.echo(" ".join(f"judge: {name}: {fault}".split()), err=True)
    if failures:
        typer.echo(f"judge: {len(failures)} of {pictures} pictures could not be {what}", err=True)
        raise typer.Exit(1)
