"""``judge report``: runs' folders as a page, as tables to paste, or as a section of a model card."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

from judge.errors import JudgeError
from judge.report.captioner_card import captioner_card
from judge.report.saved_run import SavedRun, name_runs, read_run
from judge.report.several_runs import check_places, join_runs
from judge.report.text_report import latex_report, markdown_report
from judge.report.verification import check_run
from judge.utils.files import write_whole, writing

Format = Literal["html", "md", "latex", "card"]
_TEXTS: dict[Format, Callable[[SavedRun], str]] = {
    "md": lambda saved: markdown_report(saved.result),
    "latex": lambda saved: latex_report(saved.result),
    "card": captioner_card,
}


def open_runs(folders: Sequence[Path]) -> SavedRun:
    """Read runs, make their numbers again, and join them.

    Args:
        folders: of finished runs, one or more; captioners of one name in several are called RUN/CAPTIONER.

    Raises:
        JudgeError: a folder that holds no run, or is named twice; files that contradict each other; runs that do not
            belong together.
    """
    check_places(folders)
    runs = [read_run(folder, name) for folder, name in zip(folders, name_runs(folders), strict=True)]
    for run in runs:
        check_run(run)
    return join_runs(runs)


def report(
    folders: Sequence[Path], *, kind: Format = "html", out: Path | None = None, overwrite: bool = False
) -> str | Path:
    """A report of runs.

    Args:
        folders: of finished runs, one or more.
        kind: a page, or text to paste: tables as Markdown or LaTeX, or a model card section.
        out: a file to write; None to return the text.
        overwrite: replace the file that is there.

    Returns:
        The text, or where it lies.

    Raises:
        JudgeError: as of :func:`open_runs`; ``out`` is there already, or cannot be written.
    """
    if out is not None:
        _check_out(out, folders, overwrite=overwrite)
    saved = open_runs(folders)
    if kind == "html":
        # The page: judge.report.page.write_page(saved, out or folders[0] / "report.html").
        raise JudgeError("pages are not built yet", where="--format html", mend="use --format md, latex or card")
    text = _TEXTS[kind](saved)
    if out is None:
        return text
    with writing(f"--out {out}", "name a file in a folder that is there, on a disk with room"):
        write_whole(out, text.encode())
    return out


def _check_out(out: Path, folders: Sequence[Path], *, overwrite: bool) -> None:
    where = f"--out {out}"
    if out.is_dir():
        raise JudgeError("is a folder", where=where, mend="name a file")
    if not out.parent.is_dir():
        raise JudgeError("its folder is not there", where=where, mend="make it, or name another file")
    if not out.exists():
        return
    if not overwrite:
        raise JudgeError("is there already", where=where, mend="name a new file, or add --overwrite")
    if any(out.resolve().is_relative_to(folder.resolve()) for folder in folders) and out.suffix != ".html":
        raise JudgeError("is a file of the run, which is read", where=where, mend="name another file")
