"""Refits: judges trained again on data drawn anew, for intervals and tests of the whole procedure.

For every captioner and metric the run's own data are drawn anew (:class:`~judge.evidence.Resample`), and all that the
run did is done again: alignment, splits, judges, scores, priors. What a run chose once is kept: word vectors, and what
judges chose for both sides together (C of ``linear``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import islice

import numpy as np
import pandas as pd

from judge.errors import JudgeError
from judge.evidence import Evidence, Resample
from judge.measure.answers import Sums, answer_sums
from judge.measure.jobs import Job, compares, jobs_of
from judge.measure.plan import Plan
from judge.metrics import Metric
from judge.metrics.priors import PriorForm
from judge.metrics.scores import SCORES
from judge.statistics.judged import CELL, Cell, Statistic
from judge.training.options import TrainingSetup
from judge.training.run_members import train_members
from judge.types import Progress, Side

COLUMNS = [
    *("captioner", "metric", "judge", "kind", "number", "human", "generated", "amplification"),
    *("human_quality", "generated_quality"),
]
_SIDES: tuple[Side, Side] = ("human", "generated")
_PLACES = {name: place for place, name in enumerate(SCORES, start=1)}


Jobs = tuple[Job, ...]
"""One captioner's judges of some metrics, all trained again on the same data."""
Chosen = dict[tuple[int, int], Mapping[str, float]]
"""What a run's own judges chose: (seed, fold) -> {"C": 0.1}."""


def refit(
    jobs: Sequence[Job],
    notes: Sequence[Mapping[str, float]],
    plan: Plan,
    setup: TrainingSetup,
    *,
    progress: Progress | None = None,
) -> pd.DataFrame:
    """Values of every metric on data drawn anew, the columns of ``replicates.parquet``; empty where none is asked for.

    Args:
        jobs: the run's own.
        notes: what each of their judges chose.
        plan: how many refits of which kind; see :meth:`~judge.measure.plan.Plan.resamples_of`.
        setup: how judges are trained.
        progress: called with the progress.

    Raises:
        JudgeError: fewer images than the resampling needs.
    """
    refits = list(_lay_out(jobs, notes, plan, setup))
    again = [job.member for one in refits for job in one]

    def tell(what: str, done: int, total: int) -> None:
        if progress:
            progress(f"refits: {what}", done, total)

    if any(member.judge.reader for member in again):
        setup = replace(setup, precomputed=None)  # Captions that have not been read yet.
    found = iter(train_members(again, setup, then=answer_sums, progress=progress and tell))
    rows = [row for one in refits for row in _values(one, list(islice(found, len(one))), plan)]
    return pd.DataFrame(rows, columns=COLUMNS)


def check_refits(jobs: Sequence[Job], plan: Plan, setup: TrainingSetup) -> None:
    """Refuse what :func:`refit` would refuse, before any judge is trained.

    Raises:
        JudgeError: as ``refit``; refits were asked for, and no judge is trained.
    """
    compared = [job for job in jobs if compares(job.metrics)]
    trained = [job for job in compared if setup.is_trained(job.member.judge)]
    if plan.refits and compared and not trained:
        what = f"judge '{compared[0].judge}' is asked as it is: there is no training whose noise refits could tell"
        mend = "leave it out: the interval over images is all that there is to know"
        raise JudgeError(what, where=f"--refits {plan.refits}", mend=mend)
    for job in trained:
        if "half" in plan.resamples_of(job.judge, job.evidence.target.kind):
            _check_halves(job.evidence, plan)


def _check_halves(evidence: Evidence, plan: Plan) -> None:
    rarest, size = Counter(evidence.sides.classes.values()).most_common()[-1]
    needed = 2 * (plan.folds if plan.protocol == "crossfit" else 5)
    if size < needed:
        what = f"{size} images of class '{rarest}', and refits on halves of the images need {needed}"
        mend = "use fewer --folds, or --refits 0" if plan.protocol == "crossfit" else "use --refits 0"
        raise JudgeError(what, where=evidence.captioner, mend=mend)


def _lay_out(
    jobs: Sequence[Job], notes: Sequence[Mapping[str, float]], plan: Plan, setup: TrainingSetup
) -> Iterator[Jobs]:
    for job, settings in chosen_settings(jobs, notes):
        if not setup.is_trained(job.member.judge):
            continue
        compared = compares(job.metrics)
        for kind, count in plan.resamples_of(job.judge, job.evidence.target.kind).items():
            for number in range(count if compared or kind == "shuffled" else 0):
                evidence = Evidence(job.evidence.sides, Resample(kind, number, plan.first_seed))
                yield tuple(jobs_of(evidence, job.metrics, job.judge, plan, settings))
                evidence.release()  # All refits are laid out before the first is trained.


def chosen_settings(jobs: Sequence[Job], notes: Sequence[Mapping[str, float]]) -> list[tuple[Job, Chosen]]:
    """Of each captioner, group of metrics and judge one job, and what its judges chose."""
    found: dict[tuple[int, tuple[str, ...], str], tuple[Job, Chosen]] = {}
    for job, chosen in zip(jobs, notes, strict=True):
        key = id(job.evidence), tuple(metric.name for metric in job.metrics), job.judge
        kept = chosen if job.member.judge.joint else {}
        found.setdefault(key, (job, {}))[1][job.member.seed, job.member.split.fold] = kept
    return list(found.values())


def seeds_that_count(metric: Metric, losses: Sequence[tuple[int, float]]) -> set[int]:
    """Of one side: all, or the one whose judges guess best; ``losses`` are their (seed, validation loss)."""
    by_seed: dict[int, list[float]] = {}
    for seed, loss in losses:
        by_seed.setdefault(seed, []).append(loss)
    if metric.aggregate == "best" and len(by_seed) > 1:
        return {min(by_seed, key=lambda seed: float(np.mean(by_seed[seed])))}
    return set(by_seed)


def _values(jobs: Jobs, found: Sequence[tuple[Sums, float]], plan: Plan) -> Iterator[list[object]]:
    """A row for each metric of judges trained again, and what they answered: the columns of ``replicates.parquet``."""
    evidence, judge = jobs[0].evidence, jobs[0].judge
    resample = evidence.resample
    assert resample is not None
    for metric in jobs[0].metrics:
        scored = {side: _sum(jobs, found, metric, side) for side in _SIDES}
        nothing: dict[Side, dict[Cell, float]] = {"human": {}, "generated": {}}
        every = _every(evidence) if metric.prior else nothing
        cells = tuple(sorted({cell for side in _SIDES for cell in (*scored[side], *every[side])}))
        statistic = _statistic(metric, cells, plan.prior)
        place = _PLACES[metric.score]
        sums = [
            statistic.sums({cell: (row[0], row[place]) for cell, row in scored[side].items()}, every[side])
            for side in _SIDES
        ]
        value = statistic(*sums)
        sides = value.human, value.generated
        numbers = *(float(side.value) for side in sides), float(value.value), *(float(side.quality) for side in sides)
        yield [evidence.captioner, metric.name, judge, resample.kind, resample.number, *numbers]


@lru_cache(maxsize=64)
def _statistic(metric: Metric, cells: tuple[Cell, ...], prior: PriorForm) -> Statistic:
    """Of most refits the same cells."""
    return Statistic(metric, pd.DataFrame(cells, columns=CELL), prior=prior)


def _sum(jobs: Jobs, found: Sequence[tuple[Sums, float]], metric: Metric, side: Side) -> Sums:
    """The sums of a side's members; of several seeds those that count."""
    mine = [
        (job.member.seed, sums, loss) for job, (sums, loss) in zip(jobs, found, strict=True) if job.member.side == side
    ]
    counting = seeds_that_count(metric, [(seed, loss) for seed, _, loss in mine])
    total: Sums = {}
    for sums in (sums for seed, sums, _ in mine if seed in counting):
        for cell, row in sums.items():
            total[cell] = total[cell] + row if cell in total else row
    return total


def _every(evidence: Evidence) -> dict[Side, dict[Cell, float]]:
    """Counts of all captions by cell, each image's together 1."""
    found: dict[Side, dict[Cell, float]] = {}
    for side, rows in evidence.drawn.rows.items():
        counts = found.setdefault(side, {})
        written = evidence.written[side]
        for row in rows:
            cell = row.named, row.tasks, evidence.spell(row.image)
            counts[cell] = counts.get(cell, 0.0) + 1 / written[row.image]
    return found
