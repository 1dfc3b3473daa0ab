"""Walk the rows of METRICS: evidence before the judges, numbers after. ``judge evaluate`` calls this."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from judge.corpus import Corpus
from judge.errors import JudgeError, require
from judge.masking.hidden import HiddenPictures
from judge.measure.answers import answer_rows, judge_answers, score_table
from judge.measure.description import describe
from judge.measure.plan import Plan, Result
from judge.measure.refits import COLUMNS, check_refits, refit
from judge.measure.walk import Job, Work, choose_judges, lay_out
from judge.quality import Quality, measure_quality
from judge.statistics.counted import summarise_counts
from judge.statistics.summary import Settings, Summary, summarise
from judge.text.lexicon import Lexicons
from judge.training.members import train_members
from judge.training.setup import TrainingSetup, is_main_process, name_members
from judge.types import Labels, Progress, Side

__all__ = ["Plan", "Result", "TrainedJudge", "check", "choose_judges", "judge_answers", "measure", "train"]

OpenPictures = Callable[[Sequence[str]], HiddenPictures]


def measure(
    corpus: Corpus,
    plan: Plan,
    *,
    lexicons: Lexicons,
    setup: TrainingSetup | None = None,
    open_pictures: OpenPictures | None = None,
    progress: Progress | None = None,
    ready: Callable[[], None] | None = None,
) -> Result:
    """Measure every metric of ``plan`` for every captioner of ``corpus``.

    Args:
        corpus: captions of both sides, and labels.
        plan: what to measure.
        lexicons: the words that reveal the attribute, and tasks.
        setup: how judges are trained.
        progress: told of progress.
        open_pictures: gives the pictures of images, people hidden; None where there are none.
        ready: called once all that can be refused has been looked at, before the first judge is trained.

    Raises:
        JudgeError: unknown metric or judge; captions and labels that cannot be joined; NaN loss.
    """
    if plan.quality:
        require("quality", "pycocoevalcap", "matplotlib")
    work = lay_out(corpus, plan, lexicons)
    setup = _with_pictures(setup or TrainingSetup(), work.jobs, open_pictures)
    counts = pd.concat([of.rows for of in work.count_rows], ignore_index=True) if work.count_rows else pd.DataFrame()
    names = [metric.name for metric in work.metrics]
    check_refits(work.jobs, plan, setup)
    if progress and work.count_rows:
        progress("counting", 0, 0)
    # Before the judges, who take longer: it may find what has to be refused.
    counted = summarise_counts(counts, names, **plan.resampling)
    if ready:
        ready()
    members = [job.member for job in work.jobs]
    setup = setup.precompute(members, progress) if members else setup
    answers = train_members(members, setup, then=answer_rows, progress=progress) if members else []
    notes = [chosen for _, chosen in answers]
    refits = refit(work.jobs, notes, plan, setup, progress=progress)
    if progress:
        progress("intervals and tests", 0, 0)
    scores = score_table(work.jobs, [rows for rows, _ in answers])
    summaries = [*summarise(scores, refits, _settings(work, plan, setup)), *counted]
    places = [captioner.name for captioner in corpus.generated], names
    summaries.sort(key=lambda row: (places[0].index(row.captioner), places[1].index(row.metric.name)))
    quality = _qualities(corpus, plan, work.truth.labels, progress)
    replicates = pd.concat([refits, _replicates(summaries)], ignore_index=True)
    run = describe(work, notes, counts, plan)
    return Result(tuple(summaries), scores, counts, replicates, run, quality)


def _settings(work: Work, plan: Plan, setup: TrainingSetup) -> Settings:
    ratios = {metric.name: plan.ratio(metric) for metric in work.metrics}
    untrained = {job.judge for job in work.jobs if not setup.is_trained(job.member)}
    return Settings(plan.resamples, plan.level, plan.first_seed, plan.prior, ratios, untrained)


def _replicates(summaries: Sequence[Summary]) -> pd.DataFrame:
    """Values on parts of the data that are no refits of judges: on single splits, and on halves without training."""
    rows = [
        [*row.key, row.replicates.kind, number, np.nan, np.nan, value]
        for row in summaries
        if row.replicates and (row.replicates.kind == "split" or row.basis == "images")
        for number, value in enumerate(row.replicates.values)
    ]
    return pd.DataFrame(rows, columns=COLUMNS)


def _qualities(corpus: Corpus, plan: Plan, labels: Labels, progress: Progress | None) -> dict[str, Quality]:
    """How well each captioner describes; by the main process alone, which writes it."""
    found: dict[str, Quality] = {}
    for number, captioner in enumerate(corpus.generated):
        if plan.quality and is_main_process():
            if progress:
                progress("quality of captions", number, len(corpus.generated))
            found[captioner.name] = measure_quality(corpus.human, captioner, labels=labels, **plan.resampling)
    return found


@dataclass(frozen=True, slots=True)
class TrainedJudge:
    """A judge that a run needs, and the name of its files in the setup's store; several may share them."""

    captioner: str
    metrics: tuple[str, ...]
    judge: str
    side: Side
    index: int
    seed: int
    fold: int
    key: str


def train(
    corpus: Corpus,
    plan: Plan,
    *,
    lexicons: Lexicons,
    setup: TrainingSetup,
    open_pictures: OpenPictures | None = None,
    progress: Progress | None = None,
) -> list[TrainedJudge]:
    """Train all judges that :func:`measure` would ask, and keep them in the setup's store, where it finds them.

    Of refits only what they say is kept, and they are not among the judges that are returned.

    Raises:
        JudgeError: as ``measure``.
    """
    jobs = lay_out(corpus, plan, lexicons).jobs
    if not jobs:
        mend = "name a metric that asks judges, such as lic"
        raise JudgeError("there is no judge to train: all metrics are counted", where="--metrics", mend=mend)
    members = [job.member for job in jobs]
    setup = _with_pictures(setup, jobs, open_pictures).precompute(members, progress)
    check_refits(jobs, plan, setup)
    answers = train_members(members, setup, then=answer_rows, progress=progress)
    refit(jobs, [chosen for _, chosen in answers], plan, setup, progress=progress)
    return [
        TrainedJudge(
            job.evidence.captioner,
            tuple(metric.name for metric in job.metrics),
            job.judge,
            job.member.side,
            job.member.index,
            job.member.seed,
            job.member.split.fold,
            key,
        )
        for job, key in zip(jobs, name_members(members, setup), strict=True)
    ]


def _with_pictures(setup: TrainingSetup, jobs: Sequence[Job], open_pictures: OpenPictures | None) -> TrainingSetup:
    """A setup with the pictures that its judges look at."""
    evidence = {id(job.evidence): job.evidence for job in jobs}.values()
    images = sorted({image for one in evidence if one.sides.uses_images for image in one.classes})
    if not images:
        return setup
    if open_pictures is None:
        names = dict.fromkeys(metric.name for job in jobs for metric in job.metrics if metric.uses_images)
        what = f"judges of {', '.join(names)} see pictures, and there are none"
        raise JudgeError(what, where="--images", mend="give the folder of pictures")
    return replace(setup, materials=replace(setup.materials, pictures=open_pictures(images)))


def check(corpus: Corpus, plan: Plan, *, lexicons: Lexicons) -> None:
    """Refuse what ``measure`` would refuse before it looks at a picture.

    Raises:
        JudgeError: as ``measure``.
    """
    lay_out(corpus, plan, lexicons)
