"""Walk the rows of METRICS: evidence before the judges, numbers after. ``judge evaluate`` calls this."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib.metadata import version
from typing import Any

import numpy as np
import pandas as pd

from judge.corpus import Corpus
from judge.corpus.splits import Protocol, Split, make_splits
from judge.errors import JudgeError
from judge.evidence import Evidence, TextOptions, build_evidence, resolve_labels
from judge.judges import find_judge, name_self
from judge.lexicon import Lexicon
from judge.masking.seen import SeenPictures
from judge.metrics import Metric, find_metric
from judge.statistics.summary import Summary, summarise
from judge.training.members import train_members
from judge.training.workshop import Member, Workshop, name_members
from judge.types import Labels, Predictions, Report, Side

See = Callable[[Sequence[str]], SeenPictures]
DEFAULT_JUDGE = "linear"
SEEDS: dict[Protocol, int] = {"paper": 10, "crossfit": 1}


@dataclass(frozen=True, slots=True)
class Plan:
    """What to measure, and how.

    Attributes:
        metrics: names of rows of METRICS.
        judges: names of judges; every metric is measured with each.
        protocol: "crossfit" (every image scored by a judge that never saw it) or "paper" (LIC's hold-out).
        seeds: repetitions; None for 10 under ``paper`` and 1 under ``crossfit``.
        folds: of ``crossfit``.
        first_seed: seeds are first_seed, first_seed + 1, ...
        text: how captions become words.
        models: captioner -> the checkpoint that wrote its captions, where known: the judge "self".
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
    resamples: int = 2000
    level: float = 0.95

    @property
    def seed_numbers(self) -> range:
        """The seeds that will run."""
        return range(self.first_seed, self.first_seed + (self.seeds or SEEDS[self.protocol]))

    def splits(self, classes: Mapping[str, str], seed: int, holdout: tuple[float, float]) -> list[Split]:
        """The splits of one seed over images and their classes; ``holdout``: the metric's."""
        return make_splits(self.protocol, classes, seed=seed, folds=self.folds, holdout=holdout)


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
        protocol, labels ("given" or "derived"), and the coverage of the generated captions: names_one, names_none,
        names_several (shares), refused, empty (counts).
        """
        return pd.DataFrame([self._row(summary) for summary in self.summaries])

    def _row(self, summary: Summary) -> dict[str, Any]:
        row = asdict(summary)
        row.pop("interval")
        interval = summary.interval
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
    lexicon: Lexicon | None,
    workshop: Workshop | None = None,
    see: See | None = None,
    report: Report | None = None,
    ready: Callable[[], None] | None = None,
) -> Result:
    """Measure every metric of ``plan`` for every captioner of ``corpus``.

    Args:
        corpus: captions of both sides, and labels.
        plan: what to measure.
        lexicon: the words that reveal the attribute; None where none do.
        workshop: how judges are trained.
        report: told of progress.
        see: gives the pictures of images, people hidden; None where there are none.
        ready: called once all that can be refused has been looked at, before the first judge is trained.

    Raises:
        JudgeError: unknown metric or judge; captions and labels that cannot be joined; NaN loss.
    """
    labels = resolve_labels(corpus, lexicon, plan.text)
    jobs = list(_jobs(corpus, plan, labels=labels, lexicon=lexicon))
    workshop = _furnish(workshop or Workshop(), jobs, see)
    if ready:
        ready()
    found = train_members([job.member for job in jobs], workshop, report=report)
    if report:
        report("intervals and tests", 0, 0)
    parts = [
        _rows(job, metric, predictions)
        for captioner in corpus.generated
        for metric in map(find_metric, plan.metrics)
        for job, predictions in zip(jobs, found, strict=True)
        if job.evidence.captioner == captioner.name and metric in job.metrics
    ]
    scores = pd.concat(parts, ignore_index=True)
    summaries = summarise(scores, resamples=plan.resamples, level=plan.level, seed=plan.first_seed)
    return Result(tuple(summaries), scores, _describe(jobs, found, plan, labels=labels, lexicon=lexicon))


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
    lexicon: Lexicon | None,
    workshop: Workshop,
    see: See | None = None,
    report: Report | None = None,
) -> list[TrainedJudge]:
    """Train all judges that :func:`measure` would ask, and keep them in the workshop's store, where it finds them.

    Raises:
        JudgeError: as ``measure``.
    """
    labels = resolve_labels(corpus, lexicon, plan.text)
    jobs = list(_jobs(corpus, plan, labels=labels, lexicon=lexicon))
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


def check(corpus: Corpus, plan: Plan, *, lexicon: Lexicon | None) -> None:
    """Refuse what ``measure`` would refuse before it looks at a picture.

    Raises:
        JudgeError: as ``measure``.
    """
    labels = resolve_labels(corpus, lexicon, plan.text)
    for _ in _jobs(corpus, plan, labels=labels, lexicon=lexicon):
        pass


@dataclass(frozen=True, slots=True)
class _Job:
    """A member, the evidence it comes from and the metrics that read its predictions.

    ``judge``: as users type it and tables say it; the member's is where it is found ("self" is some checkpoint).
    """

    evidence: Evidence
    metrics: tuple[Metric, ...]
    judge: str
    member: Member


def _jobs(corpus: Corpus, plan: Plan, *, labels: Labels, lexicon: Lexicon | None) -> Iterator[_Job]:
    """Every judge to train. Metrics that agree in their evidence share it, and its judges."""
    metrics = [find_metric(name) for name in plan.metrics]
    for captioner in corpus.generated:
        for alike in _group(metrics):
            evidence = build_evidence(
                corpus, captioner, metric=alike[0], labels=labels, lexicon=lexicon, options=plan.text
            )
            _check_folds(evidence, plan)
            two_sided = any(metric.amplification != "one_side" for metric in alike)
            splits = [
                (seed, split)
                for seed in plan.seed_numbers
                for split in plan.splits(evidence.classes, seed, alike[0].holdout)
            ]
            held = {(split.fold, seed): set(split.test) for seed, split in splits}
            for judge in choose_judges(alike[0], plan.judges):
                found = name_self(judge, captioner.name, plan.models)
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
        groups.setdefault(metric.evidence, []).append(metric)
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
    test, classes = job.member.test(), np.array(job.member.target.classes, dtype=object)
    truth = np.array([sample.answers[0] for sample in test])
    return pd.DataFrame(
        {
            "image_id": [sample.image_id for sample in test],
            "captioner": job.evidence.captioner,
            "side": test[0].side,
            "index": test[0].index,
            "metric": metric.name,
            "judge": job.judge,
            "seed": job.member.seed,
            "fold": job.member.split.fold,
            "answer": classes[truth],
            "probability": predictions.probabilities[np.arange(len(test)), truth],
            "predicted": classes[predictions.probabilities.argmax(axis=1)],
        }
    )


def _coverage(evidence: Evidence) -> dict[str, Any] | None:
    return None if evidence.coverage is None else {side: asdict(part) for side, part in evidence.coverage.items()}


def _describe(
    jobs: Sequence[_Job], found: Sequence[Predictions], plan: Plan, *, labels: Labels, lexicon: Lexicon | None
) -> dict[str, Any]:
    """What the numbers depend on, for ``metrics.json`` and the table's footer."""
    captioners: dict[str, Any] = {}
    for job, predictions in zip(jobs, found, strict=True):
        evidence = job.evidence
        entry = captioners.setdefault(
            evidence.captioner,
            {
                "images": dict(sorted(Counter(evidence.classes.values()).items())),
                "dropped": {reason: count for reason, count in evidence.dropped.items() if count},
                "alignment": {},
                "coverage": _coverage(evidence),
                "checkpoint": plan.models.get(evidence.captioner),
                "chosen": {},
            },
        )
        for metric in job.metrics:
            entry["alignment"][metric.name] = {"how": metric.alignment, **asdict(evidence.alignment)}
        for name, value in predictions.notes.items():
            sides = entry["chosen"].setdefault(f"{name} ({job.judge})", {})
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
        "level": plan.level,
        "captioners": captioners,
    }
