"""What commands share: progress, errors in one line."""

from __future__ import annotations

import logging
import re
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

import typer

from judge.errors import JudgeError, printable, shortened, some
from judge.utils.files import as_mendable
from judge.utils.launch import check_launch, fault_told, is_main_process, left_alone, shared_store, tells_fault
from judge.utils.terminal import interrupted_by, output_fault, tell_interrupt

if TYPE_CHECKING:
    from judge.types import Progress


# Seconds between lines of one kind of work, and before the first of another.
_A_MINUTE, _SOON = 60.0, 10.0
_LONGEST = 490  # Characters of a line; with what stands before it 500 at most.


@contextmanager
def one_line_errors(*, shared: bool = False) -> Iterator[None]:
    """Around a command: a mendable fault is one line on standard error and exit code 2; see :func:`told_in_one_line`.

    ``shared``: whether the processes of a launch share the command's work.
    """
    with told_in_one_line():
        check_launch(shared=shared)
        yield
        if shared_store() is not None:
            from judge.training.launch import end_launch

            end_launch()
    if fault := output_fault():
        what = f"cannot be written ({fault.strerror}); what the command leaves in files is complete"
        typer.echo(f"judge: {JudgeError(what, where='standard output')}", err=True)
        raise typer.Exit(1)


@contextmanager
def told_in_one_line() -> Iterator[None]:
    """Mendable faults, lack of memory and interrupts end in one line, without a traceback; of a launch, one in all.

    Exit code 2 for a fault; 128 and the signal's number for an interrupt: 130 for Ctrl-C, 143 for SIGTERM.
    """
    try:
        yield
    except (Exception, KeyboardInterrupt) as error:
        if isinstance(error, typer.Exit):
            raise
        if number := interrupted_by(error):
            tell_interrupt(number)
            raise typer.Exit(128 + number) from None
        fault = as_mendable(error, str(getattr(error, "filename", None) or "")) or left_alone(error)
        if fault is None:
            raise
        if tells_fault():
            typer.echo(f"judge: {fault}", err=True)
            fault_told()
        raise typer.Exit(2) from None


@contextmanager
def show_progress(*, period: float = 30) -> Iterator[Progress]:
    """A bar with the time left, on standard error, in the main process; lines where that is no terminal.

    ``period``: seconds over which the speed is taken; it must be known of some units in that time.
    """
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import MofNCompleteColumn, Progress, TimeElapsedColumn

    columns = (*Progress.get_default_columns(), MofNCompleteColumn(), TimeElapsedColumn())
    console = Console(stderr=True)
    shown = is_main_process() and console.is_terminal
    with Progress(*columns, console=console, disable=not shown, transient=True, speed_estimate_period=period) as bar:
        task = bar.add_task("reading", total=None)
        lines = _Lines() if is_main_process() and not shown else None

        def tell(what: str, done: int, total: int) -> None:
            what = printable(what)
            bar.update(task, description=escape(what), completed=done, total=total or None)
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


class _Printable(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return shortened(printable(super().format(record)), _LONGEST)


class _Counted(logging.Filter):
    """Of complaints that share an extra ``more`` the first is shown; :meth:`end` tells how many more there were."""

    def __init__(self) -> None:
        super().__init__()
        self.count = Counter[str]()

    def filter(self, record: logging.LogRecord) -> bool:
        more: str | None = getattr(record, "more", None)
        self.count.update([more] if more else [])
        return more is None or self.count[more] == 1

    def end(self) -> None:
        for more, count in self.count.items():
            if count > 1:
                typer.echo(f"judge: {count - 1} {more}", err=True)


@contextmanager
def _logged() -> Iterator[None]:
    """What the package logs goes to standard error, in the main process."""
    logger, handler, counted = logging.getLogger("judge"), logging.StreamHandler(), _Counted()
    handler.addFilter(counted)
    handler.setFormatter(_Printable("judge: %(message)s"))
    before = logger.level
    logger.setLevel(logging.INFO if is_main_process() else logging.WARNING)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)
        counted.end()


def say(line: str) -> None:
    """One line on standard output."""
    typer.echo(printable(line))


def tell_failures(failures: Sequence[tuple[str, JudgeError]], pictures: int, what: str) -> None:
    """Faults in lines on standard error, one that many share once, with five names; exit code 1 if there are any.

    Faults that differ in numbers alone (of a size, of a record) are one: the first stands for them.
    """
    alike: dict[str, list[tuple[str, str]]] = {}
    for name, fault in [(printable(name), str(fault)) for name, fault in failures]:
        alike.setdefault(re.sub(r"[0-9]+", "0", fault.replace(name, "")), []).append((name, fault))
    for group in alike.values():
        names = some([name for name, _ in group])
        first = ", the first" if len({fault.replace(name, "") for name, fault in group}) > 1 else ""
        fault = shortened(group[0][1], _LONGEST - len(names + first))
        typer.echo(f"judge: {names}{first}: {fault}", err=True)
    if failures:
        typer.echo(f"judge: {len(failures)} of {pictures} images could not be {what}", err=True)
        fault_told()  # The launcher ends the other processes of a launch, which need not report that.
        raise typer.Exit(1)
