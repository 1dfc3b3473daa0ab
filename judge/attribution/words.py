"""How much each word of a caption contributes to a trained judge's answer.

``occlusion``, for every judge that reads captions: by how much the probability falls when the word becomes ``<unk>``
(Hirota et al., CVPR 2022, figure 1). ``exact``, for ``linear``: its log-odds are a sum over words and word pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from judge.attribution.explained_answers import ExplainedAnswers, WordAttribution
from judge.errors import JudgeError
from judge.judges.linear import LinearJudge
from judge.text.alignment import UNKNOWN
from judge.training.judge_file import Saved, open_self_trained
from judge.types import FloatArray, Progress, Sample

# Number of words in a summary.
LARGEST = 20
COLUMNS = [
    *("judge", "weights", "image_id", "index", "place", "word", "method", "contribution"),
    *("explained", "probability", "base", "total"),
]
# Sums of thousands of float64 are accurate to this.
_EXACT = 1e-9


def exact(answers: ExplainedAnswers, progress: Progress | None = None) -> WordAttribution:
    """What each word adds to the log-odds of the explained class (natural logarithm; ``LinearJudge.log_odds``).

    ``base`` is the judge's intercept; base and contributions sum to ``total`` within 1e-9. Non-linear parts (log-odds
    clipped at 36, or one of three or more classes that training never showed) are added to the base.
    """
    judge = open_self_trained(answers.saved)
    assert isinstance(judge, LinearJudge)
    terms, weights = judge.weights()
    amounts = [dict(zip(terms, column.tolist(), strict=True)) for column in weights.T]
    found = [spread(sample.words, amounts[k]) for sample, k in zip(answers.samples, answers.explained, strict=True)]
    total = answers.of_class(judge.log_odds(answers.samples))
    sums = np.array([one.sum() for one in found])
    base = judge.log_odds([Sample("", "human", 0, (), (0,))])[0][answers.explained]
    return WordAttribution("exact", found, np.where(np.abs(total - sums - base) > _EXACT, total - sums, base), total)


def spread(words: Sequence[str], amounts: Mapping[str, float]) -> FloatArray:
    """What each word adds, [W], where each distinct word and word pair counts once per caption.

    A word gets its own amount and half of the amount of each pair that contains it. Repeated terms share their amount
    equally among their occurrences.

    Args:
        words: of a caption.
        amounts: term ("long", "long hair") -> what it adds; other terms add nothing.
    """
    places: dict[str, list[tuple[int, ...]]] = {}
    for place, word in enumerate(words):
        places.setdefault(word, []).append((place,))
    for place, pair in enumerate(pairwise(words)):
        places.setdefault(" ".join(pair), []).append((place, place + 1))
    found = np.zeros(len(words))
    for term, occurrences in places.items():
        for of in occurrences:
            found[list(of)] += amounts.get(term, 0.0) / len(occurrences) / len(of)
    return found


def occlude(answers: ExplainedAnswers, progress: Progress | None = None) -> WordAttribution:
    """By how much the probability falls when each word is replaced by ``<unk>``.

    In [-1, 1], positive where a word speaks for the class, 0 for ``<unk>`` itself. Every distinct variant is predicted
    once, all of them together.
    """
    samples, before = answers.samples, answers.probabilities
    places = [(n, place) for n, one in enumerate(samples) for place, word in enumerate(one.words) if word != UNKNOWN]
    variants = [_without(samples[n], place) for n, place in places]
    # Images often share a caption, but the judge may also read the image.
    different = {(one.words, one.image): one for one in variants}
    found = [np.zeros(len(sample.words)) for sample in samples]
    if different:
        after = answers.predict(list(different.values()), progress).probabilities
        rows = dict(zip(different, after, strict=True))
        for (n, place), one in zip(places, variants, strict=True):
            found[n][place] = before[n] - rows[one.words, one.image][answers.explained[n]]
    return WordAttribution("occlusion", found, np.full(len(samples), np.nan), before)


def _without(sample: Sample, place: int) -> Sample:
    return replace(sample, words=(*sample.words[:place], UNKNOWN, *sample.words[place + 1 :]))


WORD_METHODS: dict[str, Callable[[ExplainedAnswers, Progress | None], WordAttribution]] = {
    "exact": exact,
    "occlusion": occlude,
}


def word_methods(saved: Saved) -> dict[str, str]:
    """Method -> why it cannot explain this judge; "" where it can."""
    if "caption" in saved.blueprint.blanked:
        return dict.fromkeys(WORD_METHODS, "it reads no caption")
    return {"exact": "" if saved.blueprint.explain else "its log-odds are not linear in words", "occlusion": ""}


def attribute_words(answers: ExplainedAnswers, method: str, progress: Progress | None = None) -> WordAttribution:
    """What the words of captions contribute to a judge's answers.

    Args:
        answers: judge, captions and the class explained.
        method: one of ``WORD_METHODS``.
        progress: called with the progress.

    Raises:
        JudgeError: this method cannot explain the judge.
    """
    if fault := word_methods(answers.saved)[method]:
        what = f"judge '{answers.saved.judge}' cannot be explained by {method}: {fault}"
        raise JudgeError(what, where=f"--methods {method}", mend="leave it out")
    return WORD_METHODS[method](answers, progress)


def word_table(answers: ExplainedAnswers, found: Sequence[WordAttribution]) -> pd.DataFrame:
    """One row per caption, word and method, by caption, then method, then place: the columns of ``words.csv``.

    ``explained``: the class; ``probability``: the judge's probability of it; ``base`` and ``total``: see
    :class:`~judge.attribution.explained_answers.WordAttribution`.
    """
    each = zip(answers.samples, answers.classes, answers.probabilities, strict=True)
    rows = [
        (sample.image_id, sample.index, place, word, one.method, amount, name, p, one.base[n], one.total[n])
        for n, (sample, name, p) in enumerate(each)
        for one in found
        for place, (word, amount) in enumerate(zip(sample.words, one.contributions[n], strict=True))
    ]
    table = pd.DataFrame(rows, columns=COLUMNS[2:])
    table.insert(0, "judge", answers.saved.judge)
    table.insert(1, "weights", answers.saved.path.name)
    return table


def summary_of_words(answers: ExplainedAnswers, found: WordAttribution) -> dict[str, Any]:
    """A method's entry in ``attribution.json``: numbers of captions and words, and the words that count most.

    ``words``: those with the largest sum of absolute contributions: the number of captions that contain them, and
    their mean contribution for each explained class. ``gap``: the largest distance between ``total`` and the sum of
    base and contributions; null for methods whose contributions do not add up.
    """
    table = word_table(answers, [found])
    table["size"] = table["contribution"].abs()
    sizes = table.groupby("word", sort=True)["size"].sum().sort_values(ascending=False, kind="stable")
    means = table.groupby(["word", "explained"])["contribution"].mean()
    counts = table.drop_duplicates(["image_id", "index", "word"])["word"].value_counts()
    words = [
        {"word": word, "captions": int(counts[word]), "mean": {str(k): float(v) for k, v in means[word].items()}}
        for word in sizes.index[:LARGEST]
    ]
    sums = np.array([amounts.sum() for amounts in found.contributions])
    gap = np.abs(found.base + sums - found.total).max(initial=0.0)
    return {
        "captions": len(answers.samples),
        "words_in_all": len(table),
        "mean_size": float(table["size"].mean()) if len(table) else None,
        "gap": float(gap) if np.isfinite(gap) else None,
        "words": words,
    }
