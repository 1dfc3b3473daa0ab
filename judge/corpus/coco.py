"""Captions out of JSON (or a pickle of the same shape), whichever of the known shapes it has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, NoReturn, cast

from judge.corpus.columns import (
    CAPTIONS,
    LISTS,
    ROW_NUMBERS,
    caption_column,
    chosen_column,
    columns_of,
    detect,
    id_column,
)
from judge.corpus.harness import flatten, is_lmms_eval, parse_list, row_number
from judge.corpus.ids import kind_of
from judge.corpus.tables import Row
from judge.errors import JudgeError, nearest
from judge.types import Side

_SHAPES = (
    "give COCO captions or results, Karpathy's dataset, a list of records, {image: caption} or {image: [captions]}"
)
MISSING = object()


class Item(NamedTuple):
    """One caption as the file has it, nothing checked yet.

    ``row``: the record it came from; an image in two records is a duplicate result. ``at``: that record, in words.
    """

    image: object
    caption: object
    row: int
    at: str


@dataclass(frozen=True, slots=True)
class Found:
    """The captions of a file.

    Attributes:
        items: in file order.
        id_field: what the file calls the image id.
        caption_field: what it calls the caption.
        several: whether the format means several captions of an image to stand in several records.
    """

    items: Sequence[Item]
    id_field: str
    caption_field: str
    several: bool = False


def find_captions(
    value: object, *, side: Side, source: str, split: str | None = None, columns: Mapping[str, str] | None = None
) -> Found:
    """The captions of ``side`` in ``value``.

    - ``{"annotations": [{image_id, caption}]}``: COCO captions.
    - ``{"images": [{cocoid | filename, split, sentences: [{raw}]}]}``: Karpathy's dataset. His training set is
      split "train" and split "restval".
    - ``[{...}]`` or the rows of a table: COCO results, lmms-eval's samples, VLMEvalKit's answers, LIC's pickles or
      any table, whose columns are told by name (:mod:`judge.corpus.columns`) or given in ``columns``.
    - ``{image: caption}`` and ``{image: [captions]}``.

    One set of options serves both sides, which may differ in format: a file of generated captions without splits is
    taken whole (it is joined with the human images of the split), and a file without a column named in ``columns``
    is read as if that name had not been given.

    Raises:
        JudgeError: none of these; no such split; columns absent or ambiguous.
    """
    columns = columns or {}
    if isinstance(value, dict):
        if isinstance(value.get("annotations"), list):
            _refuse_split(split, side, source)
            return _annotations(value["annotations"], source)
        if isinstance(value.get("images"), list):
            return _karpathy(value["images"], split=split, source=source)
        if not _is_row(value, side, columns):
            _refuse_split(split, side, source)
            return _mapping(value, source)
        value = [value]
    if not isinstance(value, list):
        raise JudgeError(f"JSON of the wrong shape ({kind_of(value)})", where=source, mend=_SHAPES)
    rows = records(value, source=source)
    if is_lmms_eval(rows) and not any(name in rows[0] for name in columns.values()):
        rows = flatten(rows)
    return _rows(_with_split(rows, split, side, source), side=side, source=source, columns=columns)


def records(value: Sequence[object], *, source: str) -> list[Row]:
    """``value`` as rows.

    Raises:
        JudgeError: empty; a record that is not an object.
    """
    if not value:
        raise JudgeError("holds no records", where=source, mend="give a file with at least one")
    for number, row in enumerate(value, start=1):
        if not isinstance(row, dict):
            raise JudgeError(f"is {kind_of(row)}, not an object", where=f"{source}, record {number}", mend=_SHAPES)
    return cast("list[Row]", value)


def _annotations(annotations: Sequence[object], source: str) -> Found:
    rows = records(annotations, source=source)
    if "bbox" in rows[0] or "segmentation" in rows[0]:
        mend = "give captions_*.json in place of instances_*.json"
        raise JudgeError("holds object instances, not captions", where=source, mend=mend)
    items = [
        Item(
            row.get("image_id", MISSING),
            row.get("caption", MISSING),
            number,
            f"annotation {row['id']}" if "id" in row else f"record {number}",
        )
        for number, row in enumerate(rows, start=1)
    ]
    return Found(items, "image_id", "caption", several=True)


def _karpathy(images: Sequence[object], *, split: str | None, source: str) -> Found:
    rows = records(images, source=source)
    if "sentences" not in rows[0]:
        raise JudgeError("'images' without 'annotations' or 'sentences'", where=source, mend=_SHAPES)
    id_field = "cocoid" if "cocoid" in rows[0] else "filename"
    items: list[Item] = []
    for number, row in enumerate(rows, start=1):
        if split is None or row.get("split") == split:
            sentences, at = row.get("sentences"), f"record {number}"
            if not isinstance(sentences, list) or not all(isinstance(sentence, dict) for sentence in sentences):
                where = f"{source}, {at}, field 'sentences'"
                raise JudgeError("is not a list of objects", where=where, mend="give [{'raw': caption}, ...]")
            image = row.get(id_field, MISSING)
            items.extend(Item(image, sentence.get("raw", MISSING), number, at) for sentence in sentences)
    if not items:
        _no_split(rows, split, source)
    return Found(items, id_field, "raw", several=True)


def _mapping(value: Mapping[object, object], source: str) -> Found:
    if not value:
        raise JudgeError("holds no captions", where=source, mend="give at least one")
    if not any(caption is None or isinstance(caption, str | int | float) for caption in value.values()) and not any(
        isinstance(captions, list) and not any(isinstance(caption, dict) for caption in captions)
        for captions in value.values()
    ):
        keys = ", ".join(f"'{key}'" for key in list(value)[:5])
        raise JudgeError(f"JSON of the wrong shape (an object with {keys})", where=source, mend=_SHAPES)
    items: list[Item] = []
    for number, (image, captions) in enumerate(value.items(), start=1):
        at = f"record {number} ('{str(image)[:60]}')"
        held = captions if isinstance(captions, list) else [captions]
        items.extend(Item(image, caption, number, at) for caption in held)
    return Found(items, "key", "value")


def _is_row(value: Mapping[object, object], side: Side, columns: Mapping[str, str]) -> bool:
    """Whether an object is one record (a JSON-lines file of one line) rather than ``{image: caption}``."""
    rows = [{str(key): held for key, held in value.items()}]
    if is_lmms_eval(rows) or (columns and all(name in rows[0] for name in columns.values())):
        return True
    known = columns_of(rows)
    return bool(detect(known, (("image_id", "image", "img_id", "file_name", "id"),)) and detect(known, CAPTIONS[side]))


def _rows(rows: Sequence[tuple[int, Row]], *, side: Side, source: str, columns: Mapping[str, str]) -> Found:
    table = [row for _, row in rows]
    image, caption = _columns(table, side=side, source=source, columns=columns)
    number_of_row = image.lower() in ROW_NUMBERS and image != columns.get("image_id")
    spelled = caption.strip().lower() in LISTS or caption == columns.get("caption")
    items: list[Item] = []
    for number, row in rows:
        at = f"record {number}"
        name = row.get(image, MISSING)
        if number_of_row and name is not MISSING:
            name = row_number(image, name)
        cell = row.get(caption, MISSING)
        captions = _cell(cell, spelled, side, f"{source}, {at}, field '{caption}'")
        items.extend(Item(name, text, number, at) for text in captions)
    return Found(items, image, caption, several=False)


def _columns(table: Sequence[Row], *, side: Side, source: str, columns: Mapping[str, str]) -> tuple[str, str]:
    """The columns of image ids and of captions: as named by the user, else by what they are called."""
    unknown = sorted(columns.keys() - {"image_id", "caption"})
    if unknown:
        mend = nearest(unknown[0], ["image_id", "caption"])
        raise JudgeError(f"unknown column role '{unknown[0]}'", where=source, mend=mend)
    known = columns_of(table)
    named = {role: column for role, column in columns.items() if column in known}
    try:
        image = named.get("image_id") or id_column(table, source=source, option="--column image_id")
        caption = named.get("caption") or caption_column(table, side, source=source)
    except JudgeError:
        # What the user named is absent here, and nothing else will do.
        for column in columns.values():
            chosen_column(table, column, source=source)
        raise
    return image, caption


def _cell(cell: object, spelled: bool, side: Side, where: str) -> Sequence[object]:
    """The captions of one cell: people's captions may be lists, a model's only in a column that is meant for lists."""
    if isinstance(cell, list | tuple) and (spelled or side == "human"):
        return cell
    if isinstance(cell, str) and spelled and cell.lstrip().startswith("["):
        try:
            return parse_list(cell, where=where)
        except JudgeError:
            if side == "human":
                raise  # Where people's captions are lists, a broken list is a fault; a model may answer "[".
    return (cell,)


def _with_split(rows: Sequence[Row], split: str | None, side: Side, source: str) -> list[tuple[int, Row]]:
    """The numbered rows of ``split``; all of them for None, or where generated rows name no split."""
    if side == "generated" and not any("split" in row for row in rows):
        split = None
    kept = [(number, row) for number, row in enumerate(rows, start=1) if split is None or row.get("split") == split]
    if not kept:
        _no_split(rows, split, source)
    return kept


def _no_split(rows: Sequence[Row], split: str | None, source: str) -> NoReturn:
    known = sorted({str(row["split"]) for row in rows if "split" in row})
    if split is None:
        raise JudgeError("holds no captions", where=source, mend="give at least one")
    mend = f"splits in the file: {', '.join(known)}" if known else "leave the split out: the file names none"
    raise JudgeError(f"no captions of split '{split}'", where=source, mend=mend)


def _refuse_split(split: str | None, side: Side, source: str) -> None:
    if split is not None and side == "human":
        _no_split([], split, source)
