"""A linear judge: which words and word pairs occur, logistic regression. Deterministic, quick, no torch.

Not a published attacker: rows say "linear". Its strength of regularisation changes LIC by more than captioners
differ, so C is never a hidden constant: it is chosen inside the training images by log loss, from a fixed
grid, by the same rule on both sides, and reported.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, Protocol, Self

import numpy as np

from judge.judges import Blueprint
from judge.judges.logistic import MAX_ITERATIONS, TOLERANCE, Logistic
from judge.types import FloatArray, IntArray, Predictions, Sample, Target

C_GRID = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
INNER_FOLDS = 3


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

        several = self.target.kind == "tasks"
        self._vectorizer = CountVectorizer(analyzer=_terms, binary=True, dtype=np.float64)
        features = self._vectorizer.fit_transform(samples)
        answers = _answers(self.target, samples)
        weights = np.array([sample.weight for sample in samples])
        folds = _inner_folds(answers, several=several, seed=seed)
        make = Logistic if several else partial(_Class, classes=len(self.target.classes))
        self.c = _choose_c(make, features, answers, weights, folds)
        self._model = make(features, answers, weights)
        self._model.fit(self.c)
        return self

    def predict(self, samples: Sequence[Sample]) -> Predictions:
        """Probabilities [N, A], all above 0; of tasks also below 1."""
        probabilities = self._model.guess(self._vectorizer.transform(samples))
        return Predictions(probabilities, self.target, {"C": self.c})


class _Model(Protocol):
    """Fitted to the samples that it was made with, by one C after the other: each fit starts from the last."""

    def fit(self, c: float) -> None: ...

    def guess(self, features: Any) -> FloatArray: ...

    def loss(self, features: Any, answers: IntArray, weights: FloatArray) -> float: ...


class _Class:
    """One question of several classes: scikit-learn's multinomial regression."""

    def __init__(self, features: Any, answers: IntArray, weights: FloatArray, *, classes: int) -> None:
        self._features, self._answers, self._weights, self._classes = features, answers, weights, classes
        self.model = _make(answers)

    def fit(self, c: float) -> None:
        self.model.set_params(C=c).fit(self._features, self._answers, sample_weight=self._weights)

    def guess(self, features: Any) -> FloatArray:
        """Probabilities [N, classes]. What training never showed has the share of half an image."""
        found = np.full((features.shape[0], self._classes), 0.5 / (len(self._answers) + 1))
        found[:, self.model.classes_] = self.model.predict_proba(features)
        return np.asarray(found / found.sum(axis=1, keepdims=True))

    def loss(self, features: Any, answers: IntArray, weights: FloatArray) -> float:
        """Weighted log loss, summed."""
        return -float(weights @ np.log(self.guess(features)[np.arange(len(answers)), answers]))


class _Always:
    """For a question that training answers in one way only."""

    def set_params(self, C: float) -> Self:  # noqa: N803, ARG002 - scikit-learn's
        return self

    def fit(self, features: Any, answers: IntArray, sample_weight: FloatArray) -> Self:  # noqa: ARG002 - scikit-learn's
        self.classes_ = answers[:1]
        return self

    def predict_proba(self, features: Any) -> FloatArray:
        return np.ones((features.shape[0], 1))


def _terms(sample: Sample) -> list[str]:
    words = sample.words
    return [*words, *(f"{first} {second}" for first, second in pairwise(words))]


def _answers(target: Target, samples: Sequence[Sample]) -> IntArray:
    """What is to be guessed: of a class [N], its number; of tasks [N, L], 1 where one is there, else 0."""
    if target.kind == "attribute":
        return np.array([sample.answers[0] for sample in samples])
    table = np.zeros((len(samples), len(target.classes)), dtype=np.int64)
    for row, sample in enumerate(samples):
        table[row, list(sample.answers)] = 1
    return table


def _make(answers: IntArray) -> Any:
    from sklearn.linear_model import LogisticRegression

    if answers.min() == answers.max():
        return _Always()
    return LogisticRegression(solver="newton-cg", tol=TOLERANCE, max_iter=MAX_ITERATIONS, warm_start=True)


def _choose_c(
    make: Callable[[Any, IntArray, FloatArray], _Model],
    features: Any,
    answers: IntArray,
    weights: FloatArray,
    folds: Sequence[tuple[IntArray, IntArray]],
) -> float:
    """Up the grid, with warm starts, until held-out log loss rises: the C of its first minimum."""
    models = [make(features[train], answers[train], weights[train]) for train, _ in folds]
    parts = [(features[held], answers[held], weights[held]) for _, held in folds]
    best, least = C_GRID[0], np.inf
    for c in C_GRID:
        loss = 0.0
        for model, part in zip(models, parts, strict=True):
            model.fit(c)
            loss += model.loss(*part)
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
