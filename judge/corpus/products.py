"""Labels of several attributes at once: images of which all are known, by product class ("female & darker")."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from judge.errors import JudgeError
from judge.text.products import AND, join_classes
from judge.types import Labels


@dataclass(frozen=True, slots=True)
class ProductLabels(Labels):
    """The class that each image has in several attributes.

    Attributes:
        parts: the labels of each attribute.
        kept: class -> how many images of it there are for every captioner, at least; see :meth:`without_small`.
        left_out: the same, of classes with fewer than ``least`` images. They are none of ``classes``, and their images
            not in ``by_image``.
        least: see there.
    """

    parts: tuple[Labels, ...] = ()
    kept: Mapping[str, int] = field(default_factory=dict)
    left_out: Mapping[str, int] = field(default_factory=dict)
    least: int = 0

    @property
    def coverage(self) -> str:
        """Of how many images each attribute is known, and all of them: in words."""
        known = ", ".join(f"{part.attribute} of {len(part.by_image):,}" for part in self.parts)
        return f"{known} and all of {len(_shared(self.parts)):,} images"

    @property
    def small(self) -> frozenset[str]:
        """Images of classes that are left out."""
        return _shared(self.parts) - self.by_image.keys()

    def without_small(self, counts: Mapping[str, int], least: int) -> ProductLabels:
        """Without the classes that too few images have.

        Args:
            counts: class -> images.
            least: how many of a class are needed.

        Raises:
            JudgeError: fewer than two classes are left.
        """
        kept = {name: counts[name] for name in self.classes if counts[name] >= least}
        small = {**self.left_out, **{name: counts[name] for name in self.classes if name not in kept}}
        if len(kept) < 2:
            cells = ", ".join(f"{name} {number}" for name, number in sorted({**kept, **small}.items()))
            what = f"fewer than two classes of {self.attribute} have {least} images ({cells}); known: {self.coverage}"
            raise JudgeError(what, where=self.source, mend="add labelled images, or join classes that are small")
        by_image = {image: name for image, name in self.by_image.items() if name in kept}
        return replace(self, classes=tuple(kept), by_image=by_image, kept=kept, left_out=small, least=least)

    def describe(self) -> dict[str, Any]:
        """For ``metrics.json``."""
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
    """Labels of several attributes as those of their product: an image has a class where it has one of each.

    Args:
        parts: of each attribute, two or more.

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
    )
    if not found.by_image:
        what = f"no image has a class of each attribute; known: {found.coverage}"
        raise JudgeError(what, where=found.source, mend="check that image ids mean the same in all files")
    return found


def parts_of(labels: Labels | None) -> tuple[Labels, ...]:
    """The labels of each attribute."""
    if isinstance(labels, ProductLabels):
        return labels.parts
    return (labels,) if labels else ()


def _shared(parts: Sequence[Labels]) -> frozenset[str]:
    """Images that all of ``parts`` have."""
    first, *others = parts
    return frozenset(first.by_image).intersection(*(part.by_image for part in others))
