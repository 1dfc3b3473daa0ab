"""Refits: judges trained again on resampled data, for intervals and tests of the whole procedure.

For every captioner and metric the run's data are resampled (:class:`~judge.evidence.Resample`), and alignment, splits,
judges, scores and priors are computed again. What a run chooses once is kept: word vectors, and what judges that are
trained jointly choose (C of ``linear``).
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice

import numpy as np
import pandas as pd

from judge.errors import JudgeError
from judge.evidence import Evidence, Resample
from judge.measure.jobs import Job, compares, jobs_of, most_images
from judge.measure.plan import Plan
from judge.measure.table import COLUMNS, SUMMED, Sums, answer_sums
from judge.metrics import Metric
from judge.statistics.judged import CELL, Statistic
from judge.training.member import TrainingSetup
from judge.training.run_members import TOGETHER, train_members
from judge.types import SIDES, Progress, Side

# From so many refits on, a run says before it trains how many they are; and from so many a judge, that half may do.
_MANY, _HALVED = 2_000, 10
Jobs = tuple[Job, ...]
"""One captioner's judges of some metrics, all trained again on the same data."""
Chosen = dict[tuple[Side, int, int], Mapping[str, float]]
"""What a run's own judges chose: (side, seed, fold) -> {"C": 0.1}."""


def refit(
    jobs: Sequence[Job],
    notes: Sequence[Mapping[str, float]],
    plan: Plan,
    setup: TrainingSetup,
    *,
    progress: Progress,
) -> pd.DataFrame:
    """Train refits: the values of every metric on resampled data, the columns of ``replicates.parquet``.

    ``jobs`` are the run's own, and ``notes`` what their judges chose.
    """
    refits: list[tuple[float, Jobs]] = []
    for job, settings in chosen_settings(jobs, notes):
        if not setup.is_trained(job.member.judge):
            continue
        compared = compares(job.metrics)
        counts = plan.resamples_of(job.judge, job.evidence.target.kind, most_images(jobs))
        if not compared:  # A single side has no captions to exchange: labels are shuffled as often.
            counts["shuffled"] = max(counts.get("shuffled", 0), counts.pop("exchanged", 0))
        for kind, count in counts.items():
            for number in range(count):
                evidence = Evidence(job.evidence.sides, Resample(kind, number, plan.first_seed))
                again = tuple(jobs_of(evidence, job.metrics, job.judge, plan, settings))
                refits.append((number // TOGETHER * TOGETHER / count, again))
                evidence.release()  # All refits are laid out before the first is trained.
    # Captioners and judges take turns, so that the time left is right from the start.
    turns = sorted(range(len(refits)), key=lambda place: refits[place][0])
    members = [job.member for place in turns for job in refits[place][1]]

    def show(what: str, done: int, total: int) -> None:
        progress(f"refits: {what}", done, total)

    if setup.precomputed and any(member.judge.reader for member in members):
        from judge.training.features import covers

        if not covers(setup.precomputed, members):  # Captions that were aligned again have no features yet.
            setup = replace(setup, precomputed=None)
    found = iter(train_members(members, setup, then=answer_sums, progress=show))
    values = {place: list(_values(again := refits[place][1], list(islice(found, len(again))))) for place in turns}
    return pd.DataFrame([row for place in sorted(values) for row in values[place]], columns=COLUMNS)


def warn_of_many(jobs: Sequence[Job], plan: Plan, setup: TrainingSetup) -> Iterator[str]:
    """A line where refits train many judges: how many, which of them take long, and which setting trains fewer."""
    trained = [job for job in jobs if setup.is_trained(job.member.judge)]
    again = [of for of in trained if plan.has_refits(of.metrics[0], of.member.seed, of.member.split.fold)]
    times = [plan.resamples_of(job.judge, job.evidence.target.kind, most_images(jobs)) for job in again]
    number = sum(sum(of.values()) for of in times)
    if number > _MANY:
        fewest = min(of.get("exchanged", 0) for of in times)
        fewer = f"; --refits {fewest // 2} trains about half of them" if fewest >= _HALVED else ""
        slow = dict.fromkeys(
            metric.title for job in again if job.evidence.target.kind == "tasks" for metric in job.metrics
        )
        long = f"; judges of {', '.join(slow)} guess every task, which takes most of the time" if slow else ""
        what = f"{len(trained):,} judges will be trained, and {number:,} in refits, which give intervals and p"
        yield f"{what}{long}{fewer}"


def check_refits(jobs: Sequence[Job], plan: Plan, setup: TrainingSetup) -> None:
    """Refuse refits, before anything is trained, if no judge of the run is trained."""
    if plan.refits and jobs and not any(setup.is_trained(job.member.judge) for job in jobs):
        what = f"judge '{jobs[0].judge}' is asked as it is: there is no training whose noise refits could tell"
        mend = "leave it out: the interval over images is all that there is to know"
        raise JudgeError(what, where=f"--refits {plan.refits}", mend=mend)


def chosen_settings(jobs: Sequence[Job], notes: Sequence[Mapping[str, float]]) -> list[tuple[Job, Chosen]]:
    """One job per captioner, group of metrics and judge, with what the judges of the group chose."""
    found: dict[tuple[int, tuple[str, ...], str], tuple[Job, Chosen]] = {}
    for job, chosen in zip(jobs, notes, strict=True):
        key = id(job.evidence), tuple(metric.name for metric in job.metrics), job.judge
        settings = chosen if job.member.judge.joint else {}
        found.setdefault(key, (job, {}))[1][job.member.side, job.member.seed, job.member.split.fold] = settings
    return list(found.values())


def seeds_that_count(metric: Metric, losses: Sequence[tuple[int, float]]) -> set[int]:
    """All seeds of one side, or the best one; ``losses``: (seed, validation loss) of each judge."""
    by_seed: dict[int, list[float]] = {}
    for seed, loss in losses:
        by_seed.setdefault(seed, []).append(loss)
    if metric.aggregate == "best" and len(by_seed) > 1:
        return {min(by_seed, key=lambda seed: float(np.mean(by_seed[seed])))}
    return set(by_seed)


def _values(jobs: Jobs, found: Sequence[tuple[Sums, float]]) -> Iterator[list[object]]:
    evidence = jobs[0].evidence
    assert evidence.resample is not None
    sides = [_sum(jobs, found, side) for side in SIDES]
    cells, absent = pd.DataFrame([*{**sides[0], **sides[1]}], columns=CELL), np.zeros(len(SUMMED))
    for metric in jobs[0].metrics:
        statistic = Statistic(metric, cells)
        names = "n", metric.score, "baseline" if statistic.score.relative else "every"
        columns = [SUMMED.index(name) for name in names]
        tables = (np.stack([of.get(cell, absent) for cell in statistic.cells]) for of in sides)
        value = statistic(*(table[:, columns].T.ravel() for table in tables))
        numbers = value.human.value, value.generated.value, value.value, value.human.quality, value.generated.quality
        resample = evidence.resample.kind, evidence.resample.number
        yield [evidence.captioner, metric.name, jobs[0].judge, *resample, *map(float, numbers)]


def _sum(jobs: Jobs, found: Sequence[tuple[Sums, float]], side: Side) -> Sums:
    """The sums of a side over its members, of the seeds that count, by cell; for priors also of all captions."""
    mine = [
        (job.member.seed, sums, loss) for job, (sums, loss) in zip(jobs, found, strict=True) if job.member.side == side
    ]
    counting = seeds_that_count(jobs[0].metrics[0], [(seed, loss) for seed, _, loss in mine])
    total: Sums = defaultdict(lambda: np.zeros(len(SUMMED)))
    for _, sums, _ in (one for one in mine if one[0] in counting):
        for cell, row in sums.items():
            total[cell] += row
    if jobs[0].metrics[0].prior:
        evidence = jobs[0].evidence
        part = evidence.drawn.table.parts[side]
        places, names = evidence.cells(part)
        shares = np.zeros(len(names))
        np.add.at(shares, places, evidence.shares(side)[part.image])
        for name, share in zip(names, shares.tolist(), strict=True):
            total[name][SUMMED.index("every")] += share
    return total
