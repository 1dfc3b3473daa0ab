"""Measure rows of METRICS: evidence before the judges, numbers after. ``judge evaluate`` calls this."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import pandas as pd

from judge.corpus import Corpus
from judge.corpus.attributes import ProductLabels
from judge.errors import JudgeError, require
from judge.masking.instances import PERSON
from judge.masking.masked_images import MaskedImages
from judge.measure.answers import Answers, answer_rows, score_table
from judge.measure.description import describe
from judge.measure.examples import CAPTION, choose_examples, with_words
from judge.measure.jobs import Job, Work, lay_out
from judge.measure.plan import Plan, Result
from judge.measure.refits import check_refits, refit
from judge.measure.table import in_order, with_parts
from judge.measure.words import caption_words, word_contributions
from judge.quality import Quality, measure_quality
from judge.statistics.breakdown import Breakdown, break_down, image_contributions
from judge.statistics.counted import summarise_counts
from judge.statistics.summary import Settings, summarise
from judge.text.lexicon import Lexicons
from judge.training.launch import in_main_process
from judge.training.options import TrainingSetup, prepare_members
from judge.training.run_members import train_members
from judge.types import Labels, Progress

__all__ = ["Job", "Plan", "Result", "lay_out", "measure", "train"]

OpenPictures = Callable[[Sequence[str]], MaskedImages]


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

    Of several processes each reads captions and trains its share of the judges; intervals, tests and tables are made by
    the main process alone, and every process returns them.

    Args:
        corpus: captions of both sides, and labels.
        plan: what to measure.
        lexicons: the words that reveal the attribute, and tasks.
        setup: how judges are trained.
        progress: called with the progress.
        open_pictures: gives the pictures of images, people hidden; None where there are none.
        ready: called once all that can be refused was checked, before the first judge is trained.

    Raises:
        JudgeError: unknown metric or judge; captions and labels that cannot be joined; an answer for a class that is
            none; NaN loss.
    """
    if plan.quality:
        require("quality", "pycocoevalcap")
    work = lay_out(corpus, plan, lexicons)
    setup = setup or TrainingSetup()
    _check_answers(setup, work)
    setup = _with_pictures(setup, work.jobs, open_pictures)
    counts = pd.concat([of.rows for of in work.count_rows], ignore_index=True) if work.count_rows else pd.DataFrame()
    names = [metric.name for metric in work.metrics]
    check_refits(work.jobs, plan, setup)
    if progress and work.count_rows:
        progress("counting", 0, 0)
    # Before the judges, who take longer: it may find what has to be refused.
    counted = in_main_process(lambda: summarise_counts(counts, names, **plan.resampling))
    if ready:
        ready()
    _, trained, answers, refits = _train(work.jobs, plan, setup, progress)
    if progress:
        progress("intervals and tests", 0, 0)
    scores = score_table(work.jobs, [rows for rows, _ in answers])
    settings = _settings(work, plan, setup)
    judged = in_main_process(lambda: summarise(scores, refits, settings))
    summaries = in_order([*judged, *counted], [captioner.name for captioner in corpus.generated], names)
    quality = in_main_process(lambda: _qualities(corpus, plan, work.truth.labels, progress)) if plan.quality else {}
    replicates = with_parts(refits, summaries)
    notes = [chosen for _, chosen in answers]
    run = in_main_process(lambda: describe(work, notes, counts, plan, trained, settings))
    result = Result(tuple(summaries), scores, counts, replicates, run, quality)
    if plan.examples:
        if progress:
            progress("examples", 0, 0)
        shown = in_main_process(lambda: _examples(corpus, work, (scores, counts), settings, (notes, plan)))
        result = replace(result, examples=shown)
    if work.said is None:
        return result
    return replace(result, breakdown=_break_down(work, work.said, result, notes, plan, setup=setup, progress=progress))


def _examples(
    corpus: Corpus,
    work: Work,
    tables: tuple[pd.DataFrame, pd.DataFrame],
    settings: Settings,
    chosen: tuple[Sequence[Mapping[str, float]], Plan],
) -> pd.DataFrame:
    """Of ``tables``, scores and counts; with what words add, of judges that ``chosen`` (notes, plan) trains again."""
    scores, counts = tables
    names = [metric.name for metric in work.metrics]
    found = choose_examples(
        corpus, work, scores, image_contributions(scores, counts, names, settings), seed=settings.seed
    )
    wanted = set(found[found["read"] != ""][CAPTION].itertuples(index=False, name=None))
    return with_words(found, caption_words(work.jobs, *chosen, wanted) if wanted else pd.DataFrame())


def _break_down(
    work: Work,
    said: pd.DataFrame,
    result: Result,
    notes: Sequence[Mapping[str, float]],
    plan: Plan,
    *,
    setup: TrainingSetup,
    progress: Progress | None,
) -> Breakdown:
    """What carries each metric of a result; ``said``: the tasks that captions name and images show."""
    if progress:
        progress("contributions of tasks and words", 0, 0)
    read = result.scores, result.counts, said, [metric.name for metric in work.metrics], _settings(work, plan, setup)
    return in_main_process(lambda: replace(break_down(*read), words=word_contributions(work.jobs, notes, plan)))


def _settings(work: Work, plan: Plan, setup: TrainingSetup) -> Settings:
    ratios = {metric.name: plan.ratio(metric) for metric in work.metrics}
    untrained = {job.judge for job in work.jobs if not setup.is_trained(job.member.judge)}
    return Settings(plan.resamples, plan.level, plan.first_seed, plan.prior, ratios, untrained)


def _qualities(corpus: Corpus, plan: Plan, labels: Labels, progress: Progress | None) -> dict[str, Quality]:
    """How well each captioner describes."""
    found: dict[str, Quality] = {}
    for number, captioner in enumerate(corpus.generated):
        if progress:
            progress("quality of captions", number, len(corpus.generated))
        found[captioner.name] = measure_quality(corpus.human, captioner, labels=labels, **plan.resampling)
    return found


def train(
    corpus: Corpus,
    plan: Plan,
    *,
    lexicons: Lexicons,
    setup: TrainingSetup,
    open_pictures: OpenPictures | None = None,
    progress: Progress | None = None,
) -> Work:
    """Train all judges that :func:`measure` would ask, and keep them in the setup's store, where it finds them.

    Of refits only what they say is kept, and they are not among the jobs that are returned. The ``key`` of each
    judge's member is the name of its files; several may share them.

    Raises:
        JudgeError: as ``measure``.
    """
    work = lay_out(corpus, plan, lexicons)
    jobs = work.jobs
    if not jobs:
        mend = "name a metric that asks judges, such as lic"
        raise JudgeError("there is no judge to train: all metrics are counted", where="--metrics", mend=mend)
    _check_answers(setup, work)
    setup = _with_pictures(setup, jobs, open_pictures)
    check_refits(jobs, plan, setup)
    named, *_ = _train(jobs, plan, setup, progress)
    return replace(work, jobs=named)


def _train(
    jobs: Sequence[Job], plan: Plan, setup: TrainingSetup, progress: Progress | None
) -> tuple[tuple[Job, ...], TrainingSetup, list[Answers], pd.DataFrame]:
    """The jobs with the keys of their members, the setup with its features, the answers, and the rows of refits."""
    members, setup = prepare_members([job.member for job in jobs], setup, progress)
    answers = train_members(members, setup, then=answer_rows, progress=progress)
    named = tuple(replace(job, member=member) for job, member in zip(jobs, members, strict=True))
    return named, setup, answers, refit(jobs, [chosen for _, chosen in answers], plan, setup, progress=progress)


def _check_answers(setup: TrainingSetup, work: Work) -> None:
    """Answers are of known classes alone; those that are left out as too small are known."""
    labels = work.truth.labels
    if setup.materials.prompt:
        left_out = labels.left_out if isinstance(labels, ProductLabels) else ()
        setup.materials.prompt.check([*labels.classes, *left_out])


def _with_pictures(setup: TrainingSetup, jobs: Sequence[Job], open_pictures: OpenPictures | None) -> TrainingSetup:
    """A setup with the pictures that its judges see."""
    evidence = {id(job.evidence): job.evidence for job in jobs}.values()
    images = sorted({image for one in evidence if one.sides.uses_images for image in one.classes})
    if not images:
        return setup
    if open_pictures is None:
        names = dict.fromkeys(metric.name for job in jobs for metric in job.metrics if metric.uses_images)
        what = f"judges of {', '.join(names)} see pictures, and there are none"
        raise JudgeError(what, where="--images", mend="give the folder of pictures")
    pictures, masking = open_pictures(images), setup.masking
    if pictures.hiding and masking.get("hide", PERSON) != PERSON:
        masking = {**masking, "category": pictures.hiding.labels[-1]}  # Chosen by now.
    return replace(setup, materials=replace(setup.materials, pictures=pictures), masking=masking)
