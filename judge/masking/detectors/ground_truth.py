"""``gt``: instances that people drew, from a file in COCO's format."""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from judge.corpus.entries import annotation_of, records
from judge.corpus.files import read_document
from judge.corpus.ids import kind_of
from judge.errors import JudgeError, nearest
from judge.masking.instances import Instance, Picture, from_box

# COCO's own polygons reach over the border by a fraction of a pixel.
_TOLERANCE = 2.0
_WRONG = (0, 0)
_LONGEST = 100_000
_SHAPE = "give a COCO instances file (images, annotations, categories)"


@dataclass(frozen=True, slots=True)
class _Entry:
    """A picture as the file describes it; id and size (height, width) are None where the file has none to use."""

    name: str
    image_id: int | str | None
    size: tuple[int, int] | None
    annotations: list[tuple[int, Mapping[str, Any]]] = field(default_factory=list)
    faults: list[JudgeError] = field(default_factory=list)


@dataclass(frozen=True)
class GroundTruth:
    """The instances of a COCO file: polygons, run lengths (compressed or not), crowds; boxes where there is no mask.

    Attributes:
        source: the file.
        categories: the names of its categories, in file order.
        labels: the categories to read; others are neither checked nor returned. None for all.
        strays: records that belong to no picture, and why: people whom they meant stay visible.
    """

    source: str
    categories: tuple[str, ...]
    labels: frozenset[str] | None
    _entries: Mapping[str, _Entry]
    _category_names: Mapping[object, str]
    strays: tuple[tuple[str, JudgeError], ...] = ()
    name: str = "gt"
    batch: int = 1

    @classmethod
    def read(cls, path: str | os.PathLike[str], *, labels: Collection[str] | None = None) -> GroundTruth:
        """Read a file of instances.

        Faults of single pictures and annotations are raised when the picture is asked for, so that only that picture
        fails; those that belong to no picture are ``strays``.

        Raises:
            JudgeError: not readable, not of COCO's format, a category that the file does not have.
        """
        document = read_document(path)
        source = document.source
        images, annotations, categories = (
            _records(document.value, key, source) for key in ("images", "annotations", "categories")
        )
        names: dict[object, str] = {
            _key(category, "id", f"{source}, categories, record {number}"): str(category.get("name"))
            for number, category in enumerate(categories, start=1)
        }
        entries, strays = _entries(images, source)
        truth = cls(source, tuple(dict.fromkeys(names.values())), None, entries, names)
        truth = truth if labels is None else truth.only(labels)
        by_id = {entry.image_id: entry for entry in truth._entries.values() if entry.image_id is not None}
        joined = False
        for number, annotation in enumerate(annotations, start=1):
            image_id = annotation.get("image_id")
            if not isinstance(image_id, int | str):
                where = f"annotations, record {number}"
                what = f"'image_id' is {kind_of(image_id)}: what it shows stays visible"
                strays.append((where, JudgeError(what, where=f"{source}, {where}", mend="mend the annotation")))
            # Cut-down files often keep the annotations of the pictures that were left out.
            elif (entry := by_id.get(image_id)) is not None:
                joined = True
                # Of all that COCO has, people are a third: what is not asked for need not be kept.
                if truth.labels is None or _category(annotation, names) in {None, *truth.labels}:
                    entry.annotations.append((number, annotation))
        if annotations and not joined:
            raise JudgeError("no annotation's 'image_id' is the 'id' of an image", where=source, mend=_SHAPE)
        return replace(truth, strays=tuple(strays))

    def only(self, labels: Collection[str]) -> GroundTruth:
        """The same instances, of which only those of the categories ``labels`` are read.

        Raises:
            JudgeError: a category that the file does not have.
        """
        for label in labels:
            if label not in self.categories:
                mend = nearest(label, sorted(self.categories))
                raise JudgeError(f"no category '{label}'", where=self.source, mend=mend)
        wanted = {None, *labels}
        entries = {
            name: replace(
                entry,
                annotations=[one for one in entry.annotations if _category(one[1], self._category_names) in wanted],
            )
            for name, entry in self._entries.items()
        }
        return replace(self, labels=frozenset(labels), _entries=entries)

    @property
    def key(self) -> str:
        """The file; its instances need no cache."""
        return f"gt {self.source}"

    @property
    def pictures(self) -> tuple[str, ...]:
        """The file names that the file lists, in its order."""
        return tuple(self._entries)

    def image_id(self, name: str) -> int | str | None:
        """COCO's id of a picture that the file lists; None where the file has none that can be used."""
        entry = self._entries.get(name)
        return entry.image_id if entry else None

    def categories_in(self, name: str) -> frozenset[str]:
        """The categories read of a picture's annotations; none for a picture that the file does not list."""
        entry = self._entries.get(name)
        labels = (_category(annotation, self._category_names) for _, annotation in (entry.annotations if entry else ()))
        return frozenset(label for label in labels if label is not None)

    def detect(self, pictures: Sequence[Picture]) -> list[tuple[Instance, ...]]:
        """The instances of each picture, found by its name.

        Raises:
            JudgeError: a picture that the file does not list or describes with another size; an annotation that is
                not sound (see ``read_annotation``).
        """
        return [self.instances(picture.name, picture.size) for picture in pictures]

    def instances(self, name: str, size: tuple[int, int] | None = None) -> tuple[Instance, ...]:
        """The instances of one picture; ``size``: its height and width, by default as the file has them."""
        entry = self._entries.get(name)
        if entry is None:
            mend = "give the file of these pictures"
            raise JudgeError(f"picture '{name}' is not among its images", where=self.source, mend=mend)
        if entry.faults:
            raise entry.faults[0]
        if size is not None and entry.size is not None and size != entry.size:
            turned = " (turned by its EXIF orientation?)" if size[::-1] == entry.size else ""
            what = f"is {size[1]} x {size[0]}, its annotation says {entry.size[1]} x {entry.size[0]}{turned}"
            raise JudgeError(what, where=f"picture '{name}'", mend="use the pictures that were annotated")
        height, width = size or entry.size or (0, 0)
        if not (height and width):
            raise JudgeError("has no width and height", where=f"{self.source}, image '{name}'", mend="add them")
        found = []
        for number, annotation in entry.annotations:
            where = f"{self.source}, image '{name}', {annotation_of(annotation, number)}"
            label = _category(annotation, self._category_names)
            if label is None:
                what = f"category_id {annotation.get('category_id')} is not among the categories"
                raise JudgeError(what, where=where, mend="mend the annotation")
            if self.labels is None or label in self.labels:
                found.append(read_annotation(annotation, label, (height, width), where=where))
        return tuple(found)


def read_annotation(annotation: Mapping[str, Any], label: str, size: tuple[int, int], *, where: str) -> Instance:
    """One annotation as an instance.

    Args:
        annotation: with ``segmentation`` (polygons or run lengths) or, without, ``bbox``, whose area is then the mask.
        label: its category.
        size: height and width of the picture.
        where: names it in messages.

    Raises:
        JudgeError: a polygon of fewer than 3 points, a coordinate that is not finite or lies outside the picture
            (2 pixels are tolerated), run lengths of another size or sum, a box of negative extent, neither.
    """
    from pycocotools import mask as coco

    shape, box = annotation.get("segmentation"), annotation.get("bbox")
    crowd = bool(annotation.get("iscrowd", 0))
    if box is not None:
        box = _read_box(box, size, where)
    if isinstance(shape, dict):
        rle = read_rle(shape, size, where=where)
    elif isinstance(shape, list) and shape:
        polygons = [_read_polygon(polygon, size, where) for polygon in shape]
        rle = coco.merge(coco.frPyObjects(polygons, *size))
    elif shape in (None, []) and box is not None:
        return from_box(box, size, label, crowd=crowd)
    else:
        raise JudgeError("has neither segmentation nor bbox", where=where, mend="add one, or remove it")
    x, y, width, height = box or map(float, coco.toBbox(rle))
    return Instance(label, (x, y, width, height), rle["counts"], size, crowd=crowd)


def _records(value: object, key: str, source: str) -> Sequence[Mapping[str, Any]]:
    found = value.get(key) if isinstance(value, dict) else None
    if not isinstance(found, list):
        raise JudgeError(f"'{key}' is no list of records", where=source, mend=_SHAPE)
    return records(found, source=f"{source}, {key}", shapes=_SHAPE) if found else []


def _category(annotation: Mapping[str, Any], names: Mapping[object, str]) -> str | None:
    number = annotation.get("category_id")
    return names.get(number) if isinstance(number, Hashable) else None


def _key(record: Mapping[str, Any], name: str, source: str) -> int | str:
    value = record.get(name)
    if not isinstance(value, int | str):
        raise JudgeError(f"'{name}' is {kind_of(value)}", where=source, mend=_SHAPE)
    return value


def _entries(
    images: Sequence[Mapping[str, Any]], source: str
) -> tuple[dict[str, _Entry], list[tuple[str, JudgeError]]]:
    """The pictures by name, and the records that name none."""
    entries: dict[str, _Entry] = {}
    strays: list[tuple[str, JudgeError]] = []
    ids: dict[int | str, _Entry] = {}
    for number, image in enumerate(images, start=1):
        name, image_id = image.get("file_name"), image.get("id")
        where = f"{source}, images, record {number}"
        if not isinstance(name, str) or not name:
            mend = "give the picture's file name"
            fault = JudgeError(f"'file_name' is {kind_of(name)}", where=where, mend=mend)
            strays.append((f"images, record {number}", fault))
            continue
        if name in entries:
            fault = JudgeError(f"'file_name' {name} stands there twice", where=where, mend="remove one")
            entries[name].faults.append(fault)
            continue
        known = image_id if isinstance(image_id, int | str) else None
        entry = entries[name] = _Entry(name, known, _size(image))
        if known is None:
            entry.faults.append(JudgeError(f"'id' is {kind_of(image_id)}", where=where, mend=_SHAPE))
        elif ids.setdefault(known, entry) is not entry:
            for one in (ids[known], entry):
                one.faults.append(JudgeError(f"'id' {known} stands there twice", where=where, mend=_SHAPE))
        if entry.size == _WRONG:
            what = f"height and width are {image.get('height')} and {image.get('width')}"
            mend = f"give the picture's width and height in pixels, {_LONGEST:,} at most"
            entry.faults.append(JudgeError(what, where=where, mend=mend))
    return entries, strays


def _size(image: Mapping[str, Any]) -> tuple[int, int] | None:
    """Height and width, None where the file has neither; ``_WRONG`` where they are no lengths of a picture."""
    sides: list[Any] = [image.get("height"), image.get("width")]
    if sides == [None, None]:
        return None
    # Some exporters write 480.0.
    whole = all(type(side) is int or (isinstance(side, float) and side.is_integer()) for side in sides)
    return (int(sides[0]), int(sides[1])) if whole and 0 < min(sides) <= max(sides) <= _LONGEST else _WRONG


def _numbers(values: object, what: str, where: str) -> list[float]:
    if not isinstance(values, list) or not all(type(value) in {int, float} for value in values):
        raise JudgeError(f"{what} is no list of numbers", where=where, mend="mend the annotation")
    try:
        finite = all(map(math.isfinite, values))
    except OverflowError:  # A whole number beyond every float.
        finite = False
    if not finite:
        raise JudgeError(f"{what} holds a number that is not finite", where=where, mend="mend the annotation")
    return values


def _read_polygon(polygon: object, size: tuple[int, int], where: str) -> list[float]:
    points = _numbers(polygon, "polygon", where)
    if len(points) < 6 or len(points) % 2:
        what = f"polygon of {len(points) // 2} points" if len(points) % 2 == 0 else "polygon of an odd number of values"
        raise JudgeError(what, where=where, mend="a polygon is x1, y1, x2, y2, x3, y3 and so on")
    _within(points[::2], size[1], where)
    _within(points[1::2], size[0], where)
    return points


def _within(values: Sequence[float], limit: int, where: str) -> None:
    low, high = min(values), max(values)
    if low < -_TOLERANCE or high > limit + _TOLERANCE:
        worst = low if low < -_TOLERANCE else high
        mend = "use the pictures that were annotated, at their size"
        raise JudgeError(f"coordinate {worst:g} lies outside the picture (0 to {limit})", where=where, mend=mend)


def _read_box(box: object, size: tuple[int, int], where: str) -> tuple[float, float, float, float]:
    numbers = _numbers(box, "bbox", where)
    if len(numbers) != 4 or numbers[2] < 0 or numbers[3] < 0:
        mend = "a box is x, y, width, height, none of the last below 0"
        raise JudgeError(f"bbox is {numbers}", where=where, mend=mend)
    x, y, width, height = map(float, numbers)
    _within([x, x + width], size[1], where)
    _within([y, y + height], size[0], where)
    return x, y, width, height


def read_rle(shape: Mapping[str, Any], size: tuple[int, int], *, where: str) -> dict[str, Any]:
    """Compressed run lengths, checked: with wrong ones pycocotools reads and writes out of bounds.

    Empty runs between others are taken out: its ``merge`` stops where two masks have one at the same place.
    """
    from pycocotools import mask as coco

    counts, given = shape.get("counts"), shape.get("size")
    if given != list(size):
        what = f"run lengths for size {given}, the picture is [{size[0]}, {size[1]}] (height, width)"
        raise JudgeError(what, where=where, mend="use the pictures that were annotated, at their size")
    what = f"run lengths do not add up to {size[0] * size[1]:,} pixels"
    wrong = JudgeError(what, where=where, mend="export the annotation again")
    if isinstance(counts, list):
        runs: Sequence[float] = _numbers(counts, "counts", where)
    elif isinstance(counts, str):
        try:
            runs = run_lengths(counts.encode())
        except ValueError:
            raise wrong from None
    else:
        raise wrong
    if any(run < 0 or run != int(run) for run in runs) or sum(runs) != size[0] * size[1]:
        raise wrong
    if isinstance(counts, list):
        rle = dict(coco.frPyObjects({"size": list(size), "counts": runs}, *size))
    else:
        rle = {"size": list(size), "counts": counts.encode()}
    return dict(coco.encode(coco.decode(rle))) if 0 in runs[1:] else rle


def run_lengths(counts: bytes) -> list[int]:
    """The run lengths in COCO's compressed form, which pycocotools does not return.

    Six bits a character from "0" on: five of the value, the least first, and one that says "more follows". From the
    fourth run on the difference to the run before the last is kept, with a sign (``rleToString`` in COCO's maskApi.c).

    Raises:
        ValueError: another character, an end within a number, a number of more than six characters: there C's own
            reader goes on beyond the end, or shifts by more bits than an int has.
    """
    runs: list[int] = []
    value = shift = 0
    for character in counts:
        bits = character - 48
        if not 0 <= bits < 64 or shift >= 30:
            raise ValueError(f"character {character} of run lengths")
        value |= (bits & 31) << shift
        shift += 5
        if not bits & 32:
            value -= (1 << shift) if bits & 16 else 0
            runs.append(value + runs[-2] if len(runs) > 2 else value)
            value = shift = 0
    if shift:
        raise ValueError("run lengths end within a number")
    return runs
