"""COCO's JSON: captions (``captions_*.json``), and instances (``instances_*.json``) as the objects of images."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from judge.corpus.records import MISSING, Entry, Row, image_id, kind_of, records, row_entries
from judge.errors import JudgeError


def annotation_of(row: Mapping[str, object], number: int) -> str:
    """Which annotation it is, in words: by its id, else by its number in the file, from 1."""
    return f"annotation {row['id']}" if type(row.get("id")) is int else f"annotations, record {number}"


def caption_entries(annotations: Sequence[object], source: str) -> list[Entry]:
    """The captions of ``{"annotations": [{image_id, caption}]}``.

    Raises:
        JudgeError: no list of objects; a file of object instances.
    """
    rows = records(annotations, source=source)
    if "bbox" in rows[0] or "segmentation" in rows[0]:
        mend = "give captions_*.json in place of instances_*.json"
        raise JudgeError("holds object instances, not captions", where=source, mend=mend)
    return [
        Entry(row.get("image_id", MISSING), row.get("caption", MISSING), annotation_of(row, number))
        for number, row in enumerate(rows, start=1)
    ]


def object_entries(
    value: Mapping[str, object], source: str, *, shapes: str
) -> tuple[list[str], list[Entry], Mapping[str, int]]:
    """Object names, and the objects of each image, from ``{"images", "annotations", "categories"}``.

    Returns:
        All category names; entries whose value is a list of names, an empty one for each listed image; and
        reason -> number of annotations left out (of images that are not listed).

    Raises:
        JudgeError: a part that is no list of objects; a category without id or name; an annotation of no category.
    """
    for key in ("categories", "annotations", "images"):
        if not isinstance(part := value.get(key, [] if key == "images" else None), list):
            raise JudgeError(f"'{key}' is {kind_of(part)}", where=source, mend=shapes)
    names = _categories(records(value["categories"], source=f"{source}, 'categories'"), source)
    images = records(value["images"], source=f"{source}, 'images'") if value.get("images") else []
    entries = [Entry(row.get("id", MISSING), [], f"images, record {number}") for number, row in enumerate(images, 1)]
    listed = {image_id(entry.image, f"{source}, {entry.at}") for entry in entries}
    ignored: Counter[str] = Counter()
    annotations = records(value["annotations"], source=f"{source}, 'annotations'")
    for image, category, at in row_entries(enumerate(annotations, 1), "image_id", "category_id"):
        where = f"{source}, annotations, {at}"
        if not isinstance(category, int) or category not in names:
            absent = category is MISSING or category is None
            what = "no category_id" if absent else f"category_id {str(category)[:40]} is no category"
            raise JudgeError(what, where=where, mend="give the id of one of 'categories'")
        if listed and image_id(image, where) not in listed:
            ignored["annotation of an image that is not listed"] += 1
        else:
            entries.append(Entry(image, [names[category]], f"annotations, {at}"))
    return list(names.values()), entries, ignored


def _categories(rows: Sequence[Row], source: str) -> dict[int, str]:
    names: dict[int, str] = {}
    for number, row in enumerate(rows, start=1):
        where, category, name = f"{source}, categories, record {number}", row.get("id"), row.get("name")
        if not isinstance(category, int) or category in names:
            what = f"category id is {kind_of(category)}, or stands twice"
            raise JudgeError(what, where=where, mend="give each a number of its own")
        if not isinstance(name, str) or not name.strip():
            kind = "empty" if isinstance(name, str) else kind_of(name)
            raise JudgeError(f"category name is {kind}", where=where, mend="give it one")
        names[category] = name
    return names
