"""The figures of a report: every one says n, what its bars are and where chance lies, in the picture itself.

Axes hold what is neutral (or 0) and every interval whole. Colours are Okabe and Ito's, told apart by the colour-blind,
and never the only sign: what differs in colour differs in shape too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from judge.measure import Result
from judge.metrics import Metric
from judge.metrics.names import FAMILIES
from judge.metrics.scores import SCORES
from judge.report.plots import (
    BASES,
    GREY,
    MARKS,
    SEVERAL,
    add_note,
    count_of,
    draw_against_quality,
    ends,
    limits_of,
    new_figure,
    notes_of,
    shorten,
)
from judge.statistics.summary import Summary, name_row

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, HUMAN, GENERATED, PALE = "#1b1b1b", "#0072b2", "#d55e00", "#c8c8c8"
# Inches: of a row, of what stands above and below the rows, of the whole width.
_ROW, _ABOVE, _BELOW, _WIDTH = 0.28, 0.1, 0.95, 5.6
# Inches of a letter of the row's names, about.
_LETTER = 0.075
# Tasks of a row of the table; rows that have a figure of tasks.
TASKS, TASK_FIGURES = 12, 12
Verdicts = Mapping[tuple[str, str, str], str | None]


@dataclass(frozen=True, slots=True)
class Drawing:
    """A figure of a report.

    Attributes:
        name: of its files.
        kind: "forest", "sides", "quality", "judges", "directions" or "tasks".
        title: what it shows.
        text: the same in words, for who cannot see it.
        draw: makes it.
    """

    name: str
    kind: str
    title: str
    text: str
    draw: Callable[[], Figure]


def drawings(result: Result) -> Iterator[Drawing]:
    """All figures that a result has data for."""
    verdicts = {row.key: of.verdict for row, of in zip(result.summaries, result.conclusions(), strict=True)}
    for metric, rows in _by_metric(result):
        yield _forest(metric, rows, verdicts, level=float(result.run["level"]))
        if both := [row for row in rows if _both(row)]:
            yield _sides(metric, both, result)
    if result.quality:
        yield from _qualities(result)
    for metric, rows in _by_metric(result):
        judges = list(dict.fromkeys(row.judge for row in rows))
        captioners = {row.captioner for row in rows}
        if len(judges) > 1 and len(captioners) > 1:
            title = f"{metric.title}: judges beside each other"
            yield Drawing(f"judges-{metric.name}", "judges", title, _told(rows), partial(_judges, metric, rows))
    yield from _directions(result)
    yield from _tasks(result)


def _by_metric(result: Result) -> Iterator[tuple[Metric, list[Summary]]]:
    """Metrics in the order of the table, with their rows that have a value."""
    found: dict[Metric, list[Summary]] = {}
    for row in result.summaries:
        if row.amplification is not None and np.isfinite(row.amplification):
            found.setdefault(row.metric, []).append(row)
    yield from found.items()


def _told(rows: Sequence[Summary]) -> str:
    """Values and intervals in words."""
    parts = []
    for row in rows:
        bounds = f" [{row.interval.low:+.3f}, {row.interval.high:+.3f}]" if row.interval else ""
        parts.append(f"{row.captioner}, {row.title}: {row.amplification:+.3f}{bounds}")
    return "; ".join(parts) + "."


def _forest(metric: Metric, rows: Sequence[Summary], verdicts: Verdicts, *, level: float) -> Drawing:
    title = f"{metric.title}: amplification"
    return Drawing(
        f"forest-{metric.name}", "forest", title, _told(rows), partial(draw_forest, rows, verdicts, level=level)
    )


def draw_forest(rows: Sequence[Summary], verdicts: Verdicts, *, level: float = 0.95) -> Figure:
    """Amplification with its interval, a row per captioner and judge, in order; ticks where chance is known.

    Args:
        rows: of one metric, with values.
        verdicts: key of a row -> its verdict.
        level: of the intervals.
    """
    metric = rows[0].metric
    figure, axes = _rows_figure([_label(row, rows) for row in rows])
    shown = [metric.neutral]
    above, below = metric.verdicts
    # A metric that tells no directions apart (Multi->) has one verdict, and one sign.
    signs = {below: (HUMAN, "s"), above: (GENERATED, "o")}
    for place, row in enumerate(rows):
        value = cast("float", row.amplification)
        colour, mark = signs.get(verdicts.get(row.key) or "", (GREY, "D"))
        if row.interval:
            axes.plot(ends(row.interval), [place, place], color=colour, linewidth=2)
            shown += [row.interval.low, row.interval.high]
        axes.plot([value], [place], mark, color=colour, markersize=7, markerfacecolor="none" if mark == "D" else colour)
        shown.append(value)
        if row.chance_level is not None and not metric.counted:
            axes.plot([row.chance_level] * 2, [place - 0.35, place + 0.35], color=INK, linewidth=1, linestyle=":")
            shown.append(row.chance_level)
    axes.axvline(metric.neutral, color=INK, linewidth=1)
    _hold(axes, shown)
    axes.set_xlabel(f"amplification by {metric.title}", parse_math=False)
    known = any(row.chance_level is not None for row in rows) and not metric.counted
    chance = (
        "the line: no amplification" if not metric.counted else "the line: what chance gives (taken off the values)"
    )
    chance += "; dotted ticks: chance, as estimated by exchanging captions" if known else ""
    marks = f"Circles: {above}{'' if above == below else f'; squares: {below}'}; hollow diamonds: no such verdict"
    add_note(figure, f"{notes_of(rows, level)} {marks}; {chance}.")
    return figure


def _sides(metric: Metric, rows: Sequence[Summary], result: Result) -> Drawing:
    title = f"{metric.title}: people's captions and the captioner's"
    parts = [f"{row.captioner}, {row.title}: {row.human:.3f} and {row.generated:.3f}" for row in rows]
    return Drawing(f"sides-{metric.name}", "sides", title, "; ".join(parts) + ".", partial(draw_sides, rows, result))


def _both(row: Summary) -> bool:
    sides = row.human, row.generated
    return all(value is not None and np.isfinite(value) for value in sides)


def draw_sides(rows: Sequence[Summary], result: Result) -> Figure:
    """The scores of both sides, a row per captioner and judge; the axis holds 0."""
    metric = rows[0].metric
    figure, axes = _rows_figure([_label(row, rows) for row in rows])
    values = [0.0]
    for place, row in enumerate(rows):
        human, generated = cast("float", row.human), cast("float", row.generated)
        axes.plot([human, generated], [place, place], color=PALE, linewidth=4, zorder=0)
        axes.plot(
            [human],
            [place],
            "o",
            zorder=3,
            color=HUMAN,
            clip_on=False,
            markersize=7,
            label="people's captions" if not place else None,
        )
        axes.plot(
            [generated], [place], "s", color=GENERATED, markersize=7, label="the captioner's" if not place else None
        )
        values += [human, generated]
        for chance in _chances(row, len(result.run["captioners"][row.captioner]["images"])):
            axes.plot([chance] * 2, [place - 0.35, place + 0.35], color=INK, linewidth=1, linestyle=":")
            values.append(chance)
    _hold(axes, values)
    axes.set_xlabel(_score_name(metric), parse_math=False)
    figure.legend(loc="upper right", bbox_to_anchor=(1, 1), frameon=False, fontsize=9, ncols=2)
    _make_room(figure, 0.25)
    known = any(_chances(row, 2) for row in rows)
    dotted = " Dotted: chance (of judges trained on shuffled labels, where there are some)." if known else ""
    add_note(figure, f"{count_of(rows)}. No interval here: that of the difference is above.{dotted}")
    return figure


def _chances(row: Summary, classes: int) -> Sequence[float]:
    """Of the human and the generated side where labels were shuffled, else of a judge that knows nothing, of both."""
    if row.chance:
        return row.chance
    return () if row.metric.counted or row.metric.prior else (SCORES[row.metric.score].chance(classes),)


def _score_name(metric: Metric) -> str:
    if metric.counted:
        return f"{metric.title}: value of each side"
    return f"{metric.score.replace('_', ' ')} of the judge{', times the prior' if metric.prior else ''}"


def _qualities(result: Result) -> Iterator[Drawing]:
    rows: dict[tuple[Metric, str], list[Summary]] = {}
    for metric, found in _by_metric(result):
        for row in found:
            rows.setdefault((metric, row.judge), []).append(row)
    for (metric, judge), found in rows.items():
        title = f"{name_row(metric, judge)} against vocabulary and CIDEr"
        yield Drawing(
            f"{metric.name}-{judge}",
            "quality",
            title,
            _told(found),
            partial(draw_against_quality, found, result.quality),
        )


def _judges(metric: Metric, rows: Sequence[Summary]) -> Figure:
    """Amplification by each judge, a line per captioner."""
    figure = new_figure(_WIDTH, 3.6)
    axes = figure.add_axes((0.1, 0.25, 0.62, 0.68))
    judges = list(dict.fromkeys(row.judge for row in rows))
    shown = [metric.neutral]
    captioners = list(dict.fromkeys(row.captioner for row in rows))
    for number, captioner in enumerate(captioners):
        own = [row for row in rows if row.captioner == captioner]
        colour, mark = SEVERAL[number % len(SEVERAL)], MARKS[number % len(MARKS)]
        # Beside each other, so that no bar hides another.
        across = [judges.index(row.judge) + 0.06 * (number - (len(captioners) - 1) / 2) for row in own]
        for at, row in zip(across, own, strict=True):
            if row.interval:
                axes.plot([at, at], ends(row.interval), color=colour, linewidth=1.2)
                shown += [row.interval.low, row.interval.high]
        values = [cast("float", row.amplification) for row in own]
        axes.plot(across, values, f"{mark}-", color=colour, linewidth=0.8, markersize=6, label="_")
        shown += values
    axes.axhline(metric.neutral, color=INK, linewidth=1)
    axes.set_xticks(range(len(judges)), [shorten(judge) for judge in judges], parse_math=False)
    axes.set_xlim(-0.5, len(judges) - 0.5)
    axes.set_ylabel(f"amplification by {metric.title}", parse_math=False)
    _hold(axes, shown, vertical=True)
    _legend(figure, axes, captioners)
    levels = [row.interval.level for row in rows if row.interval]
    add_note(figure, f"{notes_of(rows, max(levels, default=0.95))} The line is chance: no amplification.")
    return figure


def _directions(result: Result) -> Iterator[Drawing]:
    """Of metrics of two directions, one against the other."""
    families = {name: family for family, names in FAMILIES.items() for name in names}
    pairs: dict[tuple[str | None, str, str], dict[str, list[Summary]]] = {}
    for metric, rows in _by_metric(result):
        name, _, variant = metric.name.partition(":")
        for row in rows if metric.direction else ():
            key = families.get(name), variant, row.judge
            pairs.setdefault(key, {}).setdefault(str(metric.direction), []).append(row)
    for (_, _, judge), found in pairs.items():
        if len(found) == 2:
            rows = [row for of in found.values() for row in of]
            name = f"directions-{rows[0].metric.name}-{judge}"
            both = " and ".join(of[0].metric.title for of in found.values())
            title = both if rows[0].metric.counted else f"{both} ({judge})"
            yield Drawing(
                name,
                "directions",
                title,
                _told(rows),
                partial(_draw_directions, found["A->T"], found["T->A"]),
            )


def _draw_directions(across: Sequence[Summary], up: Sequence[Summary]) -> Figure:
    figure = new_figure(_WIDTH, 3.8)
    axes = figure.add_axes((0.12, 0.25, 0.58, 0.7))
    names, shown = [], ([across[0].metric.neutral], [up[0].metric.neutral])
    for number, (first, second) in enumerate(
        (one, other) for one in across for other in up if one.captioner == other.captioner
    ):
        colour, mark = SEVERAL[number % len(SEVERAL)], MARKS[number % len(MARKS)]
        x, y = cast("float", first.amplification), cast("float", second.amplification)
        if first.interval:
            axes.plot(ends(first.interval), [y, y], color=colour, linewidth=1.2)
            shown[0].extend([first.interval.low, first.interval.high])
        if second.interval:
            axes.plot([x, x], ends(second.interval), color=colour, linewidth=1.2)
            shown[1].extend([second.interval.low, second.interval.high])
        axes.plot([x], [y], mark, color=colour, markersize=7, label="_")
        names.append(first.captioner)
        shown[0].append(x)
        shown[1].append(y)
    axes.axvline(across[0].metric.neutral, color=INK, linewidth=1)
    axes.axhline(up[0].metric.neutral, color=INK, linewidth=1)
    _hold(axes, shown[0])
    _hold(axes, shown[1], vertical=True)
    axes.set_xlabel(f"{across[0].metric.title}: what captions reveal", parse_math=False)
    axes.set_ylabel(f"{up[0].metric.title}", parse_math=False)
    _legend(figure, axes, names)
    levels = [row.interval.level for row in [*across, *up] if row.interval]
    add_note(figure, f"{notes_of([*across, *up], max(levels, default=0.95))} The lines are chance: no amplification.")
    return figure


def _tasks(result: Result) -> Iterator[Drawing]:
    """What tasks add to each row of the table."""
    if result.breakdown is None:
        return
    rows = {row.key: row for row in result.summaries}
    groups = groupby(result.breakdown.tasks, key=lambda part: (part.captioner, part.metric, part.judge))
    every = {key: list(parts) for key, parts in groups}
    for key in _in_turn(list(every))[:TASK_FIGURES]:
        found, row = every[key], rows[key]
        first = found[:TASKS]
        text = "; ".join(f"{part.task}: {part.contribution:+.4f}" for part in first) + "."
        title = f"{row.captioner}, {row.title}: what tasks add"
        yield Drawing(
            "-".join(["tasks", *key]),
            "tasks",
            title,
            text,
            partial(_draw_tasks, first, row, len(found)),
        )


def _in_turn(keys: Sequence[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    """The first of each captioner, then the second of each: of a few none is left out."""
    places: dict[str, int] = {}
    turns = {}
    for key in keys:
        turns[key] = places.setdefault(key[0], 0)
        places[key[0]] += 1
    return sorted(keys, key=turns.__getitem__)


def _draw_tasks(parts: Sequence[Any], row: Summary, of: int) -> Figure:
    figure, axes = _rows_figure([shorten(part.task) for part in parts])
    shown = [0.0]
    for place, part in enumerate(parts):
        colour = GENERATED if part.contribution > 0 else HUMAN
        axes.barh(
            [place],
            [part.contribution],
            color=colour,
            height=0.55,
            hatch="" if part.contribution > 0 else "///",
            edgecolor="white",
            linewidth=0,
        )
        shown.append(part.contribution)
        if part.interval:
            axes.plot(ends(part.interval), [place, place], color=INK, linewidth=1.2)
            shown += [part.interval.low, part.interval.high]
    axes.axvline(0, color=INK, linewidth=1)
    _hold(axes, shown)
    axes.set_xlabel(f"contribution to {row.title}", parse_math=False)
    bases = [BASES[basis] for basis in dict.fromkeys(part.basis for part in parts if part.interval) if basis]
    lines = f"Black lines: interval {'; '.join(bases)}." if bases else "No interval."
    add_note(
        figure,
        f"n = {row.images:,} images; {_how_many(len(parts), of)}. Bars: what a task adds. {lines}",
    )
    return figure


def _how_many(shown: int, of: int) -> str:
    return f"the {shown} of {of} tasks that add or take away most" if shown < of else f"all {of} tasks"


def _label(row: Summary, rows: Sequence[Summary]) -> str:
    """The captioner, and the judge where there are several."""
    return shorten(row.captioner if len({other.judge for other in rows}) == 1 else f"{row.captioner} ({row.judge})")


def _rows_figure(labels: Sequence[str]) -> tuple[Figure, Axes]:
    """A figure with a named row for each label, the first one on top."""
    height = _ABOVE + _BELOW + _ROW * max(2, len(labels))
    figure = new_figure(_WIDTH, height)
    left = 0.3 + _LETTER * max(map(len, labels))
    axes = figure.add_axes((left / _WIDTH, _BELOW / height, 1 - (left + 0.2) / _WIDTH, 1 - (_ABOVE + _BELOW) / height))
    axes.set_yticks(range(len(labels)), labels, parse_math=False)
    axes.set_ylim(len(labels) - 0.4, -0.6)
    # Room between names and a mark that lies at the axis's end.
    axes.tick_params(axis="y", length=0, pad=8)
    axes.spines[["top", "right", "left"]].set_visible(False)
    return figure, axes


def _make_room(figure: Figure, inches: float) -> None:
    """Above the axes."""
    height = figure.get_figheight()
    figure.set_figheight(height + inches)
    for axes in figure.axes:
        box = axes.get_position()
        scale = height / (height + inches)
        axes.set_position((box.x0, box.y0 * scale, box.width, box.height * scale))


def _hold(axes: Axes, values: Sequence[float], *, vertical: bool = False) -> None:
    """Limits that hold all of ``values``, with a margin; what is infinite goes on to the edge."""
    (axes.set_ylim if vertical else axes.set_xlim)(*limits_of(values))
    if vertical:
        axes.spines[["top", "right"]].set_visible(False)


def _legend(figure: Figure, axes: Axes, names: Sequence[str]) -> None:
    lines = [line for line in axes.lines if line.get_marker() not in {"None", "", None}]
    legend = figure.legend(
        lines, [str(number) for number in range(len(lines))], loc="upper right", frameon=False, fontsize=9
    )
    # Named afterwards: matplotlib reads "$" as a formula.
    for text, name in zip(legend.get_texts(), names, strict=True):
        text.set_parse_math(False)
        text.set_text(shorten(name))
