"""Rows of counts.parquet as what captions add to the contingency tables of a counted metric."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from scipy.sparse import vstack

from judge.evidence import mention_table
from judge.metrics import Metric
from judge.metrics.counted.contingency import ContingencyTable, Sparse, added
from judge.metrics.counted.spec import CaptionTable, CountedMetric, single_names
from judge.statistics.intervals import Rows
from judge.types import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, slots=True, eq=False)
class CountedRows:
    """What captions add to the truth's table (as its side is called here: the human one) and to the predicted one.

    Attributes:
        rows: of both sides; :meth:`read` takes their sums apart.
        shape: classes A and labels L of the tables.
        images: the images of ``rows``, by their index there.
        truth: what rows of the human side say.
        names: of the labels that it says.
    """

    rows: Rows
    shape: tuple[int, int]
    images: tuple[str, ...]
    truth: CaptionTable
    names: tuple[str, ...]

    def read(self, sums: FloatArray) -> ContingencyTable:
        """Sums of ``rows``, [S, ...], as tables with the leading axes [...]."""
        return ContingencyTable.of_sums(sums, self.shape)

    @property
    def label_columns(self) -> slice:
        """Where a row's labels stand among its sums."""
        start = self.shape[0] * self.shape[1] + self.shape[0]
        return slice(start, start + self.shape[1])


def compared_classes(counts: pd.DataFrame, metrics: Iterable[Metric]) -> dict[str, list[str]]:
    """The classes that metrics name or choose (Ratio), by the metrics' names."""
    chosen = {metric.name: metric.counted for metric in metrics if metric.counted}
    if not chosen:
        return {}
    classes = {name: choose_classes(counted, counts).classes for name, counted in chosen.items()}
    return {name: list(found) for name, found in classes.items() if found}


def choose_classes(counted: CountedMetric, counts: pd.DataFrame) -> CountedMetric:
    """With the classes of images that people name most and least, in captions that name one, where it asks for them.

    Of three classes or more the least of those that people name at all: over a class that they never name there is no
    ratio.
    """
    named = counts.loc[counts["side"] == "human", "named"]
    by_class = named.value_counts().reindex(sorted(counts["class"].unique()), fill_value=0)
    known = by_class[by_class > 0] if (by_class > 0).sum() > 1 else by_class
    return counted.choose_classes(str(by_class.idxmax()), str(known.iloc[::-1].idxmin()))


def counted_rows(rows: pd.DataFrame, counted: CountedMetric) -> CountedRows | None:
    """What captions add for a counted metric.

    Args:
        rows: of ``counts.parquet``, of one captioner.
        counted: the metric, its classes chosen.

    Returns:
        None where no caption names a class, or a label, and the metric counts those that do.

    Raises:
        JudgeError: as its ``terms``.
    """
    known = sorted(rows["class"].unique())
    classes = (*known, *sorted({*counted.classes, *_names(rows["named"])} - {*known, ""}))
    by_side = dict(iter(rows.groupby("side", observed=True)))
    before = by_side["human" if counted.against == "people" else "annotated"]
    images = pd.Index(before["image_id"].unique())
    parts = before, by_side["generated"]
    # Of people's captions and a captioner's, what either says; else what is annotated.
    sources = parts if counted.against == "people" else (before,)
    names = _names(pd.concat([part[counted.labels] for part in sources])) if counted.labels else []
    if counted.labels and not names:
        return None

    def read(part: pd.DataFrame) -> CaptionTable:
        image = images.get_indexer(pd.Index(part["image_id"]))
        part, image = part[image >= 0], image[image >= 0]
        labels = _hot(part[counted.labels], names) if counted.labels else np.zeros((len(part), 1), dtype=np.bool_)
        return CaptionTable(
            image, classes, _hot(part["class"], classes), _hot(part["named"], classes), labels, len(known)
        )

    truth, predicted = map(read, parts)
    if counted.against == "annotation":
        truth, predicted, images = _complete(truth, predicted, images, counted)
    elif counted.direction == "A->T":  # By annotated class, whatever class captions name.
        truth, predicted = (replace(side, named=side.annotated) for side in (truth, predicted))
    if not len(truth.image):
        return None
    tables = counted.terms(truth, predicted)
    image = np.concatenate([truth.image, predicted.image])
    generated = np.repeat([False, True], [len(truth.image), len(predicted.image)])
    shape = tables[0][0].shape[1], tables[0][1].shape[1]
    return CountedRows(
        Rows(vstack([_added(*terms) for terms in tables], format="csr"), image, generated),
        shape,
        tuple(images),
        truth,
        tuple(names),
    )


def _names(column: pd.Series[str]) -> list[str]:
    """What a side ever says: the labels that are counted."""
    return sorted({name for names in column.unique() for name in names.split("|")} - {""})


def _hot(column: pd.Series[str], names: Sequence[str]) -> BoolArray:
    """Names joined by "|" as [C, len(names)]; others are passed over."""
    codes, texts = pd.factorize(column)
    return np.asarray(mention_table([text.split("|") for text in texts], names)[codes])


def _complete(
    truth: CaptionTable, predicted: CaptionTable, images: pd.Index[str], counted: CountedMetric
) -> tuple[CaptionTable, CaptionTable, pd.Index[str]]:
    """What is not predicted equals the truth of the row's image; and the images that are left.

    Where classes are predicted, captions that name none, or several, predict nothing: they are left out, and images
    without others (Princeton's codes do so too). P(a^|l) would else be the smaller the more a captioner keeps silent.
    """
    row = np.empty(len(truth.image), dtype=np.int64)
    row[truth.image] = np.arange(len(row))
    if counted.direction == "A->T":
        return truth, replace(predicted, named=truth.named[row[predicted.image]]), images
    naming = single_names(predicted.named).any(axis=1)
    predicted = replace(predicted, labels=truth.labels[row[predicted.image]])
    left, image = np.unique(predicted.image[naming], return_inverse=True)
    sides = _take(truth, row[left], np.arange(len(left))), _take(predicted, np.flatnonzero(naming), image)
    return *sides, images[left]


def _take(side: CaptionTable, rows: IntArray, image: IntArray) -> CaptionTable:
    """Some rows, with the indices of their images."""
    return replace(side, image=image, annotated=side.annotated[rows], named=side.named[rows], labels=side.labels[rows])


def _added(named: BoolArray | FloatArray, labels: BoolArray | FloatArray | Sparse) -> Sparse:
    """What each row adds to a table; blank are rows without any class and any counted label."""
    return added(named, labels, ~(named.any(axis=1) | np.asarray(labels.sum(axis=1) > 0)))
