"""The tables of ablations, and how far their columns agree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from judge.measure import Result
from judge.report.notes import summary_lines
from judge.report.result import brief_notes
from judge.report.table import NUMBER, SIGNED, Column, Table, names, write
from judge.report.tables import Line, lines_of, write_interval
from judge.statistics.correlation import FEWEST, Agreement
from judge.statistics.summary import name_row


@dataclass(frozen=True, slots=True)
class MaskRow:
    """One line of the table of ``judge ablate masks``.

    Attributes:
        mask, hide: what is hidden; mask "none" for images as they are.
        line: what was measured, and what it allows to say.
        over_chance: generated score minus that of a judge that knows nothing (LIC's Table 4: "Unbias"); None for
            metrics with priors.
        over_original: generated score minus that with images as they are; None where that was not asked for.
    """

    mask: str
    hide: str
    line: Line
    over_chance: float | None
    over_original: float | None


def detector_scores(results: Mapping[str, Result]) -> Table[dict[str, Line]]:
    """ImageCaptioner2's Table 6: a row per captioner, metric and judge, a column of amplifications per detector."""
    first, *_ = results
    found = {name: {line.summary.key: line for line in lines_of(result)} for name, result in results.items()}

    def amplification(detector: str, row: dict[str, Line]) -> float | None:
        return row[detector].summary.amplification

    def interval(detector: str, row: dict[str, Line]) -> str | None:
        return write_interval(row[detector].summary)

    def verdict(detector: str, row: dict[str, Line]) -> str | None:
        return row[detector].conclusion.verdict

    columns: list[Column[dict[str, Line]]] = [
        names("captioner", lambda row: row[first].summary.captioner),
        names("metric (judge)", lambda row: row[first].summary.title),
    ]
    for detector in results:
        columns += [
            Column(detector, partial(amplification, detector), SIGNED),
            Column("interval", partial(interval, detector)),
            Column("verdict", partial(verdict, detector), optional=True),
        ]
    rows = ({name: of[row.key] for name, of in found.items()} for row in results[first].summaries)
    notes = ("Amplification where each detector hides people.", *variant_notes(results))
    return Table(tuple(columns), tuple(rows), notes=notes)


def agreement_lines(agreements: Sequence[Agreement], first: str) -> list[str]:
    """How far each detector's amplifications go with the first one's, over captioners."""
    lines = []
    for row in agreements:
        found = row.correlation
        title = f"{name_row(row.metric, row.judge)}, {row.variant} with {first} over {found.pairs} captioners: "
        if found.pearson is None:
            lines.append(f"{title}no correlation: it takes {FEWEST}, and amplifications that differ")
            continue
        bounds = f" {write(found.interval, SIGNED)}" if found.interval else ""
        lines.append(title + f"Pearson {found.pearson:+.3f}{bounds}, Spearman {found.spearman:+.3f}")
    return lines


def mask_table(rows: Sequence[MaskRow], results: Mapping[str, Result]) -> Table[MaskRow]:
    """LIC's Table 4, and DBAC's: a row per captioner, metric, judge and what is hidden; ``results``: of each mask."""
    keys = list(dict.fromkeys(row.line.summary.key for row in rows))
    columns: list[Column[MaskRow]] = [
        names("captioner", lambda row: row.line.summary.captioner),
        names("metric (judge)", lambda row: row.line.summary.title),
        names("hidden", lambda row: "nothing" if row.mask == "none" else f"{row.hide}, {row.mask}"),
        Column("human", lambda row: row.line.summary.human, NUMBER),
        Column("generated", lambda row: row.line.summary.generated, NUMBER),
        Column("over chance", lambda row: row.over_chance, SIGNED),
        Column("over original", lambda row: row.over_original, SIGNED),
        Column("amplification", lambda row: row.line.summary.amplification, SIGNED),
        Column("interval", lambda row: write_interval(row.line.summary)),
        Column("verdict", lambda row: row.line.conclusion.verdict, optional=True),
    ]
    note = (
        "over chance: generated score minus that of a judge that knows nothing. over original: minus that with images "
        "as they are. object: the category most correlated with the attribute (BA), or --category."
    )
    ordered = sorted(rows, key=lambda row: keys.index(row.line.summary.key))
    return Table(tuple(columns), tuple(ordered), notes=(note, *variant_notes(results)))


def variant_notes(results: Mapping[str, Result]) -> list[str]:
    """The lines and notes of every variant's table, each once; where not all have it, with the variants that do."""
    found: dict[str, list[str]] = {}
    for name, result in results.items():
        for line in [*summary_lines(result), *brief_notes(result)]:
            found.setdefault(line, []).append(name)
    return [line if len(names) == len(results) else f"{', '.join(names)}: {line}" for line, names in found.items()]
