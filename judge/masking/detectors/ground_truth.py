"""``gt``: instances that people drew, or another tool found, from COCO files or other formats."""

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple, Self

from judge.corpus.files import Document
from judge.corpus.records import annotation_of, kind_of, records
from judge.errors import JudgeError
from judge.masking.archives import SUFFIXES, usable_id
from judge.masking.categories import check_categories, names_people, people_among, stays_visible
from judge.masking.detectors.annotations import SHAPES, find_contradiction, guess_fault, read_annotation, read_masks
from judge.masking.images import locate
from judge.masking.instances import PERSON, Instance, LoadedImage
from judge.types import Doubt

_WRONG = (0, 0)
_LONGEST = 100_000


class _Record(NamedTuple):
    """An annotation, its place, and its category (None if the file does not have it)."""

    source: str
    number: int
    label: str | None
    value: Mapping[str, Any]


class _Entry(NamedTuple):
    """An image as the file describes it; id and size (height, width) are None if the file has none to use."""

    name: str
    image_id: str | None
    size: tuple[int, int] | None
    annotations: list[_Record]
    faults: list[JudgeError]


@dataclass
class GroundTruth:
    """The instances of COCO files: polygons, run lengths (compressed or not), crowds; boxes where there is no mask.

    Attributes:
        labels: the categories to read; others are neither checked nor returned. None for all.
        strays: records that belong to no image, and why: people in them stay visible.
        notes: what a user must know of the files, a sentence each; :meth:`doubts` has those of annotations too.
        renamed: a category's name in the files -> its name here; all that are people are called "person".
    """

    source: str
    labels: frozenset[str] | None = None
    strays: list[tuple[str, JudgeError]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    renamed: dict[str, str] = field(default_factory=dict)
    _entries: dict[str, _Entry] = field(default_factory=dict)
    _by_id: dict[str, _Entry] = field(default_factory=dict)
    _contradictions: dict[str, dict[str, str]] = field(default_factory=dict)
    _seen: dict[str, tuple[tuple[int, int] | None, JudgeError | None]] = field(default_factory=dict)
    name: str = "gt"

    @classmethod
    def read(
        cls,
        paths: str | Path | Sequence[Path],
        *,
        labels: Collection[str] | None = None,
        people: Collection[str] = (),
        names: Mapping[str, str] | None = None,
        images: Path | None = None,
        found: bool = False,
    ) -> Self:
        """Read a file of a format of ``read_masks``, or several, whose annotations are united.

        Errors of single images and annotations are raised when the image is read, so that only that image fails.

        Args:
            paths: the file or files.
            labels: the categories to read; None for all; () for the list of images alone.
            people: the categories that are people beside "person"; by default, where there is no "person", all that
                name people.
            names: class id -> name, for files without names.
            images: the folder of images: those that lie elsewhere in it are found there.
            found: whether a tool found the masks: an image without a mask file is then one in which nothing was found.
        """
        given = [Path(paths)] if isinstance(paths, str | Path) else list(paths)
        truth = cls(" and ".join(map(str, given)))
        for path in given:
            document, lists_images = read_masks(path, images=images, names=names, found=found)
            truth._add_file(document, labels, people, lists_images=lists_images)
        if images is not None:  # Call images by the names that they have in the folder.
            moved = locate(images, truth.images)
            taken = Counter(moved.get(name, name) for name in truth.images)
            named = {name: new if taken[new := moved.get(name, name)] == 1 else name for name in truth.images}
            truth._entries = {named[name]: entry._replace(name=named[name]) for name, entry in truth._entries.items()}
        return truth if labels is None else truth.only(labels)

    def only(self, labels: Collection[str]) -> Self:
        """The same, restricted to the categories ``labels`` (() for all); one that the files do not have is refused."""
        if not labels:
            return self
        check_categories(labels, self.categories, self.source)
        wanted = {None, *labels}
        entries = {
            name: entry._replace(annotations=[one for one in entry.annotations if one.label in wanted])
            for name, entry in self._entries.items()
        }
        return replace(self, labels=frozenset(labels), _entries=entries)

    @property
    def key(self) -> str:
        """The files; their instances need no cache."""
        return f"gt {self.source}"

    @property
    def categories(self) -> tuple[str, ...]:
        """The names of the categories, in file order."""
        return tuple(dict.fromkeys(self.renamed.values()))

    @property
    def images(self) -> tuple[str, ...]:
        """The names of the images that the files list, in their order."""
        return tuple(self._entries)

    @property
    def doubts(self) -> list[str]:
        """``notes``, and how many of the annotations that were read contradict themselves, with an example."""
        found = [*self.notes]
        for kind, cases in self._contradictions.items():
            where, figures = next(iter(cases.items()))
            found.append(f"{len(cases)} of the annotations {kind} (the first: {where}: {figures}).")
        return found

    def describe_low_scores(self, threshold: float) -> str:
        """Return a sentence on detections below ``threshold`` in the images that were read; "" if there are none."""
        seen = (entry for name, entry in self._entries.items() if name in self._seen)
        records = (one for entry in seen for one in entry.annotations if one.label is not None)
        scores = [score for one in records if isinstance(score := one.value.get("score"), int | float)]
        low = sum(score < threshold for score in scores)
        what = f"{low:,} of {len(scores):,} detections of {self.source} score below --threshold {threshold:g}"
        return f"{what} and are left out." if low else ""

    def refuse_faults(self) -> None:
        """Refuse the files if more than half of the images that were read, and have records, are at fault."""
        recorded = [name for name in self._seen if name in self._entries and self._entries[name].annotations]
        faults = {name: fault for name in recorded if (fault := self._seen[name][1])}
        if 2 * len(faults) <= len(recorded):
            return
        first = next(iter(faults.values()))
        records = [(one, self._seen[name][0]) for name in faults for one in self._entries[name].annotations]
        mend = guess_fault([(one.value, size) for one, size in records if size]) or first.mend
        if all(one.label is None for one, _ in records):
            mend = "use the ids of its categories (COCO's in results), or name others with --class-names gt=FILE"
        where = first.where.removeprefix(f"{self.source}, ")
        what = f"{len(faults)} of {len(recorded)} images with records cannot be read (the first: {where}: {first.what})"
        raise JudgeError(what, where=self.source, mend=mend)

    def image_id(self, name: str) -> str | None:
        """The canonical id of an image that the files list; None if they have none that can be used."""
        return self._entries[name].image_id if name in self._entries else None

    def categories_in(self, name: str) -> frozenset[str]:
        """The categories of an image's annotations; none for an image that the files do not list."""
        annotations = self._entries[name].annotations if name in self._entries else ()
        return frozenset(one.label for one in annotations if one.label is not None)

    def detect(self, image: LoadedImage) -> tuple[Instance, ...]:
        """The instances of an image; see :meth:`instances`."""
        return self.instances(image.name, image.size)

    def instances(self, name: str, size: tuple[int, int] | None = None) -> tuple[Instance, ...]:
        """The instances of one image; ``size``: its height and width, by default as the files have them."""
        entry = self._entries.get(name)
        if entry is None:
            what = f"image '{name}' is not among its images"
            raise JudgeError(what, where=self.source, mend="give the file of these images")
        fault = None
        try:
            return self._read_entry(entry, size)
        except JudgeError as error:
            fault = error
            raise
        finally:
            self._seen[name] = size or entry.size, fault

    def _read_entry(self, entry: _Entry, size: tuple[int, int] | None) -> tuple[Instance, ...]:
        if entry.faults:
            raise entry.faults[0]
        if size and entry.size and size != entry.size:
            what = f"is {size[1]} x {size[0]}, its annotation says {entry.size[1]} x {entry.size[0]}"
            what += " (turned by its EXIF orientation?)" * (size[::-1] == entry.size)
            raise JudgeError(what, where=f"image '{entry.name}'", mend="use the images that were annotated, upright")
        if not (known := size or entry.size):
            raise JudgeError("has no width and height", where=f"{self.source}, image '{entry.name}'", mend="add them")
        found = [(one.value.get("segmentation"), self._read(one, entry.name, known)) for one in entry.annotations]
        # An empty mask file shows nobody.
        return tuple(instance for shape, instance in found if instance.area or not isinstance(shape, Path))

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

    def _add_file(
        self, document: Document, labels: Collection[str] | None, people: Collection[str], *, lists_images: bool
    ) -> None:
        """Add the instances of a file; an image that another file lists too has the annotations of both."""
        source = document.source
        keys = ("images", "annotations", "categories") if labels is None or labels else ("images",)
        listed, annotations, categories = [*(_records(document.value, key, source) for key in keys), [], []][:3]
        known = _categories(categories, source)
        also = {str(one.get("name")) for one in categories if str(one.get("supercategory")).casefold() == PERSON}
        hidden = people_among(known.values(), people, also)
        self.renamed |= {name: PERSON if name in hidden else name for name in known.values()}
        ids = self._add_images(listed, source, "correct the record" if lists_images else "rename one of the images")
        joined, elsewhere, visible = set[str](), Counter[str](), dict[str, None]()
        for number, annotation in enumerate(annotations, start=1):
            image_id = usable_id(annotation.get("image_id"))
            category = known.get(usable_id(annotation.get("category_id")) or "")
            label = None if category is None else self.renamed[category]
            if image_id is None:
                what = f"'image_id' is {kind_of(annotation.get('image_id'))}: what it shows stays visible"
                self._stray(f"annotations, record {number}", what, source)
            elif image_id not in ids:
                elsewhere[image_id] += 1
            else:
                joined.add(image_id)
                # A third of COCO's annotations are people: others need not stay in memory.
                if labels is None or label is None or label in labels:
                    self._by_id[image_id].annotations.append(_Record(source, number, label, annotation))
                if label is not None and label != PERSON and (names_people(label) or label in also):
                    visible[label] = None
        if annotations and not joined:
            raise JudgeError("no annotation's 'image_id' is the 'id' of an image", where=source, mend=SHAPES)
        if elsewhere:  # Cut-down files often keep the annotations of the images that were left out.
            what = f"{elsewhere.total():,} annotations of {source} are of {len(elsewhere):,} images that it does not"
            self.notes.append(f"{what} list (the first: '{next(iter(elsewhere))}'); nothing is hidden by them.")
        if labels is None or PERSON in labels:
            self.notes += [stays_visible(name, source) for name in visible]
            if hidden and not hidden & {PERSON, *people}:
                self.notes.append(f"{source} has no category 'person'; hidden as people: {', '.join(sorted(hidden))}.")
        if not lists_images and (silent := ids - joined):
            self.notes.append(f"{len(silent):,} of {len(ids):,} images have no record in {source}: nothing is hidden.")

    def _stray(self, where: str, what: str, source: str) -> None:
        self.strays.append((where, JudgeError(what, where=f"{source}, {where}", mend="correct the record")))

    def _add_images(self, images: Sequence[Mapping[str, Any]], source: str, mend: str) -> set[str]:
        """Add the images of a file; their ids."""
        ids, names = set[str](), set[str]()
        for number, image in enumerate(images, start=1):
            name, image_id, size = _name(image), usable_id(image.get("id")), _size(image)
            where = f"images, record {number}"
            if not isinstance(name, str) or not name:
                self._stray(where, f"'file_name' is {kind_of(name)}, and no URL ends in one", source)
                continue
            entry = self._entries.setdefault(name, _Entry(name, image_id, size, [], []))
            first = self._by_id.setdefault(image_id, entry) if image_id is not None else entry
            faults = {
                f"'file_name' {name} occurs twice": name in names,
                f"'{name}' has another id or size than in another file": (image_id, size) != entry[1:3],
                f"'id' is {kind_of(image.get('id'))}": image_id is None,
                # The first would get all annotations, and people in the second would stay visible.
                f"'id' {image_id} is that of '{first.name}' too": first is not entry,
                f"height and width are {image.get('height')} and {image.get('width')}": size == _WRONG,
            }
            for what in (what for what, wrong in faults.items() if wrong):
                fault = JudgeError(what, where=f"{source}, {where}", mend=mend)
                entry.faults.append(fault)
                first.faults.append(fault)
            names.add(name)
            ids |= {image_id} if image_id is not None else set()
        if images and not names:
            what = "no image has a 'file_name', or a URL that ends in one"
            raise JudgeError(what, where=f"{source}, images", mend="add the names of their files")
        for entry in self._entries.values():
            if (number_of := usable_id(entry.name)) != entry.image_id and number_of in ids:
                other = self._by_id[number_of].name
                what = f"'{entry.name}' has the id {entry.image_id}, and {number_of} is the id of '{other}'"
                self.notes.append(Doubt(f"{source}: {what}. See that captions and labels name images by these ids."))
                break
        return ids


def _records(value: object, key: str, source: str) -> Sequence[Mapping[str, Any]]:
    found = value.get(key) if isinstance(value, dict) else None
    if not isinstance(found, list):
        raise JudgeError(f"'{key}' is no list of records", where=source, mend=SHAPES)
    return records(found, source=f"{source}, {key}", shapes=SHAPES) if found else []


def _name(image: Mapping[str, Any]) -> object:
    """The name of an image's file; without one, the end of its URL (LVIS)."""
    urls = (str(image.get(field)) for field in ("coco_url", "url", "flickr_url"))
    ends = (re.split("[?#]", url)[0].rpartition("/")[2] for url in urls)
    name = image.get("file_name")
    return name or next((end for end in ends if PurePosixPath(end).suffix.lower() in SUFFIXES), name)


def _categories(categories: Sequence[Mapping[str, Any]], source: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for number, category in enumerate(categories, start=1):
        key, name = usable_id(category.get("id")), str(category.get("name"))
        if key is None or found.setdefault(key, name) != name:
            what = f"'id' is {kind_of(category.get('id'))}"
            if key is not None:
                what = f"id {key} is '{found[key]}' and '{name}'"
            where = f"{source}, categories, record {number}"
            raise JudgeError(what, where=where, mend="give each category an id of its own")
    return found


def _size(image: Mapping[str, Any]) -> tuple[int, int] | None:
    """Height and width, None if the file has neither; ``_WRONG`` if they cannot be lengths of an image."""
    sides: list[Any] = [image.get("height"), image.get("width")]
    if sides == [None, None]:
        return None
    # Some exporters write 480.0.
    integral = all(type(side) is int or (isinstance(side, float) and side.is_integer()) for side in sides)
    return (int(sides[0]), int(sides[1])) if integral and 0 < min(sides) <= max(sides) <= _LONGEST else _WRONG
