"""Results of ``judge attribute``: the table of maps, and shaded captions on a terminal."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.text import Text

from judge.attribution.people import AGAINST, FOR, AttributionScore
from judge.errors import printable
from judge.report.table import COUNT, NUMBER, Table, as_json, table_of

SUMMARY, WORDS, SETTINGS, MAPS = "attribution.json", "words.csv", "attribute.yaml", "maps"
# Words that contribute less than this share of the strongest word's have no number, so that captions stay readable.
LEAST = 0.1


@dataclass(frozen=True, slots=True)
class MapRow:
    """A row of the table of maps: a judge and its file (of a captioner ""), and the method of the maps.

    ``masking``: how much of people was hidden in what it saw. ``found``: the attribution score, over images.
    """

    judge: str
    weights: str
    masking: str
    method: str
    found: AttributionScore

    def to_json(self) -> dict[str, Any]:
        """The row as ``attribution.json`` holds it: null where there is no value."""
        of = self.found
        found = {name: getattr(self, name) for name in ("judge", "weights", "masking", "method")}
        found |= {"images": of.images, "without": of.without, "score": of.score, "ci": as_json(of.interval)}
        return found | {"level": of.interval and of.interval.level, "area_outside": of.area}


def map_table(rows: Sequence[MapRow]) -> Table[tuple[Any, ...]]:
    """DBAC's Table 4, DPAC's Table 5: a row per judge, masking and method."""
    score = "Score: share of what speaks for the answer that lies outside people, a mean over images. "
    notes = [f"{score}Area: share of the image outside people, which is the score of maps that are alike everywhere."]
    if without := sum(row.found.without for row in rows):
        notes.append(f"{without} maps are empty (nothing speaks for the answer); they are left out.")
    cells = []
    for row in rows:
        of = row.found
        cells.append((row.judge, row.masking, row.method, of.images, of.score, of.interval, of.area))
    numbers = [("images", COUNT), ("score", NUMBER), ("95% interval", NUMBER), ("area", NUMBER)]
    return table_of(["judge", "people hidden", "method"], numbers, cells, "Where they looked", notes)


def print_shaded(heading: str, words: Sequence[str], contributions: Sequence[float], console: Console) -> None:
    """Print a heading, and below it the caption on one line."""
    console.print(Text(printable(heading)), soft_wrap=True)
    console.print(Text("  ").append(shaded(words, contributions)), soft_wrap=True)


def shaded(words: Sequence[str], contributions: Sequence[float]) -> Text:
    """The caption, each word shaded by its share of the largest contribution; numbers stand behind strong words."""
    largest = max(map(abs, contributions), default=0.0)
    line = Text()
    for word, amount in zip(words, contributions, strict=True):
        strength = float(amount) / largest if largest else 0.0
        line.append(" " if line else "")
        if abs(strength) < LEAST:
            line.append(printable(word))
            continue
        colour = [round(255 + abs(strength) * (part - 255)) for part in (FOR if strength > 0 else AGAINST)]
        line.append(printable(word), style=f"black on rgb({','.join(map(str, colour))})")
        line.append(f"({amount:+.2g})", style="dim")
    return line
