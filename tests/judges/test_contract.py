"""What every judge in the registry must do; a new file is tested for free."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import GENDER, THREE, accuracy, make_samples

from judge.errors import JudgeError
from judge.judges import FILES, Judge, find_judge
from judge.training.trainer import NetworkJudge, Trainer, make_accelerator
from judge.types import Sample, Target


def build(name: str, target: Target) -> Judge:
    """Any registered judge, quick: networks with a learning rate that a hundred captions can teach."""
    from dataclasses import replace

    blueprint = find_judge(name)
    if blueprint.judge:
        return blueprint.judge(target)
    assert blueprint.recipe
    recipe = replace(blueprint.recipe, epochs=4, learning_rate=2e-3, batch_size=16)
    return NetworkJudge(blueprint, target, recipe, Trainer(make_accelerator()))


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("target", [GENDER, THREE], ids=["two", "three"])
def test_contract(name: str, target: Target) -> None:
    train, test = make_samples(240, target=target), make_samples(60, target=target, seed=1)
    judge = build(name, target).fit(train, seed=0)
    found = judge.predict(test)
    assert found.target == target
    assert found.probabilities.shape == (60, len(target.classes))
    assert found.probabilities.dtype == np.float64
    assert found.probabilities.sum(axis=1) == pytest.approx(1, abs=1e-6)
    assert accuracy(found.probabilities, test) > 0.95
    backwards = judge.predict(test[::-1]).probabilities[::-1]
    assert backwards == pytest.approx(found.probabilities, abs=1e-6)
    odd = [Sample("odd", "human", 0, words, (0,)) for words in ((), ("never", "seen"), ("👩‍🍳", "स्त्री"))]
    assert np.isfinite(judge.predict(odd).probabilities).all()


@pytest.mark.parametrize("name", FILES)
def test_no_clue_gives_chance(name: str) -> None:
    """Confidence of LIC's kind near 1/4: the captions hold nothing."""
    train, test = make_samples(200, clue=0.0), make_samples(400, clue=0.0, seed=1)
    found = build(name, GENDER).fit(train, seed=0).predict(test).probabilities
    truth = np.array([sample.answers[0] for sample in test])
    p = found[np.arange(400), truth]
    # sd of the mean of p * [right] is about 0.3 / 20; three of them, and room for overconfidence.
    assert np.mean(p * (found.argmax(axis=1) == truth)) == pytest.approx(0.27, abs=0.06)


@pytest.mark.parametrize("name", FILES)
def test_deterministic(name: str) -> None:
    train = make_samples(60, clue=0.5)
    first, again = (build(name, GENDER).fit(train, seed=3).predict(train).probabilities for _ in range(2))
    assert np.array_equal(first, again)


def test_unknown_judge_names_the_nearest() -> None:
    with pytest.raises(JudgeError, match=r"unknown judge 'lsmt'\. Did you mean 'lstm'\?"):
        find_judge("lsmt")


def test_linear_chooses_c_by_log_loss() -> None:
    """Clear clues ask for little shrinkage, pure noise for much."""
    from judge.judges.linear import C_GRID

    clear = build("linear", GENDER).fit(make_samples(300), seed=0).predict(make_samples(5)).notes["C"]
    noise = build("linear", GENDER).fit(make_samples(300, clue=0.0), seed=0).predict(make_samples(5)).notes["C"]
    assert clear == C_GRID[-1]
    assert noise <= 0.1


def test_linear_equals_a_hand_written_optimum() -> None:
    """The fitted weights are where the gradient of the weighted, penalised log loss is zero."""
    samples = [
        Sample(s.image_id, s.side, 0, s.words, s.answers, weight=1.5 - s.answers[0]) for s in make_samples(80, clue=0.7)
    ]
    judge = build("linear", GENDER).fit(samples, seed=0)
    x = judge._vectorizer.transform(samples).toarray()
    y = np.array([s.answers[0] for s in samples])
    w = np.array([s.weight for s in samples])
    model = judge._model
    p = 1 / (1 + np.exp(-(x @ model.coef_[0] + model.intercept_[0])))
    gradient = x.T @ (w * (p - y)) + model.coef_[0] / judge.c
    assert np.abs(gradient).max() / w.sum() < 2e-3
