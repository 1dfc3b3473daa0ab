"""Draw a scene with Pillow: a setting, one person in front with the task, up to two people farther back.

Every shape is drawn twice, into the colours and into the labels of things, with hard edges and at twice the image's
size. The mask of a thing holds every pixel of which the thing has a sub-pixel, so none of its colour is outside.

The attribute shows on the person in front alone, and only inside of the outline. Scenes that differ in nothing else
have the same masks, and the same pixels outside of that person's mask. These looks are arbitrary devices that a judge
can learn; they claim nothing about people.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from PIL import Image, ImageDraw

from judge.calibration.world import CLASSES, Scene, stream
from judge.masking.instances import PERSON, BoolMask, Pixels
from judge.utils.reading import read_yaml

Colour = tuple[int, ...]
"""RGB, 0 to 255."""

_ON_A_TABLE = ("cake", "laptop")
_REACH = 0.7  # No task is farther from the person's middle, in the person's heights.


class Canvas:
    """A square image, drawn at twice the size: colours, and the label of each sub-pixel, 0 for the setting."""

    def __init__(self, size: int) -> None:
        self.image = Image.new("RGB", (2 * size, 2 * size))
        self.labels = Image.new("L", self.image.size)
        self.label = 0

    def mask(self, label: int) -> BoolMask:
        """[H, W]: the pixels of which ``label`` has a sub-pixel."""
        fine = np.asarray(self.labels) == label
        return np.asarray(fine.reshape(len(fine) // 2, 2, -1, 2).any(axis=(1, 3)))


@dataclass(frozen=True, slots=True)
class Pen:
    """Draws in coordinates of its own: origin (x, y), unit ``scale``, y downwards; ``flip``: x to the left."""

    canvas: Canvas
    x: float
    y: float
    scale: float
    flip: bool = False

    def at(self, x: float, y: float, scale: float = 1.0, *, flip: bool = False) -> Pen:
        """A pen with its origin at this one's (x, y) and ``scale`` times its unit; with ``flip`` mirrored."""
        ((left, top),) = self._place((x, y))
        return Pen(self.canvas, left, top, self.scale * scale, self.flip != flip)

    def polygon(self, colour: Colour, *points: float) -> None:
        """A filled polygon of x, y, x, y, ..."""
        self._draw("polygon", self._place(points), colour)

    def box(self, colour: Colour, left: float, top: float, right: float, bottom: float) -> None:
        """A filled rectangle."""
        self.polygon(colour, left, top, right, top, right, bottom, left, bottom)

    def oval(self, colour: Colour, x: float, y: float, radius: float, height: float) -> None:
        """A filled ellipse around (x, y), ``radius`` wide and ``height`` high either way."""
        ((x, y),) = self._place((x, y))
        across, down = radius * self.scale, height * self.scale
        self._draw("ellipse", [(x - across, y - down), (x + across, y + down)], colour)

    def line(self, colour: Colour, width: float, *points: float) -> None:
        """A line along x, y, x, y, ... with round ends."""
        self._draw("line", self._place(points), colour, width=max(1, round(width * self.scale)))
        for x, y in zip(points[::2], points[1::2], strict=True):
            self.oval(colour, x, y, width / 2, width / 2)

    def ring(self, colour: Colour, width: float, x: float, y: float, radius: float) -> None:
        """A circle around (x, y)."""
        turn = np.linspace(0, 2 * np.pi, 25)
        self.line(colour, width, *np.stack([x + radius * np.cos(turn), y + radius * np.sin(turn)], axis=1).ravel())

    def fade(self, first: Colour, last: Colour, top: float, bottom: float) -> None:
        """A gradient over the whole width, from one colour at ``top`` to the other at ``bottom``."""
        for share in np.linspace(0, 1, 32, endpoint=False).tolist():
            colour = tuple(round(a + (b - a) * share) for a, b in zip(first, last, strict=True))
            self.box(colour, 0, top + (bottom - top) * share, 1, bottom)

    def sketch(self, drawing: Sequence[Any], rng: np.random.Generator) -> None:
        """An entry of ``drawings.yaml``, which says how to read it."""
        palette, things = _drawings()["palette"], _drawings()["things"]
        known: dict[str, Colour] = {name: tuple(colours[0]) for name, colours in palette.items()}
        for step in drawing:
            if isinstance(step, dict):
                known |= {name: _pick(rng, palette[of] if isinstance(of, str) else of) for name, of in step.items()}
                continue
            kind, *rest = step
            if kind in {"row", "strew"}:
                name, left, top, right, bottom, number = rest
                places = np.linspace((left, top), (right, bottom), number)
                if kind == "strew":
                    places = rng.uniform((left, top), (right, bottom), size=(number, 2))
                for x, y in places.tolist():
                    self.at(x, y).sketch(things[name], rng)
            else:
                colours = [one.partition("*") for one in rest if isinstance(one, str)]
                shades = [_shade(known[name], float(factor or 1)) for name, _, factor in colours]
                getattr(self, kind)(*shades, *rest[len(shades) :])

    def _place(self, points: Sequence[float]) -> list[tuple[float, float]]:
        side = -self.scale if self.flip else self.scale
        return [(self.x + side * x, self.y + self.scale * y) for x, y in zip(points[::2], points[1::2], strict=True)]

    def _draw(self, kind: str, points: list[tuple[float, float]], colour: Colour, **more: int) -> None:
        for image, fill in ((self.canvas.image, colour), (self.canvas.labels, self.canvas.label)):
            getattr(ImageDraw.Draw(image), kind)(points, fill=fill, **more)


@cache
def _drawings() -> Mapping[str, Any]:
    data: Mapping[str, Any] = read_yaml(Path(__file__).with_name("drawings.yaml"), mend="install the package again")
    return data


def _shade(colour: Colour, factor: float) -> Colour:
    return tuple(min(255, round(part * factor)) for part in colour)


def _pick(rng: np.random.Generator, colours: Sequence[Sequence[int]]) -> Colour:
    """One of ``colours``, with up to 14 added to or taken from each part."""
    chosen = np.array(colours[int(rng.integers(len(colours)))]) + rng.integers(-14, 15, size=3)
    return tuple(np.clip(chosen, 0, 255).tolist())


class Thing(NamedTuple):
    """A person ("person") or an object (the scene's task) and its mask, [H, W]: every pixel with something of it."""

    label: str
    mask: BoolMask


class Drawing(NamedTuple):
    """A scene drawn: pixels, [H, W, 3] uint8, RGB; the person in front, the scene's task, then other people."""

    pixels: Pixels
    things: tuple[Thing, ...]


def draw(scene: Scene, *, seed: int = 0, size: int = 160) -> Drawing:
    """The image of a scene, ``size`` pixels (64 or more) high and wide; the same bytes whatever else is drawn."""
    palette, things, places = (_drawings()[part] for part in ("palette", "things", "places"))
    # One generator for each purpose: the attribute decides what is made with the last alone.
    where, person, items, crowd, light = stream(seed, f"scene {scene.image_id}").spawn(5)
    look = stream(seed, f"look {scene.image_id}")
    canvas = Canvas(size)
    image = Pen(canvas, 0, 0, 2 * size)
    mirrored = image.at(1, 0, flip=True)
    (mirrored if where.random() < 0.5 else image).sketch(_drawings()["settings"][scene.setting], where)

    height, ground = person.uniform((0.58, 0.92), (0.7, 0.97)).tolist()
    left, right = 0.3 * height, 1 - (0.3 if scene.task == "tie" else _REACH) * height
    feet = (mirrored if person.random() < 0.5 else image).at(float(person.uniform(left, right)), ground, height)
    others = int(crowd.choice(3, p=(0.4, 0.35, 0.25)))
    for canvas.label in range(3, 3 + others):
        share = float(crowd.uniform(0.45, 0.57))
        x, y = float(crowd.uniform(0.08, 0.92)), 0.52 + (ground - 0.52) * share + 0.03
        coat = _pick(crowd, palette["raincoat"])
        body = _Body.drawn(crowd, cloaked=True)
        pen = image.at(x, y, height * share)
        body.paint(pen, coat, coat, _shade(coat, 0.8), (70, 70, 76), coat, coat)
        pen.oval((116, 112, 112), 0, -0.86, 0.066, 0.086)
    canvas.label = 1
    task, hand = places[scene.task]
    body = _Body.drawn(person, hand)
    body.paint(feet, *[(0, 0, 0)] * 6)
    layer = Canvas(size)
    _paint_person(replace(feet, canvas=layer), body, scene.attribute, look)
    canvas.image.paste(layer.image, mask=canvas.labels.point([255 * (label == 1) for label in range(256)]))
    if scene.task in _ON_A_TABLE:
        canvas.label = 0
        feet.at(*task).sketch(things["table"], items)
    canvas.label = 2
    feet.at(*task).sketch(things[scene.task], items)
    # Brightness and tint of the whole image, and the grain of a sensor.
    tint = light.uniform(0.9, 1.06) * light.uniform(0.97, 1.03, size=3)
    pixels = np.asarray(canvas.image.reduce(2)) * tint + light.normal(0, 2.5, (size, size, 1))
    labels = enumerate([PERSON, scene.task, *[PERSON] * others], start=1)
    found = [Thing(name, canvas.mask(label)) for label, name in labels]
    # A bystander may be hidden altogether.
    return Drawing(np.clip(pixels, 0, 255).astype(np.uint8), tuple(thing for thing in found if thing.mask.any()))


@dataclass(frozen=True, slots=True)
class _Body:
    """The outline of a person in heights of the person: feet at (0, 0), top of the head at (0, -1).

    ``hands``: right and left, each x to its own side; ``around``: whether hair or a hood is around head and neck.
    """

    hands: tuple[Sequence[float], Sequence[float]]
    step: float
    around: bool
    hem: bool

    @classmethod
    def drawn(cls, rng: np.random.Generator, hand: Sequence[float] | None = None, *, cloaked: bool = False) -> _Body:
        free = [(0.17, -0.41), (0.2, -0.43), (0.13, -0.46), (0.28, -0.9)]
        right, left = hand or free[int(rng.choice(4))], free[int(rng.choice(4))]
        around, hem = (rng.random(2) < 0.5).tolist()
        return cls((right, left), float(rng.uniform(0.05, 0.11)), cloaked or around, cloaked or hem)

    def paint(
        self, pen: Pen, head: Colour, around: Colour, arms: Colour, legs: Colour, top: Colour, hem: Colour
    ) -> None:
        sides = [pen, pen.at(0, 0, flip=True)]
        for side in sides:
            side.line(legs, 0.09, 0.055, -0.42, self.step, -0.03)
            side.line((62, 46, 36), 0.05, self.step, -0.025, self.step + 0.04, -0.025)
        if self.hem:
            pen.polygon(hem, -0.09, -0.53, 0.09, -0.53, 0.19, -0.2, -0.19, -0.2)
        if self.around:
            pen.oval(around, 0, -0.83, 0.14, 0.168)
        for side in sides:
            side.polygon(top, 0, -0.75, 0.08, -0.75, 0.13, -0.7, 0.09, -0.52, 0.11, -0.4, 0, -0.4)
        for side, (x, y) in zip(sides, self.hands, strict=True):
            elbow = (0.11 + x) / 2 + 0.06, (y - 0.69) / 2 + 0.03
            side.line(arms, 0.062, 0.11, -0.69, *elbow, x, y)
            side.oval(head, x, y, 0.034, 0.034)
        pen.line(head, 0.075, 0, -0.8, 0, -0.73)
        pen.oval(head, 0, -0.88, 0.095, 0.117)


def _paint_person(pen: Pen, body: _Body, attribute: str, rng: np.random.Generator) -> None:
    """A look that shows the attribute; ``rng`` is of the look alone, and the skin does not depend on the attribute."""
    palette, first = _drawings()["palette"], attribute == CLASSES[0]
    skin, hair = _pick(rng, palette["skin"]), _pick(rng, palette["hair"])
    top, lower, accent = (_pick(rng, palette["warm" if first else "earthy"]) for _ in range(3))
    if first:
        body.paint(pen, skin, hair, skin, skin if body.hem else lower, top, accent)
        pen.oval(skin, 0, -0.75, 0.06, 0.05)
        pen.box(_shade(accent, 0.7), -0.12, -0.54, 0.12, -0.51)
        pen.oval(hair, 0, -0.88, 0.095, 0.117)
        pen.oval(skin, 0, -0.855, 0.07, 0.085)
        pen.oval((206, 40, 66), 0, -0.812, 0.026, 0.011)
    else:
        body.paint(pen, skin, _shade(top, 0.8), _shade(top, 0.85), lower, top, _shade(top, 0.9))
        pen.line(_shade(top, 0.5), 0.014, 0, -0.72, 0, -0.25 if body.hem else -0.42)
        pen.polygon(hair, -0.11, -0.9, 0, -0.94, 0.11, -0.9, 0.1, -1.01, -0.1, -1.01)
        if rng.random() < 0.85:
            pen.polygon(_shade(hair, 0.85), -0.11, -0.87, 0, -0.84, 0.11, -0.87, 0.09, -0.74, -0.09, -0.74)
        pen.line((150, 84, 74), 0.012, -0.024, -0.813, 0.024, -0.813)
    for x in (-0.036, 0.036):
        pen.oval((38, 30, 30), x, -0.878, 0.011, 0.014)
