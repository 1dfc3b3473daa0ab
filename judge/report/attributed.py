"""What ``judge attribute`` left, for the report page: its table, some maps, and captions with words shaded."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from judge.attribution.people import AttributionScore
from judge.errors import FAULTS, JudgeError
from judge.masking.images import read_image
from judge.report.attribution import MapRow, map_table
from judge.report.card_examples import Word, words_of
from judge.report.table import Table
from judge.types import Interval
from judge.utils.cells import read_guarded
from judge.utils.opening import read_bytes, read_text
from judge.utils.yaml_files import parse_yaml

SUMMARY, WORDS, SETTINGS, MAPS = "attribution.json", "words.csv", "attribute.yaml", "maps"
# On a page: maps, and captions of each judge and method.
MOST_MAPS, MOST_CAPTIONS = 12, 6
_SIDE, _QUALITY = 900, 78
_CAPTION = ["judge", "weights", "method", "image_id", "index"]


@dataclass(frozen=True, slots=True)
class ShadedCaption:
    """A caption whose words contribute much, and what it explains."""

    heading: str
    words: tuple[Word, ...]


@dataclass(frozen=True, slots=True)
class Attributed:
    """A folder of ``judge attribute``, read.

    Attributes:
        table: how much of maps lies outside people; without rows where there are none.
        maps: some of them as JPEG, in the order of their names.
        captions: those with the largest contributions.
        people: whether the maps show people.
    """

    table: Table[MapRow]
    maps: tuple[bytes, ...]
    captions: tuple[ShadedCaption, ...]
    people: bool


def read_attributed(folder: Path) -> Attributed:
    """Read what ``judge attribute`` left.

    Raises:
        JudgeError: no such folder, a file that is missing or damaged.
    """
    with _readable(folder):
        told = json.loads(read_text(folder / SUMMARY))
        settings = parse_yaml(read_text(folder / SETTINGS), where="", mend="")
        rows = tuple(map(_row, told["pictures"]))
        words = folder / WORDS
        table = None
        if words.is_file():
            text = io.BytesIO(read_bytes(words))
            table = read_guarded(pd.read_csv(text, keep_default_na=False, na_values={"base": [""]}))
        captions = () if table is None else tuple(_captions(table))
        maps = tuple(_as_jpeg(path) for path in sorted((folder / MAPS).glob("*.png"))[:MOST_MAPS])
        return Attributed(map_table(rows), maps, captions, bool(settings["show_people"]))


@contextmanager
def _readable(folder: Path) -> Iterator[None]:
    mend = "give the folder of a finished judge attribute"
    try:
        yield
    except OSError as error:
        why = f"{Path(str(error.filename)).name}: {error.strerror}"
        what = f"no attributions can be read there ({why})"
        raise JudgeError(what, where=f"--attributions {folder}", mend=mend) from error
    except (*FAULTS, JudgeError) as error:
        what = "no attributions can be read there (its files are not those of judge attribute)"
        raise JudgeError(what, where=f"--attributions {folder}", mend=mend) from error


def _row(told: Mapping[str, Any]) -> MapRow:
    bounds = None
    if told["ci"]:
        low, high = map(_number, told["ci"])
        bounds = Interval(low, high, float(told["level"]))
    found = AttributionScore(
        images=int(told["images"]),
        without=int(told["without"]),
        score=None if told["score"] is None else _number(told["score"]),
        interval=bounds,
        area=None if told["area_outside"] is None else _number(told["area_outside"]),
    )
    judge, weights, masking, method = (str(told[name]) for name in ("judge", "weights", "masking", "method"))
    return MapRow(judge, weights, masking, method, found)


def _number(value: Any) -> float:
    if not math.isfinite(found := float(value)):
        raise ValueError(value)
    return found


def _captions(table: pd.DataFrame) -> Iterator[ShadedCaption]:
    """Of each judge and method the captions with the largest contributions."""
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
            yield ShadedCaption(heading, tuple(words_of(rows["word"].tolist(), amounts, max(map(abs, amounts)))))


def _as_jpeg(path: Path) -> bytes:
    from PIL import Image

    small = Image.fromarray(read_image(path.parent, path.name).pixels)
    small.thumbnail((_SIDE, _SIDE))
    buffer = io.BytesIO()
    small.save(buffer, "JPEG", quality=_QUALITY)
    return buffer.getvalue()
