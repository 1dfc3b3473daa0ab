"""A linear judge: logistic regression on the words and word pairs of a caption. Deterministic, fast, without torch.

It is not a published attacker; tables name it "linear". The strength of regularisation changes LIC by more than
captioners differ. Therefore C is chosen within the training images by log loss, from a fixed grid, and reported. It is
chosen once for both sides of a captioner, from the first captions of each side together: chosen separately, its noise
made up half of LIC's variance beyond that of the test captions.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import chain, pairwise
from typing import Any, Self

import numpy as np

from judge.judges import Assignment, Blueprint, Explanation, Keep
from judge.judges.logistic import Features, Logistic, Solved, merging, widen
from judge.metrics.scores import centre
from judge.types import FloatArray, IntArray, Predictions, Sample, Target, Words

C_GRID = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
INNER_FOLDS = 3  # One of them, of the training images, is held out to choose C.
_COLUMNS = 128  # Problems times answers that are in memory at a time.


class LinearJudge:
    """1- and 2-grams, present or not, and L2-penalised logistic regression: multinomial, or binary for each task."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.c = float("nan")

    def fit(
        self,
        samples: Sequence[Sample],
        *,
        seed: int,
        validation: Sequence[Sample] = (),  # noqa: ARG002 - of the protocol; there are no epochs to choose among
    ) -> Self:
        """Choose C by weighted log loss on a third of the images, then fit on all of ``samples``."""
        places, weights = np.arange(len(samples)), np.array([sample.weight for sample in samples])
        alone = Assignment("human", samples, places, weights, places[:0], seed)
        train_together(self.target, [alone], lambda _, judge: vars(self).update(vars(judge)))
        return self

    def _set(self, terms: _Vocabulary, merge: Any, solved: Solved, c: float) -> Self:
        self._terms, self._merge, self.solved, self.c = terms, merge, solved, c
        return self

    def predict(self, samples: Sequence[Sample]) -> Predictions:
        """Probabilities [N, A], all above 0; of tasks also below 1."""
        return Predictions(self.solved.probabilities(self._rows(samples))[:, 0], self.target, {"C": self.c})

    def log_odds(self, samples: Sequence[Sample]) -> FloatArray:
        """[N, A]: log p of a class minus the mean log p of the others; of a task log p / (1 - p). Natural logarithms.

        More exact than from probabilities, which lose digits near 1.
        """
        if self.solved.softmax and not self.solved.shown.all():
            return centre(np.log(self.predict(samples).probabilities))
        found = self.solved.odds(self._rows(samples))[:, 0]
        if self.solved.two:
            return np.concatenate([-found, found], axis=1)
        return centre(found) if self.solved.softmax else found

    def weights(self) -> tuple[Words, FloatArray]:
        """Words and word pairs [F], and what each adds to the log-odds of a caption that contains it, [F, A]."""
        found = self.solved.weights(self._merge)[0]
        return tuple(self._terms.terms), found if self.target.kind == "tasks" else centre(found)

    def _rows(self, samples: Sequence[Sample]) -> Any:
        return widen(self._terms.table(sample.words for sample in samples), self._merge)

    @property
    def vocabulary(self) -> Words:
        """The words to which :meth:`tensors` refer."""
        return self._terms.words

    def tensors(self) -> dict[str, Any]:
        """The state of a trained judge besides its vocabulary, for :meth:`restore`."""
        state = {name: getattr(self.solved, name)[0] for name in ("open", "shown", "learnt")}
        state |= {"coefficients": self.solved.coefficients[:, 0], "C": np.array([self.c])}
        return state | {"terms": self._terms.known, "groups": self._merge.indices.astype(np.int64)}

    @classmethod
    def restore(cls, target: Target, vocabulary: Words, tensors: Mapping[str, Any]) -> Self:
        """The judge with these :meth:`tensors`; its predictions are the same to the last digit.

        Raises:
            ValueError, KeyError: the tensors are not those of a judge of this target and vocabulary.
        """
        size, answers = len(vocabulary), len(target.classes)
        exclusive = target.kind == "attribute"
        two = exclusive and answers == 2
        terms, merge = tensors["terms"], merging(tensors["groups"])
        of_answers = dict.fromkeys(("open", "shown"), (1 if two else answers,))
        expected = of_answers | {"learnt": (1,), "C": (1,), "groups": terms.shape}
        expected["coefficients"] = merge.shape[1] + 1, *of_answers["open"]
        wrong = [name for name, shape in expected.items() if tensors[name].shape != shape]
        rising = bool((np.diff(terms, prepend=-1) > 0).all()) and terms.max(initial=0) < size + size**2
        known = _Vocabulary(vocabulary, terms) if rising else None
        if wrong or known is None or len(known.terms) < len(terms):
            raise ValueError(f"{wrong[0] if wrong else 'terms'} of another judge")
        masks = tensors["open"][None], tensors["shown"][None], tensors["learnt"][None]
        solved = Solved(tensors["coefficients"][:, None], *masks, two, exclusive and not two)
        return cls(target)._set(known, merge, solved, float(tensors["C"][0]))


def train_together(target: Target, assignments: Sequence[Assignment], keep: Keep = None) -> list[Predictions]:
    """Train the judges of all sides and splits of one captioner; assignments with the same captions share features.

    C is that of an assignment's ``settings``, or is chosen for each split from the first captions of both sides.
    """
    by_captions: dict[int, list[int]] = {}
    for place, assignment in enumerate(assignments):
        by_captions.setdefault(id(assignment.samples), []).append(place)
    groups = [[assignments[place] for place in places] for places in by_captions.values()]
    each = [_Captions(target, group[0].samples) for group in groups]
    chosen = {one.split: one.settings["C"] for one in assignments if "C" in one.settings}
    if len(chosen) < len({one.split for one in assignments}):
        sides = [group[0].side for group in groups]
        first = [sides.index(side) for side in dict.fromkeys(sides)]
        chosen = _choose_c([each[place] for place in first], [groups[place] for place in first])
    found: dict[int, Predictions] = {}
    step = max(1, _COLUMNS // len(target.classes))
    for captions, group, places in zip(each, groups, by_captions.values(), strict=True):
        features = captions.features
        for start in range(0, len(group), step):
            part = group[start : start + step]
            c = [chosen[one.split] for one in part]
            model = captions.fit(part, c)
            probabilities = model.probabilities(features.rows)
            for column, (one, place) in enumerate(zip(part, places[start : start + step], strict=True)):
                found[place] = Predictions(probabilities[one.predict, column], target, {"C": c[column]})
                if keep:
                    judge = LinearJudge(target)
                    keep(place, judge._set(captions.terms, features.merge, model.only(column), c[column]))
    return [found[place] for place in range(len(assignments))]


def explain(target: Target, assignments: Sequence[Assignment]) -> Explanation:
    """Weights of words and word pairs in judges of the same captions, whose ``settings`` have C; always the same."""
    samples = assignments[0].samples
    captions = _Captions(target, samples)
    model = captions.fit(assignments, [one.settings["C"] for one in assignments])
    found = model.probabilities(captions.features.rows)
    answers = [Predictions(found[one.predict, p], target, dict(one.settings)) for p, one in enumerate(assignments)]
    table, weights = captions.terms.table(one.words for one in samples), model.weights(captions.features.merge)
    return Explanation(tuple(captions.terms.terms), table, weights, answers)


class _Vocabulary:
    """Words and pairs of neighbours, the terms of captions.

    Args:
        words: those of the terms.
        known: codes of the terms, rising, [F]: the code of a word is its place among ``words``; that of a pair is the
            number of words plus the two places, as digits in that base.
    """

    def __init__(self, words: Words, known: IntArray) -> None:
        self.words, self.known, size = words, known, len(words)
        pairs = (divmod(code - size, size) for code in known[known >= size].tolist())
        names = (*(words[code] for code in known[known < size]), *(f"{words[a]} {words[b]}" for a, b in pairs))
        self.terms = {name: place for place, name in enumerate(names)}

    def table(self, captions: Iterable[Words]) -> Any:
        """Which terms captions contain, [N, F], sparse, 0 or 1."""
        from scipy.sparse import csr_matrix

        each = ({*words, *map(" ".join, pairwise(words))} for words in captions)
        rows = [sorted(self.terms[term] for term in terms & self.terms.keys()) for terms in each]
        starts = np.cumsum([0, *map(len, rows)])
        columns = np.fromiter(chain.from_iterable(rows), dtype=np.int64, count=starts[-1])
        return csr_matrix((np.ones(len(columns)), columns, starts), shape=(len(rows), len(self.terms)))


@lru_cache(maxsize=8)  # Labels are shuffled over the same captions several times.
def _terms_of(captions: tuple[Words, ...]) -> tuple[_Vocabulary, Features]:
    """All terms of captions, and the captions' features."""
    places = {word: place for place, word in enumerate(dict.fromkeys(chain.from_iterable(captions)))}
    size = len(places)
    pairs = {size + places[a] * size + places[b] for words in captions for a, b in pairwise(words)}
    found = _Vocabulary(tuple(places), np.array([*range(size), *sorted(pairs)], dtype=np.int64))
    return found, Features(found.table(captions))


class _Captions:
    """The captions of one side and index, and the regressions on them."""

    def __init__(self, target: Target, samples: Sequence[Sample]) -> None:
        self.images = [sample.image_id for sample in samples]
        self.terms, self.features = _terms_of(tuple(sample.words for sample in samples))
        self.exclusive = target.kind == "attribute"
        self.answers = np.zeros((len(samples), len(target.classes)), dtype=np.int64)
        for row, sample in enumerate(samples):
            self.answers[row, list(sample.answers)] = 1

    def fit(self, assignments: Sequence[Assignment], c: Sequence[float]) -> Logistic:
        """A fitted problem for each assignment."""
        model = self.problems(self.weights(assignments))
        model.fit(np.array(c))
        return model

    def problems(self, weights: FloatArray) -> Logistic:
        """Problems with these sample weights, [N, P]."""
        return Logistic(self.features, self.answers, weights, exclusive=self.exclusive)

    def weights(self, assignments: Sequence[Assignment]) -> FloatArray:
        """The weight of each caption in the training of each assignment, [N, P]."""
        found = np.zeros((len(self.images), len(assignments)))
        for column, assignment in enumerate(assignments):
            found[assignment.train, column] = assignment.weights
        return found


def _choose_c(each: Sequence[_Captions], groups: Sequence[Sequence[Assignment]]) -> dict[Hashable, float]:
    """A C for each split: up the grid, with warm starts, until the held-out log loss of all captions rises.

    ``each`` are the captions of one index of each side, and ``groups`` their assignments, at most one per split.
    """
    splits = list(dict.fromkeys(assignment.split for group in groups for assignment in group))
    held_out = {split: _held_out(each, groups, split) for split in splits}
    problems = []
    for captions, group in zip(each, groups, strict=True):
        weights = captions.weights(group)
        out = np.array([np.isin(captions.images, held_out[assignment.split]) for assignment in group]).T
        columns = [splits.index(assignment.split) for assignment in group]
        problems.append((captions.problems(weights * ~out), weights * out, columns))
    best, least = np.full(len(splits), C_GRID[0]), np.full(len(splits), np.inf)
    falling = np.ones(len(splits), dtype=np.bool_)
    for c in C_GRID:
        loss = np.zeros(len(splits))
        for model, out, columns in problems:
            model.fit(np.where(falling[columns], c, np.nan))
            loss[columns] += model.loss(out)
        falling &= loss < least
        best[falling], least[falling] = c, loss[falling]
        if not falling.any():
            break
    return dict(zip(splits, best.tolist(), strict=True))


def _held_out(each: Sequence[_Captions], groups: Sequence[Sequence[Assignment]], split: Hashable) -> list[str]:
    """A third of the training images of a split, stratified by class where possible; the same on both sides."""
    from sklearn.model_selection import KFold, StratifiedKFold

    truth: dict[str, int] = {}
    for captions, group in zip(each, groups, strict=True):
        classes = captions.answers.argmax(axis=1) * captions.exclusive
        for assignment in group:
            if assignment.split == split:
                truth |= {captions.images[row]: int(classes[row]) for row in assignment.train}
                seed = assignment.seed
    images = sorted(truth)
    answers = np.unique([truth[image] for image in images], return_inverse=True)[1]
    # A class may have fewer images than there are folds; sets of tasks are mostly rare.
    rare = not each[0].exclusive or np.bincount(answers).min() < INNER_FOLDS
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
        restore=LinearJudge.restore,
    )
}
