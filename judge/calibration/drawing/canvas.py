"""Two buffers drawn with the same shapes: the colours, and the label of the thing that each sub-pixel belongs to.

Shapes have hard edges and cover whole sub-pixels, so that both buffers agree to the last one; colours become smooth
when sub-pixels are averaged. The mask of a thing is every pixel that it has a part in: none of its colour is outside.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import cv2
import numpy as np
import numpy.typing as npt

from judge.masking.instances import BoolMask, Pixels
from judge.types import FloatArray

Colour = tuple[int, int, int]
"""RGB, 0 to 255."""
Points = FloatArray | Sequence[tuple[float, float]]
"""[N, 2]: x to the right, y downwards."""

BACKGROUND = 0
_FINE = 2  # Sub-pixels along the side of a pixel.
_SHIFT = 4  # OpenCV's coordinates are integers: in sixteenths of a sub-pixel here.
_TURN = np.linspace(0, 2 * np.pi, 28, endpoint=False)
_CIRCLE = np.stack([np.cos(_TURN), np.sin(_TURN)], axis=1)


class Canvas:
    """A square picture under way.

    Attributes:
        pixels: [S, S, 3] uint8 RGB, S = 2 x the picture's side.
        labels: [S, S] uint8, whose each sub-pixel is; ``BACKGROUND`` is nobody's.
        label: what shapes write into ``labels``; None: they leave it as it is.
    """

    def __init__(self, size: int) -> None:
        self.pixels: Pixels = np.zeros((size * _FINE, size * _FINE, 3), dtype=np.uint8)
        self.labels: npt.NDArray[np.uint8] = np.zeros((size * _FINE, size * _FINE), dtype=np.uint8)
        self.label: int | None = None

    @contextmanager
    def drawing(self, label: int | None) -> Iterator[None]:
        """Shapes within the block belong to ``label``."""
        before, self.label = self.label, label
        try:
            yield
        finally:
            self.label = before

    @contextmanager
    def inside(self, label: int) -> Iterator[None]:
        """Paint within the block shows on the sub-pixels of ``label`` alone and changes no label."""
        before = self.pixels.copy()
        with self.drawing(None):
            yield
        cv2.copyTo(before, (self.labels != label).view(np.uint8), self.pixels)

    def mask(self, label: int) -> BoolMask:
        """[H, W]: the pixels that ``label`` has a sub-pixel of."""
        fine = self.labels == label
        rows = fine[::_FINE] | fine[1::_FINE]
        return np.asarray(rows[:, ::_FINE] | rows[:, 1::_FINE])

    def smooth(self) -> Pixels:
        """[H, W, 3]: each pixel the average of its sub-pixels."""
        side = len(self.pixels) // _FINE
        return np.asarray(cv2.resize(self.pixels, (side, side), interpolation=cv2.INTER_AREA), dtype=np.uint8)


@dataclass(frozen=True, slots=True, eq=False)
class Pen:
    """Draws on a canvas in coordinates of its own; a pen of ``at`` has the picture's: 0 to 1 both ways.

    Attributes:
        canvas: what it draws on.
        matrix: [2, 2], its coordinates -> sub-pixels, with ``offset``, [2].
        scale: sub-pixels per unit, for the width of strokes.
    """

    canvas: Canvas
    matrix: FloatArray
    offset: FloatArray
    scale: float

    @classmethod
    def of(cls, canvas: Canvas) -> Pen:
        """The pen of the whole picture."""
        side = float(len(canvas.pixels))
        return cls(canvas, np.eye(2) * side, np.zeros(2), side)

    def at(self, x: float, y: float, *, scale: float = 1.0, flip: bool = False, angle: float = 0.0) -> Pen:
        """A pen whose origin is this one's (x, y), its unit ``scale`` of this one's.

        Args:
            x: to the right.
            y: downwards.
            scale: its unit, in this one's.
            flip: its x runs to the left.
            angle: how far it is turned clockwise, in radians, before it is flipped.
        """
        cos, sin = np.cos(angle), np.sin(angle)
        turn = np.array([[cos, -sin], [sin, cos]])
        if flip:
            turn[0] = -turn[0]
        return Pen(
            self.canvas, scale * self.matrix @ turn, self.matrix @ np.array([x, y]) + self.offset, self.scale * scale
        )

    def polygon(self, points: Points, colour: Colour) -> None:
        """A filled polygon."""
        corners = [self._fixed(points)]
        cv2.fillPoly(self.canvas.pixels, corners, colour, cv2.LINE_8, _SHIFT)
        if self.canvas.label is not None:
            cv2.fillPoly(self.canvas.labels, corners, self.canvas.label, cv2.LINE_8, _SHIFT)

    def rectangle(self, left: float, top: float, right: float, bottom: float, colour: Colour) -> None:
        """A filled rectangle."""
        self.polygon(((left, top), (right, top), (right, bottom), (left, bottom)), colour)

    def ellipse(self, x: float, y: float, radius: float, height: float | None, colour: Colour) -> None:
        """A filled ellipse around (x, y), ``radius`` wide and ``height`` high either way; None: a circle."""
        self.polygon(oval(x, y, radius, radius if height is None else height), colour)

    def stroke(self, points: Points, width: float, colour: Colour, *, closed: bool = False) -> None:
        """A line along ``points`` with round ends, at least one sub-pixel wide."""
        line, thickness = [self._fixed(points)], max(1, round(width * self.scale))
        cv2.polylines(self.canvas.pixels, line, closed, colour, thickness, cv2.LINE_8, _SHIFT)
        if self.canvas.label is not None:
            cv2.polylines(self.canvas.labels, line, closed, self.canvas.label, thickness, cv2.LINE_8, _SHIFT)

    def dots(self, points: FloatArray, width: float, colours: npt.NDArray[np.uint8]) -> None:
        """Squares of background at ``points``, [N, 2], in ``colours``, [N, 3]; those across the border are left out."""
        side, reach = len(self.canvas.pixels), max(1, round(width * self.scale))
        corners = np.floor(points @ self.matrix.T + self.offset).astype(np.int64)
        inside = ((corners >= 0) & (corners <= side - reach)).all(axis=1)
        x, y = corners[inside].T
        for down in range(reach):
            for right in range(reach):
                self.canvas.pixels[y + down, x + right] = colours[inside]

    def speckle(
        self,
        rng: np.random.Generator,
        box: tuple[float, float, float, float],
        colours: Sequence[Colour],
        number: int,
    ) -> None:
        """``number`` small dots of ``colours`` strewn over ``box`` (left, top, right, bottom)."""
        corner, opposite = np.array(box[:2]), np.array(box[2:])
        points = corner + rng.random((number, 2)) * (opposite - corner)
        self.dots(points, 0.009, np.array(colours, dtype=np.uint8)[rng.integers(len(colours), size=number)])

    def gradient(self, top: float, bottom: float, colours: tuple[Colour, Colour]) -> None:
        """The whole width from height ``top`` to ``bottom``, from one colour to the other; for upright pens."""
        first, last = (round(float(y * self.matrix[1, 1] + self.offset[1])) for y in (top, bottom))
        rows = np.linspace(*colours, num=max(1, last - first))
        self.canvas.pixels[first:last] = rows.astype(np.uint8)[: len(self.canvas.pixels[first:last]), None]

    def _fixed(self, points: Points) -> npt.NDArray[np.int32]:
        # OpenCV's integer coordinates are centres of sub-pixels, ours corners.
        corners = np.asarray(points) @ self.matrix.T + (self.offset - 0.5)
        return np.asarray(np.rint(corners * (1 << _SHIFT)), dtype=np.int32)


def oval(x: float, y: float, radius: float, height: float, *, start: float = 0.0, stop: float = 1.0) -> FloatArray:
    """[N, 2]: an ellipse around (x, y), or the arc of it from ``start`` to ``stop``, turns clockwise from the right."""
    if (start, stop) == (0.0, 1.0):
        return np.asarray(_CIRCLE * (radius, height) + (x, y))
    turn = 2 * np.pi * np.linspace(start, stop, 16)
    return np.stack([x + radius * np.cos(turn), y + height * np.sin(turn)], axis=1)


def shade(colour: Colour, factor: float) -> Colour:
    """``colour`` made darker (``factor`` below 1) or lighter (above)."""
    red, green, blue = (min(255, round(part * factor)) for part in colour)
    return red, green, blue


def jitter(rng: np.random.Generator, colour: Colour, amount: int = 14) -> Colour:
    """``colour`` with up to ``amount`` added to or taken from each part."""
    red, green, blue = (
        min(255, max(0, part + int(step)))
        for part, step in zip(colour, rng.integers(-amount, amount + 1, size=3), strict=True)
    )
    return red, green, blue


def pick(rng: np.random.Generator, colours: Sequence[Colour], amount: int = 14) -> Colour:
    """One of ``colours``, jittered."""
    return jitter(rng, colours[int(rng.integers(len(colours)))], amount)
