"""The ``judge`` command. Libraries that load slowly are imported inside the commands."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperGroup

from judge.cli.ablate import ablate_detectors, ablate_masks
from judge.cli.align import align
from judge.cli.caption import caption
from judge.cli.compare import compare
from judge.cli.evaluate import demo, evaluate
from judge.cli.evaluate import train as train_judges
from judge.cli.mask import mask, train_detector

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
app.command(no_args_is_help=True)(compare)
app.command(no_args_is_help=True)(mask)
app.command(no_args_is_help=True)(caption)
app.command(no_args_is_help=True)(align)
app.command()(demo)


class _TrainGroup(TyperGroup):
    """``judge train run.yaml`` trains a run's judges: what is no command's name is ``judges``' argument."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in {*self.commands, *ctx.help_option_names}:
            args = ["judges", *args]
        return super().parse_args(ctx, args)


train = typer.Typer(
    cls=_TrainGroup, help="Train the judges of a run (judge train RUN.yaml), or a detector.", no_args_is_help=True
)
train.command("judges", no_args_is_help=True)(train_judges)
train.command("detector", no_args_is_help=True)(train_detector)
app.add_typer(train, name="train")

ablate = typer.Typer(help="The same question with one thing exchanged.", no_args_is_help=True)
ablate.command("detectors", no_args_is_help=True)(ablate_detectors)
ablate.command("masks", no_args_is_help=True)(ablate_masks)
app.add_typer(ablate, name="ablate")


def main() -> None:
    """Entry point of the ``judge`` command."""
    app()
