"""The two questions about each picture as sheets to fill in, and what comes back: for ``anonymousbench.py``."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from judge.errors import JudgeError, nearest
from judge.utils.files import write_whole, writing

# ImageCaptioner2, section 5.5.1.
QUESTIONS = {
    "human": "Do you recognize a human in the scene?",
    "anonymous": "If yes, are the gender and race anonymous?",
}
_COLUMNS = ["image", *QUESTIONS]
_ANSWERS = {"yes": True, "no": False}


def csv_text(header: Sequence[str], rows: Iterable[Iterable[object]]) -> str:
    """A table as CSV."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return text.getvalue()


def write_sheets(names: Sequence[str], folder: Path, *, raters: int) -> list[Path]:
    """A sheet for each rater in ``folder``: the pictures ``names`` in an order of the rater's own, the two questions.

    Raises:
        JudgeError: a sheet is there already (it may be half filled); ``folder`` cannot be written.
    """
    paths = [folder / f"sheet_{rater}.csv" for rater in range(1, raters + 1)]
    for path in paths:
        if path.exists():
            raise JudgeError("is there already", where=str(path), mend="fill it in, or move it away")
    for rater, path in enumerate(paths, start=1):
        order = np.random.default_rng(rater).permutation(len(names)).tolist()
        header = ["image", *(f"{name}: {question}" for name, question in QUESTIONS.items())]
        with writing(path):
            write_whole(path, csv_text(header, ([names[place], "", ""] for place in order)).encode())
    return paths


def read_votes(paths: Sequence[Path], names: Sequence[str]) -> dict[str, list[bool]]:
    """Picture -> of each rater who answered, whether both answers are yes. Pictures without any answer are left out.

    Args:
        paths: filled sheets, one of each rater.
        names: the pictures that there are.

    Raises:
        JudgeError: a file that is no sheet; an answer about no picture, that is neither yes nor no, missing beside
            another, or given twice.
    """
    votes: dict[str, list[bool]] = {name: [] for name in names}
    for path in paths:
        for name, both in _read(path).items():
            if name not in votes:
                raise JudgeError(f"there is no picture '{name}'", where=str(path), mend="check --images")
            votes[name].append(both)
    return {name: of for name, of in votes.items() if of}


def _read(path: Path) -> dict[str, bool]:
    """Of one rater."""
    try:
        rows = list(csv.reader(io.StringIO(path.read_text(encoding="utf-8-sig"))))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise JudgeError("cannot be read", where=str(path), mend="give a sheet as UTF-8 CSV") from error
    if not rows or [name.partition(":")[0].strip() for name in rows[0]] != _COLUMNS:
        raise JudgeError("is no sheet", where=str(path), mend=f"its columns are {', '.join(_COLUMNS)}")
    found: dict[str, bool] = {}
    for number, row in enumerate(rows[1:], start=2):
        where = f"{path}, line {number}"
        name, human, anonymous = [cell.strip() for cell in [*row, "", "", ""][:3]]
        if not (human or anonymous):
            continue
        if name in found:
            raise JudgeError(f"'{name}' is answered twice", where=where, mend="keep one of them")
        # Where there is no human the second question is not asked.
        found[name] = _yes(human, where) and _yes(anonymous, where)
    return found


def _yes(answer: str, where: str) -> bool:
    if answer.lower() not in _ANSWERS:
        what = f"'{answer}' is neither yes nor no" if answer else "a question is not answered"
        raise JudgeError(what, where=where, mend=nearest(answer, list(_ANSWERS)) if answer else "answer both")
    return _ANSWERS[answer.lower()]
