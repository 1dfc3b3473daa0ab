"""``gt``: instances that people drew, or another tool found.

They are in COCO's files, or in those that :mod:`judge.masking.detectors.foreign` reads.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from judge.corpus.coco import annotation_of
from judge.corpus.records import canonical_id, kind_of, records
from judge.errors import JudgeError
from judge.masking.categories import check_categories, names_people, people_among, stays_visible
from judge.masking.detectors.annotations import find_contradiction, read_annotation
from judge.masking.detectors.foreign import SHAPES, read_masks
from judge.masking.images import place
from judge.masking.instances import PERSON, Instance, Picture
from judge.types import Doubt

_WRONG = (0, 0)
_LONGEST = 100_000


class _Record(NamedTuple):
    """An annotation, where it stands, and its category (None: one that the file does not have)."""

    source: str
    number: int
    label: str | None
    value: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Entry:
    """An image as the file describes it; id and size (height, width) are None where the file has none to use."""

    name: str
    image_id: str | None
    size: tuple[int, int] | None
    annotations: list[_Record] = field(default_factory=list)
    faults: list[JudgeError] = field(default_factory=list)


@dataclass(frozen=True)
class GroundTruth:
    """The instances of COCO files: polygons, run lengths (compressed or not), crowds; boxes where there is no mask.

    Attributes:
        source: the files.
        categories: the names of their categories, in file order; all that are people are called "person".
        labels: the categories to read; others are neither checked nor returned. None for all.
        own_names: the names of all categories as they stand in the files.
        strays: records that belong to no image, and why: people whom they meant stay visible.
        notes: what a user must know of the files, a sentence each; :meth:`doubts` has those of annotations too.
    """

    source: str
    categories: tuple[str, ...]
    labels: frozenset[str] | None
    _entries: Mapping[str, _Entry]
    own_names: frozenset[str] = frozenset()
    strays: tuple[tuple[str, JudgeError], ...] = ()
    notes: tuple[str, ...] = ()
    _contradictions: dict[str, dict[str, str]] = field(default_factory=dict)
    name: str = "gt"
    batch: int = 1

    @classmethod
    def read(
        cls,
        paths: str | os.PathLike[str] | Sequence[Path],
        *,
        labels: Collection[str] | None = None,
        people: Collection[str] = (),
        names: Mapping[str, str] | None = None,
        images: Path | None = None,
    ) -> GroundTruth:
        """Read files of instances.

        Faults of single images and annotations are raised when the image is asked for, so that only that image
        fails; those that belong to no image are ``strays``.

        Args:
            paths: a file, or several, whose annotations are united; for formats see
                :func:`~judge.masking.detectors.foreign.read_masks`.
            labels: the categories to read; None for all; () for the list of images alone, whatever else there is.
            people: the categories that are people beside "person"; by default, where there is no "person", all that
                name people.
            names: class id -> name, where the files do not tell.
            images: the folder of images: those that lie elsewhere in it are found there.

        Raises:
            JudgeError: not readable, not of a known format, a category that the files do not have.
        """
        given = [Path(paths)] if isinstance(paths, str | os.PathLike) else list(paths)
        reading = _Reading()
        for path in given:
            reading.add(path, labels, people, names=names, images=images)
        truth = cls(
            " and ".join(map(str, given)),
            tuple(dict.fromkeys(reading.categories.values())),
            None,
            reading.entries,
            frozenset(reading.categories),
            tuple(reading.strays),
            tuple(reading.notes),
        )
        truth = truth if images is None else truth._placed(images)
        return truth if labels is None else truth.only(labels)

    def only(self, labels: Collection[str]) -> GroundTruth:
        """The same instances, of which only those of the categories ``labels`` are read.

        Raises:
            JudgeError: a category that the files do not have.
        """
        check_categories(labels, self.categories, self.source)
        wanted = {None, *labels}
        entries = {
            name: replace(entry, annotations=[one for one in entry.annotations if one.label in wanted])
            for name, entry in self._entries.items()
        }
        return replace(self, labels=frozenset(labels), _entries=entries)

    def _placed(self, folder: Path) -> GroundTruth:
        """The same instances, of images by the names that they have in ``folder``."""
        moved = place(folder, self.pictures)
        taken = Counter(moved.get(name, name) for name in self.pictures)
        named = {name: new if taken[new := moved.get(name, name)] == 1 else name for name in self.pictures}
        entries = {named[name]: replace(entry, name=named[name]) for name, entry in self._entries.items()}
        return replace(self, _entries=entries)

    @property
    def key(self) -> str:
        """The files; their instances need no cache."""
        return f"gt {self.source}"

    @property
    def pictures(self) -> tuple[str, ...]:
        """The file names that the files list, in their order."""
        return tuple(self._entries)

    @property
    def doubts(self) -> list[str]:
        """``notes``, and how many of the annotations that were asked for contradict themselves, with an example."""
        found = [*self.notes]
        for kind, cases in self._contradictions.items():
            where, told = next(iter(cases.items()))
            found.append(f"{len(cases)} of the annotations {kind} (the first: {where}: {told}).")
        return found

    def image_id(self, name: str) -> str | None:
        """The canonical id of an image that the files list; None where they have none that can be used."""
        entry = self._entries.get(name)
        return entry.image_id if entry else None

    def categories_in(self, name: str) -> frozenset[str]:
        """The categories read of an image's annotations; none for an image that the files do not list."""
        entry = self._entries.get(name)
        return frozenset(one.label for one in (entry.annotations if entry else ()) if one.label is not None)

    def detect(self, pictures: Sequence[Picture]) -> list[tuple[Instance, ...]]:
        """The instances of each image, found by its name.

        Raises:
            JudgeError: an image that the files do not list or describe with another size; an annotation that is not
                sound (see ``read_annotation``), or whose thing would stay visible (see ``find_contradiction``).
        """
        return [self.instances(picture.name, picture.size) for picture in pictures]

    def known(self, picture: Picture) -> tuple[Instance, ...] | None:
        """The instances of an image; None of one that the files do not list, or whose annotations are at fault."""
        with suppress(JudgeError):
            return self.instances(picture.name, picture.size)
        return None

    def instances(self, name: str, size: tuple[int, int] | None = None) -> tuple[Instance, ...]:
        """The instances of one image; ``size``: its height and width, by default as the files have them."""
        entry = self._entries.get(name)
        if entry is None:
            mend = "give the file of these pictures"
            raise JudgeError(f"picture '{name}' is not among its images", where=self.source, mend=mend)
        if entry.faults:
            raise entry.faults[0]
        if size is not None and entry.size is not None and size != entry.size:
            what = f"is {size[1]} x {size[0]}, its annotation says {entry.size[1]} x {entry.size[0]}"
            mend = "use the pictures that were annotated"
            if size[::-1] == entry.size:
                what += " (turned by its EXIF orientation?)"
                mend += ", or save them upright and annotate those"
            raise JudgeError(what, where=f"picture '{name}'", mend=mend)
        height, width = size or entry.size or (0, 0)
        if not (height and width):
            raise JudgeError("has no width and height", where=f"{self.source}, image '{name}'", mend="add them")
        return tuple(self._read(one, name, (height, width)) for one in entry.annotations)

    def _read(self, record: _Record, name: str, size: tuple[int, int]) -> Instance:
        where = f"{record.source}, image '{name}', {annotation_of(record.value, record.number)}"
        if record.label is None:
            what = f"category_id {record.value.get('category_id')} is not among the categories"
            raise JudgeError(what, where=where, mend="correct the annotation, or remove it")
        instance = read_annotation(record.value, record.label, size, where=where)
        wanted = record.label in (self.labels or {PERSON})
        if wanted and (found := find_contradiction(record.value, instance, where=where)):
            self._contradictions.setdefault(found[0], {})[where] = found[1]
        return instance


@dataclass
class _Reading:
    """What has been read of one file after the other; ``categories``: a name in the files -> its name here."""

    entries: dict[str, _Entry] = field(default_factory=dict)
    by_id: dict[str, _Entry] = field(default_factory=dict)
    categories: dict[str, str] = field(default_factory=dict)
    strays: list[tuple[str, JudgeError]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(
        self,
        path: Path,
        labels: Collection[str] | None,
        people: Collection[str],
        *,
        names: Mapping[str, str] | None,
        images: Path | None,
    ) -> None:
        """Add the instances of a file; an image that another file lists too has the annotations of both."""
        document, lists = read_masks(path, images=images, names=names)
        source = document.source
        keys = ("images", "annotations", "categories") if labels is None or labels else ("images",)
        shown, annotations, categories = [*(_records(document.value, key, source) for key in keys), [], []][:3]
        known = _categories(categories, source)
        also = {str(one.get("name")) for one in categories if str(one.get("supercategory")).casefold() == PERSON}
        chosen = people_among(known.values(), people, also)
        self.categories |= {name: PERSON if name in chosen else name for name in known.values()}
        ids = self._add_images(shown, source)
        joined, elsewhere, visible = set[str](), Counter[str](), dict[str, None]()
        for number, annotation in enumerate(annotations, start=1):
            image_id, category = _id(annotation.get("image_id")), _id(annotation.get("category_id"))
            name = known.get(category) if category is not None else None
            label = self.categories.get(name) if name is not None else None
            if image_id is None:
                where = f"annotations, record {number}"
                what = f"'image_id' is {kind_of(annotation.get('image_id'))}: what it shows stays visible"
                fault = JudgeError(what, where=f"{source}, {where}", mend="correct the annotation")
                self.strays.append((where, fault))
            elif image_id not in ids:
                elsewhere[image_id] += 1
            else:
                joined.add(image_id)
                # Of all that COCO has, people are a third: what is not asked for need not be kept.
                if labels is None or label is None or label in labels:
                    self.by_id[image_id].annotations.append(_Record(source, number, label, annotation))
                if label is not None and label != PERSON and (names_people(label) or label in also):
                    visible[label] = None
        if annotations and not joined:
            raise JudgeError("no annotation's 'image_id' is the 'id' of an image", where=source, mend=SHAPES)
        if elsewhere:  # Cut-down files often keep the annotations of the images that were left out.
            what = (
                f"{elsewhere.total():,} annotations of {source} are of {len(elsewhere):,} images that it does not list"
            )
            self.notes.append(f"{what} (the first: '{next(iter(elsewhere))}'); nothing is hidden by them.")
        if labels is None or PERSON in labels:
            self.notes += [stays_visible(name, source) for name in visible]
            if chosen and not chosen & {PERSON, *people}:
                told = ", ".join(sorted(chosen))
                self.notes.append(f"{source} has no category 'person'; hidden as people: {told}.")
        if not lists and (silent := ids - joined):
            self.notes.append(f"{len(silent):,} of {len(ids):,} images have no record in {source}: nothing is hidden.")

    def _add_images(self, images: Sequence[Mapping[str, Any]], source: str) -> set[str]:
        """Add the images of a file; their ids."""
        ids, names = set[str](), set[str]()
        for number, image in enumerate(images, start=1):
            name, image_id, size = image.get("file_name"), _id(image.get("id")), _size(image)
            place = f"images, record {number}"
            where = f"{source}, {place}"
            if not isinstance(name, str) or not name:
                mend = "give the picture's file name"
                self.strays.append((place, JudgeError(f"'file_name' is {kind_of(name)}", where=where, mend=mend)))
                continue
            entry = self.entries.setdefault(name, _Entry(name, image_id, size))
            faults: list[tuple[str, str]] = []
            if name in names:
                faults.append((f"'file_name' {name} stands there twice", "remove one"))
            elif (entry.image_id, entry.size) != (image_id, size):
                what = f"'{name}' has another id or size than in another file"
                faults.append((what, "correct one of the files"))
            names.add(name)
            if image_id is None:
                faults.append((f"'id' is {kind_of(image.get('id'))}", SHAPES))
            else:
                ids.add(image_id)
                if (first := self.by_id.setdefault(image_id, entry)) is not entry:
                    # The first would get all annotations, and people in the second would stay visible.
                    faults.append((f"'id' {image_id} is that of '{first.name}' too", "give each image its own"))
                    first.faults.append(JudgeError(faults[-1][0], where=where, mend=faults[-1][1]))
            if size == _WRONG:
                what = f"height and width are {image.get('height')} and {image.get('width')}"
                faults.append((what, f"give the picture's width and height in pixels, {_LONGEST:,} at most"))
            entry.faults.extend(JudgeError(what, where=where, mend=mend) for what, mend in faults)
        for entry in self.entries.values():
            if (number_of := _id(entry.name)) != entry.image_id and number_of in ids:
                other = self.by_id[number_of].name
                what = f"'{entry.name}' has the id {entry.image_id}, and {number_of} is the id of '{other}'"
                self.notes.append(Doubt(f"{source}: {what}. See that captions and labels name images by these ids."))
                break
        return ids


def _records(value: object, key: str, source: str) -> Sequence[Mapping[str, Any]]:
    found = value.get(key) if isinstance(value, dict) else None
    if not isinstance(found, list):
        raise JudgeError(f"'{key}' is no list of records", where=source, mend=SHAPES)
    return records(found, source=f"{source}, {key}", shapes=SHAPES) if found else []


def _id(value: object) -> str | None:
    """An id of an image or a category in the one spelling of all ids: 1, 1.0, "1" and "000000000001.jpg" are one."""
    try:
        return canonical_id(value)
    except (ValueError, OverflowError):
        return None


def _categories(categories: Sequence[Mapping[str, Any]], source: str) -> dict[str, str]:
    """Id -> name."""
    found: dict[str, str] = {}
    for number, category in enumerate(categories, start=1):
        where = f"{source}, categories, record {number}"
        if (key := _id(category.get("id"))) is None:
            raise JudgeError(f"'id' is {kind_of(category.get('id'))}", where=where, mend=SHAPES)
        name = str(category.get("name"))
        if found.setdefault(key, name) != name:
            raise JudgeError(f"id {key} is '{found[key]}' and '{name}'", where=where, mend="give each an id of its own")
    return found


def _size(image: Mapping[str, Any]) -> tuple[int, int] | None:
    """Height and width, None where the file has neither; ``_WRONG`` where they are no lengths of a picture."""
    sides: list[Any] = [image.get("height"), image.get("width")]
    if sides == [None, None]:
        return None
    # Some exporters write 480.0.
    whole = all(type(side) is int or (isinstance(side, float) and side.is_integer()) for side in sides)
    return (int(sides[0]), int(sides[1])) if whole and 0 < min(sides) <= max(sides) <= _LONGEST else _WRONG
