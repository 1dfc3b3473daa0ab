"""The figures of a report, by section. Axes hold what is neutral (or 0) and every interval whole."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from judge.judges.names import BLANKED
from judge.measure import Result
from judge.metrics import Metric
from judge.report import plots
from judge.report.plots import Drawing
from judge.report.table import grouped, span
from judge.report.tables import lines_of, void_last
from judge.statistics.comparisons import HIGHER, LOWER, NO_VERDICT
from judge.statistics.summary import Summary, name_row

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BASES = {
    "refits": "for another sample of such images, judges trained anew (from refits)",
    "splits": "for another sample of such images, judges trained anew (from splits)",
    "images": "for another sample of such images",
    "these judges": "of images alone, for the judges as they were trained (too narrow)",
}
"""Basis of an interval -> what the interval is for."""
_MARKS = "Circles: above the line; squares: below it; hollow diamonds: neither was shown (pale: no verdict)"
_NO_AMPLIFICATION = "The line is chance: no amplification."


def forests(result: Result) -> Iterator[Drawing]:
    """Amplification with its interval: of each metric a figure, with a row per captioner and judge."""
    verdicts = {line.summary.key: line.conclusion.verdict for line in lines_of(result)}
    for metric, rows in _by_metric(result).items():
        figure, axes = plots.rows_figure(_labels(rows), f"amplification by {metric.title}")
        chances = [None if metric.counted else row.chance_level for row in rows]
        for place, (row, chance) in enumerate(zip(rows, chances, strict=True)):
            _draw_row(axes, row, verdicts[row.key], place)
            plots.tick(axes, chance, place)
        axes.axvline(metric.neutral, color=plots.INK, linewidth=1)
        plots.set_limits(axes, [*_values(rows), *chances])
        line = "what chance gives (taken off the values)" if metric.counted else "no amplification"
        if any(chance is not None for chance in chances):
            exchanged = "shuffling labels" if metric.amplification == "one_side" else "exchanging captions"
            line += f"; dotted ticks: chance, as estimated by {exchanged}"
        note = f"{_note(rows)} {_MARKS}; the line: {line}."
        yield Drawing(f"forest-{metric.name}", f"{metric.title}: amplification", _in_words(rows), note, figure)


def _draw_row(axes: Axes, row: Summary, verdict: str | None, place: int) -> None:
    """The amplification of a row, with its interval; colour and mark are those of its verdict."""
    colour, marker = (plots.PALE if verdict == NO_VERDICT else plots.GREY), "D"
    colour, marker = (plots.HUMAN, "s") if verdict in LOWER else (colour, marker)
    colour, marker = (plots.GENERATED, "o") if verdict in HIGHER else (colour, marker)
    plots.draw_interval(axes, row.interval, place, color=colour, linewidth=2)
    face = "none" if marker == "D" else colour
    axes.plot([_value(row)], [place], marker, color=colour, markersize=7, markerfacecolor=face)


def variants(results: Mapping[str, Result]) -> Iterator[Drawing]:
    """Yield a figure for each metric and judge, with a row for each captioner and run. Runs differ in one setting."""
    lines = ((name, line) for name, result in results.items() for line in lines_of(result) if _has_value(line.summary))
    for title, of in grouped((line.summary.title, (name, line)) for name, line in lines).items():
        captioners = list(dict.fromkeys(line.summary.captioner for _, line in of))
        of.sort(key=lambda pair: captioners.index(pair[1].summary.captioner))
        rows = [replace(line.summary, interval=None) if line.void else line.summary for _, line in of]
        # A name may be a path (hf:FOLDER).
        labels = [plots.shorten(f"{line.summary.captioner}, {name}") for name, line in of]
        figure, axes = plots.rows_figure(labels, f"amplification by {title}")
        for place, (row, (_, line)) in enumerate(zip(rows, of, strict=True)):
            _draw_row(axes, row, line.conclusion.verdict, place)
        axes.axvline(rows[0].metric.neutral, color=plots.INK, linewidth=1)
        plots.set_limits(axes, _values(rows))
        values = "; ".join(f"{label}: {row.amplification:+.3f}" for label, row in zip(labels, rows, strict=True))
        note = f"{_note(rows)} {_MARKS}; the line: no amplification."
        yield Drawing(f"variants-{title}", f"{title}: amplification", f"{values}.", note, figure)


def sides(result: Result) -> Iterator[Drawing]:
    """Scores of both sides: of each metric a figure, with a row per captioner and judge."""
    for metric, every in _by_metric(result).items():
        rows = [row for row in every if row.human is not None and np.isfinite([row.human, row.generated or 0]).all()]
        if not rows:
            continue
        score = f"{metric.score.replace('_', ' ')} of the judge{', times the prior' if metric.prior else ''}"
        score = "share of the uncertainty that the annotation removes" if metric.from_annotation else score
        across = f"{metric.title}: value of each side" if metric.counted else score
        figure, axes = plots.rows_figure(_labels(rows), across)
        human, generated = ([getattr(row, side) for row in rows] for side in ("human", "generated"))
        places = range(len(rows))
        axes.hlines(places, human, generated, color=plots.PALE, linewidth=4, zorder=0)
        style: Any = {"color": plots.HUMAN, "markersize": 7, "label": "human captions", "clip_on": False, "zorder": 3}
        axes.plot(human, places, "o", **style)
        style = {"color": plots.GENERATED, "markersize": 7, "label": "generated captions"}
        axes.plot(generated, places, "s", **style)
        chances = [_chances(row, result.run["captioners"][row.captioner]["images"]) for row in rows]
        for place, of in enumerate(chances):
            for chance in of:
                plots.tick(axes, chance, place)
        plots.set_limits(axes, [0.0, *human, *generated, *(chance for of in chances for chance in of)])
        figure.legend(loc="outside upper right", ncols=2)
        dotted = " Dotted: chance (of judges trained on shuffled labels, where there are some)." if any(chances) else ""
        yield Drawing(
            f"sides-{metric.name}",
            f"{metric.title}: human and generated captions",
            "; ".join(f"{row.captioner}, {row.title}: {row.human:.3f} and {row.generated:.3f}" for row in rows) + ".",
            f"{_images(rows)}. No interval here: that of the difference is above.{dotted}",
            figure,
        )


def _chances(row: Summary, images: Mapping[str, int]) -> Sequence[float]:
    """Chance level of each side where labels were shuffled, else one: of a judge that knows class frequencies alone."""
    if row.chance:
        return row.chance
    return () if row.metric.counted or row.metric.prior else (row.metric.chance(images),)


def qualities(result: Result) -> Iterator[Drawing]:
    """Amplification against vocabulary and CIDEr, by metric and judge: LIC's Figure 3, which has BLEU-4 for CIDEr."""
    for metric, every in _by_metric(result).items() if result.quality else ():
        for judge, rows in grouped((row.judge, row) for row in every).items():
            found = [result.quality[row.captioner] for row in rows]
            figure = plots.new_figure(plots.WIDTH, 3 + 0.2 * ((len(rows) + 1) // 2))
            panels = figure.subplots(1, 2, sharey=True)
            across = {
                "vocabulary (distinct words)": [float(of.vocabulary["generated"]) for of in found],
                "CIDEr": [of.value("CIDEr") for of in found],
            }
            for axes, (name, values) in zip(panels, across.items(), strict=True):
                axes.axhline(metric.neutral, color=plots.GREY, linewidth=0.8)
                for number, (row, at) in enumerate(zip(rows, values, strict=True)):
                    look = plots.look(number)
                    plots.draw_interval(axes, row.interval, at, vertical=True, color=look["color"], linewidth=1.2)
                    axes.plot([at], [_value(row)], linestyle="", markersize=7, label=row.captioner, **look)
                _trend(axes, values, list(map(_value, rows)))
                axes.set_xlabel(name)
                axes.margins(x=0.1)
                axes.locator_params(axis="x", nbins=4)
            plots.set_limits(panels[0], _values(rows), vertical=True)
            panels[0].set_ylabel(f"amplification by {rows[0].title}".replace(" (", "\n("))
            plots.legend(figure, panels[0], [row.captioner for row in rows], "outside upper left", ncols=2)
            title = f"{name_row(metric, judge)} against vocabulary and CIDEr"
            note = f"{_note(rows)} {_NO_AMPLIFICATION}{' Dotted: least squares.' if len(rows) > 3 else ''}"
            yield Drawing(f"{metric.name}-{judge}", title, _in_words(rows), note, figure)


def _trend(axes: Axes, x: Sequence[float], y: Sequence[float]) -> None:
    """The least-squares line, of four captioners or more: through three points R squared says next to nothing."""
    from scipy import stats

    known = [(a, b) for a, b in zip(x, y, strict=True) if np.isfinite(a)]
    if len(known) > 3 and np.ptp(x) > 0:
        line = stats.linregress([a for a, _ in known], [b for _, b in known])
        ends = np.array([min(known)[0], max(known)[0]])
        axes.plot(ends, line.intercept + line.slope * ends, ":", color=plots.GREY)
        axes.set_title(f"R\N{SUPERSCRIPT TWO} = {line.rvalue**2:.2f} over {len(known)} captioners", fontsize=9)


def _by_metric(result: Result) -> dict[Metric, list[Summary]]:
    """Metrics in the order of the table, with the rows that have a value; void ones are last, without an interval."""
    found: dict[Metric, list[Summary]] = {row.metric: [] for row in result.summaries if _has_value(row)}
    for line in void_last(result):
        if _has_value(line.summary):
            shown = replace(line.summary, interval=None) if line.void else line.summary
            found[line.summary.metric].append(shown)
    return found


def _has_value(row: Summary) -> bool:
    return row.amplification is not None and bool(np.isfinite(row.amplification))


def _value(row: Summary) -> float:
    assert row.amplification is not None
    return row.amplification


def _values(rows: Sequence[Summary]) -> list[float]:
    """Values that an axis of amplifications must show: the neutral one, amplifications, and ends of intervals."""
    ends = [end for row in rows if row.interval for end in (row.interval.low, row.interval.high)]
    return [rows[0].metric.neutral, *map(_value, rows), *ends]


def _in_words(rows: Sequence[Summary]) -> str:
    """Values and intervals."""
    bounds = [f" [{row.interval.low:+.3f}, {row.interval.high:+.3f}]" if row.interval else "" for row in rows]
    values = (f"{row.captioner}, {row.title}: {row.amplification:+.3f}" for row in rows)
    return "; ".join(map("".join, zip(values, bounds, strict=True))) + "."


def _note(rows: Sequence[Summary]) -> str:
    """The note on rows of a figure: number of images, and what the bars are."""
    bases = [basis for basis in dict.fromkeys(row.basis for row in rows if row.interval) if basis]
    level = max((row.interval.level for row in rows if row.interval), default=0.95)
    bars = f". Bars: {100 * level:g}% interval {'; '.join(BASES[basis] for basis in bases)}"
    return f"{_images(rows)}{bars if bases else '; no interval'}."


def _images(rows: Sequence[Summary]) -> str:
    return f"n = {span(row.images for row in rows)} images"


def _labels(rows: Sequence[Summary]) -> list[str]:
    """Captioners, with their judges where there are several; with their inputs, where judges differ in these alone."""
    parts = {row.judge: _inputs(row.judge) for row in rows}
    alike = len({name for name, _ in parts.values()}) == 1
    names = {judge: inputs if alike else judge for judge, (_, inputs) in parts.items()}
    several = len(names) > 1
    return [plots.shorten(f"{row.captioner} ({names[row.judge]})" if several else row.captioner) for row in rows]


def _inputs(judge: str) -> tuple[str, str]:
    """A judge's name without the suffix that blanks an input, and its inputs."""
    for suffix, blanked in BLANKED.items():
        if judge.endswith(suffix):
            return judge.removesuffix(suffix), f"{'image' if blanked == 'caption' else 'caption'} alone"
    return judge, "image and caption"
