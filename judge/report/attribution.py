"""Results of ``judge attribute``: table, shaded captions on a terminal, and reading its folder for the report page."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console
from rich.text import Text

from judge.attribution.people import AttributionScore
from judge.errors import FAULTS, JudgeError, printable
from judge.masking.images import read_image
from judge.report.examples import Word, words_of
from judge.report.table import COUNT, NUMBER, Table, bounds_of, table_of
from judge.types import Interval
from judge.utils.cells import read_guarded
from judge.utils.reading import parse_yaml, read_bytes, read_text

SUMMARY, WORDS, SETTINGS, MAPS = "attribution.json", "words.csv", "attribute.yaml", "maps"
# On a page: maps, and captions of each judge and method.
MOST_MAPS, MOST_CAPTIONS = 12, 6
_SIDE, _QUALITY = 900, 78
_CAPTION = ["judge", "weights", "method", "image_id", "index"]
# Orange speaks for the class, blue against it (Okabe and Ito's colours).
FOR, AGAINST = (230, 159, 0), (0, 114, 178)
# Words that contribute less than this share of the strongest word's have no number, so that captions stay readable.
LEAST = 0.1


@dataclass(frozen=True, slots=True)
class MapRow:
    """A row of the table of maps.

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
        """The row as ``attribution.json`` holds it: null where there is no value."""
        found, interval = self.found, self.found.interval
        return {
            "judge": self.judge,
            "weights": self.weights,
            "masking": self.masking,
            "method": self.method,
            "images": found.images,
            "without": found.without,
            "score": found.score,
            "ci": bounds_of(interval),
            "level": None if interval is None else interval.level,
            "area_outside": found.area,
        }


def map_table(rows: Sequence[MapRow]) -> Table[tuple[Any, ...]]:
    """DBAC's Table 4, DPAC's Table 5: a row per judge, masking and method."""
    score = "Score: share of what speaks for the answer that lies outside people, a mean over images. "
    notes = [f"{score}Area: share of the image outside people, which is the score of maps that are alike everywhere."]
    if without := sum(row.found.without for row in rows):
        notes.append(f"{without} maps are empty (nothing speaks for the answer); they are left out.")
    return table_of(
        ["judge", "people hidden", "method"],
        [("images", COUNT), ("score", NUMBER), ("95% interval", NUMBER), ("area", NUMBER)],
        [(row.judge, row.masking, row.method, of.images, of.score, of.interval, of.area)
         for row in rows for of in [row.found]],
        "Where they looked",
        notes,
    )  # fmt: skip


def print_shaded(heading: str, words: Sequence[str], contributions: Sequence[float], console: Console) -> None:
    """Print a heading, and below it the caption, as long as the line needs."""
    console.print(Text(printable(heading)), soft_wrap=True)
    console.print(Text("  ").append(shaded(words, contributions)), soft_wrap=True)


def shaded(words: Sequence[str], contributions: Sequence[float]) -> Text:
    """The caption, each word shaded by its share of the largest contribution; numbers stand behind strong words."""
    largest = max(map(abs, contributions), default=0.0)
    line = Text()
    for word, amount in zip(words, contributions, strict=True):
        strength = float(amount) / largest if largest else 0.0
        strong = abs(strength) >= LEAST
        line.append(" " if line else "")
        line.append(printable(word), style=shade(strength) if strong else "")
        if strong:
            line.append(f"({amount:+.2g})", style="dim")
    return line


def shade(strength: float) -> str:
    """The style of a strength in [-1, 1]: between white (0) and the colour of its sign, and readable text."""
    full = FOR if strength > 0 else AGAINST
    background = [round(255 + abs(strength) * (part - 255)) for part in full]
    parts = [part / 255 for part in background]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    # Whichever has more contrast (WCAG 2), at least 4.5.
    ink = "black" if (luminance + 0.05) ** 2 > 1.05 * 0.05 else "white"
    return f"{ink} on rgb({','.join(map(str, background))})"


@dataclass(frozen=True, slots=True)
class SavedCaption:
    """A caption whose words contribute much, and what it explains."""

    heading: str
    words: tuple[Word, ...]


@dataclass(frozen=True, slots=True)
class SavedAttribution:
    """The folder of a ``judge attribute``.

    Attributes:
        table: how much of maps lies outside people; without rows where there are none.
        maps: some of them as JPEG, in the order of their names.
        captions: those with the largest contributions.
        people: whether the maps show people.
    """

    table: Table[tuple[Any, ...]]
    maps: tuple[bytes, ...]
    captions: tuple[SavedCaption, ...]
    people: bool


def read_attribution(folder: Path) -> SavedAttribution:
    """Read the folder of a ``judge attribute``.

    Raises:
        JudgeError: no such folder, a file that is missing or damaged.
    """
    try:
        summary = json.loads(read_text(folder / SUMMARY))
        settings = parse_yaml(read_text(folder / SETTINGS), where="", mend="")
        captions: tuple[SavedCaption, ...] = ()
        if (folder / WORDS).is_file():
            text = io.BytesIO(read_bytes(folder / WORDS))
            captions = tuple(
                _captions(read_guarded(pd.read_csv(text, keep_default_na=False, na_values={"base": [""]})))
            )
        maps = tuple(map(_as_jpeg, sorted((folder / MAPS).glob("*.png"))[:MOST_MAPS]))
        table = map_table(list(map(_row, summary["pictures"])))
        return SavedAttribution(table, maps, captions, bool(settings["show_people"]))
    except (OSError, *FAULTS, JudgeError) as error:
        why = "its files are not those of judge attribute"
        if isinstance(error, OSError):
            why = f"{Path(str(error.filename)).name}: {error.strerror}"
        mend = "give the folder of a finished judge attribute"
        what = f"no attributions can be read there ({why})"
        raise JudgeError(what, where=f"--attributions {folder}", mend=mend) from error


def _row(entry: Mapping[str, Any]) -> MapRow:
    score, area = (None if entry[name] is None else _number(entry[name]) for name in ("score", "area_outside"))
    low, high = map(_number, entry["ci"] or (0, 0))
    interval = Interval(low, high, float(entry["level"])) if entry["ci"] else None
    found = AttributionScore(int(entry["images"]), int(entry["without"]), score, interval, area)
    judge, weights, masking, method = (str(entry[name]) for name in ("judge", "weights", "masking", "method"))
    return MapRow(judge, weights, masking, method, found)


def _number(value: Any) -> float:
    if not math.isfinite(found := float(value)):
        raise ValueError(value)
    return found


def _captions(table: pd.DataFrame) -> Iterator[SavedCaption]:
    """The captions with the largest contributions of each judge and method."""
    if not np.isfinite(table["contribution"]).all():
        raise ValueError(table["contribution"])
    sizes = table.assign(size=table["contribution"].abs()).groupby(_CAPTION, sort=False)["size"].max()
    places = table.groupby(_CAPTION, sort=False).indices
    for _, largest in sizes.groupby(["judge", "weights", "method"], sort=False):
        seen: set[tuple[str, ...]] = set()
        for key in largest.sort_values(ascending=False, kind="stable").index:
            rows = table.iloc[places[key]].sort_values("place")
            first, words = rows.iloc[0], tuple(rows["word"])
            if words in seen:  # One caption of several images.
                continue
            if len(seen) == MOST_CAPTIONS:
                break
            seen.add(words)
            heading = f"{first['judge']}, {first['method']}: p({first['explained']}) = {first['probability']:.3f}"
            amounts = rows["contribution"].tolist()
            yield SavedCaption(heading, tuple(words_of(words, amounts, max(map(abs, amounts)))))


def _as_jpeg(path: Path) -> bytes:
    from PIL import Image

    small = Image.fromarray(read_image(path.parent, path.name).pixels)
    small.thumbnail((_SIDE, _SIDE))
    buffer = io.BytesIO()
    small.save(buffer, "JPEG", quality=_QUALITY)
    return buffer.getvalue()
