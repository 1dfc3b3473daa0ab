"""Judges that are linear in words and pairs of neighbours, taken apart word by word: nothing is estimated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from judge.attribution.question import Question, WordAttribution
from judge.judges.linear import LinearJudge
from judge.training.judge_file import open_self_trained
from judge.types import FloatArray, Progress, Sample

# Sums of thousands of float64 are right to that much.
EXACT = 1e-9


def take_apart(question: Question, progress: Progress | None = None) -> WordAttribution:
    """What words add to the log odds of the class explained (natural logarithm; see ``LinearJudge.log_odds``).

    ``base`` is the judge's intercept; with contributions it adds up to ``total`` to 1e-9. What is not linear (log odds
    beyond 36, or one of three or more classes that training never showed) stands with the base.
    """
    judge = open_self_trained(question.saved)
    assert isinstance(judge, LinearJudge)
    terms, weights = judge.weights()
    amounts = [dict(zip(terms, column.tolist(), strict=True)) for column in weights.T]
    pairs = zip(question.samples, question.explained, strict=True)
    found = [spread(sample.words, amounts[k]) for sample, k in pairs]
    total = question.of_class(judge.log_odds(question.samples))
    sums = np.array([one.sum() for one in found])
    base = judge.log_odds([Sample("", "human", 0, (), (0,))])[0][question.explained]
    return WordAttribution("exact", found, np.where(np.abs(total - sums - base) > EXACT, total - sums, base), total)


def spread(words: Sequence[str], amounts: Mapping[str, float]) -> FloatArray:
    """What each of the words adds, [W], where a caption's terms are those that it holds, however often.

    A word adds its own amount and half of that of each pair that it is in. What occurs several times counts once,
    shared equally among its occurrences.

    Args:
        words: of a caption.
        amounts: term ("long", "long hair") -> what it adds; others add nothing.
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
