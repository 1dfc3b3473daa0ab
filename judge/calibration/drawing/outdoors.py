"""Settings under the sky: street, beach, park, court, stadium."""

from __future__ import annotations

import numpy as np

from judge.calibration.drawing.canvas import Colour, Pen, jitter, oval, pick, shade
from judge.calibration.drawing.sketches import sketch

_WHITE: Colour = (246, 246, 242)
_SKIES = (((112, 178, 236), (206, 230, 246)), ((84, 150, 220), (190, 220, 240)), ((150, 186, 214), (226, 232, 234)))


def sky(pen: Pen, rng: np.random.Generator, horizon: float) -> None:
    """Daylight down to the height ``horizon``."""
    high, low = _SKIES[int(rng.integers(len(_SKIES)))]
    pen.gradient(0, horizon, (jitter(rng, high), jitter(rng, low)))


def street(pen: Pen, rng: np.random.Generator) -> None:
    """Houses, pavement, road with its markings, a car, a lamp post."""
    kerb, road = float(rng.uniform(0.6, 0.66)), float(rng.uniform(0.7, 0.76))
    sky(pen, rng, kerb)
    left = -0.05
    while left < 1:
        width, top = float(rng.uniform(0.16, 0.28)), float(rng.uniform(0.02, 0.28))
        wall = pick(rng, ((176, 92, 72), (196, 168, 132), (142, 148, 160), (206, 142, 92), (120, 104, 110)), 18)
        _building(pen, (left, top, left + width, kerb), wall, lit=bool(rng.random() < 0.3))
        left += width
    pavement = jitter(rng, (178, 174, 168))
    pen.rectangle(0, kerb, 1, road, pavement)
    for x in np.arange(float(rng.uniform(0, 0.1)), 1, 0.13).tolist():
        pen.stroke(((x, kerb), (x - 0.03, road)), 0.006, shade(pavement, 0.82))
    pen.rectangle(0, road - 0.012, 1, road + 0.012, shade(pavement, 0.66))
    _road(pen, rng, road + 0.012)
    sketch("car")(pen.at(float(rng.uniform(0.02, 0.65)), road + 0.02), rng)
    sketch("lamp post")(pen.at(float(rng.uniform(0.06, 0.88)), road - 0.02), rng)


def _building(pen: Pen, box: tuple[float, float, float, float], wall: Colour, *, lit: bool) -> None:
    left, top, right, bottom = box
    pen.rectangle(left, top, right, bottom, wall)
    pen.rectangle(left, top, right, top + 0.02, shade(wall, 0.75))
    pane = (250, 226, 140) if lit else (70, 90, 120)
    for y in np.arange(top + 0.05, bottom - 0.15, 0.09).tolist():
        for x in np.arange(left + 0.025, right - 0.04, 0.06).tolist():
            pen.rectangle(x, y, x + 0.034, y + 0.055, pane)
    pen.rectangle(left + 0.04, bottom - 0.1, left + 0.1, bottom, shade(wall, 0.45))


def _road(pen: Pen, rng: np.random.Generator, top: float) -> None:
    """With a zebra crossing or a dashed line."""
    asphalt = jitter(rng, (78, 80, 86))
    pen.rectangle(0, top, 1, 1, asphalt)
    pen.speckle(rng, (0, top, 1, 1), (shade(asphalt, 0.9), shade(asphalt, 1.1)), 250)
    if rng.random() < 0.4:
        for x in np.arange(-0.02, 1, 0.16).tolist():
            pen.polygon(((x + 0.03, top + 0.02), (x + 0.11, top + 0.02), (x + 0.08, 1), (x - 0.02, 1)), _WHITE)
    else:
        middle, paint = (top + 1) / 2 + 0.01, pick(rng, (_WHITE, (244, 204, 60)))
        for x in np.arange(float(rng.uniform(-0.2, 0)), 1, 0.26).tolist():
            pen.stroke(((x, middle), (x + 0.13, middle)), 0.028, paint)


def beach(pen: Pen, rng: np.random.Generator) -> None:
    """Sun, sea with a sailing boat, a wave on the sand, shells, often a palm."""
    horizon, shore = float(rng.uniform(0.36, 0.44)), float(rng.uniform(0.6, 0.68))
    sky(pen, rng, horizon)
    pen.ellipse(float(rng.uniform(0.08, 0.92)), float(rng.uniform(0.08, 0.2)), 0.07, None, (255, 236, 130))
    sea = pick(rng, ((30, 130, 190), (24, 150, 180), (44, 110, 176)))
    pen.gradient(horizon, shore, (sea, shade(sea, 1.3)))
    for y in np.linspace(horizon + 0.03, shore - 0.04, 4).tolist():
        for x in rng.uniform(0, 1, size=3).tolist():
            pen.stroke(oval(x, y, 0.05, 0.012, start=0.5, stop=1.0), 0.008, shade(sea, 1.6))
    boat = pen.at(float(rng.uniform(0.1, 0.9)), horizon + 0.02, scale=float(rng.uniform(0.7, 1.1)))
    boat.polygon(((-0.07, -0.02), (0.07, -0.02), (0.045, 0.015), (-0.045, 0.015)), (150, 70, 50))
    boat.polygon(((-0.005, -0.16), (-0.005, -0.03), (0.07, -0.03)), _WHITE)
    sand = pick(rng, ((238, 214, 158), (230, 200, 146), (244, 224, 178)), 8)
    pen.rectangle(0, shore, 1, 1, sand)
    wave = [(x, shore + 0.014 * float(np.sin(x * 22 + shore * 90))) for x in np.linspace(-0.05, 1.05, 30).tolist()]
    pen.stroke([(x, y + 0.028) for x, y in wave], 0.02, shade(sand, 0.85))
    pen.stroke(wave, 0.03, _WHITE)
    pen.speckle(rng, (0, shore + 0.05, 1, 1), (shade(sand, 0.86), shade(sand, 1.06)), 350)
    for x, y in rng.uniform((0, 0.8), (1, 0.98), size=(3, 2)).tolist():
        pen.ellipse(x, y, 0.018, 0.012, pick(rng, ((250, 160, 140), (255, 250, 240), (230, 120, 90))))
    if rng.random() < 0.6:
        sketch("palm")(pen.at(float(rng.uniform(0.04, 0.14)), shore + 0.12, scale=float(rng.uniform(0.8, 1.1))), rng)


def park(pen: Pen, rng: np.random.Generator) -> None:
    """Trees, a meadow with a path and flowers, a bench, clouds."""
    meadow = float(rng.uniform(0.5, 0.58))
    sky(pen, rng, meadow)
    for x in rng.uniform(0, 1, size=2).tolist():
        for step in (-0.06, 0.0, 0.06):
            pen.ellipse(x + step, 0.1, 0.06, 0.035 if step else 0.05, (250, 252, 252))
    grass = pick(rng, ((96, 170, 74), (116, 180, 82), (84, 150, 70)))
    for x in np.linspace(0, 1, 6).tolist():
        pen.ellipse(x, meadow, 0.14, float(rng.uniform(0.06, 0.13)), shade(grass, 0.72))
    pen.rectangle(0, meadow, 1, 1, grass)
    way = pick(rng, ((224, 200, 156), (206, 196, 180)))
    start, end = rng.uniform(0.2, 0.8, size=2).tolist()
    pen.polygon(((start - 0.03, meadow), (start + 0.03, meadow), (end + 0.22, 1), (end - 0.22, 1)), way)
    pen.speckle(rng, (0, meadow + 0.02, 1, 1), (shade(grass, 0.82), shade(grass, 1.15)), 350)
    pen.speckle(rng, (0, meadow + 0.1, 1, 1), ((250, 220, 80), (250, 250, 250), (230, 110, 150)), 30)
    for x in rng.uniform((0.0, 0.35, 0.8), (0.2, 0.6, 1.0)).tolist():
        _tree(pen.at(x, meadow + float(rng.uniform(0.03, 0.12)), scale=float(rng.uniform(0.8, 1.25))), rng)
    sketch("bench")(pen.at(float(rng.uniform(0.0, 0.65)), meadow + 0.2), rng)


def _tree(pen: Pen, rng: np.random.Generator) -> None:
    crown = pick(rng, ((44, 120, 54), (66, 140, 58), (34, 104, 64)))
    pen.stroke(((0, 0), (0, -0.22)), 0.05, (110, 76, 48))
    for x, y in ((-0.08, -0.26), (0.08, -0.26), (-0.045, -0.36), (0.055, -0.37), (0, -0.3)):
        pen.ellipse(x, y, 0.095, None, crown)
    for x, y in rng.uniform((-0.11, -0.42), (0.11, -0.22), size=(6, 2)).tolist():
        pen.ellipse(x, y, 0.025, None, shade(crown, 1.25))


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
        sketch("hoop")(pen.at(float(rng.uniform(0.14, 0.3)), far + 0.06, scale=float(rng.uniform(0.9, 1.1))), rng)
    else:
        pen.stroke(((0.02, 0.82), (0.98, 0.82)), 0.014, _WHITE)
        pen.stroke(((0.5, far + 0.04), (0.5, 0.82)), 0.012, _WHITE)
        sketch("net")(pen.at(0, far + 0.16), rng)


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
    sketch("goal")(pen.at(float(rng.uniform(0.05, 0.2)), wall + 0.1), rng)
    for x in (0.07, 0.93):
        sketch("floodlight")(pen.at(x, 0.14), rng)


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
