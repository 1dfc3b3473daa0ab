"""Judge "best" beside other judges of text: each side is scored by the one that guesses best there.

Alone, "best" chooses by inner validation what it reads (:mod:`judge.judges.linear`). Other judges, such as networks,
are too slow to be trained again on parts of the training images. Each fold therefore takes the judge with the least log
loss on the other folds of its seed and side, whose captions are held out too: a caption's own answers have no part in
the choice. A hold-out takes the judge with the least loss on the hold-outs of other seeds, which share some captions.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import numpy as np

from judge.judges import is_best
from judge.measure.jobs import Job
from judge.types import FloatArray, Side

R = TypeVar("R")
Data = tuple[object, ...]
"""The captions that a judge reads, resampled or not, and the metrics that read its answers."""
Fold = tuple[int, int]
"""Seed and number of a fold."""


def rivals(jobs: Sequence[Job]) -> dict[tuple[Data, str], list[str]]:
    """Find each "best" beside other judges: what it reads, and its name -> the judges that it chooses among."""
    judges: dict[Data, dict[str, None]] = {}
    for job in jobs:
        judges.setdefault(data_of(job), {})[job.judge] = None
    others = {data: [judge for judge in of if not is_best(judge)] for data, of in judges.items()}
    return {
        (data, judge): [judge, *others[data]]
        for data, of in judges.items()
        for judge in of
        if is_best(judge) and others[data]
    }


def data_of(job: Job) -> Data:
    """Identify the captions that a job's judge reads, and the metrics that read its answers."""
    return id(job.evidence.sides), job.evidence.resample, tuple(metric.name for metric in job.metrics)


def with_best(
    jobs: Sequence[Job], results: Sequence[R], loss: Callable[[Job, R], FloatArray]
) -> tuple[list[R], list[str]]:
    """Replace the results of each "best" by those of the judge that it chooses; and name the judge that gave each.

    ``results`` are those of ``jobs``, in their order. ``loss`` gives the sum of the losses of a job's result, and the
    number of its captions; each image weighs the same.
    """
    found, judges, known = list(results), [job.judge for job in jobs], rivals(jobs)
    places: dict[Data, dict[tuple[str, Side, int, Fold], int]] = {data: {} for data, _ in known}
    losses: dict[tuple[Data, Side, str], dict[Fold, FloatArray]] = {}
    for place, (job, result) in enumerate(zip(jobs, results, strict=True)):
        member, data = job.member, data_of(job)
        if data in places:
            fold = member.seed, member.split.fold
            places[data][job.judge, member.side, member.index, fold] = place
            of_judge = losses.setdefault((data, member.side, job.judge), {})
            of_judge[fold] = of_judge.get(fold, np.zeros(2)) + loss(job, result)
    for (data, best), names in known.items():
        for (judge, side, index, fold), place in places[data].items():
            if judge == best:
                chosen = judges[place] = _choose({name: losses[data, side, name] for name in names}, fold)
                found[place] = results[places[data][chosen, side, index, fold]]
    return found, judges


def _choose(losses: Mapping[str, Mapping[Fold, FloatArray]], fold: Fold) -> str:
    """The judge with the least mean loss on the other folds of the seed, or, if it has none, on those of other seeds.

    The first of equals, or if there is no other fold at all. ``losses``: the sum in each fold, and number of captions.
    """
    others = [other for other in next(iter(losses.values())) if other != fold]
    others = [other for other in others if other[0] == fold[0]] or others

    def mean(judge: str) -> float:
        total, number = sum((losses[judge][other] for other in others), np.zeros(2))
        return float(total / max(number, 1.0))

    return min(losses, key=mean)
