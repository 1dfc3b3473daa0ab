"""Scores and amplifications against numbers worked by hand and their invariants."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from helpers import run_of
from hypothesis import given
from hypothesis import strategies as st

from judge.measure.table import judge_answers
from judge.metrics import METRICS, find_metric
from judge.metrics.amplification import AMPLIFICATIONS
from judge.metrics.scores import SCORES, Judged
from judge.statistics.summary import Summary
from judge.statistics.validity import void_rows
from judge.text.coded import multi_hot
from judge.types import Predictions, Sample, Target

# Those that are a mean, or a function of one, without another mean beside it.
PLAIN = [name for name, score in SCORES.items() if not (score.relative or name == "gain")]


def judged(probability: np.ndarray, correct: np.ndarray) -> Judged:
    with np.errstate(divide="ignore"):
        return Judged(probability, correct, -np.log(probability))


def value(name: str, said: Judged) -> float:
    score = SCORES[name]
    mean = score.quantity(said).mean()
    return float(score.pool(mean) if score.pool else mean)


def test_a_certain_error_costs_everything() -> None:
    assert value("inverse_cross_entropy", judged(np.array([0.0, 1.0]), np.array([False, True]))) == 0.0


def test_a_gain_is_a_fall_of_the_loss() -> None:
    said = Judged(np.array([0.9, 0.4]), np.array([True, False]), np.array([0.1, 0.8]), known=np.array([0.5, 0.6]))
    assert value("gain", said) == pytest.approx((0.4 - 0.2) / 2)


@pytest.mark.parametrize("name", PLAIN)
@pytest.mark.parametrize("k", [2, 3, 9])
def test_chance(name: str, k: int) -> None:
    """A judge that says 1/K everywhere and is right by luck once in K."""
    even = np.full(k, 1 / k)
    assert value(name, judged(even, np.arange(k) == 0)) == pytest.approx(SCORES[name].chance(even))


@pytest.mark.parametrize(("name", "expected"), [
    ("accuracy", 0.7), ("confident_accuracy", 0.49), ("confidence", 0.58), ("inverse_cross_entropy", 1.63703)
])  # fmt: skip
def test_chance_of_unequal_classes(name: str, expected: float) -> None:
    """Of 10 captions 7 are of one class; a judge that answers 0.7 and 0.3 everywhere. CE: -0.7 ln 0.7 - 0.3 ln 0.3."""
    truth = np.arange(10) < 7
    assert value(name, judged(np.where(truth, 0.7, 0.3), truth)) == pytest.approx(expected, abs=1e-5)
    row, images = find_metric(f"lic:{name}:unbalanced"), {"male": 70, "female": 30}
    assert row.chance(images) == pytest.approx(expected, abs=1e-5)
    assert find_metric(f"lic:{name}").chance(images) == pytest.approx(SCORES[name].chance(np.array([0.5, 0.5])))


def test_what_predictions_say_of_samples_by_hand() -> None:
    """Of a class its probability; of tasks the product over all, and the mean of their losses."""
    one = Predictions(np.array([[0.25, 0.75], [0.5, 0.5]]), Target("attribute", ("a", "b")))
    said = Judged.of([Sample("1", "human", 0, (), (1,)), Sample("2", "human", 0, (), (1,))], one)
    assert said.probability == pytest.approx([0.75, 0.5])
    assert said.correct.tolist() == [True, False]  # Of equals the first is guessed.
    assert said.loss == pytest.approx(-np.log([0.75, 0.5]))
    several = Predictions(np.array([[0.9, 0.2, 0.5], [0.9, 0.2, 0.4]]), Target("tasks", ("cup", "dog", "tie")))
    samples = [Sample("1", "human", 0, (), (0, 2)), Sample("2", "human", 0, (), (0, 1))]
    said = Judged.of(samples, several)
    assert said.probability == pytest.approx([0.9 * 0.8 * 0.5, 0.9 * 0.2 * 0.6])
    assert said.correct.tolist() == [True, False]
    assert said.loss == pytest.approx(-np.log([0.9 * 0.8 * 0.5, 0.9 * 0.2 * 0.6]) / 3)
    names = judge_answers(multi_hot([of.answers for of in samples], 3), several)
    assert ([*names["answer"]], [*names["predicted"]]) == (["cup|tie", "cup|dog"], ["cup|tie", "cup"])


@given(st.floats(0.01, 1.0), st.floats(0.01, 1.0))
def test_amplifications(human: float, generated: float) -> None:
    h, g = np.float64(human), np.float64(generated)
    assert AMPLIFICATIONS["difference"](h, g) == -AMPLIFICATIONS["difference"](g, h)
    assert AMPLIFICATIONS["normalised"](h, g) == pytest.approx(-AMPLIFICATIONS["normalised"](g, h), abs=1e-9)
    assert -1 < AMPLIFICATIONS["normalised"](h, g) < 1
    assert AMPLIFICATIONS["ratio"](h, g) * AMPLIFICATIONS["ratio"](g, h) == pytest.approx(1)
    assert AMPLIFICATIONS["difference"](h, h) == AMPLIFICATIONS["normalised"](h, h) == 0
    assert AMPLIFICATIONS["one_side"](h, g) == g - h
    assert np.isnan(AMPLIFICATIONS["ratio"](np.float64(0), np.float64(0.5)))


@pytest.mark.parametrize("scale", [1.0, 1e-13, 1e-24, 1e-300])
def test_a_relative_change_does_not_depend_on_the_size_of_the_scores(scale: float) -> None:
    """Of scores of 1 and 12.5 parts it is 11.5 / 13.5; T->A DPAC multiplies dozens of probabilities."""
    normalised = AMPLIFICATIONS["normalised"]
    human, generated = np.array([scale, 0.0, 0.0]), np.array([12.5 * scale, scale, 0.0])
    assert normalised(human, generated) == pytest.approx([11.5 / 13.5, 1.0, 0.0], rel=1e-14)


def test_scores_too_small_for_a_number_have_no_verdict() -> None:
    """A judge that gives each of 1,200 tasks 1/2: 2^-1200 is 0 in float64, whichever side it is of."""
    row = Summary("a", METRICS["dpac-ta"], "lstm", human=0.5**1200, generated=0.5**1000, amplification=1.0)
    run = run_of({"a": {"female": 9, "male": 9}})
    (finding,) = void_rows([row], run).values()
    assert "too small to compute with (human 0, generated 9.33e-302)" in finding.because
    assert not void_rows([replace(row, human=0.5**80, generated=0.5**79)], run)


def test_rows_point_at_what_exists() -> None:
    bibliography = (Path(__file__).parents[2] / "judge" / "references.bib").read_text(encoding="utf-8")
    for row in METRICS.values():
        assert row.counted or row.score in SCORES
        assert row.amplification in AMPLIFICATIONS
        assert f"{{{row.reference.split(',')[0]}," in bibliography
