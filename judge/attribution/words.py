"""What each word of a caption contributes to a trained judge's answer, by any method that suits the judge.

``occlusion``: of any judge that reads; change of the probability. ``integrated-gradients``: of networks whose own word
embeddings can be followed; log odds. ``exact``: of judges whose log odds are linear in words and pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from judge.attribution.exact import take_apart
from judge.attribution.occlusion import occlude
from judge.attribution.question import Question, WordAttribution
from judge.errors import JudgeError
from judge.judges import HUGGING_FACE
from judge.training.judge_file import Saved
from judge.types import Progress

# Words that a summary names.
LARGEST = 20
COLUMNS = [
    *("judge", "weights", "image_id", "index", "place", "word", "method", "contribution"),
    *("explained", "probability", "base", "total"),
]


def _integrate(question: Question, progress: Progress | None = None) -> WordAttribution:
    from judge.attribution.gradients import integrate

    return integrate(question, progress)


WORD_METHODS: dict[str, Callable[[Question, Progress | None], WordAttribution]] = {
    "exact": take_apart,
    "integrated-gradients": _integrate,
    "occlusion": occlude,
}


def word_methods(saved: Saved) -> dict[str, str]:
    """Method -> "" where words of a judge can be explained by it, else why they cannot."""
    judge = saved.blueprint
    if "caption" in judge.blanked:
        return dict.fromkeys(WORD_METHODS, "it reads no caption")
    return {
        "exact": "" if judge.explain else "its log odds are not linear in words",
        "integrated-gradients": _no_gradients(saved),
        "occlusion": "",
    }


def _no_gradients(saved: Saved) -> str:
    """Why gradients cannot be followed to words; "" where they can."""
    if saved.trains_itself:
        return "it is no network"
    if saved.blueprint.reader:
        return "it learnt from vectors of whole captions, computed by a frozen encoder"
    if saved.judge.startswith(HUGGING_FACE):
        return "its tokens stand among those of a prompt, which words cannot be told from"
    return ""


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
    :class:`~judge.attribution.question.WordAttribution`.
    """
    asked = zip(question.samples, question.classes, question.probabilities, strict=True)
    rows = [
        (sample.image_id, sample.index, place, word, one.method, amount, name, p, one.base[n], one.total[n])
        for n, (sample, name, p) in enumerate(asked)
        for one in found
        for place, (word, amount) in enumerate(zip(sample.words, one.contributions[n], strict=True))
    ]
    table = pd.DataFrame(rows, columns=COLUMNS[2:])
    table.insert(0, "judge", question.saved.judge)
    table.insert(1, "weights", question.saved.path.name)
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
