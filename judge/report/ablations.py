"""Ablations as people read them: a table, and how far its columns agree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.markup import escape
from rich.table import Table

from judge.measure import Result
from judge.metrics import find_metric
from judge.report.layout import format_interval, format_number, start_table
from judge.statistics.correlation import Agreement
from judge.statistics.summary import Summary


@dataclass(frozen=True, slots=True)
class MaskRow:
    """One line of the table of ``judge ablate masks``.

    Attributes:
        mask, hide: what is hidden; mask "none" for pictures as they are.
        summary: what was measured.
        over_chance: generated score minus that of a judge that knows nothing (LIC's Table 4: "Unbias"); None for
            metrics with priors.
        over_original: generated score minus that with pictures as they are; None where that was not asked for.
    """

    mask: str
    hide: str
    summary: Summary
    over_chance: float | None
    over_original: float | None


def detector_scores(results: Mapping[str, Result]) -> Table:
    """ImageCaptioner2's Table 6: a row per captioner, metric and judge, a column of amplifications per detector."""
    table = start_table("captioner", "metric (judge)")
    for detector in results:
        table.add_column(detector, justify="right", no_wrap=True)
        table.add_column("interval", justify="right", no_wrap=True)
    first = next(iter(results.values()))
    found = {
        name: {(row.captioner, row.metric, row.judge): row for row in result.summaries}
        for name, result in results.items()
    }
    for row in first.summaries:
        same = [rows[row.captioner, row.metric, row.judge] for rows in found.values()]
        cells = [
            cell
            for one in same
            for cell in (format_number(one.amplification, signed=True), format_interval(one.interval, signed=True))
        ]
        table.add_row(escape(row.captioner), f"{find_metric(row.metric).title} ({escape(row.judge)})", *cells)
    return table


def agreement_lines(agreements: Sequence[Agreement], first: str) -> list[str]:
    """How far each detector's amplifications go with the first one's, over captioners."""
    lines = []
    for row in agreements:
        found = row.correlation
        told = (
            f"{find_metric(row.metric).title} ({row.judge}), {row.variant} with {first} over {found.pairs} captioners: "
        )
        if found.pearson is None:
            lines.append(told + "no correlation of fewer than two, or of equal ones")
            continue
        interval = f" {format_interval(found.interval, signed=True)}" if found.interval else ""
        lines.append(told + f"Pearson {found.pearson:+.3f}{interval}, Spearman {found.spearman:+.3f}")
    return lines


def mask_table(rows: Sequence[MaskRow]) -> Table:
    """LIC's Table 4, and DBAC's: a row per captioner, metric, judge and what is hidden."""
    table = start_table("captioner", "metric (judge)", "hidden")
    for heading in ("human", "generated", "over chance", "over original", "amplification", "interval"):
        table.add_column(heading, justify="right", no_wrap=True)
    key = {(row.summary.captioner, row.summary.metric, row.summary.judge): None for row in rows}
    for captioner, metric, judge in key:
        for row in rows:
            if (row.summary.captioner, row.summary.metric, row.summary.judge) == (captioner, metric, judge):
                table.add_row(escape(captioner), f"{find_metric(metric).title} ({escape(judge)})", *_cells(row))
    return table


def _cells(row: MaskRow) -> list[str]:
    summary = row.summary
    return [
        "nothing" if row.mask == "none" else f"{row.hide}, {row.mask}",
        format_number(summary.human),
        format_number(summary.generated),
        format_number(row.over_chance, signed=True),
        format_number(row.over_original, signed=True),
        format_number(summary.amplification, signed=True),
        format_interval(summary.interval, signed=True),
    ]
