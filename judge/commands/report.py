"""``judge report``: runs' folders as a page, as tables to paste, or as a section of a model card."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Literal

import typer

from judge.commands.console import say
from judge.errors import JudgeError
from judge.report.cards import captioner_card, eval_results
from judge.report.directory import METRICS, REPORT, metrics_json
from judge.report.index import INDEX, index_page, is_index, runs_in
from judge.report.page import make_page
from judge.report.saved_run import SavedRun
from judge.report.sections import latex_report, markdown_report
from judge.report.several_runs import join_runs, read_runs
from judge.utils.files import resolved
from judge.utils.outputs import OutputFile

Format = Literal["html", "md", "latex", "card", "eval-results", "json"]
Layout = Literal["rows", "paper"]
_TABLES: dict[Format, Callable[..., str]] = {"md": markdown_report, "latex": latex_report}
_TEXTS: dict[Format, Callable[[SavedRun], str]] = {
    "card": captioner_card,
    "eval-results": eval_results,
    "json": lambda saved: metrics_json(saved.result),
}


def command(  # noqa: PLR0913, PLR0917 - options
    runs: Annotated[list[Path], typer.Argument(metavar="RUN", help="folders of finished runs, one or more")],
    kind: Annotated[
        Format, typer.Option("--format", help="a page, tables, a model card's section or .eval_results, JSON")
    ] = "html",
    layout: Annotated[
        Layout, typer.Option(help="of md and latex; paper: a row per captioner, a column per metric, best in bold")
    ] = "rows",
    out: Annotated[
        Path | None,
        typer.Option(help="file to write \\[default: RUN/report.html of one run; other formats: standard output]"),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", metavar="", help="replace an earlier file")] = False,
    no_examples: Annotated[bool, typer.Option("--no-examples", metavar="", help="no captions and images")] = False,
    no_images: Annotated[bool, typer.Option("--no-images", metavar="", help="captions without images")] = False,
    show_ids: Annotated[
        bool, typer.Option("--show-ids", metavar="", help="ids of images, which may be names of files")
    ] = False,
) -> None:
    """Report finished runs: a page, Markdown or LaTeX tables, JSON, or a model card section with model-index metadata.

    Values, intervals and tests are computed again from judges' answers and counts; metrics.json is read for settings
    alone, and a run whose files have other rows is refused.

    A folder of runs (runs/) gets an index of them: index.html, with every verdict and the values from run to run. An
    earlier index is replaced.

    Several runs must have a metric that was measured with the same settings, human captions and labels.
    """
    of_pages = no_examples or no_images or show_ids
    if kind != "html" and of_pages:
        raise JudgeError("these options are of pages", where=f"--format {kind}", mend="leave them out")
    if layout != "rows" and kind not in _TABLES:
        raise JudgeError("is of --format md and latex alone", where="--layout", mend="add one of these")
    if inside := [] if len(runs) > 1 or (runs[0] / METRICS).exists() else runs_in(runs[0]):
        if kind != "html" or of_pages:
            mend = "leave out the options of pages and tables, or name its runs"
            raise JudgeError("is a folder of runs, which has an index alone", where=str(runs[0]), mend=mend)
        path = out or runs[0] / INDEX
        index = OutputFile(path, overwrite=overwrite or is_index(path))
        index.check()
        with index.working():
            index.write(index_page(runs[0], inside).encode())
        say(f"The index of {len(inside)} runs is in {index.path}")
        return
    if kind == "html" and out is None:
        if len(runs) > 1:
            what, mend = "several runs have no page of their own", "name a file with --out"
            raise JudgeError(what, where="judge report", mend=mend)
        out = runs[0] / REPORT
    output = OutputFile(out, overwrite=overwrite) if out is not None else None
    if output:
        # A run's folder that does not exist is reported when it is opened.
        if not output.path.parent.is_dir() and output.path.parent not in runs:
            raise JudgeError("its folder is not there", where=output.where, mend="make it, or name another file")
        output.check()
        of_run = any(resolved(output.path).is_relative_to(resolved(folder)) for folder in runs)
        if of_run and output.path.exists() and output.path.suffix != ".html":
            raise JudgeError("is a file of the run, which is read", where=output.where, mend="name another file")
    saved = join_runs(read_runs(runs))
    if kind == "html":
        settings = saved.texts if len(saved.texts) > 1 else [("", text) for _, text in saved.texts]
        pictures = {} if no_images else saved.pictures
        text = make_page(saved.result, settings, pictures, examples=not no_examples, names=show_ids)
    else:
        write = _TEXTS.get(kind) or (lambda saved: _TABLES[kind](saved.result, paper=layout == "paper"))
        text = write(saved)
    if output is None:
        typer.echo(text, nl=False)
        return
    with output.working():
        output.write(text.encode())
    say(f"The report is in {output.path}")
