"""Draws the entries of ``drawings.yaml``, which says what each is made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from judge.calibration.drawing.canvas import Colour, Pen, oval, pick, shade
from judge.utils.reading import read_yaml

Draw = Callable[[Pen, np.random.Generator], None]
"""Paints something around the pen's origin."""

_SHAPES: Mapping[str, Callable[..., None]] = {
    "polygon": lambda pen, colour, *points: pen.polygon(points, colour),
    "box": lambda pen, colour, *sides: pen.rectangle(*sides, colour),
    "ellipse": lambda pen, colour, x, y, radius, height=None: pen.ellipse(x, y, radius, height, colour),
    "line": lambda pen, colour, width, *points: pen.stroke(points, width, colour),
    "loop": lambda pen, colour, width, *points: pen.stroke(points, width, colour, closed=True),
    "arc": lambda pen, colour, width, x, y, radius, height, start, stop: pen.stroke(
        oval(x, y, radius, height, start=start, stop=stop), width, colour
    ),
    "ring": lambda pen, colour, width, *form: pen.stroke(oval(*form), width, colour, closed=True),
}


@cache
def _file() -> Mapping[str, Any]:
    path = Path(__file__).parents[1] / "drawings.yaml"
    data: Mapping[str, Any] = read_yaml(path, mend="install the package again")
    return data


def sketch(name: str, **colours: Colour) -> Draw:
    """What draws the entry ``name`` of ``drawings.yaml``; ``colours``: those that it leaves open."""
    return partial(_draw, name, colours)


def _draw(name: str, colours: Mapping[str, Colour], pen: Pen, rng: np.random.Generator) -> None:
    file = _file()
    drawing, palette = file["drawings"][name], {**file["palette"], **colours}
    for colour, choices in drawing.get("colours", {}).items():
        known = file["choices"][choices] if isinstance(choices, str) else choices
        palette[colour] = pick(rng, [_colour(choice, palette) for choice in known])
    _draw_shapes(drawing["shapes"], palette, pen, rng)


def _draw_shapes(shapes: Sequence[Any], palette: Mapping[str, Colour], pen: Pen, rng: np.random.Generator) -> None:
    for shape in shapes:
        if isinstance(shape, list):
            kind, colour, *numbers = shape
            _SHAPES[kind](pen, _colour(colour, palette), *numbers)
        elif "at" in shape:
            for x, y in shape["at"]:
                _draw_shapes(shape["shapes"], palette, pen.at(x, y), rng)
        elif rng.random() < shape["chance"]:
            _draw_shapes(shape["shapes"], palette, pen, rng)


def _colour(spec: Any, palette: Mapping[str, Colour]) -> Colour:
    """RGB of a colour as drawings write it."""
    if not isinstance(spec, str):
        red, green, blue = spec
        return red, green, blue
    name, _, factor = spec.partition("*")
    return shade(palette[name], float(factor)) if factor else palette[name]
