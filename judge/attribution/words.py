"""What each word of a caption contributes to a trained judge's answer.

``occlusion``: by how much the probability of the class falls when the word is replaced by ``<unk>`` (LIC, figure 1:
Hirota et al., CVPR 2022); of any judge. Positive: the word speaks for the class.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from judge.attribution.question import Question
from judge.errors import JudgeError
from judge.text.alignment import UNKNOWN
from judge.training.saved import Saved
from judge.types import FloatArray, Progress, Sample

# Words that a summary names.
LARGEST = 20
COLUMNS = [
    *("judge", "image_id", "index", "place", "word", "method", "contribution"),
    *("explained", "probability", "base", "total"),
]


@dataclass(frozen=True)
class WordAttribution:
    """What words contribute to N answers.

    Attributes:
        method: how that was found.
        contributions: of each caption's words, in order, [N] of [words].
        base: what the answers would be without any word, [N]; base and contributions add up to the total. NaN where
            contributions of a method do not add up.
        total: what is explained, [N]: a probability (occlusion) or log odds.
    """

    method: str
    contributions: Sequence[FloatArray]
    base: FloatArray
    total: FloatArray


def occlude(question: Question, progress: Progress | None = None) -> WordAttribution:
    """By how much the probability falls when each word is replaced by ``<unk>``, in [-1, 1]; 0 for ``<unk>`` itself."""
    samples = question.samples
    places = [(n, place) for n, one in enumerate(samples) for place, word in enumerate(one.words) if word != UNKNOWN]
    found = [np.zeros(len(sample.words)) for sample in samples]
    before = question.probabilities
    if places:
        after = question.ask([_without(samples[n], place) for n, place in places], progress).probabilities
        for (n, place), row in zip(places, after, strict=True):
            found[n][place] = before[n] - row[question.explained[n]]
    return WordAttribution("occlusion", found, np.full(len(samples), np.nan), before)


def _without(sample: Sample, place: int) -> Sample:
    return replace(sample, words=(*sample.words[:place], UNKNOWN, *sample.words[place + 1 :]))


Attributing = Callable[[Question, Progress | None], WordAttribution]
WORD_METHODS: dict[str, Attributing] = {"occlusion": occlude}


def word_methods(saved: Saved) -> dict[str, str]:
    """Methods by which words of a judge can be explained -> "", or why they cannot."""
    reads = "caption" in saved.blueprint.modalities - saved.blueprint.blanked
    return {"occlusion": "" if reads else "it reads no caption"}


def attribute_words(question: Question, method: str, progress: Progress | None = None) -> WordAttribution:
    """What the words of captions contribute to a judge's answers.

    Args:
        question: judge, captions and the class explained.
        method: one of ``WORD_METHODS``.
        progress: called with the progress.

    Raises:
        JudgeError: the judge cannot be explained so.
    """
    if fault := word_methods(question.saved)[method]:
        what = f"judge '{question.saved.judge}' cannot be explained by {method}: {fault}"
        raise JudgeError(what, where=f"--methods {method}", mend="leave it out")
    return WORD_METHODS[method](question, progress)


def word_table(question: Question, found: Sequence[WordAttribution]) -> pd.DataFrame:
    """One row per caption, word and method, by caption, then method, then place: the columns of ``words.csv``.

    ``explained``: the class; ``probability``: what the judge gives it; ``base`` and ``total``: see
    :class:`WordAttribution`.
    """
    asked = zip(question.samples, question.classes, question.probabilities, strict=True)
    rows = [
        (sample.image_id, sample.index, place, word, one.method, amount, name, p, one.base[n], one.total[n])
        for n, (sample, name, p) in enumerate(asked)
        for one in found
        for place, (word, amount) in enumerate(zip(sample.words, one.contributions[n], strict=True))
    ]
    table = pd.DataFrame(rows, columns=COLUMNS[1:])
    table.insert(0, "judge", question.saved.judge)
    return table


def summary_of_words(question: Question, found: WordAttribution) -> dict[str, Any]:
    """What ``attribution.json`` says of a method: how many captions and words, and the words that count most.

    ``words``: those of the largest sum of contributions by size: in how many captions, and the mean for each class
    explained. ``gap``: the largest distance between ``total`` and the sum of base and contributions; null where these
    do not add up.
    """
    table = word_table(question, [found])
    told = table.assign(size=table["contribution"].abs())
    sizes = told.groupby("word", sort=True)["size"].sum().sort_values(ascending=False, kind="stable")
    means = told.groupby(["word", "explained"])["contribution"].mean()
    counts = told.drop_duplicates(["image_id", "index", "word"])["word"].value_counts()
    words = [
        {"word": word, "captions": int(counts[word]), "mean": {str(k): float(v) for k, v in means[word].items()}}
        for word in sizes.index[:LARGEST]
    ]
    sums = np.array([amounts.sum() for amounts in found.contributions])
    gap = np.abs(found.base + sums - found.total).max(initial=0.0)
    return {
        "captions": len(question.samples),
        "words_in_all": len(table),
        "mean_size": float(told["size"].mean()) if len(told) else None,
        "gap": float(gap) if np.isfinite(gap) else None,
        "words": words,
    }
