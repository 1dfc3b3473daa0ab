"""Captions out of JSON (or a pickle of the same shape), whichever of the known shapes it has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from judge.corpus.columns import (
    CAPTIONS,
    LISTS,
    ROW_NUMBERS,
    chosen_column,
    columns_of,
    detect,
    find_column,
    id_column,
)
from judge.corpus.entries import MISSING, Entry, annotation_of, chosen_rows, mapping_entries, place_of, records
from judge.corpus.harness import flatten, is_lmms_eval, parse_list, row_number
from judge.corpus.tables import Row
from judge.corpus.visual_genome import PHRASE, id_field, is_regions, region_entries
from judge.errors import JudgeError, nearest
from judge.types import Side

_SHAPES = (
    "give COCO captions or results, Karpathy's dataset, a list of records, {image: caption} or {image: [captions]}"
)


@dataclass(frozen=True, slots=True)
class Found:
    """The captions of a file.

    Attributes:
        entries: one a caption, in file order.
        id_field: what the file calls the image id.
        caption_field: what it calls the caption.
        several: whether the format means several captions of an image to stand in several records.
        columns: of a table, the names of all.
        notes: what a reader of results should know of the file, a line each.
    """

    entries: Sequence[Entry]
    id_field: str
    caption_field: str
    several: bool = False
    columns: Sequence[str] = ()
    notes: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Choice:
    """Which records of a file are captions of a run, and where in them.

    Attributes:
        split: keep this split only, or these with commas between them; None for all.
        columns: columns of a table, where their names do not tell: "image_id" or "caption" -> name.
        where: keep the records of a table whose columns hold these texts: column -> text.
        needed: whether a file without such splits or columns is refused, rather than taken whole.
    """

    split: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    where: Mapping[str, str] = field(default_factory=dict)
    needed: bool = False

    @property
    def splits(self) -> list[str]:
        """The splits to keep; none for all."""
        return [name.strip() for name in self.split.split(",")] if self.split else []


def find_captions(value: object, choice: Choice, *, side: Side, source: str) -> Found:
    """The captions of ``side`` in ``value``.

    - ``{"annotations": [{image_id, caption}]}``: COCO captions.
    - ``{"images": [{cocoid | filename, split, sentences: [{raw}]}]}``: Karpathy's dataset. His training set is
      split "train" and split "restval".
    - ``[{id | image_id, regions: [{phrase}]}]``: Visual Genome's region descriptions.
    - ``[{...}]`` or the rows of a table: COCO results, lmms-eval's samples, VLMEvalKit's answers, LIC's pickles or
      any table, whose columns are recognised by name (:mod:`judge.corpus.columns`) or given in ``columns``.
    - ``{image: caption}``, ``{image: [captions]}`` and ``{image: [{caption}]}``, as pycocoevalcap has it.
    - ``{"model": ..., "results": [{...}]}``: an object of which one field alone is a list of records with images.

    One set of options serves both sides, which may differ in format: a file without a column named in ``columns`` is
    read as if that name had not been given, and one without splits or a column of ``where`` is taken whole unless
    they are ``needed`` (a captioner's is joined with the human images of the split).

    Raises:
        JudgeError: none of these; no such split or record; columns absent or ambiguous.
    """
    columns = choice.columns
    if isinstance(value, dict):
        if isinstance(value.get("annotations"), list):
            _refuse_choice(choice, source)
            return _annotations(value["annotations"], source)
        if isinstance(value.get("images"), list):
            _refuse_choice(replace(choice, split=None), source)
            return _karpathy(value["images"], choice.splits, source=source)
        wrapped = [value] if _is_row(value, side, columns) else _wrapped(value, side, columns)
        if not wrapped:
            _refuse_choice(choice, source)
            return _mapping(value, source)
        value = wrapped
    rows = records(value, source=source, shapes=_SHAPES)
    if is_lmms_eval(rows) and not any(name in rows[0] for name in columns.values()):
        rows = flatten(rows)
    if is_regions(rows):
        _refuse_choice(choice, source)
        return Found(region_entries(rows, source), id_field(rows), PHRASE, several=True)
    kept = chosen_rows(rows, choice.where, source=source, needed=choice.needed)
    return _rows(_with_split(kept, choice, source), side=side, source=source, columns=columns)


def _annotations(annotations: Sequence[object], source: str) -> Found:
    rows = records(annotations, source=source, shapes=_SHAPES)
    if "bbox" in rows[0] or "segmentation" in rows[0]:
        mend = "give captions_*.json in place of instances_*.json"
        raise JudgeError("holds object instances, not captions", where=source, mend=mend)
    entries = [
        Entry(row.get("image_id", MISSING), row.get("caption", MISSING), annotation_of(row, number))
        for number, row in enumerate(rows, start=1)
    ]
    return Found(entries, "image_id", "caption", several=True)


def _wrapped(value: Mapping[object, object], side: Side, columns: Mapping[str, str]) -> list[object]:
    """The records of ``{"model": ..., "results": [{image_id, caption}]}``; none of anything else."""
    listed = [held for held in value.values() if isinstance(held, list) and held]
    first = listed[0][0] if len(listed) == 1 else None
    return listed[0] if isinstance(first, dict) and _is_row(first, side, columns) else []


def _karpathy(images: Sequence[object], splits: Sequence[str], *, source: str) -> Found:
    rows = records(images, source=source, shapes=_SHAPES)
    if not any("sentences" in row for row in rows):
        raise JudgeError("'images' without 'annotations' or 'sentences'", where=source, mend=_SHAPES)
    id_field = "cocoid" if "cocoid" in rows[0] else "filename"
    entries: list[Entry] = []
    for number, row in enumerate(rows, start=1):
        if not splits or row.get("split") in splits:
            sentences, at = row.get("sentences"), f"record {number}"
            if not isinstance(sentences, list) or not all(isinstance(sentence, dict) for sentence in sentences):
                where = f"{source}, {at}, field 'sentences'"
                raise JudgeError("is not a list of objects", where=where, mend="give [{'raw': caption}, ...]")
            image = row.get(id_field, MISSING)
            entries.extend(Entry(image, sentence.get("raw", MISSING), at) for sentence in sentences)
    _check_splits(rows, splits, source)
    rest = sum(row.get("split") == "restval" for row in rows) if splits == ["train"] else 0
    hint = (
        f"{source} has {rest:,} images of split restval, which belong to Karpathy's training set and are left out: "
        "give --split train,restval"
    )
    return Found(entries, id_field, "raw", several=True, notes=[hint] if rest else [])


def _mapping(value: Mapping[object, object], source: str) -> Found:
    if not value:
        raise JudgeError("holds no captions", where=source, mend="give at least one")
    if not any(caption is None or isinstance(caption, str | int | float) for caption in value.values()) and not any(
        isinstance(captions, list)
        and not any(isinstance(caption, dict) and "caption" not in caption for caption in captions)
        for captions in value.values()
    ):
        keys = ", ".join(f"'{key}'" for key in list(value)[:5])
        raise JudgeError(f"JSON of the wrong shape (an object with {keys})", where=source, mend=_SHAPES)
    entries = [
        entry._replace(value=caption.get("caption", caption) if isinstance(caption, dict) else caption)
        for entry in mapping_entries(value)
        for caption in (entry.value if isinstance(entry.value, list) else [entry.value])
    ]
    return Found(entries, "key", "value")


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
    entries: list[Entry] = []
    for number, row in rows:
        at = place_of(row, number)
        name = row.get(image, MISSING)
        if number_of_row and name is not MISSING:
            name = row_number(image, name)
        cell = row.get(caption, MISSING)
        captions = _cell(cell, spelled, side, f"{source}, {at}, field '{caption}'")
        entries.extend(Entry(name, text, at) for text in captions)
    return Found(entries, image, caption, columns=columns_of(table))


def _columns(table: Sequence[Row], *, side: Side, source: str, columns: Mapping[str, str]) -> tuple[str, str]:
    """The columns of image ids and of captions: as named by the user, else by what they are called."""
    unknown = sorted(columns.keys() - {"image_id", "caption"})
    if unknown:
        mend = nearest(unknown[0], ["image_id", "caption"])
        raise JudgeError(f"unknown column role '{unknown[0]}'", where=source, mend=mend)
    known = columns_of(table)
    named = {role: column for role, column in columns.items() if column in known}
    what, option = f"{side} captions", "--column caption"
    try:
        return (
            id_column(table, named.get("image_id"), source=source, option="--column image_id"),
            find_column(table, CAPTIONS[side], named.get("caption"), what=what, source=source, option=option),
        )
    except JudgeError:
        # What the user named is absent here, and nothing else will do.
        for column in columns.values():
            chosen_column(table, column, source=source)
        raise


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


def _with_split(rows: Sequence[tuple[int, Row]], choice: Choice, source: str) -> list[tuple[int, Row]]:
    """The numbered rows of the split; all of them for None, or where rows name no split and need none."""
    splits = choice.splits if choice.needed or any("split" in row for _, row in rows) else []
    _check_splits([row for _, row in rows], splits, source)
    return [(number, row) for number, row in rows if not splits or row.get("split") in splits]


def _check_splits(rows: Sequence[Row], splits: Sequence[str], source: str) -> None:
    """Refuse a file without rows, or one that lacks one of the splits."""
    if not rows and not splits:
        raise JudgeError("holds no captions", where=source, mend="give at least one")
    known = {name for row in rows if isinstance(name := row.get("split"), str)}
    if absent := [name for name in splits if name not in known]:
        shown = ", ".join(sorted(name[:40] for name in known)[:5])
        mend = f"splits in the file: {shown}" if shown else "leave the split out: the file names none"
        raise JudgeError(f"no captions of split '{absent[0]}'", where=source, mend=mend)


def _refuse_choice(choice: Choice, source: str) -> None:
    """Of captions that need splits or columns to choose by, and have none."""
    if choice.needed:
        _check_splits([{}], choice.splits, source)
    if choice.needed and choice.where:
        column, text = next(iter(choice.where.items()))
        what = f"is no table, so it has no column '{column}' for --where {column}={text}"
        raise JudgeError(what, where=source, mend="give these captions as a table with that column, or no --where")
