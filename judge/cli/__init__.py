"""The ``judge`` command. Libraries that load slowly are imported inside the commands."""

from __future__ import annotations

import typer

from judge.cli.evaluation import demo, evaluate
from judge.cli.pictures import ablate_detectors, mask, train_detector

app = typer.Typer(
    help="Does a captioning model describe people more stereotypically than people do?",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def _root() -> None:
    """Does a captioning model describe people more stereotypically than people do?"""


app.command(no_args_is_help=True)(evaluate)
app.command(no_args_is_help=True)(mask)
app.command()(demo)

train = typer.Typer(help="Train what judges need.", no_args_is_help=True)
train.command("detector", no_args_is_help=True)(train_detector)
app.add_typer(train, name="train")

ablate = typer.Typer(help="The same question with one thing exchanged.", no_args_is_help=True)
ablate.command("detectors", no_args_is_help=True)(ablate_detectors)
app.add_typer(ablate, name="ablate")


def main() -> None:
    """Entry point of the ``judge`` command."""
    app()
