"""The twelve tasks as things to draw, and where a person has them.

Each is drawn in the person's heights around an origin of its own: the grip of what hangs or is held up, the bottom
centre of what stands. Sizes are exaggerated, so that a picture of 160 pixels shows them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from judge.calibration.drawing.canvas import Colour, Pen, jitter, oval, pick, shade
from judge.calibration.drawing.people import Point

_BRIGHT = ((220, 44, 52), (32, 96, 200), (244, 160, 20), (30, 150, 90), (150, 50, 170), (20, 170, 190))
_WHITE: Colour = (248, 248, 244)
_BLACK: Colour = (34, 34, 38)
_WOOD: Colour = (150, 104, 62)


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


_FRONT = Place((0, -0.42), hand=(0.11, -0.43), other=(0.11, -0.43))
_TABLE = Place((0.4, -0.4), reach=0.62, table=True, upright=True)
_HANGING = Place((0.23, -0.42), hand=(0.23, -0.42), reach=0.38, tilt=0.1)
_RAISED = Place((0.3, -0.63), hand=(0.3, -0.63), reach=0.58, rise=0.12, tilt=0.3)
_FLOOR = Place((0.42, 0.01), reach=0.7, upright=True)


def draw_table(pen: Pen, rng: np.random.Generator) -> None:
    """A small round table whose top is at the origin; one 0.4 high reaches the floor."""
    wood = jitter(rng, _WOOD)
    pen.stroke(((0, 0), (0, 0.4)), 0.05, shade(wood, 0.7))
    pen.stroke(((-0.1, 0.4), (0.1, 0.4)), 0.035, shade(wood, 0.7))
    pen.ellipse(0, 0.015, 0.22, 0.035, wood)


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


def _handbag(pen: Pen, rng: np.random.Generator) -> None:
    leather = pick(rng, ((176, 40, 48), (148, 88, 40), (120, 50, 120), (36, 36, 44), (226, 150, 60)))
    pen.stroke(oval(0, 0.12, 0.075, 0.13, start=0.5, stop=1.0), 0.024, shade(leather, 0.65))
    pen.polygon(((-0.12, 0.11), (0.12, 0.11), (0.155, 0.31), (-0.155, 0.31)), leather)
    pen.polygon(((-0.12, 0.11), (0.12, 0.11), (0.13, 0.18), (0, 0.225), (-0.13, 0.18)), shade(leather, 0.75))
    pen.ellipse(0, 0.215, 0.026, None, (244, 208, 84))


def _cake(pen: Pen, rng: np.random.Generator) -> None:
    sponge = pick(rng, ((250, 200, 214), (252, 240, 220), (120, 72, 46), (250, 226, 150)))
    icing = pick(rng, ((255, 255, 250), (240, 90, 130), (86, 48, 32)))
    pen.ellipse(0, -0.01, 0.21, 0.028, _WHITE)
    pen.rectangle(-0.17, -0.13, 0.17, -0.015, sponge)
    pen.rectangle(-0.115, -0.23, 0.115, -0.13, sponge)
    for width, top in ((0.17, -0.13), (0.115, -0.23)):
        pen.rectangle(-width, top, width, top + 0.03, icing)
        for x in np.linspace(-width + 0.025, width - 0.025, 6).tolist():
            pen.ellipse(x, top + 0.03, 0.025, 0.022, icing)
    for x in (-0.075, 0.0, 0.075):
        pen.stroke(((x, -0.23), (x, -0.29)), 0.022, pick(rng, _BRIGHT))
        pen.ellipse(x, -0.315, 0.014, 0.026, (255, 196, 40))


def _book(pen: Pen, rng: np.random.Generator) -> None:
    cover = pick(rng, _BRIGHT)
    pen.polygon(((-0.205, -0.25), (0, -0.215), (0.205, -0.25), (0.205, -0.0), (0, 0.03), (-0.205, 0.0)), cover)
    for side in (-1, 1):
        pen.polygon(
            ((0, -0.225), (side * 0.18, -0.27), (side * 0.18, -0.035), (0, 0.005)),
            shade(_WHITE, 1 if side > 0 else 0.93),
        )
        for y in (-0.2, -0.16, -0.12, -0.08):
            pen.stroke(((side * 0.03, y + 0.02), (side * 0.15, y - 0.015)), 0.011, (130, 130, 140))
    pen.stroke(((0, -0.225), (0, 0.005)), 0.01, (110, 110, 110))


def _racket(pen: Pen, rng: np.random.Generator) -> None:
    frame = pick(rng, _BRIGHT)
    if rng.random() < 0.6:
        pen.ellipse(0.2, -0.2, 0.05, None, (214, 240, 50))
        pen.stroke(oval(0.23, -0.23, 0.045, 0.045, start=0.3, stop=0.6), 0.01, _WHITE)
    pen.stroke(((0, 0.07), (0, -0.08)), 0.04, _BLACK)
    pen.stroke(((0, -0.08), (0, -0.17)), 0.028, frame)
    pen.ellipse(0, -0.31, 0.125, 0.155, (236, 236, 220))
    for step in np.linspace(-0.08, 0.08, 5).tolist():
        pen.stroke(((step, -0.31 - 0.11), (step, -0.31 + 0.11)), 0.007, (140, 140, 130))
        pen.stroke(((-0.09, -0.31 + step), (0.09, -0.31 + step)), 0.007, (140, 140, 130))
    pen.stroke(oval(0, -0.31, 0.125, 0.155), 0.03, frame, closed=True)


def _dog(pen: Pen, rng: np.random.Generator) -> None:
    coat = pick(rng, ((140, 88, 46), (60, 48, 44), (214, 170, 104), (236, 228, 214)))
    dark = shade(coat, 0.62)
    pen.stroke(((-0.17, -0.24), (-0.25, -0.36)), 0.04, coat)
    for x in (-0.16, -0.11, 0.09, 0.14):
        pen.stroke(((x, -0.16), (x, -0.02)), 0.05, dark if x in {-0.11, 0.09} else coat)
    pen.ellipse(-0.01, -0.21, 0.2, 0.09, coat)
    pen.stroke(((0.12, -0.23), (0.19, -0.34)), 0.1, coat)
    pen.stroke(((0.13, -0.28), (0.19, -0.3)), 0.025, pick(rng, _BRIGHT))
    pen.ellipse(0.2, -0.38, 0.085, 0.075, coat)
    pen.stroke(((0.25, -0.365), (0.3, -0.355)), 0.065, coat)
    pen.ellipse(0.325, -0.37, 0.02, None, _BLACK)
    pen.ellipse(0.15, -0.36, 0.036, 0.08, dark)
    pen.ellipse(0.225, -0.4, 0.015, None, _BLACK)
    if rng.random() < 0.4:
        pen.ellipse(-0.06, -0.22, 0.06, 0.05, dark)


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


def _skateboard(pen: Pen, rng: np.random.Generator) -> None:
    deck, wheels = pick(rng, _BRIGHT), pick(rng, ((250, 240, 200), (255, 130, 40), (60, 60, 66)))
    for x in (-0.17, 0.17):
        pen.stroke(((x, -0.06), (x, -0.04)), 0.05, (120, 124, 130))
        for step in (-0.04, 0.04):
            pen.ellipse(x + step, -0.03, 0.034, None, wheels)
            pen.ellipse(x + step, -0.03, 0.012, None, _BLACK)
    pen.stroke(((-0.32, -0.125), (-0.24, -0.085), (0.24, -0.085), (0.32, -0.125)), 0.045, deck)
    pen.stroke(((-0.24, -0.1), (0.24, -0.1)), 0.018, _BLACK)


def _skateboard_upright(pen: Pen, rng: np.random.Generator) -> None:
    """The underside of a board on its end."""
    deck = pick(rng, _BRIGHT)
    pen.stroke(((0, -0.09), (0, -0.47)), 0.17, deck)
    pen.stroke(((-0.05, -0.28), (0.0, -0.36), (0.0, -0.2), (0.05, -0.28)), 0.03, _WHITE)
    for y in (-0.12, -0.44):
        pen.stroke(((-0.09, y), (0.09, y)), 0.025, (120, 124, 130))
        for x in (-0.09, 0.09):
            pen.ellipse(x, y, 0.03, 0.036, (250, 240, 200))


def _surfboard(pen: Pen, rng: np.random.Generator) -> None:
    board, stripe = pick(rng, ((250, 250, 240), (255, 226, 90), (120, 210, 220))), pick(rng, _BRIGHT)
    pen.polygon(
        (
            (-0.05, -0.02),
            (-0.125, -0.3),
            (-0.13, -0.55),
            (-0.085, -0.85),
            (0, -1.05),
            (0.085, -0.85),
            (0.13, -0.55),
            (0.125, -0.3),
            (0.05, -0.02),
        ),
        board,
    )
    pen.stroke(((0, -0.98), (0, -0.05)), 0.03, stripe)
    pen.polygon(((-0.128, -0.62), (0.128, -0.52), (0.13, -0.42), (-0.128, -0.52)), stripe)
    pen.polygon(((-0.125, -0.3), (0.125, -0.2), (0.12, -0.16), (-0.12, -0.26)), shade(stripe, 0.7))


def _tie(pen: Pen, rng: np.random.Generator) -> None:
    silk = pick(rng, _BRIGHT)
    blade = ((-0.03, 0.04), (0.03, 0.04), (0.07, 0.29), (0, 0.36), (-0.07, 0.29))
    pen.polygon(blade, silk)
    for y in (0.1, 0.18, 0.26):
        width = 0.022 + 0.14 * y
        pen.stroke(((-width, y + 0.035), (width, y - 0.01)), 0.022, _WHITE if sum(silk) < 420 else _BLACK)
    pen.polygon(((-0.048, -0.025), (0.048, -0.025), (0.03, 0.05), (-0.03, 0.05)), shade(silk, 0.72))


def _laptop(pen: Pen, rng: np.random.Generator) -> None:
    case = pick(rng, ((172, 176, 184), (70, 72, 80)))
    pen.polygon(((-0.19, -0.3), (0.19, -0.3), (0.19, -0.06), (-0.19, -0.06)), _BLACK)
    pen.rectangle(-0.17, -0.28, 0.17, -0.08, jitter(rng, (96, 190, 246)))
    pen.rectangle(-0.14, -0.25, 0.02, -0.18, _WHITE)
    for y in (-0.15, -0.115):
        pen.stroke(((-0.14, y), (0.1, y)), 0.014, (30, 90, 160))
    pen.polygon(((-0.19, -0.06), (0.19, -0.06), (0.24, 0.01), (-0.24, 0.01)), case)
    pen.polygon(((-0.165, -0.05), (0.165, -0.05), (0.18, -0.018), (-0.18, -0.018)), shade(case, 0.5))


def _bicycle(pen: Pen, rng: np.random.Generator) -> None:
    frame = pick(rng, _BRIGHT)
    back, front, seat, bars, crank = (-0.24, -0.17), (0.24, -0.17), (-0.09, -0.36), (0.17, -0.38), (-0.04, -0.16)
    for x, y in (back, front):
        for angle in np.arange(0.0, np.pi, np.pi / 4).tolist():
            across, down = 0.15 * np.cos(angle), 0.15 * np.sin(angle)
            pen.stroke(((x - across, y - down), (x + across, y + down)), 0.006, (190, 190, 196))
        pen.stroke(oval(x, y, 0.155, 0.155), 0.036, _BLACK, closed=True)
    for line in ((back, seat, crank, back), (seat, bars, crank), (bars, front)):
        pen.stroke(line, 0.034, frame)
    pen.stroke((seat, (-0.105, -0.42)), 0.024, frame)
    pen.stroke(((-0.16, -0.43), (-0.05, -0.43)), 0.04, _BLACK)
    pen.stroke((bars, (0.155, -0.46), (0.22, -0.48)), 0.028, _BLACK)
    pen.ellipse(*crank, 0.035, None, (120, 120, 126))


Draw = Callable[[Pen, np.random.Generator], None]
WAYS: dict[str, tuple[tuple[Draw, Place], ...]] = {
    "umbrella": ((_umbrella, Place((0.17, -0.62), hand=(0.17, -0.62), reach=0.54, rise=0.32, tilt=0.12)),),
    "handbag": ((_handbag, _HANGING), (_handbag, Place((0.24, -0.58), hand=(0.24, -0.58), reach=0.4, tilt=0.1))),
    "cake": ((_cake, _FRONT), (_cake, _TABLE)),
    "book": ((_book, _FRONT), (_book, Place((0.27, -0.6), hand=(0.27, -0.58), reach=0.48, tilt=0.15)), (_book, _TABLE)),
    "tennis racket": ((_racket, _RAISED),),
    "dog": ((_dog, _FLOOR),),
    "pizza": (
        (_pizza, _FRONT),
        (_pizza, _TABLE),
        (_pizza, Place((0.3, -0.66), hand=(0.3, -0.64), reach=0.52, tilt=0.15)),
    ),
    "skateboard": (
        (_skateboard, Place((0, 0.115), lift=0.115, reach=0.36, upright=True)),
        (_skateboard_upright, Place((0.26, 0), hand=(0.24, -0.5), reach=0.38, upright=True)),
    ),
    "surfboard": (
        (_surfboard, Place((0.27, 0), hand=(0.3, -0.5), reach=0.42, rise=0.06, behind=True, upright=True, tilt=0.06)),
    ),
    "tie": ((_tie, Place((0, -0.715), tilt=0.15)),),
    "laptop": ((_laptop, _TABLE), (_laptop, _FRONT)),
    "bicycle": ((_bicycle, Place((0.32, 0.01), hand=(0.28, -0.46), reach=0.72, upright=True)),),
}
"""Task -> the ways to have it: what paints it around the pen's origin, and where that is."""
