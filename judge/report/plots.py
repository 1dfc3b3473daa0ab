"""Pictures for reports. Drawn without a display; a file appears whole or not at all."""

from __future__ import annotations

import io
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from judge.errors import JudgeError, require
from judge.quality import Quality
from judge.statistics.summary import Summary
from judge.types import FloatArray
from judge.utils.files import write_whole, writing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

_MARKERS, _GREY = "os^Dv*PX", "#999999"


def plot_against_quality(rows: Sequence[Summary], qualities: Mapping[str, Quality], path: Path) -> None:
    """Write :func:`draw_against_quality` as a PNG.

    Args:
        rows: of one metric and one judge.
        qualities: captioner -> its quality.
        path: of the file; its folder must be there.

    Raises:
        ValueError: as of the drawing.
        JudgeError: as of the drawing; or the file cannot be written.
    """
    figure = draw_against_quality(rows, qualities)
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        # A name in a script that the font lacks is drawn as boxes.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        figure.savefig(buffer, format="png", dpi=150)
    with writing(path):
        write_whole(path, buffer.getvalue())


def draw_against_quality(rows: Sequence[Summary], qualities: Mapping[str, Quality]) -> Figure:
    """Amplification against vocabulary and against CIDEr, a point per captioner. LIC's Figure 3.

    Bars are the rows' intervals, the grey line is no amplification, the dotted one the least-squares line over
    captioners with its R^2 (three captioners or more). The paper's figure has BLEU-4 in the place of CIDEr.

    Args:
        rows: of one metric and one judge; those without an amplification are not drawn.
        qualities: captioner -> its quality.

    Raises:
        ValueError: rows of several metrics or judges.
        JudgeError: matplotlib is not installed; nothing to draw; a captioner whose quality is not known.
    """
    require("quality", "matplotlib")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    if len({(row.metric, row.judge) for row in rows}) > 1:
        raise ValueError("rows of several metrics or judges")
    drawn = [row for row in rows if row.amplification is not None and np.isfinite(row.amplification)]
    if not drawn:
        raise JudgeError("no captioner has an amplification to draw", mend="name a metric that compares two sides")
    if missing := [row.captioner for row in drawn if row.captioner not in qualities]:
        raise JudgeError(f"the caption quality of '{missing[0]}' is not known", mend="measure it first")
    figure = Figure(figsize=(9, 4), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2, sharey=True)
    found = [qualities[row.captioner] for row in drawn]
    points = _draw(left, drawn, [quality.vocabulary["generated"] for quality in found], "vocabulary (distinct words)")
    _draw(right, drawn, [quality.value("CIDEr") for quality in found], "CIDEr")
    left.set_ylabel(drawn[0].title, parse_math=False)
    legend = figure.legend(points, [str(number) for number in range(len(points))], loc="outside right center")
    # Named afterwards: matplotlib reads "$" as a formula, and leaves out what begins with "_".
    for text, row in zip(legend.get_texts(), drawn, strict=True):
        text.set_parse_math(False)
        text.set_text(row.captioner)
    return figure


def _draw(axes: Axes, rows: Sequence[Summary], across: Sequence[float], name: str) -> list[Line2D]:
    """One panel: a point with its bar per captioner, the line of no amplification, the trend. Returns the points."""
    points = []
    x = np.asarray(across, dtype=np.float64)
    y = np.array([row.amplification for row in rows], dtype=np.float64)
    axes.axhline(rows[0].metric.neutral, color=_GREY, linewidth=0.8)
    # Ten colours; the eleventh captioner has the first colour and another mark.
    for number, (row, at, value) in enumerate(zip(rows, x, y, strict=True)):
        colour, mark = f"C{number % 10}", _MARKERS[(number + number // 10) % len(_MARKERS)]
        if row.interval:
            axes.plot([at, at], [row.interval.low, row.interval.high], color=colour, linewidth=1.2)
        points += axes.plot([at], [value], mark, color=colour, markersize=7, label=row.captioner)
    known = np.isfinite(x)
    if known.sum() > 2 and np.ptp(x[known]) > 0:
        _trend(axes, x[known], y[known])
    axes.set_xlabel(name)
    axes.margins(x=0.1, y=0.1)
    axes.spines[["top", "right"]].set_visible(False)
    return points


def _trend(axes: Axes, x: FloatArray, y: FloatArray) -> None:
    from scipy import stats

    line = stats.linregress(x, y)
    ends = np.array([x.min(), x.max()])
    axes.plot(ends, line.intercept + line.slope * ends, ":", color=_GREY)
    axes.set_title(f"$R^2$ = {line.rvalue**2:.2f} over {len(x)} captioners", fontsize=9)
