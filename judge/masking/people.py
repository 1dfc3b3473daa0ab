"""Hide people, or things, in an image: numpy arrays in, numpy arrays out.

Whatever the fill, no hidden pixel has any influence on the result: two images that differ only where something is
hidden come out the same.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, cast

import numpy as np

from judge.masking.instances import PERSON, BoolMask, Instance, LoadedImage, Pixels, box_mask, union

Mode = Literal["partial", "segment", "box"]
Fill = Literal["black", "mean"]
Foreground = Literal["all", "largest"] | float

# DBAC's and DPAC's "partially masked" gives no share.
PARTIAL_SHARE = 0.5
_GREY = 128


def hide(pixels: Pixels, region: BoolMask, *, fill: Fill = "black") -> Pixels:
    """A copy of ``pixels``, [H, W, 3] uint8, without what is in ``region``, [H, W].

        >>> image = np.array([[[10, 20, 30], [50, 60, 70]]], dtype=np.uint8)
        >>> hide(image, np.array([[False, True]])).tolist()
        [[[10, 20, 30], [0, 0, 0]]]

    ``fill``: "black", zeros, as in the papers; "mean", the mean colour of the visible pixels, or a middle grey where
    nothing is visible.
    """
    import cv2

    if not region.any():
        return pixels.copy()
    visible = (~region).view(np.uint8)
    filled = np.zeros(pixels.shape, dtype=np.uint8)
    if fill == "mean":
        filled[:] = np.round((_GREY,) * 3 if region.all() else cv2.mean(pixels, mask=visible)[:3])
    # OpenCV's masked copy is several times as fast as numpy's.
    return cast("Pixels", cv2.copyTo(pixels, visible, filled))


def _upper_part(mask: BoolMask, share: float) -> BoolMask:
    rows, columns = np.nonzero(mask)
    # 0.07 of 100 pixels are 7; in binary they are a little more, and would become 8.
    count = math.ceil(Fraction(str(share)) * len(rows))
    part = np.zeros_like(mask)
    part[rows[:count], columns[:count]] = True
    return part


@dataclass(frozen=True, slots=True)
class Hiding:
    """What is hidden in an image, and how.

    Attributes:
        labels: categories to hide; () for all but people.
        threshold: least score; ground truth has 1.
        foreground: "all"; "largest" of each category (the largest not in a crowd, first at a tie; DBAC and DPAC mask
            only people in the foreground, since the classes describe them: the class of an image is that of its largest
            person); or a share of the image's area in (0, 1): all whose mask covers at least as much.
        mode: what is hidden of each instance (DBAC 5.2.1, DPAC 4.3). ``segment``: its mask. ``box``: its box, and
            whatever of the mask reaches out of it. ``partial``: the upper ``share`` of its mask, ``ceil(share * area)``
            pixels, row by row from the top: heads first; all of a crowd, whose heads are anywhere. The papers give
            neither share nor part.
        share: the share of ``partial``, in (0, 1).
        dilation: pixels by which the region grows on all sides (a disc); 0 for none.
        fill: see :func:`hide`.
        background: hide all other pixels instead: those of no instance, of any category.
    """

    labels: tuple[str, ...] = (PERSON,)
    threshold: float = 0.5
    foreground: Foreground = "all"
    mode: Mode = "segment"
    share: float = PARTIAL_SHARE
    dilation: int = 0
    fill: Fill = "black"
    background: bool = False

    def chosen(self, instances: Sequence[Instance]) -> tuple[Instance, ...]:
        """The instances of one image that are hidden (with ``background``: that are not)."""
        labels = self.labels or [one.label for one in instances if self.background or one.label != PERSON]
        kept = [one for one in instances if one.label in labels and one.score >= self.threshold]
        if self.foreground == "largest":
            # A crowd is nobody's foreground, as long as somebody stands alone.
            alike = ([one for one in kept if one.label == label] for label in dict.fromkeys(labels))
            return tuple(max(some, key=lambda one: (not one.crowd, one.area)) for some in alike if some)
        if self.foreground == "all":
            return tuple(kept)
        return tuple(one for one in kept if one.area >= self.foreground * one.size[0] * one.size[1])

    def region(self, chosen: Sequence[Instance], size: tuple[int, int]) -> BoolMask:
        """The pixels to hide, [H, W], of ``chosen`` instances in an image of this ``size``, which must be theirs."""
        region = union([] if self.mode == "partial" else chosen, size)
        for instance in chosen:
            if self.mode == "partial":
                mask = union([instance], size)
                region |= mask if instance.crowd else _upper_part(mask, self.share)
            elif self.mode == "box":
                region |= box_mask(instance.box, size)
        region = ~region if self.background else region
        if not self.dilation or not region.any():
            return region
        import cv2

        # The distance to the region costs the same for every radius, and is a true disc.
        away = cv2.distanceTransform((~region).view(np.uint8), cv2.DIST_L2, cv2.DIST_MASK_PRECISE)
        # Squared distances are whole numbers; OpenCV 4 finds 7.0000005 where 7 is meant.
        return np.asarray(away < math.sqrt(self.dilation**2 + 0.5))

    def apply(self, image: LoadedImage, instances: Sequence[Instance]) -> tuple[Pixels, BoolMask]:
        """The masked image, and the region hidden in it."""
        region = self.region(self.chosen(instances), image.size)
        return hide(image.pixels, region, fill=self.fill), region
