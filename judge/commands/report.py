"""``judge report``: runs' folders as a page, as tables to paste, or as a section of a model card."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

import typer

from judge.commands.console import say
from judge.commands.evaluate import RunConfig
from judge.commands.images import RunImages
from judge.config import make_config, parse_settings
from judge.errors import JudgeError
from judge.masking.masked_images import make_thumbnails
from judge.report.attribution import SavedAttribution, read_attribution
from judge.report.cards import captioner_card
from judge.report.directory import REPORT
from judge.report.page import Contents, make_page
from judge.report.printing import latex_report, markdown_report
from judge.report.saved_run import SavedRun
from judge.report.several_runs import join_runs, read_runs
from judge.utils.files import resolved
from judge.utils.outputs import OutputFile

Format = Literal["html", "md", "latex", "card"]
_TEXTS: dict[Format, Callable[[SavedRun], str]] = {
    "md": lambda saved: markdown_report(saved.result),
    "latex": lambda saved: latex_report(saved.result),
    "card": captioner_card,
}


def open_runs(folders: Sequence[Path]) -> SavedRun:
    """Read runs, their numbers computed again, and join them.

    Args:
        folders: of finished runs, one or more; captioners of one name in several are called RUN/CAPTIONER.

    Raises:
        JudgeError: as :func:`~judge.report.saved_run.read_run`; a folder that is named twice; runs that do not belong
            together.
    """
    return join_runs(read_runs(folders))


@dataclass(frozen=True, slots=True)
class Shown:
    """What a page shows.

    Attributes:
        examples: images and captions.
        images: their images, people hidden.
        people: the images as they are, from the run's ``images``.
        ids: ids of images.
        attributions: folder of ``judge attribute`` to show too; None for none.
    """

    examples: bool = True
    images: bool = True
    people: bool = False
    ids: bool = False
    attributions: Path | None = None


EVERYTHING = Shown()


def report(
    folders: Sequence[Path],
    *,
    kind: Format = "html",
    out: Path | None = None,
    overwrite: bool = False,
    shown: Shown = EVERYTHING,
) -> str | Path:
    """A report of runs.

    Args:
        folders: of finished runs, one or more.
        kind: a page, or text to paste: tables as Markdown or LaTeX, or a model card section.
        out: a file to write; None to return the text, or for the page of one run the run's own.
        overwrite: replace an earlier file.
        shown: what a page shows.

    Returns:
        The text, or the file's path.

    Raises:
        JudgeError: as of :func:`open_runs`; ``out`` is there already, or cannot be written.
    """
    if kind != "html" and shown != EVERYTHING:
        raise JudgeError("these options are of pages", where=f"--format {kind}", mend="leave them out")
    if kind == "html" and out is None:
        if len(folders) > 1:
            what, mend = "several runs have no page of their own", "name a file with --out"
            raise JudgeError(what, where="judge report", mend=mend)
        out = folders[0] / REPORT
    output = OutputFile(out, overwrite=overwrite) if out is not None else None
    if output:
        _check_out(output, folders)
    saved = open_runs(folders)
    if output is None:
        return _TEXTS[kind](saved)
    with output.working():
        output.write((_page(saved, shown) if kind == "html" else _TEXTS[kind](saved)).encode())
    return output.path


def _page(saved: SavedRun, shown: Shown) -> str:
    images = saved.pictures if shown.images and shown.examples else {}
    if shown.people and shown.images and shown.examples:
        images = _with_people(saved)
    contents = Contents(
        saved.result,
        saved.texts if len(saved.texts) > 1 else [("", text) for _, text in saved.texts],
        examples=shown.examples,
        names=shown.ids,
        pictures=images,
        people=shown.people,
        attributed=_attributed(shown),
    )
    return make_page(contents)


def _attributed(shown: Shown) -> SavedAttribution | None:
    if shown.attributions is None:
        return None
    found = read_attribution(shown.attributions)
    return found if shown.images else replace(found, maps=())


def _with_people(saved: SavedRun) -> dict[str, bytes]:
    """The images of the examples as they are."""
    found: dict[str, bytes] = {}
    wanted = list(dict.fromkeys(saved.result.examples["image_id"])) if len(saved.result.examples) else []
    for name, text in saved.texts:
        config = make_config({**parse_settings(text, where=name), "out": None}, RunConfig, where=name)
        if config.images is not None:
            plain = RunImages(config).plain
            found |= make_thumbnails(plain, [image for image in wanted if image in plain.names])
    if wanted and not found:
        mend = "make the report again on the machine that has them, or leave --show-people out"
        raise JudgeError("the run has no images, or none of its examples", where="--show-people", mend=mend)
    return found


def _check_out(output: OutputFile, folders: Sequence[Path]) -> None:
    out, where = output.path, output.where
    # A run's folder that does not exist is reported when it is opened.
    if not out.parent.is_dir() and out.parent not in folders:
        raise JudgeError("its folder is not there", where=where, mend="make it, or name another file")
    output.check()
    of_run = any(resolved(out).is_relative_to(resolved(folder)) for folder in folders)
    if of_run and out.exists() and out.suffix != ".html":
        raise JudgeError("is a file of the run, which is read", where=where, mend="name another file")


def command(  # noqa: PLR0913, PLR0917 - its options
    runs: Annotated[list[Path], typer.Argument(metavar="RUN", help="folders of finished runs, one or more")],
    kind: Annotated[
        Format, typer.Option("--format", help="a page, tables to paste, or a section of the captioner's model card")
    ] = "html",
    out: Annotated[
        Path | None,
        typer.Option(help="file to write [default: RUN/report.html of one run; md, latex, card: standard output]"),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", metavar="", help="replace an earlier file")] = False,
    no_examples: Annotated[
        bool, typer.Option("--no-examples", metavar="", help="page without captions and images")
    ] = False,
    no_images: Annotated[
        bool, typer.Option("--no-images", metavar="", help="page with captions, without images")
    ] = False,
    show_people: Annotated[
        bool,
        typer.Option("--show-people", metavar="", help="the run's images as they are; else people are hidden"),
    ] = False,
    show_ids: Annotated[
        bool, typer.Option("--show-ids", metavar="", help="ids of images, which may be names of files")
    ] = False,
    attributions: Annotated[
        Path | None, typer.Option(help="folder of judge attribute, whose results the page shows too")
    ] = None,
) -> None:
    """Report finished runs: a page, Markdown or LaTeX tables, or a model card section with model-index metadata.

    Values, intervals and tests are computed again from judges' answers and counts; a run whose metrics.json says
    something else is refused.

    Several runs must have a metric that was measured with the same settings, human captions and labels.
    """
    shown = Shown(not no_examples, not no_images, show_people, show_ids, attributions)
    found = report(runs, kind=kind, out=out, overwrite=overwrite, shown=shown)
    if isinstance(found, Path):
        say(f"The report is in {found}")
    else:
        typer.echo(found, nl=False)
