"""A judge that trains itself: naive Bayes on the words that a caption has, with one added to each count."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np

from judge.judges import Blueprint
from judge.types import FloatArray, Predictions, Sample, Target


class WordCounts:
    def __init__(self, target: Target, vocabulary: tuple[str, ...] = (), tensors: Mapping[str, Any] | None = None):
        self.target, self.vocabulary = target, vocabulary
        self._tensors = dict(tensors or {})

    def fit(self, samples: Sequence[Sample], *, seed: int, validation: Sequence[Sample] = ()) -> Self:
        self.vocabulary = tuple(sorted({word for sample in samples for word in sample.words}))
        # [N, A]: the weight of each caption, in the column of its class.
        classes = np.zeros((len(samples), len(self.target.classes)))
        for row, sample in zip(classes, samples, strict=True):
            row[sample.answers[0]] = sample.weight
        self._tensors = {"words": classes.T @ self._contains(samples), "classes": classes.sum(axis=0)}
        return self

    def predict(self, samples: Sequence[Sample]) -> Predictions:
        words, classes = self._tensors["words"], self._tensors["classes"]
        shares = (words + 1) / (classes[:, None] + 2)
        contains = self._contains(samples)
        logs = contains @ np.log(shares).T + (1 - contains) @ np.log(1 - shares).T + np.log(classes / classes.sum())
        odds = np.exp(logs - logs.max(axis=1, keepdims=True))
        return Predictions(odds / odds.sum(axis=1, keepdims=True), self.target)

    def tensors(self) -> dict[str, Any]:
        return self._tensors

    def _contains(self, samples: Sequence[Sample]) -> FloatArray:
        """[N, V]: 1 where a caption has a word of the vocabulary."""
        found = np.zeros((len(samples), len(self.vocabulary)))
        place = {word: number for number, word in enumerate(self.vocabulary)}
        for row, sample in zip(found, samples, strict=True):
            row[[place[word] for word in sample.words if word in place]] = 1
        return found


COUNTS = Blueprint("counts", "this template", judge=WordCounts, restore=WordCounts)
