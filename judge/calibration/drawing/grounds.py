"""Settings for sports: court, stadium."""

from __future__ import annotations

import numpy as np

from judge.calibration.drawing.canvas import Colour, Pen, jitter, oval, pick, shade
from judge.calibration.drawing.outdoors import sky

_WHITE: Colour = (246, 246, 242)
_IRON: Colour = (70, 74, 80)


def court(pen: Pen, rng: np.random.Generator) -> None:
    """Fenced, with white lines: for tennis with a net, or for basketball with a hoop."""
    far = float(rng.uniform(0.5, 0.56))
    sky(pen, rng, far)
    pen.rectangle(0, far - 0.2, 1, far, jitter(rng, (60, 110, 74)))
    for x in np.arange(-0.3, 1.0, 0.045).tolist():
        pen.stroke(((x, far), (x + 0.3, far - 0.3)), 0.004, (196, 204, 200))
        pen.stroke(((x + 0.3, far), (x, far - 0.3)), 0.004, (196, 204, 200))
    pen.stroke(((0, far - 0.3), (1, far - 0.3)), 0.012, (110, 116, 116))
    basketball = bool(rng.random() < 0.5)
    grounds = ((196, 98, 60), (206, 120, 70)) if basketball else ((44, 122, 150), (60, 140, 92), (54, 96, 160))
    ground = pick(rng, grounds)
    pen.rectangle(0, far, 1, 1, ground)
    pen.polygon(((0.1, far + 0.04), (0.9, far + 0.04), (1.25, 1.02), (-0.25, 1.02)), shade(ground, 1.18))
    pen.stroke(((-0.25, 1.02), (0.1, far + 0.04), (0.9, far + 0.04), (1.25, 1.02)), 0.014, _WHITE)
    if basketball:
        pen.stroke(oval(0.5, far + 0.04, 0.2, 0.16, start=0.0, stop=0.5), 0.014, _WHITE)
        pen.stroke(oval(0.5, 1.0, 0.3, 0.14, start=0.5, stop=1.0), 0.014, _WHITE)
        _hoop(pen.at(float(rng.uniform(0.14, 0.3)), far + 0.06, scale=float(rng.uniform(0.9, 1.1))))
    else:
        pen.stroke(((0.02, 0.82), (0.98, 0.82)), 0.014, _WHITE)
        pen.stroke(((0.5, far + 0.04), (0.5, 0.82)), 0.012, _WHITE)
        _net(pen.at(0, far + 0.16))


def _hoop(pen: Pen) -> None:
    pen.stroke(((0, 0), (0, -0.4)), 0.022, _IRON)
    pen.rectangle(-0.13, -0.52, 0.13, -0.34, _WHITE)
    pen.stroke(((-0.13, -0.52), (0.13, -0.52), (0.13, -0.34), (-0.13, -0.34)), 0.012, _IRON, closed=True)
    pen.stroke(((-0.045, -0.46), (0.045, -0.46), (0.045, -0.39), (-0.045, -0.39)), 0.009, (220, 50, 40), closed=True)
    for x in (-0.05, -0.025, 0.0, 0.025, 0.05):
        pen.stroke(((x, -0.36), (x * 0.55, -0.27)), 0.006, _WHITE)
    pen.stroke(((-0.06, -0.36), (0.06, -0.36)), 0.016, (240, 90, 30))


def _net(pen: Pen) -> None:
    for x in np.arange(0.04, 0.97, 0.028).tolist():
        pen.stroke(((x, -0.12), (x, 0)), 0.004, (60, 66, 66))
    for y in (-0.09, -0.06, -0.03, 0.0):
        pen.stroke(((0.03, y), (0.97, y)), 0.004, (60, 66, 66))
    pen.stroke(((0.03, -0.12), (0.97, -0.12)), 0.022, _WHITE)
    for x in (0.03, 0.97):
        pen.stroke(((x, -0.13), (x, 0.02)), 0.02, _IRON)


def stadium(pen: Pen, rng: np.random.Generator) -> None:
    """Stands with a crowd of mere dots, hoardings, a striped pitch with lines and a goal, floodlights."""
    wall = float(rng.uniform(0.52, 0.58))
    sky(pen, rng, 0.14)
    _stands(pen, rng, wall)
    for left in np.arange(-0.02, 1, 0.255).tolist():
        hoarding = pick(rng, ((230, 50, 50), (40, 90, 200), (250, 210, 40), (240, 240, 240)))
        pen.rectangle(left, wall - 0.06, left + 0.25, wall, hoarding)
        pen.stroke(((left + 0.05, wall - 0.03), (left + 0.2, wall - 0.03)), 0.016, (40, 40, 50))
    grass = jitter(rng, (58, 150, 62))
    for number, left in enumerate(np.arange(-0.4, 1.4, 0.2).tolist()):
        far, colour = 0.5 + (left - 0.5) * 0.6, shade(grass, 1.18 if number % 2 else 1)
        pen.polygon(((far, wall), (far + 0.135, wall), (left + 0.22, 1), (left, 1)), colour)
    pen.stroke(((0, wall + 0.03), (1, wall + 0.03)), 0.011, _WHITE)
    pen.stroke(oval(0.5, 1.02, 0.5, 0.22, start=0.5, stop=1.0), 0.015, _WHITE)
    _goal(pen.at(float(rng.uniform(0.05, 0.2)), wall + 0.1))
    for x in (0.07, 0.93):
        _floodlight(pen.at(x, 0.14))


def _stands(pen: Pen, rng: np.random.Generator, bottom: float) -> None:
    seats = pick(rng, ((70, 80, 110), (120, 60, 60), (80, 84, 90)))
    pen.rectangle(0, 0.12, 1, bottom, seats)
    tiers = np.arange(0.145, bottom - 0.08, 0.034)
    for y in tiers.tolist():
        pen.stroke(((0, y + 0.018), (1, y + 0.018)), 0.006, shade(seats, 0.7))
    places = np.stack(np.meshgrid(np.arange(0.0, 1.0, 0.026), tiers), axis=-1).reshape(-1, 2)
    crowd = places[rng.random(len(places)) < 0.85]
    crowd += rng.uniform(-0.006, 0.006, size=(len(crowd), 1)) * (1, 0)
    pen.dots(crowd, 0.016, rng.integers(60, 256, size=(len(crowd), 3)).astype(np.uint8))
    faces = np.array([(232, 190, 150), (120, 80, 56), (200, 150, 110)], dtype=np.uint8)
    pen.dots(crowd + np.array((0.003, -0.01)), 0.01, faces[rng.integers(len(faces), size=len(crowd))])


def _goal(pen: Pen) -> None:
    for x in np.arange(0.02, 0.34, 0.03).tolist():
        pen.stroke(((x, -0.17), (x, 0)), 0.004, (220, 226, 226))
    for y in (-0.14, -0.1, -0.06, -0.02):
        pen.stroke(((0, y), (0.34, y)), 0.004, (220, 226, 226))
    pen.stroke(((0, 0), (0, -0.18), (0.34, -0.18), (0.34, 0)), 0.02, (255, 255, 255))


def _floodlight(pen: Pen) -> None:
    pen.stroke(((0, 0), (0, -0.06)), 0.016, (90, 94, 100))
    pen.rectangle(-0.06, -0.13, 0.06, -0.05, (110, 114, 120))
    for x in (-0.035, 0.0, 0.035):
        for y in (-0.11, -0.07):
            pen.ellipse(x, y, 0.014, None, (255, 255, 220))
