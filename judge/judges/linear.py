"""A linear judge: which words and word pairs occur, logistic regression. Deterministic, quick, no torch.

Not a published attacker; rows name it "linear". Its strength of regularisation changes LIC by more than captioners
differ, so C is never a hidden constant: it is chosen inside the training images by log loss, from a fixed grid, and
reported. It is chosen once for both sides of a captioner, by a caption of each side together: chosen apart, its noise
made half of the variance of LIC beyond that of the test captions.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import lru_cache
from typing import Any, Self

import numpy as np

from judge.judges import Assignment, Blueprint, Explanation
from judge.judges.logistic import Features, Logistic
from judge.types import FloatArray, IntArray, Predictions, Sample, Target, Words

C_GRID = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
# Of the training images one in so many is held out to choose C by.
INNER_FOLDS = 3
# Problems times answers that are fitted at a time: their weights and probabilities are held together.
_COLUMNS = 128


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
        """Choose C by weighted log loss on a third of the images, then fit on all of ``samples``."""
        everything = np.arange(len(samples))
        weights = np.array([sample.weight for sample in samples])
        alone = Assignment("human", samples, everything, weights, everything[:0], seed)
        self._terms = _terms(samples)
        slot = _Slot(self.target, samples, self._terms)
        self.c = _choose_c([slot], [[alone]])[alone.split]
        self._model = slot.fit([alone], np.array([self.c]))
        return self

    def predict(self, samples: Sequence[Sample]) -> Predictions:
        """Probabilities [N, A], all above 0; of tasks also below 1."""
        rows = self._terms.features.widen(self._terms.table(samples))
        return Predictions(self._model.probabilities(rows)[:, 0], self.target, {"C": self.c})


def train_together(target: Target, assignments: Sequence[Assignment]) -> list[Predictions]:
    """The judges of one captioner's sides and splits, side by side: those of the same captions share their features.

    C is that of an assignment's ``settings``; else it is chosen for each split by the first captions of both sides.
    """
    by_slot: dict[int, list[int]] = {}
    for place, assignment in enumerate(assignments):
        by_slot.setdefault(id(assignment.samples), []).append(place)
    groups = [[assignments[place] for place in places] for places in by_slot.values()]
    slots = [_Slot(target, group[0].samples, _terms(group[0].samples)) for group in groups]
    known = {group.split: group.settings["C"] for group in assignments if "C" in group.settings}
    if len(known) < len({assignment.split for assignment in assignments}):
        sides = [group[0].side for group in groups]
        first = [sides.index(side) for side in dict.fromkeys(sides)]
        known = _choose_c([slots[place] for place in first], [groups[place] for place in first])
    found: dict[int, Predictions] = {}
    for slot, group, places in zip(slots, groups, by_slot.values(), strict=True):
        step = max(1, _COLUMNS // len(target.classes))
        for start in range(0, len(group), step):
            part = group[start : start + step]
            chosen = np.array([known[assignment.split] for assignment in part])
            probabilities = slot.fit(part, chosen).probabilities()
            for column, (assignment, place) in enumerate(zip(part, places[start : start + step], strict=True)):
                answers = probabilities[assignment.asked, column]
                found[place] = Predictions(answers, target, {"C": float(chosen[column])})
    return [found[place] for place in range(len(assignments))]


def explain(target: Target, assignments: Sequence[Assignment]) -> Explanation:
    """Words and word pairs in judges of the same captions, whose ``settings`` hold C; the same weights every time."""
    samples = assignments[0].samples
    terms = _terms(samples)
    model = _Slot(target, samples, terms).fit(assignments, np.array([one.settings["C"] for one in assignments]))
    found = model.probabilities()
    answers = [Predictions(found[one.asked, p], target, dict(one.settings)) for p, one in enumerate(assignments)]
    return Explanation(terms.names(), terms.table(samples), model.weights(), answers)


class _Terms:
    """Which words and word pairs captions hold, [N, F], 0 or 1; known are those of the captions it is made with."""

    def __init__(self, captions: Sequence[Words]) -> None:
        self._words: dict[str, int] = {}
        for words in captions:
            for word in words:
                self._words.setdefault(word, len(self._words))
        row, code = self._codes(captions)
        self._known = np.unique(code)
        self.features = Features(self._fill(row, code, len(captions)))

    def table(self, samples: Sequence[Sample]) -> Any:
        """[N, F], sparse."""
        return self._fill(*self._codes([sample.words for sample in samples]), len(samples))

    def names(self) -> tuple[str, ...]:
        """[F]: "long", "long hair"."""
        words, size = list(self._words), len(self._words)
        pairs = (divmod(code - size, size) for code in self._known[self._known >= size].tolist())
        return (*words, *(f"{words[first]} {words[second]}" for first, second in pairs))

    def _fill(self, row: IntArray, code: IntArray, samples: int) -> Any:
        from scipy.sparse import csr_matrix

        column = np.searchsorted(self._known, code)
        there = np.append(self._known, -1)[column] == code
        width = max(1, len(self._known))
        row, column = np.divmod(np.unique(row[there] * width + column[there]), width)
        return csr_matrix((np.ones(len(row)), (row, column)), shape=(samples, len(self._known)))

    def _codes(self, captions: Sequence[Words]) -> tuple[IntArray, IntArray]:
        """Row and code of every word and pair of neighbours whose words are known."""
        size = len(self._words)
        lengths = np.array([len(words) for words in captions], dtype=np.int64)
        words = (self._words.get(word, -1) for words in captions for word in words)
        word = np.fromiter(words, dtype=np.int64, count=int(lengths.sum()))
        row = np.repeat(np.arange(len(captions)), lengths)
        pair = size + word[:-1] * size + word[1:]
        joined = (row[:-1] == row[1:]) & (word[:-1] >= 0) & (word[1:] >= 0)
        known = word >= 0
        return np.concatenate([row[known], row[:-1][joined]]), np.concatenate([word[known], pair[joined]])


# The captions of one captioner by their index: labels are shuffled over the same captions several times.
_cached_terms = lru_cache(maxsize=8)(_Terms)


def _terms(samples: Sequence[Sample]) -> _Terms:
    return _cached_terms(tuple(sample.words for sample in samples))


class _Slot:
    """The captions of one side and index, and the regressions on them."""

    def __init__(self, target: Target, samples: Sequence[Sample], terms: _Terms) -> None:
        self.images = [sample.image_id for sample in samples]
        self._features, self.exclusive = terms.features, target.kind == "attribute"
        self.answers = np.zeros((len(samples), len(target.classes)), dtype=np.int64)
        for row, sample in enumerate(samples):
            self.answers[row, list(sample.answers)] = 1

    def fit(self, assignments: Sequence[Assignment], c: FloatArray) -> Logistic:
        """A problem for each assignment."""
        model = self.model(self.weights(assignments))
        model.fit(c)
        return model

    def model(self, weights: FloatArray) -> Logistic:
        """Problems with these weights, [N, P]."""
        return Logistic(self._features, self.answers, weights, exclusive=self.exclusive)

    def weights(self, assignments: Sequence[Assignment]) -> FloatArray:
        """What each caption weighs in the training of each, [N, P]."""
        found = np.zeros((len(self.images), len(assignments)))
        for column, assignment in enumerate(assignments):
            found[assignment.train, column] = assignment.weights
        return found


def _choose_c(slots: Sequence[_Slot], groups: Sequence[Sequence[Assignment]]) -> dict[Hashable, float]:
    """Up the grid, with warm starts, until the held-out log loss of all slots together rises: a C for each split.

    Args:
        slots: captions, one index of each side.
        groups: for each of ``slots`` its assignments, one a split at most.
    """
    splits = list(dict.fromkeys(assignment.split for group in groups for assignment in group))
    held = {split: _held_out(slots, groups, split) for split in splits}
    models, parts, columns = [], [], []
    for slot, group in zip(slots, groups, strict=True):
        weights = slot.weights(group)
        out = np.array([np.isin(slot.images, held[assignment.split]) for assignment in group]).T
        models.append(slot.model(weights * ~out))
        parts.append(weights * out)
        columns.append([splits.index(assignment.split) for assignment in group])
    best, least = np.full(len(splits), C_GRID[0]), np.full(len(splits), np.inf)
    falling = np.ones(len(splits), dtype=np.bool_)
    for c in C_GRID:
        loss = np.zeros(len(splits))
        for model, part, column in zip(models, parts, columns, strict=True):
            model.fit(np.where(falling[column], c, np.nan))
            loss[column] += model.loss(part)
        falling &= loss < least
        best[falling], least[falling] = c, loss[falling]
        if not falling.any():
            break
    return dict(zip(splits, best.tolist(), strict=True))


def _held_out(slots: Sequence[_Slot], groups: Sequence[Sequence[Assignment]], split: Hashable) -> list[str]:
    """A third of the training images of a split, of each class as far as possible; the same on both sides."""
    from sklearn.model_selection import KFold, StratifiedKFold

    truth: dict[str, int] = {}
    for slot, group in zip(slots, groups, strict=True):
        for assignment in group:
            if assignment.split == split:
                classes = slot.answers.argmax(axis=1) if slot.exclusive else np.zeros(len(slot.images), dtype=np.int64)
                truth |= {slot.images[row]: int(classes[row]) for row in assignment.train}
                seed = assignment.seed
    images = sorted(truth)
    answers = np.unique([truth[image] for image in images], return_inverse=True)[1]
    # A class may have fewer images than there are folds; sets of tasks are mostly rare.
    rare = not slots[0].exclusive or np.bincount(answers).min() < INNER_FOLDS
    folds = (KFold if rare else StratifiedKFold)(INNER_FOLDS, shuffle=True, random_state=seed % 2**32)
    _, held = next(iter(folds.split(answers, answers)))
    return [images[row] for row in held]


BLUEPRINTS = {
    "linear": Blueprint(
        "linear",
        "this project; 1-2-grams and logistic regression",
        judge=LinearJudge,
        joint=train_together,
        explain=explain,
    )
}
