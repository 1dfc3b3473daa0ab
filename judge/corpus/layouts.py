"""Captions in a parsed document, in any of the known layouts: :data:`LAYOUTS` lists how to read each.

If a file identifies an image only by a row number ("index", "doc_id"), its id is "index:5" or "doc_id:5", because a
bare 5 would join with COCO's image 5. ``columns={"image_id": "index"}`` overrides it.
"""

import ast
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any, NamedTuple

from judge.corpus.columns import CAPTIONS, LISTS, ROW_NUMBERS, chosen_column, columns_of, detect, find_column, id_column
from judge.corpus.records import (
    MISSING,
    Entry,
    Placed,
    Row,
    annotation_of,
    canonical_id,
    chosen_rows,
    kind_of,
    mapping_entries,
    place_of,
    records,
)
from judge.errors import JudgeError, nearest
from judge.types import Side
from judge.utils.plugins import load_plugin, origin, plugins, unusable
from judge.utils.reading import LISTED

_SHAPES = (
    "give COCO captions or results, Karpathy's dataset, a list of records, {image: caption} or {image: [captions]}"
)
# In lmms-eval's copy of COCO, question_id is the file name, and id a row number.
_DOCUMENT_IDS = ("image_id", "img_id", "image_name", "file_name", "filename", "question_id")


@dataclass(frozen=True, slots=True)
class Request:
    """Which captions are read from a document, and where they are in it.

    Attributes:
        side: whose captions, if a document holds both sides.
        source: the file, for messages.
        splits: the splits to keep; () for all.
        columns: role ("image_id", "caption") -> column of a table, if column names do not tell.
        where: column -> text: keep the rows whose columns hold these texts.
        needed: whether a document without such splits or columns is refused, instead of being read whole.
    """

    side: Side
    source: str
    splits: Sequence[str] = ()
    columns: Mapping[str, str] = field(default_factory=dict)
    where: Mapping[str, str] = field(default_factory=dict)
    needed: bool = False


class Table(NamedTuple):
    """A document as rows, each with one caption or a list of them.

    ``columns``: those of image ids and of captions; None to recognise them by name. ``several``: whether several rows
    of an image are several captions of it. ``notes``: what readers of a result should know about the file. ``place``:
    the place of a row, from the row and its number, in words.
    """

    rows: Sequence[Row]
    columns: tuple[str, str] | None = None
    several: bool = False
    notes: tuple[str, ...] = ()
    place: Callable[[Row, int], str] = place_of


class Found(NamedTuple):
    """The captions of a file: an entry for each, in file order, and the fields of image ids and of captions.

    ``columns``: all columns of a table; () for other layouts. ``several`` and ``notes``: as of :class:`Table`.
    """

    entries: Sequence[Entry]
    fields: tuple[str, str]
    several: bool
    columns: tuple[str, ...]
    notes: tuple[str, ...]


def find_captions(document: object, request: Request) -> Found:
    """The captions in a parsed document (JSON, a pickle, or the rows of a table).

    One request serves both sides, whose layouts may differ: a document without a column of ``columns`` is read as if
    that column had not been named, and one without splits or ``where`` columns is read whole unless they are ``needed``
    (a captioner's captions are joined with the human images of the split).
    """
    table, source = _as_table(document, request), request.source
    numbered = chosen_rows(table.rows, request.where, source=source, needed=request.needed)
    splits = request.splits if request.needed or any("split" in row for _, row in numbered) else ()
    known = {name for _, row in numbered if isinstance(name := row.get("split"), str)}
    if absent := [name for name in splits if name not in known]:
        listed = ", ".join(sorted(name[:40] for name in known)[:5])
        mend = f"splits in the file: {listed}" if listed else "leave the split out: the file names none"
        raise JudgeError(f"no captions of split '{absent[0]}'", where=source, mend=mend)
    if not numbered:
        raise JudgeError("holds no captions", where=source, mend="give at least one")
    numbered = [(number, row) for number, row in numbered if not splits or row.get("split") in splits]
    rows = [row for _, row in numbered]
    image, caption = table.columns or _columns(rows, request)
    number_of_row = not table.columns and image.lower() in ROW_NUMBERS and image != request.columns.get("image_id")
    may_list = caption.strip().lower() in LISTS or caption == request.columns.get("caption")
    entries: list[Entry] = []
    for number, row in numbered:
        at, name = table.place(row, number), row.get(image, MISSING)
        if number_of_row and name is not MISSING:
            name = row_number(image, name)
        where = f"{source}, {at}, field '{caption}'"
        entries += [Entry(name, text, at) for text in _captions(row.get(caption, MISSING), may_list, request, where)]
    columns = () if table.columns else tuple(columns_of(rows))
    return Found(entries, (image, caption), table.several, columns, table.notes)


def _as_table(document: object, request: Request) -> Table:
    for name in plugins("readers"):
        read = load_plugin("readers", name, FunctionType)
        table = read and read(document, request)
        if isinstance(table, Table):
            note = f"{request.source} was read by the reader {name} of {origin('readers', name)}"
            return table._replace(notes=(*table.notes, note))
        if table is not None:
            raise unusable("readers", name, f"returns {kind_of(table)}, neither a Table nor None")
    return next(table for read in LAYOUTS if (table := read(document, request)) is not None)


def _columns(rows: Sequence[Row], request: Request) -> tuple[str, str]:
    """The columns of image ids and of captions: the user's, else by their names."""
    source, columns = request.source, request.columns
    if unknown := sorted(columns.keys() - {"image_id", "caption"}):
        mend = nearest(unknown[0], ["image_id", "caption"])
        raise JudgeError(f"unknown column role '{unknown[0]}'", where=source, mend=mend)
    known = columns_of(rows)
    named = {role: column for role, column in columns.items() if column in known}
    what, option = f"{request.side} captions", "--column caption"
    try:
        return (
            id_column(rows, named.get("image_id"), source=source, option="--column image_id"),
            find_column(rows, CAPTIONS[request.side], named.get("caption"), what=what, source=source, option=option),
        )
    except JudgeError:
        for column in columns.values():  # If the user's column is absent, say so instead.
            chosen_column(rows, column, source=source)
        raise


def _captions(cell: object, may_list: bool, request: Request, where: str) -> Sequence[object]:
    """The captions of a cell: human ones may be lists; a model's may be one of one, or in a column meant for lists."""
    if isinstance(cell, list | tuple) and (may_list or request.side == "human" or len(cell) == 1):
        return cell
    if isinstance(cell, str) and may_list and cell.lstrip().startswith("["):
        try:
            return parse_list(cell, where=where)
        except JudgeError:
            if request.side == "human":
                raise  # In a column of lists a broken list is a fault; a model may answer "[".
    return (cell,)


def row_number(column: str, value: object) -> object:
    """Spell row 5 as "index:5"; a value that is no id stays as it is, and is refused later with other such ids."""
    try:
        return f"{column.strip().lower()}:{canonical_id(value)}"
    except ValueError:
        return value


def parse_list(text: str, *, where: str, of: str = "captions") -> list[str]:
    """The texts in the text of a JSON or Python list (VLMEvalKit writes the latter); nothing in it is run."""
    LISTED.refuse(len(text), where)  # Parsing takes memory.
    value: object = None
    for parse in (json.loads, ast.literal_eval):
        try:
            value = parse(text.strip())
            break
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        mend = "write it as a JSON list of texts"
        raise JudgeError(f"looks like a list of {of} but is none", where=where, mend=mend)
    return value


# Layouts: each function returns the document as rows, or None if the document has another layout.


def _coco(document: Any, request: Request) -> Table | None:
    """COCO captions: ``{"annotations": [{image_id, caption}]}``."""
    if not isinstance(document, dict) or not isinstance(document.get("annotations"), list):
        return None
    rows = records(document["annotations"], source=request.source)
    if "bbox" in rows[0] or "segmentation" in rows[0]:
        mend = "give captions_*.json in place of instances_*.json"
        raise JudgeError("holds object instances, not captions", where=request.source, mend=mend)
    return Table(rows, ("image_id", "caption"), several=True, place=annotation_of)


def _karpathy(document: Any, request: Request) -> Table | None:
    """``{"images": [{cocoid | filename, split, sentences: [{raw}]}]}``; he trains on splits "train" and "restval"."""
    if not isinstance(document, dict) or not isinstance(document.get("images"), list):
        return None
    source = request.source
    images = records(document["images"], source=source, shapes=_SHAPES)
    if not any("sentences" in row for row in images):
        raise JudgeError("'images' without 'annotations' or 'sentences'", where=source, mend=_SHAPES)
    id_field = "cocoid" if "cocoid" in images[0] else "filename"
    rows: list[Row] = []
    for number, row in enumerate(images, start=1):
        at, sentences = f"record {number}", row.get("sentences")
        if not isinstance(sentences, list) or not all(isinstance(sentence, dict) for sentence in sentences):
            where, mend = f"{source}, {at}, field 'sentences'", "give [{'raw': text}, ...]"
            raise JudgeError("is not a list of objects", where=where, mend=mend)
        shared = {name: row[name] for name in (id_field, "split") if name in row}
        for place, sentence in enumerate(sentences, start=1):
            rows.append(Placed({**shared, "raw": sentence.get("raw", MISSING)}, f"{at}, sentence {place}"))
    notes: tuple[str, ...] = ()
    if [*request.splits] == ["train"] and (rest := sum(row.get("split") == "restval" for row in images)):
        what = f"{source} has {rest:,} images of split restval, which belong to Karpathy's training set"
        notes = (f"{what} and are left out: give --split train,restval",)
    return Table(rows, (id_field, "raw"), several=True, notes=notes)


def _one_record(document: Any, request: Request) -> Table | None:
    """JSON lines of one line."""
    return _as_table([document], request) if _is_record(document, request) else None


def _is_record(document: object, request: Request) -> bool:
    """Whether an object is one record rather than ``{image: caption}``."""
    if not isinstance(document, dict):
        return False
    chosen = request.columns.values()
    if _is_lmms_eval([document], request) or (chosen and all(name in document for name in chosen)):
        return True
    known = list(map(str, document))
    ids = (("image_id", "image", "img_id", "file_name", "id"),)
    return bool(detect(known, ids) and detect(known, CAPTIONS[request.side]))


def _records_in_object(document: Any, request: Request) -> Table | None:
    """``{"model": ..., "results": [{image_id, caption}]}``, with one list alone."""
    listed = [held for held in document.values() if isinstance(held, list) and held] if type(document) is dict else []
    return _as_table(listed[0], request) if len(listed) == 1 and _is_record(listed[0][0], request) else None


def _mapping(document: Any, request: Request) -> Table | None:
    """``{image: caption}``, ``{image: [captions]}``, or ``{image: [{caption}]}`` as pycocoevalcap has it."""
    if not isinstance(document, dict):
        return None
    if document and not any(map(_holds_captions, document.values())):
        keys = ", ".join(f"'{key}'" for key in list(document)[:5])
        raise JudgeError(f"JSON of the wrong shape (an object with {keys})", where=request.source, mend=_SHAPES)
    rows = [
        Placed({"key": image, "value": one.get("caption", one) if isinstance(one, dict) else one}, at)
        for image, value, at in mapping_entries(document)
        for one in (value if isinstance(value, list) else [value])
    ]
    return Table(rows, ("key", "value"))


def _holds_captions(value: object) -> bool:
    if isinstance(value, list):
        return not any(isinstance(caption, dict) and "caption" not in caption for caption in value)
    return value is None or isinstance(value, str | int | float) or (isinstance(value, dict) and "caption" in value)


def _first(document: object) -> Mapping[str, object]:
    """The first record of a list; an empty one for anything else."""
    return document[0] if isinstance(document, list) and document and isinstance(document[0], dict) else {}


def _regions(document: Any, request: Request) -> None:
    """Visual Genome's regions, whose image ids are other images' in COCO, are refused."""
    first = _first(document)
    if "regions" in first and not detect(list(first), CAPTIONS[request.side]):
        mend = "write a table of image_id and caption, with the code in docs/guides/data.md"
        raise JudgeError("holds Visual Genome's regions, which are not read", where=request.source, mend=mend)


def _is_lmms_eval(document: object, request: Request) -> bool:
    """Whether it is lmms-eval's (or lm-evaluation-harness's) samples, and the user names none of their columns."""
    first = _first(document)
    answers = "filtered_resps" in first or "resps" in first
    return "doc_id" in first and answers and not any(name in first for name in request.columns.values())


def _lmms_eval(document: Any, request: Request) -> Table | None:
    """A line per image: ``doc_id``, ``target`` (the references), ``filtered_resps`` (a list of one caption).

    Newer releases drop ``doc``, which held the file name; the id survives only in the objects of metrics, such as
    ``coco_CIDEr: {answer, pred, image_id}``. These are preferred, because ``pred`` is what was scored, without the
    reasoning between <think> tags.
    """
    if not _is_lmms_eval(document, request):
        return None
    return Table([_sample(row) for row in records(document, source=request.source)])


def _sample(row: Row) -> Row:
    """A sample as a row of image_id, filtered_resps and target; absent ones stay absent."""
    metrics = [value for value in row.values() if isinstance(value, dict) and {"image_id", "pred"} <= value.keys()]
    metric = metrics[0] if metrics else {}
    document = row["doc"] if isinstance(row.get("doc"), dict) else {}
    known = [document[name] for name in _DOCUMENT_IDS if name in document]  # type: ignore[operator, index]  # a dict
    image = known[0] if known else row_number("doc_id", row.get("doc_id"))
    flat: Row = {"image_id": metric.get("image_id", image)}
    for name, own, other in (("filtered_resps", "pred", "resps"), ("target", "answer", "target")):
        held = [(metric, own), (row, name), (row, other)]
        if found := [holder[key] for holder, key in held if key in holder]:
            flat[name] = found[0]
            # lmms-eval wraps an answer once per repetition and per request: [["a caption"]].
            while isinstance(value := flat[name], list) and len(value) == 1:
                flat[name] = value[0]
    return flat


def _table(document: Any, request: Request) -> Table:
    return Table(records(document, source=request.source, shapes=_SHAPES))


LAYOUTS: tuple[Callable[[Any, Request], Table | None], ...] = (
    _coco,
    _karpathy,
    _one_record,
    _records_in_object,
    _mapping,
    _regions,
    _lmms_eval,
    _table,
)
"""Every layout of captions. To add one, write a function above and name it here, before the more general ones."""
