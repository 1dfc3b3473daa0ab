"""How often folds are drawn: three times for judges that train in seconds, whose refits use the first draw."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest
from helpers import known

from judge import evaluate
from judge.calibration.grammar import World, simulate
from judge.calibration.world import Captioner
from judge.corpus import Corpus
from judge.measure import Plan, Result
from judge.metrics import find_metric

QUICK: dict[str, Any] = {
    "metrics": "lic,dbac-at", "judge": "linear", "folds": 3, "refits": 2, "resamples": 100, "workers": 1,
    "typical": False,
}  # fmt: skip


@pytest.fixture(scope="module")
def corpus(world: World) -> Corpus:
    return Corpus(world.human, (simulate(world, name="much", captioner=Captioner(stereotype=0.9)),), world.labels)


def measured(corpus: Corpus, **settings: Any) -> Result:
    return evaluate(corpus, **QUICK | settings)


def test_the_value_is_the_mean_of_three_draws_and_the_error_that_of_one(corpus: Corpus) -> None:
    """LIC scores each image once in every draw."""
    result, first = measured(corpus), measured(corpus, seeds=1)
    single = [measured(corpus, seeds=1, seed=seed, refits=0).summaries[0] for seed in range(3)]
    lic, *_ = result.summaries
    values = [[known(getattr(row, name)) for row in single] for name in ("human", "generated", "amplification")]
    assert [lic.human, lic.generated, lic.amplification] == pytest.approx([sum(of) / 3 for of in values])
    assert (lic.seeds, len({*values[2]})) == (3, 3)
    pd.testing.assert_frame_equal(result.replicates, first.replicates)
    assert lic.standard_error == first.summaries[0].standard_error


def test_settings_decide_which_rows_compare(corpus: Corpus) -> None:
    result = measured(corpus, metrics="lic,error", families=False)
    assert result.run["seeds"] == [0, 1, 2]
    assert result.run["captioners"]["much"]["reads"]["lic"]["linear"]["seeds"] == [0, 1, 2]
    assert measured(corpus, refits=0, families=False).run["seeds"] == [0]


@pytest.mark.parametrize(
    ("metric", "judge", "plan", "seeds"),
    [
        ("lic", "linear", Plan(), 3),
        ("lic", "linear", Plan(first_seed=5, refits=4), 3),
        ("lic", "linear", Plan(refits=0), 1),  # Nothing is tested but folds.
        ("lic", "linear", Plan(seeds=2), 2),
        ("lic", "linear", Plan(protocol="paper"), 10),
        ("u-ta", "linear", Plan(), 3),
        ("lic", "lstm", Plan(), 1),  # Three times as many would take long.
        ("lic", "lstm", Plan(refits=4), 1),
        ("lic", "self", Plan(refits=4), 1),
        ("dpac-at", "linear", Plan(), 1),  # The best of several trainings would count.
        ("lic", "best", Plan(judges=("best", "linear")), 3),
        ("lic", "best", Plan(judges=("best", "lstm")), 1),  # It may take the answers of either.
        ("lic", "linear", Plan(judges=("best", "lstm", "linear")), 3),
    ],
)
def test_number_of_draws(metric: str, judge: str, plan: Plan, seeds: int) -> None:
    found = plan.seeds_of(find_metric(metric), judge)
    assert list(found) == list(range(plan.first_seed, plan.first_seed + seeds))
