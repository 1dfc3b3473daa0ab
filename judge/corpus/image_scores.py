"""Scores of captions that other tools compute, image by image: CLIPScore, RefCLIPScore, PAC-S, SPICE ..."""

import math
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress

from judge.corpus.columns import ROW_NUMBERS, columns_of, id_column
from judge.corpus.files import read_document
from judge.corpus.records import image_id, place_of, records
from judge.errors import JudgeError

_PER_ITEM = "per_item"
_SHAPES = "give a table with a column of image ids, or what capevalkit writes"


def read_image_scores(path: str | os.PathLike[str]) -> dict[str, dict[str, float]]:
    """Score -> image id -> value, of one captioner.

    The file is a table with a column of image ids and a column for each score, ``{image: {score: value}}``, or what
    capevalkit writes (``"per_item"``). Columns that hold anything but numbers, and empty cells, are left out.

    Raises:
        JudgeError: a file that cannot be read, or without scores; an image with two values of a score.
    """
    value, source = read_document(path)
    found: dict[str, dict[str, float]] = {}
    entries = _of_mapping(value, source) if isinstance(value, dict) else _of_table(value, source)
    for image, score, number, at in entries:
        known = found.setdefault(score, {})
        name = image_id(image, at)
        if name in known:
            raise JudgeError(f"image '{name}' has two values of {score}", where=at, mend="keep one of them")
        known[name] = number
    if not found:
        raise JudgeError("holds no scores of images", where=source, mend=_SHAPES)
    return found


def _of_mapping(value: Mapping[str, object], source: str) -> Iterator[tuple[object, str, float, str]]:
    """Image, score, value and place, of ``{image: {score: value}}`` or of capevalkit's output."""
    named = {score: of[_PER_ITEM] for score, of in value.items() if isinstance(of, dict) and _PER_ITEM in of}
    for name, items in (named or {"": value.get(_PER_ITEM, value)}).items():
        for image, held in items.items() if isinstance(items, dict) else ():
            for score, cell in held.items() if isinstance(held, dict) else {name: held}.items():
                if score and (number := _number(cell)) is not None:
                    yield image, str(score), number, f"{source}, '{str(image)[:60]}'"


def _of_table(value: object, source: str) -> Iterator[tuple[object, str, float, str]]:
    """Image, score, value and place, of the rows of a table."""
    rows = records(value, source=source, shapes=_SHAPES)
    ids = id_column(rows, source=source, option="the column image_id")
    columns = [name for name in columns_of(rows) if name != ids and name.lower() not in ROW_NUMBERS]
    filled = {name: [row[name] for row in rows if row.get(name) not in (None, "")] for name in columns}
    scores = [name for name, cells in filled.items() if cells and all(_number(cell) is not None for cell in cells)]
    for place, row in enumerate(rows, start=1):
        for score in scores:
            if (number := _number(row.get(score))) is not None:
                yield row.get(ids), score, number, f"{source}, {place_of(row, place)}"


def _number(value: object) -> float | None:
    with suppress(ValueError, OverflowError):
        if isinstance(value, str | int | float) and not isinstance(value, bool) and math.isfinite(of := float(value)):
            return of
    return None
