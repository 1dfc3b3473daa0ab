"""Statistics of masks: what they hide, and how well a detector finds the people of the ground truth."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np

from judge.errors import JudgeError
from judge.masking.detectors.ground_truth import GroundTruth
from judge.masking.instances import PERSON, BoolMask, Instance, LoadedImage, union
from judge.masking.people import Hiding
from judge.types import FloatArray, Interval

LEAST = 0.05
"""Masks that hide somebody in a smaller share of the images, or find a smaller share of the pixels of people, are
refused. 54% of COCO's images show people, and nearly all of those with a gender in their captions. Masks that leave a
smaller share of the pixels visible are refused too."""
_MOST = 0.5


class MaskStatistics(NamedTuple):
    """What a mask hides in one image: instances, people among them, and the share of pixels, in [0, 1].

    ``pixels``: if ground truth is known too, its pixels, those that the detector found, and those of both; ``turned``:
    whether EXIF's orientation turned or mirrored the image; ``corners``: whether instances cover all four.
    """

    instances: int
    share: float
    people: int
    pixels: tuple[int, int, int] | None = None
    turned: bool = False
    corners: bool = False

    @classmethod
    def of(
        cls, image: LoadedImage, hiding: Hiding, chosen: Sequence[Instance], region: BoolMask, truth: GroundTruth | None
    ) -> Self:
        """Statistics of hiding the pixels ``region`` of the instances ``chosen``; ``truth`` may not know the image."""
        pixels, known = None, None
        with suppress(JudgeError):  # Not listed, or its annotations cannot be read.
            known = truth.detect(image) if truth else None
        if known is not None:
            both = [hiding.chosen(known), chosen]
            # Compare people alone, unless only objects are hidden: a chair that is detected is no person.
            if PERSON in {instance.label for instances in both for instance in instances}:
                both = [tuple(one for one in instances if one.label == PERSON) for instances in both]
            right, found = (union(instances, image.size) for instances in both)
            pixels = int(right.sum()), int(found.sum()), int((right & found).sum())
        people = sum(instance.label == PERSON for instance in chosen)
        count, corners = 0 if hiding.background else len(chosen), union(chosen, image.size)[np.ix_([0, -1], [0, -1])]
        return cls(count, float(region.mean()), people, pixels, image.turned, bool(corners.all()))


def measure_masks(statistics: Sequence[MaskStatistics], *, hides_people: bool) -> dict[str, Any]:
    """The entry "masks" of a run: shares in [0, 1].

    ``of`` (images), ``images`` (share in which something is hidden), ``people`` (share in which somebody is; None
    where only objects are hidden), ``pixels`` (mean share of an image's pixels that is hidden), ``corners`` (share
    of images whose four corners instances cover), ``recall`` and ``precision`` (of the detector's pixels against
    those of ground truth; None where there are none).
    """
    of = max(len(statistics), 1)
    known = np.array([one.pixels for one in statistics if one.pixels is not None], dtype=np.int64).reshape(-1, 3)
    truth, found, both = known.sum(axis=0).tolist()
    return {
        "of": len(statistics),
        "images": sum(one.share > 0 for one in statistics) / of,
        "people": sum(one.people > 0 and one.share > 0 for one in statistics) / of if hides_people else None,
        "pixels": sum(one.share for one in statistics) / of,
        "corners": sum(one.corners for one in statistics) / of,
        "recall": both / truth if truth else None,
        "precision": both / found if truth and found else None,
    }


def describe_masks(masks: Mapping[str, Any]) -> str:
    """The results of :func:`measure_masks`, in a sentence."""
    what, share = ("something", masks["images"]) if masks["people"] is None else ("people", masks["people"])
    text = f"Masks hide {what} in {share:.1%} of {masks['of']:,} images, and {masks['pixels']:.1%} of the pixels"
    measures = [f"{name} {masks[name]:.1%}" for name in ("recall", "precision") if masks[name] is not None]
    return f"{text}{'; pixels against ground truth: ' * bool(measures)}{', '.join(measures)}."


def hide_nobody(masks: Mapping[str, Any]) -> str:
    """Why masks hide almost nobody, or the background, in a clause with the figure; "" where people need not be hidden.

    People hardly ever cover all four corners of an image; masks that are inverted do.
    """
    if masks["people"] is None or not masks["of"]:
        return ""
    where = f"of {masks['of']:,} images"
    if masks["pixels"] > 1 - LEAST:
        return f"masks hide {masks['pixels']:.1%} of the pixels {where}"
    if masks["corners"] > _MOST:
        return f"masks cover all four corners, so probably the background, in {masks['corners']:.1%} {where}"
    if masks["recall"] is not None:
        return f"masks find {masks['recall']:.1%} of the pixels of people" if masks["recall"] < LEAST else ""
    return f"masks hide somebody in {masks['people']:.1%} {where}" if masks["people"] < LEAST else ""


SHARES = ("recall", "iou", "visible", "beside")
"""The share of the pixels of people that the detector found; intersection over union; the share of the pixels of people
that stays visible if its instances are hidden in the run's mode; the share of hidden pixels that show no person."""


@dataclass(frozen=True, slots=True)
class DetectorRow:
    """One detector compared with ground truth on some images.

    ``shares``: ``SHARES``, pooled over all images by pixel, so that large people count more; NaN where there is none.
    ``intervals`` are those of each share, by the bootstrap over images. ``people`` counts the instances that it found,
    rightly or wrongly, and ``of`` those in ground truth.
    """

    detector: str
    shares: Mapping[str, float]
    intervals: Mapping[str, Interval | None]
    people: int
    of: int
    images: int


def count(truth: Sequence[Instance], found: Sequence[Instance], region: BoolMask) -> list[int]:
    """Pixels of people in one image: by ``truth``, by a detector, by both, left visible, and all that it hides.

    ``found``: the instances of the detector; ``region``: the pixels, [H, W], that are hidden because of them.
    """
    people, mask = union(truth, region.shape), union(found, region.shape)
    return [int(pixels.sum()) for pixels in (people, mask, people & mask, people & ~region, region)]


def pool(counts: FloatArray) -> FloatArray:
    """``SHARES``, [4, ...], of summed counts in the order of :func:`count`, [5, ...]; NaN for 0 / 0.

    People have 10 pixels. The detector finds 8 pixels, and 6 of these show people. 12 pixels are hidden, and 2 pixels
    of people stay visible:

        >>> pool(np.array([10, 8, 6, 2, 12])).round(2).tolist()
        [0.6, 0.5, 0.2, 0.33]
    """
    truth, found, both, visible, hidden = np.asarray(counts, dtype=np.float64)
    tops = np.stack([both, both, visible, hidden - (truth - visible)])
    bottoms = np.stack([truth, truth + found - both, truth, hidden])
    return np.asarray(np.divide(tops, bottoms, out=np.full(tops.shape, np.nan), where=bottoms > 0))
