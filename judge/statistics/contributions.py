"""What every caption, and every image, adds to a metric: contributions that add up to it.

Every metric is linear in what captions add to its sums, once what these are weighed by is held (``pieces`` of
:class:`~judge.statistics.judged.Statistic`, and of counted metrics). So a captioner's captions add their part, people's
take theirs away, and nothing remains.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from judge.metrics import Metric, find_metric
from judge.metrics.counted.spec import CountedMetric
from judge.statistics.counted import CountedRows, choose_classes, counted_rows
from judge.statistics.summary import ROW, JudgedRow, Settings
from judge.types import FloatArray

COLUMNS = [*ROW, "image_id", "contribution"]


def of_captions(row: JudgedRow, captions: pd.DataFrame) -> FloatArray:
    """Of each caption, [C], to the metric of these captions; NaN where it has no value.

    Args:
        row: of the table.
        captions: of its captions, or of one of its splits; the index is that of ``row.captions``.
    """
    statistic, rows = row.statistic, row.adds(captions)
    sums = [np.asarray(side.sum(axis=0), dtype=np.float64) for side in rows.by_image()]
    if not np.isfinite(statistic(sums[0], sums[1]).value):  # A split without captions of a class.
        return np.full(len(rows.image), np.nan)
    human, generated = (
        weight * (rows.table @ piece) for weight, piece in zip(rows.weights(), statistic.pieces(*sums), strict=True)
    )
    return np.where(rows.generated, generated, -human)


def of_images(row: JudgedRow) -> pd.DataFrame:
    """Of each image, to a judged row of the table: the sums over its captions. Columns: ``COLUMNS``."""
    amounts = np.bincount(row.table.image, of_captions(row, row.captions))
    return _named(row.line.key, pd.DataFrame({"image_id": row.images, "contribution": amounts}))


class Pieces(NamedTuple):
    """A counted metric taken apart.

    Attributes:
        frozen: the metric, with what its sums are weighed by held.
        value: as published.
        human, generated: what each unit of the sums of either side adds.
    """

    frozen: Any
    value: float
    human: FloatArray
    generated: FloatArray


def take_apart(counted: CountedMetric, held: CountedRows) -> Pieces | None:
    """A counted metric of one captioner; None of a metric, such as a user's own, that says nothing of its pieces."""
    truth, predicted = (held.read(np.asarray(side.sum(axis=0), dtype=np.float64)) for side in held.rows.by_image())
    frozen = counted.freeze(truth, predicted)
    if not hasattr(frozen, "pieces"):
        return None
    human, generated = (of.sums() for of in frozen.pieces(truth, predicted))
    return Pieces(frozen, float(frozen.compare(truth, predicted).value), human, generated)


def of_counted_images(key: tuple[str, str, str], held: CountedRows, pieces: Pieces) -> pd.DataFrame:
    """Of each image, to the published value of a counted row. Columns: ``COLUMNS``."""
    sides = zip(held.rows.by_image(), (pieces.human, pieces.generated), strict=True)
    human, generated = (side @ piece for side, piece in sides)
    return _named(key, pd.DataFrame({"image_id": held.images, "contribution": generated - human}))


def image_contributions(
    scores: pd.DataFrame, counts: pd.DataFrame, names: Sequence[str], settings: Settings
) -> pd.DataFrame:
    """Of each image, to every row of the table that compares two sides and has a value.

    Args:
        scores: the rows of ``scores.parquet``.
        counts: the rows of ``counts.parquet``.
        names: of the metrics.
        settings: as of :func:`~judge.statistics.summary.summarise`.

    Returns:
        ``COLUMNS``; of counted metrics contributions are to the published value.
    """
    judged = [of_images(row) for row in judged_rows(scores, settings)]
    counted = [
        of_counted_images((captioner, metric.name, metric.judge), held, pieces)
        for captioner, metric, of, held, _ in counted_tables(counts, names)
        if (pieces := take_apart(of, held)) and np.isfinite(pieces.value)
    ]
    found = [*judged, *counted]
    return pd.concat(found, ignore_index=True) if found else pd.DataFrame(columns=COLUMNS)


def judged_rows(scores: pd.DataFrame, settings: Settings) -> Iterator[JudgedRow]:
    """The judged rows of the table that compare two sides and have a value."""
    groups = scores.groupby(ROW, sort=False, observed=True) if len(scores) else ()
    for (_, name, _), rows in groups:
        metric = find_metric(str(name))
        if metric.amplification != "one_side":
            row = JudgedRow(metric, rows, settings)
            if np.isfinite(row.value().value):
                yield row


def counted_tables(
    counts: pd.DataFrame, names: Sequence[str]
) -> Iterator[tuple[str, Metric, CountedMetric, CountedRows, pd.DataFrame]]:
    """Captioner, metric, how it is counted, its captions as sums, and their rows, of every counted row."""
    metrics = [metric for metric in map(find_metric, names) if metric.counted]
    groups = counts.groupby("captioner", sort=False, observed=True) if metrics else ()
    for captioner, rows in groups:
        for metric in metrics:
            assert metric.counted is not None
            counted = choose_classes(metric.counted, counts)
            held = counted_rows(rows, counted)
            if held is not None:
                yield str(captioner), metric, counted, held, rows


def _named(key: tuple[str, str, str], images: pd.DataFrame) -> pd.DataFrame:
    return images.assign(**dict(zip(ROW, key, strict=True)))[COLUMNS]
