"""Where what a network is shown lies in the picture: resizing, cropping and padding undone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from judge.types import FloatArray

Axis = tuple[float, float]
"""Step and start: pixel j of what is shown covers [step * j + start, step * (j + 1) + start] of the picture."""

# Of a ramp's ends filters of resizing see only one side, and eight bits are saturated there.
_ENDS = 0.1


@dataclass(frozen=True, slots=True)
class Placement:
    """Where what a network is shown lies in the picture.

    Attributes:
        picture: its height and width.
        shown: height and width of what the network is shown.
        rows, columns: the place of its pixels in the picture's.
    """

    picture: tuple[int, int]
    shown: tuple[int, int]
    rows: Axis
    columns: Axis

    def spread(self, mass: FloatArray) -> FloatArray:
        """Mass of pixels that are shown, [h, w], on the picture's, [H, W]: each lies evenly where its pixel does.

        The sum stays what it is, less what lies outside of the picture (padding).
        """
        down = _overlaps(self.rows, self.shown[0], self.picture[0])
        across = _overlaps(self.columns, self.shown[1], self.picture[1])
        return np.asarray(down @ mass @ across.T)

    def enlarge(self, grid: FloatArray) -> FloatArray:
        """Values of a grid laid over what is shown, [g, k], at the picture's pixels, [H, W].

        Bilinear, as Grad-CAM's maps are (Selvaraju et al. 2017); 0 where a crop left pixels out.
        """
        down = _between(self.rows, self.shown[0], self.picture[0], grid.shape[0])
        across = _between(self.columns, self.shown[1], self.picture[1], grid.shape[1])
        return np.asarray(down @ grid @ across.T)


def stretched(picture: tuple[int, int], shown: tuple[int, int]) -> Placement:
    """The whole picture, squeezed or stretched to what is shown."""
    rows, columns = ((size / of, 0.0) for size, of in zip(picture, shown, strict=True))
    return Placement(picture, shown, rows, columns)


def ramps(picture: tuple[int, int]) -> list[np.ndarray]:
    """Pictures [H, W, 3] uint8 that tell what becomes of a picture: black, white, darker to the top, to the left."""
    height, width = picture
    levels = [np.rint((np.arange(size) + 0.5) / size * 255).astype(np.uint8) for size in picture]
    down, across = levels[0][:, None], levels[1][None]
    black = np.zeros((height, width), dtype=np.uint8)
    found = (black, black + 255, np.broadcast_to(down, black.shape), np.broadcast_to(across, black.shape))
    return [np.repeat(one[..., None], 3, axis=2) for one in found]


def fitted(picture: tuple[int, int], shown: FloatArray) -> Placement | None:
    """The placement that :func:`ramps` tell, as a network is shown them: any resizing, cropping, padding, normalising.

    Args:
        picture: height and width.
        shown: [4, h, w].

    Returns:
        None where that is no shift and stretch of rows and columns.
    """
    black, white, down, across = shown
    range_ = white - black
    seen = np.abs(range_) > 0.5 * np.abs(range_).max(initial=0)
    if not seen.any():
        return None
    inside = np.where(seen, range_, 1)
    places = []
    for ramp, axis in ((down, 0), (across, 1)):
        line = seen.any(axis=1 - axis)
        share = np.where(seen, (ramp - black) / inside, 0).sum(axis=1 - axis) / np.maximum(1, seen.sum(axis=1 - axis))
        place = _fit(share, line, picture[axis])
        if place is None:
            return None
        places.append(place)
    return Placement(picture, (shown.shape[1], shown.shape[2]), places[0], places[1])


def _fit(share: FloatArray, seen: np.ndarray, size: int) -> Axis | None:
    """Step and start of an axis, from where in the picture, in [0, 1], each line's centre is from."""
    lines = np.flatnonzero(seen)
    ends = round(_ENDS * len(lines))
    lines = lines[ends : len(lines) - ends]
    if len(lines) < 2:
        return None
    whole = size / len(share)
    if np.abs(whole * (lines + 0.5) - share[lines] * size).max() <= size / 255:  # To one of 256 levels.
        return whole, 0.0
    step, middle = np.polyfit(lines + 0.5, share[lines] * size, 1)
    apart = np.abs(step * (lines + 0.5) + middle - share[lines] * size).max()
    # Eight bits, and a filter's own roundings.
    return (float(step), float(middle)) if step > 0 and apart <= max(1.0, 2 * size / 255) + step else None


def _overlaps(axis: Axis, shown: int, size: int) -> FloatArray:
    """[size, shown]: the share of each shown line that lies on each of the picture's."""
    step, start = axis
    edges = step * np.arange(shown + 1) + start
    pixels = np.arange(size)[:, None]
    covered = np.minimum(edges[1:], pixels + 1) - np.maximum(edges[:-1], pixels)
    return np.asarray(covered.clip(min=0) / step)


def _between(axis: Axis, shown: int, size: int, cells: int) -> FloatArray:
    """[size, cells]: how far each cell decides at the centre of each of the picture's lines."""
    step, start = axis
    centre = (np.arange(size) + 0.5 - start) / step  # In lines of what is shown.
    place = np.clip(centre / shown * cells - 0.5, 0, cells - 1)
    weights = np.maximum(0, 1 - np.abs(place[:, None] - np.arange(cells)))
    # A line counts as seen if most of it is.
    return np.asarray(weights * ((centre > 0) & (centre < shown))[:, None])
