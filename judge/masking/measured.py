"""Statistics of masks: what they hide, and how well a detector finds the people of the ground truth."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from judge.masking.instances import PERSON, BoolMask, Instance, union
from judge.masking.people import Hiding
from judge.types import FloatArray, Interval

LEAST = 0.05
"""Masks that hide somebody in a smaller share of the images, or find a smaller share of the pixels of people, are
refused. 54% of COCO's images show people, and nearly all of those with a gender in their captions."""


@dataclass(frozen=True, slots=True)
class MaskStatistics:
    """What a mask hides in one image.

    Attributes:
        instances: that are hidden.
        share: of the pixels that are hidden, in [0, 1].
        people: instances of these that are people.
        pixels: if ground truth is known too, its pixels, those that the detector found, and those of both.
        turned: whether EXIF's orientation turned or mirrored the image.
    """

    instances: int
    share: float
    people: int
    pixels: tuple[int, int, int] | None = None
    turned: bool = False

    @classmethod
    def of(
        cls,
        hiding: Hiding,
        instances: Sequence[Instance],
        region: BoolMask,
        truth: Sequence[Instance] | None,
        *,
        turned: bool,
    ) -> MaskStatistics:
        """Statistics of hiding the pixels ``region``, those of ``instances``; ``truth``: of ground truth, if known."""
        pixels, chosen = None, hiding.chosen(instances)
        if truth is not None:
            # Of people alone, unless objects alone are hidden: a chair that is detected is no person.
            both = [hiding.chosen(truth), chosen]
            if any(instance.label == PERSON for instances in both for instance in instances):
                both = [tuple(one for one in instances if one.label == PERSON) for instances in both]
            right, found = (union(instances, (region.shape[0], region.shape[1])) for instances in both)
            pixels = int(right.sum()), int(found.sum()), int((right & found).sum())
        people = sum(instance.label == PERSON for instance in chosen)
        return cls(len(chosen), float(region.mean()), people, pixels, turned)


def measure_masks(statistics: Sequence[MaskStatistics], *, hides_people: bool) -> dict[str, Any]:
    """The entry "masks" of a run: shares in [0, 1].

    Returns:
        ``of`` (images), ``images`` (share in which something is hidden), ``people`` (share in which somebody is; None
        where only objects are hidden), ``pixels`` (mean share of an image's pixels that is hidden), ``recall`` and
        ``precision`` (of the detector's pixels against those of ground truth; None where there are none).
    """
    of = max(len(statistics), 1)
    known = np.array([one.pixels for one in statistics if one.pixels is not None], dtype=np.int64).reshape(-1, 3)
    truth, found, both = known.sum(axis=0).tolist()
    return {
        "of": len(statistics),
        "images": sum(one.share > 0 for one in statistics) / of,
        "people": sum(one.people > 0 and one.share > 0 for one in statistics) / of if hides_people else None,
        "pixels": sum(one.share for one in statistics) / of,
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
    """Why almost nobody is hidden, in a clause with the figure; "" where people are hidden, or need not be."""
    if masks["people"] is None or not masks["of"]:
        return ""
    if masks["recall"] is not None:
        return f"masks find {masks['recall']:.1%} of the pixels of people" if masks["recall"] < LEAST else ""
    return f"masks hide somebody in {masks['people']:.1%} of {masks['of']:,} images" if masks["people"] < LEAST else ""


@dataclass(frozen=True, slots=True)
class Counts:
    """Pixels of one image.

    Attributes:
        truth: of the people, by ground truth.
        found: of the people, by the detector.
        both: by both.
        visible: of ``truth``, those that hiding what the detector found leaves visible.
        hidden: that it hides, rightly or wrongly.
    """

    truth: int
    found: int
    both: int
    visible: int
    hidden: int


@dataclass(frozen=True, slots=True)
class Overlap:
    """Shares over all images, pooled by pixel: large people count as much as their pixels; NaN where there is nothing.

    Attributes:
        recall: of the people's pixels, those that the detector found.
        iou: pixels of both by pixels of either.
        visible: of the people's pixels, those left visible when what it found is hidden in the run's mode.
        beside: of the hidden pixels, those of nothing that was to be hidden.
    """

    recall: float
    iou: float
    visible: float
    beside: float


@dataclass(frozen=True, slots=True)
class DetectorRow:
    """One detector against ground truth.

    Attributes:
        detector: its name.
        overlap: shares of pixels, pooled over images.
        intervals: of each share, by its name in ``Overlap``; bootstrap over images.
        precision: COCO's average precision of masks (IoU 0.50 to 0.95), the mean over hidden categories;
            ``precision_50``: at 0.50.
        people: instances that it found, rightly or wrongly; ``of``: those that there are.
        images: compared.
    """

    detector: str
    overlap: Overlap
    intervals: Mapping[str, Interval | None]
    precision: float
    precision_50: float
    people: int
    of: int
    images: int


def count(truth: Sequence[Instance], found: Sequence[Instance], hiding: Hiding, size: tuple[int, int]) -> Counts:
    """Count the pixels of one image; ``hiding`` selects among ground truth and detections alike.

    Args:
        truth: instances of ground truth.
        found: instances that the detector found.
        hiding: what is hidden, and how.
        size: height and width of the image.
    """
    people, chosen = union(hiding.chosen(truth), size), hiding.chosen(found)
    mask, region = union(chosen, size), hiding.region(chosen, size)
    return Counts(
        truth=int(people.sum()),
        found=int(mask.sum()),
        both=int((people & mask).sum()),
        visible=int((people & ~region).sum()),
        hidden=int(region.sum()),
    )


def pool(counts: FloatArray) -> FloatArray:
    """Recall, IoU, visible and beside, [4, ...], of summed counts in ``Counts``' order, [5, ...]; NaN for 0 / 0."""
    truth, found, both, visible, hidden = np.asarray(counts, dtype=np.float64)
    tops = np.stack([both, both, visible, hidden - (truth - visible)])
    bottoms = np.stack([truth, truth + found - both, truth, hidden])
    return np.asarray(np.divide(tops, bottoms, out=np.full(tops.shape, np.nan), where=bottoms > 0))


def average_precision(
    truth: Mapping[str, Sequence[Instance]], found: Mapping[str, Sequence[Instance]], label: str
) -> tuple[float, float]:
    """COCO's AP of masks over IoU 0.50 to 0.95, and at 0.50, by pycocotools; detections from 0.05 on count.

    Args:
        truth: image -> instances of ground truth.
        found: image -> instances that the detector found; the same images.
        label: the category.

    Returns:
        Fractions; NaN if ground truth has no instance that is no crowd.
    """
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

    sizes = [next((one.size for one in (*truth[name], *found[name])), (1, 1)) for name in truth]
    images = [{"id": number, "height": size[0], "width": size[1]} for number, size in enumerate(sizes, start=1)]
    with contextlib.redirect_stdout(io.StringIO()):  # pycocotools prints every step.
        cocos = COCO(), COCO()
        for coco, instances in zip(cocos, (truth, found), strict=True):
            annotations = _annotations([instances[name] for name in truth], label)
            coco.dataset = {"images": images, "annotations": annotations, "categories": [{"id": 1, "name": label}]}
            coco.createIndex()
        evaluation = COCOeval(*cocos, iouType="segm")
        evaluation.evaluate()
        evaluation.accumulate()
        evaluation.summarize()
    # pycocotools returns -1 where there is nothing to find.
    overall, at_half = (float(value) if value >= 0 else float("nan") for value in evaluation.stats[:2])
    return overall, at_half


def _annotations(images: Sequence[Sequence[Instance]], label: str) -> list[dict[str, object]]:
    """COCO's records of the instances of each image."""
    found = [(number, one) for number, ones in enumerate(images, start=1) for one in ones if one.label == label]
    return [
        {"id": place, "image_id": number, "category_id": 1, "segmentation": one.rle, "area": one.area,
         "bbox": list(one.box), "iscrowd": int(one.crowd), "score": one.score}
        for place, (number, one) in enumerate(found, start=1)
    ]  # fmt: skip
