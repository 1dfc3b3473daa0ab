"""Judge "best" beside other judges takes, on each side and in each fold, the answers of the one that guesses best."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from judge import evaluate
from judge.calibration.grammar import make_world, simulate
from judge.calibration.world import Captioner
from judge.corpus import Corpus
from judge.measure import Plan, lay_out
from judge.measure.best import with_best
from judge.text.lexicon import Lexicons, load_lexicon

JUDGES = ("best", "words+embedding", "linear")
ROW = ["side", "fold", "index", "image_id"]


@pytest.fixture(scope="module")
def small() -> Corpus:
    world = make_world(120, seed=5)
    return Corpus(world.human, (simulate(world, name="much", captioner=Captioner(stereotype=0.9)),), world.labels)


def test_a_fold_takes_the_judge_with_the_least_loss_on_other_folds(small: Corpus) -> None:
    """Worked by hand: mean losses of three folds, each of one caption.

    ======== ================== =============================================================
    judge    folds 0, 1, 2      means without fold 0, 1, 2
    ======== ================== =============================================================
    best     1, 2, 3            2.5, 2, 1.5
    linear   3, 1, 1            1, 2, 2 (fold 1 is a tie, which the first judge wins)
    ======== ================== =============================================================
    """
    plan = Plan(metrics=("lic",), judges=("best", "linear"), folds=3)
    jobs = lay_out(small, plan, Lexicons(load_lexicon("gender"))).jobs
    means = {
        ("best", 0): 1.0,
        ("best", 1): 2.0,
        ("best", 2): 3.0,
        ("linear", 0): 3.0,
        ("linear", 1): 1.0,
        ("linear", 2): 1.0,
    }
    losses = [means[job.judge, job.member.split.fold] for job in jobs]
    found, judges = with_best(jobs, list(enumerate(losses)), lambda _, one: np.array([one[1], 1.0]))
    expected = {0: "linear", 1: "best", 2: "best"}
    for place, (job, (origin, _), judge) in enumerate(zip(jobs, found, judges, strict=True)):
        fold = job.member.split.fold
        assert judge == (expected[fold] if job.judge == "best" else job.judge)
        source = jobs[origin]
        assert (source.judge, source.member.side, source.member.index) == (judge, job.member.side, job.member.index)
        assert source.member.split.fold == fold
        assert origin == place or job.judge == "best"


def test_of_several_seeds_the_own_one_decides(small: Corpus) -> None:
    """Folds of other seeds hold the same captions: they have no part. By all folds "linear" would be taken."""
    plan = Plan(metrics=("lic",), judges=("best", "linear"), folds=3, seeds=2)
    jobs = lay_out(small, plan, Lexicons(load_lexicon("gender"))).jobs
    losses = [1.0 if job.judge == "best" else (2.0, 0.0)[job.member.seed] for job in jobs]
    _, judges = with_best(jobs, losses, lambda _, loss: np.array([loss, 1.0]))
    for job, judge in zip(jobs, judges, strict=True):
        assert judge == (("best", "linear")[job.member.seed] if job.judge == "best" else "linear")


def test_alone_it_is_not_replaced(small: Corpus) -> None:
    plan = Plan(metrics=("lic", "leakage"), judges=("best",), folds=3)
    jobs = lay_out(small, plan, Lexicons(load_lexicon("gender"))).jobs
    results = [np.zeros(2) for _ in jobs]
    found, judges = with_best(jobs, results, lambda _, loss: loss)
    assert all(one is other for one, other in zip(found, results, strict=True))
    assert set(judges) == {"best"}


def test_rows_are_those_of_the_judge_that_a_fold_takes(small: Corpus) -> None:
    """By the losses in the run's own table; refits of all three give its interval."""
    quick: dict[str, Any] = {"folds": 4, "resamples": 100, "workers": 1}
    result = evaluate(small, metrics="lic", judge=",".join(JUDGES), refits=3, chance=1, seeds=1, **quick)
    tables = {judge: of.set_index(ROW).sort_index() for judge, of in result.scores.groupby("judge")}
    assert {judge: len(of) for judge, of in tables.items()} == dict.fromkeys(JUDGES, len(tables["best"]))
    alone = evaluate(small, metrics="lic", judge="best", refits=0, chance=0, **quick)
    own = alone.scores.set_index(ROW).sort_index()
    taken = set()
    for side, fold in product(("human", "generated"), range(4)):
        losses = {
            judge: of["loss"][side].drop(index=fold, level="fold").mean()
            for judge, of in {**tables, "best": own}.items()
        }
        judge = min(losses, key=lambda name: losses[name])
        taken.add(judge)
        expected = own if judge == "best" else tables[judge]
        answers = tables["best"].loc[side, fold][["probability", "predicted", "loss"]]
        assert answers.equals(expected.loc[side, fold][["probability", "predicted", "loss"]])
    assert taken - {"best"}  # Else nothing was tested.
    best = next(row for row in result.summaries if row.judge == "best")
    assert best.basis == "refits"
    assert set(result.replicates["judge"]) == set(JUDGES)
    chosen = result.run["captioners"]["much"]["chosen"]
    assert any(name.startswith("answers of ") for name in chosen)


def test_refits_are_those_that_all_of_its_judges_have(small: Corpus) -> None:
    """Networks have none unless they are asked for: neither does a "best" that may take their answers."""
    quick: dict[str, Any] = {"folds": 3, "resamples": 100, "workers": 1}
    result = evaluate(small, metrics="lic", judge="best,lstm", epochs=1, **quick)
    assert {row.judge for row in result.summaries} == {"best", "lstm"}
    assert not len(result.replicates[result.replicates["kind"].isin(["exchanged", "half", "shuffled"])])
