"""``judge report``."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from judge.cli.shared import one_line_errors, say


class Kind(StrEnum):
    """What a report is written as."""

    html = "html"
    md = "md"
    latex = "latex"
    card = "card"


def report(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN", help="folders of finished runs, one or more")],
    kind: Annotated[
        Kind, typer.Option("--format", help="a page, tables to paste, or a section of the captioner's model card")
    ] = Kind.html,
    out: Annotated[Path | None, typer.Option(help="file to write; md, latex and card go to standard output")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="replace an earlier file")] = False,
) -> None:
    """Report finished runs: a page, Markdown or LaTeX tables, or a model card section with model-index metadata.

    The numbers are made again from what judges answered and captions say; a run whose files contradict each other is
    refused. Several runs must be of the same images, metrics, judges and protocol.
    """
    with one_line_errors():
        from judge.commands.report import report as write_report

        found = write_report(runs, kind=kind.value, out=out, overwrite=overwrite)
        if isinstance(found, Path):
            say(f"The report is in {found}")
        else:
            typer.echo(found, nl=False)
