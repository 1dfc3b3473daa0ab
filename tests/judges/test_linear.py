"""The linear judge against scikit-learn's logistic regression."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from helpers import GENDER, THREE, make_samples
from scipy.sparse import csr_matrix
from sklearn.linear_model import LogisticRegression

from judge.judges import Assignment, linear, logistic
from judge.judges.image_vectors import ImageVectors
from judge.judges.linear import GRIDS, LinearJudge, Reading
from judge.text.coded import Coded
from judge.text.embedding import load_embedding
from judge.types import Sample, Target
from judge.utils.parallel import threads

WORDLLAMA = "wordllama"
BEST = Reading(embedding=WORDLLAMA, best=True)

LABELS = 8
TASKS = Target("tasks", (*(f"object {n}" for n in range(LABELS)), "never", "always"))


def make_captions(images: int, *, seed: int = 0) -> list[Sample]:
    """Words as frequent as in English (Zipf's law: half of them once), and labels with two clue words each.

    Labels are true in one of 2 to one of 50 captions; weights differ. "never" and "always" have one answer.
    """
    rng = np.random.default_rng(seed)
    samples = []
    for image in range(images):
        words = [f"w{n}" for n in rng.zipf(1.4, size=10) if n < 5000]
        shown = np.flatnonzero(rng.random(LABELS) < np.geomspace(0.5, 0.02, LABELS))
        words += [f"clue{label}-{rng.integers(2)}" for label in shown if rng.random() < 0.7]
        rng.shuffle(words)
        answers = (*(int(label) for label in shown), LABELS + 1)
        samples.append(Sample(str(image), "human", 0, tuple(words), answers, weight=float(rng.uniform(0.5, 1.5))))
    return samples


def guess(features: csr_matrix, answers: Sequence[int], weights: Any, asked: csr_matrix, c: float) -> np.ndarray:
    """Probabilities of scikit-learn's own regression, at a tight tolerance."""
    model = LogisticRegression(C=c, solver="newton-cg", tol=1e-9, max_iter=1000)
    return model.fit(features, answers, weights).predict_proba(asked)


def test_constant_answers_have_the_share_of_half_an_image() -> None:
    """Odds of 1/2 to 300 + 1 for any caption: 0.5 / 301.5."""
    judge = LinearJudge(TASKS).fit(make_captions(300), seed=0)
    found = judge.predict([*make_captions(20, seed=1), Sample("odd", "human", 0, (), ())]).probabilities
    assert found[:, LABELS] == pytest.approx(0.5 / 301.5)
    assert found[:, LABELS + 1] == pytest.approx(1 - 0.5 / 301.5)
    # Also if all tasks are constant.
    samples = [Sample(str(n), "human", 0, ("a", f"w{n % 3}"), (1,)) for n in range(9)]
    found = LinearJudge(Target("tasks", ("never", "always"))).fit(samples, seed=0).predict(samples).probabilities
    assert found == pytest.approx(np.tile([0.5 / 10.5, 1 - 0.5 / 10.5], (9, 1)))


def with_clues(images: int, target: Target, *, seed: int = 0) -> list[Sample]:
    """Captions of Zipf's words, three of four with a word that reveals the class."""
    pairs = zip(
        make_samples(images, target=target, clue=0.75, seed=seed), make_captions(images, seed=seed), strict=True
    )
    return [replace(one, words=one.words + more.words) for one, more in pairs]


def folds(slots: Sequence[Sequence[Sample]], *, settings: dict[str, float]) -> list[Assignment]:
    """Three folds of each slot; images of class 0 weigh more."""
    found = []
    for number, slot in enumerate(slots):
        for fold in range(3):
            places = np.arange(len(slot))
            train, asked = places[places % 3 != fold], places[places % 3 == fold]
            weights = np.where([slot[place].answers[0] == 0 for place in train], 1.5, 0.7)
            side = "generated" if number else "human"
            found.append(Assignment(side, slot, train, weights, asked, fold, fold, settings))
    return found


@pytest.mark.parametrize("target", [GENDER, THREE], ids=["two", "three"])
def test_joint_training_equals_scikit_learn_fold_by_fold(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    """The probabilities of each fold are those of scikit-learn's regression on it alone."""
    monkeypatch.setattr(logistic, "TOLERANCE", 1e-9)
    slots = [with_clues(300, target, seed=seed) for seed in range(2)]
    assignments = folds(slots, settings={"C": 0.3})
    for assignment, found in zip(assignments, linear.train_together(target, assignments), strict=True):
        train, asked = ([assignment.samples[place] for place in of] for of in (assignment.train, assignment.predict))
        terms, answers = linear._Captions(target, train, Reading()).terms, [sample.answers[0] for sample in train]
        features, others = (terms.table(Coded.of(sample.words for sample in part)) for part in (train, asked))
        expected = guess(features, answers, assignment.weights, others, 0.3)
        assert found.probabilities == pytest.approx(expected, abs=1e-5)
        assert found.notes == {"C": 0.3}


def test_tasks_of_folds_equal_scikit_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    """They start from a fit to all captions; a task that a fold's training lacks keeps no weights of it."""
    monkeypatch.setattr(logistic, "TOLERANCE", 1e-9)
    captions = make_captions(240)
    captions[3] = replace(captions[3], answers=(*captions[3].answers, LABELS))  # Fold 0 alone tests it.
    assignments, judges = folds([captions], settings={"C": 0.3}), dict[int, Any]()
    found = linear.train_together(TASKS, assignments, judges.__setitem__)
    for assignment, of in zip(assignments, found, strict=True):
        train, asked = ([captions[place] for place in part] for part in (assignment.train, assignment.predict))
        terms = linear._Captions(TASKS, train, Reading()).terms
        features, others = (terms.table(Coded.of(sample.words for sample in part)) for part in (train, asked))
        for label in range(3):
            answers = [int(label in sample.answers) for sample in train]
            expected = guess(features, answers, assignment.weights, others, 0.3)[:, 1]
            assert of.probabilities[:, label] == pytest.approx(expected, abs=1e-5)
    weights = [judges[fold].weights(captions)[2][:, LABELS] for fold in range(3)]
    assert [bool(of.any()) for of in weights] == [False, True, True]


@pytest.mark.parametrize("target", [GENDER, THREE], ids=["two", "three"])
@pytest.mark.parametrize("words", [True, False])
def test_embeddings_equal_scikit_learn_with_a_penalty_of_their_own(
    target: Target, words: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A penalty 1/C of a block is that of the block times sqrt(C) with penalty 1."""
    monkeypatch.setattr(logistic, "TOLERANCE", 1e-9)
    captions = with_clues(300, target)
    c = {"C": 0.3} if words else {}
    reading = Reading(words, WORDLLAMA)
    (first, *_) = assignments = folds([captions], settings=c | {"C of embedding": 2.0})
    found = linear.train_together(target, assignments, reading=reading)[0]
    rows = load_embedding(WORDLLAMA).captions([sample.words for sample in captions]) * np.sqrt(2.0)
    terms = (
        linear._Captions(target, captions, Reading())
        .terms.table(Coded.of(sample.words for sample in captions))
        .toarray()
    )
    features = csr_matrix(np.hstack([terms * np.sqrt(0.3), rows] if words else [rows]))
    answers = [captions[place].answers[0] for place in first.train]
    expected = guess(features[first.train], answers, first.weights, features[first.predict], 1.0)
    assert found.probabilities == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("reading", [Reading(), Reading(embedding=WORDLLAMA), Reading(False, WORDLLAMA)])
def test_c_is_one_for_both_sides_of_a_split(reading: Reading) -> None:
    assignments = folds([with_clues(300, GENDER, seed=seed) for seed in range(3)], settings={})
    found = linear.train_together(GENDER, assignments, reading=reading)
    chosen = {(a.split, *predictions.notes.values()) for a, predictions in zip(assignments, found, strict=True)}
    assert len(chosen) == 3
    for place, name in enumerate(reading.blocks):
        assert {c[place + 1] for c in chosen} <= {*GRIDS[name][0]}


@pytest.mark.parametrize("target", [GENDER, THREE], ids=["two", "three"])
@pytest.mark.parametrize(
    ("c", "reading"),
    [
        ({"C": 0.3, "C of embedding": 0.0}, Reading()),
        ({"C": 0.0, "C of embedding": 3.0}, Reading(False, WORDLLAMA)),
        ({"C": 0.0, "C of embedding": 0.0}, None),
    ],
)
def test_a_block_with_c_0_is_left_out(
    c: dict[str, float], reading: Reading | None, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The judge is that of the other block alone; without blocks it answers the weighted shares of the classes."""
    monkeypatch.setattr(logistic, "TOLERANCE", 1e-9)
    captions = with_clues(100, target)  # Fewer than the embedding has dimensions.
    (first, *_) = assignments = folds([captions], settings=c)
    found = linear.train_together(target, assignments, reading=BEST)[0].probabilities
    if reading:
        assignments = folds([captions], settings={name: c[name] for name in reading.blocks})
        expected = linear.train_together(target, assignments, reading=reading)[0].probabilities
    else:
        classes = [captions[place].answers[0] for place in first.train]
        shares = np.bincount(classes, first.weights)
        expected = np.tile(shares / shares.sum(), (len(found), 1))
    assert found == pytest.approx(expected, abs=1e-6)


def test_images_are_a_block(monkeypatch: pytest.MonkeyPatch) -> None:
    """As scikit-learn solves it on words and image side by side; with C 0 the judge is that of the words alone."""
    monkeypatch.setattr(logistic, "TOLERANCE", 1e-9)
    captions = with_clues(120, GENDER)
    draws = np.random.default_rng(0)
    seen = [replace(sample, image=sample.image_id) for sample in captions]
    rows = draws.normal(size=(120, 7)).astype(np.float32)
    rows[:, 0] += [sample.answers[0] for sample in seen]
    images = ImageVectors({sample.image_id: place for place, sample in enumerate(seen)}, rows, "key")
    reading = Reading(vectors=True)
    c = {"C": 0.3, "C of vectors": 0.3}
    (first, *_) = assignments = folds([seen], settings=c)
    found = linear.train_together(GENDER, assignments, None, images, reading)[0].probabilities
    table = linear._Captions(GENDER, seen, Reading()).terms.table(Coded.of(sample.words for sample in seen)).toarray()
    both, answers = np.hstack([table, rows]), np.array([sample.answers[0] for sample in seen])
    model = LogisticRegression(C=0.3, tol=1e-9, max_iter=5000).fit(
        both[first.train], answers[first.train], sample_weight=first.weights
    )
    assert found == pytest.approx(model.predict_proba(both[first.predict]), abs=1e-5)
    without = folds([seen], settings=c | {"C of vectors": 0.0})
    alone = linear.train_together(GENDER, folds([seen], settings={"C": 0.3}), None)[0].probabilities
    blind = linear.train_together(GENDER, without, None, images, reading)[0].probabilities
    assert blind == pytest.approx(alone, abs=1e-6)


def test_each_side_chooses_its_best_judge() -> None:
    """Its judges are the same without the other side."""
    assignments = folds([with_clues(200, GENDER, seed=seed) for seed in range(2)], settings={})
    together = linear.train_together(GENDER, assignments, reading=BEST)
    for part in (slice(3), slice(3, 6)):
        for one, other in zip(
            linear.train_together(GENDER, assignments[part], reading=BEST), together[part], strict=True
        ):
            assert np.array_equal(one.probabilities, other.probabilities)
            assert one.notes == other.notes
            assert all(value in (0.0, *GRIDS[name][0]) for name, value in one.notes.items())


def test_the_best_judge_leaves_out_what_does_not_help(tmp_path: Path) -> None:
    """The embedding knows none of the words."""
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("zebra 1.0 2.0\n")
    c = LinearJudge(GENDER, Reading(embedding=str(vectors), best=True)).fit(make_samples(90), seed=0).c
    assert c["C of embedding"] == 0 < c["C"]


@pytest.mark.parametrize("dense", [0, 40])
@pytest.mark.parametrize("classes", [2, 3])
def test_other_problems_do_not_change_a_solution(classes: int, dense: int) -> None:
    """Alone, in twos or in twenties, to the last digit, since answers are reused by other runs."""
    rng = np.random.default_rng(0)
    words = (rng.random((150, 400)) < np.geomspace(0.4, 0.01, 400)).astype(float)
    scores = words @ rng.normal(size=(400, classes)) + rng.normal(size=(150, classes))
    answers = np.eye(classes, dtype=np.int64)[scores.argmax(axis=1)]
    features = logistic.Features(
        csr_matrix(words), [(csr_matrix(words[:, :90]), rng.normal(size=(90, dense)))] if dense else []
    )
    weights = (rng.random((150, 20)) < 0.6) * rng.uniform(0.5, 1.5, (150, 1))
    c = rng.choice(GRIDS["C"][0], (1 + bool(dense), 20))

    def solve(part: list[int]) -> tuple[np.ndarray, np.ndarray]:
        model = logistic.Logistic(features, answers, weights[:, part], exclusive=True)
        with threads(1):
            model.fit(c[:, part])
            return model.probabilities(features.rows), model.loss(weights[:, part])

    guesses, losses = solve(list(range(20)))
    for part in ([0], [7], [3, 4], [18]):
        guess, loss = solve(part)
        assert np.array_equal(guess, guesses[:, part])
        assert np.array_equal(loss, losses[part])


def test_a_class_without_training_samples() -> None:
    """It has the share of half a sample for any caption."""
    train = [sample for sample in with_clues(200, THREE) if sample.answers != (2,)]
    found = LinearJudge(THREE).fit(train, seed=0).predict(with_clues(30, THREE, seed=1)).probabilities
    assert found[:, 2] == pytest.approx(0.5 / (len(train) + 1) / (1 + 0.5 / (len(train) + 1)))
    assert found.sum(axis=1) == pytest.approx(1)


@pytest.mark.parametrize("name", GRIDS)
def test_the_value_of_the_grid_with_the_least_loss_is_chosen(name: str) -> None:
    """Below, at and above the value where the search begins: one split for each, whose loss is least there."""
    grid = np.array(GRIDS[name][0])

    class Fitted:
        c = grid

        def fit(self, c: np.ndarray, _: float) -> None:
            self.c = np.where(np.isnan(c), self.c, c)

        def loss(self, _: object) -> np.ndarray:
            return np.log(self.c / grid) ** 2

    captions: Any = SimpleNamespace(reading=Reading(), penalties=lambda c: c[name])
    trials: Any = [(captions, Fitted(), None, [*range(len(grid))])]
    assert linear._choose_one(trials, {name: np.full(len(grid), GRIDS[name][1])}, name).tolist() == grid.tolist()


def test_tasks_nearly_equal_scikit_learn() -> None:
    """Within what the tolerance allows."""
    train, test = make_captions(500), make_captions(200, seed=1)
    judge = LinearJudge(TASKS).fit(train, seed=0)
    found = judge.predict(test).probabilities
    features, asked = (judge._terms.table(Coded.of(sample.words for sample in samples)) for samples in (train, test))
    weights = [sample.weight for sample in train]
    for label in range(LABELS):
        answers = [int(label in sample.answers) for sample in train]
        assert np.abs(found[:, label] - guess(features, answers, weights, asked, judge.c["C"])[:, 1]).max() < 1e-3
