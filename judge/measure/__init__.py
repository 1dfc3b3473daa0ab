"""Measure a plan: corpus -> evidence -> judges -> scores -> summaries. ``judge evaluate`` calls this."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import chain

import pandas as pd

from judge.corpus import Corpus
from judge.corpus.attributes import ProductLabels
from judge.errors import JudgeError, require
from judge.masking.masked_images import MaskedImages
from judge.measure.conditional import Measured, gain_words, measure_conditional, warn_of_few
from judge.measure.description import describe
from judge.measure.examples import CAPTION, choose_examples, with_words
from judge.measure.jobs import Job, Work, lay_out
from judge.measure.places import image_places
from judge.measure.plan import Plan, Result
from judge.measure.refits import check_refits, refit, warn_of_many
from judge.measure.table import Answers, answer_rows, in_order, score_table, with_parts
from judge.measure.words import caption_words, word_contributions
from judge.quality import Quality, measure_qualities
from judge.statistics.breakdown import break_down, counted_images, image_contributions
from judge.statistics.counted import CountedRow, each_row
from judge.statistics.summary import Settings, Summary, summarise
from judge.text.lexicon import Lexicons
from judge.training.launch import in_main_process
from judge.training.member import TrainingSetup
from judge.training.run_members import prepare_members, train_members
from judge.types import Progress
from judge.utils.cells import joined_tables
from judge.utils.launch import launched
from judge.utils.parallel import give_back, usable_cores

__all__ = ["Job", "Plan", "Result", "lay_out", "measure", "train"]

_logger = logging.getLogger("judge")

OpenImages = Callable[[Sequence[str]], MaskedImages]


def measure(
    corpus: Corpus,
    plan: Plan,
    *,
    lexicons: Lexicons,
    setup: TrainingSetup | None = None,
    open_images: OpenImages | None = None,
    progress: Progress | None = None,
    ready: Callable[[], None] | None = None,
) -> Result:
    """Measure every metric of ``plan`` for every captioner of ``corpus``.

    With several processes each reads the captions and trains its share of the judges; the main process alone computes
    intervals, tests and tables, and every process returns them. ``open_images`` gives the images with people hidden.
    ``ready`` is called after all checks, before the first judge is trained.

    Raises:
        JudgeError: unknown metric or judge; captions and labels that cannot be joined; NaN loss.
    """
    if plan.quality:
        require("quality", "pycocoevalcap")
        if corpus.alone:
            raise JudgeError("quality is measured against human captions", where="--quality", mend="give --human")
    progress = progress or _ignore
    work = lay_out(corpus, plan, lexicons)
    give_back()
    setup = _prepare(work, plan, setup or TrainingSetup(), open_images)
    if len(work.counts):
        progress("counting", 0, 0)
    # Counted metrics come first: they take less time than judges, and may be refused.
    ratios = {metric.name: plan.ratio(metric) for metric in work.metrics}
    untrained = {job.judge for job in work.jobs if not setup.is_trained(job.member.judge)}
    settings = Settings(plan.resamples, plan.level, plan.first_seed, ratios, untrained)

    def count(row: CountedRow) -> tuple[Summary, pd.DataFrame | None]:
        return row.summary(settings), counted_images(row) if plan.examples else None

    counted = in_main_process(lambda: each_row(work.counts, work.names, count))
    if ready:
        ready()
    for line in chain(warn_of_few(work.conditional, plan.small), warn_of_many(work.jobs, plan, setup)):
        _logger.info(line)
    # Before any training: processes that train keep much memory.
    conditional = _conditional(work, setup, progress)
    requests = (replace(one, of=found.of) for one, found in zip(work.conditional, conditional, strict=True))
    work = replace(work, conditional=tuple(requests))
    give_back()
    _, setup, answers, refits = _train(work, plan, setup, progress)
    notes = [chosen for _, chosen in answers]
    scores = score_table(work.jobs, [rows for rows, _ in answers])
    del answers  # They are half as large as the table.
    scores = joined_tables([scores, *(of.scores for of in conditional)])
    refits = joined_tables([refits, *(of.refits for of in conditional)])
    progress("intervals and tests", 0, 0)
    judged = in_main_process(lambda: summarise(scores, refits, settings))
    names = [captioner.name for captioner in work.corpus.generated]
    summaries = in_order([*judged, *(row for row, _ in counted)], names, work.names, work.without_value)
    result = Result(
        tuple(summaries),
        scores,
        work.counts,
        with_parts(refits, summaries),
        in_main_process(lambda: describe(work, notes, plan, setup, settings)),
        quality=in_main_process(lambda: _qualities(corpus, work, plan, progress)) if plan.quality else {},
    )

    def examples() -> pd.DataFrame:
        contributions = image_contributions(scores, settings, (images for _, images in counted))
        chosen = choose_examples(work, scores, contributions, seed=settings.seed)
        read = set(chosen[chosen["read"] != ""][CAPTION].itertuples(index=False, name=None))
        workers = 1 if launched() else setup.workers or usable_cores()
        words = caption_words(work.jobs, notes, plan, read, workers=workers) if read else pd.DataFrame()
        chosen = with_words(chosen, pd.concat([words, gain_words(conditional, chosen)], ignore_index=True))
        places = image_places(work.jobs, notes, plan, setup, chosen)
        return chosen.merge(places, how="left").fillna({"places": ""}) if len(places) else chosen.assign(places="")

    if plan.examples:
        progress("examples", 0, 0)
        result = replace(result, examples=in_main_process(examples))
    if plan.breakdown:
        progress("contributions of tasks and words", 0, 0)
        found = in_main_process(lambda: break_down(scores, work.counts, work.tasks, work.names, settings))
        words = in_main_process(lambda: word_contributions(work.jobs, notes, plan))
        result = replace(result, breakdown=replace(found, words=words))
    return result


def train(
    corpus: Corpus,
    plan: Plan,
    *,
    lexicons: Lexicons,
    setup: TrainingSetup,
    open_images: OpenImages | None = None,
    progress: Progress | None = None,
) -> Work:
    """Train all judges that :func:`measure` needs and keep them in the setup's store, where it finds them.

    Refits are not among the returned jobs. The ``key`` of a job's member names its files; members may share them.
    """
    work = lay_out(corpus, plan, lexicons)
    if not work.jobs:
        mend = "name a metric that asks judges, such as lic"
        raise JudgeError("there is no judge to train: all metrics are counted", where="--metrics", mend=mend)
    setup = _prepare(work, plan, setup, open_images)
    jobs, *_ = _train(work, plan, setup, progress or _ignore)
    return replace(work, jobs=jobs)


def _prepare(work: Work, plan: Plan, setup: TrainingSetup, open_images: OpenImages | None) -> TrainingSetup:
    """Check what could be refused later, and add the images that judges see to the setup."""
    labels, masking = work.truth.labels, setup.masking
    if setup.materials.prompt:
        left_out = labels.left_out if isinstance(labels, ProductLabels) else ()
        setup.materials.prompt.check([*labels.classes, *left_out])
    seeing = [job for job in work.jobs if job.evidence.sides.uses_images]
    given = [request for request in work.conditional if request.of.metric.uses_images]
    from_file = setup.materials.image_features and all(job.member.judge.reads_vectors for job in seeing)
    if (seeing or given) and not from_file:
        if open_images is None:
            names = dict.fromkeys([of.name for job in seeing for of in job.metrics] + [of.key[1] for of in given])
            what = f"judges of {', '.join(names)} see images, and there are none"
            raise JudgeError(what, where="--images", mend="give the folder of images, or --image-features")
        classes = [*(job.evidence.classes for job in seeing), *(request.of.joined.classes for request in given)]
        images = open_images(sorted({*chain.from_iterable(classes)}))
        if images.hiding and masking.get("hide") in {"object", "both"}:
            masking = {**masking, "category": images.hiding.labels[-1]}  # The category that was chosen to be hidden.
        setup = replace(setup, materials=replace(setup.materials, images=images), masking=masking)
    check_refits(work.jobs, plan, setup)
    return setup


def _train(
    work: Work, plan: Plan, setup: TrainingSetup, progress: Progress
) -> tuple[tuple[Job, ...], TrainingSetup, list[Answers], pd.DataFrame]:
    """Train all judges: jobs with the keys of their members, the setup with features, answers, and refits."""
    members, setup = prepare_members([job.member for job in work.jobs], setup, progress)
    answers = train_members(members, setup, then=answer_rows, progress=progress)
    jobs = tuple(replace(job, member=member) for job, member in zip(work.jobs, members, strict=True))
    refits = refit(work.jobs, [chosen for _, chosen in answers], plan, setup, progress=progress)
    return jobs, setup, answers, refits


def _conditional(work: Work, setup: TrainingSetup, progress: Progress) -> list[Measured]:
    """Of metrics that are given what is known of images; the vectors of images are not kept."""
    if not work.conditional:
        return []
    requests, workers = work.conditional, 1 if launched() else setup.workers or usable_cores()
    if images := {image for of in requests if of.of.metric.uses_images for image in of.of.units.images}:
        from judge.training.features import see

        vectors = see(images, setup.materials, setup.features, progress)
        requests = tuple(request.seeing(vectors) for request in requests)
    progress("conditional leakage", 0, 0)
    found = in_main_process(lambda: measure_conditional(requests, workers=workers))
    freed = (replace(request.of, seen=one.of.seen) for request, one in zip(work.conditional, found, strict=True))
    return [replace(one, of=of) for one, of in zip(found, freed, strict=True)]


def _qualities(corpus: Corpus, work: Work, plan: Plan, progress: Progress) -> dict[str, Quality]:
    return measure_qualities(
        corpus.human,
        corpus.generated,
        labels=work.truth.labels,
        objects=corpus.tasks,
        given=plan.image_scores,
        resamples=plan.resamples,
        level=plan.level,
        seed=plan.first_seed,
        progress=lambda number: progress("quality of captions", number, len(corpus.generated)),
    )


def _ignore(what: str, done: int, total: int) -> None:
    """No progress is shown."""
