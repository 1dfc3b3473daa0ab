"""Settings with walls: kitchen, office, bedroom."""

from __future__ import annotations

import numpy as np

from judge.calibration.drawing.canvas import Colour, Pen, pick, shade
from judge.calibration.drawing.sketches import sketch

_WHITE: Colour = (246, 246, 242)
_STEEL: Colour = (150, 154, 160)
_WOODS = ((166, 112, 66), (196, 150, 96), (120, 78, 50))


def _window(pen: Pen, box: tuple[float, float, float, float], pane: Colour, frame: Colour) -> None:
    left, top, right, bottom = box
    pen.rectangle(left - 0.015, top - 0.015, right + 0.015, bottom + 0.015, frame)
    pen.rectangle(left, top, right, bottom, pane)
    pen.stroke((((left + right) / 2, top), ((left + right) / 2, bottom)), 0.012, frame)
    pen.stroke(((left, (top + bottom) / 2), (right, (top + bottom) / 2)), 0.012, frame)


def kitchen(pen: Pen, rng: np.random.Generator) -> None:
    """Counter with a stove, cupboards, a window, a fridge, a tiled floor."""
    wall, wood = pick(rng, ((244, 230, 196), (222, 236, 214), (252, 220, 190))), pick(rng, _WOODS)
    floor, top = float(rng.uniform(0.74, 0.79)), float(rng.uniform(0.47, 0.51))
    pen.rectangle(0, 0, 1, 1, wall)
    _tiled_floor(pen, floor, pick(rng, ((216, 196, 170), (206, 212, 214), (226, 206, 196))))
    for x in np.arange(0.03, 1, 0.07).tolist():  # The tiles between counter and cupboards.
        pen.stroke(((x, 0.31), (x, top)), 0.006, shade(wall, 0.88))
    for y in np.arange(0.31, top, 0.05).tolist():
        pen.stroke(((0, y), (1, y)), 0.006, shade(wall, 0.88))
    gap = float(rng.uniform(0.34, 0.44))
    for left in (gap - 0.5, gap - 0.33, gap - 0.165, gap + 0.285, gap + 0.45, gap + 0.615):
        pen.rectangle(left, 0.0, left + 0.165, 0.29, wood)
        pen.rectangle(left + 0.02, 0.025, left + 0.145, 0.265, shade(wood, 1.14))
        pen.stroke(((left + 0.125, 0.2), (left + 0.125, 0.24)), 0.012, _STEEL)
    _window(pen, (gap + 0.03, 0.05, gap + 0.25, 0.31), (170, 214, 240), _WHITE)
    pen.rectangle(0, top, 1, floor, wood)
    for left in np.arange(-0.06, 1, 0.175).tolist():
        pen.rectangle(left + 0.012, top + 0.055, left + 0.163, floor - 0.02, shade(wood, 1.14))
        pen.stroke(((left + 0.06, top + 0.085), (left + 0.115, top + 0.085)), 0.012, _STEEL)
    pen.rectangle(0, top - 0.005, 1, top + 0.03, pick(rng, ((92, 88, 86), (226, 222, 214), (70, 80, 84))))
    _stove(pen.at(float(rng.uniform(0.04, 0.2)), top), rng, floor - top)
    sketch("fridge")(pen.at(float(rng.uniform(0.74, 0.82)), floor + 0.015), rng)


def _tiled_floor(pen: Pen, top: float, tile: Colour) -> None:
    height = (1 - top) / 4
    for row in range(4):
        for column in range(10):
            left = column * 0.12 - 0.1 * (row % 2)
            colour = tile if column % 2 else shade(tile, 0.8)
            pen.rectangle(left, top + row * height, left + 0.12, top + (row + 1) * height, colour)


def _stove(pen: Pen, rng: np.random.Generator, height: float) -> None:
    pen.rectangle(0, -0.012, 0.2, height, (206, 208, 210))
    pen.rectangle(0.025, 0.09, 0.175, height - 0.03, (44, 44, 50))
    for x in (0.04, 0.08, 0.12, 0.16):
        pen.ellipse(x, 0.045, 0.012, None, (60, 60, 64))
    pot = pick(rng, ((200, 60, 50), (90, 100, 110), (60, 110, 170)))
    pen.rectangle(0.035, -0.09, 0.135, -0.012, pot)
    pen.stroke(((0.135, -0.07), (0.19, -0.075)), 0.014, shade(pot, 0.6))


def office(pen: Pen, rng: np.random.Generator) -> None:
    """Whiteboard, desks with lamps, ceiling lights, carpet, shelves or a window with blinds."""
    floor = float(rng.uniform(0.7, 0.76))
    wall = pick(rng, ((196, 206, 216), (214, 214, 210), (184, 200, 204)), 8)
    pen.rectangle(0, 0, 1, 1, wall)
    for x in (0.12, 0.56):
        pen.polygon(((x + 0.03, 0.0), (x + 0.27, 0.0), (x + 0.3, 0.04), (x, 0.04)), (255, 255, 250))
    carpet = pick(rng, ((84, 92, 112), (100, 100, 104), (76, 98, 104)))
    pen.rectangle(0, floor, 1, 1, carpet)
    pen.speckle(rng, (0, floor, 1, 1), (shade(carpet, 0.88), shade(carpet, 1.1)), 300)
    pen.rectangle(0, floor - 0.02, 1, floor, shade(wall, 0.7))
    _whiteboard(pen.at(float(rng.uniform(0.05, 0.14)), 0.12), rng)
    if rng.random() < 0.5:
        left = float(rng.uniform(0.58, 0.64))
        _window(pen, (left, 0.12, 0.95, 0.42), (176, 214, 236), (120, 126, 132))
        for y in np.arange(0.13, 0.42, 0.028).tolist():
            pen.stroke(((left, y), (0.95, y)), 0.009, _WHITE)
    else:
        _shelves(pen.at(float(rng.uniform(0.6, 0.68)), floor), rng)
    sketch("desk")(pen.at(float(rng.uniform(0.0, 0.12)), floor + 0.04), rng)
    sketch("desk")(pen.at(float(rng.uniform(0.58, 0.66)), floor + 0.08), rng)


def _whiteboard(pen: Pen, rng: np.random.Generator) -> None:
    """With a bar chart and some lines of writing."""
    pen.rectangle(0, 0, 0.42, 0.27, (110, 114, 120))
    pen.rectangle(0.012, 0.012, 0.408, 0.258, (252, 252, 252))
    for x, ink in ((0.04, (220, 60, 60)), (0.09, (60, 120, 220)), (0.14, (50, 160, 90)), (0.19, (240, 160, 40))):
        pen.rectangle(x, float(rng.uniform(0.07, 0.2)), x + 0.035, 0.23, ink)
    for y in (0.05, 0.09, 0.13, 0.17):
        pen.stroke(((0.26, y), (0.3 + float(rng.uniform(0, 0.08)), y)), 0.009, (60, 70, 160))


def _shelves(pen: Pen, rng: np.random.Generator) -> None:
    """Full of binders."""
    pen.rectangle(0, -0.62, 0.3, 0, (130, 110, 92))
    binders = ((60, 80, 130), (150, 60, 60), (70, 120, 90), (210, 200, 180))
    for top in (-0.59, -0.4, -0.21):
        pen.rectangle(0.015, top, 0.285, top + 0.165, (84, 70, 60))
        for x in np.arange(0.022, 0.26, 0.033).tolist():
            pen.rectangle(x, top + 0.035, x + 0.028, top + 0.165, pick(rng, binders))


def bedroom(pen: Pen, rng: np.random.Generator) -> None:
    """Bed, night lamp, curtained window, striped wallpaper, wooden floor, rug."""
    floor = float(rng.uniform(0.7, 0.75))
    wall = pick(rng, ((206, 186, 220), (240, 204, 190), (188, 204, 226), (232, 214, 170)), 10)
    pen.rectangle(0, 0, 1, 1, wall)
    for x in np.arange(0.02, 1, 0.085).tolist():
        pen.stroke(((x, 0), (x, floor)), 0.028, shade(wall, 0.94))
    wood = pick(rng, _WOODS)
    pen.rectangle(0, floor, 1, 1, wood)
    for y in np.linspace(floor + 0.05, 1, 5).tolist():
        pen.stroke(((0, y), (1, y)), 0.006, shade(wood, 0.82))
    rug = pick(rng, ((200, 90, 90), (90, 130, 160), (230, 220, 200)))
    pen.ellipse(float(rng.uniform(0.3, 0.7)), 0.92, 0.36, 0.07, rug)
    _curtained_window(pen.at(float(rng.uniform(0.04, 0.12)), 0.08), rng)
    if rng.random() < 0.6:
        sketch("painting")(pen.at(0.62, 0.08), rng)
    sketch("bed")(pen.at(float(rng.uniform(0.44, 0.54)), floor + 0.1), rng)
    sketch("night lamp")(pen.at(float(rng.uniform(0.36, 0.4)), floor + 0.02), rng)


def _curtained_window(pen: Pen, rng: np.random.Generator) -> None:
    night = bool(rng.random() < 0.5)
    _window(pen, (0.02, 0.02, 0.26, 0.34), (36, 46, 96) if night else (190, 222, 244), _WHITE)
    if night:
        pen.ellipse(0.19, 0.09, 0.035, None, (250, 240, 180))
    cloth = pick(rng, ((196, 70, 90), (80, 110, 170), (230, 180, 90), (100, 150, 120)))
    pen.stroke(((-0.05, 0.0), (0.33, 0.0)), 0.018, (100, 74, 50))
    for side, rod in ((1, -0.05), (-1, 0.33)):
        half = pen.at(rod, 0, flip=side < 0)
        half.polygon(((0, 0), (0.13, 0), (0.075, 0.24), (0.1, 0.42), (0, 0.42)), cloth)
        for fold in (0.03, 0.06):
            half.stroke(((fold, 0.01), (fold, 0.41)), 0.009, shade(cloth, 0.78))
