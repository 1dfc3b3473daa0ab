"""What masks hide, measured: images, pixels and, beside ground truth, recall and precision of a detector."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from judge.masking.instances import PERSON, BoolMask, Instance, union

LEAST = 0.05
"""Masks that hide somebody in a smaller share of the images, or find a smaller share of the pixels of people, hide
nobody: 54% of COCO's images show people, of those
with a gender in their captions nearly all do."""


@dataclass(frozen=True, slots=True)
class Look:
    """What a mask hides in one image.

    Attributes:
        instances: that are hidden.
        share: of the pixels that are hidden, in [0, 1].
        people: instances of these that are people.
        pixels: where ground truth is known too, its pixels, those that the detector found, and those of both.
        turned: whether EXIF's orientation turned or mirrored the image.
    """

    instances: int
    share: float
    people: int
    pixels: tuple[int, int, int] | None = None
    turned: bool = False

    @classmethod
    def at(
        cls, chosen: Sequence[Instance], region: BoolMask, truth: Sequence[Instance] | None, *, turned: bool
    ) -> Look:
        """Measure what hiding the instances ``chosen`` hides, the pixels ``region``; ``truth``: what should be."""
        pixels = None
        if truth is not None:
            # Of people alone, unless objects alone are hidden: chairs that are found are no people.
            both = [list(truth), list(chosen)]
            if any(instance.label == PERSON for instances in both for instance in instances):
                both = [[one for one in instances if one.label == PERSON] for instances in both]
            right, found = (union(instances, (region.shape[0], region.shape[1])) for instances in both)
            pixels = int(right.sum()), int(found.sum()), int((right & found).sum())
        people = sum(instance.label == PERSON for instance in chosen)
        return cls(len(chosen), float(region.mean()), people, pixels, turned)


def measure_masks(looks: Sequence[Look], *, hides_people: bool) -> dict[str, Any]:
    """The entry "masks" of a run: shares in [0, 1].

    Returns:
        ``of`` (images), ``images`` (share in which something is hidden), ``people`` (share in which somebody is; None
        where only objects are hidden), ``pixels`` (mean share of an image's pixels that is hidden), ``recall`` and
        ``precision`` (of the detector's pixels against those of ground truth; None where there are none).
    """
    of = max(len(looks), 1)
    known = np.array([look.pixels for look in looks if look.pixels is not None], dtype=np.int64).reshape(-1, 3)
    truth, found, both = known.sum(axis=0).tolist()
    return {
        "of": len(looks),
        "images": sum(look.share > 0 for look in looks) / of,
        "people": sum(look.people > 0 and look.share > 0 for look in looks) / of if hides_people else None,
        "pixels": sum(look.share for look in looks) / of,
        "recall": both / truth if truth else None,
        "precision": both / found if truth and found else None,
    }


def tell_masks(masks: Mapping[str, Any]) -> str:
    """What :func:`measure_masks` measured, in a sentence."""
    what, share = ("something", masks["images"]) if masks["people"] is None else ("people", masks["people"])
    told = f"Masks hide {what} in {share:.1%} of {masks['of']:,} images, and {masks['pixels']:.1%} of the pixels"
    measures = [f"{name} {masks[name]:.1%}" for name in ("recall", "precision") if masks[name] is not None]
    return f"{told}{'; pixels against ground truth: ' * bool(measures)}{', '.join(measures)}."


def hide_nobody(masks: Mapping[str, Any]) -> str:
    """Why people are as good as visible, in a clause with the figure; "" where they are hidden, or need not be."""
    if masks["people"] is None or not masks["of"]:
        return ""
    if masks["recall"] is not None:
        return f"masks find {masks['recall']:.1%} of the pixels of people" if masks["recall"] < LEAST else ""
    return f"masks hide somebody in {masks['people']:.1%} of {masks['of']:,} images" if masks["people"] < LEAST else ""
