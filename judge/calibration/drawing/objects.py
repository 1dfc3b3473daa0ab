"""The twelve tasks as things to draw, and where a person has them.

Each is drawn in the person's heights around an origin of its own: the grip of what hangs or is held up, the bottom
centre of what stands. Sizes are exaggerated, so that a picture of 160 pixels shows them.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from judge.calibration.drawing.canvas import Colour, Pen, jitter, oval, pick, shade
from judge.calibration.drawing.people import Point
from judge.calibration.drawing.sketches import Draw, sketch

_BRIGHT = ((220, 44, 52), (32, 96, 200), (244, 160, 20), (30, 150, 90), (150, 50, 170), (20, 170, 190))
_WHITE: Colour = (248, 248, 244)
_BLACK: Colour = (34, 34, 38)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a thing is, for a person whose right-hand side it is on; lengths in the person's heights.

    Attributes:
        origin: of the thing, from the feet.
        hand: where the hand on its side is; None: anywhere.
        other: likewise the other hand, x to the other side.
        reach: how far the thing extends to its side.
        rise: how far it extends above the head.
        lift: how far it lifts the person.
        behind: the person covers it.
        table: it stands on a small table.
        upright: it does not lean with the person.
        tilt: how far it is turned at random either way, in radians.
    """

    origin: Point
    hand: Point | None = None
    other: Point | None = None
    reach: float = 0.3
    rise: float = 0.0
    lift: float = 0.0
    behind: bool = False
    table: bool = False
    upright: bool = False
    tilt: float = 0.0

    @property
    def front(self) -> bool:
        """Whether it covers some of the body."""
        return not (self.behind or self.lift or self.origin[0])


_FRONT = Place((0, -0.42), hand=(0.11, -0.43), other=(0.11, -0.43))
_TABLE = Place((0.4, -0.4), reach=0.62, table=True, upright=True)
_HANGING = Place((0.23, -0.42), hand=(0.23, -0.42), reach=0.38, tilt=0.1)
_RAISED = Place((0.3, -0.63), hand=(0.3, -0.63), reach=0.58, rise=0.12, tilt=0.3)
_FLOOR = Place((0.42, 0.01), reach=0.7, upright=True)


def _umbrella(pen: Pen, rng: np.random.Generator) -> None:
    first = pick(rng, _BRIGHT)
    second = _WHITE if rng.random() < 0.5 else shade(first, 0.65)
    pen.stroke(((0, 0.08), (0, -0.52)), 0.022, (92, 70, 52))
    pen.stroke(oval(0.03, 0.08, 0.03, 0.035, start=0.0, stop=0.5), 0.022, (92, 70, 52))
    edges = np.linspace(-0.36, 0.36, 7).tolist()
    for number, (left, right) in enumerate(pairwise(edges)):
        # A rib is half an ellipse from the tip to its place on the rim; the rim hangs between ribs.
        outer, inner = (oval(0, -0.39, abs(x), 0.25, start=0.75, stop=1.0 if x > 0 else 0.5) for x in (left, right))
        hang = oval((left + right) / 2, -0.39, (right - left) / 2, -0.035, start=0.5, stop=0.0)
        pen.polygon(np.concatenate([outer, hang, inner[::-1]]), first if number % 2 else second)
    pen.stroke(((0, -0.64), (0, -0.68)), 0.018, (92, 70, 52))


def _pizza(pen: Pen, rng: np.random.Generator) -> None:
    pen.ellipse(0, -0.15, 0.2, 0.165, jitter(rng, (198, 134, 66)))
    pen.ellipse(0, -0.155, 0.172, 0.138, (206, 62, 34))
    pen.ellipse(0, -0.155, 0.16, 0.127, jitter(rng, (252, 206, 84)))
    turn = float(rng.random())
    for number in range(7):
        out = 0.68 if number else 0.0
        angle = 2 * np.pi * (number / 6 + turn)
        x, y = 0.16 * out * np.cos(angle), -0.155 + 0.127 * out * np.sin(angle)
        pen.ellipse(x, y, 0.034, 0.029, (190, 40, 32))
        pen.ellipse(x * 0.55 + 0.05, y * 0.6 - 0.09, 0.012, None, (60, 120, 50))
    for angle in np.arange(turn * np.pi, turn * np.pi + np.pi, np.pi / 3).tolist():
        x, y = 0.185 * np.cos(angle), 0.15 * np.sin(angle)
        pen.stroke(((-x, -0.155 - y), (x, -0.155 + y)), 0.008, (170, 100, 40))


def _tie(pen: Pen, rng: np.random.Generator) -> None:
    silk = pick(rng, _BRIGHT)
    blade = ((-0.03, 0.04), (0.03, 0.04), (0.07, 0.29), (0, 0.36), (-0.07, 0.29))
    pen.polygon(blade, silk)
    for y in (0.1, 0.18, 0.26):
        width = 0.022 + 0.14 * y
        pen.stroke(((-width, y + 0.035), (width, y - 0.01)), 0.022, _WHITE if sum(silk) < 420 else _BLACK)
    pen.polygon(((-0.048, -0.025), (0.048, -0.025), (0.03, 0.05), (-0.03, 0.05)), shade(silk, 0.72))


def _ways(draw: Draw, *places: Place) -> tuple[tuple[Draw, Place], ...]:
    return tuple((draw, place) for place in places)


WAYS: dict[str, tuple[tuple[Draw, Place], ...]] = {
    "umbrella": _ways(_umbrella, Place((0.17, -0.62), hand=(0.17, -0.62), reach=0.54, rise=0.32, tilt=0.12)),
    "handbag": _ways(sketch("handbag"), _HANGING, Place((0.24, -0.58), hand=(0.24, -0.58), reach=0.4, tilt=0.1)),
    "cake": _ways(sketch("cake"), _FRONT, _TABLE),
    "book": _ways(sketch("book"), _FRONT, Place((0.27, -0.6), hand=(0.27, -0.58), reach=0.48, tilt=0.15), _TABLE),
    "tennis racket": _ways(sketch("tennis racket"), _RAISED),
    "dog": _ways(sketch("dog"), _FLOOR),
    "pizza": _ways(_pizza, _FRONT, _TABLE, Place((0.3, -0.66), hand=(0.3, -0.64), reach=0.52, tilt=0.15)),
    "skateboard": (
        (sketch("skateboard"), Place((0, 0.115), lift=0.115, reach=0.36, upright=True)),
        (sketch("skateboard on end"), Place((0.26, 0), hand=(0.24, -0.5), reach=0.38, upright=True)),
    ),
    "surfboard": _ways(
        sketch("surfboard"),
        Place((0.27, 0), hand=(0.3, -0.5), reach=0.42, rise=0.06, behind=True, upright=True, tilt=0.06),
    ),
    "tie": _ways(_tie, Place((0, -0.715), tilt=0.15)),
    "laptop": _ways(sketch("laptop"), _TABLE, _FRONT),
    "bicycle": _ways(sketch("bicycle"), Place((0.32, 0.01), hand=(0.28, -0.46), reach=0.72, upright=True)),
}
"""Task -> the ways to have it: what paints it around the pen's origin, and where that is."""
