"""The eight settings: a background each, and a prop that may stand in front of people.

In the picture's coordinates, 0 to 1; nothing here belongs to any thing, a crowd in a stadium included.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from judge.calibration.drawing.canvas import Pen, jitter, pick, shade
from judge.calibration.drawing.grounds import court, stadium
from judge.calibration.drawing.indoors import bedroom, kitchen, office
from judge.calibration.drawing.outdoors import beach, park, street


def _counter(pen: Pen, rng: np.random.Generator) -> None:
    wood = pick(rng, ((150, 96, 58), (196, 150, 96), (90, 110, 120)))
    pen.rectangle(-0.19, -0.26, 0.19, 0, wood)
    pen.rectangle(-0.16, -0.2, 0.16, -0.02, shade(wood, 1.15))
    pen.rectangle(-0.21, -0.3, 0.21, -0.25, shade(wood, 0.6))
    pen.ellipse(-0.08, -0.32, 0.07, 0.025, (236, 236, 230))
    for x, fruit in ((-0.11, (220, 60, 40)), (-0.07, (250, 170, 40)), (-0.04, (120, 180, 60))):
        pen.ellipse(x, -0.345, 0.026, None, fruit)


def _hydrant(pen: Pen, rng: np.random.Generator) -> None:
    red = pick(rng, ((206, 44, 40), (236, 180, 40)))
    pen.rectangle(-0.06, -0.2, 0.06, 0, red)
    pen.ellipse(0, -0.2, 0.065, 0.05, shade(red, 0.85))
    pen.rectangle(-0.1, -0.15, 0.1, -0.1, shade(red, 0.7))
    pen.ellipse(0, -0.125, 0.032, None, shade(red, 1.2))
    pen.rectangle(-0.08, -0.03, 0.08, 0, shade(red, 0.6))


def _castle(pen: Pen, rng: np.random.Generator) -> None:
    sand = jitter(rng, (214, 174, 112))
    pen.polygon(((-0.17, 0), (-0.14, -0.12), (0.14, -0.12), (0.17, 0)), sand)
    for x in (-0.1, 0.0, 0.1):
        pen.rectangle(x - 0.035, -0.19, x + 0.035, -0.1, shade(sand, 0.9))
        for step in (-0.025, 0.025):
            pen.rectangle(x + step - 0.01, -0.21, x + step + 0.01, -0.19, shade(sand, 0.9))
    pen.ellipse(0, -0.02, 0.035, 0.06, shade(sand, 0.6))
    pen.stroke(((0, -0.2), (0, -0.29)), 0.01, (110, 80, 60))
    pen.polygon(((0, -0.29), (0.06, -0.265), (0, -0.24)), pick(rng, ((220, 50, 50), (40, 110, 200))))


def _balls(pen: Pen, rng: np.random.Generator) -> None:
    """A wire basket full of balls."""
    ball = pick(rng, ((214, 232, 60), (232, 120, 40)))
    for x, y in ((-0.08, -0.22), (0, -0.24), (0.08, -0.22), (-0.04, -0.27), (0.05, -0.27)):
        pen.ellipse(x, y, 0.04, None, jitter(rng, ball))
    pen.polygon(((-0.14, -0.22), (0.14, -0.22), (0.11, 0), (-0.11, 0)), (70, 74, 80))
    for x in (-0.08, -0.03, 0.03, 0.08):
        pen.stroke(((x * 1.2, -0.21), (x, -0.01)), 0.01, (150, 156, 160))


def _plant(pen: Pen, rng: np.random.Generator) -> None:
    leaf = jitter(rng, (50, 130, 70))
    for x, y in ((-0.13, -0.26), (-0.07, -0.33), (0, -0.37), (0.07, -0.33), (0.13, -0.26)):
        pen.stroke(((0, -0.13), (x * 0.6, y + 0.05), (x, y)), 0.036, shade(leaf, 1 + 2 * abs(x)))
    pen.polygon(((-0.09, -0.15), (0.09, -0.15), (0.065, 0), (-0.065, 0)), pick(rng, ((190, 100, 66), (230, 230, 226))))


def _bush(pen: Pen, rng: np.random.Generator) -> None:
    leaf = jitter(rng, (48, 118, 56))
    for x, y in ((-0.13, -0.06), (0.13, -0.06), (-0.06, -0.13), (0.07, -0.13), (0, -0.05)):
        pen.ellipse(x, y, 0.1, None, leaf)
    for x, y in rng.uniform((-0.17, -0.18), (0.17, -0.02), size=(9, 2)).tolist():
        pen.ellipse(x, y, 0.018, None, pick(rng, ((240, 110, 150), (250, 230, 110), (110, 180, 90))))


def _armchair(pen: Pen, rng: np.random.Generator) -> None:
    cloth = pick(rng, ((180, 90, 90), (90, 120, 150), (150, 140, 110)))
    pen.rectangle(-0.13, -0.3, 0.13, 0, cloth)
    pen.ellipse(0, -0.3, 0.13, 0.04, cloth)
    for x in (-0.15, 0.15):
        pen.stroke(((x, -0.15), (x, 0)), 0.07, shade(cloth, 0.8))
    pen.rectangle(-0.12, -0.12, 0.12, -0.04, shade(cloth, 1.2))


def _barrier(pen: Pen, rng: np.random.Generator) -> None:
    """Of iron bars, with a football before it."""
    iron = pick(rng, ((120, 126, 134), (230, 190, 50), (200, 60, 56)))
    for x in np.linspace(-0.2, 0.2, 9).tolist():
        pen.stroke(((x, -0.24), (x, -0.04)), 0.014, shade(iron, 0.85))
    pen.stroke(((-0.2, -0.01), (-0.2, -0.25), (0.2, -0.25), (0.2, -0.01)), 0.024, iron)
    ball = pen.at(float(rng.uniform(-0.1, 0.1)), -0.065)
    ball.ellipse(0, 0, 0.065, None, (250, 250, 250))
    for x, y in ((0, 0), (-0.045, -0.03), (0.045, -0.03), (-0.028, 0.048), (0.028, 0.048)):
        ball.ellipse(x, y, 0.018, None, (40, 40, 44))


Draw = Callable[[Pen, np.random.Generator], None]
DRAWN: dict[str, tuple[Draw, Draw]] = {
    "kitchen": (kitchen, _counter),
    "street": (street, _hydrant),
    "beach": (beach, _castle),
    "court": (court, _balls),
    "office": (office, _plant),
    "park": (park, _bush),
    "bedroom": (bedroom, _armchair),
    "stadium": (stadium, _barrier),
}
"""Setting -> what paints the whole background, and a prop about 0.4 wide around the bottom centre of it."""
