"""What judges said, as the rows of ``scores.parquet``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from judge.measure.walk import Job
from judge.metrics import Metric
from judge.types import Predictions, Sample


def score_table(jobs: Sequence[Job], found: Sequence[Predictions]) -> pd.DataFrame:
    """The rows of ``scores.parquet``: of every judge, once for each metric that reads what it said."""
    parts = [
        _score_rows(job, metric, predictions)
        for job, predictions in zip(jobs, found, strict=True)
        for metric in job.metrics
    ]
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()


def _score_rows(job: Job, metric: Metric, predictions: Predictions) -> pd.DataFrame:
    """The part of ``scores.parquet`` that one member contributes to one metric."""
    test = job.member.test()
    side, index = test[0].side, test[0].index
    weights = zip(job.member.samples, job.evidence.priors[side, index], strict=True)
    prior = {sample.image_id: weight for sample, weight in weights}
    return pd.DataFrame(
        {
            "image_id": [sample.image_id for sample in test],
            "captioner": job.evidence.captioner,
            "side": side,
            "index": index,
            "metric": metric.name,
            "judge": job.judge,
            "seed": job.member.seed,
            "fold": job.member.split.fold,
            **judge_answers(test, predictions),
            "prior": [prior[sample.image_id] for sample in test],
        }
    )


def judge_answers(samples: Sequence[Sample], predictions: Predictions) -> dict[str, Any]:
    """The columns answer, probability, predicted and loss of ``scores.parquet``, for samples and what was said of them.

    Of one class: its name, its probability, the most probable class, -log p. Of tasks: their names, joined by "|"; the
    probability of the whole set, the product of its labels' Bernoulli probabilities; the tasks whose probability is at
    least 1/2; the mean over labels of the binary cross-entropy.
    """
    names, found = predictions.target.classes, predictions.probabilities
    with np.errstate(divide="ignore"):
        if predictions.target.kind == "attribute":
            truth = np.array([sample.answers[0] for sample in samples])
            log, labels = np.log(found[np.arange(len(samples)), truth]), 1
            answers = [names[int(k)] for k in truth]
            predicted = [names[int(k)] for k in found.argmax(axis=1)]
        else:
            shown = np.zeros(found.shape, dtype=np.bool_)
            for row, sample in enumerate(samples):
                shown[row, list(sample.answers)] = True
            log, labels = np.where(shown, np.log(found), np.log1p(-found)).sum(axis=1), len(names)
            answers, predicted = ([_join(names, row) for row in table] for table in (shown, found >= 0.5))
    return {"answer": answers, "probability": np.exp(log), "predicted": predicted, "loss": -log / labels}


def _join(names: Sequence[str], row: npt.NDArray[np.bool_]) -> str:
    return "|".join(names[int(k)] for k in np.flatnonzero(row))
