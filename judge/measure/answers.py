"""Judges' answers, as the rows of ``scores.parquet``; of refits, their sums alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from judge.evidence import Slot
from judge.measure.jobs import Job
from judge.metrics.scores import SCORES, VALIDATION_LOSS, Judged, guessed, shown
from judge.training.member import Member
from judge.types import FloatArray, Predictions, Sample

Sums = dict[tuple[str, str, str], FloatArray]
"""Cell (named, tasks, answer) -> how many captions, and the sum of every score over them."""

Answers = tuple[pd.DataFrame, Mapping[str, float]]
"""Rows of ``scores.parquet``, and what a judge noted beside, e.g. {"C": 0.1}."""

# Of captions that no judge was asked about: priors are frequencies among all captions of a side.
UNASKED = -1


def answer_rows(member: Member, predictions: Predictions) -> Answers:
    """The part of ``scores.parquet`` that one member contributes, and what it noted beside."""
    assert isinstance(member.samples, Slot)
    places = member.places(member.split.test)
    samples = [member.samples[place] for place in places]
    rows = pd.DataFrame(
        {
            **_caption_columns(member.samples, places),
            "seed": member.seed,
            "fold": member.split.fold,
            **judge_answers(samples, predictions),
            "validation_loss": predictions.notes.get(VALIDATION_LOSS, np.nan),
        }
    )
    return rows, {name: value for name, value in predictions.notes.items() if name != VALIDATION_LOSS}


def answer_sums(member: Member, predictions: Predictions) -> tuple[Sums, float]:
    """A refit member's share of its side: sums over captions by cell; and its validation loss (or NaN).

    Each image counts the same on a side, whatever the number of its captions there.
    """
    slot = member.samples
    assert isinstance(slot, Slot)
    places = member.places(member.split.test)
    written = slot.evidence.written[slot.side]
    images = [slot[place].image_id for place in places]
    weights = np.array([1 / written[image] for image in images])
    judged = Judged.of([slot[place] for place in places], predictions)
    columns = np.stack([weights, *(weights * score.quantity(judged) for score in SCORES.values())], axis=1)
    sums: Sums = {}
    for place, row in zip(places, columns, strict=True):
        cell = slot.cell(place)
        sums[cell] = sums[cell] + row if cell in sums else row
    return sums, float(predictions.notes.get(VALIDATION_LOSS, np.nan))


def score_table(jobs: Sequence[Job], found: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """The rows of ``scores.parquet``: the answers of every judge, once for each metric that reads them.

    Of metrics with priors also captions that no judge was asked about (seed and fold -1, no probability).
    """
    parts = []
    asked: dict[tuple[int, str], dict[int, tuple[Job, set[str]]]] = {}
    for job, rows in zip(jobs, found, strict=True):
        for metric in job.metrics:
            parts.append(_named(rows, job, metric.name))
            if metric.prior:
                slots = asked.setdefault((id(job.evidence), f"{metric.name} {job.judge}"), {})
                slots.setdefault(id(job.member.samples), (job, set()))[1].update(rows["image_id"])
    for (_, name), slots in asked.items():
        for job, images in slots.values():
            assert isinstance(job.member.samples, Slot)
            slot = job.member.samples
            places = [place for place, sample in enumerate(slot) if sample.image_id not in images]
            if places:
                parts.append(_named(_unasked(slot, places), job, name.split()[0]))
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()


def _unasked(slot: Slot, places: Sequence[int]) -> pd.DataFrame:
    classes = slot.evidence.target.classes
    truth = shown([slot[place] for place in places], len(classes))
    nothing = dict.fromkeys(("probability", "predicted", "loss", "validation_loss"), np.nan)
    rows = pd.DataFrame(
        {
            **_caption_columns(slot, places),
            "seed": UNASKED,
            "fold": UNASKED,
            "answer": [_join(classes, row) for row in truth],
            **nothing,
        }
    )
    return rows.astype({"predicted": object})


def _named(rows: pd.DataFrame, job: Job, metric: str) -> pd.DataFrame:
    """``rows`` with the columns that a member does not know, in the order of the file."""
    table = rows.assign(captioner=job.evidence.captioner, metric=metric, judge=job.judge)
    first = ["image_id", "captioner", "side", "index", "metric", "judge", "seed", "fold"]
    return table[[*first, *(name for name in rows.columns if name not in first)]]


def _caption_columns(slot: Slot, places: Sequence[int]) -> dict[str, Any]:
    captions = [slot.captions[place] for place in places]
    return {
        "image_id": [caption.image for caption in captions],
        "side": slot.side,
        "index": slot.position,
        "named": [caption.named for caption in captions],
        "tasks": [caption.tasks for caption in captions],
    }


def judge_answers(samples: Sequence[Sample], predictions: Predictions) -> dict[str, Any]:
    """The columns answer, probability, predicted and loss of ``scores.parquet``, for samples and their predictions.

    Of one class: its name, its probability, the most probable class, -log p. Of tasks: their names, joined by "|"; the
    probability of the whole set, the product of its labels' Bernoulli probabilities; the tasks whose probability is at
    least 1/2; the mean over labels of the binary cross-entropy.
    """
    names, judged = predictions.target.classes, Judged.of(samples, predictions)
    tables = shown(samples, len(names)), guessed(predictions.probabilities, predictions.target.kind)
    answers, predicted = ([_join(names, row) for row in table] for table in tables)
    return {"answer": answers, "probability": judged.probability, "predicted": predicted, "loss": judged.loss}


def _join(names: Sequence[str], row: npt.NDArray[np.bool_]) -> str:
    return "|".join(names[int(k)] for k in np.flatnonzero(row))
