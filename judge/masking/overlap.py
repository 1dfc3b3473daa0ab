"""How well a detector finds the people of the ground truth: by pixels and by instances."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from judge.masking.folder import Hiding
from judge.masking.instances import Instance, union
from judge.types import FloatArray, Interval


@dataclass(frozen=True, slots=True)
class Counts:
    """Pixels of one picture.

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
    """Shares over all pictures, pooled by pixel: large people count as much as their pixels; NaN of nothing.

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
        overlap: shares of pixels, pooled over pictures.
        intervals: of each share, by its name in ``Overlap``; bootstrap over pictures.
        precision: COCO's average precision of masks (IoU 0.50 to 0.95), the mean over hidden categories;
            ``precision_50``: at 0.50.
        people: instances that it found, rightly or wrongly; ``of``: those that there are.
        pictures: compared.
    """

    detector: str
    overlap: Overlap
    intervals: Mapping[str, Interval | None]
    precision: float
    precision_50: float
    people: int
    of: int
    pictures: int


def count(truth: Sequence[Instance], found: Sequence[Instance], hiding: Hiding, size: tuple[int, int]) -> Counts:
    """Count the pixels of one picture; ``hiding`` selects among ground truth and detections alike.

    Args:
        truth: instances of ground truth.
        found: instances that the detector found.
        hiding: what is hidden, and how.
        size: height and width of the picture.
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
    """Recall, IoU, visible and beside, [4, ...], of summed counts in ``Counts``' order, [5, ...]; NaN of nothing."""
    truth, found, both, visible, hidden = np.asarray(counts, dtype=np.float64)
    tops = np.stack([both, both, visible, hidden - (truth - visible)])
    bottoms = np.stack([truth, truth + found - both, truth, hidden])
    return np.asarray(np.divide(tops, bottoms, out=np.full(tops.shape, np.nan), where=bottoms > 0))


def average_precision(
    truth: Mapping[str, Sequence[Instance]], found: Mapping[str, Sequence[Instance]], label: str
) -> tuple[float, float]:
    """COCO's AP of masks over IoU 0.50 to 0.95, and at 0.50, by pycocotools; detections from 0.05 on count.

    Args:
        truth: picture -> instances of ground truth.
        found: picture -> instances that the detector found; the same pictures.
        label: the category.

    Returns:
        Fractions; NaN where ground truth has no instance that is no crowd.
    """
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

    numbers = {name: number for number, name in enumerate(truth, start=1)}
    sizes = {name: next((i.size for i in (*truth[name], *found[name])), (1, 1)) for name in truth}
    images = [{"id": numbers[name], "height": height, "width": width} for name, (height, width) in sizes.items()]
    sides = [_annotations(instances, numbers, label) for instances in (truth, found)]
    # pycocotools tells of every step on standard output.
    with contextlib.redirect_stdout(io.StringIO()):
        cocos = COCO(), COCO()
        for coco, annotations in zip(cocos, sides, strict=True):
            coco.dataset = {"images": images, "annotations": annotations, "categories": [{"id": 1, "name": label}]}
            coco.createIndex()
        evaluation = COCOeval(*cocos, iouType="segm")
        evaluation.evaluate()
        evaluation.accumulate()
        evaluation.summarize()
    # pycocotools says -1 where there is nothing to find.
    overall, at_half = (float(value) if value >= 0 else float("nan") for value in evaluation.stats[:2])
    return overall, at_half


def _annotations(
    instances: Mapping[str, Sequence[Instance]], numbers: Mapping[str, int], label: str
) -> list[dict[str, object]]:
    found = [(number, one) for name, number in numbers.items() for one in instances[name] if one.label == label]
    return [
        {
            "id": place,
            "image_id": number,
            "category_id": 1,
            "segmentation": instance.rle,
            "area": instance.area,
            "bbox": list(instance.box),
            "iscrowd": int(instance.crowd),
            "score": instance.score,
        }
        for place, (number, instance) in enumerate(found, start=1)
    ]
