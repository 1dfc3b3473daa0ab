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
    """1-2-grams, present or not, and L2-penalised logistic regression: multinomial of a class, binary of each task."""

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
        """Choose C by weighted log loss over inner folds (each image is in one), then fit on all of ``samples``.

        Three folds are held out for a class; for tasks one: its loss is a mean over all of them. One C serves them all.
        """
        from sklearn.feature_extraction.text import CountVectorizer

        self._vectorizer = CountVectorizer(analyzer=_terms, binary=True, dtype=np.float64)
        features = self._vectorizer.fit_transform(samples)
        questions = _questions(self.target, samples)
        weights = np.array([sample.weight for sample in samples])
        folds = _inner_folds(questions[0], several=self.target.kind == "tasks", seed=seed)
        self.c = _choose_c(features, questions, weights, folds)
        self._models = [_make(question) for question in questions]
        for model, question in zip(self._models, questions, strict=True):
            _fit(model, features, question, weights, c=self.c)
        return self

    def predict(self, samples: Sequence[Sample]) -> Predictions:
        """Probabilities [N, A], all above 0."""
        features = self._vectorizer.transform(samples)
        if self.target.kind == "tasks":
            probabilities = np.stack([_guess(model, features, 2)[:, 1] for model in self._models], axis=1)
        else:
            probabilities = _guess(self._models[0], features, len(self.target.classes))
        return Predictions(probabilities, self.target, {"C": self.c})


class _Always:
    """For a question that training answers in one way only."""

    def set_params(self, C: float) -> Self:  # noqa: N803, ARG002 - scikit-learn's
        return self

    def fit(self, features: Any, answers: IntArray, sample_weight: FloatArray) -> Self:  # noqa: ARG002 - scikit-learn's
        self.classes_, self.seen = answers[:1], len(answers)
        return self

    def predict_proba(self, features: Any) -> FloatArray:
        return np.ones((features.shape[0], 1))


def _guess(model: Any, features: Any, classes: int) -> FloatArray:
    """Probabilities [N, classes]. What training never showed has the share of half an image."""
    found = np.full((features.shape[0], classes), 0.5 / (model.seen + 1))
    found[:, model.classes_] = model.predict_proba(features)
    return np.asarray(found / found.sum(axis=1, keepdims=True))


def _terms(sample: Sample) -> list[str]:
    words = sample.words
    return [*words, *(f"{first} {second}" for first, second in pairwise(words))]


def _questions(target: Target, samples: Sequence[Sample]) -> list[IntArray]:
    """What is to be guessed, [N] each: the class; or of every task, whether it is there."""
    if target.kind == "attribute":
        return [np.array([sample.answers[0] for sample in samples])]
    table = np.zeros((len(target.classes), len(samples)), dtype=np.int64)
    for column, sample in enumerate(samples):
        table[list(sample.answers), column] = 1
    return list(table)


def _make(answers: IntArray) -> Any:
    from sklearn.linear_model import LogisticRegression

    if answers.min() == answers.max():
        return _Always()
    return LogisticRegression(solver="newton-cg", tol=TOLERANCE, max_iter=MAX_ITERATIONS, warm_start=True)


def _fit(model: Any, features: Any, answers: IntArray, weights: FloatArray, *, c: float) -> None:
    model.set_params(C=c).fit(features, answers, sample_weight=weights)
    model.seen = len(answers)


def _choose_c(
    features: Any, questions: Sequence[IntArray], weights: FloatArray, folds: Sequence[tuple[IntArray, IntArray]]
) -> float:
    """Up the grid, with warm starts, until held-out log loss rises: the C of its first minimum."""
    models = [[_make(question[train]) for question in questions] for train, _ in folds]
    parts = [(features[train], features[held]) for train, held in folds]
    best, least = C_GRID[0], np.inf
    for c in C_GRID:
        loss = 0.0
        for asked, (train, held), (learnt, scored) in zip(models, folds, parts, strict=True):
            for model, question in zip(asked, questions, strict=True):
                _fit(model, learnt, question[train], weights[train], c=c)
                guesses = _guess(model, scored, max(2, question.max() + 1))
                loss -= float(weights[held] @ np.log(guesses[np.arange(len(held)), question[held]]))
        if loss >= least:
            break
        best, least = c, loss
    return best


def _inner_folds(answers: IntArray, *, several: bool, seed: int) -> list[tuple[IntArray, IntArray]]:
    """(train, held out) of the training samples: three for a class, cut by class; of tasks one."""
    from sklearn.model_selection import KFold, StratifiedKFold

    # A class may have fewer samples than there are folds.
    rare = several or np.bincount(answers)[np.unique(answers)].min() < INNER_FOLDS
    kind = KFold if rare else StratifiedKFold
    folds = kind(INNER_FOLDS, shuffle=True, random_state=seed % 2**32).split(answers, answers)
    return list(folds)[: 1 if several else None]


BLUEPRINTS = {"linear": Blueprint("linear", "this project; 1-2-grams and logistic regression", judge=LinearJudge)}
