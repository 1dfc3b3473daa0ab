"""How biased people find each captioner: numbers that metrics are compared with."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence

from judge.corpus.coco import records
from judge.corpus.columns import columns_of
from judge.corpus.files import read_document
from judge.corpus.ids import kind_of
from judge.corpus.tables import Row
from judge.errors import JudgeError


def read_human_scores(path: str | os.PathLike[str], *, captioners: Sequence[str]) -> dict[str, float]:
    """Captioner -> people's score of it, of the captioners of a run.

    Given as ``{captioner: score}``, or as a table of both columns. ImageCaptioner2's Table 5 compares metrics with such
    scores (Abdelrahman et al., AAAI 2024).

    Raises:
        JudgeError: a file that cannot be read; columns absent; a score that is no number; a captioner with two, or
            without any.
    """
    document = read_document(path)
    value, source = document.value, document.source
    if isinstance(value, dict):
        found = [(str(name), score, f"{source}, '{name}'") for name, score in value.items()]
    elif isinstance(value, list):
        found = _rows(records(value, source=source), source)
    else:
        raise JudgeError(f"JSON of the wrong shape ({kind_of(value)})", where=source, mend="write {captioner: score}")
    scores: dict[str, float] = {}
    for name, score, where in found:
        if name in scores:
            raise JudgeError(f"captioner '{name}' has two scores", where=where, mend="keep one of them")
        scores[name] = _number(score, where)
    missing = [name for name in captioners if name not in scores]
    if missing:
        known = ", ".join(scores) or "none"
        raise JudgeError(f"no score of captioner '{missing[0]}' (there are: {known})", where=source, mend="add it")
    return {name: scores[name] for name in captioners}


def _rows(rows: Sequence[Row], source: str) -> list[tuple[str, object, str]]:
    columns = {name.strip().lower(): name for name in columns_of(rows)}
    if not {"captioner", "score"} <= columns.keys():
        names = ", ".join(f"'{name[:40]}'" for name in list(columns.values())[:20])
        what = f"no columns 'captioner' and 'score' among {names}"
        raise JudgeError(what, where=source, mend="name the columns so")
    name, score = columns["captioner"], columns["score"]
    return [(str(row.get(name, "")), row.get(score), f"{source}, record {n}") for n, row in enumerate(rows, start=1)]


def _number(value: object, where: str) -> float:
    try:
        number = float(str(value))
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise JudgeError(f"score '{value}' is no number", where=where, mend="write it like 0.35")
    return number
