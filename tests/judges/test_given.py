"""The judge that reads what is known and a caption, against plain loops."""

from __future__ import annotations

import numpy as np
import pytest

from judge.judges.given import CAPTION_PENALTY, PENALTIES, Given, give, shares_of

N = 40
World = tuple[np.ndarray, np.ndarray, np.ndarray]


@pytest.fixture
def world() -> World:
    generator = np.random.default_rng(3)
    classes = np.repeat([0, 1, 2], (20, 12, 8))
    known, captions = generator.normal(size=(2, N, 5)).astype(np.float32)
    known[:, 0] += classes
    captions[:, 1] -= classes
    return known, captions, classes


def plainly(
    features: np.ndarray,
    penalties: np.ndarray,
    classes: np.ndarray,
    units: np.ndarray,
    truth: np.ndarray | None = None,
) -> np.ndarray:
    """Errors of ridge regressions that are trained without the units that they predict; ``truth``: else the classes."""
    weights = N / 3 / np.bincount(classes)[classes]
    truth = (np.eye(3)[classes] - 1 / 3) / np.sqrt(2 / 3) if truth is None else truth
    errors = np.empty(truth.shape)
    for image in range(N):
        learnt = units != units[image]
        x, w = features[learnt], weights[learnt, None]
        solution = np.linalg.solve(x.T @ (w * x) + np.diag(penalties), x.T @ (w * truth[learnt]))
        errors[image] = truth[image] - features[image] @ solution
    return errors


@pytest.mark.parametrize("units", [np.arange(N), np.arange(N) // 3])
def test_errors_are_those_of_judges_trained_without_each_unit(world: World, units: np.ndarray) -> None:
    known, captions, classes = world
    (given,) = give([known], classes, units)
    constant = np.full((N, 1), 10.0)
    own = [given.penalty] * 6
    expected = plainly(np.hstack([known, constant]), np.array(own), classes, units)
    np.testing.assert_allclose(given.errors, expected, rtol=1e-3, atol=1e-4)
    both = np.hstack([known, constant, captions])
    expected = plainly(both, np.array([*own, *[CAPTION_PENALTY * N] * 5]), classes, units)
    np.testing.assert_allclose(given.reading(given.tell(captions)), expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("units", [np.arange(N), np.arange(N) // 3])
def test_captions_are_expected_by_judges_trained_without_each_unit(world: World, units: np.ndarray) -> None:
    known, captions, classes = world
    captions[:, 0] += known[:, 1]
    (given,) = give([known], classes, units)
    features = np.hstack([known, np.full((N, 1), 10.0)])
    errors = plainly(features, np.array([given.penalty] * 6), classes, units, captions)
    mean = plainly(np.full((N, 1), 10.0), np.array([given.penalty]), classes, units, captions)
    np.testing.assert_allclose(given.expect(given.tell(captions)), mean - errors, rtol=1e-3, atol=1e-3)


def test_nothing_is_expected_where_nothing_is_known(world: World) -> None:
    """Also not the opposite of an image's own caption, which is a part of the mean of all."""
    _, captions, classes = world
    (given,) = give([np.zeros((N, 5), np.float32)], classes)
    assert np.abs(given.expect(given.tell(captions))).max() < 1e-5


def test_features_of_captions_have_the_weights_of_a_plain_regression(world: World) -> None:
    """Of shares: the truth has joint variance 1 where classes are balanced, and shares 2/3."""
    known, captions, classes = world
    (given,) = give([known], classes)
    weights = N / 3 / np.bincount(classes)[classes, None]
    x = np.hstack([known, np.full((N, 1), 10.0), captions]).astype(np.float64)
    penalties = np.diag([*[given.penalty] * 6, *[CAPTION_PENALTY * N] * 5])
    shares = np.eye(3)[classes] - 1 / 3
    solution = np.linalg.solve(x.T @ (weights * x) + penalties, x.T @ (weights * shares))
    np.testing.assert_allclose(given.weights(given.tell(captions)), solution[6:], rtol=1e-3, atol=1e-4)


def loss(errors: np.ndarray, classes: np.ndarray) -> float:
    """Mean over classes."""
    return float(np.mean([(errors[classes == name] ** 2).sum(axis=1).mean() for name in range(3)]))


def test_roles_have_the_penalty_with_the_smallest_loss_of_all(world: World) -> None:
    """Noise alone asks for a larger penalty than a feature that tells the class."""
    known, noise, classes = world
    chosen = []
    for roles in ([known[:, :1]], [noise[:, 2:]], [known[:, :1], noise[:, 2:]]):
        judges = give(roles, classes)
        tried = {of: sum(loss(Given(role, classes).penalise(of).errors, classes) for role in roles) for of in PENALTIES}
        assert {judge.penalty for judge in judges} == {min(tried, key=tried.__getitem__)}
        chosen.append(judges[0].penalty)
    assert chosen[0] < chosen[1]


def test_captions_that_repeat_what_is_known_tell_nothing(world: World) -> None:
    known, captions, classes = world
    (given,) = give([known], classes)
    before = loss(given.errors, classes)
    assert before - loss(given.reading(given.tell(known)), classes) < 0.02
    assert before - loss(given.reading(given.tell(captions)), classes) > 0.1


def test_nothing_known_has_a_loss_of_one(world: World) -> None:
    _, _, classes = world
    (given,) = give([np.zeros((N, 0), np.float32)], classes)
    assert loss(given.errors, classes) == pytest.approx(1, abs=0.12)


def test_shares_are_the_predictions() -> None:
    """Without an error the share of the true class is 1, and an error of 1 / sqrt(1 - 1/K) makes it 0."""
    classes = np.array([0, 1])
    np.testing.assert_allclose(shares_of(np.zeros((2, 2)), classes), [[1, 0], [0, 1]], atol=1e-6)
    wrong = np.array([[2**0.5, -(2**0.5)], [0, 0]])
    np.testing.assert_allclose(shares_of(wrong, classes), [[0, 1], [0, 1]], atol=1e-6)
