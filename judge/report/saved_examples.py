"""Whether the examples of a run's folder, and their pictures, are what a run writes, so that a page can show them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

import numpy as np
import pandas as pd

from judge.measure.examples import CARD, CHOSEN, MOST, WORDS
from judge.report.directory import EXAMPLES, PICTURES
from judge.report.saved_files import Unreadable
from judge.statistics.summary import ROW

_SIDES = "human", "generated"
# Of a JPEG's beginning; bytes of a picture, of which a small one has a tenth.
_JPEG, _LARGEST = b"\xff\xd8\xff", 1 << 20


def check_examples(table: pd.DataFrame, rows: Collection[tuple[str, str, str]]) -> None:
    """Refuse what no run shows: cards of other rows, more than there can be, answers and amounts that are none.

    Args:
        table: the rows of ``examples.parquet``, or nothing.
        rows: keys of the table's rows.

    Raises:
        Unreadable: with the first fault.
    """
    if not len(table):
        return
    for what, wrong in _faults(table, rows):
        if wrong.any():
            place = int(wrong.to_numpy().argmax())
            raise Unreadable(f"{EXAMPLES}.parquet, row {place}: {what}")


def _faults(table: pd.DataFrame, rows: Collection[tuple[str, str, str]]) -> Iterator[tuple[str, pd.Series]]:
    texts = table[[*ROW, "chosen", "image_id", "class", "tasks", "side", "caption", "read", "predicted", WORDS]]
    yield "a text is missing", texts.isna().any(axis=1)
    keys = pd.Series(list(table[ROW].itertuples(index=False, name=None)), index=table.index)
    yield "the table has no such row", ~keys.isin(list(rows))
    yield "'chosen' is another", ~table["chosen"].isin(CHOSEN)
    yield "'side' is another", ~table["side"].isin(_SIDES)
    yield f"'rank' is not below {MOST}", ~table["rank"].between(0, MOST - 1)
    yield "the same caption twice", table.duplicated([*CARD, "side", "index"])
    about = table.groupby(CARD)[["image_id", "contribution", "class"]].transform("nunique")
    yield "images of one place differ", (about > 1).any(axis=1)
    yield "'contribution' is no number", ~np.isfinite(table["contribution"])
    asked = table["probability"].notna()
    yield "'probability' is none", asked & ~table["probability"].between(0, 1)
    yield f"'{WORDS}' holds something else than numbers", ~table[WORDS].map(_numbers).astype(bool)


def _numbers(written: str) -> bool:
    try:
        found = np.array(written.split(), dtype=np.float64)
    except ValueError:
        return False
    return bool(np.isfinite(found).all())


def check_pictures(pictures: Mapping[object, object]) -> None:
    """Refuse what is no small JPEG.

    Raises:
        Unreadable: with the image.
    """
    for image, picture in pictures.items():
        if not isinstance(image, str) or not isinstance(picture, bytes):
            raise Unreadable(f"{PICTURES}.parquet: a picture is missing")
        if not picture.startswith(_JPEG) or len(picture) > _LARGEST:
            raise Unreadable(f"{PICTURES}.parquet: that of image {image[:40]} is no small JPEG")
