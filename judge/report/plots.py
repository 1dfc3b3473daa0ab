"""Matplotlib figures in the style of the report, and their files. No display is needed.

Colours are Okabe and Ito's, which colour-blind readers can tell apart; what differs in colour differs in shape too.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from judge.errors import printable
from judge.statistics.summary import Summary
from judge.types import Interval
from judge.utils.files import write_whole, writing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, GREY, PALE, NOTE, HUMAN, GENERATED = "#1b1b1b", "#767676", "#c8c8c8", "#555555", "#0072b2", "#d55e00"
# Colours and markers of captioners or judges beside each other.
SEVERAL = (HUMAN, GENERATED, "#009e73", "#cc79a7", "#56b4e9", "#e69f00")
MARKS = "osD^vPX"
# Colours of a figure on a dark page.
_DARK = {
    "#000000": "#ececec", INK: "#ececec", GREY: "#a5a5a5", PALE: "#565b61", HUMAN: "#5ab4ec", GENERATED: "#f29250",
    "#009e73": "#3fc49c", "#cc79a7": "#e59cc5", "#56b4e9": "#8ccbf0", "#e69f00": "#efb83a",
}  # fmt: skip
BASES = {
    "refits": "for another sample of such images, judges trained anew (from refits)",
    "splits": "for another sample of such images, judges trained anew (from splits)",
    "images": "for another sample of such images",
    "these judges": "of images alone, for the judges as they were trained (too narrow)",
}
"""Basis of an interval -> what the interval is for."""
_STYLE: Any = {
    "text.parse_math": False,
    "svg.fonttype": "none",  # Text stays text.
    "svg.hashsalt": "judge",  # The same figure gives the same file.
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "legend.fontsize": 9,
}
_LONGEST = 30
# Stands for infinity, to which matplotlib draws no line.
_FAR = 1e9


@dataclass(frozen=True, slots=True)
class Drawing:
    """A figure of a report.

    Attributes:
        name: of its files.
        title: what it shows.
        text: its values in words, for readers who cannot see it.
        note: how many images it is of, what its bars and lines are.
        paint: makes it.
    """

    name: str
    title: str
    text: str
    note: str
    paint: Callable[[], Figure]

    def draw(self) -> Figure:
        """The figure, without its note."""
        import matplotlib as mpl

        with mpl.rc_context(_STYLE):
            return self.paint()

    def svg_for_page(self) -> str:
        """The figure as SVG that follows the colour scheme of the page."""
        rules = "".join(
            f'[style*="{part}: {light}"]{{{part}:{dark}!important}}'
            for light, dark in _DARK.items()
            for part in ("fill", "stroke")
        )
        style = f"<style>@media (prefers-color-scheme:dark){{text{{fill:#ececec}}{rules}}}</style>"
        return save(self.draw(), "svg").decode().replace("</svg>", f"{style}</svg>")

    def write(self, path: Path) -> None:
        """Write the figure with its note below it, as PNG and as SVG.

        Args:
            path: of the files, without suffix; their folder must exist.

        Raises:
            JudgeError: a file cannot be written.
        """
        figure = self.draw()
        lines = fill(self.note, int(16 * figure.get_figwidth()))
        figure.set_figheight(figure.get_figheight() + 0.13 * (lines.count("\n") + 2))
        figure.supxlabel(lines, x=0.01, ha="left", fontsize=8, color=NOTE)
        with writing(path):
            for kind in ("png", "svg"):
                write_whole(path.with_name(f"{path.name}.{kind}"), save(figure, kind))


def new_figure(width: float, height: float) -> Figure:
    """An empty figure of this size, in inches."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def save(figure: Figure, kind: str) -> bytes:
    """The file of a figure ("png" or "svg"); an SVG has no background."""
    import matplotlib as mpl

    buffer = io.BytesIO()
    with warnings.catch_warnings(), mpl.rc_context(_STYLE):
        # A name in a script that the font lacks is drawn as boxes.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        metadata = {"Date": None, "Creator": None} if kind == "svg" else None
        figure.savefig(buffer, format=kind, dpi=150, transparent=kind == "svg", metadata=metadata)
    return buffer.getvalue()


def shorten(name: str, longest: int = _LONGEST) -> str:
    """A name without its middle: beginnings (owners) and ends (sizes) tell names apart."""
    name = printable(name)
    end = longest // 2 + 3
    return name if len(name) <= longest else f"{name[: longest - end - 1]}\N{HORIZONTAL ELLIPSIS}{name[-end:]}"


def draw_interval(axes: Axes, interval: Interval | None, at: float, *, vertical: bool = False, **style: Any) -> None:
    """Draw an interval as a line at this place of the other axis; an infinite end runs off the axes."""
    if interval:
        ends = np.clip([interval.low, interval.high], -_FAR, _FAR)
        axes.plot(*(([at, at], ends) if vertical else (ends, [at, at])), **style)


def set_limits(axes: Axes, values: Sequence[float | None], *, vertical: bool = False) -> None:
    """Limits that hold all finite values, with a margin."""
    known = [value for value in values if value is not None and np.isfinite(value)]
    margin = 0.06 * ((max(known) - min(known)) or 0.1)
    (axes.set_ylim if vertical else axes.set_xlim)(min(known) - margin, max(known) + margin)
    axes.locator_params(axis="y" if vertical else "x", nbins=5)


def values_of(rows: Sequence[Summary]) -> list[float]:
    """Values that an axis of amplifications must show: the neutral one, amplifications, and ends of intervals."""
    bounds = [bound for row in rows if row.interval for bound in (row.interval.low, row.interval.high)]
    return [rows[0].metric.neutral, *(cast("float", row.amplification) for row in rows), *bounds]


def note_of(rows: Sequence[Summary]) -> str:
    """The note on rows of a figure: number of images, and what the bars are."""
    images = sorted({row.images for row in rows})
    count = f"n = {' to '.join(f'{number:,}' for number in dict.fromkeys([images[0], images[-1]]))} images"
    bases = [basis for basis in dict.fromkeys(row.basis for row in rows if row.interval) if basis]
    level = max((row.interval.level for row in rows if row.interval), default=0.95)
    bars = f". Bars: {100 * level:g}% interval {'; '.join(BASES[basis] for basis in bases)}"
    return f"{count}{bars if bases else '; no interval'}."
