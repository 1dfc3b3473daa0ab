"""Instances, things found in an image: box, mask, score, label. Masks are run lengths, as in COCO."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from judge.errors import JudgeError

Pixels = npt.NDArray[np.uint8]
"""An image, [H, W, 3], RGB."""
BoolMask = npt.NDArray[np.bool_]
"""[H, W]; True where the thing is."""

PixelBox = tuple[float, float, float, float]
"""x, y, width, height, from the upper left corner, as in COCO."""
Box = tuple[float, float, float, float]
"""Left, top, right, bottom, as shares of the image's width and height, in [0, 1]."""

MAX_BOXES = 20
"""Most boxes of visible things per image; the least certain, then the smallest, are left out."""
_VISIBLE = 0.5

PERSON = "person"


@dataclass(frozen=True, slots=True)
class LoadedImage:
    """A decoded image, [H, W, 3] uint8, RGB, upright; and its name, relative to the folder of images.

    ``turned`` says whether EXIF's orientation turned or mirrored the pixels of the file. ``checksum`` is that of the
    file, or "".
    """

    name: str
    pixels: Pixels
    turned: bool = False
    checksum: str = ""

    @property
    def size(self) -> tuple[int, int]:
        """Height and width."""
        return self.pixels.shape[0], self.pixels.shape[1]


@dataclass(frozen=True, slots=True)
class Instance:
    """One thing in an image of ``size`` (height, width), and its category.

    ``counts``: run lengths of its mask in COCO's compressed form, column by column; ``score``: the detector's
    confidence in [0, 1], 1 for ground truth; ``crowd``: the mask covers a group (COCO's ``iscrowd``).
    """

    label: str
    box: PixelBox
    counts: bytes
    size: tuple[int, int]
    score: float = 1.0
    crowd: bool = False

    @property
    def rle(self) -> dict[str, Any]:
        """The mask as pycocotools takes it."""
        return {"size": list(self.size), "counts": self.counts}

    @property
    def mask(self) -> BoolMask:
        """[H, W]; may be empty."""
        from pycocotools import mask as coco

        return np.asarray(coco.decode(self.rle), dtype=np.bool_)

    @property
    def area(self) -> int:
        """Pixels in the mask."""
        from pycocotools import mask as coco

        return int(coco.area(self.rle))


def from_mask(
    mask: BoolMask, label: str, *, box: PixelBox | None = None, score: float = 1.0, crowd: bool = False
) -> Instance:
    """An instance of a mask, [H, W]; ``box`` (x, y, width, height) is by default the mask's own."""
    from pycocotools import mask as coco

    rle = coco.encode(np.asfortranarray(mask, dtype=np.uint8))
    height, width = mask.shape
    x, y, across, down = box or map(float, coco.toBbox(rle))
    return Instance(label, (x, y, across, down), rle["counts"], (height, width), score, crowd)


def box_mask(box: PixelBox, size: tuple[int, int]) -> BoolMask:
    """[H, W]: every pixel that ``box`` touches; a box without width or height touches none."""
    x, y, width, height = box
    mask = np.zeros(size, dtype=np.bool_)
    if width > 0 and height > 0:
        top, left = max(0, int(np.floor(y))), max(0, int(np.floor(x)))
        mask[top : max(0, int(np.ceil(y + height))), left : max(0, int(np.ceil(x + width)))] = True
    return mask


def union(instances: Iterable[Instance], size: tuple[int, int]) -> BoolMask:
    """[H, W]: the pixels of any of ``instances``; one of an image of another size is refused."""
    from pycocotools import mask as coco

    found = list(instances)
    for height, width in (instance.size for instance in found if instance.size != size):
        what = f"a mask of {width}x{height} pixels on an image of {size[1]}x{size[0]}"
        raise JudgeError(what, mend="use the images that the instances were made for")
    if not found:
        return np.zeros(size, dtype=np.bool_)
    return np.asarray(coco.decode(coco.merge([instance.rle for instance in found])), dtype=np.bool_)


def visible_boxes(instances: Sequence[Instance], hidden: BoolMask, *, threshold: float = 0.0) -> tuple[Box, ...]:
    """The boxes of the visible parts of ``instances``, at most ``MAX_BOXES``, the most certain first, then the largest.

    A thing counts if its score is at least ``threshold`` and half of its mask is not ``hidden``, [H, W]. Its box is
    that of the visible part: the outline of a tie on a hidden person would reveal who is hidden.
    """
    height, width = hidden.shape
    known = [instance for instance in instances if instance.score >= threshold and instance.area]
    found: list[Box] = []
    for instance in sorted(known, key=lambda instance: (-instance.score, -instance.area, instance.box)):
        visible = instance.mask & ~hidden
        if len(found) < MAX_BOXES and visible.sum() >= _VISIBLE * instance.area:
            x, y, across, down = from_mask(visible, "").box
            found.append((x / width, y / height, (x + across) / width, (y + down) / height))
    return tuple(found)
