"""Contributions of captions, images and tasks to every metric: they add up to it.

Every metric is linear in what captions add to its sums, as long as the factors that weigh these sums are fixed
(``pieces`` of :class:`~judge.statistics.judged.Statistic`, and of counted metrics). So generated captions add their
contribution, human captions take theirs away, and nothing remains.

Where a metric asks what captions reveal (A->T), a caption belongs to the tasks that it names; where it asks how
captions name the attribute (T->A), to those that its image shows. It is shared equally among several tasks. Counted
metrics that count labels have a part for each label (BA: for each word); a set of labels (Multi->) is shared equally.

Tests compare a task's contribution with chance: with 0 for judged metrics, with the mean over captions that change
sides for counted ones. They are those of the metric itself (:mod:`judge.statistics.inference`), for judged metrics
always from splits: refits keep no tasks. Holm's correction is over the tasks of a captioner, metric and judge.
Where human captions stand for a captioner's (BENCHMARKS.md, "Breakdown"), tests of tasks are rather too cautious, but
those of DBA_O found something in one of five tasks with five captions or fewer: tasks with fewer than ten have no test.
Nor has Multi->: its sets are those that human captions name, so that the contribution of one is seldom that of chance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.sparse import csr_array, hstack

from judge.errors import JudgeError
from judge.evidence import mention_table
from judge.metrics import Metric, find_metric
from judge.metrics.counted.spec import CountedMetric, Quotients
from judge.statistics.comparisons import Key, holm
from judge.statistics.counted import (
    EXCHANGES,
    CountedRows,
    choose_classes,
    counted_rows,
    draw_halves,
    generator_of,
    names_of,
)
from judge.statistics.inference import Exchanged, from_halves, from_splits
from judge.statistics.intervals import bootstrap_pooled, excess_of_parts, exchanged_values, permutation_p
from judge.statistics.judged import CAPTION
from judge.statistics.summary import ROW, Basis, JudgedRow, Settings
from judge.types import FloatArray, Interval

_COLUMNS = [*ROW, "image_id", "contribution"]

LEAST = 10
"""Captions that a task must have for an interval and a test."""

NONE = "(none)"
"""The task of captions that name no task, or of images that show none."""


@dataclass(frozen=True, slots=True)
class TaskPart:
    """The contribution of a task's captions to a metric.

    Attributes:
        captioner, metric, judge: names of the table's row.
        task: its name; of BA a word; ``NONE`` for captions without any.
        contribution: to the row's amplification less what is neutral; these of all tasks add up to it.
        published: of counted metrics, to the published value; else None.
        human, generated: captions of either side that count for it (of T->A: of images that show it).
        interval, p_value: of the contribution, against that of chance; None where too little is known.
        basis: what the interval is from.
        p_holm: p corrected for all tasks of the row.
    """

    captioner: str
    metric: str
    judge: str
    task: str
    contribution: float
    published: float | None
    human: int
    generated: int
    interval: Interval | None = None
    p_value: float | None = None
    basis: Basis | None = None
    p_holm: float | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Breakdown:
    """Contributions of tasks and of images to every row of the table.

    Attributes:
        tasks: by row of the main table, the greatest contribution first.
        images: captioner, metric, judge, image_id, contribution (of counted metrics to the published value).
        captions: what was said of which image, and the tasks that it names.
        words: what they add to the log-odds of ``linear`` (:mod:`judge.measure.words`).
    """

    tasks: tuple[TaskPart, ...]
    images: pd.DataFrame
    captions: pd.DataFrame
    words: pd.DataFrame = field(default_factory=pd.DataFrame)


def break_down(
    scores: pd.DataFrame, counts: pd.DataFrame, said: pd.DataFrame, names: Sequence[str], settings: Settings
) -> Breakdown:
    """The contributions to every row of the table that compares two sides and has a value.

    Args:
        scores: the rows of ``scores.parquet``.
        counts: the rows of ``counts.parquet``.
        said: the tasks that captions name and images show (:func:`judge.evidence.counts.task_rows`).
        names: of the metrics.
        settings: as of :func:`~judge.statistics.summary.summarise`.

    Raises:
        JudgeError: a counted metric, such as a user's own, that has no ``pieces``.
    """
    captioners = list(said["captioner"].unique())
    own = dict(iter(said.groupby("captioner", observed=True)))
    tasks: list[TaskPart] = []
    images: list[pd.DataFrame] = []
    for row in judged_rows(scores, settings):
        tasks += _corrected(_judged_tasks(row, own[row.line.captioner], settings))
        images.append(_judged_images(row))
    for line in _counted_lines(counts, names):
        if line.pieces is None:
            raise JudgeError(f"{line.metric.title} does not say what captions add to it", mend="leave --breakdown out")
        tasks += _corrected(_counted_tasks(line, own[line.captioner], settings))
        images.append(_image_table(line.key, line.held.images, _of_images(line.held, *line.pieces)))
    tasks.sort(key=lambda part: (captioners.index(part.captioner), names.index(part.metric)))
    return Breakdown(tuple(tasks), _stack(images), said)


def task_table(found: Breakdown) -> pd.DataFrame:
    """A row for each task, with the bounds of its interval: low, high."""
    rows = []
    for part in found.tasks:
        row = asdict(part)
        interval = row.pop("interval")
        rows.append(row | {"low": interval and interval["low"], "high": interval and interval["high"]})
    return pd.DataFrame(rows)


def image_contributions(
    scores: pd.DataFrame, counts: pd.DataFrame, names: Sequence[str], settings: Settings
) -> pd.DataFrame:
    """The contribution of each image to every row of the table that compares two sides and has a value.

    Args:
        scores: the rows of ``scores.parquet``.
        counts: the rows of ``counts.parquet``.
        names: of the metrics.
        settings: as of :func:`~judge.statistics.summary.summarise`.

    Returns:
        captioner, metric, judge, image_id, contribution; of counted metrics to the published value.
    """
    judged = [_judged_images(row) for row in judged_rows(scores, settings)]
    counted = [
        _image_table(line.key, line.held.images, _of_images(line.held, *line.pieces))
        for line in _counted_lines(counts, names)
        if line.pieces
    ]
    return _stack([*judged, *counted])


def _judged_images(row: JudgedRow) -> pd.DataFrame:
    amounts = np.bincount(row.table.image, _of_captions(row, row.captions)).astype(np.float64, copy=False)
    return _image_table(row.line.key, row.images, amounts)


def _of_images(held: CountedRows, of_human: FloatArray, of_generated: FloatArray) -> FloatArray:
    """The contribution of each image, [N], from what each unit of the sums adds."""
    human, generated = held.rows.by_image()
    return np.asarray(generated @ of_generated - human @ of_human)


def _image_table(key: Key, images: Any, contributions: FloatArray) -> pd.DataFrame:
    table = pd.DataFrame({"image_id": images, "contribution": contributions})
    return table.assign(**dict(zip(ROW, key, strict=True)))[_COLUMNS]


def _stack(tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=_COLUMNS)


def share_out(column: pd.Series[str], tasks: Sequence[str]) -> csr_array:
    """The share of each row, whose tasks are joined by "|", in each of ``tasks`` and in none of them, [N, T + 1]."""
    codes, texts = pd.factorize(column)
    table = mention_table([text.split("|") for text in texts], tasks).astype(np.float64)
    count = table.sum(axis=1, keepdims=True)
    table = np.hstack([table / np.maximum(count, 1), count == 0])
    return csr_array(table)[codes]


def _corrected(parts: Sequence[TaskPart]) -> list[TaskPart]:
    """With Holm's p, the greatest contribution first, without tasks that have no caption.

    Tasks with few captions lose interval and p: their errors are estimated too small (see the module's docstring).
    """
    there = [
        part if part.human + part.generated >= LEAST else replace(part, interval=None, p_value=None, basis=None)
        for part in parts
        if part.human or part.generated
    ]
    corrected = [replace(part, p_holm=p) for part, p in zip(there, holm([of.p_value for of in there]), strict=True)]
    return sorted(corrected, key=lambda part: -abs(part.contribution))


Known = tuple[Interval | None, float | None, Basis | None]
"""Interval, p, and their basis."""


# ---- Judged metrics --------------------------------------------------------------------------------------------------


def judged_rows(scores: pd.DataFrame, settings: Settings) -> Iterator[JudgedRow]:
    """The judged rows of the table that compare two sides and have a value."""
    groups = scores.groupby(ROW, sort=False, observed=True) if len(scores) else ()
    for (_, name, _), rows in groups:
        metric = find_metric(str(name))
        if metric.amplification != "one_side":
            row = JudgedRow(metric, rows, settings)
            if np.isfinite(row.value().value):
                yield row


def _of_captions(row: JudgedRow, captions: pd.DataFrame) -> FloatArray:
    """The contribution of each caption, [C], to the metric of these captions; NaN where it has no value.

    Args:
        row: of the table.
        captions: its captions, or those of one of its splits; the index is that of ``row.captions``.
    """
    statistic, rows = row.statistic, row.adds(captions)
    sums = [np.asarray(side.sum(axis=0), dtype=np.float64) for side in rows.by_image()]
    if not np.isfinite(statistic(sums[0], sums[1]).value):  # A split without captions of a class.
        return np.full(len(rows.image), np.nan)
    human, generated = (
        weight * (rows.table @ piece) for weight, piece in zip(rows.weights(), statistic.pieces(*sums), strict=True)
    )
    return np.where(rows.generated, generated, -human)


def _judged_tasks(row: JudgedRow, said: pd.DataFrame, settings: Settings) -> list[TaskPart]:
    """The tasks of a judged row; ``said``: what its captioner's captions and images name."""
    # Judges that guess tasks are asked for those that images show.
    of_images = row.metric.target == "tasks"
    keys = ["image_id"] if of_images else CAPTION
    objects = said[(said["side"] == "annotated") == of_images].set_index(keys)["objects"]
    tasks = names_of(objects)

    def shares(captions: pd.DataFrame) -> csr_array:
        wanted = pd.MultiIndex.from_frame(captions[keys]) if len(keys) > 1 else captions[keys[0]]
        return share_out(objects.reindex(wanted).fillna(""), tasks)

    of_caption, share = _of_captions(row, row.captions), shares(row.captions)
    values = np.asarray(share.T @ of_caption)
    asked = row.captions["n"].to_numpy() > 0
    counts = [
        np.asarray((share[asked & (row.captions["side"] == side).to_numpy()] > 0).sum(axis=0)).ravel()
        for side in ("human", "generated")
    ]
    known = _from_splits(row, values, shares, settings)
    if known is None:
        # Nothing but the images varies.
        image = row.table.image
        places = csr_array((np.ones(len(image)), (image, np.arange(len(image)))))
        intervals = bootstrap_pooled(
            csr_array(places @ csr_array(share.multiply(of_caption[:, None]))),
            lambda sums: sums,
            generator=np.random.default_rng(settings.seed),
            resamples=settings.resamples,
            level=settings.level,
            strata=row.strata,
        )
        known = [(interval, None, "these judges" if interval else None) for interval in intervals]
    rows = zip([*tasks, NONE], values, *counts, known, strict=True)
    return [
        TaskPart(*row.line.key, task, float(value), None, int(human), int(generated), *of)
        for task, value, human, generated, of in rows
    ]


def _from_splits(
    row: JudgedRow, values: FloatArray, shares: Callable[[pd.DataFrame], csr_array], settings: Settings
) -> list[Known] | None:
    """Intervals and p of the tasks' values, [T]; None where there are too few splits, or one has no value."""
    ratio = settings.ratios.get(row.metric.name)
    if ratio is None:
        return None
    by_split = np.stack([shares(of).T @ _of_captions(row, of) for of in row.splits()], axis=1)
    found = [from_splits(*pair, ratio=ratio, level=settings.level) for pair in zip(values, by_split, strict=True)]
    known: list[Known] = [(of.interval, of.p_value, "splits") for of in found if of]
    return known if len(known) == len(found) else None


# ---- Counted metrics -------------------------------------------------------------------------------------------------


class _CountedLine(NamedTuple):
    """A captioner and counted metric that has a value.

    Attributes:
        captioner, metric: of the row.
        counted: the metric with its classes chosen.
        held: the captions as sums.
        counts: their rows of ``counts.parquet``.
        pieces: what each unit of the sums of either side adds; None of a metric, such as a user's own, that has none.
        divides: whether the metric divides sums over captions.
    """

    captioner: str
    metric: Metric
    counted: CountedMetric
    held: CountedRows
    counts: pd.DataFrame
    pieces: tuple[FloatArray, FloatArray] | None
    divides: bool

    @property
    def key(self) -> Key:
        """The names of captioner, metric and judge."""
        return self.captioner, self.metric.name, self.metric.judge


def _counted_lines(counts: pd.DataFrame, names: Sequence[str]) -> Iterator[_CountedLine]:
    """The counted rows of the table that have a value."""
    metrics = [(metric, metric.counted) for metric in map(find_metric, names) if metric.counted]
    for captioner, rows in counts.groupby("captioner", sort=False, observed=True) if metrics else ():
        for metric, chosen in metrics:
            counted = choose_classes(chosen, counts)
            held = counted_rows(rows, counted)
            if held is None:
                continue
            tables = [held.read(np.asarray(side.sum(axis=0), dtype=np.float64)) for side in held.rows.by_image()]
            frozen: Any = counted.freeze(*tables)
            if np.isfinite(frozen.compare(*tables).value):
                known = hasattr(frozen, "pieces")
                pieces: Any = tuple(of.sums() for of in frozen.pieces(*tables)) if known else None
                divides = isinstance(frozen, Quotients)
                yield _CountedLine(str(captioner), metric, counted, held, rows, pieces, divides)


class _Division(NamedTuple):
    """How the value of a counted row is divided among tasks.

    Attributes:
        tasks: their names, [T].
        table: what each caption adds to sums, [C, S].
        counts: whether a caption counts for a task, [C, T].
        by_task: sums of both sides, [S, ...] each -> what each task adds to the value, [T, ...].
    """

    tasks: list[str]
    table: csr_array
    counts: csr_array
    by_task: Callable[[FloatArray, FloatArray], FloatArray]


def _by_label(row: _CountedLine) -> _Division:
    """Division of a metric that adds up labels: each label belongs to the tasks of its name."""
    counted, held = row.counted, row.held
    columns = pd.Series(["|".join(of) for of in counted.columns(held.truth, held.names)])
    tasks = names_of(columns)
    share = share_out(columns, tasks)[:, : len(tasks)]
    of_label, table = share.toarray(), csr_array(held.rows.table)

    def by_task(human: FloatArray, generated: FloatArray) -> FloatArray:
        tables = held.read(human), held.read(generated)
        parts = counted.freeze(*tables).parts(*tables).sum(axis=-2)
        return np.moveaxis(np.asarray(parts @ of_label), -1, 0)

    return _Division(tasks, table, csr_array((table[:, held.label_columns] @ share) > 0), by_task)


def _by_image(row: _CountedLine, said: pd.DataFrame) -> _Division:
    """Division of a metric that divides sums over captions: a caption belongs to the tasks that its image shows."""
    counted, held = row.counted, row.held
    shown = said[said["side"] == "annotated"].set_index("image_id")["objects"]
    tasks = [*names_of(shown), NONE]
    images = np.array(held.images, dtype=object)[held.rows.image]
    share = share_out(shown.reindex(images).fillna(""), tasks[:-1])
    table = csr_array(held.rows.table)
    wide = csr_array(hstack([csr_array(table.multiply(column[:, None])) for column in share.toarray().T]))

    def by_task(human: FloatArray, generated: FloatArray) -> FloatArray:
        sides = [sums.reshape(len(tasks), -1, *sums.shape[1:]) for sums in (human, generated)]
        tables = held.read(sides[0].sum(axis=0)), held.read(sides[1].sum(axis=0))
        pieces = (table.sums() for table in counted.freeze(*tables).pieces(*tables))
        before, after = (np.einsum("s...,ts...->t...", piece, side) for piece, side in zip(pieces, sides, strict=True))
        return np.asarray(after - before)

    return _Division(tasks, wide, csr_array(share > 0), by_task)


def _counted_tasks(row: _CountedLine, said: pd.DataFrame, settings: Settings) -> list[TaskPart]:
    """The tasks of a counted row."""
    division = _by_image(row, said) if row.divides else _by_label(row)
    rows = row.held.rows
    sides = ~rows.generated, rows.generated
    sums = [np.asarray(division.table.T @ (weight * of)) for weight, of in zip(rows.weights(), sides, strict=True)]
    published = division.by_task(sums[0], sums[1])
    counts = [np.asarray(division.counts[of].sum(axis=0)).ravel() for of in sides]
    values, known = _infer_counted(row, division, published, settings)
    return [
        TaskPart(*row.key, task, float(value), float(whole), int(human), int(generated), *of)
        for task, value, whole, human, generated, of in zip(
            division.tasks, values, published, *counts, known, strict=True
        )
    ]


def _infer_counted(
    row: _CountedLine, division: _Division, published: FloatArray, settings: Settings
) -> tuple[FloatArray, list[Known]]:
    """What each task adds to the excess over the chance level, and its interval and p."""
    unknown: list[Known] = [(None, None, None)] * len(published)
    if not row.metric.exchangeable:
        return published, unknown
    rows, by_task, table = row.held.rows, division.by_task, division.table
    generator = generator_of(row.metric, settings.seed)
    exchanged = exchanged_values(rows, by_task, generator=generator, resamples=settings.resamples, table=table)
    if not np.isfinite(exchanged).all():
        return published, unknown
    values = published - exchanged.mean(axis=-1)
    if row.counted.verdicts[0] == "changes":  # Multi->: see the module's docstring.
        return values, unknown
    halves = draw_halves(row.counts, row.held, settings.seed)
    excess = excess_of_parts(rows, by_task, halves, generator=generator, exchanges=EXCHANGES, table=table)
    known: list[Known] = []
    for value, of, drawn in zip(values, excess, exchanged - exchanged.mean(axis=-1, keepdims=True), strict=True):
        chance = Exchanged(0.0, float(drawn.std(ddof=1)), len(drawn), permutation_p(float(value), drawn))
        found = from_halves(float(value), of.tolist(), chance, level=settings.level)
        known.append((found.interval, found.p_value, "images") if found else (None, None, None))
    return values, known
