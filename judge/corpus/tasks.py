"""The tasks (objects, activities) that each image shows: read from a file, or derived from human captions."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from judge.corpus.columns import columns_of_table, find_column, id_column
from judge.corpus.files import Given, read_document
from judge.corpus.layouts import parse_list
from judge.corpus.records import MISSING, Entry, image_id, kind_of, mapping_entries, records, row_entries
from judge.errors import JudgeError, nearest

_COLUMNS = (
    ("objects", "tasks"),
    ("object", "task", "category", "categories", "labels", "rmdup_object_list"),
    ("name", "label", "class"),
)
# Cells of an image that shows nothing.
_NOTHING = frozenset({"", "both", "unsure", "unknown", "nan", "n/a", "na", "none", "null"})
_SEPARATORS = (";", "|", ",")
_SHAPES = "give {categories, objects}, a COCO instances file, {image: [objects]} or a table of images and objects"


@dataclass(frozen=True, slots=True)
class Tasks:
    """What each image shows.

    Attributes:
        names: the tasks, sorted.
        by_image: image id -> indices into ``names``, ascending; () for an image known to show none of them.
        source: a file, or the rule that derived them.
        derived: whether they come from captions.
        ignored: reason -> count: records of a file that were left out; images whose captions name no task.
    """

    names: tuple[str, ...]
    by_image: Mapping[str, tuple[int, ...]]
    source: str
    derived: bool = False
    ignored: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, shown: Mapping[str, Iterable[str]], source: str, names: Iterable[str] = (), **more: Any) -> Tasks:
        """From image -> tasks, and the ``names`` of further tasks, which no image may show."""
        ordered = tuple(sorted({*names, *(name for tasks in shown.values() for name in tasks)}))
        place = {name: index for index, name in enumerate(ordered)}
        by_image = {image: tuple(sorted({place[name] for name in tasks})) for image, tasks in shown.items()}
        return cls(ordered, by_image, source, **more)

    def shown(self, image: str) -> list[str]:
        """The tasks of an image."""
        return [self.names[index] for index in self.by_image[image]]

    def only(self, names: Iterable[str]) -> Tasks:
        """The same with the tasks ``names`` alone, sorted; a JudgeError if one is no task here."""
        wanted = set(names)
        for name in sorted(wanted.difference(self.names)):
            raise JudgeError(f"no task '{name}'", where=self.source, mend=nearest(name, list(self.names)))
        shown = {image: wanted.intersection(self.shown(image)) for image in self.by_image}
        return Tasks.of(shown, self.source, wanted, derived=self.derived, ignored=self.ignored)


def read_tasks(path: Given, *, columns: Mapping[str, str] | None = None) -> Tasks:
    """Read the tasks of images, from any format of :func:`judge.corpus.files.read_document`.

    - ``{"categories": [names], "objects": {image: [indices]}}``;
    - COCO instances: every listed image is known; annotations of others are counted in ``ignored``;
    - ``{image: [names]}``;
    - a table of images and names: a list, or a text with the names of one cell between the first of ``;``, ``|`` and
      ``,`` that the column holds; several rows of an image add up. An empty cell (or "none") means nothing.

    Names are compared without case and outer white space; order and repetition mean nothing. ``columns`` names
    columns of a table that are not recognised: ``{"objects.image_id": "img", "objects.object": "thing"}``.
    """
    value, source = read_document(path, memory="objects in memory", value="objects")
    names: Sequence[str] = ()
    ignored = 0
    if isinstance(value, dict) and "categories" in value and "objects" in value:
        names, entries = _indexed(value, source)
    elif isinstance(value, dict) and "categories" in value and "annotations" in value:
        names, entries, ignored = _instances(value, source)
    elif isinstance(value, dict):
        if 2 * sum(isinstance(held, list | str) or held is None for held in value.values()) <= len(value):
            raise JudgeError("JSON of the wrong shape (an object)", where=source, mend=_SHAPES)
        entries = mapping_entries(value)
    else:
        entries = _table(value, source, columns_of_table(columns or {}, "objects", ("image_id", "object")))
    found, suffixes = dict[str, set[str]](), dict[str, str]()
    for image, tasks, at in entries:
        where = f"{source}, {at}"
        shown = found.setdefault(image_id(image, where, suffixes), set())
        shown.update(filter(None, (_name(task, where) for task in (tasks if isinstance(tasks, list) else [tasks]))))
    if not any(found.values()):
        raise JudgeError(f"none of {len(found)} images shows anything", where=source, mend="check the file")
    left_out = {"annotation of an image that is not listed": ignored} if ignored else {}
    return Tasks.of(found, source, (_name(name, source) for name in names), ignored=left_out)


def _instances(value: Mapping[str, object], source: str) -> tuple[list[str], list[Entry], int]:
    """All names, entries, and the number of annotations of unlisted images, of COCO's instances.

    The value of an entry is a list of names; each listed image has an entry with an empty one.
    """
    parts = [key for key in ("categories", "annotations", "images") if value.get(key) or key != "images"]
    rows = {key: records(value[key], source=f"{source}, '{key}'", shapes=_SHAPES) for key in parts}
    images = rows.get("images", [])
    names: dict[int, str] = {}
    for number, row in enumerate(rows["categories"], start=1):
        where, category, name = f"{source}, categories, record {number}", row.get("id"), row.get("name")
        if not isinstance(category, int) or category in names:
            what = f"category id is {kind_of(category)}, or occurs twice"
            raise JudgeError(what, where=where, mend="give each a number of its own")
        if not isinstance(name, str) or not name.strip():
            kind = "empty" if isinstance(name, str) else kind_of(name)
            raise JudgeError(f"category name is {kind}", where=where, mend="give it one")
        names[category] = name
    entries = [Entry(row.get("id", MISSING), [], f"images, record {number}") for number, row in enumerate(images, 1)]
    listed = {image_id(entry.image, f"{source}, {entry.at}") for entry in entries}
    ignored = 0
    for image, category, at in row_entries(enumerate(rows["annotations"], 1), "image_id", "category_id"):
        where = f"{source}, annotations, {at}"
        if not isinstance(category, int) or category not in names:
            absent = category is MISSING or category is None
            what = "no category_id" if absent else f"category_id {str(category)[:40]} is no category"
            raise JudgeError(what, where=where, mend="give the id of one of 'categories'")
        if listed and image_id(image, where) not in listed:
            ignored += 1
        else:
            entries.append(Entry(image, [names[category]], f"annotations, {at}"))
    return list(names.values()), entries, ignored


def _indexed(value: Mapping[str, object], source: str) -> tuple[list[str], list[Entry]]:
    """Category names and entries of ``{"categories": [names], "objects": {image: [indices]}}``."""
    categories, objects = value["categories"], value["objects"]
    if not isinstance(categories, list) or not categories or not isinstance(objects, dict):
        raise JudgeError("'categories' is no list, or 'objects' no object", where=source, mend=_SHAPES)
    names: list[str] = []
    for number, category in enumerate(categories, start=1):
        where = f"{source}, categories, record {number}"
        name = _name(category, where)
        if not name or name in names:
            what = f"category '{name}' occurs twice" if name else "a category is empty"
            raise JudgeError(what, where=where, mend="give each a name of its own")
        names.append(name)
    entries = []
    for image, indices, at in mapping_entries(objects):
        where = f"{source}, {at}"
        if not isinstance(indices, list):
            raise JudgeError(f"objects are {kind_of(indices)}", where=where, mend="give a list of indices")
        for index in indices:
            if type(index) is not int or not 0 <= index < len(names):
                what = f"{index} of {len(names)} categories" if type(index) is int else f"is {kind_of(index)}"
                raise JudgeError(f"index {what}", where=where, mend="give whole numbers, counted from 0")
        entries.append(Entry(image, [names[index] for index in indices], at))
    return names, entries


def _table(value: object, source: str, columns: Mapping[str, str]) -> list[Entry]:
    rows, option = records(value, source=source, shapes=_SHAPES), "--column objects."
    ids = id_column(rows, columns.get("image_id"), source=source, option=f"{option}image_id")
    named = columns.get("object")
    task = find_column(rows, _COLUMNS, named, what="objects", source=source, option=f"{option}object")
    texts = [cell for row in rows if isinstance(cell := row.get(task), str)]
    separator = next((mark for mark in _SEPARATORS if any(mark in text for text in texts)), _SEPARATORS[0])
    entries = []
    for image, cell, at in row_entries(enumerate(rows, 1), ids, task):
        cells: Sequence[object] = cell if isinstance(cell, list | tuple) else [cell]
        if isinstance(cell, str) and cell.lstrip().startswith("["):
            cells = parse_list(cell, where=f"{source}, {at}", of="objects")
        elif isinstance(cell, str):
            cells = cell.split(separator)
        entries.append(Entry(image, [*cells], at))
    return entries


def _name(value: object, where: str) -> str:
    """A task's name in lower case; "" for a value that means none."""
    if value is None or value is MISSING or (isinstance(value, float) and math.isnan(value)):
        return ""
    if not isinstance(value, str):
        raise JudgeError(f"an object is {kind_of(value)}", where=where, mend="write its name")
    name = " ".join(value.lower().split())
    return "" if name in _NOTHING else name


def derive_tasks(mentions: Mapping[str, Sequence[frozenset[str]]], *, names: Iterable[str]) -> Tasks:
    """Tasks of every image with a human caption: it shows task t if one of its captions names t.

    One caption is enough: that makes the fewest errors if five people write what they notice (CHAIR, Rohrbach et al.
    2018, section 2). ``mentions``: image id -> for each of its captions, the tasks that it names; tasks that are not
    among ``names`` are passed over. ``ignored`` counts the images in which no task is named.
    """
    known = frozenset(names)
    shown = {image: frozenset().union(*captions) & known for image, captions in mentions.items() if captions}
    silent = sum(not tasks for tasks in shown.values())
    ignored = {"no task named": silent} if silent else {}
    rule = "derived: an image shows a task when at least one of its human captions names it"
    return Tasks.of(shown, rule, known, derived=True, ignored=ignored)


def join_tasks(first: Tasks, second: Tasks) -> Tasks:
    """The tasks of both, which share none, for images that both know."""
    both = [image for image in first.by_image if image in second.by_image]
    shown = {image: [*first.shown(image), *second.shown(image)] for image in both}
    source, ignored = f"{first.source}; {second.source}", {**second.ignored, **first.ignored}
    return Tasks.of(shown, source, (*first.names, *second.names), ignored=ignored)


def usable(tasks: Tasks, images: Collection[str]) -> tuple[Tasks, dict[str, tuple[str, ...]]]:
    """The tasks that vary among ``images``, for these alone: one that none or all of them show cannot be learnt.

    Also returned is what was left out (reason -> names, sorted): "tasks never present" and "tasks always present", and
    images "without tasks" (unknown here). If no image is known here, or no task is left, that is an error.
    """
    known = [image for image in dict.fromkeys(images) if image in tasks.by_image]
    if not known:
        example = next(iter(images), "-"), next(iter(tasks.by_image), "-")
        what = f"no image in common (captions '{example[0]}', objects '{example[1]}')"
        raise JudgeError(what, where=tasks.source, mend="check that image ids mean the same in all files")
    counts = Counter(index for image in known for index in tasks.by_image[image])
    reasons = {
        "tasks never present": [name for index, name in enumerate(tasks.names) if not counts[index]],
        "tasks always present": [name for index, name in enumerate(tasks.names) if counts[index] == len(known)],
        "without tasks": sorted(set(images) - tasks.by_image.keys()),
    }
    gone = {*reasons["tasks never present"], *reasons["tasks always present"]}
    if len(gone) == len(tasks.names):
        what = f"none of {len(tasks.names)} tasks is present in some of {len(known)} images and absent in others"
        raise JudgeError(what, where=tasks.source, mend="give more images, or other objects")
    left = replace(tasks, by_image={image: tasks.by_image[image] for image in known})
    dropped = {reason: tuple(names) for reason, names in reasons.items() if names}
    return left.only(set(tasks.names) - gone), dropped
