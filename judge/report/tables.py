"""A result as people read it: one table, and under it what the numbers depend on."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.markup import escape
from rich.table import Table

from judge.masking.overlap import DetectorRow
from judge.measure import Result
from judge.metrics import METRICS
from judge.scores import SCORES
from judge.types import Interval

# A side whose captions name the attribute this much less often than people's is pointed out.
_QUIET = 0.5


def make_table(result: Result, extra: Mapping[str, Mapping[str, float]] | None = None) -> Table:
    """The table of ``judge evaluate``: one row per captioner, metric and judge. Fractions.

    Args:
        result: of a run.
        extra: heading -> {"captioner metric" -> value}: a further column, e.g. the true value in a known world.
    """
    level = f"{100 * result.run['level']:g}% interval"
    attribute = escape(result.run["attribute"])
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("captioner", no_wrap=True)
    table.add_column("metric (judge)", no_wrap=True)
    for heading in ("human", "generated", "amplification", *(extra or {}), "sd", level, "p", "images", "seeds"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column(f"names {attribute}: one/none/several", justify="right")
    for summary in result.summaries:
        further = [_number(values.get(f"{summary.captioner} {summary.metric}")) for values in (extra or {}).values()]
        table.add_row(
            escape(summary.captioner),
            f"{METRICS[summary.metric].title} ({summary.judge})",
            _number(summary.human),
            _number(summary.generated),
            _number(summary.amplification, signed=True),
            *further,
            _number(summary.sd),
            _interval(summary.interval, signed=True),
            _p_value(summary.p_value),
            f"{summary.images:,}",
            str(summary.seeds),
            _coverage(result.run["captioners"][summary.captioner]["coverage"], "generated"),
        )
    return table


def detector_table(rows: Sequence[DetectorRow]) -> Table:
    """The table of ``judge ablate detectors``: a row per detector. Fractions."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("detector", no_wrap=True)
    headings = {"recall": "pixels found", "iou": "IoU", "visible": "left visible", "beside": "hidden beside"}
    for heading in headings.values():
        table.add_column(heading, justify="right", no_wrap=True)
        table.add_column("interval", justify="right", no_wrap=True)
    for heading in ("AP", "AP50", "detections/people", "images"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        cells = [
            cell for name in headings for cell in (_number(getattr(row.overlap, name)), _interval(row.intervals[name]))
        ]
        precisions = (_number(row.precision), _number(row.precision_50))
        table.add_row(escape(row.detector), *cells, *precisions, f"{row.people}/{row.of}", f"{row.pictures:,}")
    return table


def footnotes(result: Result) -> list[str]:
    """What a reader must know beside the table, a line each."""
    return [*_method(result.run), *_chance(result), *_captioners(result.run)]


def warnings(result: Result) -> list[str]:
    """What would make a reader draw a wrong conclusion, a line each; often none."""
    return list(_quiet(result.run))


def _method(run: Mapping[str, Any]) -> Iterator[str]:
    seeds = f"{len(run['seeds'])} seed{'s' if len(run['seeds']) > 1 else ''}"
    if run["protocol"] == "crossfit":
        yield f"Protocol crossfit: {run['folds']} folds, every image scored by a judge that never saw it; {seeds}."
    else:
        yield f"Protocol paper: classes subsampled to equal size, 90/10 hold-out; {seeds}."
    yield "Intervals: bootstrap over images, for the judges as trained. p: sides exchanged image by image."
    labels = run["labels"]
    yield f"Labels {'DERIVED' if labels['derived'] else 'from'}: {labels['source']}."
    if labels["ignored"]:
        yield "Labels left out: " + ", ".join(
            f"{value or 'empty'} {count:,}" for value, count in labels["ignored"].items()
        )


def _chance(result: Result) -> Iterator[str]:
    """What a judge that knows nothing scores on either side; classes count equally."""
    for classes in sorted({len(entry["images"]) for entry in result.run["captioners"].values()}):
        rows = dict.fromkeys(METRICS[summary.metric] for summary in result.summaries)
        scores = ", ".join(f"{row.title} {SCORES[row.score].chance(classes):.3f}" for row in rows)
        yield f"Chance with {classes} classes: {scores}."


def _captioners(run: Mapping[str, Any]) -> Iterator[str]:
    for name, entry in run["captioners"].items():
        images = ", ".join(f"{count:,} {group}" for group, count in entry["images"].items())
        alignment = entry["alignment"]
        yield (
            f"{name}: {images}; alignment keeps {alignment['tokens_kept']:.1%} of human tokens "
            f"({alignment['words_kept']:.1%} of words); human captions name {run['attribute']}: "
            f"{_coverage(entry['coverage'], 'human')}."
        )
        left_out = dict(entry["dropped"])
        for side, covered in (entry["coverage"] or {}).items():
            left_out |= {f"{side} captions {why}": covered[why] for why in ("empty", "refused") if covered[why]}
        if left_out:
            yield f"{name} left out: " + ", ".join(f"{reason} {count:,}" for reason, count in left_out.items()) + "."
        for what, sides in entry["chosen"].items():
            yield f"{name} chose {what}: " + "; ".join(f"{side} {_counts(sides[side])}" for side in sides) + "."


def _counts(counts: Mapping[str, int]) -> str:
    """Like "0.03 x3, 0.1 x47", by value."""
    return ", ".join(f"{value} x{counts[value]}" for value in sorted(counts, key=float))


def _quiet(run: Mapping[str, Any]) -> Iterator[str]:
    """Captioners that mostly avoid the attribute: a small amplification is then no praise."""
    for name, entry in run["captioners"].items():
        if entry["coverage"]:
            human, generated = (1 - entry["coverage"][side]["none"] for side in ("human", "generated"))
            if generated < _QUIET * human:
                yield (
                    f"{name} names {run['attribute']} in {generated:.1%} of its captions, people in {human:.1%}: "
                    "read its amplification together with how little it says."
                )


def _coverage(coverage: Mapping[str, Any] | None, side: str) -> str:
    if coverage is None:
        return "-"
    shares: Sequence[float] = [coverage[side][share] for share in ("one", "none", "several")]
    return "/".join(f"{share:.0%}" for share in shares)


def _number(value: float | None, *, signed: bool = False) -> str:
    if value is None or math.isnan(value):
        return "-"
    return f"{value:+.3f}" if signed else f"{value:.3f}"


def _interval(found: Interval | None, *, signed: bool = False) -> str:
    return f"[{_number(found.low, signed=signed)}, {_number(found.high, signed=signed)}]" if found else "-"


def _p_value(value: float | None) -> str:
    if value is None or math.isnan(value):
        return "-"
    return "<0.001" if value < 0.001 else f"{value:.3f}"
