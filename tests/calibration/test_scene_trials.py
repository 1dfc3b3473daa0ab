"""Doses of simulated captioners on drawn scenes: what they are worth."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest

from judge.calibration.truth import bayes_score, true_amplification
from judge.calibration.world import Captioner
from judge.metrics import find_metric

pytestmark = pytest.mark.figures

SEES = "imagecaptioner2"


@pytest.fixture(scope="module")
def bench() -> Any:
    """The script as a module."""
    return import_module("bench_scenes")


@pytest.mark.parametrize("dose", [0.1, 0.8])
@pytest.mark.parametrize("metric", ["imagecaptioner2", "vl-lic"])
def test_a_dose_is_worth_what_the_closed_form_says(bench: Any, metric: str, dose: float) -> None:
    score = find_metric(metric).score
    truth = true_amplification(captioner=Captioner(stereotype=dose), score=score, uses_images=True)
    assert truth > 0
    assert bench.true_rise(metric, "A->T", dose) == pytest.approx(truth, abs=1e-12)
    # Who guesses the person from the task says nothing of it once the word for the person is hidden.
    others = {change: bench.true_rise(metric, change, dose) for change in ("T->A", "vocabulary", "silence", "brevity")}
    assert others == pytest.approx(dict.fromkeys(others, 0.0), abs=1e-12)


def test_ratios_and_judges_that_are_denied_something(bench: Any) -> None:
    captioner = Captioner(stereotype=0.8)
    human, generated = (
        bayes_score(captioner=of, score="confidence", uses_images=True) for of in (Captioner(), captioner)
    )
    assert bench.true_rise("imagecaptioner2-ratio", "A->T", 0.8) == pytest.approx(generated / human - 1)
    assert bench.true_rise(SEES, "A->T", 0.8, blanked={"caption"}) == 0
    blind = true_amplification(captioner=captioner, score="confidence")
    assert bench.true_rise(SEES, "A->T", 0.8, blanked={"image"}) == pytest.approx(blind)
    # To a judge that does not see the setting, captions that leave it out tell less.
    assert bench.true_rise(SEES, "brevity", 0.8, blanked={"image"}) < 0
    # There is no closed form of these.
    assert bench.true_rise(SEES, "contradiction", 0.8) is bench.true_rise("conditional:image", "A->T", 0.8) is None
