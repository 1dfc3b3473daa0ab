"""Closed forms of the calibration world against hand calculations, slow enumeration and simulation."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge.calibration.truth import bayes_score, evidence_table, true_amplification
from judge.calibration.world import (
    CAPTIONERS,
    CLASSES,
    DEFAULT,
    FAITHFUL,
    SETTINGS,
    TASKS,
    Captioner,
    Parameters,
    Scene,
    described_by,
    draw_scenes,
    setting_given_scene,
    task_given_attribute,
)
from judge.metrics.scores import SCORES
from judge.types import Direction

UNIT = st.floats(0, 1)
WORLD = {"association": st.floats(0, 0.99), "mention": UNIT, "place": UNIT, "gendered": UNIT}
WORLDS, LEANING = st.builds(Parameters, **WORLD), st.builds(Parameters, **WORLD, setting_association=st.floats(0, 0.99))
CAPTIONING = st.builds(Captioner, stereotype=UNIT, guess=UNIT, error=UNIT)


@pytest.mark.parametrize(
    ("mention", "stereotype", "score", "by_hand"),
    [
        # association 1/2: an own task has P = 3/4 of being on the own half, so the posterior is 3/4.
        (1.0, 0.0, "confident_accuracy", 9 / 16),
        # stereotype 1/2: 1/2 * 3/4 + 1/2 * 1 = 7/8.
        (1.0, 0.5, "confident_accuracy", 49 / 64),
        (1.0, 0.5, "accuracy", 7 / 8),
        # confidence: 7/8 * 7/8 + 1/8 * 1/8.
        (1.0, 0.5, "confidence", 50 / 64),
        # half of the captions tell nothing and are worth 1/4.
        (0.5, 0.0, "confident_accuracy", 9 / 32 + 1 / 8),
        (0.0, 0.7, "confident_accuracy", 1 / 4),
        (0.0, 0.7, "accuracy", 1 / 2),
        (1.0, 1.0, "confident_accuracy", 1.0),
    ],
)
def test_scores_by_hand_without_settings(mention: float, stereotype: float, score: str, by_hand: float) -> None:
    parameters = Parameters(association=0.5, mention=mention, place=0)
    assert bayes_score(parameters, Captioner(stereotype=stereotype), score=score) == pytest.approx(by_hand, abs=1e-14)


def naive(captioner: Captioner, direction: Direction, parameters: Parameters) -> tuple[float, float]:
    """(confident accuracy, accuracy), by stories, not tables: every scene, slip and silence, one after the other."""
    weight: dict[tuple[object, object], dict[object, float]] = {}
    sharp, shares = task_given_attribute(0, 1), setting_given_scene(parameters)

    def slips(value: int, outcomes: int) -> list[tuple[int, float]]:
        return [(v, 1 - captioner.error if v == value else captioner.error / (outcomes - 1)) for v in range(outcomes)]

    for own, task, place in product(range(2), range(12), range(8)):
        story = task_given_attribute(parameters.association)[own, task] * shares[own, task, place] / 2
        for guessed, stereotyped in product((True, False), range(-1, 12)):
            word = (task // 6) if guessed else own
            named = task if stereotyped < 0 else stereotyped
            chance = captioner.guess if guessed else 1 - captioner.guess
            chance *= 1 - captioner.stereotype if stereotyped < 0 else captioner.stereotype * sharp[own, stereotyped]
            if not story * chance:
                continue
            first, many = (named, 12) if direction == "A->T" else (word, 2)
            says = parameters.mention if direction == "A->T" else parameters.gendered
            asked = own if direction == "A->T" else task
            for (a, p), (b, q) in product(slips(first, many), slips(place, 8)):
                for speaks, locates in product((True, False), repeat=2):
                    told = (a if speaks else None, b if locates else None)
                    part = story * chance * p * q
                    part *= (says if speaks else 1 - says) * (parameters.place if locates else 1 - parameters.place)
                    answers = weight.setdefault(told, {})
                    answers[asked] = answers.get(asked, 0.0) + part
    best = [(max(answers.values()), sum(answers.values())) for answers in weight.values() if sum(answers.values())]
    return sum(top * top / both for top, both in best), sum(top for top, _ in best)


@pytest.mark.parametrize("direction", ["A->T", "T->A"])
@pytest.mark.parametrize(
    "captioner",
    [FAITHFUL, CAPTIONERS["some"], Captioner(stereotype=1, guess=1), Captioner(stereotype=0.4, guess=0.6, error=0.1)],
)
@pytest.mark.parametrize("parameters", [DEFAULT, Parameters(0.6, 0.3, 0.5, 0.8, 0.4)])
def test_closed_form_equals_naive_enumeration(
    parameters: Parameters, captioner: Captioner, direction: Direction
) -> None:
    lic, accuracy = naive(captioner, direction, parameters)
    assert bayes_score(parameters, captioner, direction=direction) == pytest.approx(lic, abs=1e-12)
    found = bayes_score(parameters, captioner, direction=direction, score="accuracy")
    assert found == pytest.approx(accuracy, abs=1e-12)


@given(LEANING, st.sampled_from(["A->T", "T->A"]), st.sampled_from(sorted(SCORES)))
def test_a_faithful_captioner_is_exactly_zero(parameters: Parameters, direction: Direction, score: str) -> None:
    assert true_amplification(parameters, FAITHFUL, direction=direction, score=score) == 0.0


@given(LEANING, CAPTIONING)
def test_directions_are_orthogonal_and_tables_distributions(parameters: Parameters, captioner: Captioner) -> None:
    """What is said of the task changes A->T alone, the guessed word T->A alone."""
    direction: Direction
    for direction, other, shape in (("A->T", "guess", (2, 13, 9)), ("T->A", "stereotype", (12, 3, 9))):
        alone = replace(captioner, **{other: 0})
        whole, part = (bayes_score(parameters, told, direction=direction) for told in (captioner, alone))
        assert whole == part
        table = evidence_table(parameters, captioner, direction=direction)
        assert table.shape == shape
        assert (table >= 0).all()
        np.testing.assert_allclose(table.sum(axis=(1, 2)), 1 / shape[0])
    np.testing.assert_allclose(setting_given_scene(parameters).sum(axis=2), 1)


@given(WORLDS, UNIT, UNIT, st.sampled_from(["confident_accuracy", "accuracy", "confidence"]))
def test_never_decreases_in_its_knob(parameters: Parameters, one: float, other: float, score: str) -> None:
    for direction, name in (("A->T", "stereotype"), ("T->A", "guess")):
        knobs = [Captioner(**{name: knob}) for knob in sorted((one, other))]
        low, high = (true_amplification(parameters, knob, direction=direction, score=score) for knob in knobs)
        assert -1e-12 <= low <= high + 1e-12


def test_what_a_scene_tells_is_a_sum_over_task_and_setting() -> None:
    """So an additive judge of what an image shows can be optimal: an own setting adds log((1 + a) / (1 - a))."""
    shares = setting_given_scene(Parameters(setting_association=0.5))
    for of_task in np.moveaxis(shares, 1, 0):
        happens = of_task[0] > 0
        added = np.log(of_task[1, happens] / of_task[0, happens])
        own = np.repeat([-1, 1], len(SETTINGS) // 2)[happens]
        assert np.ptp(added - own * np.log(1.5 / 0.5)) == pytest.approx(0, abs=1e-12)


def test_a_stereotyped_task_beside_the_true_one_by_hand() -> None:
    """Without association or silence: half of the time the task that is named is one of the class's own six.

    Named is the task seen itself: by the 1/2 that name it, and 1/2 * 1/6 if it is the class's own. Named is another:
    it is of the class's own half, which gives the class away.
    """
    parameters, captioner = Parameters(association=0.0, mention=1.0), Captioner(stereotype=0.5)
    own, other = 1 / 2 + 1 / 12, 1 / 2
    # Given the task seen, of the half of class 1: P(class, named = seen) = 1/2 * own or 1/2 * other.
    same, apart = (own**2 + other**2) / (own + other), (1 - own) + (1 - other)
    found = bayes_score(parameters, captioner, score="confidence", uses_images=True)
    assert found == pytest.approx((same + apart) / 2)


@given(LEANING, CAPTIONING)
def test_who_also_looks_knows_as_much_or_more(parameters: Parameters, captioner: Captioner) -> None:
    """More evidence never lowers what an optimal judge reaches; and what was told is still told as before."""
    table = evidence_table(parameters, captioner, uses_images=True)
    assert table.sum(axis=(3, 4)) == pytest.approx(evidence_table(parameters, captioner), abs=1e-12)
    for score in ("accuracy", "confidence"):
        looking = bayes_score(parameters, captioner, score=score, uses_images=True)
        assert looking >= bayes_score(parameters, captioner, score=score) - 1e-9
    assert true_amplification(parameters, FAITHFUL, score="confidence", uses_images=True) == 0


@pytest.fixture(scope="module")
def scenes() -> list[Scene]:
    return draw_scenes(120_000, seed=3)


@pytest.mark.parametrize("direction", ["A->T", "T->A"])
@pytest.mark.parametrize("captioner", [FAITHFUL, CAPTIONERS["much"], Captioner(0.3, 0.5, 0.15)])
def test_closed_form_equals_simulation(captioner: Captioner, direction: Direction, scenes: list[Scene]) -> None:
    """Posterior from the counts of half of 120,000 simulated descriptions, scored on the other half."""
    rng = np.random.default_rng(5)
    views = described_by(scenes, captioner, rng)
    words = [np.array([CLASSES.index(of.attribute) for of in side]) for side in (scenes, views)]
    tasks = [np.array([TASKS.index(of.task) for of in side]) for side in (scenes, views)]
    forwards = direction == "A->T"
    asked, first = (words[0], tasks[1]) if forwards else (tasks[0], words[1])
    shape, says = ((2, 13, 9), DEFAULT.mention) if forwards else ((12, 3, 9), DEFAULT.gendered)
    place = np.array([SETTINGS.index(view.setting) for view in views])
    first = np.where(rng.random(len(first)) < says, first, shape[1] - 1)
    place = np.where(rng.random(len(place)) < DEFAULT.place, place, 8)
    counts = np.full(shape, 1e-9)
    np.add.at(counts, (asked[::2], first[::2], place[::2]), 1)
    posterior = (counts / counts.sum(axis=0))[:, first[1::2], place[1::2]]
    right = posterior.argmax(axis=0) == asked[1::2]
    value = (posterior[asked[1::2], np.arange(len(right))] * right).mean()
    assert value == pytest.approx(bayes_score(DEFAULT, captioner, direction=direction), abs=0.007)
