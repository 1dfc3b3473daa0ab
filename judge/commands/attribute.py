"""``judge attribute``: which words, and which pixels, trained judges' answers come from."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from judge.attribution.question import Question, pose
from judge.attribution.words import WordAttribution, attribute_words, summary_of_words, word_methods, word_table
from judge.commands.asked import read_asked
from judge.commands.labels import labels_of
from judge.config import AttributeConfig
from judge.errors import JudgeError
from judge.training.saved import Saved
from judge.types import Labels, Progress, Words
from judge.utils.files import OutputFolder

WORDS, SUMMARY, SETTINGS = "words.csv", "attribution.json", "attribute.yaml"
# Captions that are printed.
SHOWN = 5


@dataclass(frozen=True, slots=True)
class ShadedCaption:
    """A caption whose words contribute much: whose answer, by which method, and how much each word adds to it."""

    judge: str
    method: str
    image: str
    explained: str
    probability: float
    words: Words
    contributions: Sequence[float]


@dataclass(frozen=True, slots=True)
class Attributed:
    """What ``judge attribute`` did.

    Attributes:
        judges: those asked.
        captions, images: that were explained, of the judge with most.
        examples: captions of the largest contributions, those first.
        notes: what a user must know, a line each.
    """

    judges: Sequence[str]
    captions: int
    images: int
    examples: Sequence[ShadedCaption]
    notes: Sequence[str]


@dataclass(frozen=True)
class _Explained:
    """What one judge's answers come from."""

    weights: str
    question: Question
    words: Sequence[WordAttribution]

    @property
    def images(self) -> int:
        return len({sample.image_id for sample in self.question.samples})

    def to_json(self) -> dict[str, Any]:
        saved = self.question.saved
        return {
            "judge": saved.judge,
            "weights": self.weights,
            "target": saved.target.kind,
            "classes": list(saved.target.classes),
            "learnt_from": {name: saved.data.get(name) for name in ("captioner", "side", "index", "seed", "fold")},
            "captions": len(self.question.samples),
            "images": self.images,
            "words": {one.method: summary_of_words(self.question, one) for one in self.words},
        }


def attribute(config: AttributeConfig, *, progress: Progress | None = None) -> Attributed:
    """Explain the answers of trained judges about captions; write ``words.csv`` and ``attribution.json`` to ``out``.

    Raises:
        JudgeError: anything that the user can mend; nothing is left behind.
    """
    out = OutputFolder(config.out, marker=SUMMARY, what="attribution", overwrite=config.overwrite)
    out.check()
    out.keep(config.inputs())
    labels = labels_of(config)
    found, notes = list[_Explained](), list[str]()
    for reference in config.judge_weights:
        explained, told = _explain(config, reference, labels, progress)
        found.append(explained)
        notes += [line for line in told if line not in notes]
    out.begin()
    with out.working(), out.writing():
        _write(out.partial, config, found)
        out.publish()
    largest = max(found, key=lambda one: len(one.question.samples))
    names = [one.question.saved.judge for one in found]
    return Attributed(names, len(largest.question.samples), largest.images, _examples(found), notes)


def _explain(
    config: AttributeConfig, reference: str, labels: Labels | None, progress: Progress | None
) -> tuple[_Explained, list[str]]:
    """One judge's answers; and what a user must know."""
    own = config.of_judge(reference)
    asked = read_asked(own, progress)
    methods = _methods(config, asked.saved)
    question, notes = pose(
        asked.saved,
        asked.parts,
        features=config.features,
        pictures=asked.pictures,
        labels=labels,
        progress=progress,
    )
    if left := sum(map(len, asked.parts)) - len(question.samples):
        notes.append(f"{left} captions are of images without a label; they are left out")
    words = [attribute_words(question, method, progress) for method in methods]
    return _Explained(reference, question, words), [*asked.notes(own), *notes]


def _methods(config: AttributeConfig, saved: Saved) -> list[str]:
    """Those asked for, else all that the judge allows.

    Raises:
        JudgeError: the judge allows none of them.
    """
    faults = word_methods(saved)
    allowed = [method for method, fault in faults.items() if not fault]
    chosen = [method for method in config.methods or allowed if method in allowed]
    if not chosen:
        asked = config.methods[0] if config.methods else next(iter(faults))
        what = f"judge '{saved.judge}' cannot be explained by {asked}"
        what += f": {faults[asked]}" if faults.get(asked) else ""
        mend = f"choose of {', '.join(allowed)}" if allowed else "choose another judge"
        raise JudgeError(what, where="--methods", mend=mend)
    return chosen


def _write(folder: Path, config: AttributeConfig, found: Sequence[_Explained]) -> None:
    tables = [word_table(one.question, one.words) for one in found]
    pd.concat(tables, ignore_index=True).to_csv(folder / WORDS, index=False, lineterminator="\n")
    told: Mapping[str, Any] = {"judges": [one.to_json() for one in found]}
    (folder / SUMMARY).write_text(json.dumps(told, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    (folder / SETTINGS).write_text(config.to_yaml(), encoding="utf-8")


def _examples(found: Sequence[_Explained]) -> list[ShadedCaption]:
    """The captions of the largest contribution of a word, no two of the same words, of each judge's first method."""
    made = []
    for one in found:
        for attributed in one.words[:1]:
            sizes = [np.abs(amounts).max(initial=0.0) for amounts in attributed.contributions]
            seen = set[Words]()
            for n in np.argsort(sizes, kind="stable")[::-1].tolist():
                sample = one.question.samples[n]
                if len(seen) < SHOWN and sizes[n] and sample.words not in seen:
                    seen.add(sample.words)
                    about = one.question.classes[n], float(one.question.probabilities[n])
                    amounts = attributed.contributions[n].tolist()
                    name = one.question.saved.judge
                    made.append(ShadedCaption(name, attributed.method, sample.image_id, *about, sample.words, amounts))
    return made
