"""Contributions of captions, images and tasks to every metric: they add up to its value.

With fixed weights every metric is linear in what captions add to its sums (``pieces`` of
:class:`~judge.statistics.judged.Statistic`, and of counted metrics): generated captions add their contribution, human
captions subtract theirs.

A caption belongs to the tasks that it names if the metric measures what captions reveal (A->T), or to those that its
image shows (T->A); several tasks share it equally. Counted metrics over labels have a part for each label (BA: for each
word); a set of labels (Multi->) is shared equally.

Tests compare a task's contribution with chance: 0 for judged metrics, the mean over exchanged captions for counted
ones. They are the tests of the metric itself (:mod:`judge.statistics.inference`); judged metrics use splits, because
refits keep no tasks. Holm's correction is over the tasks of a captioner, metric and judge. Tasks with fewer than ten
captions have no test (BENCHMARKS.md, "Breakdown"), and Multi-> has none: its sets are chosen by human captions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.sparse import csr_array, hstack

from judge.errors import JudgeError
from judge.metrics import find_metric
from judge.metrics.counted.contingency import ContingencyTable
from judge.metrics.counted.spec import Quotients
from judge.statistics.comparisons import holm
from judge.statistics.counted import EXCHANGES, CountedRow, CountedRows
from judge.statistics.inference import Exchanged, from_halves, from_splits
from judge.statistics.intervals import Exchange, Rows, bootstrap_pooled
from judge.statistics.judged import CAPTION, hot, names_of
from judge.statistics.summary import ROW, Basis, JudgedRow, Settings
from judge.types import BoolArray, FloatArray, Interval

_COLUMNS = [*ROW, "image_id", "contribution"]
LEAST = 10
"""Captions that a task must have for an interval and a test."""
NONE = "(none)"
"""The task of captions that name no task, or of images that show none."""


@dataclass(frozen=True, slots=True, eq=False)
class Breakdown:
    """Contributions of tasks, images and words; data/README.md lists the columns.

    Attributes:
        tasks: one row per task of each row of the table, the largest contribution of a row first: to its amplification
            less its neutral value, with interval and p against chance, None with too few captions or splits.
        images: see :func:`image_contributions`.
        captions: the tasks that captions name and images show.
        words: see :mod:`judge.measure.words`.
    """

    tasks: pd.DataFrame
    images: pd.DataFrame
    captions: pd.DataFrame
    words: pd.DataFrame = field(default_factory=pd.DataFrame)


Known = tuple[Interval | None, float | None, Basis | None]
"""Interval, p, and their basis."""
UNKNOWN: Known = (None, None, None)


def break_down(
    scores: pd.DataFrame, counts: pd.DataFrame, said: pd.DataFrame, names: Sequence[str], settings: Settings
) -> Breakdown:
    """The contributions to every row of the table that compares two sides and has a value.

    ``scores`` and ``counts`` are the rows of the run's files, ``said`` the tasks that captions name and images show
    (:func:`judge.evidence.counts.task_rows`). A counted metric without ``pieces``, such as a user's own, is refused.
    """
    captioners = list(said["captioner"].unique())
    own = dict(iter(said.groupby("captioner", observed=True)))
    tasks, images = list[dict[str, Any]](), list[pd.DataFrame]()
    for row in chain[JudgedRow | CountedRow](judged_rows(scores, settings), _counted_rows(counts, names, settings)):
        if isinstance(row, JudgedRow):
            tasks += _judged_tasks(row, own[row.line.captioner], settings)
        elif _has_pieces(row):
            tasks += _counted_tasks(row, own[row.line.captioner], settings)
        else:
            what = f"{row.metric.title} does not say what captions add to it"
            raise JudgeError(what, mend="leave --breakdown out")
        images.append(_image_table(row))
    tasks.sort(key=lambda part: (captioners.index(part["captioner"]), names.index(part["metric"])))
    return Breakdown(pd.DataFrame(tasks), _stack(images), said)


def image_contributions(
    scores: pd.DataFrame, settings: Settings, counted: Iterable[pd.DataFrame | None] = ()
) -> pd.DataFrame:
    """The contribution of each image to the same rows, but for counted metrics without ``pieces``.

    The columns are captioner, metric, judge, image_id, contribution; of counted metrics to the published value.
    ``counted``: what :func:`counted_images` returns for each of their rows.
    """
    judged = [_image_table(row) for row in judged_rows(scores, settings)]
    return _stack([*judged, *(table for table in counted if table is not None)])


def counted_images(row: CountedRow) -> pd.DataFrame | None:
    """The contribution of each image to a counted row; None without a value, or without ``pieces``."""
    return _image_table(row) if row.line.published is not None and _has_pieces(row) else None


def _image_table(row: JudgedRow | CountedRow) -> pd.DataFrame:
    if isinstance(row, JudgedRow):
        images, amounts = row.images, np.bincount(row.table.image, _of_captions(row, row.captions))
    else:
        held = _held(row)
        human, generated = held.rows.by_image()
        before, after = _pieces(row, *held.tables())
        images, amounts = pd.Series(held.images), generated @ after.sums() - human @ before.sums()
    table = pd.DataFrame({"image_id": images, "contribution": np.asarray(amounts, dtype=np.float64)})
    return table.assign(**_named(row))[_COLUMNS]


def _stack(tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=_COLUMNS)


def _share_out(column: pd.Series[str], tasks: Sequence[str]) -> csr_array:
    """The share of each row, whose tasks are joined by "|", in each of ``tasks`` and in none of them, [N, T + 1]."""
    codes, texts = pd.factorize(column)
    table = hot(texts, tasks).astype(np.float64)
    count = table.sum(axis=1, keepdims=True)
    return csr_array(np.hstack([table / np.maximum(count, 1), count == 0]))[codes]


def _count(shares: csr_array, chosen: BoolArray) -> list[int]:
    """How many of the chosen rows, [C], have a share in each task, of [C, T]."""
    return list(map(int, np.bincount(csr_array(shares[chosen] > 0).indices, minlength=shares.shape[1])))


def _parts(
    row: JudgedRow | CountedRow,
    names: Sequence[str],
    values: FloatArray,
    published: Sequence[float | None],
    counts: tuple[list[int], list[int]],
    known: Sequence[Known],
) -> list[dict[str, Any]]:
    """The tasks of a row with Holm's p, the largest contribution first, without tasks that have no caption."""
    parts = []
    for name, value, whole, human, generated, of in zip(names, values.tolist(), published, *counts, known, strict=True):
        if human or generated:
            interval, p_value, basis = of if human + generated >= LEAST else UNKNOWN
            low, high = (interval.low, interval.high) if interval else (None, None)
            part = {"task": name, "contribution": value, "published": whole, "human": human, "generated": generated}
            part |= {"p_value": p_value, "basis": basis, "p_holm": None, "low": low, "high": high}
            parts.append(_named(row) | part)
    for part, p in zip(parts, holm([part["p_value"] for part in parts]), strict=True):
        part["p_holm"] = p
    return sorted(parts, key=lambda part: -abs(part["contribution"]))


def _named(row: JudgedRow | CountedRow) -> dict[str, Any]:
    return dict(zip(ROW, row.line.key, strict=True))


def judged_rows(scores: pd.DataFrame, settings: Settings) -> Iterator[JudgedRow]:
    """The judged rows of the table that compare two sides and have a value."""
    for (_, name, _), rows in scores.groupby(ROW, sort=False, observed=True) if len(scores) else ():
        metric = find_metric(str(name))
        if metric.amplification != "one_side":
            row = JudgedRow(metric, rows, settings)
            if np.isfinite(row.value().value):
                yield row


def _of_captions(row: JudgedRow, captions: pd.DataFrame) -> FloatArray:
    """The contribution of each caption of a row, or of one of its splits, [C]; NaN if the metric has no value there."""
    statistic, rows = row.statistic, row.statistic.rows(captions)
    sums = rows.sums()
    if not np.isfinite(statistic(*sums).value):  # A split without captions of a class.
        return np.full(len(rows.image), np.nan)
    sides = zip(rows.weights(), statistic.pieces(*sums), strict=True)
    human, generated = (weight * (rows.table @ piece) for weight, piece in sides)
    return np.where(rows.generated, generated, -human)


def _judged_tasks(row: JudgedRow, said: pd.DataFrame, settings: Settings) -> list[dict[str, Any]]:
    """The tasks of a judged row; ``said``: what its captioner's captions and images name."""
    # Judges that guess tasks are asked for those that images show; U asks what images show, not what captions say.
    of_images = row.metric.target == "tasks" or row.metric.from_annotation
    named = said[(said["side"] == "annotated") == of_images]
    objects = named.set_index(["image_id"] if of_images else CAPTION)["objects"].astype(object)
    tasks = names_of(objects)

    def shares(captions: pd.DataFrame) -> csr_array:
        wanted = captions["image_id"] if of_images else pd.MultiIndex.from_frame(captions[CAPTION])
        return _share_out(objects.reindex(wanted).fillna(""), tasks)

    of_caption, share = _of_captions(row, row.captions), shares(row.captions)
    values = np.asarray(share.T @ of_caption)
    scored, generated = row.captions["n"].to_numpy() > 0, row.table.generated
    counts = _count(share, scored & ~generated), _count(share, scored & generated)
    known, ratio = list[Known](), settings.ratios.get(row.metric.name)
    if ratio is not None:
        by_split = np.stack([shares(of).T @ _of_captions(row, of) for of in row.splits()], axis=1)
        found = [from_splits(*pair, ratio=ratio, level=settings.level) for pair in zip(values, by_split, strict=True)]
        known = [(of.interval, of.p_value, "splits") for of in found if of]
    if len(known) < len(values):
        # Too few splits, or one without a value: nothing but the images varies.
        image = row.table.image
        places = csr_array((np.ones(len(image)), (image, np.arange(len(image)))))
        intervals = bootstrap_pooled(
            csr_array(places @ csr_array(share.multiply(of_caption[:, None]))),
            lambda sums: sums,
            generator=np.random.default_rng(settings.seed),
            resamples=settings.resamples,
            level=settings.level,
            strata=row.strata,
            units=row.units.index,
        )
        known = [(interval, None, "these judges" if interval else None) for interval in intervals]
    return _parts(row, [*tasks, NONE], values, [None] * len(values), counts, known)


def _counted_rows(counts: pd.DataFrame, names: Sequence[str], settings: Settings) -> Iterator[CountedRow]:
    metrics = [metric for metric in map(find_metric, names) if metric.counted]
    for _, rows in counts.groupby("captioner", sort=False, observed=True) if metrics else ():
        every = (CountedRow(metric, rows, counts) for metric in metrics)
        yield from (row for row in every if row.line.published is not None)


def _held(row: CountedRow) -> CountedRows:
    assert row.held is not None  # Otherwise the row has no value.
    return row.held


def _has_pieces(row: CountedRow) -> bool:
    """Whether the metric says what captions add to it; a user's own may not."""
    return hasattr(row.counted.freeze(*_held(row).tables()), "pieces")


def _pieces(row: CountedRow, *tables: ContingencyTable) -> tuple[ContingencyTable, ContingencyTable]:
    return row.counted.freeze(*tables).pieces(*tables)


class _Division(NamedTuple):
    """How a counted row is divided among T tasks: ``by_task`` maps both sides' sums, [S, ...], to values, [T, ...].

    ``rows``: what each caption adds to sums; ``holds``: the tasks that it is of, [C, T].
    """

    tasks: list[str]
    rows: Rows
    holds: csr_array
    by_task: Callable[[FloatArray, FloatArray], FloatArray]


def _by_label(row: CountedRow) -> _Division:
    """Division of a metric that adds up labels: each label belongs to the tasks of its name."""
    counted, held = row.counted, _held(row)
    columns = pd.Series(["|".join(of) for of in counted.columns(held.truth, held.names)])
    tasks = names_of(columns)
    share = _share_out(columns, tasks)[:, : len(tasks)]
    of_label, rows = share.toarray(), held.rows

    def by_task(human: FloatArray, generated: FloatArray) -> FloatArray:
        tables = held.read(human), held.read(generated)
        frozen: Any = counted.freeze(*tables)
        return np.moveaxis(np.asarray(frozen.parts(*tables).sum(axis=-2) @ of_label), -1, 0)

    holds = csr_array(csr_array(rows.table)[:, held.label_columns] @ share)[rows.kinds]
    return _Division(tasks, rows, holds, by_task)


def _by_image(row: CountedRow, said: pd.DataFrame) -> _Division:
    """Division of a metric that divides sums over captions: a caption belongs to the tasks that its image shows."""
    held = _held(row)
    shown = said[said["side"] == "annotated"].set_index("image_id")["objects"].astype(object)
    tasks = [*names_of(shown), NONE]
    places, texts = pd.factorize(shown.reindex(list(held.images)).fillna(""))
    share = _share_out(pd.Series(texts), tasks[:-1])
    # Rows of one kind whose images show the same are of one kind.
    known, kind = np.unique(held.rows.kinds * len(texts) + places[held.rows.image], return_inverse=True)
    before, place = np.divmod(known, len(texts))
    table = csr_array(held.rows.table)[before]
    wide = csr_array(hstack([csr_array(table.multiply(column[:, None])) for column in share[place].toarray().T]))

    def by_task(human: FloatArray, generated: FloatArray) -> FloatArray:
        sides = [sums.reshape(len(tasks), -1, *sums.shape[1:]) for sums in (human, generated)]
        pieces = _pieces(row, held.read(sides[0].sum(axis=0)), held.read(sides[1].sum(axis=0)))
        before, after = (
            np.einsum("s...,ts...->t...", piece.sums(), side) for piece, side in zip(pieces, sides, strict=True)
        )
        return np.asarray(after - before)

    return _Division(tasks, replace(held.rows, table=wide, kind=kind), share[place][kind], by_task)


def _counted_tasks(row: CountedRow, said: pd.DataFrame, settings: Settings) -> list[dict[str, Any]]:
    divides = isinstance(row.counted.freeze(*_held(row).tables()), Quotients)
    division = _by_image(row, said) if divides else _by_label(row)
    published, generated = division.by_task(*division.rows.sums()), division.rows.generated
    counts = _count(division.holds, ~generated), _count(division.holds, generated)
    values, known = _infer_counted(row, division, published, settings)
    return _parts(row, division.tasks, values, published.tolist(), counts, known)


def _infer_counted(
    row: CountedRow, division: _Division, published: FloatArray, settings: Settings
) -> tuple[FloatArray, list[Known]]:
    """What each task adds to the excess over the chance level, and its interval and p."""
    known = [UNKNOWN] * len(published)
    if not row.metric.exchangeable:
        return published, known
    exchange = Exchange(division.rows, division.by_task, generator=row.generator(settings.seed))
    exchanged = exchange.values(settings.exchanges_of(row.line.images))
    if not np.isfinite(exchanged).all():
        return published, known
    mean = exchanged.mean(axis=-1, keepdims=True)
    values = published - mean[:, 0]
    if not row.counted.signed:  # Multi->: see the module's docstring.
        return values, known
    excess = exchange.excess(row.halves(settings.seed), exchanges=EXCHANGES)
    for place, (value, of, drawn) in enumerate(zip(values, excess, exchanged - mean, strict=True)):
        if found := from_halves(float(value), of.tolist(), Exchanged.of(drawn), level=settings.level):
            known[place] = found.interval, found.p_value, "images"
    return values, known
