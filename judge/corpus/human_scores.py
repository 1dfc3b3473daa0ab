"""How biased people find each captioner: numbers that metrics are compared with."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence

from judge.corpus.columns import columns_of
from judge.corpus.files import read_document
from judge.corpus.records import MISSING, Entry, kind_of, mapping_entries, records, row_entries
from judge.errors import JudgeError
from judge.utils.cells import unguard


def read_human_scores(path: str | os.PathLike[str], *, captioners: Sequence[str]) -> dict[str, float]:
    """Captioner -> people's score, for the captioners of a run and others in the file.

    The file holds ``{captioner: score}``, or a table with columns "captioner" and "score". ImageCaptioner2's Table 5
    compares metrics with such scores (Abdelrahman et al., AAAI 2024).

    Raises:
        JudgeError: a file that cannot be read; columns absent; a score that is no number; a captioner with two, or
            without any.
    """
    document = read_document(path)
    value, source = document.value, document.source
    scores: dict[str, float] = {}
    for captioner, score, at in mapping_entries(value) if isinstance(value, dict) else _rows(value, source):
        where = f"{source}, {at}"
        # Programs write a name of digits as a number.
        if isinstance(captioner, bool) or not isinstance(captioner, str | int | float) or not str(captioner).strip():
            kind = "missing" if captioner is MISSING else "empty" if isinstance(captioner, str) else kind_of(captioner)
            raise JudgeError(f"captioner is {kind}", where=where, mend="write its name")
        name = str(captioner)
        name = name if name in captioners else unguard(name)  # Our own tables guard names that look like formulas.
        if name in scores:
            raise JudgeError(f"captioner '{name}' has two scores", where=where, mend="keep one of them")
        scores[name] = _number("" if score is MISSING else score, where)
    if missing := [name for name in captioners if name not in scores]:
        known = ", ".join(scores) or "none"
        raise JudgeError(f"no score of captioner '{missing[0]}' (there are: {known})", where=source, mend="add it")
    return scores


def _rows(value: object, source: str) -> list[Entry]:
    rows = records(value, source=source, shapes="write {captioner: score}")
    columns = {name.strip().lower(): name for name in columns_of(rows)}
    if not {"captioner", "score"} <= columns.keys():
        names = ", ".join(f"'{name[:40]}'" for name in list(columns.values())[:20])
        what = f"no columns 'captioner' and 'score' among {names}"
        raise JudgeError(what, where=source, mend="name the columns so")
    return row_entries(enumerate(rows, 1), columns["captioner"], columns["score"])


def _number(value: object, where: str) -> float:
    shown = f"'{value}'" if isinstance(value, str) else kind_of(value)
    try:
        number = float(value) if isinstance(value, str | int | float) else math.nan
    except (ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise JudgeError(f"score {shown} is no number", where=where, mend="write it like 0.35")
    return number
