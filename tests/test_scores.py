"""Scores and amplifications against numbers worked by hand and their invariants."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge.amplification import AMPLIFICATIONS
from judge.metrics import METRICS
from judge.scores import SCORES, Judged

PROBABILITY = np.array([0.9, 0.6, 0.2])
CORRECT = np.array([True, True, False])


EXPECTED = {
    "accuracy": 2 / 3,
    "confident_accuracy": (0.9 + 0.6) / 3,
    "confidence": (0.9 + 0.6 + 0.2) / 3,
    # The mean of three -log p is -log of their product, over three.
    "inverse_cross_entropy": 3 / -np.log(0.9 * 0.6 * 0.2),
}


@pytest.mark.parametrize(("name", "expected"), EXPECTED.items())
def test_by_hand(name: str, expected: float) -> None:
    score = SCORES[name]
    means = score.columns(Judged.of_class(PROBABILITY, CORRECT)).mean(axis=1)
    assert score.value(means) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(("name", "expected"), EXPECTED.items())
def test_priors_by_hand(name: str, expected: float) -> None:
    """DPAC: the mean of q w, caption by caption. DBAC: Q times the mean of w."""
    score, prior = SCORES[name], np.array([0.5, 2.0, 1.0])
    weighted = {
        "accuracy": (0.5 + 2) / 3,
        "confident_accuracy": (0.9 * 0.5 + 0.6 * 2) / 3,
        "confidence": (0.9 * 0.5 + 0.6 * 2 + 0.2) / 3,
        "inverse_cross_entropy": expected * (0.5 + 2 + 1) / 3,
    }
    means = score.columns(Judged.of_class(PROBABILITY, CORRECT), prior).mean(axis=1)
    assert score.value(means) == pytest.approx(weighted[name], abs=1e-12)


def test_every_score_is_checked_by_hand() -> None:
    assert set(EXPECTED) == set(SCORES)


@pytest.mark.parametrize("name", SCORES)
@pytest.mark.parametrize("k", [2, 3, 9])
def test_chance(name: str, k: int) -> None:
    """A judge that says 1/K everywhere and is right by luck once in K."""
    probability = np.full(k, 1 / k)
    correct = np.arange(k) == 0
    score = SCORES[name]
    means = score.columns(Judged.of_class(probability, correct)).mean(axis=1)
    assert score.value(means) == pytest.approx(score.chance(k))


def test_a_certain_error_costs_everything() -> None:
    score = SCORES["inverse_cross_entropy"]
    certain = Judged.of_class(np.array([0.0, 1.0]), np.array([False, True]))
    assert score.value(score.columns(certain).mean(axis=1)) == 0.0


scores = st.floats(0.01, 1.0)


@given(scores, scores)
def test_amplifications(human: float, generated: float) -> None:
    h, g = np.float64(human), np.float64(generated)
    assert AMPLIFICATIONS["difference"](h, g) == -AMPLIFICATIONS["difference"](g, h)
    assert AMPLIFICATIONS["normalised"](h, g) == pytest.approx(-AMPLIFICATIONS["normalised"](g, h), abs=1e-9)
    assert -1 < AMPLIFICATIONS["normalised"](h, g) < 1
    assert AMPLIFICATIONS["ratio"](h, g) * AMPLIFICATIONS["ratio"](g, h) == pytest.approx(1)
    assert AMPLIFICATIONS["difference"](h, h) == AMPLIFICATIONS["normalised"](h, h) == 0
    assert np.isnan(AMPLIFICATIONS["one_side"](h, g))


def test_ratio_of_nothing_is_undefined() -> None:
    assert np.isnan(AMPLIFICATIONS["ratio"](np.float64(0), np.float64(0.5)))


def test_rows_point_at_what_exists() -> None:
    bibliography = (Path(__file__).parents[1] / "judge" / "references.bib").read_text(encoding="utf-8")
    for row in METRICS.values():
        assert row.counted or row.score in SCORES
        assert row.amplification in AMPLIFICATIONS
        assert f"{{{row.reference.split(',')[0]}," in bibliography
