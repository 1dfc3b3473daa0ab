"""What the readers of captions, labels, objects and scores share: records, and what each is about."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, cast

from judge.corpus.ids import canonical_id, kind_of
from judge.corpus.paintings import name_paintings
from judge.corpus.tables import Placed, Row
from judge.errors import JudgeError, nearest

MISSING = object()


class Entry(NamedTuple):
    """One record as the file has it, nothing checked yet.

    ``image``: its image id; ``value``: its caption, label or objects; ``at``: which record it is, in words.
    """

    image: object
    value: object
    at: str


def records(value: object, *, source: str, shapes: str = "write each record as an object") -> list[Row]:
    """``value`` as rows, paintings named (:mod:`judge.corpus.paintings`).

    ``shapes``: what to give instead, for messages.

    Raises:
        JudgeError: not a list; empty; a record that is not an object.
    """
    if not isinstance(value, list):
        raise JudgeError(f"JSON of the wrong shape ({kind_of(value)})", where=source, mend=shapes)
    if not value:
        raise JudgeError("holds no records", where=source, mend="give a file with at least one")
    for number, row in enumerate(value, start=1):
        if not isinstance(row, dict):
            raise JudgeError(f"is {kind_of(row)}, not an object", where=f"{source}, record {number}", mend=shapes)
    return name_paintings(cast("list[Row]", value))


def chosen_rows(rows: Sequence[Row], where: Mapping[str, str], *, source: str, needed: bool) -> list[tuple[int, Row]]:
    """The rows whose columns hold what ``where`` says (column -> cell), numbered as in the file, from 1.

    Where no row has such a column, all are taken, unless it is ``needed``.

    Raises:
        JudgeError: no such column; no such row.
    """
    kept = list(enumerate(rows, start=1))
    for column, cell in where.items():
        cells = {_cell(row[column]) for _, row in kept if column in row}
        if cells:
            kept = [(number, row) for number, row in kept if _cell(row.get(column, "")) == cell]
        elif needed:
            known = list(dict.fromkeys(str(name) for row in rows[:1000] for name in row))
            raise JudgeError(f"no column '{column}' for --where", where=source, mend=nearest(column, known))
        if not kept:
            what = f"no record where {column} is '{cell}'"
            raise JudgeError(what, where=source, mend=f"values in the file: {', '.join(sorted(cells)[:10])}")
    return kept


def _cell(value: object) -> str:
    """A cell to compare; "" of a list or an object, whose text may be of any length."""
    return "" if isinstance(value, list | tuple | dict | set | frozenset) else str(value).strip()


def annotation_of(row: Mapping[str, object], number: int) -> str:
    """Which of COCO's annotations it is, in words: by its id, else by its number in the file, from 1."""
    return f"annotation {row['id']}" if type(row.get("id")) is int else f"annotations, record {number}"


def place_of(row: Row, number: int) -> str:
    """Which record it is, in words: of several files where it lies, else its number."""
    return row.at if isinstance(row, Placed) else f"record {number}"


def row_entries(
    rows: Sequence[Row], image: str, value: str, *, numbered: Iterable[tuple[int, Row]] | None = None
) -> list[Entry]:
    """Entries of a table, given its column of image ids and its column of values; of ``numbered`` rows alone."""
    chosen = enumerate(rows, start=1) if numbered is None else numbered
    return [Entry(row.get(image, MISSING), row.get(value, MISSING), place_of(row, number)) for number, row in chosen]


def mapping_entries(value: Mapping[object, object]) -> list[Entry]:
    """Entries of ``{image: value}``."""
    return [
        Entry(image, held, f"record {number} ('{str(image)[:60]}')")
        for number, (image, held) in enumerate(value.items(), start=1)
    ]


def image_id(image: object, where: str) -> str:
    """The canonical image id.

    Raises:
        JudgeError: it is missing, or no id.
    """
    fault = "is missing"
    if image is not MISSING:
        try:
            return canonical_id(image)
        except (ValueError, OverflowError) as error:
            fault = str(error)
    raise JudgeError(f"image id {fault}", where=where, mend="give the record a number or a file name")
