"""Boxes, without labels, of the things that are still visible once others are hidden."""

from __future__ import annotations

from collections.abc import Sequence

from judge.masking.instances import BoolMask, Instance, from_mask

Box = tuple[float, float, float, float]
"""Left, top, right, bottom, as shares of the picture's width and height, in [0, 1]."""

MOST = 20
"""Most boxes of a picture; the least certain, then the smallest, are left out."""

_LEFT = 0.5


def visible_boxes(
    instances: Sequence[Instance], hidden: BoolMask, *, threshold: float = 0.0, most: int = MOST
) -> tuple[Box, ...]:
    """The boxes of the visible parts of ``instances``, the most certain first, then the largest.

    A thing counts if at least half of its mask is visible, and its box is that of the visible part: the outline of a
    tie on a hidden person would tell who is hidden.

    Args:
        instances: of one picture, of any category.
        hidden: its hidden pixels, [H, W].
        threshold: least score.
        most: boxes.
    """
    known = [instance for instance in instances if instance.score >= threshold and instance.area]
    found: list[Box] = []
    for instance in sorted(known, key=lambda instance: (-instance.score, -instance.area, instance.box)):
        if len(found) == most:
            break
        left = instance.mask & ~hidden
        if left.sum() >= _LEFT * instance.area:
            found.append(_box(left))
    return tuple(found)


def _box(mask: BoolMask) -> Box:
    height, width = mask.shape
    left, top, across, down = from_mask(mask, "").box
    return left / width, top / height, (left + across) / width, (top + down) / height
