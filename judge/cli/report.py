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


def report(  # noqa: PLR0913, PLR0917 - its options
    runs: Annotated[list[Path], typer.Argument(metavar="RUN", help="folders of finished runs, one or more")],
    kind: Annotated[
        Kind, typer.Option("--format", help="a page, tables to paste, or a section of the captioner's model card")
    ] = Kind.html,
    out: Annotated[
        Path | None,
        typer.Option(help="file to write [default: RUN/report.html of one run; md, latex, card: standard output]"),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", metavar="", help="replace an earlier file")] = False,
    no_examples: Annotated[
        bool, typer.Option("--no-examples", metavar="", help="page without captions and pictures")
    ] = False,
    no_images: Annotated[
        bool, typer.Option("--no-images", metavar="", help="page with captions, without pictures")
    ] = False,
    show_people: Annotated[
        bool,
        typer.Option("--show-people", metavar="", help="the run's pictures as they are; else people are hidden"),
    ] = False,
    show_ids: Annotated[
        bool, typer.Option("--show-ids", metavar="", help="ids of images, which may be names of files")
    ] = False,
    figures: Annotated[Path | None, typer.Option(help="folder for the page's figures, as SVG and PNG")] = None,
    attributions: Annotated[
        Path | None, typer.Option(help="folder of judge attribute, whose findings the page shows too")
    ] = None,
) -> None:
    """Report finished runs: a page, Markdown or LaTeX tables, or a model card section with model-index metadata.

    Values, intervals and tests are computed again from judges' answers and counts; a run whose metrics.json says
    something else is refused.

    Several runs must have a metric that was measured with the same settings, human captions and labels.
    """
    with one_line_errors():
        from judge.commands.report import Shown
        from judge.commands.report import report as write_report

        shown = Shown(not no_examples, not no_images, show_people, show_ids, figures, attributions)
        found = write_report(runs, kind=kind.value, out=out, overwrite=overwrite, shown=shown)
        if isinstance(found, Path):
            say(f"The report is in {found}")
        else:
            typer.echo(found, nl=False)
