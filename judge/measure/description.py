"""The entry "run" of ``metrics.json``: what the numbers of a run depend on.

``reads`` are the resolved settings behind a row, by name; runs must share them to be compared. They come from the
objects that jobs get (the plan's parts, the judge's recipe and materials, how images are hidden), so that a new setting
is compared without being listed here. ``marks`` are checksums of the data.
"""

import hashlib
import platform
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import version
from typing import Any

from judge.corpus.attributes import ProductLabels, parts_of
from judge.evidence import Joined, Preparation, Sides
from judge.evidence.counts import CountRows
from judge.judges.names import HUGGING_FACE, SELF, find_judge
from judge.measure.jobs import Job, Work, compares, most_images
from judge.measure.plan import Plan
from judge.metrics import Metric
from judge.statistics.counted import compared_classes
from judge.statistics.summary import Settings
from judge.text.combined import ProductLexicon
from judge.text.lexicon import Lexicon
from judge.text.tokens import SEGMENTED
from judge.training.member import TrainingSetup, settings_of
from judge.types import SIDES, Labels
from judge.utils.identity import key_of


def describe(
    work: Work, notes: Sequence[Mapping[str, float]], plan: Plan, setup: TrainingSetup, settings: Settings
) -> dict[str, Any]:
    """The entry "run" of ``metrics.json``; ``notes``: what judges chose, in the order of ``work.jobs``."""
    truth, metrics = work.truth, work.metrics
    labels, lexicon, words = truth.labels, truth.words.attribute, truth.words.tasks
    annotated = any(of.reads_annotated_tasks or (of.counted and of.counted.against == "annotation") for of in metrics)
    source = truth.tasks.source if truth.tasks else "what human captions name"
    return {
        "version": version("caption-judge"),
        "versions": _versions(work, setup),
        "protocol": plan.protocol,
        "folds": plan.folds if plan.protocol == "crossfit" else None,
        "seeds": sorted({plan.first_seed, *(job.member.seed for job in work.jobs)}),
        "attribute": labels.attribute,
        "labels": describe_labels(labels) | _unnamed(labels, lexicon),
        "lexicon": lexicon and {"name": lexicon.name, "source": lexicon.source, **_without_words(lexicon, labels)},
        "tasks": words and {"lexicon": words.name, "source": source if annotated else None},
        "judges": list(plan.judges),
        "metrics": work.names,
        "statistics": {
            "resamples": settings.resamples,
            "ratios": {metric.name: settings.ratios[metric.name] for metric in metrics if not metric.counted},
            "untrained": sorted(settings.untrained),
        },
        "ratios": compared_classes(work.counts, metrics),
        "level": plan.level,
        "small": plan.small,
        **({"baseline": plan.baseline} if plan.baseline else {}),
        "refits_asked": plan.refits,
        "refits": {
            kind: max(of)
            for kind in ("attribute", "tasks")
            if (of := [_refits(job, plan, work) for job in work.jobs if job.evidence.target.kind == kind])
        }
        | ({"given": max(of.refits for of in work.conditional)} if work.conditional else {}),
        "masks": None,  # Where judges see images, their measures take its place.
        "captioners": _captioners(work, notes, plan, setup),
    }


def _versions(work: Work, setup: TrainingSetup) -> dict[str, str]:
    """Versions of Python, and of the libraries and plugins that compute the numbers."""
    judges, lexicon = [job.member.judge for job in work.jobs], work.truth.words.attribute
    networks = [judge for judge in judges if judge.network]
    names = ["numpy", "scipy", "pandas", "scikit-learn"]
    names += ["torch", "accelerate"] if networks else []
    from_hub = (setup.materials.backbone or "").startswith(HUGGING_FACE)
    names += ["transformers" if from_hub else "timm"] if any(judge.backbone for judge in networks) else []
    names += ["transformers"] if any(judge.fingerprint or judge.reader for judge in networks) else []
    names += ["icu4py"] if lexicon and lexicon.language in SEGMENTED else []
    origins = {*(judge.origin for judge in judges), *(metric.origin for metric in work.metrics)} - {""}
    names += sorted(owner.split()[0] for owner in origins)
    return {"Python": platform.python_version()} | {name: version(name) for name in names}


def describe_labels(labels: Labels) -> dict[str, Any]:
    """The entry "labels"; for several attributes also each of them, and images by class."""
    found = {"source": labels.source, "derived": labels.derived, "ignored": dict(labels.ignored), "rule": labels.rule}
    found |= {"votes": dict(labels.votes)} if labels.votes else {}
    found |= {"scenes": len({*labels.scenes.values()})} if labels.scenes else {}
    return found | {"agreement": labels.agreement} | (labels.describe() if isinstance(labels, ProductLabels) else {})


def _unnamed(labels: Labels, lexicon: Lexicon | None) -> dict[str, Any]:
    """Attribute -> its classes, for attributes without a lexicon: the values of its labels."""
    silent = lexicon.without_words if isinstance(lexicon, ProductLexicon) else []
    parts = [part for part in parts_of(labels) if lexicon is None or part.attribute in silent]
    return {"unnamed": {part.attribute: list(part.classes) for part in parts}} if parts else {}


def _without_words(lexicon: Lexicon, labels: Labels) -> dict[str, Any]:
    silent = lexicon.without_words_for(labels.classes)
    found = {"without_words": lexicon.without_words} if isinstance(lexicon, ProductLexicon) else {}
    return found | ({"classes_without_words": silent} if silent else {})


def _captioners(work: Work, notes: Sequence[Mapping[str, float]], plan: Plan, setup: TrainingSetup) -> dict[str, Any]:
    """Captioner -> the data behind its rows, and what was left out."""
    entries: dict[str, dict[str, Any]] = {}
    for part in work.count_rows:
        entry = entries.setdefault(part.captioner, _entry(part.captioner, part.joined, work, plan))
        entry["dropped"] |= _positive(part.joined.dropped) | _positive(part.dropped)
        entry["counted"] |= part.counted
        entry["marks"] |= _marks_of_counts(part, work.metrics)
        for metric in work.metrics:
            if metric.counted:
                entry["reads"].setdefault(metric.name, {})[metric.judge] = _settings_of_metric(metric, plan, work)
    keys = setup.precomputed.keys if setup.precomputed else {}
    alone = len({job.metrics for job in work.jobs}) == 1
    for job, chosen in zip(work.jobs, notes, strict=True):
        sides = job.evidence.sides
        entry = entries.setdefault(sides.captioner, _entry(sides.captioner, sides, work, plan))
        # Tasks that judges cannot guess are left out of T->A alone.
        entry["dropped"] |= _positive(sides.dropped)
        if not sides.guesses_names:  # Others read captions as wholes.
            entry["sentences"] = dict(sides.sentences)
        for metric in job.metrics:
            if job.judge in entry["reads"].setdefault(metric.name, {}):
                continue
            settings = _settings_of_metric(metric, plan, work) | _settings_of_judge(job, plan, work, setup)
            entry["reads"][metric.name][job.judge] = settings
            entry["marks"][metric.name] = _marks_of_judged(sides, keys, compared=compares([metric]))
            if not work.corpus.alone:
                entry["alignment"][metric.name] = {"how": sides.aligner.how, **asdict(job.evidence.alignment())}
        whose = "" if alone else f"; {', '.join(metric.title for metric in job.metrics)}"
        for name, value in chosen.items():
            counts = entry["chosen"].setdefault(f"{name} ({job.judge}{whose})", {}).setdefault(job.member.side, {})
            counts[f"{value:g}"] = counts.get(f"{value:g}", 0) + 1
    _add_conditional(entries, work, plan, setup)
    for (name, metric_name, judge), (why, joined) in work.without_value.items():
        entry = entries.setdefault(name, _entry(name, joined, work, plan))
        entry["without_value"].setdefault(metric_name, {})[judge] = why
    return {of.name: entries[of.name] for of in work.corpus.generated if of.name in entries}


def _add_conditional(entries: dict[str, dict[str, Any]], work: Work, plan: Plan, setup: TrainingSetup) -> None:
    for request in work.conditional:
        of = request.of
        entry = entries.setdefault(of.captioner, _entry(of.captioner, of.joined, work, plan))
        entry["dropped"] |= _positive(of.joined.dropped)
        settings = _settings_of_metric(of.metric, plan, work) | {"refits": request.refits, "seeds": [request.seed]}
        settings |= _masking(setup) if of.metric.uses_images else {}
        if embedding := find_judge(request.judge).fingerprint:
            settings["weights"] = key_of(embedding(setup.materials))
        entry["reads"].setdefault(of.metric.name, {})[request.judge] = settings
        marks = _marks(of.joined.classes) | {"human captions": _checksum(of.human)}
        marks |= {"annotation": _checksum(of.objects.tobytes())} if of.objects.size else {}
        marks |= {"hidden images": of.seen} if of.seen else {}
        entry["marks"][of.metric.name] = marks


def _entry(name: str, of: Joined | Sides, work: Work, plan: Plan) -> dict[str, Any]:
    counts, sides = Counter(of.classes.values()), {"generated"} if work.corpus.alone else {*SIDES}
    covered = {side: asdict(part) for side, part in (of.coverage or {}).items() if side in sides}
    return {
        "images": dict(sorted(counts.items())),
        "without_images": sorted({*work.truth.labels.classes} - {*counts}),
        "marks": {},
        "sources": work.sources,
        "reads": {},
        "dropped": {},
        "alignment": {},
        "coverage": covered or None,
        "text": {side: asdict(part) for side, part in of.survey.items() if side in sides},
        "sentences": dict(of.sentences),
        "checkpoint": plan.models.get(name),
        "chosen": {},
        "counted": {},
        "without_value": {},
        "rewarded_by": None,
        "masks": None,
    }


def _settings_of_metric(metric: Metric, plan: Plan, work: Work) -> dict[str, Any]:
    truth = work.truth
    found = {"attribute": truth.labels.attribute, "lexicon": _spell(truth.words.attribute), **asdict(plan.text)}
    del found["language"]  # It is the lexicons'.
    found["scenes"] = _checksum(sorted(truth.labels.scenes.items())) if truth.labels.scenes else None
    found |= {"plugin": metric.origin} if metric.origin else {}
    if metric.reads_tasks:
        found["tasks"] = _spell(truth.words.tasks)
    if metric.counted:
        found["seed"] = plan.first_seed
        return found | (asdict(plan.vocabulary) if metric.counted.labels == "words" else {})
    if metric.given:  # Its judges have no folds, and read captions as they are.
        return found
    found |= {"protocol": plan.protocol}
    if plan.protocol == "crossfit":
        found["folds"] = plan.folds
    found["alignment"] = "none" if metric.from_annotation else plan.aligning.how or metric.alignment
    if found["alignment"] == "contextual":
        found |= {"vectors": plan.aligning.vectors, "delta": plan.aligning.delta}
    return found


def _refits(job: Job, plan: Plan, work: Work) -> int:
    return plan.resamples_of(job.judge, job.evidence.target.kind, most_images(work.jobs)).get("exchanged", 0)


def _settings_of_judge(job: Job, plan: Plan, work: Work, setup: TrainingSetup) -> dict[str, Any]:
    judge = job.member.judge
    found: dict[str, Any] = {}
    if setup.is_trained(judge):  # First: of two runs the first setting that differs is named, and seeds follow from it.
        found["refits"] = _refits(job, plan, work)
    found |= {"seeds": list(plan.seeds_of(job.metrics[0], job.judge))} | settings_of(judge, setup)
    if job.evidence.sides.uses_images:
        found |= _masking(setup)
    # "self" is another checkpoint for every captioner.
    if judge.fingerprint and not job.judge.startswith(SELF):
        found["weights"] = key_of(judge.fingerprint(setup.materials))
    return found


def _masking(setup: TrainingSetup) -> Mapping[str, Any]:
    return setup.masking if setup.masking.get("mask") != "none" else {"mask": "none"}


def _checksum(value: object) -> str:
    return hashlib.blake2b(repr(value).encode(), digest_size=8).hexdigest()


def _spell(lexicon: Lexicon | None) -> str | None:
    """Name and checksum of a lexicon's words, wherever its file is."""
    if lexicon is None:
        return None
    words: Mapping[str, Any] = Preparation("", lexicon=lexicon).to_json()["lexicon"]
    return f"{lexicon.name} ({_checksum({**words, 'source': ''})})"


def _marks_of_judged(sides: Sides, keys: Mapping[str, str], *, compared: bool) -> dict[str, str]:
    """Checksums of the data that compared captioners must share; ``keys``: image id -> key of its hidden image."""
    found = _marks(sides.classes) | ({"human captions": sides.digests["human"]} if compared else {})
    if sides.target.kind == "tasks":
        found["annotation"] = _checksum(sides.answers)
    if sides.uses_images:
        found["hidden images"] = _checksum([keys.get(image) for image in sides.classes])
    return found


def _marks_of_counts(part: CountRows, metrics: Sequence[Metric]) -> dict[str, dict[str, str]]:
    """The same for counted metrics, by name; those that compare with the annotation share it too."""
    human = _marks(part.joined.classes) | {"human captions": _checksum(part.joined.rows["human"])}
    rows = part.rows[part.rows["side"] == "annotated"]
    shown = {"annotation": _checksum(sorted(rows[["image_id", "objects"]].itertuples(index=False, name=None)))}
    counted = {metric.name: metric.counted for metric in metrics if metric.counted}
    return {name: human | shown if of.against == "annotation" else human for name, of in counted.items()}


def _marks(classes: Mapping[str, str]) -> dict[str, str]:
    return {"images": _checksum(sorted(classes)), "labels": _checksum(sorted(classes.items()))}


def _positive(counts: Mapping[str, int]) -> dict[str, int]:
    return {reason: count for reason, count in counts.items() if count}
