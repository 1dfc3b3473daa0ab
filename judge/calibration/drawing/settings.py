"""The eight settings: a background each, and a prop that may stand in front of people.

In the picture's coordinates, 0 to 1; nothing here belongs to any thing, a crowd in a stadium included.
"""

from __future__ import annotations

import numpy as np

from judge.calibration.drawing.canvas import Pen, jitter, pick
from judge.calibration.drawing.indoors import bedroom, kitchen, office
from judge.calibration.drawing.outdoors import beach, court, park, stadium, street
from judge.calibration.drawing.sketches import Draw, sketch


def _bush(pen: Pen, rng: np.random.Generator) -> None:
    leaf = jitter(rng, (48, 118, 56))
    for x, y in ((-0.13, -0.06), (0.13, -0.06), (-0.06, -0.13), (0.07, -0.13), (0, -0.05)):
        pen.ellipse(x, y, 0.1, None, leaf)
    for x, y in rng.uniform((-0.17, -0.18), (0.17, -0.02), size=(9, 2)).tolist():
        pen.ellipse(x, y, 0.018, None, pick(rng, ((240, 110, 150), (250, 230, 110), (110, 180, 90))))


def _barrier(pen: Pen, rng: np.random.Generator) -> None:
    """Of iron bars, with a football before it."""
    sketch("barrier")(pen, rng)
    sketch("football")(pen.at(float(rng.uniform(-0.1, 0.1)), -0.065), rng)


DRAWN: dict[str, tuple[Draw, Draw]] = {
    "kitchen": (kitchen, sketch("counter")),
    "street": (street, sketch("hydrant")),
    "beach": (beach, sketch("castle")),
    "court": (court, sketch("balls")),
    "office": (office, sketch("plant")),
    "park": (park, _bush),
    "bedroom": (bedroom, sketch("armchair")),
    "stadium": (stadium, _barrier),
}
"""Setting -> what paints the whole background, and a prop about 0.4 wide around the bottom centre of it."""
