"""Several attributes at once: labels of their products ("female & darker"), and settings of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from judge.errors import JudgeError
from judge.text.combined import AND, join_classes
from judge.types import Labels
from judge.utils.files import split_name


@dataclass(frozen=True, slots=True)
class ProductLabels(Labels):
    """The class that each image has in several attributes.

    Attributes:
        parts: the labels of each attribute.
        kept: class -> its number of images, the smallest of any captioner; see :meth:`without_small`.
        left_out: the same for classes with fewer than ``least`` images, which ``classes`` and ``by_image`` lack.
        least: the fewest images that a class may have.
    """

    parts: tuple[Labels, ...] = ()
    kept: Mapping[str, int] = field(default_factory=dict)
    left_out: Mapping[str, int] = field(default_factory=dict)
    least: int = 0

    @property
    def coverage(self) -> str:
        """The numbers of images with a label of each attribute, and of all of them, in words."""
        known = ", ".join(f"{part.attribute} of {len(part.by_image):,}" for part in self.parts)
        return f"{known} and all of {len(_shared(self.parts)):,} images"

    @property
    def small(self) -> frozenset[str]:
        """Images of classes that are left out."""
        return _shared(self.parts) - self.by_image.keys()

    def without_small(self, counts: Mapping[str, int], least: int) -> ProductLabels:
        """These labels without the classes of fewer than ``least`` images, by ``counts`` (class -> images)."""
        kept = {name: counts[name] for name in self.classes if counts[name] >= least}
        small = {**self.left_out, **{name: counts[name] for name in self.classes if name not in kept}}
        if len(kept) < 2:
            cells = ", ".join(f"{name} {number}" for name, number in sorted({**kept, **small}.items()))
            what = f"fewer than two classes of {self.attribute} have {least} images ({cells}); known: {self.coverage}"
            raise JudgeError(what, where=self.source, mend="add labelled images, or join classes that are small")
        by_image = {image: name for image, name in self.by_image.items() if name in kept}
        return replace(self, classes=tuple(kept), by_image=by_image, kept=kept, left_out=small, least=least)

    def describe(self) -> dict[str, Any]:
        """The entry ``run.labels`` of ``metrics.json``."""
        parts = {
            part.attribute: {
                "source": part.source,
                "derived": part.derived,
                "agreement": part.agreement,
                "images": len(part.by_image),
                "rule": part.rule,
                **({"votes": dict(part.votes)} if part.votes else {}),
            }
            for part in self.parts
        }
        counts = {"images": len(_shared(self.parts)), "classes": dict(self.kept), "left_out": dict(self.left_out)}
        return {"attributes": parts, **counts, "least": self.least}


def multiply_labels(parts: Sequence[Labels]) -> ProductLabels:
    """Labels of the product of two attributes or more: an image has a class if it has one of each attribute.

    Raises:
        JudgeError: fewer than two, or one attribute twice; a name with " & " in it; no image has a label of each.
    """
    names = [part.attribute for part in parts]
    if len(set(names)) < max(2, len(names)):
        raise JudgeError(f"labels of {', '.join(names) or 'nothing'}", mend="give labels of two attributes or more")
    for name in [*names, *(name for part in parts for name in part.classes)]:
        if AND in name:
            raise JudgeError(f"'{name}' holds '{AND}', which joins attributes and their classes", mend="rename it")
    ignored = {f"{part.attribute} {value or 'empty'}": n for part in parts for value, n in part.ignored.items()}
    found = ProductLabels(
        attribute=AND.join(names),
        classes=tuple(sorted(join_classes([part.classes for part in parts]))),
        by_image={image: AND.join(part.by_image[image] for part in parts) for image in sorted(_shared(parts))},
        source="; ".join(dict.fromkeys(part.source for part in parts)),
        derived=any(part.derived for part in parts),
        ignored=ignored,
        parts=tuple(parts),
        scenes=parts[0].scenes,
    )
    if not found.by_image:
        what = f"no image has a class of each attribute; known: {found.coverage}"
        raise JudgeError(what, where=found.source, mend="check that image ids mean the same in all files")
    return found


def parts_of(labels: Labels | None) -> tuple[Labels, ...]:
    """The labels of each attribute; () for none."""
    if isinstance(labels, ProductLabels):
        return labels.parts
    return (labels,) if labels else ()


def _shared(parts: Sequence[Labels]) -> frozenset[str]:
    """Images with a label in all of ``parts``."""
    first, *others = parts
    return frozenset(first.by_image).intersection(*(part.by_image for part in others))


def attribute_names(parts: Sequence[str]) -> tuple[str, ...]:
    """The attributes that a setting names; ``gender,skin`` is two. Raises ValueError for none, or one twice."""
    names = tuple(name.strip() for part in parts for name in part.split(",") if name.strip())
    if len(set(names)) != max(1, len(names)):
        raise ValueError(f"'{max(names, key=names.count)}' twice: give each attribute once" if names else "no name")
    return names


def by_attribute(value: object, names: Sequence[str], *, shared: bool) -> object:
    """A setting of each attribute, from texts ``NAME=TEXT``: a mapping; for a single attribute its text alone.

    ``value``: a text, a list of texts or a mapping; anything else is returned as it is. ``shared``: whether one text
    without a name may serve all attributes. Raises ValueError for a text without attribute, or two of one attribute.
    """
    if isinstance(value, str | Path | list | tuple):
        entries, named = list(value) if isinstance(value, list | tuple) else [value], dict[str, str]()
        for entry in entries:
            name, text = split_name(str(entry))
            if name in named:
                raise ValueError(f"'{name}' twice: give one of each attribute")
            if name in names:
                named[name] = text
            elif len(entries) == 1 and (len(names) == 1 or (shared and not name)):
                return entry
            elif len(names) == 1:
                raise ValueError(f"{' and '.join(map(str, entries))} are of one attribute: give one")
            else:
                raise ValueError(f"'{entry}' is of none of {', '.join(names)}: write {names[0]}=VALUE")
        value = named
    if not isinstance(value, dict):
        return value
    check_names(value, names)
    return value if len(names) > 1 else next(iter(value.values()), None)


def check_names(value: Mapping[str, object], names: Sequence[str]) -> None:
    """Raise ValueError for a setting of an attribute that is not in ``names``."""
    if strange := [name for name in value if name not in names]:
        raise ValueError(f"'{strange[0]}' is none of the attributes {', '.join(names)}: write {names[0]}=VALUE")


def listed_by_name(entries: Sequence[object], shape: str) -> dict[str, list[str]]:
    """Name -> its texts, from texts ``NAME=TEXT``; ValueError for another text, with the ``shape`` to write."""
    found: dict[str, list[str]] = {}
    for entry in entries:
        name, _, text = str(entry).partition("=")
        if not text:
            raise ValueError(f"'{entry}' is not {shape}")
        found.setdefault(name, []).append(text)
    return found
