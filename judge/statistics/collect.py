"""What images to collect next: what metrics would be if classes showed a task equally often, by weighing images.

A cell is the images of a class that show a task, or those that do not. Of a class that shows it less often than
another, more images with the task would make them equal; of one that shows it more often, more images without it.
Images of the class are weighed so that their share with the task is the other class's (the greatest or the least of all
classes), and the class counts as much as before. ("Images of women without umbrellas": WACV 2026, DBAC.)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from judge.evidence import mention_table
from judge.metrics import find_metric
from judge.metrics.counted.contingency import ContingencyTable
from judge.metrics.counted.spec import CountedMetric
from judge.statistics.breakdown import names_of
from judge.statistics.count_tables import counted_rows
from judge.statistics.summary import ROW, JudgedRow, Settings
from judge.types import FloatArray

LEAST = 10
"""Images that a cell, and the class's others, must have: fewer cannot stand for more."""


@dataclass(frozen=True, slots=True)
class Cell:
    """Images of a class that show a task, or that do not.

    Attributes:
        name: the class.
        task: its name.
        shows: whether they show it.
        images: how many there are.
        share: of the class's images that show the task.
        goal: what that share is to be: another class's.
        inside, outside: what images of the cell, and the class's others, count.
    """

    name: str
    task: str
    shows: bool
    images: int
    share: float
    goal: float
    inside: float
    outside: float

    @property
    def collect(self) -> int:
        """Images of the cell to collect, so that the class shows the task as often as the other does."""
        return math.ceil(self.images * (self.inside / self.outside - 1))


def cells_of(shown: pd.DataFrame) -> tuple[list[Cell], FloatArray]:
    """Every cell that can be made equal; and what each image counts for it, [N, cells].

    A cell and the class's other images are ``LEAST`` each, or more.

    Args:
        shown: image_id, class and objects (joined by "|") of annotated images, [N] rows.
    """
    tasks = names_of(shown["objects"])
    table = mention_table([text.split("|") for text in shown["objects"]], tasks)
    classes = shown["class"].to_numpy()
    names = sorted(set(classes))
    shares = np.array([table[classes == name].mean(axis=0) for name in names])
    cells, weights = [], []
    for place, task in enumerate(tasks):
        for name, share in zip(names, shares[:, place].tolist(), strict=True):
            of_class, there = classes == name, table[:, place]
            for shows, goal in ((True, shares[:, place].max()), (False, shares[:, place].min())):
                held, others = of_class & (there == shows), of_class & (there != shows)
                if goal == share or min(held.sum(), others.sum()) < LEAST or goal in {0, 1}:
                    continue
                inside, outside = (goal / share, (1 - goal) / (1 - share))
                if not shows:
                    inside, outside = outside, inside
                cells.append(Cell(name, task, shows, int(held.sum()), share, float(goal), inside, outside))
                weights.append(np.where(of_class, np.where(held, inside, outside), 1.0))
    return cells, np.stack(weights, axis=1) if weights else np.ones((len(shown), 0))


COLUMNS = ["class", "task", "shows", "images", "share", "goal", "collect"]
Value = Callable[[FloatArray], FloatArray]
"""What images count, [N, V] -> values of a metric, [V]."""


def estimate(
    scores: pd.DataFrame, counts: pd.DataFrame, said: pd.DataFrame, names: Sequence[str], settings: Settings
) -> pd.DataFrame:
    """By how much each cell would change each metric of amplification, the judges as they are.

    Args:
        scores: the rows of ``scores.parquet``.
        counts: the rows of ``counts.parquet``.
        said: what captions name and images show (:func:`judge.evidence.counts.task_rows`).
        names: of the metrics.
        settings: as of :func:`~judge.statistics.summary.summarise`.

    Returns:
        captioner, metric, judge, ``COLUMNS``, change; of each metric those that lower it most come first. Of counted
        metrics the published value changes, and the change is what weighing does, as nothing is trained. Judges of
        others would learn from other images too.
    """
    parts = []
    for captioner, of in said.groupby("captioner", sort=False, observed=True):
        shown = of[of["side"] == "annotated"]
        cells, weights = cells_of(shown)
        table = pd.DataFrame([_row(cell) for cell in cells], columns=COLUMNS)
        own = [part[part["captioner"] == captioner] if len(part) else part for part in (scores, counts)]
        for metric, judge, images, value in (*_judged(own[0], settings), *_counted(own[1], names)):
            place = pd.Index(shown["image_id"]).get_indexer(pd.Index(images))
            weighed = np.where(place[:, None] < 0, 1.0, weights[place])
            changes = value(weighed) - value(np.ones((len(images), 1)))
            key = dict(zip(ROW, (captioner, metric, judge), strict=True))
            parts.append(table.assign(**key, change=changes).sort_values("change", kind="stable"))
    columns = [*ROW, *COLUMNS, "change"]
    return pd.concat(parts, ignore_index=True)[columns] if parts else pd.DataFrame(columns=columns)


def _row(cell: Cell) -> list[object]:
    return [cell.name, cell.task, cell.shows, cell.images, cell.share, cell.goal, cell.collect]


def _judged(scores: pd.DataFrame, settings: Settings) -> Iterator[tuple[str, str, Sequence[str], Value]]:
    """(metric, judge, images, value) of a captioner's judged rows."""
    for (name, judge), rows in scores.groupby(["metric", "judge"], sort=False, observed=True) if len(scores) else ():
        metric = find_metric(str(name))
        if metric.amplification == "one_side":
            continue
        row = JudgedRow(metric, rows, settings)
        human, generated = (side.T for side in row.table.by_image())

        def value(weights: FloatArray, of: JudgedRow = row, sides: tuple[Any, Any] = (human, generated)) -> FloatArray:
            return of.statistic(*(np.asarray(side @ weights) for side in sides)).value

        yield metric.name, str(judge), row.images.tolist(), value


def _counted(counts: pd.DataFrame, names: Sequence[str]) -> Iterator[tuple[str, str, Sequence[str], Value]]:
    for metric in map(find_metric, names):
        if metric.counted is None or metric.counted.verdicts[0] != "amplifies" or not len(counts):
            continue
        counted = metric.counted
        held = counted_rows(counts, counted)
        if held is None:
            continue
        human, generated = (side.T for side in held.rows.by_image())

        def value(
            weights: FloatArray,
            of: CountedMetric = counted,
            read: Callable[[FloatArray], ContingencyTable] = held.read,
            sides: tuple[Any, Any] = (human, generated),
        ) -> FloatArray:
            tables = [read(np.asarray(side @ weights)) for side in sides]
            return of.freeze(*tables).compare(*tables).value

        yield metric.name, metric.judge, held.images, value
