"""From rows of METRICS to the work of a run: judges to train, captions to count."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import pandas as pd

from judge.corpus import Corpus
from judge.errors import JudgeError
from judge.evidence import MINIMUM_IMAGES, Evidence, EvidenceBuilder, Truth
from judge.evidence.counts import CountRows, count_captions, task_rows
from judge.judges import find_judge, name_self, with_head
from judge.measure.plan import Plan
from judge.metrics import Metric, find_metric, spell_out
from judge.text.lexicon import Lexicons
from judge.training.member import Member
from judge.types import Labels

DEFAULT_JUDGE = "linear"


@dataclass(frozen=True, slots=True)
class Job:
    """A member, the evidence it comes from and the metrics that read its predictions.

    ``judge``: as users type it and tables say it; the member's may be named otherwise ("self" is some checkpoint).
    """

    evidence: Evidence
    metrics: tuple[Metric, ...]
    judge: str
    member: Member


@dataclass(frozen=True, slots=True)
class Work:
    """What a run has to do.

    Attributes:
        truth: what judges are asked of each image, and the words that would tell them.
        metrics: rows of METRICS, in the order in which they were asked for.
        jobs: the judges.
        count_rows: what counted metrics read, one per captioner; none where no metric is counted.
        said: the tasks that captions name and images show, of all captioners; None where no breakdown is asked for.
        sources: fingerprint of labels and human captions, of every labelled image, whichever a captioner describes.
    """

    truth: Truth
    metrics: tuple[Metric, ...]
    jobs: tuple[Job, ...]
    count_rows: tuple[CountRows, ...]
    said: pd.DataFrame | None = None
    sources: str = ""


def lay_out(corpus: Corpus, plan: Plan, lexicons: Lexicons) -> Work:
    """Everything that ``plan`` asks for; what can be refused is refused here.

    Raises:
        JudgeError: unknown metric or judge; captions and labels that cannot be joined; what cannot be counted.
    """
    builder = EvidenceBuilder(corpus, lexicons, options=plan.text, aligning=plan.aligning, least=plan.label_least)
    metrics = tuple(map(find_metric, spell_out(plan.metrics)))
    counted = [metric for metric in metrics if metric.counted]
    folds = plan.folds if plan.protocol == "crossfit" and len(counted) < len(metrics) else 0
    builder.leave_out_small(metrics, max(MINIMUM_IMAGES, folds))
    captioners = corpus.generated if counted else ()
    rows = tuple(count_captions(builder, one, counted, vocabulary=plan.vocabulary) for one in captioners)
    said = [task_rows(builder, one) for one in corpus.generated] if plan.breakdown else []
    jobs = tuple(_jobs(builder, plan, metrics))
    table = pd.concat(said, ignore_index=True) if said else None
    return Work(builder.truth, metrics, jobs, rows, table, _digest(corpus, builder.truth.labels))


def _digest(corpus: Corpus, labels: Labels) -> str:
    digest = hashlib.blake2b(digest_size=8)
    for image, name in sorted(labels.by_image.items()):
        digest.update(repr((image, name, corpus.human.by_image.get(image))).encode())
    return digest.hexdigest()


def _jobs(builder: EvidenceBuilder, plan: Plan, metrics: Sequence[Metric]) -> Iterator[Job]:
    """Every judge to train. Metrics that agree in their evidence share it, and its judges."""
    groups: dict[object, list[Metric]] = {}
    for metric in metrics:
        if not metric.counted:
            groups.setdefault(metric.training, []).append(metric)
    for captioner in builder.corpus.generated:
        for alike in groups.values():
            evidence = builder.build(captioner, alike[0])
            _check_folds(evidence, plan)
            for judge in choose_judges(alike[0], plan.judges):
                yield from jobs_of(evidence, tuple(alike), judge, plan)


def jobs_of(
    evidence: Evidence,
    metrics: tuple[Metric, ...],
    judge: str,
    plan: Plan,
    settings: Mapping[tuple[int, int], Mapping[str, float]] = MappingProxyType({}),
) -> Iterator[Job]:
    """The judges of one captioner, of metrics that share them.

    Args:
        evidence: the run's own, or drawn anew for a refit.
        metrics: rows that read what they say.
        judge: as users type it.
        plan: what to measure.
        settings: what the run's own judges chose, for those of refits: (seed, fold) -> {"C": 0.1}.
    """
    found = find_judge(with_head(name_self(judge, evidence.captioner, plan.models), metrics[0].head))
    # Judges trained jointly choose by both sides, whichever is scored.
    two_sided = compares(metrics) or found.joint is not None
    for seed, split in plan.splits(evidence.classes, metrics[0]):
        chosen = tuple(sorted(settings.get((seed, split.fold), {}).items()))
        held = set(split.test)
        for (side, index), slot in evidence.slots.items():
            # A later caption index may be missing in the whole of a small fold.
            if not held.isdisjoint(slot.images) and (two_sided or side == "generated"):
                validates = metrics[0].aggregate == "best" and bool(split.validation)
                member = Member(found, evidence.target, slot, split, seed, index, chosen, validates)
                yield Job(evidence, metrics, judge, member)


def compares(metrics: Sequence[Metric]) -> bool:
    """Whether any has two sides, which captions could change."""
    return any(metric.amplification != "one_side" for metric in metrics)


def choose_judges(metric: Metric, judges: Sequence[str]) -> list[str]:
    """Those of ``judges`` that have the modalities ``metric`` asks for.

    Where none has, "linear" reads, and the judge of the metric's own paper sees.

    Raises:
        JudgeError: no such judge.
    """
    known = [find_judge(name) for name in judges]
    fitting = [blueprint.name for blueprint in known if ("image" in blueprint.modalities) == metric.uses_images]
    return fitting or [metric.judge if metric.uses_images else DEFAULT_JUDGE]


def _check_folds(evidence: Evidence, plan: Plan) -> None:
    rarest, size = Counter(evidence.classes.values()).most_common()[-1]
    if plan.protocol == "crossfit" and size < plan.folds:
        what = f"{plan.folds} folds, and only {size} images of class '{rarest}'"
        raise JudgeError(what, where=evidence.captioner, mend=f"use --folds {size} or fewer")
