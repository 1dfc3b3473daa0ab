"""What ``judge calibrate`` found: a table, a sentence for each metric, JSON, and a figure of small multiples."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

from judge.calibration.inject import CHANGES
from judge.calibration.response import Calibration, Response, Share
from judge.errors import require
from judge.report.table import Column, Table, names
from judge.statistics.inference import SIGNIFICANT
from judge.statistics.summary import name_row

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# From here on a rank correlation is an answer; below, doses and values have little to do with each other.
_ANSWERS = 0.5


def title(row: Calibration) -> str:
    """Metric and judge as tables name them."""
    return name_row(row.metric, row.judge)


def calibration_tables(found: Sequence[Calibration]) -> Iterator[Table[Calibration]]:
    """What a metric says of nothing and of doses of its own direction; and what other changes do to it.

    A row for each metric and judge; shares and amplifications are fractions.
    """
    yield Table(
        (
            names("metric (judge)", title),
            names("for", lambda row: row.own),
            Column("p < 0.05", lambda row: row.nulls.rejected, _write_share),
            Column("holds none", lambda row: row.nulls.held, _write_share),
            Column("claimed/sd", lambda row: row.nulls.claimed, ".2f"),
            Column("rank corr.", lambda row: row.response and row.response.spearman, "+.2f"),
            Column("right sign", lambda row: row.response and row.response.right_sign, _write_share),
            Column("found from", lambda row: row.response and row.response.found_from, "g"),
            Column("seconds", lambda row: row.seconds, ".1f"),
        ),
        tuple(found),
        notes=(
            "Nothing amplified: draws with p < 0.05, 95% intervals that hold none, claimed standard error over sd.",
            "Doses: rank correlation with the value, draws of the right sign, dose found with 80% power.",
        ),
    )
    changes = list(dict.fromkeys(change for row in found for change in row.responses))
    yield Table(
        (
            names("metric (judge)", title),
            names("for", lambda row: row.own),
            *(Column(change, partial(_shift, change), _write_shift) for change in changes),
        ),
        tuple(found),
        notes=("Shift of the mean at the largest dose of each change, and the share of draws with p < 0.05.",),
    )


def _shift(change: str, row: Calibration) -> Response | None:
    return row.responses.get(change)


def _write_shift(of: Response) -> str:
    rejected = of.points[-1].rejected
    return f"{of.shift:+.3f}" + (f" ({rejected.value:.0%})" if rejected else "")


def _write_share(share: Share) -> str:
    return f"{share.value:.0%}"


def verdict(row: Calibration) -> str:
    """What a user should know of a metric, in a sentence."""
    own = row.response
    parts = []
    if own is None:
        parts.append(f"was given no {row.own} doses")
    elif own.found_from is not None and own.shift > 0:
        parts.append(f"finds {row.own} doses from {own.found_from:g} on")
    elif own.spearman is not None and own.spearman >= _ANSWERS:
        parts.append(f"goes up with {row.own} doses, but 80% power was reached at none")
    elif own.spearman is not None and own.spearman <= -_ANSWERS:
        parts.append(f"goes the wrong way with {row.own} doses")
    else:
        parts.append(f"does not answer to {row.own} doses")
    parts += _mistakes(row)
    rejected = row.nulls.rejected
    if rejected and rejected.interval.low > SIGNIFICANT:
        parts.append(f"calls {rejected.value:.0%} of captioners without amplification significant")
    return f"{title(row)} {', '.join(parts)}."


def _mistakes(row: Calibration) -> Iterator[str]:
    """Changes that it should not answer to, and does."""
    for name, of in row.responses.items():
        moved = of.points[-1].rejected
        if name == row.own or moved is None or moved.interval.low <= SIGNIFICANT:
            continue
        if CHANGES[name].moves:
            yield f"is moved by {name} doses too"
        else:
            yield f"takes {_NAMES[name]} for {'amplification' if of.shift > 0 else 'mitigation'}"


_NAMES = {"vocabulary": "a small vocabulary", "silence": "silence on the attribute", "brevity": "short captions"}


def calibration_json(found: Sequence[Calibration]) -> str:
    """All that was found; absent values null."""
    rows = [
        {
            "metric": row.metric.name,
            "judge": row.judge,
            "direction": row.own,
            "verdict": verdict(row),
            "nulls": asdict(row.nulls) | {name: _share(getattr(row.nulls, name)) for name in ("rejected", "held")},
            "changes": {name: _response(of) for name, of in row.responses.items()},
            "crosstalk": row.crosstalk,
        }
        for row in found
    ]
    return json.dumps({"results": rows}, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _response(of: Response) -> dict[str, Any]:
    points = [
        {
            "dose": point.dose,
            "mean": point.mean,
            "band": point.band and [point.band.low, point.band.high],
            "large_sample": point.large,
            "rejected": _share(point.rejected),
        }
        for point in of.points
    ]
    return {"points": points, "spearman": of.spearman, "right_sign": _share(of.right_sign), "found_from": of.found_from}


def _share(share: Share | None) -> dict[str, Any] | None:
    return share and {"share": share.value, "trials": share.trials, "ci": [share.interval.low, share.interval.high]}


def draw_calibration(found: Sequence[Calibration], kind: str) -> bytes:
    """Small multiples: a row for each metric and judge, a column for each change; dose against value.

    The line is the mean over draws with its 95% band, circles are values on a large sample, the grey line is no
    amplification.

    Args:
        found: as of the table.
        kind: "png" or "svg".

    Raises:
        JudgeError: matplotlib is not installed.
    """
    require("quality", "matplotlib")
    from matplotlib.figure import Figure

    changes = list(dict.fromkeys(change for row in found for change in row.responses))
    figure = Figure(figsize=(2.2 * len(changes) + 0.8, 1.7 * len(found) + 0.5), layout="constrained")
    panels = figure.subplots(len(found), len(changes), squeeze=False, sharex=True, sharey="row")
    for across, row in zip(panels, found, strict=True):
        for panel, change in zip(across, changes, strict=True):
            _draw(panel, row, change)
        across[0].set_ylabel(title(row), fontsize=8)
    for panel, change in zip(panels[0], changes, strict=True):
        panel.set_title(change, fontsize=9)
    for panel in panels[-1]:
        panel.set_xlabel("dose", fontsize=8)
    buffer = io.BytesIO()
    figure.savefig(buffer, format=kind, dpi=150, metadata={"Date": None} if kind == "svg" else None)
    return buffer.getvalue()


def _draw(panel: Axes, row: Calibration, change: str) -> None:
    """One response curve; that of the metric's own direction in colour."""
    of = row.responses[change]
    colour = "#0072b2" if change == row.own else "#555555"
    doses = [point.dose for point in of.points]
    panel.axhline(row.metric.neutral, color="#bbbbbb", linewidth=1)
    if all(point.band for point in of.points):
        low, high = zip(*((point.band.low, point.band.high) for point in of.points if point.band), strict=True)
        panel.fill_between(doses, low, high, color=colour, alpha=0.25, linewidth=0)
    panel.plot(doses, [point.mean for point in of.points], color=colour, marker=".", markersize=4)
    told = [(point.dose, point.large) for point in of.points if point.large is not None]
    if told:
        panel.plot(*zip(*told, strict=True), "o", color="#d55e00", markerfacecolor="none", markersize=4)
    panel.tick_params(labelsize=7)
