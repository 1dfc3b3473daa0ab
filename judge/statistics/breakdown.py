"""Which tasks and which images carry a metric: contributions of captions that add up to it.

Contributions are those of :mod:`judge.statistics.contributions`.

Where a metric asks what captions reveal (A->T), a caption is of the tasks that it names; where it asks how captions
name the attribute (T->A), of those that its image shows. Of several it is an equal part each. Counted metrics that
count labels have a part for each label (BA: for each word); a set of labels (Multi->) is an equal part for each.

Tests ask whether a task's contribution is more than chance: than 0 of judged metrics, than the mean where captions
change sides of counted ones. They are made as those of the metric itself (:mod:`judge.statistics.inference`), of judged
ones from splits, always: refits keep no tasks. Holm's correction is over the tasks of a captioner, metric and judge.
Where people play the captioner (BENCHMARKS.md, "Breakdown"), tests of tasks are rather too cautious; of tasks with five
captions or fewer, those of DBA_O found something in one of five: tasks of fewer than ten have no test. Nor has Multi->:
its sets are those that people name, so that what one of them adds is seldom what it adds by chance.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace

import numpy as np
import pandas as pd
from scipy.sparse import csr_array, hstack

from judge.errors import JudgeError
from judge.evidence import mention_table
from judge.metrics import Metric
from judge.metrics.counted.spec import CountedMetric, Quotients
from judge.statistics.comparisons import holm
from judge.statistics.contributions import (
    COLUMNS,
    counted_tables,
    judged_rows,
    of_captions,
    of_counted_images,
    of_images,
    take_apart,
)
from judge.statistics.counted import EXCHANGES, CountedRows, draw_halves, generator_of, names_of
from judge.statistics.inference import Exchanged, from_halves, from_splits
from judge.statistics.intervals import bootstrap_pooled, excess_of_parts, exchanged_values, permutation_p
from judge.statistics.judged import CAPTION
from judge.statistics.summary import Basis, JudgedRow, Settings
from judge.types import BoolArray, FloatArray, IntArray, Interval

LEAST = 10
"""Captions that a task must have for an interval and a test."""

NONE = "(none)"
"""Of captions that name no task, or images that show none."""


@dataclass(frozen=True, slots=True)
class TaskPart:
    """What the captions of a task add to a metric.

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
    """What the captions of tasks, and of images, add to every row of the table.

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
    """
    found = [*_judged(scores, said, settings), *_counted(counts, said, names, settings)]
    captioners = list(said["captioner"].unique())
    tasks = [part for parts, _ in found for part in parts]
    tasks.sort(key=lambda part: (captioners.index(part.captioner), names.index(part.metric)))
    images = pd.concat([of for _, of in found], ignore_index=True) if found else pd.DataFrame(columns=COLUMNS)
    return Breakdown(tuple(tasks), images, said)


def task_table(found: Breakdown) -> pd.DataFrame:
    """A row for each task, with the bounds of its interval: low, high."""
    rows = []
    for part in found.tasks:
        row = asdict(part)
        interval = row.pop("interval")
        rows.append(row | {"low": interval and interval["low"], "high": interval and interval["high"]})
    return pd.DataFrame(rows)


Found = tuple[list[TaskPart], pd.DataFrame]
Known = tuple[Interval | None, float | None, Basis | None]
"""Interval, p, and what they are from."""


def _judged(scores: pd.DataFrame, said: pd.DataFrame, settings: Settings) -> Iterator[Found]:
    for row in judged_rows(scores, settings):
        yield _Judged(row, said[said["captioner"] == row.line.captioner], settings).found()


class _Judged:
    """One captioner, metric and judge."""

    def __init__(self, row: JudgedRow, said: pd.DataFrame, settings: Settings) -> None:
        self.row, self.settings = row, settings
        # Judges that guess tasks are asked for those that images show.
        self.keys = ["image_id"] if row.metric.target == "tasks" else CAPTION
        wanted = said["side"] == "annotated" if row.metric.target == "tasks" else said["side"] != "annotated"
        self.objects = said[wanted].set_index(self.keys)["objects"]
        self.tasks = names_of(self.objects)

    def found(self) -> Found:
        """Its tasks and its images."""
        row = self.row
        of_caption, share = of_captions(row, row.captions), self.shares(row.captions)
        values = np.asarray(share.T @ of_caption)
        asked = row.captions["n"].to_numpy() > 0
        counts = [
            np.asarray((share[asked & (row.captions["side"] == side).to_numpy()] > 0).sum(axis=0)).ravel()
            for side in ("human", "generated")
        ]
        inferred = self.infer(values, csr_array(share.multiply(of_caption[:, None])))
        parts = [
            TaskPart(*row.line.key, task, float(values[place]), None, int(counts[0][place]), int(counts[1][place]), *of)
            for place, (task, of) in enumerate(zip([*self.tasks, NONE], inferred, strict=True))
        ]
        return _corrected(parts), of_images(row)

    def shares(self, captions: pd.DataFrame) -> csr_array:
        """How much of each caption is of each task, and of none, [C, T + 1]."""
        wanted = pd.MultiIndex.from_frame(captions[self.keys]) if len(self.keys) > 1 else captions[self.keys[0]]
        return share_out(self.objects.reindex(wanted).fillna(""), self.tasks)

    def infer(self, values: FloatArray, parts: csr_array) -> list[Known]:
        """What is known of each task's value, whose captions add ``parts``, [C, T + 1]."""
        level, ratio = self.settings.level, self.settings.ratios.get(self.row.metric.name)
        if ratio is not None:
            splits = [self.shares(of).T @ of_captions(self.row, of) for of in self.row.splits()]
            by_split = np.stack(splits, axis=1)
            found = [from_splits(*pair, ratio=ratio, level=level) for pair in zip(values, by_split, strict=True)]
            known: list[Known] = [(of.interval, of.p_value, "splits") for of in found if of]
            if len(known) == len(found):
                return known
        image = self.row.table.image
        places = csr_array((np.ones(len(image)), (image, np.arange(len(image)))))
        intervals = bootstrap_pooled(
            csr_array(places @ parts),
            lambda sums: sums,
            generator=np.random.default_rng(self.settings.seed),
            resamples=self.settings.resamples,
            level=level,
            strata=self.row.strata,
        )
        return [(interval, None, "these judges" if interval else None) for interval in intervals]


def _counted(counts: pd.DataFrame, said: pd.DataFrame, names: Sequence[str], settings: Settings) -> Iterator[Found]:
    for captioner, metric, counted, held, rows in counted_tables(counts, names):
        own = said[said["captioner"] == captioner]
        yield from _Counted(captioner, metric, counted, held, rows, own).found(settings)


class _Counted:
    """One captioner and counted metric."""

    def __init__(
        self,
        captioner: str,
        metric: Metric,
        counted: CountedMetric,
        held: CountedRows,
        counts: pd.DataFrame,
        said: pd.DataFrame,
    ) -> None:
        self.key = captioner, metric.name, metric.judge
        self.metric, self.counted, self.held, self.counts = metric, counted, held, counts
        pieces = take_apart(counted, held)
        if pieces is None:
            raise JudgeError(f"{metric.title} does not say what captions add to it", mend="leave --breakdown out")
        self.pieces = pieces
        # What a sum over captions by another is made of are captions: they are of the tasks that images show.
        self.of_images = isinstance(self.pieces.frozen, Quotients)
        if self.of_images:
            shown = said[said["side"] == "annotated"].set_index("image_id")["objects"]
            self.tasks = [*names_of(shown), NONE]
            images = np.array(held.images, dtype=object)[held.rows.image]
            self.share = share_out(shown.reindex(images).fillna(""), self.tasks[:-1])
            table = csr_array(held.rows.table)
            parts = [csr_array(table.multiply(column[:, None])) for column in self.share.toarray().T]
            self.table = csr_array(hstack(parts))
        else:
            columns = pd.Series(["|".join(of) for of in counted.columns(held.truth, held.names)])
            self.tasks = names_of(columns)
            self.share = share_out(columns, self.tasks)[:, : len(self.tasks)]
            self.of_label = self.share.toarray()
            self.table = csr_array(held.rows.table)

    def by_task(self, human: FloatArray, generated: FloatArray) -> FloatArray:
        """What each task adds to the value, [T, ...], of sums of ``table`` on either side, [S, ...]."""
        if not self.of_images:
            tables = self.held.read(human), self.held.read(generated)
            parts = self.counted.freeze(*tables).parts(*tables).sum(axis=-2)
            return np.moveaxis(np.asarray(parts @ self.of_label), -1, 0)
        sides = [sums.reshape(len(self.tasks), -1, *sums.shape[1:]) for sums in (human, generated)]
        tables = self.held.read(sides[0].sum(axis=0)), self.held.read(sides[1].sum(axis=0))
        pieces = (table.sums() for table in self.counted.freeze(*tables).pieces(*tables))
        human_part, generated_part = (
            np.einsum("s...,ts...->t...", piece, side) for piece, side in zip(pieces, sides, strict=True)
        )
        return np.asarray(generated_part - human_part)

    def found(self, settings: Settings) -> Iterator[Found]:
        """Its tasks and its images; nothing where it has no value."""
        if not np.isfinite(self.pieces.value):
            return
        rows = self.held.rows
        sides = ~rows.generated, rows.generated
        sums = [np.asarray(self.table.T @ (weight * of)) for weight, of in zip(rows.weights(), sides, strict=True)]
        published = self.by_task(sums[0], sums[1])
        counts = [self.captions(side) for side in sides]
        values, known = self.infer(published, settings)
        parts = [
            TaskPart(*self.key, task, float(value), float(whole), int(human), int(generated), *of)
            for task, value, whole, human, generated, of in zip(
                self.tasks, values, published, *counts, known, strict=True
            )
        ]
        yield _corrected(parts), of_counted_images(self.key, self.held, self.pieces)

    def captions(self, of: BoolArray) -> IntArray:
        """How many rows of a side count for each task, [T]."""
        if self.of_images:
            return np.asarray((self.share[of] > 0).sum(axis=0), dtype=np.int64).ravel()
        labels = self.table[of][:, self.held.label_columns]
        return np.asarray(((labels @ self.share) > 0).sum(axis=0), dtype=np.int64).ravel()

    def infer(self, published: FloatArray, settings: Settings) -> tuple[FloatArray, list[Known]]:
        """What each task adds to the excess over the chance level, and what is known of it."""
        unknown: list[Known] = [(None, None, None)] * len(published)
        if not self.metric.exchangeable:
            return published, unknown
        rows, generator = self.held.rows, generator_of(self.metric, settings.seed)
        exchanged = exchanged_values(
            rows, self.by_task, generator=generator, resamples=settings.resamples, table=self.table
        )
        if not np.isfinite(exchanged).all():
            return published, unknown
        values = published - exchanged.mean(axis=-1)
        if self.counted.verdicts[0] == "changes":  # Multi->: see the module.
            return values, unknown
        halves = draw_halves(self.counts, self.held, settings.seed)
        excess = excess_of_parts(rows, self.by_task, halves, generator=generator, exchanges=EXCHANGES, table=self.table)
        known: list[Known] = []
        for value, of, drawn in zip(values, excess, exchanged - exchanged.mean(axis=-1, keepdims=True), strict=True):
            chance = Exchanged(0.0, float(drawn.std(ddof=1)), len(drawn), permutation_p(float(value), drawn))
            found = from_halves(float(value), of.tolist(), chance, level=settings.level)
            known.append((found.interval, found.p_value, "images") if found else (None, None, None))
        return values, known


def share_out(column: pd.Series[str], tasks: Sequence[str]) -> csr_array:
    """How much of each row, whose tasks are joined by "|", is of each of ``tasks``, and of none, [N, T + 1]."""
    codes, texts = pd.factorize(column)
    table = mention_table([text.split("|") for text in texts], tasks).astype(np.float64)
    count = table.sum(axis=1, keepdims=True)
    table = np.hstack([table / np.maximum(count, 1), count == 0])
    return csr_array(table)[codes]


def _corrected(parts: Sequence[TaskPart]) -> list[TaskPart]:
    """With Holm's p, the greatest contribution first, without tasks that no caption is of.

    Of few captions nothing is known: errors of what is rare claim too little (module's docstring).
    """
    there = [
        part if part.human + part.generated >= LEAST else replace(part, interval=None, p_value=None, basis=None)
        for part in parts
        if part.human or part.generated
    ]
    corrected = [replace(part, p_holm=p) for part, p in zip(there, holm([of.p_value for of in there]), strict=True)]
    return sorted(corrected, key=lambda part: -abs(part.contribution))
