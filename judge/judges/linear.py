"""A linear judge: which words and word pairs occur, logistic regression. Deterministic, quick, no torch.

Not a published attacker: rows say "linear". Its strength of regularisation changes LIC by more than captioners
differ, so C is never a hidden constant: it is chosen inside the training images by log loss, from a fixed
grid, by the same rule on both sides, and reported.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Self

import numpy as np

from judge.judges import Blueprint
from judge.types import FloatArray, IntArray, Predictions, Sample, Target

C_GRID = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
INNER_FOLDS = 3
# Not to be loosened: at 1e-3 LIC of a real captioner moved by 0.005, as much as its standard error.
TOLERANCE = 1e-5
MAX_ITERATIONS = 1000


class LinearJudge:
    """Binary 1-2-gram bag of words and an L2-penalised multinomial logistic regression."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.c = float("nan")

    def fit(
        self,
        samples: Sequence[Sample],
        *,
        seed: int,
        validation: Sequence[Sample] = (),  # noqa: ARG002 - the protocol's; there are no epochs to choose among
    ) -> Self:
        """Choose C by weighted log loss over 3 inner folds (each image is in one), then fit on all of ``samples``."""
        from sklearn.feature_extraction.text import CountVectorizer
        from sklearn.linear_model import LogisticRegression

        self._vectorizer = CountVectorizer(analyzer=_terms, binary=True, dtype=np.float64)
        features = self._vectorizer.fit_transform(samples)
        answers = np.array([sample.answers[0] for sample in samples])
        weights = np.array([sample.weight for sample in samples])
        self.c = _choose_c(features, answers, weights, seed=seed)
        self._model = LogisticRegression(C=self.c, solver="newton-cg", tol=TOLERANCE, max_iter=MAX_ITERATIONS)
        self._model.fit(features, answers, sample_weight=weights)
        return self

    def predict(self, samples: Sequence[Sample]) -> Predictions:
        """Class probabilities [N, A]; a class that training never showed has probability 0."""
        found = self._model.predict_proba(self._vectorizer.transform(samples))
        probabilities = np.zeros((len(samples), len(self.target.classes)))
        probabilities[:, self._model.classes_] = found
        return Predictions(probabilities, self.target, {"C": self.c})


def _terms(sample: Sample) -> list[str]:
    words = sample.words
    return [*words, *(f"{first} {second}" for first, second in pairwise(words))]


def _choose_c(features: Any, answers: IntArray, weights: FloatArray, *, seed: int) -> float:
    """Up the grid, with warm starts, until held-out log loss rises: the C of its first minimum."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import StratifiedKFold

    folds = list(StratifiedKFold(INNER_FOLDS, shuffle=True, random_state=seed % 2**32).split(features, answers))
    models = [
        LogisticRegression(solver="newton-cg", tol=TOLERANCE, max_iter=MAX_ITERATIONS, warm_start=True) for _ in folds
    ]
    best, least = C_GRID[0], np.inf
    for c in C_GRID:
        loss = 0.0
        for model, (train, held) in zip(models, folds, strict=True):
            model.set_params(C=c).fit(features[train], answers[train], sample_weight=weights[train])
            guesses = model.predict_log_proba(features[held])
            column = np.searchsorted(model.classes_, answers[held])
            loss -= float(weights[held] @ guesses[np.arange(len(held)), column])
        if loss >= least:
            break
        best, least = c, loss
    return best


BLUEPRINTS = {"linear": Blueprint("linear", "this project; 1-2-grams and logistic regression", judge=LinearJudge)}
