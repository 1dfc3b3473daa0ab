"""The table of attribution maps: how much of what a judge looked at lies outside people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from judge.attribution.people import AttributionScore
from judge.report.table import COUNT, NUMBER, Column, Table, names


@dataclass(frozen=True, slots=True)
class MapRow:
    """A line of the table.

    Attributes:
        judge: its name, or the captioner's.
        weights: its file; "" of a captioner.
        masking: how much of people was hidden in what it saw: none, partial, segment, box.
        method: of the maps.
        found: the attribution score, over images.
    """

    judge: str
    weights: str
    masking: str
    method: str
    found: AttributionScore

    def to_json(self) -> dict[str, Any]:
        """As ``attribution.json`` says it: null where there is no value."""
        found = self.found
        interval = found.interval
        return {
            "judge": self.judge,
            "weights": self.weights,
            "masking": self.masking,
            "method": self.method,
            "images": found.images,
            "without": found.without,
            "score": found.score,
            "ci": None if interval is None else [interval.low, interval.high],
            "level": None if interval is None else interval.level,
            "area_outside": found.area,
        }


def map_table(rows: Sequence[MapRow]) -> Table[MapRow]:
    """DBAC's Table 4, DPAC's Table 5: a row per judge, masking and method."""
    columns: tuple[Column[MapRow], ...] = (
        names("judge", lambda row: row.judge),
        names("people hidden", lambda row: row.masking),
        names("method", lambda row: row.method),
        Column("images", lambda row: row.found.images, COUNT),
        Column("score", lambda row: row.found.score, NUMBER),
        Column("95% interval", lambda row: row.found.interval, NUMBER),
        Column("area", lambda row: row.found.area, NUMBER),
    )
    score = "Score: share of what speaks for the answer that lies outside people, a mean over images. "
    notes = [f"{score}Area: share of the picture outside people, which is the score of maps that are alike everywhere."]
    if without := sum(row.found.without for row in rows):
        notes.append(f"{without} maps are empty (nothing speaks for the answer); they are left out.")
    return Table(columns, tuple(rows), title="Where they looked", notes=tuple(notes))
