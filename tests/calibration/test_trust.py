"""Intervals and p-values on data without any amplification: the small form of ``scripts/bench_trust.py``."""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path

import numpy as np
import pytest
from helpers import known

from judge import Corpus, evaluate
from judge.calibration.grammar import make_world, simulate
from judge.calibration.trials import people_as_captioner
from judge.calibration.world import CAPTIONERS, Captioner
from judge.commands.demo import read_expected
from judge.statistics.summary import Summary


@pytest.fixture(scope="module")
def people(coco: Path) -> Corpus:
    return Corpus.read(
        human=coco / "captions_human.json", captions=[], labels=coco / "gender.csv", objects=coco / "objects.json"
    )


def claimed(rows: list[Summary]) -> float:
    """Mean of the standard errors, over the standard deviation of the values."""
    values, errors = ([known(getattr(row, name)) for row in rows] for name in ("amplification", "standard_error"))
    return float(np.mean(errors) / np.std(values, ddof=1))


def holds_nothing(row: Summary) -> bool:
    return known(row.interval).low <= 0 <= known(row.interval).high


@pytest.mark.slow
def test_people_against_people_judged(people: Corpus) -> None:
    """Five metrics, 8 trials: the sd of 8 values is known to a quarter, a mean of five metrics' to a sixth or so."""
    assert people.labels is not None
    quick = {"folds": 3, "refits": 4, "chance": 0, "resamples": 100, "workers": 1}
    everything: list[Summary] = []
    for seed in range(8):
        corpus = people_as_captioner(people, people.labels, images=240, seed=seed)
        everything += evaluate(corpus, metrics="lic,leakage,dbac-ta,dpac-at,dpac-ta", seed=seed, **quick).summaries
    names = ("lic", "leakage", "dbac-ta", "dpac-at", "dpac-ta")
    ratios = [claimed([row for row in everything if row.metric.name == name]) for name in names]
    assert all(0.5 < ratio < 2.2 for ratio in ratios)
    assert 0.75 < np.mean(ratios) < 1.5
    assert all(row.basis == "refits" for row in everything)
    assert np.mean([known(row.p_value) < 0.05 for row in everything]) <= 0.15
    assert np.mean([not holds_nothing(row) for row in everything]) <= 0.15


def test_power_on_a_known_dose() -> None:
    """A captioner that follows the stereotype is found; one that does not is told apart from it by its interval."""
    world = make_world(500, seed=11)
    told = [simulate(world, name=f"{dose:g}", captioner=Captioner(stereotype=dose)) for dose in (0.0, 0.9)]
    none, much = evaluate(
        Corpus(world.human, tuple(told), world.labels), metrics="lic", folds=5, refits=8, chance=2, workers=1
    ).summaries
    assert holds_nothing(none)
    assert known(much.interval).low > max(0, known(none.interval).high)
    assert known(much.p_value) < 0.005
    # An unconfident judge would score 0.25: this one is more sure than it should be.
    assert all(value == pytest.approx(0.25, abs=0.1) for value in known(much.chance))


def test_the_demo_finds_what_is_expected_of_its_judges() -> None:
    """Of LIC, on a world of its own size: within three sd over worlds; the size that the demo has is known."""
    known = json.loads((resources.files("judge.calibration") / "expected.json").read_text(encoding="utf-8"))
    assert known["images"] == 1200
    assert all(row["worlds"] >= (40 if "lic" in name else 5) for name, row in known["rows"].items())
    assert read_expected(1199) == {}
    world = make_world(1200, seed=0)
    told = tuple(simulate(world, name=name, captioner=captioner) for name, captioner in CAPTIONERS.items())
    corpus = Corpus(world.human, told, world.labels)
    rows = evaluate(corpus, metrics="lic", folds=5, refits=0, chance=0, resamples=100, workers=1).summaries
    for row in rows:
        expected = known["rows"][f"{row.captioner} lic"]
        assert row.amplification == pytest.approx(expected["amplification"], abs=3 * expected["sd"])
        assert read_expected(1200)[f"{row.captioner} lic"] == f"{expected['amplification']:+.3f}"
