"""The ``judge`` command. Libraries that load slowly are imported inside the commands."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from judge.errors import JudgeError

if TYPE_CHECKING:
    from judge.measure import Report, Result

app = typer.Typer(
    help="Does a captioning model describe people more stereotypically than people do?",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

_INPUT, _METHOD, _TEXT, _TRAINING = "Input", "Method", "Captions and labels", "Training"


@app.callback()
def _root() -> None:
    """Does a captioning model describe people more stereotypically than people do?"""


@app.command(no_args_is_help=True)
def evaluate(  # noqa: PLR0913, PLR0917 - one parameter an option: that is how Typer reads them
    run_file: Annotated[
        Path | None, typer.Argument(metavar="[RUN.yaml]", help="settings; options override them")
    ] = None,
    human: Annotated[Path | None, typer.Option(help="human captions, any of the formats in README")] = None,
    captions: Annotated[
        list[str] | None, typer.Option(help="a captioner's captions, or NAME=FILE; may be repeated")
    ] = None,
    labels: Annotated[
        Path | None, typer.Option(help="attribute class of each image; default: derived from the human captions")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="folder for the results [default: runs/evaluate]")] = None,
    overwrite: Annotated[bool | None, typer.Option("--overwrite", help="replace what lies in --out")] = None,
    metrics: Annotated[
        str | None, typer.Option(help="comma-separated: lic, leakage, sc [default: lic,leakage]")
    ] = None,
    judge: Annotated[str | None, typer.Option(help="comma-separated: linear, lstm [default: linear]")] = None,
    protocol: Annotated[str | None, typer.Option(help="crossfit or paper [default: crossfit]")] = None,
    seeds: Annotated[int | None, typer.Option(help="repetitions [default: 1 under crossfit, 10 under paper]")] = None,
    seed: Annotated[int | None, typer.Option(help="the first seed [default: 0]")] = None,
    folds: Annotated[int | None, typer.Option(help="folds of crossfit [default: 10]")] = None,
    attribute: Annotated[str | None, typer.Option(help="the protected attribute [default: gender]")] = None,
    lexicon: Annotated[
        str | None, typer.Option(help="words to hide: a shipped name, a .yaml, or none [default: the attribute's]")
    ] = None,
    text: Annotated[str | None, typer.Option(help="whole or first-sentence [default: whole]")] = None,
    contractions: Annotated[str | None, typer.Option(help="whole or split [default: whole]")] = None,
    refusal: Annotated[
        list[str] | None, typer.Option(help="regular expression that tells a refusal; replaces ours; repeatable")
    ] = None,
    column: Annotated[
        list[str] | None, typer.Option(help="of caption tables: image_id=NAME or caption=NAME; repeatable")
    ] = None,
    id_column: Annotated[str | None, typer.Option(help="image column of the label table")] = None,
    label_column: Annotated[str | None, typer.Option(help="class column of the label table")] = None,
    label_value: Annotated[
        list[str] | None, typer.Option(help="CLASS=SPELLING of the label table, e.g. female=1; repeatable")
    ] = None,
    split: Annotated[str | None, typer.Option(help="split of a Karpathy file, e.g. test")] = None,
    several: Annotated[
        bool | None, typer.Option("--several", help="a captioner may have several captions an image")
    ] = None,
    epochs: Annotated[int | None, typer.Option(help="overrides the judge's own")] = None,
    batch_size: Annotated[int | None, typer.Option(help="overrides the judge's own")] = None,
    learning_rate: Annotated[float | None, typer.Option(help="overrides the judge's own")] = None,
    precision: Annotated[str | None, typer.Option(help="no, bf16 or fp16 [default: Accelerate's setting]")] = None,
    sharing: Annotated[
        str | None, typer.Option(help="members or data: how several processes share judges [default: the judge's]")
    ] = None,
    workers: Annotated[int | None, typer.Option(help="judges trained at a time [default: one a core]")] = None,
    resamples: Annotated[int | None, typer.Option(help="of bootstrap and test [default: 2000]")] = None,
    level: Annotated[float | None, typer.Option(help="of the intervals [default: 0.95]")] = None,
) -> None:
    """Measure how much captioners amplify the bias of human captions.

    Prints a table and leaves run.yaml, scores.parquet, metrics.json and log.jsonl in --out.
    """
    given = dict(locals())
    with _one_line_errors():
        run_settings(given.pop("run_file"), {name: value for name, value in given.items() if value is not None})


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="folder for the world and the results")] = Path("runs/demo"),
    seed: Annotated[int, typer.Option(help="of the world")] = 0,
    images: Annotated[int, typer.Option(min=200, help="scenes in the world")] = 3000,
) -> None:
    """The whole story on a small world whose true amplification is known. Needs no download."""
    with _one_line_errors():
        from judge.demo import run_demo

        with _progress() as report:
            found = run_demo(out, seed=seed, images=images, report=report)
        _print_result(found.result, extra={"true": found.truth})
        _say(
            "\ntrue: for an optimal judge with unlimited data. Judges that learn from few images miss faint clues,\n"
            "most of all on the human side, where clues are fainter: amplification then comes out too large."
        )
        _say(f"\nThe world is in {found.world}, the results are in {found.results}")


def run_settings(run_file: Path | None, options: dict[str, Any]) -> None:
    """What ``judge evaluate`` and ``scripts/evaluate.py`` do with a file and options."""
    from judge.config import make_config, read_settings
    from judge.run import run
    from judge.training.members import is_main_process

    settings = read_settings(run_file) if run_file else {}
    where = str(run_file) if run_file else "judge evaluate"
    settings |= _as_settings(options)
    settings["out"] = settings.get("out") or "runs/evaluate"
    config = make_config(settings, where=where)
    with _progress() as report:
        result = run(config, report=report)
    if is_main_process():
        _print_result(result)
        _say(f"\nThe results are in {config.out}")


def _as_settings(options: dict[str, Any]) -> dict[str, Any]:
    """Options by the names of the YAML file, repeated ones gathered."""
    settings = {name: value for name, value in options.items() if name not in {"refusal", "column", "label_value"}}
    if refusal := options.get("refusal"):
        settings["refusals"] = refusal
    if column := options.get("column"):
        settings["columns"] = dict(_pair("--column", entry) for entry in column)
    for name, spelling in (_pair("--label-value", entry) for entry in options.get("label_value") or ()):
        settings.setdefault("label_values", {}).setdefault(name, []).append(spelling)
    return settings


def _pair(option: str, entry: str) -> tuple[str, str]:
    key, equals, value = entry.partition("=")
    if not equals or not key or not value:
        raise JudgeError(f"'{entry}' is not KEY=VALUE", where=option, mend="write it like caption=text")
    return key, value


@contextmanager
def _one_line_errors() -> Iterator[None]:
    """A mendable fault is one line on standard error and exit code 2; no traceback."""
    from judge.training.members import is_main_process

    try:
        yield
    except JudgeError as error:
        if is_main_process():
            typer.echo(f"judge: {error}", err=True)
        raise typer.Exit(2) from None
    except KeyboardInterrupt:
        typer.echo("judge: interrupted; the same command goes on from here", err=True)
        raise typer.Exit(130) from None


@contextmanager
def _progress() -> Iterator[Report]:
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

    from judge.training.members import is_main_process

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


def _print_result(result: Result, extra: dict[str, dict[str, float]] | None = None) -> None:
    from rich.console import Console

    from judge.report.tables import footnotes, make_table, warnings

    # A pipe has no width: never cut a number because of that.
    console = Console(width=None if sys.stdout.isatty() else 200, highlight=False)
    console.print(make_table(result, extra))
    console.print()
    for line in footnotes(result):
        console.print(line, markup=False)
    for line in warnings(result):
        console.print(f"NOTE: {line}", markup=False, style="bold")


def _say(line: str) -> None:
    typer.echo(line)


def main() -> None:
    """Entry point of the ``judge`` command."""
    app()
