"""Visual Genome's region descriptions (Krishna et al. 2017): some fifty phrases of people for each image.

``region_descriptions.json``: ``[{id, regions: [{region_id, image_id, phrase, x, y, width, height}]}]``; its
documentation calls the image ``image_id`` instead. These are Visual Genome's own numbers, under which its pictures lie
too. Half of the images are COCO's: ``image_data.json`` of the same release, ``[{image_id, coco_id, ...}]``, says which.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from judge.corpus.entries import MISSING, Entry, image_id, place_of, records
from judge.corpus.files import read_document
from judge.corpus.tables import Placed, Row
from judge.errors import JudgeError
from judge.types import Captions

#: What ``--column image_id=`` says for COCO's numbers in place of Visual Genome's.
COCO_IDS = "coco_id"
IMAGE_DATA = "image_data.json"
#: What the file calls its captions.
PHRASE = "phrase"
_IMAGES = ("image_id", "id")


def is_regions(rows: object) -> bool:
    """Whether a document is Visual Genome's region descriptions."""
    return isinstance(rows, list) and bool(rows) and isinstance(rows[0], dict) and "regions" in rows[0]


def has_own_ids(captions: Captions) -> bool:
    """Whether captions are Visual Genome's, under its own numbers, which are other images' in COCO."""
    return captions.fields[1:] == (PHRASE,) and captions.fields[0] != COCO_IDS


def region_entries(rows: Sequence[Row], source: str) -> list[Entry]:
    """The phrases, in file order.

    Raises:
        JudgeError: regions that are no list of objects.
    """
    entries: list[Entry] = []
    for number, row in enumerate(rows, start=1):
        regions, at = row.get("regions"), place_of(row, number)
        if not isinstance(regions, list) or not all(isinstance(region, dict) for region in regions):
            where, mend = f"{source}, {at}, field 'regions'", "give [{'phrase': text}, ...]"
            raise JudgeError("is not a list of objects", where=where, mend=mend)
        image = _image(row)
        entries += [
            Entry(image, region.get(PHRASE, MISSING), f"{at}, region {place}")
            for place, region in enumerate(regions, start=1)
        ]
    if not entries:
        raise JudgeError("holds no phrases", where=source, mend="give Visual Genome's region_descriptions.json")
    return entries


def with_coco_ids(rows: Sequence[Row], *, source: str, data: Path) -> list[Row]:
    """The rows of images that COCO has too, under COCO's numbers.

    Args:
        rows: region descriptions.
        source: their file, for messages.
        data: ``image_data.json`` of the same release.

    Raises:
        JudgeError: ``data`` cannot be read, or has an image twice; none of the images is COCO's.
    """
    coco: dict[str, object] = {}
    for number, row in enumerate(records(read_document(data).value, source=str(data)), start=1):
        where = f"{data}, record {number}"
        image, there = image_id(_image(row), f"{where}, field 'image_id'"), row.get(COCO_IDS)
        if image in coco:
            raise JudgeError(f"image '{image[:60]}' stands twice", where=where, mend="keep one of the two")
        coco[image] = None if there in (None, "") else image_id(there, f"{where}, field '{COCO_IDS}'")
    rows = records(rows, source=source)
    ids = [image_id(_image(row), f"{source}, record {number}, field 'id'") for number, row in enumerate(rows, start=1)]
    found: list[Row] = [
        Placed(row | {"image_id": coco[image], COCO_IDS: coco[image]}, "", number)
        for number, (row, image) in enumerate(zip(rows, ids, strict=True), start=1)
        if coco.get(image) is not None
    ]
    if not found:
        what = f"{data.name} has a COCO number of none of {len(rows)} images"
        raise JudgeError(what, where=source, mend="give the image_data.json of the same release")
    return found


def id_field(rows: Sequence[Row]) -> str:
    """What the file calls an image's number; COCO's where it was given in place of the file's own."""
    return next((name for name in (COCO_IDS, *_IMAGES) if name in rows[0]), _IMAGES[0])


def _image(row: Row) -> object:
    return next((row[name] for name in _IMAGES if name in row), MISSING)
