"""What commands share: progress, errors in one line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

from judge.errors import JudgeError

if TYPE_CHECKING:
    from judge.types import Progress


@contextmanager
def one_line_errors() -> Iterator[None]:
    """A mendable fault is one line on standard error and exit code 2; no traceback. Of a launch, one line in all."""
    from judge.utils.launch import fault_told, tells_fault

    try:
        yield
    except JudgeError as error:
        if tells_fault():
            typer.echo(f"judge: {error}", err=True)
            fault_told()
        raise typer.Exit(2) from None
    except KeyboardInterrupt:
        typer.echo("judge: interrupted; give the same command again", err=True)
        raise typer.Exit(130) from None


@contextmanager
def show_progress(*, period: float = 30) -> Iterator[Progress]:
    """A bar with the time left, on standard error, in the main process.

    ``period``: seconds over which the speed is taken; it must be known of some units in that time.
    """
    from rich.console import Console
    from rich.progress import MofNCompleteColumn, Progress, TimeElapsedColumn

    from judge.utils.launch import is_main_process

    columns = (*Progress.get_default_columns(), MofNCompleteColumn(), TimeElapsedColumn())
    console = Console(stderr=True)
    quiet = not (is_main_process() and console.is_terminal)
    with Progress(*columns, console=console, disable=quiet, transient=True, speed_estimate_period=period) as bar:
        task = bar.add_task("reading", total=None)
        yield lambda what, done, total: bar.update(task, description=what, completed=done, total=total or None)


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
