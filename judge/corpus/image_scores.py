"""Scores of captions that other tools compute, image by image: CLIPScore, RefCLIPScore, PAC-S, SPICE ..."""

import os
from collections.abc import Mapping

from judge.corpus.columns import ROW_NUMBERS, columns_of, id_column
from judge.corpus.files import read_document
from judge.corpus.records import Row, image_id, number_of, place_of, records
from judge.errors import JudgeError

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
