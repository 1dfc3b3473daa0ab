"""Results of ``judge calibrate``: tables, a sentence for each metric, JSON, and a figure of small multiples."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np

from judge.calibration.response import Calibration, Response, directions
from judge.report.plots import HUMAN, NOTE, new_figure, save
from judge.report.table import ABSENT, TEXT, Table, as_json, json_text, table_of
from judge.statistics.inference import SIGNIFICANT
from judge.statistics.summary import name_row

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_NAMES = {"vocabulary": "a small vocabulary", "silence": "silence on the attribute", "brevity": "short captions"}


def title(row: Calibration) -> str:
    """Metric and judge as tables name them."""
    return name_row(row.metric, row.judge)


def calibration_tables(found: Sequence[Calibration]) -> Iterator[Table[tuple[Any, ...]]]:
    """Nulls and doses of the metric's own direction; then effects of other changes. A row per metric and judge."""
    numbers = [("p < 0.05", ".0%"), ("coverage", TEXT), ("SE/sd", ".2f"), ("rank corr.", "+.2f")]
    numbers += [("right sign", ".0%"), ("80% found", "g"), ("seconds", ".1f")]
    notes = [
        "Where nothing is amplified: p < 0.05, coverage of 95% intervals, standard error over standard deviation.",
        "Rank corr.: of dose and value within draws. 80% found: least dose with p < 0.05 in 80% of draws.",
        *_notes(found),
    ]
    rows: list[tuple[Any, ...]] = []
    for row in found:
        nulls, of = row.nulls, row.response
        rejected = nulls.rejected and nulls.rejected.share
        coverage = nulls.held and f"{nulls.held.share:.0%}{'*' * row.starred}"
        answers = (of.spearman, of.right_sign, of.found_from) if of else (None, None, None)
        rows.append((title(row), rejected, coverage, nulls.claimed, *answers, row.seconds))
    yield table_of(["metric (judge)"], numbers, rows, notes=notes)
    changes = _changes(found)
    rows = [(title(row), *map(row.responses.get, changes)) for row in found]
    note = "Rise from no dose to the largest, mean over draws; * where its 95% interval leaves out 0."
    yield table_of(["metric (judge)"], [(change, _write_shift) for change in changes], rows, notes=[note])


def _changes(found: Sequence[Calibration]) -> list[str]:
    """The changes of captions that were tried, in order of appearance."""
    return list(dict.fromkeys(change for row in found for change in row.responses))


def _notes(found: Sequence[Calibration]) -> Iterator[str]:
    yield f"Images of a trial: {'; or '.join(dict.fromkeys(row.images for row in found))}."
    if any(row.starred for row in found):
        yield "*: intervals that leave out training noise, for the judges as they were trained."
    for row in found:
        if (share := row.nulls.void) and share.share:
            where = f"{round(share.share * share.trials)} of {share.trials} draws without amplification"
            yield f"{title(row)}: no verdict in {where}, because {row.nulls.reason} in one of them."
    if most := max((row.left_out for row in found), default=0):
        yield f"Left out of a trial: up to {most:,} images, captions or tasks."


def _write_shift(of: Response) -> str:
    if of.shift is None:
        return ABSENT
    return f"{of.shift:+.{4 if abs(of.shift) < 0.01 else 3}f}" + ("*" if of.moves else "")


def verdict(row: Calibration) -> str:
    """The conclusion on a metric, in a sentence."""
    rejected = row.nulls.rejected
    parts = [_answer(direction, row.responses.get(direction)) for direction in directions(row.metric)]
    for name, of in row.responses.items():
        if name in directions(row.metric) or not of.moves or of.shift is None:
            continue
        # Beyond chance, and by more than captions drawn anew do.
        if row.nulls.sd is None or abs(of.shift) > row.nulls.sd:
            parts.append(f"{'rises' if of.moves > 0 else 'falls'} with {_NAMES.get(name, f'{name} doses')} too")
    if rejected and rejected.ci.low > SIGNIFICANT:
        parts.append(f"has p < 0.05 for {rejected.share:.0%} of captioners without amplification")
    return f"{title(row)} {'; '.join(parts)}."


def _answer(direction: str, of: Response | None) -> str:
    """How it responds to doses of a direction that it is meant to measure."""
    if of is None:
        return f"was given no {direction} doses"
    if not of.moves:
        return f"does not answer to {direction} doses"
    if of.side and of.moves != of.side:
        return f"goes the wrong way with {direction} doses"
    last = of.points[-1].found
    if last is None:
        return f"answers to {direction} doses (not tested: no p)"
    if of.found_from is None:
        count = round(last.share * last.trials)
        return f"answers to {direction} doses, but the largest is found in {count} of {last.trials} draws only"
    return f"finds {direction} doses from {of.found_from:g} on"


def calibration_json(found: Sequence[Calibration]) -> str:
    """All results as JSON; absent values null."""
    rows = [
        {
            "metric": row.metric.name,
            "judge": row.judge,
            "directions": directions(row.metric),
            "verdict": verdict(row),
            "nulls": as_json(row.nulls) | {"reason": row.nulls.reason or None},
            "changes": row.responses,
        }
        for row in found
    ]
    return json_text({"results": rows})


def draw_calibration(found: Sequence[Calibration], kind: str) -> bytes:
    """Small multiples: a row for each metric and judge, a column for each change; dose against value.

    The line is the mean over draws with its 95% band; the grey line is no amplification. ``kind``: "png" or "svg".
    """
    changes = _changes(found)
    figure = new_figure(2.2 * len(changes) + 0.8, 1.7 * len(found) + 0.7)
    panels = figure.subplots(len(found), len(changes), squeeze=False, sharex=True, sharey="row")
    for across, row in zip(panels, found, strict=True):
        for panel, change in zip(across, changes, strict=True):
            if change in row.responses:
                _draw(panel, row, row.responses[change])
        across[0].set_ylabel(title(row).replace(" (", "\n("), fontsize=8)
    for panel, change in zip(panels[0], changes, strict=True):
        panel.set_title(change, fontsize=9)
    for panel in panels[-1]:
        panel.set_xlabel("dose", fontsize=8)
    draws = " and ".join(map(str, sorted({row.nulls.draws for row in found}, reverse=True)))
    note = f"mean over draws, 95% band; grey line: no amplification ({draws} null draws)"
    figure.supxlabel(fill(note, round(15 * figure.get_figwidth())), fontsize=8)
    return save(figure, kind)


def _draw(panel: Axes, row: Calibration, of: Response) -> None:
    """One response curve; those of the metric's own directions in colour."""
    colour = HUMAN if of.change in directions(row.metric) else NOTE
    panel.axhline(row.metric.neutral, color="#bbbbbb", linewidth=1)
    means = [(point.dose, point.mean) for point in of.points if point.mean is not None]
    bands = np.array([(point.dose, point.band.low, point.band.high) for point in of.points if point.band])
    if len(bands):
        panel.fill_between(bands[:, 0], bands[:, 1], bands[:, 2], color=colour, alpha=0.25, linewidth=0)
    if means:
        panel.plot(*zip(*means, strict=True), color=colour, marker=".", markersize=4)
    panel.tick_params(labelsize=7)
