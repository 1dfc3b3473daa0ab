"""From rows of METRICS to the work of a run: judges to train, captions to count."""

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Self

import pandas as pd

from judge.corpus import Corpus
from judge.errors import JudgeError, RowError, nearest
from judge.evidence import MINIMUM_IMAGES, Evidence, EvidenceBuilder, Truth
from judge.evidence.conditional import Conditional, conditional_evidence
from judge.evidence.counts import CaptionCounter, CountRows, task_rows
from judge.evidence.joined import Joined
from judge.judges.image_vectors import ImageVectors
from judge.judges.names import DEFAULT_JUDGE, EMBEDDED, SEEING, check_judge, find_judge, name_self, with_head
from judge.measure.plan import Plan
from judge.metrics import Metric, find_metric, spell_out
from judge.statistics.comparisons import Key
from judge.text.lexicon import Lexicons
from judge.text.vector_space import FEATURES
from judge.training.member import Member
from judge.types import Side
from judge.utils.cells import joined_tables
from judge.utils.identity import digest_of


@dataclass(frozen=True, slots=True)
class Job:
    """A member to train, its evidence, and the metrics that read its answers; ``judge``: its name in tables."""

    evidence: Evidence
    metrics: tuple[Metric, ...]
    judge: str
    member: Member


@dataclass(frozen=True, slots=True)
class Request:
    """What to measure: the evidence, and the judge that names the features; ``refits`` and ``seed`` of resamples."""

    of: Conditional
    judge: str
    refits: int
    seed: int

    @property
    def key(self) -> Key:
        """The row of the table."""
        return self.of.captioner, self.of.metric.name, self.judge

    def seeing(self, vectors: ImageVectors) -> Self:
        """The request with the images, where they are given."""
        if not self.of.metric.uses_images:
            return self
        images = vectors.named(self.of.units.images)
        return replace(self, of=replace(self.of, images=images, seen=digest_of(images.tobytes())))


@dataclass(frozen=True, slots=True)
class Work:
    """The work of a run.

    Attributes:
        conditional: what to measure of metrics that are given what is known of images.
        counts: the rows of ``counts.parquet``: those of ``count_rows``, one of these per captioner.
        tasks: the tasks that captions name and images show, for a breakdown; else empty.
        sources: checksum of labels and human captions of every labelled image, described by a captioner or not.
        without_value: captioner, metric and judge of each row without a value -> why, and the captioner's captions.
    """

    corpus: Corpus
    truth: Truth
    metrics: tuple[Metric, ...]
    jobs: tuple[Job, ...]
    conditional: tuple[Request, ...]
    count_rows: tuple[CountRows, ...]
    counts: pd.DataFrame
    tasks: pd.DataFrame
    sources: str
    without_value: Mapping[Key, tuple[str, Joined]]

    @property
    def names(self) -> list[str]:
        """Names of the metrics."""
        return [metric.name for metric in self.metrics]


def lay_out(corpus: Corpus, plan: Plan, lexicons: Lexicons) -> Work:
    """Lay out the work of ``plan``.

    Refused: a hold-out under ``crossfit``; captions and labels that cannot be joined; what cannot be counted.
    """
    metrics = tuple(map(find_metric, spell_out(plan.metrics)))
    _check_plan(corpus, plan, metrics)
    builder = EvidenceBuilder(corpus, lexicons, options=plan.text, aligning=plan.aligning, least=plan.label_least)
    counted = [metric for metric in metrics if metric.counted]
    folds = plan.folds if plan.protocol == "crossfit" and len(counted) < len(metrics) else 0
    builder.leave_out_small(corpus.generated, metrics, max(MINIMUM_IMAGES, folds))
    lacking = dict[Key, RowError]()
    rows = tuple(_count(builder, plan, counted, lacking)) if counted else ()
    jobs = tuple(_jobs(builder, plan, metrics, lacking))
    conditional = tuple(_requests(builder, plan, metrics, lacking))
    refits = plan.refits_of("attribute", max((len(of.of.classes) for of in conditional), default=0))
    conditional = tuple(replace(request, refits=refits) for request in conditional)
    if not (rows or jobs or conditional):
        raise next(iter(lacking.values()))
    joined = {of.name: builder.join(of)[0] for of in builder.corpus.generated if lacking}
    tasks = [task_rows(builder, one) for one in builder.corpus.generated] if plan.breakdown else []
    builder.release()
    sources = hashlib.blake2b(digest_size=8)
    for image, name in sorted(builder.truth.labels.by_image.items()):
        sources.update(repr((image, name, builder.corpus.human.by_image.get(image))).encode())
    return Work(
        builder.corpus,
        builder.truth,
        metrics,
        jobs,
        conditional,
        count_rows=rows,
        counts=joined_tables([of.rows for of in rows]),
        tasks=joined_tables(tasks),
        sources=sources.hexdigest(),
        without_value={row: (_clause(of), joined[row[0]]) for row, of in lacking.items()},
    )


def _check_plan(corpus: Corpus, plan: Plan, metrics: Sequence[Metric]) -> None:
    """Refuse unknown judges, a baseline without captions, and metrics that protocol or captions do not allow."""
    for name in plan.judges:  # Also where no metric asks them.
        check_judge(name)
    names = [captions.name for captions in corpus.generated]
    if plan.baseline and plan.baseline not in names:
        where = f"--baseline {plan.baseline}"
        raise JudgeError(f"no captioner is called '{plan.baseline}'", where=where, mend=nearest(plan.baseline, names))
    for metric in metrics:
        if plan.protocol == "crossfit" and metric.parts in metric.name.split(":"):
            folds = max(2, round(1 / metric.holdout[0]))
            what = f"{metric.title}: crossfit scores every image by a judge of the other folds, so none are held out"
            mend = f"use --protocol paper, or --folds {folds} for about the same number of images at a time"
            raise JudgeError(what, where="--holdout", mend=mend)
    if corpus.alone and (compared := [of for of in metrics if of.counted or of.amplification != "one_side"]):
        mend = "give --human, or the metric of generated captions alone: --metrics sc"
        raise JudgeError(f"{compared[0].title} compares with human captions, and there are none", mend=mend)
    if corpus.labels and corpus.labels.scenes and plan.protocol != "crossfit":
        what = "a hold-out divides scenes: a judge would be asked of a scene that it learnt with another person"
        raise JudgeError(what, where="--column labels.scene", mend="use --protocol crossfit")


def _count(
    builder: EvidenceBuilder, plan: Plan, counted: Sequence[Metric], lacking: dict[Key, RowError]
) -> Iterator[CountRows]:
    """The input of counted metrics; adds to ``lacking`` why some do not count a captioner's captions."""
    counter = CaptionCounter(builder, plan.vocabulary)
    for captioner in builder.corpus.generated:
        asked = [*counted]
        while asked:
            try:
                yield counter.count(captioner, asked)
                break
            except RowError as error:  # Its words, which BA counts, are too few.
                lost = [row for row in asked if row.counted and row.counted.labels == "words"]
                lacking |= {(captioner.name, metric.name, metric.judge): error for metric in lost}
                asked = [metric for metric in asked if metric not in lost]


def _clause(error: JudgeError) -> str:
    what = error.what.partition(" (")[0]
    return f"{what}: {error.mend}" if error.mend else what


def _jobs(
    builder: EvidenceBuilder, plan: Plan, metrics: Sequence[Metric], lacking: dict[Key, RowError]
) -> Iterator[Job]:
    """Every judge to train; adds to ``lacking`` why some metrics and judges do not measure a captioner."""
    groups: dict[object, list[Metric]] = {}
    for metric in metrics:
        if not (metric.counted or metric.given):
            groups.setdefault(metric.training, []).append(metric)
    for captioner in builder.corpus.generated:
        for alike in groups.values():
            for judge in choose_judges(alike[0], plan.judges):
                try:
                    evidence = builder.build(captioner, alike[0])
                    _check_size(evidence, plan)
                except RowError as error:
                    lacking |= {(captioner.name, metric.name, judge): error for metric in alike}
                else:
                    yield from jobs_of(evidence, tuple(alike), judge, plan)


def _requests(
    builder: EvidenceBuilder, plan: Plan, metrics: Sequence[Metric], lacking: dict[Key, RowError]
) -> Iterator[Request]:
    """What to measure given what is known; adds to ``lacking`` why some metrics do not measure a captioner."""
    for captioner in builder.corpus.generated:
        for metric in (of for of in metrics if of.given):
            try:
                evidence = conditional_evidence(builder, captioner, metric)
            except RowError as error:
                lacking |= {(captioner.name, metric.name, judge): error for judge in choose_judges(metric, plan.judges)}
            else:
                for judge in choose_judges(metric, plan.judges):
                    yield Request(evidence, judge, 0, plan.first_seed)


def _check_size(evidence: Evidence, plan: Plan) -> None:
    rarest, size = Counter(evidence.classes.values()).most_common()[-1]
    if plan.protocol == "crossfit" and size < plan.folds:
        what = f"{plan.folds} folds, and only {size} images of class '{rarest}'"
        raise RowError(what, where=evidence.captioner, mend=f"use --folds {size} or fewer")


def jobs_of(
    evidence: Evidence,
    metrics: tuple[Metric, ...],
    judge: str,
    plan: Plan,
    settings: Mapping[tuple[Side, int, int], Mapping[str, float]] = MappingProxyType({}),
) -> Iterator[Job]:
    """The judges of one captioner that some metrics share; ``settings``: as in :data:`~judge.measure.refits.Chosen`."""
    found = find_judge(with_head(name_self(judge, evidence.captioner, plan.models), metrics[0].head))
    # Judges that are trained jointly choose their settings on both sides, whichever is scored.
    two_sided = compares(metrics) or found.joint is not None
    for seed, split in plan.splits(evidence, metrics[0], judge):
        tested = set(split.test)
        for (side, index), slot in evidence.slots.items():
            # No image of a small fold may have a caption with a high index.
            if not tested.isdisjoint(evidence.sides.images[side, index]) and (two_sided or side == "generated"):
                validates = metrics[0].aggregate == "best" and bool(split.validation)
                chosen = tuple(sorted(settings.get((side, seed, split.fold), {}).items()))
                member = Member(found, evidence.target, slot, split, seed, index, chosen, validates)
                yield Job(evidence, metrics, judge, member)


def most_images(jobs: Sequence[Job]) -> int:
    """The number of images of the captioner that has most."""
    return max(len(job.evidence.sides.classes) for job in jobs)


def compares(metrics: Sequence[Metric]) -> bool:
    """Whether any of the metrics compares two sides."""
    return any(metric.amplification != "one_side" for metric in metrics)


def choose_judges(metric: Metric, judges: Sequence[str]) -> list[str]:
    """The ``judges`` with the modalities of ``metric``; else the default one.

    What is annotated is no text: "linear" reads the names of tasks, or of a class, whatever ``judges`` are.
    """
    known = [find_judge(name) for name in judges]
    if metric.from_annotation:
        return [metric.judge]
    if metric.given:
        return [of for of in judges if of.partition(":")[0] in FEATURES] or [metric.judge]
    fitting = [blueprint.name for blueprint in known if ("image" in blueprint.modalities) == metric.uses_images]
    return fitting or [_seeing(judges) if metric.uses_images else DEFAULT_JUDGE]


def _seeing(judges: Sequence[str]) -> str:
    """The judge of images that reads what the first linear judge of ``judges`` reads."""
    for kind, _, reference in (name.partition(":") for name in judges):
        if kind == "linear":
            return "linear+image"
        if kind in EMBEDDED and reference:
            return f"{SEEING}:{reference}"
    return SEEING
