"""Pictures for reports. Drawn without a display; a file appears whole or not at all."""

from __future__ import annotations

import hashlib
import io
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from judge.errors import JudgeError
from judge.quality import Quality
from judge.statistics.summary import Summary
from judge.types import FloatArray, Interval
from judge.utils.files import write_whole, writing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

GREY, NOTE = "#767676", "#555555"
# Of captioners, or judges, beside each other: Okabe and Ito's colours, and marks.
SEVERAL = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00")
MARKS = "osD^vPX"
BASES = {
    "refits": "for another sample of such images, judges trained anew (from refits)",
    "splits": "for another sample of such images, judges trained anew (from splits)",
    "images": "for another sample of such images",
    "these judges": "of images alone, for the judges as they were trained (too narrow)",
}
"""What an interval is from -> what it is for."""
# What a figure's note is called in its SVG, and the inches at the foot that are kept for it.
NOTE_ID, NOTE_HEIGHT = "note", 0.42
_LONGEST = 30
# As good as infinite: matplotlib draws no line to infinity, and would show no interval at all.
_FAR = 1e9


def new_figure(width: float, height: float, **settings: Any) -> Figure:
    """An empty figure of these inches."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), **settings)
    FigureCanvasAgg(figure)
    return figure


def add_note(figure: Figure, text: str) -> None:
    """Write what the figure is of, and what its bars are, at its foot."""
    from textwrap import fill

    place = 0.03 / figure.get_figheight()
    letters = int(16.4 * figure.get_figwidth())
    figure.text(0.01, place, fill(text, letters), fontsize=8, color=NOTE, va="bottom", parse_math=False, gid=NOTE_ID)


def note_of(figure: Figure) -> str:
    """The note of a figure, on one line; "" without."""
    return " ".join(" ".join(text.get_text().split()) for text in figure.texts if text.get_gid() == NOTE_ID)


def shorten(name: str, longest: int = _LONGEST) -> str:
    """A name as a figure has room for it: without its middle, as beginnings (owners) and ends (sizes) tell apart."""
    if len(name) <= longest:
        return name
    end = longest // 2 + 3
    return f"{name[: longest - end - 1]}\N{HORIZONTAL ELLIPSIS}{name[-end:]}"


def as_svg(figure: Figure) -> str:
    """A figure as SVG: text stays text; the same figure gives the same file."""
    import matplotlib as mpl

    buffer = io.BytesIO()
    with _quiet(), mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "judge"}):
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    return _renamed(_UNPRINTED.sub("\N{REPLACEMENT CHARACTER}", buffer.getvalue().decode()))


# What XML cannot hold.
_UNPRINTED = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")


def change_tags(svg: str, change: Callable[[str], str]) -> str:
    """An SVG with ``change`` made in its tags; text, which may say anything, stays ("<" is escaped there)."""
    return re.sub(r"<[^>]*>", lambda tag: change(tag[0]), svg)


def _renamed(svg: str) -> str:
    """With ids that depend on what is drawn alone (matplotlib's depend on memory too), and clash with no other's."""
    tags = "".join(re.findall(r"<[^>]*>", svg))
    numbers = {name: str(n) for n, name in enumerate(dict.fromkeys(re.findall(r'id="([a-z][0-9a-f]{10})"', tags)))}
    if not numbers:
        return svg
    ids = re.compile("|".join(numbers))
    plain = change_tags(svg, lambda tag: ids.sub(lambda found: numbers[found[0]], tag))
    mark = hashlib.blake2b(plain.encode(), digest_size=4).hexdigest()
    return change_tags(svg, lambda tag: ids.sub(lambda found: f"f{mark}-{numbers[found[0]]}", tag))


def write_figure(figure: Figure, path: Path) -> str:
    """Write a figure as PNG and as SVG.

    Args:
        figure: drawn.
        path: of the files, without suffix; their folder must be there.

    Returns:
        The SVG.

    Raises:
        JudgeError: a file cannot be written.
    """
    buffer = io.BytesIO()
    with _quiet():
        figure.savefig(buffer, format="png", dpi=150)
    found = as_svg(figure)
    with writing(path):
        write_whole(path.with_name(f"{path.name}.png"), buffer.getvalue())
        write_whole(path.with_name(f"{path.name}.svg"), found.encode())
    return found


@contextmanager
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        # A name in a script that the font lacks is drawn as boxes.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        yield


def count_of(rows: Sequence[Summary]) -> str:
    """How many images, "n = 1,200 images"."""
    images = sorted({row.images for row in rows})
    return f"n = {images[0]:,} images" if len(images) == 1 else f"n = {images[0]:,} to {images[-1]:,} images"


def notes_of(rows: Sequence[Summary], level: float) -> str:
    """n, and what the bars are."""
    bases = [basis for basis in dict.fromkeys(row.basis for row in rows if row.interval) if basis]
    bars = "; ".join(BASES[basis] for basis in bases)
    return f"{count_of(rows)}{f'. Bars: {100 * level:g}% interval {bars}' if bars else '; no interval'}."


def ends(interval: Interval) -> list[float]:
    """Both ends of a bar; one without end leaves the picture."""
    return [max(-_FAR, interval.low), min(_FAR, interval.high)]


def limits_of(values: Sequence[float]) -> tuple[float, float]:
    """Of an axis that holds all of ``values`` that are finite, with a margin."""
    known = [value for value in values if np.isfinite(value)]
    least, most = min(known), max(known)
    margin = 0.06 * ((most - least) or 0.1)
    return least - margin, most + margin


def draw_against_quality(rows: Sequence[Summary], qualities: Mapping[str, Quality]) -> Figure:
    """Amplification against vocabulary and against CIDEr, a point per captioner. LIC's Figure 3.

    Bars are the rows' intervals, the grey line is no amplification, the dotted one the least-squares line over
    captioners with its R^2 (three captioners or more). The paper's figure has BLEU-4 in the place of CIDEr.

    Args:
        rows: of one metric and one judge; those without an amplification are not drawn.
        qualities: captioner -> its quality.

    Raises:
        ValueError: rows of several metrics or judges.
        JudgeError: nothing to draw; a captioner whose quality is not known.
    """
    if len({(row.metric, row.judge) for row in rows}) > 1:
        raise ValueError("rows of several metrics or judges")
    drawn = [row for row in rows if row.amplification is not None and np.isfinite(row.amplification)]
    if not drawn:
        raise JudgeError("no captioner has an amplification to draw", mend="name a metric that compares two sides")
    if missing := [row.captioner for row in drawn if row.captioner not in qualities]:
        raise JudgeError(f"the caption quality of '{missing[0]}' is not known", mend="measure it first")
    figure = new_figure(5.6, 3.4 + 0.2 * ((len(drawn) + 1) // 2))
    left, right = _panels(figure, rows=(len(drawn) + 1) // 2)
    found = [qualities[row.captioner] for row in drawn]
    points = _draw(left, drawn, [quality.vocabulary["generated"] for quality in found], "vocabulary (distinct words)")
    _draw(right, drawn, [quality.value("CIDEr") for quality in found], "CIDEr")
    bounds = [bound for row in drawn if row.interval for bound in (row.interval.low, row.interval.high)]
    left.set_ylim(limits_of([drawn[0].metric.neutral, *(cast("float", row.amplification) for row in drawn), *bounds]))
    left.set_ylabel(f"amplification by {drawn[0].title}", parse_math=False, fontsize=9)
    names = [str(number) for number in range(len(points))]
    legend = figure.legend(points, names, loc="upper left", frameon=False, fontsize=8, ncols=2)
    # Named afterwards: matplotlib reads "$" as a formula, and leaves out what begins with "_".
    for text, row in zip(legend.get_texts(), drawn, strict=True):
        text.set_parse_math(False)
        text.set_text(shorten(row.captioner, 38))
    add_note(figure, _quality_note(drawn))
    return figure


def _panels(figure: Figure, *, rows: int) -> tuple[Axes, Axes]:
    """Two panels beside each other, below a legend of so many rows."""
    height = figure.get_figheight()
    low, high = 0.95 / height, 1 - (0.3 + 0.2 * rows) / height
    left = figure.add_axes((0.14, low, 0.4, high - low))
    right = figure.add_axes((0.58, low, 0.4, high - low), sharey=left)
    right.tick_params(labelleft=False)
    for axes in (left, right):
        axes.tick_params(labelsize=8)
        axes.locator_params(axis="x", nbins=5)
    return left, right


def _quality_note(rows: Sequence[Summary]) -> str:
    """n, and what bars and lines are."""
    level = max((row.interval.level for row in rows if row.interval), default=0.95)
    trend = " Dotted: least squares." if len(rows) > 2 else ""
    return f"{notes_of(rows, level)} The line is chance: no amplification.{trend}"


def _draw(axes: Axes, rows: Sequence[Summary], across: Sequence[float], name: str) -> list[Line2D]:
    """One panel: a point with its bar per captioner, the line of no amplification, the trend. Returns the points."""
    points = []
    x = np.asarray(across, dtype=np.float64)
    y = np.array([row.amplification for row in rows], dtype=np.float64)
    axes.axhline(rows[0].metric.neutral, color=GREY, linewidth=0.8)
    # Six colours and seven marks: the seventh captioner has the first colour and another mark.
    for number, (row, at, value) in enumerate(zip(rows, x, y, strict=True)):
        colour, mark = SEVERAL[number % len(SEVERAL)], MARKS[number % len(MARKS)]
        if row.interval:
            axes.plot([at, at], ends(row.interval), color=colour, linewidth=1.2)
        points += axes.plot([at], [value], mark, color=colour, markersize=7, label=row.captioner)
    known = np.isfinite(x)
    if known.sum() > 2 and np.ptp(x[known]) > 0:
        _trend(axes, x[known], y[known])
    axes.set_xlabel(name, fontsize=9)
    axes.margins(x=0.1)
    axes.spines[["top", "right"]].set_visible(False)
    return points


def _trend(axes: Axes, x: FloatArray, y: FloatArray) -> None:
    from scipy import stats

    line = stats.linregress(x, y)
    ends = np.array([x.min(), x.max()])
    axes.plot(ends, line.intercept + line.slope * ends, ":", color=GREY)
    axes.set_title(f"$R^2$ = {line.rvalue**2:.2f} over {len(x)} captioners", fontsize=9)
