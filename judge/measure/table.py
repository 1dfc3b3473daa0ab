"""Tables of a run: answers of judges (``scores.parquet``), refits (``replicates.parquet``), and the summaries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from pandas.api.types import union_categoricals

from judge.evidence import Cell, Slot
from judge.evidence.masked import Part
from judge.measure.jobs import Job
from judge.metrics import find_metric
from judge.metrics.scores import SCORES, VALIDATION_LOSS, Judged, frequency_loss, guessed
from judge.statistics.comparisons import Key
from judge.statistics.counted import summarise_counts
from judge.statistics.summary import Settings, Summary, summarise
from judge.text.coded import SampleTable
from judge.training.member import Member
from judge.types import SIDES, BoolArray, FloatArray, IntArray, Predictions, Target
from judge.utils.cells import constant, joined_tables

COLUMNS = [
    *("captioner", "metric", "judge", "kind", "number", "human", "generated", "amplification"),
    *("human_quality", "generated_quality"),
]
"""The columns of ``replicates.parquet``."""

Columns = dict[str, Any]
"""Columns of ``scores.parquet``: arrays, or categories of text; "place" stands for those that describe a caption."""
Answers = tuple[Columns, Mapping[str, float]]
"""The rows of one judge, and its notes, e.g. {"C": 0.1}."""

SUMMED = ("n", *SCORES, "baseline", "every")
"""Sums of a refit's captions: their number, scores, the loss of frequencies where scores are relative to it, and, for
priors, the number of all captions of the side, scored or not."""
Sums = dict[Cell, FloatArray]

# Seed and fold of captions that no judge scores: priors are frequencies among all captions of a side.
UNASKED = -1


def answer_rows(member: Member, predictions: Predictions) -> Answers:
    """The rows of one member, in which ``place`` says where a caption is among its samples; and its notes."""
    slot = member.samples
    assert isinstance(slot, Slot)
    places = np.array(member.places(member.split.test), dtype=np.int64)
    columns: Columns = {"place": places, **judge_answers(slot.table.truth[places], predictions)}
    columns["validation_loss"] = np.full(len(places), predictions.notes.get(VALIDATION_LOSS, np.nan))
    if slot.evidence.sides.guesses_names:
        columns["baseline"] = _baseline(member, places)
    return columns, {name: of for name, of in predictions.notes.items() if name != VALIDATION_LOSS}


def _baseline(member: Member, places: Sequence[int] | IntArray) -> FloatArray:
    """Loss on samples at ``places``, [N], of a judge that knows only how frequent answers are where it learns."""
    truth = SampleTable.of(member.samples, len(member.target.classes)).truth
    learnt = member.places(member.split.train)
    counts = truth[learnt].sum(axis=0, dtype=np.float64)
    return frequency_loss(counts, len(learnt), truth[places], member.target.kind)


def answer_sums(member: Member, predictions: Predictions) -> tuple[Sums, float]:
    """A refit member's part of its side: the sums of its captions by cell; and its validation loss, NaN without any.

    Each image weighs the same on a side, whatever the number of its captions there.
    """
    slot = member.samples
    assert isinstance(slot, Slot)
    places = member.places(member.split.test)
    weights = slot.evidence.shares(slot.side)[slot.part.image[places]]
    judged = Judged.of_arrays(slot.table.truth[places], predictions.probabilities, predictions.target.kind)
    baseline = _baseline(member, places) if slot.evidence.sides.guesses_names else np.zeros(len(places))
    quantities = np.ones(len(places)), *(score.quantity(judged) for score in SCORES.values()), baseline
    columns = weights[:, None] * np.stack([*quantities, np.zeros(len(places))], axis=1)
    cell, cells = slot.cells
    sums = np.zeros((len(cells), len(SUMMED)))
    np.add.at(sums, cell[places], columns)
    found = {cells[row]: sums[row] for row in np.unique(cell[places]).tolist()}
    return found, float(predictions.notes.get(VALIDATION_LOSS, np.nan))


def score_table(jobs: Sequence[Job], found: Sequence[Columns]) -> pd.DataFrame:
    """The rows of ``scores.parquet``: the answers of every judge, once for each metric that reads them.

    Metrics with priors also have rows of captions that no judge scores (seed and fold -1, no probability).
    """
    groups: dict[tuple[int, tuple[str, ...], str], list[tuple[Job, Columns]]] = {}
    for job, columns in zip(jobs, found, strict=True):
        key = id(job.evidence), tuple(metric.name for metric in job.metrics), job.judge
        groups.setdefault(key, []).append((job, columns))
    parts = []
    for alike in groups.values():  # One table for all: making thousands would take seconds.
        job, table = alike[0][0], alike[0][0].evidence.drawn.table
        names = _Names(*(pd.Categorical(of) for of in (table.images, *zip(*table.said, strict=True))))
        asked = [(_slot(job), columns["place"], job.member.seed, job.member.split.fold) for job, columns in alike]
        rows = _table(asked, [columns for _, columns in alike], names)
        others = _unasked(asked, job, names) if any(metric.prior for metric in job.metrics) else rows[:0]
        for metric in job.metrics:
            parts += [_named(of, job, metric.name) for of in ((rows, others) if metric.prior else (rows,)) if len(of)]
    return joined_tables(parts)


class _Names(NamedTuple):
    """The names in the lists of a :class:`~judge.evidence.masked.CaptionTable`, in the order of these lists."""

    images: pd.Categorical[str]
    named: pd.Categorical[str]
    tasks: pd.Categorical[str]


_Asked = tuple[Slot, IntArray, int, int]
"""Captions at places of a slot, and the seed and the fold of the judge that was asked about them."""


def _slot(job: Job) -> Slot:
    assert isinstance(job.member.samples, Slot)
    return job.member.samples


def _table(asked: Sequence[_Asked], answers: Sequence[Columns], names: _Names) -> pd.DataFrame:
    """The rows of captions that judges were asked about, with their ``answers``."""
    slots, places, seeds, folds = zip(*asked, strict=True)
    part = Part.joined([slot.part.take(of) for slot, of in zip(slots, places, strict=True)])
    counts = [*map(len, places)]
    columns: Columns = {
        "image_id": names.images.take(part.image),
        "side": pd.Categorical(SIDES).take(np.repeat([SIDES.index(slot.side) for slot in slots], counts)),
        "index": np.where(part.written < 0, part.index, part.written),
        "named": names.named.take(part.said),
        "tasks": names.tasks.take(part.said),
        "seed": np.repeat(seeds, counts),
        "fold": np.repeat(folds, counts),
    }
    for name in filter("place".__ne__, answers[0]):
        parts = [of[name] for of in answers]
        texts = isinstance(parts[0], pd.Categorical)
        columns[name] = union_categoricals(parts, sort_categories=True) if texts else np.concatenate(parts)
    return pd.DataFrame(columns)


def _unasked(asked: Sequence[_Asked], job: Job, names: _Names) -> pd.DataFrame:
    """The rows of captions that none of the judges scores; ``job``: one of theirs."""
    found, answers = list[_Asked](), list[Columns]()
    for key, slot in job.evidence.slots.items():
        scored = [places for of, places, *_ in asked if (of.side, of.position) == key]
        places = np.setdiff1d(np.arange(len(slot)), np.concatenate([np.zeros(0, dtype=np.int64), *scored]))
        if len(places):
            cell, cells = slot.cells
            unknown = np.full(len(places), np.nan)
            columns: Columns = {"answer": pd.Categorical([cells[row][2] for row in cell[places].tolist()])}
            columns |= {"probability": unknown, "predicted": pd.Categorical([None] * len(places), [""])}
            found.append((slot, places, UNASKED, UNASKED))
            answers.append(columns | {"loss": unknown, "validation_loss": unknown})
    return _table(found, answers, names) if found else pd.DataFrame()


def _named(rows: pd.DataFrame, job: Job, metric: str) -> pd.DataFrame:
    """``rows`` with the columns that a member does not know, in the order of the file."""
    if scenes := job.evidence.sides.scenes:
        rows = rows.assign(scene=rows["image_id"].astype(str).map(scenes))
    names = {"captioner": job.evidence.captioner, "metric": metric, "judge": job.judge}
    table = rows.assign(**{column: constant(name, len(rows)) for column, name in names.items()})
    first = ["image_id", "captioner", "side", "index", "metric", "judge", "seed", "fold"]
    return table[[*first, *(name for name in rows.columns if name not in first)]]


def judge_answers(truth: BoolArray, predictions: Predictions) -> Columns:
    """The columns answer, probability, predicted and loss of ``scores.parquet``; ``truth``: answers of samples, [N, A].

    For one class: its name, its probability, the most probable class, -log p. For tasks: their names, joined by "|";
    the probability of the whole set; the tasks with p >= 1/2; the mean binary cross-entropy over labels.
    """
    target, probabilities = predictions.target, predictions.probabilities
    judged = Judged.of_arrays(truth, probabilities, target.kind)
    answers, predicted = (_spell(table, target) for table in (truth, guessed(probabilities, target.kind)))
    return {"answer": answers, "probability": judged.probability, "predicted": predicted, "loss": judged.loss}


def _spell(table: BoolArray, target: Target) -> pd.Categorical[str]:
    packed = np.packbits(table, axis=1)  # To compare whole rows takes 50 times as long.
    keys = packed.view(f"V{packed.shape[1]}").ravel()
    _, first, places = np.unique(keys, return_index=True, return_inverse=True)
    names = pd.Index([target.spell(np.flatnonzero(row).tolist()) for row in table[first]])
    return pd.Categorical.from_codes(places, names)


def settings_of(run: Mapping[str, Any]) -> Settings:
    """The settings of a run's summaries, from the entry "run" of its ``metrics.json``."""
    return Settings(level=run["level"], seed=run["seeds"][0], **run["statistics"])


def make_table(
    scores: pd.DataFrame, counts: pd.DataFrame, replicates: pd.DataFrame, run: Mapping[str, Any]
) -> list[Summary]:
    """Compute the summaries of a run again, from the rows of its files and the entry "run" of ``metrics.json``."""
    settings = settings_of(run)
    rows = [*summarise(scores, replicates, settings), *summarise_counts(counts, run["metrics"], settings)]
    each = ((name, of["without_value"]) for name, of in run["captioners"].items())
    lacking = [(name, metric, judge) for name, of in each for metric, judges in of.items() for judge in judges]
    return in_order(rows, list(run["captioners"]), run["metrics"], lacking)


def in_order(
    rows: Sequence[Summary], captioners: Sequence[str], metrics: Sequence[str], lacking: Iterable[Key]
) -> list[Summary]:
    """Rows by captioner, then by metric; and those that are ``lacking``, as they have no value."""
    known = {row.key for row in rows}
    rows = [*rows, *(Summary(row[0], find_metric(row[1]), row[2]) for row in lacking if row not in known)]
    return sorted(rows, key=lambda row: (captioners.index(row.captioner), metrics.index(row.metric.name)))


def with_parts(refits: pd.DataFrame, summaries: Sequence[Summary]) -> pd.DataFrame:
    """The rows of ``replicates.parquet``: those of refits, and the values of summaries on parts of the data."""
    rows = [
        (*row.key, row.replicates.kind, number, value)
        for row in summaries
        if row.replicates and (row.replicates.kind == "split" or row.basis == "images")
        for number, value in enumerate(row.replicates.values)
    ]
    parts = pd.DataFrame(rows, columns=[*COLUMNS[:5], "amplification"]).reindex(columns=COLUMNS)
    replaced = pd.MultiIndex.from_frame(refits[COLUMNS[:4]]).isin(pd.MultiIndex.from_frame(parts[COLUMNS[:4]]))
    return pd.concat([refits[~replaced], parts], ignore_index=True)
