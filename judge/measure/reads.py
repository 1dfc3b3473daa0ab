"""The settings that a row of the table depends on, by their names and as they were resolved: what runs must share.

They are taken from what jobs are given (the plan's parts, the judge's recipe and materials, how images are hidden), so
that a new setting that reaches a judge is compared without being listed here. Data are compared by the ``marks``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from judge.evidence import Preparation, Truth
from judge.judges import SELF
from judge.measure.jobs import Job, compares
from judge.measure.plan import Plan
from judge.metrics import Metric
from judge.text.lexicon import Lexicon
from judge.training.options import TrainingSetup


def settings_of_metric(metric: Metric, plan: Plan, truth: Truth) -> dict[str, Any]:
    """Name -> value, of what a metric reads beside the settings of its judges."""
    found = {"attribute": truth.labels.attribute, "lexicon": _spell(truth.words.attribute), **asdict(plan.text)}
    if metric.reads_tasks:
        found["tasks"] = _spell(truth.words.tasks)
    if metric.counted:
        found["seed"] = plan.first_seed
        return found | (asdict(plan.vocabulary) if metric.counted.labels == "words" else {})
    found |= {"protocol": plan.protocol, "seeds": list(plan.seed_numbers)}
    if plan.protocol == "crossfit":
        found["folds"] = plan.folds
    found["alignment"] = plan.aligning.how or metric.alignment
    if found["alignment"] == "contextual":
        found |= {"vectors": plan.aligning.vectors, "delta": plan.aligning.delta}
    return found | ({"prior": plan.prior} if metric.prior else {})


def settings_of_judge(job: Job, plan: Plan, setup: TrainingSetup) -> dict[str, Any]:
    """Name -> value, of what the judges of a job read."""
    judge = job.member.judge
    trained = setup.is_trained(judge)
    found = setup.settings_of(judge)
    if trained and compares(job.metrics):
        found["refits"] = plan.resamples_of(job.judge, job.evidence.target.kind).get("exchanged", 0)
    if job.evidence.sides.uses_images:
        hidden = setup.masking.get("mask") != "none"
        found |= setup.masking if hidden else {"mask": "none"}
    # "self" is another checkpoint for every captioner.
    if judge.fingerprint and not job.judge.startswith(SELF):
        found["weights"] = digest_of(judge.fingerprint(setup.materials))
    return found


def digest_of(value: object) -> str:
    """A short fingerprint of what ``repr`` says."""
    return hashlib.blake2b(repr(value).encode(), digest_size=8).hexdigest()


def _spell(lexicon: Lexicon | None) -> str | None:
    """Name and fingerprint of a lexicon's words, wherever its file lies."""
    if lexicon is None:
        return None
    words: Mapping[str, Any] = Preparation("", lexicon=lexicon).to_json()["lexicon"]
    return f"{lexicon.name} ({digest_of({**words, 'source': ''})})"
