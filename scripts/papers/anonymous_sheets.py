"""The paper's two questions about each picture as sheets to fill in, and what comes back: for ``anonymousbench.py``."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from judge.corpus.rating_sheet import Sheet, picture_questions, picture_sheet, sheet_csv
from judge.corpus.ratings import read_ratings
from judge.errors import JudgeError
from judge.masking.images import read_image
from judge.report.rating_page import rating_page
from judge.utils.files import write_whole, writing

PER_SHEET = 250  # Pictures: a page of some megabytes, an hour's work.
_SIDE, _QUALITY = 448, 80  # Pixels along the longer side of a picture on the page.
_ITEM = re.compile(r"\b(s[0-9a-f]{8})-[0-9]+")
_LEAD = (
    "Say of each picture whether you recognise a human, and if so, whether gender and race are anonymous.",
    "The pictures were generated. There is no right answer that we know.",
)


def csv_text(header: Sequence[str], rows: Iterable[Iterable[object]]) -> str:
    """A table as CSV."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return text.getvalue()


def make_sheets(names: Sequence[str], folder: Path) -> list[Sheet]:
    """Sheets of up to 250 pictures each; the same for the same pictures.

    Args:
        names: of the pictures, sorted.
        folder: that holds them.

    Raises:
        JudgeError: a picture that cannot be read.
    """
    parts = [names[first : first + PER_SHEET] for first in range(0, len(names), PER_SHEET)]
    return [picture_sheet({name: _small(folder, name) for name in part}, picture_questions()) for part in parts]


def _small(folder: Path, name: str) -> bytes:
    """A picture as a JPEG for the page."""
    from PIL import Image

    picture = Image.fromarray(read_image(folder, name).pixels)
    picture.thumbnail((_SIDE, _SIDE))
    buffer = io.BytesIO()
    picture.save(buffer, "JPEG", quality=_QUALITY)
    return buffer.getvalue()


def write_sheets(names: Sequence[str], folder: Path, out: Path) -> list[Path]:
    """Each sheet in ``out`` as a page, ``rating_01.html``, and as a table, ``rating_01.csv``; the paths of the pages.

    Raises:
        JudgeError: as ``make_sheets``; a sheet is there already (it may be half filled); ``out`` cannot be written.
    """
    pages = []
    for number, sheet in enumerate(make_sheets(names, folder), start=1):
        page, table = (out / f"rating_{number:02}.{kind}" for kind in ("html", "csv"))
        for path in (page, table):
            if path.exists():
                raise JudgeError("is there already", where=str(path), mend="have it filled in, or move it away")
        text = rating_page(sheet, title=f"Rating: anonymous pictures, part {number}", lead=_LEAD, table=table.name)
        with writing(out):
            write_whole(page, text.encode())
            write_whole(table, sheet_csv(sheet).encode())
        pages.append(page)
    return pages


def read_votes(paths: Sequence[Path], names: Sequence[str], folder: Path) -> dict[str, list[bool]]:
    """Picture -> of each rater who answered, whether both answers are yes. Pictures without any answer are left out.

    Args:
        paths: tables that raters sent back, of any of the sheets.
        names: the pictures that there are, sorted.
        folder: that holds them.

    Raises:
        JudgeError: as ``make_sheets`` and ``read_ratings``; a file of no sheet of these pictures.
    """
    sheets = {sheet.name: sheet for sheet in make_sheets(names, folder)}
    files: dict[str, list[Path]] = {}
    for path in paths:
        files.setdefault(_sheet_of(path, sheets), []).append(path)
    votes: dict[str, list[bool]] = {}
    for name, of in files.items():
        answers = read_ratings(of, sheets[name]).answers
        for item in sheets[name].items:
            anonymous = answers["anonymous"].get(item.name, {})
            for rater, human in answers["human"].get(item.name, {}).items():
                # Who sees a human and leaves the second question out has not rated the picture.
                if human == "no" or rater in anonymous:
                    votes.setdefault(item.image, []).append(human == "yes" and anonymous[rater] == "yes")
    return {name: votes[name] for name in names if name in votes}


def _sheet_of(path: Path, known: Iterable[str]) -> str:
    """The name of the sheet that a file is of."""
    try:
        found = _ITEM.search(path.read_text(encoding="utf-8", errors="replace"))
    except OSError as error:
        raise JudgeError(f"cannot be read ({error.strerror})", where=str(path), mend="give a filled sheet") from error
    if not found or found[1] not in known:
        what = f"is of another sheet ({found[1]})" if found else "is no rating sheet"
        raise JudgeError(what, where=str(path), mend="give tables of these pictures' sheets; check --images")
    return found[1]
