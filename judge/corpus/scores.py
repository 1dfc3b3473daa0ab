"""Scores that others give: other tools to captions, image by image (CLIPScore, SPICE ...), and people to captioners."""

import os
from collections.abc import Mapping, Sequence

from judge.corpus.columns import ROW_NUMBERS, chosen_column, columns_of, id_column
from judge.corpus.files import read_document
from judge.corpus.records import (
    MISSING,
    Row,
    image_id,
    kind_of,
    mapping_entries,
    number_of,
    place_of,
    records,
    row_entries,
)
from judge.errors import JudgeError
from judge.utils.cells import unguard

_PER_ITEM = "per_item"
_SHAPES = "give a table with a column of image ids, or what capevalkit writes"


def read_image_scores(path: str | os.PathLike[str]) -> dict[str, dict[str, float]]:
    """Score -> image id -> value, of one captioner.

    The file is a table with a column of image ids and a column for each score, ``{image: {score: value}}``, or what
    capevalkit writes (``"per_item"``). Columns that hold anything but numbers, and empty cells, are left out.
    """
    value, source = read_document(path)
    rows = _rows_of(value) if isinstance(value, dict) else records(value, source=source, shapes=_SHAPES)
    ids = id_column(rows, source=source, option="the column image_id") if rows else ""
    columns = [name for name in columns_of(rows) if name != ids and name.lower() not in ROW_NUMBERS]
    filled = {name: [row[name] for row in rows if row.get(name) not in (None, "")] for name in columns}
    found: dict[str, dict[str, float]] = {
        name: {} for name, cells in filled.items() if cells and all(number_of(cell) is not None for cell in cells)
    }
    if not found:
        raise JudgeError("holds no scores of images", where=source, mend=_SHAPES)
    for place, row in enumerate(rows, start=1):
        at = f"{source}, {place_of(row, place)}"
        image = image_id(row.get(ids), at)
        for score, known in found.items():
            if (number := number_of(row.get(score))) is None:
                continue
            if image in known:
                raise JudgeError(f"image '{image}' has two values of {score}", where=at, mend="keep one of them")
            known[image] = number
    return found


def _rows_of(value: Mapping[str, object]) -> list[Row]:
    """The rows of ``{image: {score: value}}``, or of capevalkit's output, a row for each image."""
    named = {score: of[_PER_ITEM] for score, of in value.items() if isinstance(of, dict) and _PER_ITEM in of}
    rows: dict[str, Row] = {}
    for name, items in (named or {"": value.get(_PER_ITEM, value)}).items():
        for image, held in items.items() if isinstance(items, dict) else ():
            scores = held if isinstance(held, dict) else {name: held} if name else {}
            rows.setdefault(image, {"image_id": image}).update(scores)
    return [row for row in rows.values() if len(row) > 1]


def read_human_scores(path: str | os.PathLike[str], *, captioners: Sequence[str]) -> dict[str, float]:
    """Captioner -> human score, for the captioners of a run and others in the file.

    The file holds ``{captioner: score}``, or a table with columns "captioner" and "score". ImageCaptioner2's Table 5
    compares metrics with such scores (Abdelrahman et al., AAAI 2024).
    """
    value, source = read_document(path)
    if isinstance(value, dict):
        entries = mapping_entries(value)
    else:
        rows = records(value, source=source, shapes="write {captioner: score}")
        spelled = {column.strip().lower(): column for column in columns_of(rows)}
        columns = [chosen_column(rows, spelled.get(one, one), source=source) for one in ("captioner", "score")]
        entries = row_entries(enumerate(rows, 1), *columns)
    scores: dict[str, float] = {}
    for captioner, score, at in entries:
        where = f"{source}, {at}"
        # Programs write a name of digits as a number.
        if not isinstance(captioner, str | int | float) or not str(captioner).strip():
            raise JudgeError("names no captioner", where=where, mend="write its name")
        name = str(captioner)
        name = name if name in captioners else unguard(name)  # Our own tables guard names that look like formulas.
        if name in scores:
            raise JudgeError(f"captioner '{name}' has two scores", where=where, mend="keep one of them")
        if (number := number_of(score)) is None:
            kind = "that is missing" if score is MISSING else kind_of(score)
            written = f"'{score}'" if isinstance(score, str) else kind
            raise JudgeError(f"score {written} is no number", where=where, mend="write it like 0.35")
        scores[name] = number
    if missing := [name for name in captioners if name not in scores]:
        known = ", ".join(scores) or "none"
        raise JudgeError(f"no score of captioner '{missing[0]}' (there are: {known})", where=source, mend="add it")
    return scores
