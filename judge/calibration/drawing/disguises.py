"""People whose attribute nobody could see: from behind with the hood up, or in suits and costumes that cover all.

The outline is that of ``people``, made wider here and there, and the paint takes nothing but a generator: there is no
argument through which a class could reach a pixel.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from judge.calibration.drawing.canvas import Colour, Pen, oval, pick, shade
from judge.calibration.drawing.people import Figure, Part
from judge.calibration.drawing.sketches import sketch

_COATS = ((196, 74, 52), (52, 104, 150), (92, 128, 78), (214, 170, 60), (120, 96, 140), (88, 96, 106), (60, 140, 140))
_FURS = ((150, 100, 58), (206, 146, 74), (128, 132, 140), (236, 204, 120), (110, 160, 110), (150, 120, 180))
_ACCENTS = ((206, 48, 44), (40, 100, 190), (236, 150, 40), (50, 150, 100))
_DARK: Colour = (52, 54, 62)


@dataclass(frozen=True, slots=True)
class Disguise:
    """What covers a person whole.

    Attributes:
        shape: the outline in it, of the outline without it.
        suits: colours of it, RGB.
        end: colour of gloves and boots; None: the suit's own, darker.
        drawing: the entry of ``drawings.yaml`` that is drawn over it.
        turned: the person stands with the back to us, so that nothing can be held before the body.
    """

    shape: Callable[[Figure], Figure]
    suits: tuple[Colour, ...]
    end: Colour | None
    drawing: str
    turned: bool = False


def _coat(figure: Figure) -> Figure:
    return replace(_wider(figure, 1.25), volume=Part(oval(0, -0.86, 0.118, 0.138)), hem=None)


def _helmet(figure: Figure) -> Figure:
    return replace(_wider(figure, 1.45), volume=Part(oval(0, -0.86, 0.138, 0.138)), hem=None)


def _bottles(figure: Figure) -> Figure:
    bottles = ((-0.115, -0.79), (-0.03, -0.79), (0.03, -0.79), (0.115, -0.79), (0.125, -0.42), (-0.125, -0.42))
    return replace(_wider(figure, 1.1), volume=Part(bottles), hem=None)


def _hood(figure: Figure) -> Figure:
    return replace(_wider(figure, 1.5), volume=Part(oval(0, -0.86, 0.116, 0.138)), hem=None)


def _big_head(figure: Figure) -> Figure:
    ears = [oval(x, -0.955, 0.05, 0.04, start=0.45, stop=1.05) for x in (-0.105, 0.105)]
    face = oval(0, -0.83, 0.15, 0.14)
    around = np.concatenate([*ears, face[:15]])  # Along the ears, then down and around the chin.
    return replace(_wider(figure, 1.6), head=Part(around), volume=Part(face), hem=None)


def _veil(figure: Figure) -> Figure:
    return replace(_wider(figure, 1.3), volume=Part(oval(0, -0.92, 0.17, 0.05)), hem=None)


def _wider(figure: Figure, factor: float) -> Figure:
    """Arms, legs and feet in thick cloth."""
    arms, legs, feet = (
        (replace(right, width=right.width * factor), replace(left, width=left.width * factor))
        for right, left in (figure.arms, figure.legs, figure.feet)
    )
    return replace(figure, arms=arms, legs=legs, feet=feet)


DISGUISES: dict[str, Disguise] = {
    "hood from behind": Disguise(_coat, _COATS, _DARK, "back in a hood", turned=True),
    "backpack from behind": Disguise(_coat, _COATS, _DARK, "back with a backpack", turned=True),
    "space suit": Disguise(_helmet, ((236, 238, 240), (222, 226, 232), (236, 150, 70)), None, "space suit"),
    "diving suit": Disguise(_bottles, ((44, 48, 56), (36, 58, 84)), None, "diving suit"),
    "protective suit": Disguise(
        _hood, ((240, 206, 50), (236, 240, 240), (242, 134, 50)), (60, 70, 66), "protective suit"
    ),
    "beekeeper's suit": Disguise(_veil, ((240, 236, 222), (226, 214, 180)), (70, 120, 150), "beekeeper's veil"),
    "mascot": Disguise(_big_head, _FURS, None, "mascot"),
}


def choose_disguise(rng: np.random.Generator, *, front: bool) -> Disguise:
    """One of them; ``front``: something is held before the body, which is then not turned away."""
    fitting = [disguise for disguise in DISGUISES.values() if not (front and disguise.turned)]
    return fitting[int(rng.integers(len(fitting)))]


def paint_disguise(pen: Pen, figure: Figure, disguise: Disguise, rng: np.random.Generator) -> None:
    """Cover the outline; ``pen`` as in ``paint_person``, ``figure`` as ``disguise`` shapes it."""
    suit, accent = pick(rng, disguise.suits, 8), pick(rng, _ACCENTS)
    end = disguise.end or shade(suit, 0.72)
    for leg, foot in zip(figure.legs, figure.feet, strict=True):
        leg.paint(pen, _DARK if disguise.turned else shade(suit, 0.93))
        foot.paint(pen, end)
    for part in (figure.volume, figure.hem, figure.torso, figure.neck, figure.head):
        if part is not None:
            part.paint(pen, suit)
    for arm, hand in zip(figure.arms, figure.hands, strict=True):
        arm.paint(pen, shade(suit, 0.85))
        hand.paint(pen, end)
    sketch(disguise.drawing, suit=suit, accent=accent)(pen, rng)
