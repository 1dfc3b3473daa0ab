"""The table of caption quality, by class."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from operator import methodcaller
from typing import NamedTuple

from judge.quality import SCORES, Quality
from judge.report.table import COUNT, NUMBER, Column, Table, names
from judge.types import Interval

# What papers print; the shorter BLEUs are in quality.csv.
_SHOWN = tuple(score for score in SCORES if score not in {"BLEU-1", "BLEU-2", "BLEU-3"})


class QualityRow(NamedTuple):
    """Scores of a captioner on images of one class, or what lies between two classes."""

    captioner: str
    group: str
    images: int | None
    values: Mapping[str, float | Interval | None]
    whole: Quality | None = None

    def score(self, name: str) -> float | Interval | None:
        """One of the values."""
        return self.values.get(name)


def quality_table(found: Mapping[str, Quality], *, verbose: bool = False) -> Table[QualityRow]:
    """A row per captioner and class, and two of the largest gap between two classes. Fractions."""
    columns: list[Column[QualityRow]] = [
        names("captioner", lambda row: row.captioner),
        names("images of", lambda row: row.group),
        Column("images", lambda row: row.images, COUNT),
        *(
            Column(score, methodcaller("score", score), NUMBER)
            for score in _SHOWN
            if not all(score in quality.skipped for quality in found.values())
        ),
    ]
    if verbose:
        columns += [
            Column("vocabulary", lambda row: row.whole and row.whole.vocabulary["generated"], COUNT),
            Column("length", lambda row: row.whole and row.whole.mean_length["generated"], ".1f"),
        ]
    rows = tuple(row for name, quality in found.items() for row in _rows(name, quality))
    return Table(tuple(columns), rows, "Caption quality")


def _rows(name: str, quality: Quality) -> Iterator[QualityRow]:
    for group in dict.fromkeys(row.group for row in quality.groups):
        mine = [row for row in quality.groups if row.group == group]
        values = {row.score: row.value for row in mine}
        yield QualityRow(name, group or "all", mine[0].images, values, None if group else quality)
    if quality.gaps:
        yield QualityRow(name, "largest gap", None, {gap.score: gap.value for gap in quality.gaps})
        yield QualityRow(name, "its interval", None, {gap.score: gap.interval for gap in quality.gaps})
