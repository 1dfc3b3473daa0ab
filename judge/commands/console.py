"""What commands print: progress, notes, and faults in one line."""

from __future__ import annotations

import logging
import re
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import typer

from judge.errors import JudgeError, printable, shortened, some
from judge.utils import launch
from judge.utils.files import as_mendable
from judge.utils.launch import is_main_process
from judge.utils.terminal import interrupted_by, output_fault, report_interrupt

if TYPE_CHECKING:
    from judge.types import Progress

_USAGE: Any = typer.BadParameter.__base__  # Typer's own class for a misspelt option and the like has no public name.
# Seconds between lines about one kind of work, and before the first line about another.
_A_MINUTE, _SOON = 60.0, 10.0
_COUNTS = re.compile(r"\d+ of \d+")  # Within the name of some work: they say how far it is, not what it is.
_LONGEST = 490  # Characters of a line; with what stands before it 500 at most.


@contextmanager
def one_line_errors(*, shared: bool = False) -> Iterator[None]:
    """Around a command (``shared`` by a launch): :func:`one_line_faults`, and a check of standard output at the end."""
    with one_line_faults():
        launch.check_launch(shared=shared)
        yield
        if launch.shared_store() is not None:
            from judge.training.launch import end_launch

            end_launch()
    if fault := output_fault():
        what = f"cannot be written ({fault.strerror}); what the command leaves in files is complete"
        typer.echo(f"judge: {JudgeError(what, where='standard output')}", err=True)
        raise typer.Exit(1)


@contextmanager
def one_line_faults() -> Iterator[None]:
    """Report mendable faults, lack of memory and interrupts in one line, without a traceback; once for a launch.

    Exit code 2 for a fault; 128 and the signal's number for an interrupt: 130 for Ctrl-C, 143 for SIGTERM.
    """
    try:
        yield
    except (Exception, KeyboardInterrupt) as error:
        # A command without any argument shows its help.
        if isinstance(error, typer.Exit) or (isinstance(error, _USAGE) and type(error).show is not _USAGE.show):
            raise
        if number := interrupted_by(error):
            report_interrupt(number)
            raise typer.Exit(128 + number) from None
        if isinstance(error, _USAGE):
            # A misspelt option or command.
            command, what = error.ctx.command_path if error.ctx else "judge", error.format_message()
            extra = "repeat the option before each value, as in --captions A --captions B; "
            mend = f"{extra if 'extra argument' in what else ''}see {command} --help"
            name = getattr(error, "option_name", "").strip("-").removeprefix("no-").replace("-", "_")
            if flag := getattr(error.ctx and error.ctx.command, "grouped", {}).get(name):
                mend = f"write {flag}=VALUE"
            where = command if " " in command else ""
            fault: JudgeError | None = JudgeError(what[0].lower() + what[1:], where=where, mend=mend)
        else:
            fault = as_mendable(error, str(getattr(error, "filename", None) or "")) or launch.lost_process(error)
        if fault is None:
            raise
        launch.await_main_process()
        typer.echo(f"judge: {fault}", err=True)
        raise typer.Exit(2) from None


@contextmanager
def show_progress(*, period: float = 120) -> Iterator[Progress]:
    """A bar with the time left, on standard error of the main process; lines where that is no terminal.

    What the package logs is printed there too. ``period``: seconds over which the speed is averaged.
    """
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import MofNCompleteColumn, Progress, TimeElapsedColumn

    columns = (*Progress.get_default_columns(), MofNCompleteColumn(), TimeElapsedColumn())
    console = Console(stderr=True)
    visible = is_main_process() and console.is_terminal
    lines = _Lines() if is_main_process() and not visible else None
    logger, printer = logging.getLogger("judge"), _Printer()
    before = logger.level
    logger.setLevel(logging.INFO if is_main_process() else logging.WARNING)
    logger.addHandler(printer)
    with Progress(*columns, console=console, disable=not visible, transient=True, speed_estimate_period=period) as bar:
        task = bar.add_task("reading", total=None)

        def show(what: str, done: int, total: int) -> None:
            what = printable(what)
            bar.update(task, description=escape(what), completed=done, total=total or None)
            if lines:
                lines.show(what, done, total)

        try:
            yield show
        finally:
            logger.removeHandler(printer)
            logger.setLevel(before)
            printer.close()


class _Lines:
    """Progress in lines, for a scheduler's log: one a minute, and one where other work begins; none of short work."""

    def __init__(self) -> None:
        self.kind = self.logged = ""
        self.begun = self.last = time.monotonic()
        self.before = 0

    def show(self, what: str, done: int, total: int) -> None:
        now, kind = time.monotonic(), _COUNTS.sub("", what)
        if kind != self.kind:
            self.kind, self.begun, self.before = kind, now, done
        if now - self.last < (_A_MINUTE if kind == self.logged else _SOON):
            return
        self.logged, self.last = kind, now
        count, left = f": {done} of {total}" if total else "", ""
        if total > done > self.before:
            seconds = round((now - self.begun) / (done - self.before) * (total - done))
            left = f", {timedelta(seconds=round(now - self.begun))} elapsed, {timedelta(seconds=seconds)} left"
        typer.echo(f"{time.strftime('%H:%M:%S')} {what}{count}{left}", err=True)


class _Printer(logging.Handler):
    """Prints log records, a line each; of those that share an extra ``more`` the first, and the number of others."""

    def __init__(self) -> None:
        super().__init__()
        self.repeated = Counter[str]()

    def emit(self, record: logging.LogRecord) -> None:
        more = getattr(record, "more", "")
        if not self.repeated[more]:
            typer.echo(shortened(printable(f"judge: {record.getMessage()}"), _LONGEST), err=True)
        self.repeated.update([more] if more else [])

    def close(self) -> None:
        for more, count in self.repeated.items():
            if count > 1:
                typer.echo(f"judge: {count - 1} {more}", err=True)
        super().close()


def say(*lines: str, notes: Sequence[str] = (), err: bool = False) -> None:
    """Print lines, and then notes, a line each, on standard output, or on standard error where ``err``."""
    for line in (*lines, *(f"NOTE: {note}" for note in notes)):
        typer.echo(printable(line), err=err)


def report_failures(failures: Sequence[tuple[str, JudgeError]], images: int, what: str) -> None:
    """Print the faults of single images, (name, fault), on standard error, and exit with code 1 if there are any.

    Faults that differ in numbers alone share one line: the first one, with the names of five images.
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
        typer.echo(f"judge: {len(failures)} of {images} images could not be {what}", err=True)
        raise typer.Exit(1)
