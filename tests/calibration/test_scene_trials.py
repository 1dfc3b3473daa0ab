"""Doses of simulated captioners on drawn scenes: what they change, and what they are worth."""

from __future__ import annotations

import numpy as np
import pytest

from judge.calibration.doses import NOTHING
from judge.calibration.trials import SIMULATED, Design, Trial, scene_trials, true_rise
from judge.calibration.truth import bayes_score, true_amplification
from judge.calibration.world import SETTINGS, Captioner
from judge.metrics import find_metric
from judge.text.lexicon import load_lexicon
from judge.text.tokens import tokenize
from judge.types import Words

IMAGES = 250
DESIGN = Design(SIMULATED, (0.4, 0.8), 2, 3, IMAGES, 5)
LEXICON = load_lexicon("gender")
SEES = find_metric("imagecaptioner2")
Which = tuple[str, float, int]


@pytest.fixture(scope="module")
def trials() -> dict[Which, Trial]:
    return {(trial.change, trial.dose, trial.draw): trial for trial in scene_trials(DESIGN)}


def said(trial: Trial) -> list[Words]:
    (captioner,) = trial.corpus.generated
    return [tokenize(text) for (text,) in captioner.by_image.values()]


def hidden(caption: Words) -> Words:
    """Without words for people that name a class."""
    places = {place for start, stop, _ in LEXICON.find(caption) for place in range(start, stop)}
    return tuple("#" if place in places else word for place, word in enumerate(caption))


@pytest.mark.parametrize("dose", [0.1, 0.8])
@pytest.mark.parametrize("metric", ["imagecaptioner2", "vl-lic"])
def test_a_dose_is_worth_what_the_closed_form_says(metric: str, dose: float) -> None:
    row = find_metric(metric)
    truth = true_amplification(captioner=Captioner(stereotype=dose), score=row.score, uses_images=True)
    assert truth > 0
    assert true_rise(row, "A->T", dose) == pytest.approx(truth, abs=1e-12)
    # Who guesses the person from the task says nothing of it once the word for the person is hidden.
    others = {change: true_rise(row, change, dose) for change in SIMULATED if change != "A->T"}
    assert others == pytest.approx(dict.fromkeys(others, 0.0), abs=1e-12)


def test_ratios_and_judges_that_are_denied_something() -> None:
    captioner = Captioner(stereotype=0.8)
    human, generated = (
        bayes_score(captioner=of, score="confidence", uses_images=True) for of in (Captioner(), captioner)
    )
    ratio = find_metric("imagecaptioner2-ratio")
    assert true_rise(ratio, "A->T", 0.8) == pytest.approx(generated / human - 1)
    assert true_rise(SEES, "A->T", 0.8, blanked={"caption"}) == 0
    blind = true_amplification(captioner=captioner, score="confidence")
    assert true_rise(SEES, "A->T", 0.8, blanked={"image"}) == pytest.approx(blind)
    # To a judge that does not see the setting, captions that leave it out tell less.
    assert true_rise(SEES, "brevity", 0.8, blanked={"image"}) < 0


def test_a_draw_shares_its_scenes_and_what_people_said(trials: dict[Which, Trial]) -> None:
    assert len(trials) == 3 + 2 * len(SIMULATED) * 2
    for (_, _, draw), trial in trials.items():
        first = trials[NOTHING, 0.0, draw]
        assert trial.world is first.world
        assert trial.corpus.human == first.corpus.human
        assert {len(of) for of in trial.corpus.human.by_image.values()} == {1}
    assert len({str(trials[NOTHING, 0.0, draw].corpus.human.by_image) for draw in range(3)}) == 3


def test_each_change_changes_one_thing(trials: dict[Which, Trial]) -> None:
    plain = said(trials[NOTHING, 0.0, 0])
    for dose in (0.4, 0.8):
        assert [*map(hidden, said(trials["T->A", dose, 0]))] == [*map(hidden, plain)]
    few, many = ({n for n, of in enumerate(said(trials["A->T", d, 0])) if of != plain[n]} for d in (0.4, 0.8))
    # What is drawn does not depend on the dose. Some tasks stay: they were stereotyped before.
    assert few < many
    assert len(many) / IMAGES == pytest.approx(0.8 * 0.75 * 11 / 12, abs=0.12)

    def rate(change: str, words: set[str]) -> float:
        return float(np.mean([not words.isdisjoint(of) for of in said(trials[change, 0.8, 0])]))

    gendered = {word for words in LEXICON.classes.values() for word in words}
    assert rate("A->T", gendered) > 0.75
    assert rate("silence", gendered) < 0.4
    assert rate("brevity", {*SETTINGS}) < rate("silence", {*SETTINGS}) / 2
    types = [len({word for of in said(trials[change, 0.8, 0]) for word in of}) for change in ("A->T", "vocabulary")]
    assert types[1] < 0.8 * types[0]
