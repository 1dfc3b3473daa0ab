"""How well captions describe, beside their bias: a table by class."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rich.markup import escape
from rich.table import Table

from judge.quality import SCORES, Quality
from judge.report.layout import format_interval, format_number, start_table
from judge.types import Interval

# What papers print; the shorter BLEUs are in quality.csv.
_SHOWN = tuple(score for score in SCORES if score not in {"BLEU-1", "BLEU-2", "BLEU-3"})


def quality_table(found: Mapping[str, Quality]) -> Table:
    """A row per captioner and class, and one of the largest gap between two classes. Fractions."""
    table = start_table("captioner", "images of")
    shown = [score for score in _SHOWN if not all(score in quality.skipped for quality in found.values())]
    for heading in ("images", *shown, "vocabulary", "length"):
        table.add_column(heading, justify="right", no_wrap=True)
    for name, quality in found.items():
        for group in dict.fromkeys(row.group for row in quality.groups):
            images = next(row.images for row in quality.groups if row.group == group)
            values = [format_number(quality.value(score, group)) for score in shown]
            whole = [f"{quality.vocabulary['generated']:,}", f"{quality.mean_length['generated']:.1f}"]
            table.add_row(
                escape(name), escape(group or "all"), f"{images:,}", *values, *(whole if group is None else ("", ""))
            )
        gaps = {gap.score: gap for gap in quality.gaps}
        if gaps:
            cells = [_gap(gaps[score].value, gaps[score].interval) if score in gaps else "-" for score in shown]
            table.add_row(escape(name), "largest gap", "", *cells, "", "")
    return table


def quality_notes(found: Mapping[str, Quality]) -> Iterator[str]:
    """What a reader must know beside the table, a line each; captioners of whom the same is true share one."""
    alike: dict[str, list[str]] = {}
    for name, quality in found.items():
        words = "the Penn Treebank's words" if quality.tokenizer == "ptb" else "our own tokeniser's words"
        human = f"people use {quality.vocabulary['human']:,} words, {quality.mean_length['human']:.1f} a caption"
        skipped = "; ".join(f"{score} skipped: {why}" for score, why in quality.skipped.items())
        alike.setdefault(f"{words}, {human}; {skipped}", []).append(name)
    for said, names in alike.items():
        yield f"Quality of {', '.join(names)}: {said}."


def _gap(value: float, interval: Interval | None) -> str:
    return f"{format_number(value)} {format_interval(interval)}" if interval else format_number(value)
