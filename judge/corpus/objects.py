"""The tasks of images out of files: object lists, COCO instances, tables."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from judge.corpus.coco import MISSING, records
from judge.corpus.columns import chosen_column, columns_of, detect, only
from judge.corpus.columns import id_column as column_of_ids
from judge.corpus.files import read_document
from judge.corpus.harness import parse_list
from judge.corpus.ids import canonical_id, kind_of
from judge.corpus.labels import IGNORED
from judge.corpus.tasks import Tasks
from judge.errors import JudgeError

_COLUMNS = (
    ("objects", "tasks"),
    ("object", "task", "category", "categories", "labels", "rmdup_object_list"),
    ("name", "label", "class"),
)
_SEPARATORS = (";", "|", ",")
_SHAPES = "give {categories, objects}, a COCO instances file, {image: [objects]} or a table of images and objects"


class _Said(NamedTuple):
    """One record: an image, what it is said to show, and where that stands."""

    image: object
    tasks: Sequence[object]
    at: str


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
    said: Iterable[_Said]
    if isinstance(value, dict) and "categories" in value and "objects" in value:
        names, said = _indexed(value, source)
    elif isinstance(value, dict) and "categories" in value and "annotations" in value:
        names, said = _instances(value, source, ignored)
    elif isinstance(value, dict):
        said = _mapping(value, source)
    elif isinstance(value, list):
        said = _table(value, source, (id_column, task_column), separator)
    else:
        raise JudgeError(f"JSON of the wrong shape ({kind_of(value)})", where=source, mend=_SHAPES)
    found: dict[str, set[str]] = {}
    for record in said:
        where = f"{source}, {record.at}"
        shown = found.setdefault(_image(record.image, where), set())
        shown.update(name for task in record.tasks if (name := _name(task, where)))
    return _tasks(found, names, source=source, ignored=ignored)


def _tasks(found: Mapping[str, set[str]], names: Sequence[str], *, source: str, ignored: Mapping[str, int]) -> Tasks:
    """``names``: the tasks that the file lists, some of which no image may show; () for those that images show."""
    ordered = tuple(sorted({*names, *(name for shown in found.values() for name in shown)}))
    if not any(found.values()):
        raise JudgeError(f"none of {len(found)} images shows anything", where=source, mend="check the file")
    place = {name: index for index, name in enumerate(ordered)}
    by_image = {image: tuple(sorted(place[name] for name in shown)) for image, shown in found.items()}
    return Tasks(ordered, by_image, source, ignored=dict(ignored))


def _indexed(value: Mapping[str, object], source: str) -> tuple[list[str], list[_Said]]:
    categories, objects = value["categories"], value["objects"]
    if not isinstance(categories, list) or not categories or not isinstance(objects, dict):
        raise JudgeError("'categories' is no list, or 'objects' no object", where=source, mend=_SHAPES)
    names = [_name(name, f"{source}, categories, record {n}") for n, name in enumerate(categories, start=1)]
    if len(set(names)) < len(names) or "" in names:
        twice = next((name for name, count in Counter(names).items() if count > 1), "")
        what = f"category '{twice}' stands twice" if twice else "a category is empty"
        raise JudgeError(what, where=f"{source}, 'categories'", mend="give each a name of its own")
    said = []
    for number, (image, indices) in enumerate(objects.items(), start=1):
        at = f"record {number} ('{str(image)[:60]}')"
        said.append(_Said(image, [names[index] for index in _indices(indices, len(names), f"{source}, {at}")], at))
    return names, said


def _indices(value: object, categories: int, where: str) -> list[int]:
    if not isinstance(value, list):
        raise JudgeError(f"objects are {kind_of(value)}", where=where, mend="give a list of indices")
    for index in value:
        if type(index) is not int:
            raise JudgeError(f"an index is {kind_of(index)}", where=where, mend="give whole numbers")
        if not 0 <= index < categories:
            raise JudgeError(f"index {index} of {categories} categories", where=where, mend="count from 0")
    return value


def _instances(value: Mapping[str, object], source: str, ignored: Counter[str]) -> tuple[list[str], Iterable[_Said]]:
    parts = []
    for key in ("categories", "annotations", "images"):
        part = value.get(key, [] if key == "images" else None)
        if not isinstance(part, list):
            raise JudgeError(f"'{key}' is {kind_of(part)}", where=source, mend=_SHAPES)
        parts.append(part)
    categories, annotations, images = parts
    names: dict[int, str] = {}
    for number, row in enumerate(records(categories, source=f"{source}, 'categories'"), start=1):
        where = f"{source}, categories, record {number}"
        number_of = row.get("id")
        if not isinstance(number_of, int) or number_of in names:
            what = f"category id is {kind_of(number_of)}, or stands twice"
            raise JudgeError(what, where=where, mend="give each a number of its own")
        names[number_of] = _name(row.get("name"), where)
    said = [
        _Said(row.get("id", MISSING), (), f"images, record {number}")
        for number, row in enumerate(records(images, source=f"{source}, 'images'") if images else (), start=1)
    ]
    listed = {record.image for record in said if isinstance(record.image, int | str)}
    for number, row in enumerate(records(annotations, source=f"{source}, 'annotations'"), start=1):
        at = f"annotations, record {number}"
        category, image = row.get("category_id"), row.get("image_id", MISSING)
        if not isinstance(category, int) or category not in names:
            what = "no category_id" if category is None else f"category_id {str(category)[:40]} is no category"
            raise JudgeError(what, where=f"{source}, {at}", mend="give the id of one of 'categories'")
        if listed and isinstance(image, int | str) and image not in listed:
            ignored["annotation of an image that is not listed"] += 1
        else:
            said.append(_Said(image, (names[category],), at))
    return list(names.values()), said


def _mapping(value: Mapping[object, object], source: str) -> list[_Said]:
    if not value or not all(isinstance(held, list | str) or held is None for held in value.values()):
        raise JudgeError("JSON of the wrong shape (an object)", where=source, mend=_SHAPES)
    return [
        _Said(image, held if isinstance(held, list) else [held], f"record {number} ('{str(image)[:60]}')")
        for number, (image, held) in enumerate(value.items(), start=1)
    ]


def _table(
    value: Sequence[object], source: str, columns: tuple[str | None, str | None], separator: str | None
) -> Iterable[_Said]:
    rows = records(value, source=source)
    image, task = columns
    if image is not None:
        image = chosen_column(rows, image, source=source)
    else:
        image = column_of_ids(rows, source=source, option="--object-id-column")
    if task is not None:
        task = chosen_column(rows, task, source=source)
    else:
        known = columns_of(rows)
        task = only(detect(known, _COLUMNS), known, what="objects", source=source, option="--object-column")
    if separator is None:
        texts = [cell for row in rows if isinstance(cell := row.get(task), str)]
        separator = next((mark for mark in _SEPARATORS if any(mark in text for text in texts)), None)
    for number, row in enumerate(rows, start=1):
        at = f"record {number}"
        yield _Said(row.get(image, MISSING), _cell(row.get(task), separator, f"{source}, {at}"), at)


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


def _image(value: object, where: str) -> str:
    fault = "is missing"
    if value is not MISSING:
        try:
            return canonical_id(value)
        except (ValueError, OverflowError) as error:
            fault = str(error)
    raise JudgeError(f"image id {fault}", where=where, mend="give the record a number or a file name")


def _name(value: object, where: str) -> str:
    """A task's name in lower case; "" where the value says that there is none."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if not isinstance(value, str):
        raise JudgeError(f"an object is {kind_of(value)}", where=where, mend="write its name")
    name = " ".join(value.lower().split())
    return "" if name in IGNORED else name
