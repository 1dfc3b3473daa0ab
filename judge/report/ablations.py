"""The tables of ablations, and how far their columns agree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from judge.measure import Result
from judge.report.table import NUMBER, SIGNED, Column, Table, names, write
from judge.statistics.correlation import Agreement
from judge.statistics.summary import Summary, name_row
from judge.types import Interval


@dataclass(frozen=True, slots=True)
class MaskRow:
    """One line of the table of ``judge ablate masks``.

    Attributes:
        mask, hide: what is hidden; mask "none" for images as they are.
        summary: what was measured.
        over_chance: generated score minus that of a judge that knows nothing (LIC's Table 4: "Unbias"); None for
            metrics with priors.
        over_original: generated score minus that with images as they are; None where that was not asked for.
    """

    mask: str
    hide: str
    summary: Summary
    over_chance: float | None
    over_original: float | None


def detector_scores(results: Mapping[str, Result]) -> Table[dict[str, Summary]]:
    """ImageCaptioner2's Table 6: a row per captioner, metric and judge, a column of amplifications per detector."""
    first, *_ = results
    found = {name: {row.key: row for row in result.summaries} for name, result in results.items()}

    def amplification(detector: str, row: dict[str, Summary]) -> float | None:
        return row[detector].amplification

    def interval(detector: str, row: dict[str, Summary]) -> Interval | None:
        return row[detector].interval

    columns: list[Column[dict[str, Summary]]] = [
        names("captioner", lambda row: row[first].captioner),
        names("metric (judge)", lambda row: row[first].title),
    ]
    for detector in results:
        columns += [
            Column(detector, partial(amplification, detector), SIGNED),
            Column("interval", partial(interval, detector), SIGNED),
        ]
    rows = ({name: of[row.key] for name, of in found.items()} for row in results[first].summaries)
    return Table(tuple(columns), tuple(rows), notes=("Amplification where each detector hides people.",))


def agreement_lines(agreements: Sequence[Agreement], first: str) -> list[str]:
    """How far each detector's amplifications go with the first one's, over captioners."""
    lines = []
    for row in agreements:
        found = row.correlation
        title = f"{name_row(row.metric, row.judge)}, {row.variant} with {first} over {found.pairs} captioners: "
        if found.pearson is None:
            lines.append(title + "no correlation of fewer than two, or of equal ones")
            continue
        bounds = f" {write(found.interval, SIGNED)}" if found.interval else ""
        lines.append(title + f"Pearson {found.pearson:+.3f}{bounds}, Spearman {found.spearman:+.3f}")
    return lines


def mask_table(rows: Sequence[MaskRow]) -> Table[MaskRow]:
    """LIC's Table 4, and DBAC's: a row per captioner, metric, judge and what is hidden."""
    keys = list(dict.fromkeys(row.summary.key for row in rows))
    columns: list[Column[MaskRow]] = [
        names("captioner", lambda row: row.summary.captioner),
        names("metric (judge)", lambda row: row.summary.title),
        names("hidden", lambda row: "nothing" if row.mask == "none" else f"{row.hide}, {row.mask}"),
        Column("human", lambda row: row.summary.human, NUMBER),
        Column("generated", lambda row: row.summary.generated, NUMBER),
        Column("over chance", lambda row: row.over_chance, SIGNED),
        Column("over original", lambda row: row.over_original, SIGNED),
        Column("amplification", lambda row: row.summary.amplification, SIGNED),
        Column("interval", lambda row: row.summary.interval, SIGNED),
    ]
    note = (
        "over chance: generated score minus that of a judge that knows nothing. over original: minus that with images "
        "as they are. object: the category most correlated with the attribute (BA), or --category."
    )
    return Table(tuple(columns), tuple(sorted(rows, key=lambda row: keys.index(row.summary.key))), notes=(note,))
