"""How often folds are drawn: three times for judges that train in seconds, whose refits use the first draw."""

from __future__ import annotations

from itertools import product
from typing import Any

import pandas as pd
import pytest
from helpers import evaluate_numbers, known, with_captions

from judge import load_lexicon
from judge.calibration.grammar import make_world, simulate
from judge.calibration.world import Captioner
from judge.commands.evaluate import RunConfig
from judge.config import make_config
from judge.corpus import Corpus
from judge.evidence import Evidence, Resample
from judge.measure import Plan, Result, lay_out
from judge.measure.jobs import jobs_of
from judge.metrics import find_metric
from judge.text.lexicon import Lexicons
from judge.types import TargetKind

QUICK: dict[str, Any] = {
    "metrics": "lic,dbac-at", "judge": "linear", "folds": 3, "refits": 2, "chance": 0, "resamples": 100, "workers": 1,
}  # fmt: skip


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    world = make_world(120, seed=3)
    much = simulate(world, name="much", captioner=Captioner(stereotype=0.9))
    return with_captions(Corpus(world.human, (much,), world.labels), 1)


def measured(corpus: Corpus, **settings: Any) -> Result:
    return evaluate_numbers(corpus, **QUICK | settings)


@pytest.fixture(scope="module")
def first(corpus: Corpus) -> Result:
    """A run of the first draw alone."""
    return measured(corpus, seeds=1)


def test_the_value_is_the_mean_of_three_draws_and_the_error_that_of_one(corpus: Corpus, first: Result) -> None:
    """LIC scores each image once in every draw. The errors of other metrics are those of one draw too."""
    result = measured(corpus)
    others = [measured(corpus, metrics="lic", seeds=1, seed=seed, refits=0) for seed in (1, 2)]
    single = [of.summaries[0] for of in (first, *others)]
    lic, *_ = result.summaries
    values = [[known(getattr(row, name)) for row in single] for name in ("human", "generated", "amplification")]
    assert [lic.human, lic.generated, lic.amplification] == pytest.approx([sum(of) / 3 for of in values])
    assert (lic.seeds, len({*values[2]})) == (3, 3)
    pd.testing.assert_frame_equal(result.replicates, first.replicates)
    for row, other in zip(result.summaries, first.summaries, strict=True):
        assert (row.standard_error, row.seeds, other.seeds) == (other.standard_error, 3, 1)
        assert row.amplification != other.amplification


@pytest.mark.parametrize(
    ("settings", "own", "of_refits"),
    [
        ({}, (3, 3), (1, 3)),
        ({"seeds": 2, "folds": 7}, (2, 7), (1, 5)),
        ({"protocol": "paper", "seeds": 4}, (4, 1), (4, 1)),  # A refit has all hold-outs: one varies too much.
        ({"metrics": ("dpac-at",), "seeds": 2}, (2, 3), (2, 3)),  # And all trainings of which the best counts.
    ],
)
def test_refits_have_one_draw_of_fewer_folds(
    corpus: Corpus, settings: dict[str, Any], own: tuple[int, int], of_refits: tuple[int, int]
) -> None:
    """Numbers of seeds and folds."""
    drawn = Plan(**{"metrics": ("lic",), "judges": ("linear",), "folds": 3, **settings})
    lexicons = Lexicons(load_lexicon("gender"), load_lexicon("coco-objects"))
    job = lay_out(corpus, drawn, lexicons).jobs[0]
    again = Evidence(job.evidence.sides, Resample("half", 0, drawn.first_seed))
    for evidence, (seeds, folds) in ((job.evidence, own), (again, of_refits)):
        members = [one.member for one in jobs_of(evidence, job.metrics, job.judge, drawn)]
        assert {(of.seed, of.split.fold) for of in members} == {*product(range(seeds), range(folds))}


@pytest.mark.parametrize(
    ("judge", "target", "images", "asked", "refits"),
    [
        ("linear", "attribute", 1999, None, 40),
        ("linear", "attribute", 2000, None, 20),
        ("linear", "attribute", 19_999, None, 20),
        ("linear", "attribute", 20_000, None, 10),
        ("linear", "tasks", 20_000, None, 8),
        ("linear", "tasks", 900, None, 8),
        ("linear", "attribute", 900, 5, 5),
        ("lstm", "attribute", 900, None, 0),
    ],
)
def test_refits_of_few_images(judge: str, target: TargetKind, images: int, asked: int | None, refits: int) -> None:
    found = Plan(refits=asked).resamples_of(judge, target, images)
    assert found.get("exchanged", 0) == refits
    assert found.get("half", 0) == 2 * refits


def test_a_quick_run(corpus: Corpus) -> None:
    """It has fewer folds, draws and refits; what is given counts, and networks have no refits as before."""
    found = make_config({"quick": True, "folds": 4, "captions": {}}, RunConfig)
    assert (found.folds, found.seeds, found.chance, found.refits) == (4, 1, 0, None)
    assert Plan(quick=True).resamples_of("lstm", "attribute", 900) == {}
    assert Plan(quick=True, refits=12, chance=0).resamples_of("linear", "attribute", 900)["half"] == 24
    result = evaluate_numbers(corpus, metrics="lic", judge="linear", quick=True)
    assert result.run["refits"] == {"attribute": 8}
    assert {row.seeds for row in result.summaries} == {1}
    assert result.scores["fold"].nunique() == 5
    assert all(row.p_value is not None for row in result.summaries)


@pytest.mark.parametrize(
    ("metric", "judge", "plan", "seeds"),
    [
        ("lic", "linear", Plan(), 3),
        ("lic", "linear", Plan(first_seed=5, refits=4), 3),
        ("lic", "linear", Plan(refits=0), 1),  # Nothing is tested but folds.
        ("lic", "linear", Plan(seeds=2), 2),
        ("lic", "linear", Plan(protocol="paper"), 10),
        ("u-ta", "linear", Plan(), 3),
        ("u-at", "linear", Plan(), 1),  # Judges guess tasks: a draw hardly matters.
        ("lic", "lstm", Plan(), 1),  # Three times as many would take long.
        ("lic", "lstm", Plan(refits=4), 1),
        ("lic", "self", Plan(refits=4), 1),
        ("dpac-at", "linear", Plan(), 1),  # The best of several trainings would count.
        ("lic", "best", Plan(judges=("best", "lstm")), 3),
        ("lic", "linear", Plan(judges=("best", "lstm", "linear")), 3),
    ],
)
def test_number_of_draws(metric: str, judge: str, plan: Plan, seeds: int) -> None:
    found = plan.seeds_of(find_metric(metric), judge)
    assert list(found) == list(range(plan.first_seed, plan.first_seed + seeds))
