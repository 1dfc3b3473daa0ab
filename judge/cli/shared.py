"""What commands share: progress, errors in one line."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

import typer

from judge.errors import JudgeError
from judge.utils.files import as_mendable
from judge.utils.launch import check_launch, fault_told, is_main_process, shared_store, tells_fault

if TYPE_CHECKING:
    from judge.types import Progress


# Seconds between lines of one kind of work, and before the first of another.
_A_MINUTE, _SOON = 60.0, 10.0


@contextmanager
def one_line_errors(*, shared: bool = False) -> Iterator[None]:
    """A mendable fault is one line on standard error and exit code 2; no traceback. Of a launch, one line in all.

    ``shared``: whether the processes of a launch share the command's work.
    """
    try:
        check_launch(shared=shared)
        yield
        if shared_store() is not None:
            from judge.training.processes import end_launch

            end_launch()
    except (JudgeError, OSError, MemoryError) as error:
        if (fault := as_mendable(error, str(getattr(error, "filename", None) or ""))) is None:
            raise
        if tells_fault():
            typer.echo(f"judge: {fault}", err=True)
            fault_told()
        raise typer.Exit(2) from None
    except KeyboardInterrupt:
        if is_main_process():
            typer.echo("judge: interrupted; give the same command again", err=True)
        raise typer.Exit(130) from None


@contextmanager
def show_progress(*, period: float = 30) -> Iterator[Progress]:
    """A bar with the time left, on standard error, in the main process; lines where that is no terminal.

    ``period``: seconds over which the speed is taken; it must be known of some units in that time.
    """
    from rich.console import Console
    from rich.progress import MofNCompleteColumn, Progress, TimeElapsedColumn

    columns = (*Progress.get_default_columns(), MofNCompleteColumn(), TimeElapsedColumn())
    console = Console(stderr=True)
    shown = is_main_process() and console.is_terminal
    with Progress(*columns, console=console, disable=not shown, transient=True, speed_estimate_period=period) as bar:
        task = bar.add_task("reading", total=None)
        lines = _Lines() if is_main_process() and not shown else None

        def tell(what: str, done: int, total: int) -> None:
            bar.update(task, description=what, completed=done, total=total or None)
            if lines:
                lines.tell(what, done, total)

        with _logged():
            yield tell


class _Lines:
    """Progress in lines, for a scheduler's log: one a minute, and one where other work begins; none of short work."""

    def __init__(self) -> None:
        self.what = self.shown = ""
        self.begun = self.told = time.monotonic()
        self.before = 0

    def tell(self, what: str, done: int, total: int) -> None:
        now = time.monotonic()
        if what != self.what:
            self.what, self.begun, self.before = what, now, done
        if now - self.told < (_A_MINUTE if what == self.shown else _SOON):
            return
        self.shown, self.told = what, now
        line = f"{time.strftime('%H:%M:%S')} {what}"
        if total:
            line += f": {done} of {total}"
            if done > self.before:
                left = round((now - self.begun) / (done - self.before) * (total - done))
                line += f", {timedelta(seconds=left)} left"
        typer.echo(line, err=True)


@contextmanager
def _logged() -> Iterator[None]:
    """What the package logs goes to standard error, in the main process."""
    logger, handler = logging.getLogger("judge"), logging.StreamHandler()
    handler.setFormatter(logging.Formatter("judge: %(message)s"))
    before = logger.level
    logger.setLevel(logging.INFO if is_main_process() else logging.WARNING)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)


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
