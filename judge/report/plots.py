"""Matplotlib figures in the style of the report, and their files. No display is needed.

Colours are Okabe and Ito's, which colour-blind readers can distinguish; marks differ in shape as well.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np

from judge.errors import printable
from judge.types import Interval
from judge.utils.files import write_whole, writing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, GREY, PALE, NOTE, HUMAN, GENERATED = "#1b1b1b", "#767676", "#c8c8c8", "#555555", "#0072b2", "#d55e00"
# Colours and markers of captioners beside each other.
SEVERAL, MARKS = (HUMAN, GENERATED, "#009e73", "#cc79a7", "#56b4e9", "#e69f00"), "osD^vPX"
WIDTH, _ROW = 5.6, 0.28  # Inches.
# Characters of a name; a number that stands for infinity, to which matplotlib draws no line.
_LONGEST, _FAR = 30, 1e9
_STYLE: Any = {
    "text.parse_math": False,
    "svg.fonttype": "none",  # Text stays text.
    "svg.hashsalt": "judge",  # The same figure gives the same file.
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "legend.fontsize": 9,
}


@dataclass(frozen=True, slots=True)
class Drawing:
    """A figure of a report, drawn in :func:`style`, and the name of its files.

    ``text``: its values in words, for readers who cannot see it. ``note``: number of images, and what is drawn.
    """

    name: str
    title: str
    text: str
    note: str
    figure: Figure

    def write(self, path: Path) -> None:
        """Add the note below the figure, and write ``path``.png and .svg; the folder must exist."""
        figure = self.figure
        lines = fill(self.note, int(16 * figure.get_figwidth()))
        figure.set_figheight(figure.get_figheight() + 0.13 * (lines.count("\n") + 2))
        figure.supxlabel(lines, x=0.01, ha="left", fontsize=8, color=NOTE)
        with writing(path):
            for kind in ("png", "svg"):
                write_whole(path.with_name(f"{path.name}.{kind}"), save(figure, kind))


def style() -> AbstractContextManager[None]:
    """The style of the report's figures, in which they are drawn and saved."""
    import matplotlib as mpl

    return mpl.rc_context(_STYLE)


def new_figure(width: float, height: float) -> Figure:
    """An empty figure of this size, in inches."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def save(figure: Figure, kind: str) -> bytes:
    """The file of a figure ("png" or "svg"); an SVG has no background."""
    buffer = io.BytesIO()
    with warnings.catch_warnings(), style():
        # A name in a script that the font lacks is drawn as boxes.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        metadata = {"Date": None, "Creator": None} if kind == "svg" else None
        figure.savefig(buffer, format=kind, dpi=150, transparent=kind == "svg", metadata=metadata)
    return buffer.getvalue()


def shorten(name: str) -> str:
    """A name without its middle: beginnings (owners) and ends (sizes) distinguish names."""
    name, end = printable(name), _LONGEST // 2 + 3
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST - end - 1]}\N{HORIZONTAL ELLIPSIS}{name[-end:]}"


def rows_figure(labels: Sequence[str], across: str) -> tuple[Figure, Axes]:
    """A figure with a named row for each label, the first one on top; ``across``: what its horizontal axis is of."""
    figure = new_figure(WIDTH, 0.7 + _ROW * max(2, len(labels)))
    axes = figure.subplots()
    axes.set_yticks(range(len(labels)), labels)
    axes.set_ylim(len(labels) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0, pad=8)
    axes.spines["left"].set_visible(False)
    axes.set_xlabel(across)
    return figure, axes


def draw_interval(axes: Axes, interval: Interval | None, at: float, *, vertical: bool = False, **style: Any) -> None:
    """Draw an interval as a line at this place of the other axis; an infinite end runs off the axes."""
    if interval:
        ends = np.clip([interval.low, interval.high], -_FAR, _FAR)
        axes.plot(*(([at, at], ends) if vertical else (ends, [at, at])), **style)


def tick(axes: Axes, chance: float | None, place: int) -> None:
    """A dotted tick at chance, in the row at this place."""
    if chance is not None:
        axes.plot([chance] * 2, [place - 0.35, place + 0.35], color=INK, linewidth=1, linestyle=":")


def look(number: int) -> dict[str, Any]:
    """Colour and marker of the captioner of this number."""
    return {"color": SEVERAL[number % len(SEVERAL)], "marker": MARKS[number % len(MARKS)]}


def set_limits(axes: Axes, values: Sequence[float | None], *, vertical: bool = False) -> None:
    """Limits that hold all finite values, with a margin."""
    known = [value for value in values if value is not None and np.isfinite(value)]
    margin = 0.06 * ((max(known) - min(known)) or 0.1)
    (axes.set_ylim if vertical else axes.set_xlim)(min(known) - margin, max(known) + margin)
    axes.locator_params(axis="y" if vertical else "x", nbins=5)


def legend(figure: Figure, axes: Axes, names: Sequence[str], loc: Any = "outside right upper", ncols: int = 1) -> None:
    """The first point of each captioner, and its name."""
    points = {str(line.get_label()): line for line in reversed(axes.lines) if line.get_marker() not in {"None", ""}}
    figure.legend([points[name] for name in names], list(map(shorten, names)), loc=loc, ncols=ncols)
