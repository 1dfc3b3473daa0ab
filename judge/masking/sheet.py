"""Contact sheets of images before and after masking."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, cast

import numpy as np

from judge.masking.instances import BoolMask, Pixels

HEIGHT = 160
_WIDEST = 280
_GAP = 6
_CAPTION = 14
_LETTER = 7
_WHITE = 255
_OUTLINE = (255, 0, 255)


class Tile(NamedTuple):
    """One image of a sheet: panels side by side, each [160, w, 3], under a title.

    ``has_mask``: whether something is hidden; other tiles are shown if there is room left.
    """

    title: str
    panels: tuple[Pixels, ...]
    has_mask: bool = True


def before_and_after(title: str, before: Pixels, after: Pixels, region: BoolMask) -> Tile:
    """A tile of an image with the outline of what will be hidden, and of the masked image."""
    import cv2

    outlined = before.copy()
    contours, _ = cv2.findContours(region.view(np.uint8), cv2.RETR_CCOMP, cv2.CHAIN_APPROX_NONE)
    cv2.drawContours(outlined, contours, -1, _OUTLINE, max(1, round(before.shape[0] / HEIGHT)))
    return Tile(title, (_shrink(outlined), _shrink(after)), bool(region.any()))


def contact_sheet(tiles: Sequence[Tile], width: int = 1600) -> Pixels:
    """The tiles one after the other, [H, W, 3], white between them, their titles in small letters above.

    Rows end at ``width``; a single wider tile has a row to itself.
    """
    import cv2

    gap = np.full((HEIGHT, 2, 3), _WHITE, dtype=np.uint8)
    rows = [[part for panel in shown.panels for part in (panel, gap)][:-1] for shown in tiles]
    panels = [np.concatenate(row, axis=1) for row in rows]
    places, left, top, right = [], _GAP, _GAP, _GAP
    for panel in panels:
        if left + panel.shape[1] > width and left > _GAP:
            left, top = _GAP, top + HEIGHT + _CAPTION + _GAP
        places.append((left, top))
        left += panel.shape[1] + _GAP
        right = max(right, left)
    sheet = np.full((top + HEIGHT + _CAPTION + _GAP, right, 3), _WHITE, dtype=np.uint8)
    for shown, panel, (left, top) in zip(tiles, panels, places, strict=True):
        room = panel.shape[1] // _LETTER
        fits = shown.title if len(shown.title) <= room else f"...{shown.title[len(shown.title) + 3 - room :]}"
        cv2.putText(sheet, fits, (left, top + 10), cv2.FONT_HERSHEY_SIMPLEX, 0.35, (0, 0, 0), 1, cv2.LINE_AA)
        sheet[top + _CAPTION : top + _CAPTION + HEIGHT, left : left + panel.shape[1]] = panel
    return sheet


def _shrink(pixels: Pixels) -> Pixels:
    """To the height of a sheet's row; very wide images are squeezed."""
    import cv2

    width = round(pixels.shape[1] * HEIGHT / pixels.shape[0])
    return cast("Pixels", cv2.resize(pixels, (min(max(1, width), _WIDEST), HEIGHT), interpolation=cv2.INTER_AREA))
