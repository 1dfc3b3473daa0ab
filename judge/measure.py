"""Walk the rows of METRICS: evidence before the judges, numbers after. ``judge evaluate`` calls this."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib.metadata import version
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from judge.corpus import Corpus
from judge.corpus.splits import Protocol, Split, make_splits
from judge.errors import JudgeError
from judge.evidence import Aligning, Evidence, EvidenceBuilder, TextOptions, Truth, resolve_labels
from judge.judges import find_judge, name_self, with_head
from judge.lexicon import Lexicons
from judge.masking.seen import SeenPictures
from judge.metrics import Metric, find_metric, spell_out
from judge.priors import PriorForm
from judge.statistics.summary import Summary, summarise
from judge.training.members import train_members
from judge.training.workshop import Member, Workshop, name_members
from judge.types import Predictions, Report, Sample, Side

See = Callable[[Sequence[str]], SeenPictures]
DEFAULT_JUDGE = "linear"
SEEDS: dict[Protocol, int] = {"paper": 10, "crossfit": 1}


@dataclass(frozen=True, slots=True)
class Plan:
    """What to measure, and how.

    Attributes:
        metrics: names of rows of METRICS, or of families of them ("dbac": both directions).
        judges: names of judges; every metric is measured with each.
        protocol: "crossfit" (every image scored by a judge that never saw it) or "paper" (LIC's hold-out).
        seeds: repetitions; None for 10 under ``paper`` and 1 under ``crossfit``.
        folds: of ``crossfit``.
        first_seed: seeds are first_seed, first_seed + 1, ...
        text: how captions become words.
        models: captioner -> the checkpoint that wrote its captions, where known: the judge "self".
        aligning: how the human side is made comparable.
        prior: how frequencies of sets of tasks are counted (DBAC, DPAC).
        resamples, level: of intervals and tests.
    """

    metrics: tuple[str, ...] = ("lic", "leakage")
    judges: tuple[str, ...] = ("linear",)
    protocol: Protocol = "crossfit"
    seeds: int | None = None
    folds: int = 10
    first_seed: int = 0
    text: TextOptions = field(default_factory=TextOptions)
    models: Mapping[str, str] = field(default_factory=dict)
    aligning: Aligning = field(default_factory=Aligning)
    prior: PriorForm = "joint"
    resamples: int = 2000
    level: float = 0.95

    @property
    def seed_numbers(self) -> range:
        """The seeds that will run."""
        return range(self.first_seed, self.first_seed + (self.seeds or SEEDS[self.protocol]))

    def splits(self, classes: Mapping[str, str], metric: Metric) -> list[tuple[int, Split]]:
        """(seed, split) for all seeds, over images and their classes.

        Where the best of several trainings counts, all are scored on the images of the first.
        """
        drawn = {
            seed: make_splits(
                self.protocol,
                classes,
                seed=self.first_seed if metric.aggregate == "best" else seed,
                folds=self.folds,
                holdout=metric.holdout,
                balanced=metric.balanced,
            )
            for seed in self.seed_numbers
        }
        return [(seed, split) for seed, splits in drawn.items() for split in splits]


@dataclass(frozen=True)
class Result:
    """What a run found.

    Attributes:
        summaries: one per captioner, metric and judge.
        scores: the rows of ``scores.parquet``.
        run: what the numbers depend on: protocol, labels, coverage, alignment, dropped images, chosen C.
    """

    summaries: tuple[Summary, ...]
    scores: pd.DataFrame
    run: Mapping[str, Any]

    def table(self) -> pd.DataFrame:
        """One row per captioner, metric and judge, values as fractions, absent ones NaN.

        Columns: captioner, metric, judge, human, generated, amplification, sd, low, high, p_value, images, seeds,
        human_quality, generated_quality, human_prior, generated_prior (Q and mean w; of metrics with priors), protocol,
        labels ("given" or "derived"), and the coverage of the generated captions: names_one, names_none,
        names_several (shares), refused, empty (counts).
        """
        return pd.DataFrame([self._row(summary) for summary in self.summaries])

    def _row(self, summary: Summary) -> dict[str, Any]:
        row = asdict(summary)
        row.pop("interval")
        interval = summary.interval
        for name, part in (("quality", row.pop("qualities")), ("prior", row.pop("priors"))):
            row["human_" + name], row["generated_" + name] = part or (float("nan"), float("nan"))
        covered = (self.run["captioners"][summary.captioner]["coverage"] or {}).get("generated", {})
        row |= {
            "low": interval.low if interval else None,
            "high": interval.high if interval else None,
            "protocol": self.run["protocol"],
            "labels": "derived" if self.run["labels"]["derived"] else "given",
        }
        row |= {f"names_{share}": covered.get(share) for share in ("one", "none", "several")}
        row |= {count: covered.get(count) for count in ("refused", "empty")}
        numbers = ("human", "generated", "amplification", "sd", "low", "high", "p_value")
        return row | {name: float("nan") if row[name] is None else row[name] for name in numbers}


def measure(
    corpus: Corpus,
    plan: Plan,
    *,
    lexicons: Lexicons,
    workshop: Workshop | None = None,
    see: See | None = None,
    report: Report | None = None,
    ready: Callable[[], None] | None = None,
) -> Result:
    """Measure every metric of ``plan`` for every captioner of ``corpus``.

    Args:
        corpus: captions of both sides, and labels.
        plan: what to measure.
        lexicons: the words that reveal the attribute, and tasks.
        workshop: how judges are trained.
        report: told of progress.
        see: gives the pictures of images, people hidden; None where there are none.
        ready: called once all that can be refused has been looked at, before the first judge is trained.

    Raises:
        JudgeError: unknown metric or judge; captions and labels that cannot be joined; NaN loss.
    """
    truth = _truth(corpus, plan, lexicons)
    jobs = list(_jobs(corpus, plan, truth))
    workshop = _furnish(workshop or Workshop(), jobs, see)
    if ready:
        ready()
    found = train_members([job.member for job in jobs], workshop, report=report)
    if report:
        report("intervals and tests", 0, 0)
    parts = [
        _rows(job, metric, predictions)
        for captioner in corpus.generated
        for metric in map(find_metric, spell_out(plan.metrics))
        for job, predictions in zip(jobs, found, strict=True)
        if job.evidence.captioner == captioner.name and metric in job.metrics
    ]
    scores = pd.concat(parts, ignore_index=True)
    summaries = summarise(scores, resamples=plan.resamples, level=plan.level, seed=plan.first_seed)
    return Result(tuple(summaries), scores, _describe(jobs, found, plan, truth))


@dataclass(frozen=True, slots=True)
class TrainedJudge:
    """A judge that a run needs, and the name of its files in the workshop's store; several may share them."""

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
    workshop: Workshop,
    see: See | None = None,
    report: Report | None = None,
) -> list[TrainedJudge]:
    """Train all judges that :func:`measure` would ask, and keep them in the workshop's store, where it finds them.

    Raises:
        JudgeError: as ``measure``.
    """
    jobs = list(_jobs(corpus, plan, _truth(corpus, plan, lexicons)))
    members = [job.member for job in jobs]
    workshop = _furnish(workshop, jobs, see).look(members, report)
    train_members(members, workshop, report=report)
    return [
        TrainedJudge(
            job.evidence.captioner,
            tuple(metric.name for metric in job.metrics),
            job.judge,
            job.member.samples[0].side,
            job.member.samples[0].index,
            job.member.seed,
            job.member.split.fold,
            key,
        )
        for job, key in zip(jobs, name_members(members, workshop), strict=True)
    ]


def _furnish(workshop: Workshop, jobs: Sequence[_Job], see: See | None) -> Workshop:
    """A workshop with the pictures that its judges look at."""
    images = sorted({sample.image for job in jobs for sample in job.member.samples if sample.image is not None})
    if not images:
        return workshop
    if see is None:
        names = dict.fromkeys(metric.name for job in jobs for metric in job.metrics if metric.looks)
        what = f"judges of {', '.join(names)} see pictures, and there are none"
        raise JudgeError(what, where="--images", mend="give the folder of pictures")
    return replace(workshop, materials=replace(workshop.materials, pictures=see(images)))


def check(corpus: Corpus, plan: Plan, *, lexicons: Lexicons) -> None:
    """Refuse what ``measure`` would refuse before it looks at a picture.

    Raises:
        JudgeError: as ``measure``.
    """
    for _ in _jobs(corpus, plan, _truth(corpus, plan, lexicons)):
        pass


def _truth(corpus: Corpus, plan: Plan, lexicons: Lexicons) -> Truth:
    labels = resolve_labels(corpus, lexicons.attribute, plan.text)
    return Truth(labels, lexicons, corpus.tasks, plan.prior)


@dataclass(frozen=True, slots=True)
class _Job:
    """A member, the evidence it comes from and the metrics that read its predictions.

    ``judge``: as users type it and tables say it; the member's is where it is found ("self" is some checkpoint).
    """

    evidence: Evidence
    metrics: tuple[Metric, ...]
    judge: str
    member: Member


def _jobs(corpus: Corpus, plan: Plan, truth: Truth) -> Iterator[_Job]:
    """Every judge to train. Metrics that agree in their evidence share it, and its judges."""
    metrics = [find_metric(name) for name in spell_out(plan.metrics)]
    builder = EvidenceBuilder(corpus, truth, options=plan.text, aligning=plan.aligning)
    for captioner in corpus.generated:
        for alike in _group(metrics):
            evidence = builder.build(captioner, alike[0])
            _check_folds(evidence, plan)
            two_sided = any(metric.amplification != "one_side" for metric in alike)
            splits = plan.splits(evidence.classes, alike[0])
            held = {(split.fold, seed): set(split.test) for seed, split in splits}
            for judge in choose_judges(alike[0], plan.judges):
                found = with_head(name_self(judge, captioner.name, plan.models), alike[0].head)
                for seed, split in splits:
                    for (side, _), samples in evidence.samples.items():
                        # A later caption index may be missing in the whole of a small fold.
                        scored = not held[split.fold, seed].isdisjoint(sample.image_id for sample in samples)
                        if scored and (two_sided or side == "generated"):
                            member = Member(found, evidence.target, samples, split, seed)
                            yield _Job(evidence, alike, judge, member)


def choose_judges(metric: Metric, judges: Sequence[str]) -> list[str]:
    """Those of ``judges`` that have the senses ``metric`` asks for.

    Where none has, "linear" reads, and the judge of the metric's own paper sees.

    Raises:
        JudgeError: no such judge.
    """
    known = [find_judge(name) for name in judges]
    fitting = [blueprint.name for blueprint in known if ("image" in blueprint.senses) == metric.looks]
    return fitting or [metric.judge if metric.looks else DEFAULT_JUDGE]


def _group(metrics: Sequence[Metric]) -> list[tuple[Metric, ...]]:
    groups: dict[object, list[Metric]] = {}
    for metric in metrics:
        groups.setdefault(metric.training, []).append(metric)
    return [tuple(group) for group in groups.values()]


def _check_folds(evidence: Evidence, plan: Plan) -> None:
    rarest, size = Counter(evidence.classes.values()).most_common()[-1]
    if plan.protocol == "crossfit" and size < plan.folds:
        raise JudgeError(
            f"{plan.folds} folds, and only {size} images of class '{rarest}'",
            where=evidence.captioner,
            mend=f"use --folds {size} or fewer",
        )


def _rows(job: _Job, metric: Metric, predictions: Predictions) -> pd.DataFrame:
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


def _coverage(evidence: Evidence) -> dict[str, Any] | None:
    return None if evidence.coverage is None else {side: asdict(part) for side, part in evidence.coverage.items()}


def _describe(jobs: Sequence[_Job], found: Sequence[Predictions], plan: Plan, truth: Truth) -> dict[str, Any]:
    """What the numbers depend on, for ``metrics.json`` and the table's footer."""
    labels, lexicon, words = truth.labels, truth.words.attribute, truth.words.tasks
    captioners: dict[str, Any] = {}
    alone = len({job.metrics for job in jobs}) == 1
    asked = any(metric.target == "tasks" for job in jobs for metric in job.metrics)
    for job, predictions in zip(jobs, found, strict=True):
        evidence = job.evidence
        entry = captioners.setdefault(
            evidence.captioner,
            {
                "images": dict(sorted(Counter(evidence.classes.values()).items())),
                "dropped": {},
                "alignment": {},
                "coverage": _coverage(evidence),
                "checkpoint": plan.models.get(evidence.captioner),
                "chosen": {},
            },
        )
        # What cannot be asked of tasks is left out of T->A alone.
        entry["dropped"] |= {reason: count for reason, count in evidence.dropped.items() if count}
        how, kept = evidence.alignment
        for metric in job.metrics:
            entry["alignment"][metric.name] = {"how": how, **asdict(kept)}
        whose = "" if alone else f"; {', '.join(metric.title for metric in job.metrics)}"
        for name, value in predictions.notes.items():
            sides = entry["chosen"].setdefault(f"{name} ({job.judge}{whose})", {})
            counts = sides.setdefault(job.member.samples[0].side, {})
            counts[f"{value:g}"] = counts.get(f"{value:g}", 0) + 1
    return {
        "version": version("caption-judge"),
        "protocol": plan.protocol,
        "folds": plan.folds if plan.protocol == "crossfit" else None,
        "seeds": list(plan.seed_numbers),
        "attribute": labels.attribute,
        "labels": {"source": labels.source, "derived": labels.derived, "ignored": dict(labels.ignored)},
        "lexicon": lexicon and {"name": lexicon.name, "source": lexicon.source},
        "tasks": words
        and {
            "lexicon": words.name,
            "source": truth.tasks.source if asked and truth.tasks else None,
        },
        "judges": list(plan.judges),
        "prior": plan.prior if any(metric.prior for job in jobs for metric in job.metrics) else None,
        "level": plan.level,
        "captioners": captioners,
    }
