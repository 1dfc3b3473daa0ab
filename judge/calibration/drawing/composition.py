"""Who and what is where in a picture: one person in the foreground with the tasks, up to two farther back."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from judge.calibration.drawing.canvas import BACKGROUND, Canvas, Pen
from judge.calibration.drawing.disguises import choose_disguise, paint_disguise
from judge.calibration.drawing.objects import WAYS, Place
from judge.calibration.drawing.people import make_figure, paint_bystander, paint_person
from judge.calibration.drawing.settings import DRAWN
from judge.calibration.drawing.sketches import Draw, sketch
from judge.calibration.world import Scene, stream
from judge.masking.instances import PERSON, Pixels
from judge.types import FloatArray

_FOREGROUND = BACKGROUND + 1
_MARGIN = 0.015
_EYE_LEVEL = 0.52


@dataclass(frozen=True, slots=True)
class _Item:
    """A task in the picture: its label in the buffer, how it is drawn, where, and on which side (1 or -1)."""

    label: int
    draw: Draw
    place: Place
    side: int


@dataclass(frozen=True, slots=True)
class _Stance:
    """Where the foreground person is, in the picture's coordinates."""

    x: float
    ground: float
    height: float
    lift: float
    flip: bool
    lean: float

    def pen(self, picture: Pen, *, lean: bool) -> Pen:
        """At the feet, the person's height its unit."""
        feet = self.ground - self.lift * self.height
        return picture.at(self.x, feet, scale=self.height, flip=self.flip, angle=self.lean if lean else 0.0)


def compose(scene: Scene, size: int, *, seed: int) -> tuple[Canvas, Pixels, tuple[str, ...]]:
    """Draw a scene.

    Args:
        scene: what there is to see.
        size: pixels along the picture's side.
        seed: of the world.

    Returns:
        The canvas with its labels; the finished picture, [H, W, 3]; what label 1, 2, ... is: the foreground
        person, the tasks, other people.
    """
    # One generator a purpose; the attribute has a say in the last alone, and in an anonymous scene in none.
    place_rng, person_rng, item_rng, crowd_rng, light_rng = stream(seed, f"scene {scene.image_id}").spawn(5)
    look_rng = stream(seed, f"look {scene.image_id}")
    canvas = Canvas(size)
    picture = Pen.of(canvas)
    background, prop = DRAWN[scene.setting]
    background(picture.at(1, 0, flip=True) if place_rng.random() < 0.5 else picture, place_rng)

    items = _choose(scene.tasks, item_rng)
    stance = _stand([item.place for item in items], [item.side for item in items], person_rng)
    bystanders = int(crowd_rng.choice(3, p=(0.4, 0.35, 0.25)))
    _draw_bystanders(picture, stance, range(len(items) + 2, len(items) + 2 + bystanders), crowd_rng)
    _draw_items(picture, stance, [item for item in items if item.place.behind], item_rng)
    _draw_foreground(picture, stance, items, scene, (person_rng, look_rng))
    if len(items) == 1 and place_rng.random() < 0.35:
        side = -1 if stance.flip else 1
        with canvas.drawing(BACKGROUND):
            x = stance.x - side * stance.height * float(place_rng.uniform(0.25, 0.4))
            prop(picture.at(x, 1.01, scale=float(place_rng.uniform(0.75, 1.0))), place_rng)
    _draw_items(picture, stance, [item for item in items if not item.place.behind], item_rng)
    return canvas, _light(canvas.smooth(), light_rng), (PERSON, *scene.tasks, *(PERSON,) * bystanders)


def _choose(tasks: tuple[str, ...], rng: np.random.Generator) -> list[_Item]:
    """A way for each task; two share out the person's sides, so neither is held with both hands."""
    items = []
    for number, task in enumerate(tasks):
        ways = [way for way in WAYS[task] if len(tasks) == 1 or way[1].other is None]
        draw, place = ways[int(rng.integers(len(ways)))]
        items.append(_Item(_FOREGROUND + 1 + number, draw, place, -1 if number % 2 else 1))
    return items


def _stand(places: list[Place], sides: list[int], rng: np.random.Generator) -> _Stance:
    """As tall as the drawn height, or as the picture leaves room for."""
    right, left = (
        max([0.3, *(place.reach for place, own in zip(places, sides, strict=True) if own == side)]) for side in (1, -1)
    )
    lift, rise = max(place.lift for place in places), max(place.rise for place in places)
    ground = float(rng.uniform(0.92, 0.975))
    tallest = min(0.85, (ground - _MARGIN) / (1 + lift + rise), (1 - 2 * _MARGIN) / (right + left))
    height = float(rng.uniform(min(0.6, tallest - 0.05), tallest))
    flip, lean = bool(rng.random() < 0.5), float(rng.uniform(-0.06, 0.06))
    if flip:
        right, left = left, right
    x = float(rng.uniform(_MARGIN + left * height, 1 - _MARGIN - right * height))
    return _Stance(x, ground, height, lift, flip, lean)


def _draw_foreground(
    picture: Pen,
    stance: _Stance,
    items: list[_Item],
    scene: Scene,
    rngs: tuple[np.random.Generator, np.random.Generator],
) -> None:
    hands = {
        side: hand
        for item in items
        for side, hand in ((item.side, item.place.hand), (-item.side, item.place.other))
        if hand is not None
    }
    on_board = any(item.place.lift for item in items)
    figure = make_figure(rngs[0], hands=(hands.get(1), hands.get(-1)), wide_stance=on_board)
    disguise = choose_disguise(rngs[1], front=any(item.place.front for item in items)) if scene.anonymous else None
    if disguise:
        figure = disguise.shape(figure)
    pen = stance.pen(picture, lean=True)
    with picture.canvas.drawing(_FOREGROUND):
        figure.paint(pen, (0, 0, 0))
    with picture.canvas.inside(_FOREGROUND):
        if disguise:
            paint_disguise(pen, figure, disguise, rngs[1])
        else:
            paint_person(pen, figure, scene.attribute, rngs[1])


def _draw_items(picture: Pen, stance: _Stance, items: list[_Item], rng: np.random.Generator) -> None:
    for item in items:
        place = item.place
        pen = stance.pen(picture, lean=not place.upright)
        tilt = float(rng.uniform(-place.tilt, place.tilt))
        own = pen.at(item.side * place.origin[0], place.origin[1], flip=item.side < 0, angle=tilt)
        if place.table:
            with picture.canvas.drawing(BACKGROUND):
                sketch("table")(own, rng)
        with picture.canvas.drawing(item.label):
            item.draw(own, rng)


def _draw_bystanders(picture: Pen, stance: _Stance, labels: range, rng: np.random.Generator) -> None:
    """Small, far enough back to be smaller than whoever is in front; where there is room."""
    taken = [stance.x]
    shares = sorted(rng.uniform(0.43, 0.57, size=len(labels)).tolist())  # The farthest first.
    for label, share in zip(labels, shares, strict=True):
        x = float(max(rng.uniform(0.08, 0.92, size=4).tolist(), key=lambda x: min(abs(x - other) for other in taken)))
        taken.append(x)
        feet = _EYE_LEVEL + (stance.ground - _EYE_LEVEL) * share + float(rng.uniform(0.0, 0.05))
        figure = make_figure(rng, cloaked=True)
        pen = picture.at(x, feet, scale=stance.height * share, flip=bool(rng.random() < 0.5))
        with picture.canvas.drawing(label):
            figure.paint(pen, (0, 0, 0))
        with picture.canvas.inside(label):
            paint_bystander(pen, figure, rng)


def _light(pixels: Pixels, rng: np.random.Generator) -> Pixels:
    """Brightness and tint of the whole picture, and the grain of a sensor; pixel by pixel."""
    tint: FloatArray = rng.uniform(0.9, 1.06) * rng.uniform(0.97, 1.03, size=3)
    grain = rng.standard_normal((*pixels.shape[:2], 1), dtype=np.float32) * np.float32(2.5)
    return np.clip(pixels * tint.astype(np.float32) + grain, 0, 255).astype(np.uint8)
