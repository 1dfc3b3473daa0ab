"""The tasks of images out of files: object lists, COCO instances, tables."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Mapping, Sequence

from judge.corpus.columns import find_column
from judge.corpus.columns import id_column as column_of_ids
from judge.corpus.entries import MISSING, image_id, mapping_entries, records, row_entries
from judge.corpus.files import read_document
from judge.corpus.harness import parse_list
from judge.corpus.ids import kind_of
from judge.corpus.tables import Row
from judge.corpus.tasks import Tasks
from judge.errors import JudgeError

_COLUMNS = (
    ("objects", "tasks"),
    ("object", "task", "category", "categories", "labels", "rmdup_object_list"),
    ("name", "label", "class"),
)
# What a cell says of an image that shows nothing.
_NOTHING = frozenset({"", "both", "unsure", "unknown", "nan", "n/a", "na", "none", "null"})
# An image id, what the image shows, and which record says so, in words.
_Entry = tuple[object, Sequence[object], str]
_SEPARATORS = (";", "|", ",")
_SHAPES = "give {categories, objects}, a COCO instances file, {image: [objects]} or a table of images and objects"


def read_tasks(
    path: str | os.PathLike[str],
    *,
    id_column: str | None = None,
    task_column: str | None = None,
    separator: str | None = None,
) -> Tasks:
    """Read the tasks of images, in any format of :func:`judge.corpus.files.read_document`.

    - ``{"categories": [names], "objects": {image: [indices]}}``;
    - COCO instances: ``{"images", "annotations": [{image_id, category_id}], "categories": [{id, name}]}``. Every
      listed image is known; annotations of images that are not listed are counted in ``ignored``;
    - ``{image: [names]}``;
    - a table of images and names: a list, or a text with ``;``, ``|`` or ``,`` between the names of one cell; an
      image may stand in several rows. An empty cell (or "none") is an image that shows nothing.

    Names are taken without case and outer white space; order and repetition mean nothing.

    Args:
        path: the file.
        id_column: the column of image ids of a table, where its name does not tell.
        task_column: the column of names, likewise ("objects", "tasks", "object", "category" ... are known).
        separator: between the names of one cell; by default the first of ``;``, ``|``, ``,`` that the column holds.

    Raises:
        JudgeError: none of these shapes; columns absent or ambiguous; an odd image id or name; an index out of range;
            no task in the whole file.
    """
    document = read_document(path)
    value, source = document.value, document.source
    ignored: Counter[str] = Counter()
    names: Sequence[str] = ()
    if isinstance(value, dict) and "categories" in value and "objects" in value:
        names, entries = _indexed(value, source)
    elif isinstance(value, dict) and "categories" in value and "annotations" in value:
        names, entries = _instances(value, source, ignored)
    elif isinstance(value, dict):
        entries = _mapping(value, source)
    else:
        entries = _table(records(value, source=source, shapes=_SHAPES), source, (id_column, task_column), separator)
    found: dict[str, set[str]] = {}
    for image, tasks, at in entries:
        where = f"{source}, {at}"
        shown = found.setdefault(image_id(image, where), set())
        shown.update(name for task in tasks if (name := _name(task, where)))
    return _tasks(found, names, source=source, ignored=ignored)


def _tasks(found: Mapping[str, set[str]], names: Sequence[str], *, source: str, ignored: Mapping[str, int]) -> Tasks:
    """``names``: the tasks that the file lists, some of which no image may show; () for those that images show."""
    ordered = tuple(sorted({*names, *(name for shown in found.values() for name in shown)}))
    if not any(found.values()):
        raise JudgeError(f"none of {len(found)} images shows anything", where=source, mend="check the file")
    place = {name: index for index, name in enumerate(ordered)}
    by_image = {image: tuple(sorted(place[name] for name in shown)) for image, shown in found.items()}
    return Tasks(ordered, by_image, source, ignored=dict(ignored))


def _indexed(value: Mapping[str, object], source: str) -> tuple[list[str], list[_Entry]]:
    categories, objects = value["categories"], value["objects"]
    if not isinstance(categories, list) or not categories or not isinstance(objects, dict):
        raise JudgeError("'categories' is no list, or 'objects' no object", where=source, mend=_SHAPES)
    names = [_name(name, f"{source}, categories, record {n}") for n, name in enumerate(categories, start=1)]
    seen: set[str] = set()
    for number, name in enumerate(names, start=1):
        if not name or name in seen:
            what = f"category '{name}' stands twice" if name else "a category is empty"
            where = f"{source}, categories, record {number}"
            raise JudgeError(what, where=where, mend="give each a name of its own")
        seen.add(name)
    return names, [
        (image, [names[index] for index in _indices(indices, len(names), f"{source}, {at}")], at)
        for image, indices, at in mapping_entries(objects)
    ]


def _indices(value: object, categories: int, where: str) -> list[int]:
    if not isinstance(value, list):
        raise JudgeError(f"objects are {kind_of(value)}", where=where, mend="give a list of indices")
    for index in value:
        if type(index) is not int:
            raise JudgeError(f"an index is {kind_of(index)}", where=where, mend="give whole numbers")
        if not 0 <= index < categories:
            raise JudgeError(f"index {index} of {categories} categories", where=where, mend="count from 0")
    return value


def _instances(value: Mapping[str, object], source: str, ignored: Counter[str]) -> tuple[list[str], list[_Entry]]:
    for key in ("categories", "annotations", "images"):
        if not isinstance(part := value.get(key, [] if key == "images" else None), list):
            raise JudgeError(f"'{key}' is {kind_of(part)}", where=source, mend=_SHAPES)
    names: dict[int, str] = {}
    for number, row in enumerate(records(value["categories"], source=f"{source}, 'categories'"), start=1):
        where, category = f"{source}, categories, record {number}", row.get("id")
        if not isinstance(category, int) or category in names:
            what = f"category id is {kind_of(category)}, or stands twice"
            raise JudgeError(what, where=where, mend="give each a number of its own")
        name = row.get("name")
        if not isinstance(name, str) or not name.strip():
            kind = "empty" if isinstance(name, str) else kind_of(name)
            raise JudgeError(f"category name is {kind}", where=where, mend="give it one")
        names[category] = _name(name, where)
    images = records(value["images"], source=f"{source}, 'images'") if value.get("images") else []
    entries: list[_Entry] = [(row.get("id", MISSING), (), f"images, record {n}") for n, row in enumerate(images, 1)]
    listed = {image_id(image, f"{source}, {at}") for image, _, at in entries}
    annotations = records(value["annotations"], source=f"{source}, 'annotations'")
    for image, shown, at in row_entries(annotations, "image_id", "category_id"):
        if not isinstance(shown, int) or shown not in names:
            what = f"category_id {str(shown)[:40]} is no category"
            if shown is MISSING or shown is None:
                what = "no category_id"
            raise JudgeError(what, where=f"{source}, annotations, {at}", mend="give the id of one of 'categories'")
        if listed and image_id(image, f"{source}, annotations, {at}") not in listed:
            ignored["annotation of an image that is not listed"] += 1
        else:
            entries.append((image, (names[shown],), f"annotations, {at}"))
    return list(names.values()), entries


def _mapping(value: Mapping[object, object], source: str) -> list[_Entry]:
    if 2 * sum(isinstance(held, list | str) or held is None for held in value.values()) <= len(value):
        raise JudgeError("JSON of the wrong shape (an object)", where=source, mend=_SHAPES)
    return [(image, held if isinstance(held, list) else [held], at) for image, held, at in mapping_entries(value)]


def _table(
    rows: Sequence[Row], source: str, columns: tuple[str | None, str | None], separator: str | None
) -> list[_Entry]:
    ids = column_of_ids(rows, columns[0], source=source, option="--object-id-column")
    task = find_column(rows, _COLUMNS, columns[1], what="objects", source=source, option="--object-column")
    if separator is None:
        texts = [cell for row in rows if isinstance(cell := row.get(task), str)]
        separator = next((mark for mark in _SEPARATORS if any(mark in text for text in texts)), None)
    return [(image, _cell(cell, separator, f"{source}, {at}"), at) for image, cell, at in row_entries(rows, ids, task)]


def _cell(cell: object, separator: str | None, where: str) -> Sequence[object]:
    if isinstance(cell, str):
        if cell.lstrip().startswith("["):
            try:
                return parse_list(cell, where=where)
            except JudgeError as error:
                mend = "write it as a JSON list of texts"
                raise JudgeError("looks like a list of objects but is none", where=where, mend=mend) from error
        return cell.split(separator) if separator else [cell]
    return cell if isinstance(cell, list | tuple) else [cell]


def _name(value: object, where: str) -> str:
    """A task's name in lower case; "" where the value says that there is none."""
    if value is None or value is MISSING or (isinstance(value, float) and math.isnan(value)):
        return ""
    if not isinstance(value, str):
        raise JudgeError(f"an object is {kind_of(value)}", where=where, mend="write its name")
    name = " ".join(value.lower().split())
    return "" if name in _NOTHING else name
