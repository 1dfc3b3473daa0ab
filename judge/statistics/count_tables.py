"""Rows of counts.parquet as what captions add to the tables of a counted metric."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.sparse import csr_array, hstack, vstack

from judge.errors import JudgeError
from judge.evidence import mention_table
from judge.metrics import Metric
from judge.metrics.counted.contingency import ContingencyTable, label_sets
from judge.metrics.counted.dpa import attack_terms
from judge.metrics.counted.ratio_error import error_terms, naming_of, ratio_terms
from judge.metrics.counted.spec import Against, Said
from judge.statistics.intervals import Rows
from judge.types import FloatArray, IntArray

BoolArray = npt.NDArray[np.bool_]
Sparse = csr_array[np.float64, tuple[int, int]]
_SIDES: dict[Against, str] = {"people": "human", "annotation": "annotated"}


@dataclass(frozen=True, slots=True, eq=False)
class CountedRows:
    """What captions add to the truth's table (as its side is called here: the human one) and to the predicted one.

    Attributes:
        rows: of both sides; :meth:`read` takes their sums apart.
        shape: classes A and labels L of the tables.
        images: the images of ``rows``, by their index there.
    """

    rows: Rows
    shape: tuple[int, int]
    images: tuple[str, ...]

    def read(self, sums: FloatArray) -> ContingencyTable:
        """Sums, [S, ...], as tables with the leading axes [...]."""
        classes, labels = self.shape
        moved = np.moveaxis(sums, 0, -1)
        cells = classes * labels
        together, per_class, per_label, samples, blank = np.split(
            moved, np.cumsum([cells, classes, labels, 1]), axis=-1
        )
        together = together.reshape(*moved.shape[:-1], classes, labels)
        return ContingencyTable(together, per_class, per_label, samples[..., 0], blank[..., 0])


@dataclass(frozen=True, slots=True, eq=False)
class _Side:
    """Captions (or annotated images), a row each.

    Attributes:
        image: index of the image, [C].
        annotated: the image's class, [C, A'].
        named: classes that the row names, [C, A']: the A of images, then others that somebody names.
        labels: what else it says, [C, L].
    """

    image: IntArray
    annotated: BoolArray
    named: BoolArray
    labels: BoolArray


def named_most_and_least(counts: pd.DataFrame) -> tuple[str, str]:
    """The classes of images that people name most and least, in captions that name one."""
    named = counts.loc[counts["side"] == "human", "named"]
    classes = sorted(set(counts["class"]))
    by_class = named.value_counts().reindex(classes, fill_value=0)
    return str(by_class.idxmax()), str(by_class.iloc[::-1].idxmin())


def counted_rows(rows: pd.DataFrame, metric: Metric, *, first: str, second: str) -> CountedRows | None:
    """What captions add for a counted row of METRICS.

    Args:
        rows: of ``counts.parquet``, of one captioner.
        metric: the row.
        first: Ratio's class above.
        second: Ratio's class below.

    Returns:
        None where no caption names a class, and the metric counts those that do.

    Raises:
        JudgeError: Multi-> of too many sets of labels.
    """
    counting = metric.counted
    assert counting is not None
    classes = sorted(set(rows["class"]))
    others = sorted({first, second, *_names(rows["named"])} - {*classes, ""})
    by_side = dict(iter(rows.groupby("side", observed=True)))
    before = by_side[_SIDES[counting.against]]
    images = pd.Index(before["image_id"].unique())
    parts = before, by_side["generated"]
    # Of people's captions and a captioner's, what either says; else what is annotated.
    telling = parts if counting.against == "people" else (before,)
    names = _names(pd.concat([part[counting.labels] for part in telling])) if counting.labels else []
    truth, predicted = (_side(part, images, [*classes, *others], names, said=counting.labels) for part in parts)
    if counting.against == "annotation":
        truth, predicted, images = _complete(truth, predicted, images, metric)
    elif metric.direction == "A->T":  # By annotated class, whoever is named.
        truth, predicted = (replace(side, named=side.annotated) for side in (truth, predicted))
    if not len(truth.image):
        return None
    variant = counting.variant
    tables: list[tuple[BoolArray | FloatArray, Sparse]]
    if counting.is_share:
        places = [*classes, *others].index(first), [*classes, *others].index(second)
        tables = [_split(_terms(side, metric, places)) for side in (truth, predicted)]
    else:
        tables = [(naming_of(side.named)[:, : len(classes)], _sparse(side.labels)) for side in (truth, predicted)]
    if counting.kind.startswith("multi"):
        exact = variant.sets == "exact"
        try:
            sets = label_sets(truth.labels, exact=exact, largest=variant.largest, least=variant.least)
        except ValueError as error:
            what = "images show more than 250,000 sets of objects"
            raise JudgeError(what, where=f"--metrics {metric.name}", mend=f"use {metric.name}:pairs") from error
        sides = zip(tables, (truth, predicted), strict=True)
        tables = [(named, _holding(side.labels, sets)) for (named, _), side in sides]
    table = vstack([_flatten(*sides) for sides in tables], format="csr")
    image = np.concatenate([truth.image, predicted.image])
    generated = np.repeat([False, True], [len(truth.image), len(predicted.image)])
    shape = tables[0][0].shape[1], tables[0][1].shape[1]
    return CountedRows(Rows(table, image, generated), shape, tuple(images))


def _names(column: pd.Series[str]) -> list[str]:
    """What a side ever says: the labels that are counted."""
    return sorted({name for names in column.unique() for name in names.split("|")} - {""})


def _side(
    rows: pd.DataFrame, images: pd.Index[str], classes: Sequence[str], names: Sequence[str], *, said: Said | None
) -> _Side:
    image = images.get_indexer(pd.Index(rows["image_id"]))
    rows, image = rows[image >= 0], image[image >= 0]
    labels = _hot(rows[said], names) if said else np.zeros((len(rows), 1), dtype=np.bool_)
    return _Side(image, _hot(rows["class"], classes), _hot(rows["named"], classes), labels)


def _hot(column: pd.Series[str], names: Sequence[str]) -> BoolArray:
    """Names joined by "|" as [C, len(names)]; others are passed over."""
    codes, texts = pd.factorize(column)
    return np.asarray(mention_table([text.split("|") for text in texts], names)[codes])


def _complete(
    truth: _Side, predicted: _Side, images: pd.Index[str], metric: Metric
) -> tuple[_Side, _Side, pd.Index[str]]:
    """What is not predicted equals the truth of the row's image; and the images that are left.

    Where classes are predicted, captions that name none, or several, predict nothing: they are left out, and images
    without others (Princeton's codes do so too). P(a^|l) would else be the smaller the more a captioner keeps silent.
    """
    row = np.empty(len(truth.image), dtype=np.int64)
    row[truth.image] = np.arange(len(row))
    if metric.direction == "A->T":
        return truth, replace(predicted, named=truth.named[row[predicted.image]]), images
    naming = naming_of(predicted.named).any(axis=1)
    predicted = replace(predicted, labels=truth.labels[row[predicted.image]])
    left, image = np.unique(predicted.image[naming], return_inverse=True)
    sides = _take(truth, row[left], np.arange(len(left))), _take(predicted, np.flatnonzero(naming), image)
    return *sides, images[left]


def _take(side: _Side, rows: IntArray, image: IntArray) -> _Side:
    """Some rows, with the indices of their images."""
    return _Side(image, side.annotated[rows], side.named[rows], side.labels[rows])


def _terms(side: _Side, metric: Metric, places: tuple[int, int]) -> FloatArray:
    """What rows add to the numerator and to the denominator, [C, 2]."""
    counting, direction = metric.counted, metric.direction
    assert counting is not None
    variant = counting.variant
    if counting.kind == "ratio":
        return ratio_terms(side.named, first=places[0], second=places[1], both=variant.both)
    if counting.kind == "error":
        return error_terms(side.annotated, side.named, among=variant.among, both=variant.both)
    assert direction is not None  # DPA's rows have one.
    named = naming_of(side.named)
    sides = (named, side.labels) if direction == "A->T" else (side.labels, named)
    return attack_terms(*sides, direction, side.image)


def _split(terms: FloatArray) -> tuple[BoolArray | FloatArray, Sparse]:
    """The numerator as a class, the denominator as a label."""
    above, below = np.hsplit(terms, 2)
    return above, _sparse(below)


def _sparse(table: npt.NDArray[np.generic]) -> Sparse:
    return csr_array(np.asarray(table, dtype=np.float64))


def _holding(labels: BoolArray, sets: Sequence[tuple[int, ...]]) -> Sparse:
    """Which rows have all labels of each set, [C, M]."""
    rows = [np.flatnonzero(labels[:, list(members)].all(axis=1)) for members in sets]
    columns = np.repeat(np.arange(len(sets)), [len(of) for of in rows])
    cells = np.concatenate(rows), columns
    return csr_array((np.ones(len(columns)), cells), shape=(len(labels), len(sets)))


def _flatten(named: BoolArray | FloatArray, labels: Sparse) -> Sparse:
    """What each row adds to the fields of an ContingencyTable, in their order, [C, S]."""
    blank = ~(named.any(axis=1) | np.asarray(labels.sum(axis=1) > 0))
    together = [labels.multiply(_sparse(column[:, None])) for column in named.T]
    others = [_sparse(named), labels, _sparse(np.ones((len(named), 1))), _sparse(blank[:, None])]
    return csr_array(hstack([*together, *others]))
