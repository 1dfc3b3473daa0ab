"""People: an outline that knows nothing of the attribute, and what is painted inside of it, which does.

Every part of the outline (volume beside the neck, width of the lower garment, limbs) is drawn for both classes
alike, so that a silhouette tells nothing: the volume is long hair for one and a hood for the other, the wide garment
a skirt or a coat. The looks are arbitrary devices that a judge can learn; they claim nothing about people.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from judge.calibration.drawing.canvas import Colour, Pen, Points, jitter, oval, pick, shade
from judge.calibration.drawing.sketches import sketch
from judge.types import FloatArray

Point = tuple[float, float]

_SKINS = ((255, 224, 196), (240, 200, 164), (219, 171, 127), (186, 132, 90), (141, 92, 60), (94, 60, 42))
_HAIRS = ((44, 32, 28), (84, 52, 32), (128, 78, 40), (176, 120, 60), (214, 176, 104), (160, 66, 38), (112, 108, 108))
_WARM = ((232, 92, 128), (240, 150, 170), (214, 70, 84), (246, 190, 120), (198, 140, 214), (250, 222, 150))
_EARTHY = ((38, 56, 104), (50, 92, 62), (104, 76, 50), (92, 98, 106), (60, 84, 128), (118, 122, 76))
_EITHER = ((240, 240, 236), (60, 150, 160), (150, 190, 222))
_RAINCOATS = ((226, 188, 60), (70, 140, 140), (130, 110, 160), (150, 156, 160), (196, 110, 70), (90, 130, 84))
_LEGGINGS = ((70, 58, 92), (168, 110, 140), (196, 76, 128), (128, 84, 150))
_TROUSERS = ((58, 76, 116), (70, 66, 62), (128, 112, 84), (44, 48, 60))
_WHITE: Colour = (246, 244, 240)
_FACELESS: Colour = (116, 112, 112)


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """A piece of an outline, in heights of the person: feet at (0, 0), top of the head at (0, -1).

    Attributes:
        points: [N, 2], corners of a polygon or points of a line.
        width: of the line; 0 for a polygon.
    """

    points: Points
    width: float = 0.0

    def paint(self, pen: Pen, colour: Colour) -> None:
        """Fill it."""
        if self.width:
            pen.stroke(self.points, self.width, colour)
        else:
            pen.polygon(self.points, colour)


@dataclass(frozen=True, slots=True, eq=False)
class Figure:
    """The outline of a person, part by part; the right-hand one of a pair first.

    Attributes:
        head: with the hair on it.
        neck: down to the torso.
        torso: shoulders to hips.
        arms: shoulder, elbow, hand.
        hands: at the ends of the arms.
        legs: hip, knee, ankle.
        feet: ankle to toes.
        volume: what is beside the neck, or None.
        hem: the wide lower garment, or None.
    """

    head: Part
    neck: Part
    torso: Part
    arms: tuple[Part, Part]
    hands: tuple[Part, Part]
    legs: tuple[Part, Part]
    feet: tuple[Part, Part]
    volume: Part | None
    hem: Part | None

    def paint(self, pen: Pen, colour: Colour) -> None:
        """Fill the whole outline."""
        trunk = (self.hem, self.volume, self.torso, self.neck, self.head)
        for part in (*self.legs, *self.feet, *trunk, *self.arms, *self.hands):
            if part is not None:
                part.paint(pen, colour)


def make_figure(
    rng: np.random.Generator,
    *,
    hands: tuple[Point | None, Point | None] = (None, None),
    wide_stance: bool = False,
    cloaked: bool = False,
) -> Figure:
    """A person in some pose.

    Args:
        rng: decides the build, the pose, whether there is volume beside the neck and a wide garment.
        hands: where the hands must be, right-hand side first, each x outwards to its side; None: anywhere.
        wide_stance: feet well apart, as on a board.
        cloaked: with volume and wide garment in any case.
    """
    shoulder, waist, hip = rng.uniform((0.115, 0.08, 0.1), (0.14, 0.1, 0.12)).tolist()
    hem_width, hem_height = rng.uniform((0.16, -0.26), (0.21, -0.17)).tolist()
    has_volume, has_hem = (cloaked or bool(draw < 0.5) for draw in rng.random(2))
    torso = ((shoulder * 0.6, -0.75), (shoulder, -0.7), (waist, -0.52), (hip, -0.4))
    hem = ((waist, -0.53), (hem_width, hem_height))
    steps = rng.uniform(*((0.12, 0.16) if wide_stance else (0.05, 0.12)), size=2).tolist()
    legs = [((0.055, -0.42), (step / 2 + 0.037, -0.22), (step, -0.03)) for step in steps]
    toes = float(rng.choice((-0.04, 0.04)))  # Both feet point the same way.
    ends = [hand or _free_hand(rng) for hand in hands]
    arms = [_arm(shoulder - 0.02, end, float(rng.uniform(-0.02, 0.05))) for end in ends]
    return Figure(
        head=Part(oval(0, -0.88, 0.095, 0.117)),
        neck=Part(((0, -0.8), (0, -0.73)), 0.075),
        torso=Part((*torso, *_mirrored(torso)[::-1])),
        arms=(Part(arms[0], 0.062), Part(_mirrored(arms[1]), 0.062)),
        hands=(Part(oval(*ends[0], 0.034, 0.034)), Part(oval(-ends[1][0], ends[1][1], 0.034, 0.034))),
        legs=(Part(legs[0], 0.088), Part(_mirrored(legs[1]), 0.088)),
        feet=(
            Part(((steps[0], -0.028), (steps[0] + toes, -0.025)), 0.05),
            Part(((-steps[1], -0.028), (-steps[1] + toes, -0.025)), 0.05),
        ),
        volume=Part(oval(0, -0.83, 0.14, 0.168)) if has_volume else None,
        hem=Part((*hem, *_mirrored(hem)[::-1])) if has_hem else None,
    )


def _mirrored(points: tuple[Point, ...]) -> tuple[Point, ...]:
    return tuple((-x, y) for x, y in points)


def _free_hand(rng: np.random.Generator) -> Point:
    """Hanging, on the hip, or waving."""
    across, down = rng.uniform(-0.03, 0.03, size=2).tolist()
    x, y = ((0.17, -0.41), (0.2, -0.43), (0.13, -0.46), (0.28, -0.9))[int(rng.choice(4, p=(0.4, 0.25, 0.2, 0.15)))]
    return x + across, y + down


def _arm(shoulder: float, hand: Point, bend: float) -> tuple[Point, ...]:
    """Shoulder, elbow, hand; the elbow juts out the more, the nearer the hand is."""
    length = float(np.hypot(hand[0] - shoulder, hand[1] + 0.69))
    out = max(0.02, 0.5 * (0.36**2 - min(length, 0.35) ** 2) ** 0.5) + bend
    return (shoulder, -0.69), ((shoulder + hand[0]) / 2 + out * 0.8, (hand[1] - 0.69) / 2 + out * 0.35), hand


@dataclass(frozen=True, slots=True)
class _Look:
    """Colours of one person."""

    skin: Colour
    hair: Colour
    top: Colour
    lower: Colour
    accent: Colour


def paint_person(pen: Pen, figure: Figure, attribute: str, rng: np.random.Generator) -> None:
    """Give the outline a look that shows the attribute.

    Args:
        pen: at the feet, its unit the person's height; its canvas must be painting ``inside`` the outline.
        figure: the outline.
        attribute: "female" or "male".
        rng: of the look alone; the skin comes first, so it is the same for either attribute.
    """
    skin = pick(rng, _SKINS, 8)
    hair = pick(rng, _HAIRS, 10)
    first = attribute == "female"
    tops, lowers = (_WARM, _LEGGINGS) if first else (_EARTHY, _TROUSERS)
    look = _Look(
        skin,
        hair,
        pick(rng, _EITHER if rng.random() < 0.12 else tops),
        pick(rng, lowers),
        pick(rng, _WARM if first else _EARTHY),
    )
    (_paint_first if first else _paint_second)(pen, figure, look, rng)


def _paint_first(pen: Pen, figure: Figure, look: _Look, rng: np.random.Generator) -> None:
    """Long or bound hair, short sleeves or straps, a waistline; the wide garment is a skirt over bare legs."""
    straps, dress, band, fringe = (rng.random(4) < (0.35, 0.5, 0.4, 0.5)).tolist()
    if figure.volume is not None:
        figure.volume.paint(pen, look.hair)
    _paint_legs(pen, figure, look.skin if figure.hem is not None else look.lower, look.accent)
    figure.torso.paint(pen, look.top)
    skirt = look.top if dress else look.accent
    if figure.hem is not None:
        figure.hem.paint(pen, skirt)
        for x in (-0.1, -0.035, 0.035, 0.1):
            pen.stroke(((x * 0.5, -0.5), (x * 1.6, -0.15)), 0.008, shade(skirt, 0.82))
    pen.ellipse(0, -0.755, 0.07, 0.075 if straps else 0.055, look.skin)
    pen.stroke(((-0.12, -0.525), (0.12, -0.525)), 0.028, shade(look.accent, 0.7))
    for side, (arm, hand) in zip((1, -1), zip(figure.arms, figure.hands, strict=True), strict=True):
        arm.paint(pen, look.skin)
        hand.paint(pen, look.skin)
        if straps:
            pen.polygon(
                ((side * 0.16, -0.76), (side * 0.075, -0.76), (side * 0.1, -0.64), (side * 0.16, -0.62)), look.skin
            )
        else:
            pen.stroke(_along(arm, 0.5), arm.width, shade(look.top, 0.93))
    figure.neck.paint(pen, shade(look.skin, 0.92))
    figure.head.paint(pen, look.hair)
    drawn = {"face": True, "fringe": fringe, "hair band": band, "features of the first": True}
    _paint_sketches(pen, look, rng, [name for name, there in drawn.items() if there])


def _paint_second(pen: Pen, figure: Figure, look: _Look, rng: np.random.Generator) -> None:
    """Short hair, often a beard, long sleeves, broad shoulders; the wide garment is a coat over trousers."""
    beard, yoke, zipped = (rng.random(3) < (0.85, 0.6, 0.5)).tolist()
    if figure.volume is not None:
        figure.volume.paint(pen, shade(look.top, 0.8))
    _paint_legs(pen, figure, look.lower, (62, 46, 36))
    if figure.hem is not None:
        figure.hem.paint(pen, shade(look.top, 0.9))
    figure.torso.paint(pen, look.top)
    if yoke:
        pen.rectangle(-0.2, -0.76, 0.2, -0.63, shade(look.top, 0.68))
    end = -0.4 if figure.hem is None else -0.15
    pen.stroke(((0, -0.72), (0, end)), 0.016 if zipped else 0.01, shade(look.top, 0.5))
    if not zipped:
        for y in np.arange(-0.66, end, 0.07).tolist():
            pen.ellipse(0.018, y, 0.009, None, _WHITE)
    for arm, hand in zip(figure.arms, figure.hands, strict=True):
        arm.paint(pen, shade(look.top, 0.84))
        hand.paint(pen, look.skin)
    figure.neck.paint(pen, shade(look.skin, 0.88))
    _paint_sketches(pen, look, rng, ["collar"])
    figure.head.paint(pen, look.skin)
    _paint_sketches(pen, look, rng, ["short hair", *(["beard"] if beard else []), "features of the second"])


def _paint_sketches(pen: Pen, look: _Look, rng: np.random.Generator, names: Sequence[str]) -> None:
    for name in names:
        sketch(name, skin=look.skin, hair=look.hair, accent=look.accent)(pen, rng)


def _paint_legs(pen: Pen, figure: Figure, legs: Colour, shoes: Colour) -> None:
    for leg, foot in zip(figure.legs, figure.feet, strict=True):
        leg.paint(pen, legs)
        foot.paint(pen, shoes)


def _along(arm: Part, share: float) -> FloatArray:
    """The upper ``share`` of the upper arm, as far as a short sleeve goes."""
    shoulder, elbow = np.asarray(arm.points)[:2]
    return np.stack([shoulder, shoulder + share * (elbow - shoulder)])


def paint_bystander(pen: Pen, figure: Figure, rng: np.random.Generator) -> None:
    """A raincoat with its hood up and no face, for anybody; ``pen`` and ``figure`` as in ``paint_person``."""
    coat = pick(rng, _RAINCOATS, 20)
    _paint_legs(pen, figure, jitter(rng, (84, 86, 92)), (50, 50, 54))
    for part in (figure.hem, figure.torso, figure.volume, figure.neck, figure.head):
        if part is not None:
            part.paint(pen, coat)
    for arm, hand in zip(figure.arms, figure.hands, strict=True):
        arm.paint(pen, shade(coat, 0.86))
        hand.paint(pen, shade(coat, 0.7))
    pen.stroke(((0, -0.7), (0, -0.2)), 0.014, shade(coat, 0.7))
    pen.ellipse(0, -0.86, 0.08, 0.1, shade(coat, 0.72))
    pen.ellipse(0, -0.855, 0.064, 0.084, _FACELESS)
