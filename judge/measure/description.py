"""What the numbers of a run depend on, for ``metrics.json`` and the notes below the table."""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import version
from typing import Any

import pandas as pd

from judge.corpus.attributes import ProductLabels, parts_of
from judge.evidence import Joined, Sides, Truth
from judge.evidence.counts import CountRows
from judge.measure.jobs import Job, Work, compares
from judge.measure.plan import Plan
from judge.measure.reads import digest_of, settings_of_judge, settings_of_metric
from judge.metrics import Metric
from judge.statistics.counted import compared_classes
from judge.statistics.summary import Settings
from judge.text.combined import ProductLexicon
from judge.text.lexicon import Lexicon
from judge.training.setup import TrainingSetup
from judge.types import Labels


def describe(
    work: Work,
    notes: Sequence[Mapping[str, float]],
    counts: pd.DataFrame,
    plan: Plan,
    setup: TrainingSetup,
    settings: Settings,
) -> dict[str, Any]:
    """The entry "run" of ``metrics.json``.

    Args:
        work: what was done.
        notes: what judges chose, in the order of ``work.jobs``.
        counts: the rows of ``counts.parquet``.
        plan: what was asked for.
        setup: how judges were trained.
        settings: how rows were summarised.
    """
    truth, metrics = work.truth, work.metrics
    labels, lexicon, words = truth.labels, truth.words.attribute, truth.words.tasks
    annotated = any(
        metric.target == "tasks" or (metric.counted and metric.counted.against == "annotation") for metric in metrics
    )
    return {
        "version": version("caption-judge"),
        "versions": _versions(work.jobs),
        "protocol": plan.protocol,
        "folds": plan.folds if plan.protocol == "crossfit" else None,
        "seeds": list(plan.seed_numbers),
        "attribute": labels.attribute,
        "labels": describe_labels(labels) | _unnamed(labels, lexicon),
        "lexicon": lexicon and {"name": lexicon.name, "source": lexicon.source, **_without_words(lexicon, labels)},
        "tasks": words and {"lexicon": words.name, "source": _source(truth) if annotated else None},
        "judges": list(plan.judges),
        "metrics": [metric.name for metric in metrics],
        "statistics": {
            "resamples": settings.resamples,
            "ratios": {metric.name: settings.ratios[metric.name] for metric in metrics if not metric.counted},
            "untrained": sorted(settings.untrained),
        },
        "prior": plan.prior if any(metric.prior for metric in metrics) else None,
        "ratios": compared_classes(counts, metrics),
        "level": plan.level,
        "refits_asked": plan.refits,
        "refits": {
            kind: max(plan.resamples_of(job.judge, kind).get("exchanged", 0) for job in of)
            for kind in ("attribute", "tasks")
            if (of := [job for job in work.jobs if job.evidence.target.kind == kind and compares(job.metrics)])
        },
        "captioners": _captioners(work, notes, plan, setup),
    }


def _versions(jobs: Sequence[Job]) -> dict[str, str]:
    """Python and the libraries that decide numbers."""
    networks = [job.member.judge for job in jobs if job.member.judge.network]
    names = ["numpy", "scipy", "pandas", "scikit-learn"]
    names += ["torch", "accelerate"] if networks else []
    names += ["timm"] if any(judge.backbone for judge in networks) else []
    names += ["transformers"] if any(judge.fingerprint or judge.reader for judge in networks) else []
    return {"Python": platform.python_version()} | {name: version(name) for name in names}


def describe_labels(labels: Labels) -> dict[str, Any]:
    """The entry "labels"; of several attributes also each of them, and images by class."""
    found = {"source": labels.source, "derived": labels.derived, "ignored": dict(labels.ignored), **_rule(labels)}
    found["agreement"] = labels.agreement
    return found | (labels.describe() if isinstance(labels, ProductLabels) else {})


def _unnamed(labels: Labels, lexicon: Lexicon | None) -> dict[str, Any]:
    """Attribute -> its classes, where no lexicon names them: they are the values that its labels have."""
    silent = lexicon.without_words if isinstance(lexicon, ProductLexicon) else []
    parts = [part for part in parts_of(labels) if lexicon is None or part.attribute in silent]
    return {"unnamed": {part.attribute: list(part.classes) for part in parts}} if parts else {}


def _rule(labels: Labels) -> dict[str, Any]:
    """What was done where an image has several labels."""
    return {"rule": labels.rule} | ({"votes": dict(labels.votes)} if labels.votes else {})


def _without_words(lexicon: Lexicon, labels: Labels) -> dict[str, Any]:
    """Attributes, and classes, that captions cannot name."""
    silent = lexicon.without_words_for(labels.classes)
    found = {"without_words": lexicon.without_words} if isinstance(lexicon, ProductLexicon) else {}
    return found | ({"classes_without_words": silent} if silent else {})


def _source(truth: Truth) -> str:
    """Where the annotated tasks are from."""
    return truth.tasks.source if truth.tasks else "what human captions name"


def _captioners(work: Work, notes: Sequence[Mapping[str, float]], plan: Plan, setup: TrainingSetup) -> dict[str, Any]:
    """Captioner -> what was read of it, and what was left out."""
    entries: dict[str, dict[str, Any]] = {}
    metrics = work.metrics
    for part in work.count_rows:
        entry = entries.setdefault(part.captioner, _entry(part.captioner, part.joined, work, plan))
        entry["dropped"] |= _positive(part.joined.dropped) | _positive(part.dropped)
        entry["counted"] |= part.counted
        entry["marks"] |= _marks_of_counts(part, metrics)
        for metric in metrics:
            if metric.counted:
                entry["reads"].setdefault(metric.name, {})[metric.judge] = settings_of_metric(metric, plan, work.truth)
    keys = setup.precomputed.keys if setup.precomputed else {}
    alone = len({job.metrics for job in work.jobs}) == 1
    for job, chosen in zip(work.jobs, notes, strict=True):
        evidence = job.evidence
        entry = entries.setdefault(evidence.captioner, _entry(evidence.captioner, evidence.sides, work, plan))
        # What cannot be asked of tasks is left out of T->A alone.
        entry["dropped"] |= _positive(evidence.sides.dropped)
        for metric in job.metrics:
            if job.judge in entry["reads"].setdefault(metric.name, {}):
                continue
            settings = settings_of_metric(metric, plan, work.truth) | settings_of_judge(job, plan, setup)
            entry["reads"][metric.name][job.judge] = settings
            entry["marks"][metric.name] = _marks_of_judged(evidence.sides, keys)
            entry["alignment"][metric.name] = {"how": evidence.sides.aligner.how, **asdict(evidence.alignment)}
        _choose(entry, job, chosen, alone=alone)
    return entries


def _entry(name: str, of: Joined | Sides, work: Work, plan: Plan) -> dict[str, Any]:
    counts = Counter(of.classes.values())
    return {
        "images": dict(sorted(counts.items())),
        "without_images": sorted({*work.truth.labels.classes} - {*counts}),
        "marks": {},
        "sources": work.sources,
        "reads": {},
        "dropped": {},
        "alignment": {},
        "coverage": None if of.coverage is None else {side: asdict(part) for side, part in of.coverage.items()},
        "text": {side: asdict(part) for side, part in of.survey.items()},
        "checkpoint": plan.models.get(name),
        "chosen": {},
        "counted": {},
    }


def _marks_of_judged(sides: Sides, keys: Mapping[str, str]) -> dict[str, str]:
    """Marks of what captioners that are compared must share; ``keys``: of what judges see of images."""
    found = _marks(sides.classes) | {"human captions": sides.digests["human"]}
    if sides.target.kind == "tasks":
        found["annotation"] = digest_of(sides.answers)
    if sides.uses_images:
        found["hidden images"] = digest_of([keys.get(image) for image in sides.classes])
    return found


def _marks_of_counts(part: CountRows, metrics: Sequence[Metric]) -> dict[str, dict[str, str]]:
    """The same, of counted metrics by name; the annotation is for those that compare with it."""
    people = _marks(part.joined.classes) | {"human captions": digest_of(part.joined.rows["human"])}
    rows = part.rows[part.rows["side"] == "annotated"]
    shown = {"annotation": digest_of(sorted(rows[["image_id", "objects"]].itertuples(index=False, name=None)))}
    counted = {metric.name: metric.counted for metric in metrics if metric.counted}
    return {name: people | shown if of.against == "annotation" else people for name, of in counted.items()}


def _marks(classes: Mapping[str, str]) -> dict[str, str]:
    return {"images": digest_of(sorted(classes)), "labels": digest_of(sorted(classes.items()))}


def _positive(counts: Mapping[str, int]) -> dict[str, int]:
    return {reason: count for reason, count in counts.items() if count}


def _choose(entry: dict[str, Any], job: Job, chosen: Mapping[str, float], *, alone: bool) -> None:
    """What judges chose by themselves, and how often; ``alone`` where all metrics have the same judges."""
    whose = "" if alone else f"; {', '.join(metric.title for metric in job.metrics)}"
    for name, value in chosen.items():
        sides = entry["chosen"].setdefault(f"{name} ({job.judge}{whose})", {})
        counts = sides.setdefault(job.member.side, {})
        counts[f"{value:g}"] = counts.get(f"{value:g}", 0) + 1
