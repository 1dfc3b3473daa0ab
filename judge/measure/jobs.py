"""From rows of METRICS to the work of a run: judges to train, captions to count."""

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import pandas as pd

from judge.corpus import Corpus
from judge.errors import JudgeError, RowError, nearest
from judge.evidence import MINIMUM_IMAGES, Evidence, EvidenceBuilder, Truth
from judge.evidence.conditional import Conditional, conditional_evidence
from judge.evidence.counts import CountRows, count_captions, task_rows
from judge.evidence.joined import Joined
from judge.evidence.typical import TYPICAL, Longer, add_longer, add_typical, is_longer, is_person
from judge.judges import DEFAULT_JUDGE, SELF, find_judge, name_self, with_head
from judge.measure.plan import REFITS, Plan, is_quick
from judge.metrics import Metric, find_metric, spell_out
from judge.statistics.comparisons import Key
from judge.text.lexicon import Lexicons
from judge.text.vector_space import FEATURES
from judge.training.member import Member
from judge.types import Side

_NO_CHECKPOINT = "judge self needs the checkpoint that wrote the captions"


@dataclass(frozen=True, slots=True)
class Job:
    """A member to train, its evidence, and the metrics that read its answers.

    ``judge`` is the name that users type and tables show; "self" stands for the captioner's checkpoint.
    """

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


@dataclass(frozen=True, slots=True)
class Work:
    """The work of a run.

    Attributes:
        corpus: the captions; human ones without those of the typical person. Typical persons are the last captioners.
        truth: the answers of each image, and the words that would reveal them.
        families: judge of text -> the judges of other families that it is compared with.
        conditional: what to measure of metrics that are given what is known of images.
        companions: these, on the same evidence, as far as ``jobs`` does not have them.
        counts: the rows of ``counts.parquet``: those of ``count_rows``, one of these per captioner.
        tasks: the tasks that captions name and images show, for a breakdown; else empty.
        sources: checksum of labels and human captions of every labelled image, described by a captioner or not.
        longer: captioner -> length of captions -> the typical person who says as much, where it needs one.
        without_typical: names of metric and judge -> why they do not measure a typical person, as a clause.
        without_value: captioner, metric and judge of each row without a value -> why, and the captioner's captions.
    """

    corpus: Corpus
    truth: Truth
    metrics: tuple[Metric, ...]
    jobs: tuple[Job, ...]
    conditional: tuple[Request, ...]
    families: Mapping[str, tuple[str, ...]]
    companions: tuple[Job, ...]
    count_rows: tuple[CountRows, ...]
    counts: pd.DataFrame
    tasks: pd.DataFrame
    sources: str
    longer: Longer
    without_typical: Mapping[tuple[str, str], str]
    without_value: Mapping[Key, tuple[str, Joined]]

    @property
    def names(self) -> list[str]:
        """Names of the metrics."""
        return [metric.name for metric in self.metrics]

    @property
    def asked(self) -> dict[str, list[str]]:
        """Longer person -> names of the metrics that measure it."""
        people = sorted({person for of in self.longer.values() for person in of.values()})
        return {name: [metric.name for metric in asked_of(name, self.metrics, self.longer)] for name in people}


def lay_out(corpus: Corpus, plan: Plan, lexicons: Lexicons) -> Work:
    """Lay out the work of ``plan``, without a typical person where it would fail with one alone.

    Refused: a hold-out under ``crossfit``; captions and labels that cannot be joined; what cannot be counted; a
    captioner with the name of the typical person.
    """
    names = [captions.name for captions in corpus.generated]
    for name in filter(is_person, names):
        mend = "give it another name (--captions NAME=FILE)"
        raise JudgeError(f"a captioner is called '{name}', as rows of the table are", mend=mend)
    if plan.baseline and plan.baseline not in names:
        where = f"--baseline {plan.baseline}"
        raise JudgeError(f"no captioner is called '{plan.baseline}'", where=where, mend=nearest(plan.baseline, names))
    metrics = tuple(map(find_metric, spell_out(plan.metrics)))
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
        raise JudgeError(what, where="--scene-column", mend="use --protocol crossfit")
    reason = "there are no human captions" if corpus.alone else _without_typical(plan, metrics)
    if not reason:
        try:
            work = _lay_out(corpus, plan, lexicons, metrics)
        except JudgeError as error:
            reason = error.what
        else:
            lacking = [*work.without_value.values()]  # Some rows may have a value without a typical person alone.
            alone = _lay_out(corpus, plan, lexicons, metrics, lacking[0][0]) if lacking else work
            return alone if len(alone.without_value) < len(lacking) else work
    return _lay_out(corpus, plan, lexicons, metrics, reason)


def _lay_out(
    corpus: Corpus, plan: Plan, lexicons: Lexicons, metrics: tuple[Metric, ...], without_typical: str = ""
) -> Work:
    """The work with a typical person, or without one for the reason ``without_typical``."""
    builder = EvidenceBuilder(corpus, lexicons, options=plan.text, aligning=plan.aligning, least=plan.label_least)
    counted = [metric for metric in metrics if metric.counted]
    folds = plan.folds if plan.protocol == "crossfit" and len(counted) < len(metrics) else 0
    without_typical = without_typical or add_typical(builder)
    lengths = {metric.length for metric in metrics if metric.length and compares([metric])}
    longer = {} if without_typical else add_longer(builder, corpus.human, lengths)
    builder.leave_out_small(corpus.generated, metrics, max(MINIMUM_IMAGES, folds))
    lacking = dict[Key, JudgeError]()
    rows = tuple(_count(builder, plan, counted, longer, lacking)) if counted else ()
    jobs = tuple(_jobs(builder, plan, metrics, longer, lacking))
    conditional = tuple(_requests(builder, plan, metrics, lacking))
    measured = [*(row.captioner for row in rows), *(job.evidence.captioner for job in jobs)]
    if all(map(is_person, [*measured, *(of.of.captioner for of in conditional)])):
        raise next(error for (name, *_), error in lacking.items() if not is_person(name))
    named = [(metric.name, judge) for metric in metrics for judge in _judges_of(metric, plan)]
    missing = dict.fromkeys(named, without_typical) if without_typical else {}
    missing |= {(metric, judge): error.what for (name, metric, judge), error in lacking.items() if name == TYPICAL}
    joined = {of.name: builder.join(of)[0] for of in builder.corpus.generated if lacking}
    if len(missing) == len(named) and not without_typical:
        raise JudgeError(next(iter(missing.values())))  # Human captions then need not do without the typical ones.
    tasks = [task_rows(builder, one) for one in builder.corpus.generated] if plan.breakdown else []
    sources = hashlib.blake2b(digest_size=8)
    for image, name in sorted(builder.truth.labels.by_image.items()):
        sources.update(repr((image, name, builder.corpus.human.by_image.get(image))).encode())
    judges = dict.fromkeys(job.judge for job in jobs if _has_families(job))
    families = {judge: others for judge in judges if (others := plan.families_of(judge))}
    return Work(
        builder.corpus,
        builder.truth,
        metrics,
        jobs,
        conditional,
        families,
        companions=tuple(_companions(jobs, families, plan)),
        count_rows=rows,
        counts=_concat([of.rows for of in rows]),
        tasks=_concat(tasks),
        sources=sources.hexdigest(),
        longer=longer,
        without_typical=missing,
        without_value={row: (_clause(of), joined[row[0]]) for row, of in lacking.items() if not is_person(row[0])},
    )


def _without_typical(plan: Plan, metrics: Sequence[Metric]) -> str:
    """Why the plan has no typical person, as a clause; "" where it has one."""
    if not plan.has_typical:
        return f"it is off under protocol {plan.protocol}" if plan.typical is None else "it was left out"
    if all(judge.startswith(SELF) for metric in metrics for judge in _judges_of(metric, plan)):
        return _NO_CHECKPOINT
    return ""


def _judges_of(metric: Metric, plan: Plan) -> list[str]:
    """The judges of the rows of a metric; of counted ones "counted"."""
    return [metric.judge] if metric.counted else choose_judges(metric, plan.judges)


def _concat(tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()


def _count(
    builder: EvidenceBuilder,
    plan: Plan,
    counted: Sequence[Metric],
    longer: Longer,
    lacking: dict[Key, JudgeError],
) -> Iterator[CountRows]:
    """The input of counted metrics; adds to ``lacking`` why some do not count a captioner's captions."""
    for captioner in builder.corpus.generated:
        asked = asked_of(captioner.name, counted, longer)
        while asked:
            try:
                yield count_captions(builder, captioner, asked, vocabulary=plan.vocabulary)
                break
            except JudgeError as error:
                # That of a row is in the words which BA counts.
                if not (of_row := isinstance(error, RowError)) and not is_person(captioner.name):
                    raise
                lost = [row for row in asked if not of_row or (row.counted and row.counted.labels == "words")]
                lacking |= {(captioner.name, metric.name, metric.judge): error for metric in lost}
                asked = [metric for metric in asked if metric not in lost]


def _clause(error: JudgeError) -> str:
    """The fault of a row as the reason why it has no value."""
    what = error.what.partition(" (")[0]
    return f"{what}: {error.mend}" if error.mend else what


def asked_of(name: str, metrics: Sequence[Metric], longer: Longer) -> list[Metric]:
    """The metrics that measure a captioner: a longer person is measured by those that a captioner needs it for."""
    if not is_longer(name):
        return [*metrics]
    lengths = {length for of in longer.values() for length, person in of.items() if person == name}
    return [metric for metric in metrics if metric.length in lengths and compares([metric])]


def _jobs(
    builder: EvidenceBuilder,
    plan: Plan,
    metrics: Sequence[Metric],
    longer: Longer,
    lacking: dict[Key, JudgeError],
) -> Iterator[Job]:
    """Every judge to train; adds to ``lacking`` why some metrics and judges do not measure a captioner."""
    groups: dict[object, list[Metric]] = {}
    for metric in metrics:
        if not (metric.counted or metric.given):
            groups.setdefault(metric.training, []).append(metric)
    with_person = any(is_person(captioner.name) for captioner in builder.corpus.generated)
    for captioner in builder.corpus.generated:
        for group in groups.values():
            alike = asked_of(captioner.name, group, longer)
            for judge in choose_judges(alike[0], plan.judges) if alike else ():
                if is_person(captioner.name) and judge.startswith(SELF):
                    lacking |= {(captioner.name, metric.name, judge): JudgeError(_NO_CHECKPOINT) for metric in alike}
                    continue
                try:
                    evidence = builder.build(captioner, alike[0])
                    _check_size(evidence, alike, judge, plan, halves=with_person)
                except JudgeError as error:
                    if not (isinstance(error, RowError) or is_person(captioner.name)):
                        raise
                    lacking |= {(captioner.name, metric.name, judge): error for metric in alike}
                else:
                    yield from jobs_of(evidence, tuple(alike), judge, plan)


def _requests(
    builder: EvidenceBuilder, plan: Plan, metrics: Sequence[Metric], lacking: dict[Key, JudgeError]
) -> Iterator[Request]:
    """What to measure given what is known; adds to ``lacking`` why some metrics do not measure a captioner."""
    refits = REFITS["attribute"] if plan.refits is None else plan.refits
    for captioner in builder.corpus.generated:
        for metric in (of for of in metrics if of.given and not is_person(captioner.name)):
            try:
                evidence = conditional_evidence(builder, captioner, metric)
            except RowError as error:
                lacking |= {(captioner.name, metric.name, judge): error for judge in choose_judges(metric, plan.judges)}
            else:
                for judge in choose_judges(metric, plan.judges):
                    yield Request(evidence, judge, refits, plan.first_seed)


def _check_size(evidence: Evidence, metrics: Sequence[Metric], judge: str, plan: Plan, *, halves: bool) -> None:
    """Refuse fewer images of a class than folds, or than refits on halves need, if ``halves``."""
    rarest, size = Counter(evidence.classes.values()).most_common()[-1]
    if plan.protocol == "crossfit" and size < plan.folds:
        what = f"{plan.folds} folds, and only {size} images of class '{rarest}'"
        raise RowError(what, where=evidence.captioner, mend=f"use --folds {size} or fewer")
    refits = "half" in plan.resamples_of(judge, evidence.target.kind, len(evidence.classes))
    if refits and size < 2 * plan.least and (halves or is_quick(judge)):
        what = f"{size} images of class '{rarest}', and refits on halves of the images need {2 * plan.least}"
        mend = "use fewer --folds, or --refits 0" if plan.protocol == "crossfit" else "use --refits 0"
        raise (RowError if is_quick(judge) else JudgeError)(what, where=evidence.captioner, mend=mend)


def _has_families(job: Job) -> bool:
    """Whether judges of other families can read the same, captions, for the same comparison."""
    return compares(job.metrics) and not job.evidence.sides.uses_images and not job.metrics[0].from_annotation


def _companions(jobs: Sequence[Job], families: Mapping[str, tuple[str, ...]], plan: Plan) -> Iterator[Job]:
    """The judges of ``families``; not those that the run has anyway."""
    groups: dict[tuple[int, tuple[Metric, ...]], tuple[Evidence, dict[str, None]]] = {}
    for job in jobs:
        if _has_families(job):
            groups.setdefault((id(job.evidence), job.metrics), (job.evidence, {}))[1][job.judge] = None
    for (_, metrics), (evidence, judges) in groups.items():
        others = dict.fromkeys(name for judge in judges for name in families.get(judge, ()) if name not in judges)
        for name in others:
            yield from jobs_of(evidence, metrics, name, plan, kept=False)


def jobs_of(
    evidence: Evidence,
    metrics: tuple[Metric, ...],
    judge: str,
    plan: Plan,
    settings: Mapping[tuple[Side, int, int], Mapping[str, float]] = MappingProxyType({}),
    *,
    kept: bool = True,
) -> Iterator[Job]:
    """The judges of one captioner that some metrics share; ``kept``: whether their weights may be stored.

    For a refit, ``settings`` are what the run's own judges chose: (side, seed, fold) -> {"C": 0.1}.
    """
    found = find_judge(with_head(name_self(judge, evidence.captioner, plan.models), metrics[0].head))
    # Judges that are trained jointly choose their settings on both sides, whichever is scored.
    two_sided = compares(metrics) or found.joint is not None
    for seed, split in plan.splits(evidence, metrics[0], judge):
        tested = set(split.test)
        for (side, index), slot in evidence.slots.items():
            # No image of a small fold may have a caption with a high index.
            if not tested.isdisjoint(slot.images) and (two_sided or side == "generated"):
                validates = metrics[0].aggregate == "best" and bool(split.validation)
                chosen = tuple(sorted(settings.get((side, seed, split.fold), {}).items()))
                member = Member(found, evidence.target, slot, split, seed, index, chosen, validates, kept)
                yield Job(evidence, metrics, judge, member)


def most_images(jobs: Sequence[Job]) -> int:
    """The number of images of the captioner that has most."""
    return max(len(job.evidence.sides.classes) for job in jobs)


def compares(metrics: Sequence[Metric]) -> bool:
    """Whether any of the metrics compares two sides."""
    return any(metric.amplification != "one_side" for metric in metrics)


def choose_judges(metric: Metric, judges: Sequence[str]) -> list[str]:
    """Those of ``judges`` with the modalities of ``metric``; else the default, or for images the judge of its paper.

    What is annotated is no text: "linear" reads the names of tasks, or of a class, whatever ``judges`` are.
    """
    known = [find_judge(name) for name in judges]
    if metric.from_annotation:
        return [metric.judge]
    if metric.given:
        return [of for of in judges if of.partition(":")[0] in FEATURES] or [metric.judge]
    fitting = [blueprint.name for blueprint in known if ("image" in blueprint.modalities) == metric.uses_images]
    return fitting or [metric.judge if metric.uses_images else DEFAULT_JUDGE]
