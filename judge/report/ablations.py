"""The tables of ablations, and how far their columns agree."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from judge.masking.measured import DetectorRow
from judge.measure import Result
from judge.report.directory import REPORT
from judge.report.figures import variants
from judge.report.notes import alike, hidden_things, summary_lines
from judge.report.page import make_plain_page
from judge.report.render import escape
from judge.report.sections import Section, brief_notes, latex_tables
from judge.report.table import COUNT, NUMBER, SIGNED, TEXT, Table, table_of, write
from judge.report.tables import Line, lines_of, write_interval
from judge.statistics.comparisons import Difference
from judge.statistics.consistency import FEWEST, Agreement
from judge.statistics.summary import name_row

_UNCORRECTED = " Verdicts are not corrected for the number of variants."


@dataclass(frozen=True, slots=True)
class MaskRow:
    """One line of the table of ``judge ablate masks``, where ``mask`` (or "none") hides ``hide``.

    Attributes:
        over_chance: generated score minus that of a judge that knows nothing (LIC's Table 4: "Unbias"); None for
            metrics with priors.
        over_original: generated score minus that with images as they are; None where it was not measured.
        shift: the same of the amplification, with its interval.
    """

    mask: str
    hide: str
    line: Line
    over_chance: float | None
    over_original: float | None
    shift: Difference | None = None


def detector_table(rows: Sequence[DetectorRow], notes: Sequence[str]) -> Table[tuple[Any, ...]]:
    """The table of ``judge ablate detectors``: a row per detector, over ``notes``. Fractions."""
    shares = {"recall": "pixels found", "iou": "IoU", "visible": "left visible", "beside": "hidden beside"}
    numbers = [column for heading in shares.values() for column in ((heading, NUMBER), ("interval", NUMBER))]
    numbers += [("detections/annotated", TEXT), ("images", COUNT)]
    cells = []
    for row in rows:
        found = [value for name in shares for value in (row.shares[name], row.intervals[name])]
        cells.append((row.detector, *found, f"{row.people}/{row.of}", row.images))
    note = (
        "left visible: annotated pixels left visible. hidden beside: hidden pixels that show nothing annotated. Shares "
        "of pixels are pooled over images; intervals: bootstrap over images."
    )
    return table_of(["detector"], numbers, cells, "What detectors find", notes=[note, *notes])


def detector_scores(results: Mapping[str, Result]) -> Table[tuple[Any, ...]]:
    """ImageCaptioner2's Table 6: a row per captioner, metric and judge, a column of amplifications per detector."""
    found = [{line.summary.key: line for line in lines_of(result)} for result in results.values()]
    tested = any(line.conclusion.verdict for lines in found for line in lines.values())
    verdict = [("verdict", TEXT)] if tested else []
    numbers = [column for name in results for column in ((name, SIGNED), ("interval", TEXT), *verdict)]
    rows = []
    for key, line in found[0].items():
        cells: list[Any] = [line.summary.captioner, line.summary.title]
        for lines in found:
            of = lines[key]
            cells += [of.summary.amplification, of.interval, *([of.conclusion.verdict] if tested else [])]
        rows.append(tuple(cells))
    notes = ["Amplification where each detector says what is hidden." + _UNCORRECTED * tested, *variant_notes(results)]
    return table_of(["captioner", "metric (judge)"], numbers, rows, "Amplification by detector", notes=notes)


def agreement_lines(agreements: Sequence[Agreement], first: str) -> list[str]:
    """Correlation of each detector's amplifications with the first one's, over captioners, a line each."""
    lines = []
    for row in agreements:
        found = row.correlation
        title = f"{name_row(row.metric, row.judge)}, {row.variant} with {first} over {found.pairs} captioners: "
        if found.pearson is None:
            lines.append(f"{title}no correlation: it takes {FEWEST}, and amplifications that differ")
            continue
        bounds = f" {write(found.interval, SIGNED)}" if found.interval else f" (no interval: it takes {FEWEST + 1})"
        lines.append(title + f"Pearson {found.pearson:+.3f}{bounds}, Spearman {found.spearman:+.3f}")
    return lines


def mask_table(rows: Sequence[MaskRow], results: Mapping[str, Result]) -> Table[tuple[Any, ...]]:
    """LIC's Table 4, and DBAC's: a row per captioner, metric, judge and what is hidden; ``results``: of each mask."""
    keys = list(dict.fromkeys(row.line.summary.key for row in rows))
    tested = any(row.line.conclusion.verdict for row in rows)
    numbers = [("human", NUMBER), ("generated", NUMBER), ("over chance", SIGNED), ("over original", SIGNED)]
    numbers += [("amplification", SIGNED), ("interval", TEXT), *([("verdict", TEXT)] if tested else [])]
    cells: list[tuple[Any, ...]] = []
    for row in sorted(rows, key=lambda row: keys.index(row.line.summary.key)):
        summary = row.line.summary
        hidden = "nothing" if row.mask == "none" else f"{row.hide}, {row.mask}"
        values = summary.human, summary.generated, row.over_chance, row.over_original, summary.amplification
        verdict = [row.line.conclusion.verdict] if tested else []
        cells.append((summary.captioner, summary.title, hidden, *values, row.line.interval, *verdict))
    note = (
        "over chance: generated score minus that of a judge that knows nothing. over original: minus that with images "
        "as they are."
    )
    if any(row.hide in {"object", "both"} for row in rows):
        note += " object: the category most correlated with the attribute (BA), or --category."
    notes = [note + _UNCORRECTED * tested, *variant_notes(results)]
    return table_of(["captioner", "metric (judge)", "hidden"], numbers, cells, "Amplification by mask", notes=notes)


def sensitivity_lines(rows: Sequence[MaskRow]) -> list[str]:
    """How far each value moves when objects or the background are hidden, a line per captioner, metric and judge.

    Feature sensitivity (Hirota et al., ICCV 2025), as a difference: a share of a value near 0 says nothing.
    """
    moves: dict[str, list[str]] = {}
    for row in rows:
        if row.shift and row.hide in {"object", "objects", "background"}:
            lacks = "(no interval: it takes refits, or five splits)"
            interval = write_interval(row.shift.interval, row.line.summary.basis) or lacks
            hidden = f"{hidden_things(row.hide, 'the object')} {'are' if row.hide == 'objects' else 'is'} hidden"
            moved = f"by {row.shift.value:+.3f} {interval} when {hidden} ({row.mask})"
            moves.setdefault(f"{row.line.summary.captioner}, {row.line.summary.title}", []).append(moved)
    return [f"{title}: the value moves {', '.join(of)}" for title, of in moves.items()]


def variant_notes(results: Mapping[str, Result]) -> list[str]:
    """The lines and notes of every variant's table, as of :func:`shared_notes`."""
    return shared_notes({name: [*summary_lines(result), *brief_notes(result)] for name, result in results.items()})


def shared_notes(notes: Mapping[str, Sequence[str]]) -> list[str]:
    """Every line once; where not all of ``notes`` have it, after the names of those that do."""
    found = alike((name, line) for name, lines in notes.items() for line in lines)
    return [line if names == ", ".join(notes) else f"{names}: {line}" for names, line in found]


def files_of(
    tables: Sequence[Table[Any]],
    lines: Sequence[str],
    results: Mapping[str, Result],
    about: tuple[str, Path, str],
    folder: Path,
) -> dict[str, str]:
    """Name -> text of the page and of the tables as LaTeX; the figures go to ``folder``, which must exist.

    ``lines``: sentences below the tables. ``results``: by what is varied. ``about``: the command, the file of its
    settings, and these.
    """
    command, file, settings = about
    what = f"Ablation of {command.rpartition(' ')[2]}"
    sections = [
        Section("amplification", "Amplification", figures=lambda _: variants(results)),
        Section("table", "All numbers", tables=lambda _, verbose: [] if verbose else tables, lines=lambda _: lines),
    ]
    lead, again = "One setting is varied; everything else stays.", f"{command} {shlex.quote(str(file))}"
    page = make_plain_page(sections, title=what, lead=lead, command=again, settings=settings, figures=folder)
    # A caption in print has the first note; the others are comments.
    floats = latex_tables([replace(table, notes=table.notes[:1]) for table in tables], f"{what}.")
    remarks = dict.fromkeys(f"% {escape(note)}\n" for table in tables for note in table.notes[1:])
    return {REPORT: page, "tables.tex": f"{floats}\n{''.join(remarks)}"}
