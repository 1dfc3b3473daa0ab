"""What commands share: settings out of options, progress, faults in one line."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, get_type_hints

import typer

from judge.errors import JudgeError

if TYPE_CHECKING:
    from judge.config import Settings
    from judge.types import Progress

S = TypeVar("S", bound="Settings")

F = TypeVar("F", bound=Callable[..., None])


def also_takes(other: Callable[..., None], *, without: Iterable[str] = ()) -> Callable[[F], F]:
    """A command that takes the options of ``other`` too, as ``**given``; its own come first in ``--help``."""

    def widen(command: F) -> F:
        theirs, mine = signature(other).parameters, signature(command).parameters
        # Typer reads annotations off the signature, and cannot look up names that another file imports.
        hints = get_type_hints(other, include_extras=True) | get_type_hints(command, include_extras=True)
        own = [parameter for parameter in mine.values() if parameter.kind is not Parameter.VAR_KEYWORD]
        first, *rest = [parameter for parameter in theirs.values() if parameter.name not in {*mine, *without}]
        every = [parameter.replace(annotation=hints[parameter.name]) for parameter in (first, *own, *rest)]
        command.__signature__ = Signature(every)  # type: ignore[attr-defined]  # of any function
        command.__annotations__ = {parameter.name: parameter.annotation for parameter in every}
        return command

    return widen


def resolve(file: Path | None, options: Mapping[str, Any], kind: type[S], *, out: str) -> S:
    """The settings of a command: those of ``file``, overridden by the options that were given.

    Args:
        file: YAML, or None.
        options: by the names of the YAML file; None where not given.
        kind: the command's settings.
        out: the output folder where neither names one.
    """
    from judge.config import make_config, read_settings

    settings = read_settings(file) if file else {}
    settings |= as_settings({name: value for name, value in options.items() if value is not None})
    settings["out"] = settings.get("out") or out
    return make_config(settings, kind, where=str(file) if file else kind.command)


def as_settings(options: dict[str, Any]) -> dict[str, Any]:
    """Options by the names of the YAML file, repeated ones gathered."""
    settings = {
        name: value for name, value in options.items() if name not in {"refusal", "column", "label_value", "answer"}
    }
    if refusal := options.get("refusal"):
        settings["refusals"] = refusal
    if column := options.get("column"):
        settings["columns"] = dict(_pair("--column", entry) for entry in column)
    if answer := options.get("answer"):
        settings["answers"] = dict(_pair("--answer", entry) for entry in answer)
    if isinstance(settings.get("model"), list):
        settings["models"] = settings.pop("model")
    for name, spelling in (_pair("--label-value", entry) for entry in options.get("label_value") or ()):
        settings.setdefault("label_values", {}).setdefault(name, []).append(spelling)
    return settings


def _pair(option: str, entry: str) -> tuple[str, str]:
    key, equals, value = entry.partition("=")
    if not equals or not key or not value:
        raise JudgeError(f"'{entry}' is not KEY=VALUE", where=option, mend="write it like caption=text")
    return key, value


@contextmanager
def one_line_errors() -> Iterator[None]:
    """A mendable fault is one line on standard error and exit code 2; no traceback."""
    from judge.utils.launch import is_main_process

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
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    from judge.utils.launch import is_main_process

    columns = [
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    ]
    console = Console(stderr=True)
    quiet = not (is_main_process() and console.is_terminal)
    with Progress(*columns, console=console, disable=quiet, transient=True) as bar:
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
