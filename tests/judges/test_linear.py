"""The linear judge of tasks: all labels at once, against scikit-learn's one by one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from judge.judges import linear, logistic
from judge.judges.linear import C_GRID, LinearJudge
from judge.types import Sample, Target

LABELS = 8
TASKS = Target("tasks", (*(f"object {n}" for n in range(LABELS)), "never", "always"))


def make_captions(images: int, *, seed: int = 0) -> list[Sample]:
    """Words as frequent as in English (Zipf's law: half of them once), labels that two words each tell of.

    From one in two captions to one in fifty; unequal weights. "never" and "always" are what they say.
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


def table(samples: Sequence[Sample]) -> np.ndarray:
    return np.array([[label in sample.answers for label in range(LABELS)] for sample in samples], dtype=int)


def one_by_one(features: csr_matrix, samples: Sequence[Sample], asked: csr_matrix, *, c: float) -> np.ndarray:
    """Probabilities [N, LABELS] of scikit-learn's own regressions, at a tight tolerance."""
    weights = [sample.weight for sample in samples]
    models = [
        LogisticRegression(C=c, solver="newton-cg", tol=1e-9, max_iter=1000).fit(features, answers, weights)
        for answers in table(samples).T
    ]
    return np.stack([model.predict_proba(asked)[:, 1] for model in models], axis=1)


@pytest.mark.parametrize(("tolerance", "bound"), [(logistic.TOLERANCE, 1e-3), (1e-9, 1e-6)])
def test_tasks_equal_scikit_learn(tolerance: float, bound: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same probabilities within what the tolerance leaves open: with a tight one, within 1e-6."""
    monkeypatch.setattr(logistic, "TOLERANCE", tolerance)
    train, test = make_captions(500), make_captions(200, seed=1)
    judge = LinearJudge(TASKS).fit(train, seed=0)
    found = judge.predict(test).probabilities
    features, asked = (judge._vectorizer.transform(samples) for samples in (train, test))
    assert np.abs(found[:, :LABELS] - one_by_one(features, train, asked, c=judge.c)).max() < bound


def test_c_is_the_first_minimum_of_held_out_loss() -> None:
    """Of one fold, all labels and images together, weighted; against a plain search over the whole grid."""
    train = make_captions(500)
    judge = LinearJudge(TASKS).fit(train, seed=5)
    features, truth = judge._vectorizer.transform(train), table(train)
    weights = np.array([sample.weight for sample in train])
    ((kept, held),) = linear._inner_folds(truth, several=True, seed=5)
    losses = []
    for c in C_GRID:
        p = one_by_one(features[kept], [train[n] for n in kept], features[held], c=c)
        losses.append(-(weights[held] @ np.log(np.where(truth[held] == 1, p, 1 - p))).sum())
    first = next(n for n in range(len(C_GRID)) if n + 1 == len(C_GRID) or losses[n + 1] >= losses[n])
    assert 0 < first < len(C_GRID) - 1
    assert judge.c == C_GRID[first]


def test_what_training_answers_in_one_way_has_the_share_of_half_an_image() -> None:
    """Odds of 1/2 to 300 + 1, whatever the caption says: 0.5 / 301.5; and the most likely is never certain."""
    judge = LinearJudge(TASKS).fit(make_captions(300), seed=0)
    found = judge.predict([*make_captions(20, seed=1), Sample("odd", "human", 0, (), ())]).probabilities
    assert found[:, LABELS] == pytest.approx(0.5 / 301.5)
    assert found[:, LABELS + 1] == pytest.approx(1 - 0.5 / 301.5)


def test_nothing_to_learn() -> None:
    constant = Target("tasks", ("never", "always"))
    samples = [Sample(str(n), "human", 0, ("a", f"w{n % 3}"), (1,)) for n in range(9)]
    found = LinearJudge(constant).fit(samples, seed=0).predict(samples).probabilities
    assert found == pytest.approx(np.tile([0.5 / 10.5, 1 - 0.5 / 10.5], (9, 1)))


def test_odds_however_large_stay_probabilities() -> None:
    train = make_captions(200)
    judge = LinearJudge(TASKS).fit(train, seed=0)
    judge._model._found *= 1e4
    found = judge.predict(train).probabilities
    assert found.max() > 0.999999
    assert (found > 0).all()
    assert (found < 1).all()


@pytest.mark.parametrize("threads", [1, 2])
def test_tasks_are_deterministic(threads: int) -> None:
    train = make_captions(300)
    first = LinearJudge(TASKS).fit(train, seed=3).predict(train).probabilities
    with threadpool_limits(threads):
        again = LinearJudge(TASKS).fit(train, seed=3).predict(train).probabilities
    assert np.array_equal(first, again)


@pytest.mark.parametrize("far", [0.0, 3.0, 30.0])
def test_any_start_leads_to_the_optimum(far: float) -> None:
    """From far away whole Newton steps overshoot. The gradient, written out, is within the tolerance."""
    rng = np.random.default_rng(0)
    x = np.c_[rng.random((120, 15)) < 0.3, np.ones(120)].astype(float)
    y = (rng.random((120, 4)) < [0.5, 0.2, 0.05, 0.9]).astype(float)
    weights = rng.uniform(0.5, 2, (120, 1))
    start = far * rng.normal(size=(16, 4))
    found = logistic._solve(logistic._Design(csr_matrix(x), weights), y, start, c=0.5)
    gradient = x.T @ (weights * (1 / (1 + np.exp(-x @ found)) - y))
    gradient[:-1] += found[:-1] / 0.5
    assert np.abs(gradient).max() <= logistic.TOLERANCE * weights.sum() * (1 + 1e-6)


def test_a_step_is_halved_until_the_loss_falls() -> None:
    """Losses (1 - 3t)^2 and (1 - t)^2 of a step's part t, slopes -6 and -2 at 0.

    At t = 1 the first is 4 > 1, at 1/2 it is 1/4 < 1; the second is 0 at once.
    """
    pace = np.array([3.0, 1.0])
    assert logistic._step_length(lambda part: (1 - pace * part) ** 2, -2 * pace).tolist() == [0.5, 1]


def test_twins_are_merged_without_a_trace() -> None:
    """Columns 0, 2 and 3 are one, sqrt(3) times as large."""
    features = csr_matrix(np.array([[1, 0, 1, 1, 0], [0, 1, 0, 0, 1], [1, 1, 1, 1, 0]], dtype=float))
    merged = features @ logistic._merge_twins(features)
    assert merged.toarray() == pytest.approx(np.array([[3**0.5, 0, 0], [0, 1, 1], [3**0.5, 1, 0]]))
