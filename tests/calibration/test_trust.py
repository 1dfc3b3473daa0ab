"""Verdicts, intervals and p-values where the truth is known: the small form of ``scripts/bench_trust.py``.

Of few trials a share tells little: bounds are such that a sound procedure fails them once in some hundred runs.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from importlib import resources, util
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from helpers import known
from launching import ROOT

from judge import Corpus, evaluate
from judge.calibration.grammar import make_world, simulate
from judge.calibration.trials import people_as_captioner
from judge.calibration.world import CAPTIONERS, Captioner
from judge.commands.demo import read_expected
from judge.statistics.comparisons import HIGHER
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


@pytest.fixture(scope="module")
def bench() -> Any:
    """The script as a module."""
    path = ROOT / "scripts" / "bench_trust.py"
    spec = known(util.spec_from_file_location(path.stem, path))
    sys.modules[path.stem] = module = util.module_from_spec(spec)
    known(spec.loader).exec_module(module)
    yield module
    del sys.modules[path.stem]


def drawn(values: Sequence[float], error: float) -> pd.DataFrame:
    """Null trials of LIC with these values and one claimed error, whose p and interval are those of a z-test."""
    rows = pd.DataFrame({"value": values, "draw": range(len(values))})
    rows = rows.assign(low=rows["value"] - 1.96 * error, high=rows["value"] + 1.96 * error, error=error)
    rows["p"] = [0.01 if abs(value) > 1.96 * error else 0.5 for value in values]
    return rows.assign(
        metric="lic", judge="linear", change="none", dose=0.0, basis="refits", void="", verdict="cannot tell",
        left_out=0, images="900", seconds=0.0,
    )  # fmt: skip


def test_bounds_on_trials_made_by_hand(bench: Any) -> None:
    """Normal values of sd 0.02: the bounds hold if that is the claimed error, and fail if it is a half of that."""
    values = np.random.default_rng(0).normal(0, 0.02, 2000)
    honest, bold = ([*bench.table({"nulls-900": drawn(values, error)})] for error in (0.02, 0.01))
    assert [line.holds for line in honest] == [True] * 3
    assert [line.holds for line in bold] == [False, False, False]
    dosed = pd.concat(
        [drawn([at + rise for at in (-0.02, 0.0, 0.02)], 0.02).assign(change=change, dose=dose, verdict=verdict)
         for change, dose, rise, verdict in (("none", 0.0, 0.0, "cannot tell"), ("A->T", 0.4, 0.07, "amplifies"),
                                             ("silence", 0.6, 0.0, "amplifies"))]
    )  # fmt: skip
    worth = pd.DataFrame({"change": ["none", "A->T"], "value": [0.01, 0.11]})
    found = {line.what: line for line in bench.table({"verdicts": dosed, "worth": worth})}
    assert [line.holds for line in found.values()] == [True, True, False, True, True]
    assert found["A->T 0.4, share of worth"].measured == "70% of 0.1000"
    assert found["A->T 0.4 moves LIC, in null sds"].measured.startswith("3.50 ")
    # Of one captioner four of five seeds amplify: 8 of its 20 ordered pairs differ, in 4 the first amplifies.
    verdicts = [*["amplifies"] * 4, "cannot tell", *["cannot tell"] * 5]
    (line,) = bench.table({"seeds": pd.DataFrame({"part": 0, "captioner": [*"aaaaabbbbb"], "verdict": verdicts})})
    assert (line.measured, line.holds) == ("10.0% (4 of 10 runs amplify)", False)


def test_a_killed_run_continues(bench: Any, coco: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of random labels nothing is said to amplify, and the trials are the same whatever a kill has cut."""
    options = {"only": ["labels"], "judge": "linear", "folds": 2, "refits": 0, "workers": 1}
    bench.main(coco, trials=2, out=tmp_path / "whole", **options)
    whole = (tmp_path / "whole" / "labels.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "cut").mkdir()
    (tmp_path / "cut" / "labels.jsonl").write_text(whole[0] + whole[1][:99])
    bench.main(coco, trials=2, out=tmp_path / "cut", **options)
    again = (tmp_path / "cut" / "labels.jsonl").read_text().splitlines()
    assert [json.loads(line)["records"] for line in again] == [json.loads(line)["records"] for line in whole]
    assert capsys.readouterr().out.count("| labels, labels: amplifies | 2 | at most 5% | 0.0%") == 2


@pytest.mark.slow
def test_nulls(bench: Any, coco: Path) -> None:
    """Human captions against human captions: of 4 trials three have p below 0.05 in one case of 2,000."""
    setting = bench.Setting(coco, folds=3, refits=6)
    rows = pd.DataFrame([row for trial in range(4) for row in bench.nulls(setting, trial, images=240)])
    assert {"lic", "leakage", *bench.U} == {*rows["metric"]}
    for _, of in rows.groupby("metric"):
        assert (of["p"] < 0.05).sum() <= 2
        assert ((of["low"] > 0) | (of["high"] < 0)).sum() <= 2
        assert 0.4 < of["error"].mean() / of["value"].std() < 5
    assert (rows["p"] < 0.05).mean() <= 0.3


@pytest.mark.slow
def test_verdicts(bench: Any, coco: Path) -> None:
    """A large dose of A->T amplifies; captions that became short, few or silent do not."""
    setting, doses = bench.Setting(coco, folds=4, refits=8), [("none", 0.0), ("A->T", 0.8)]
    doses += [(change, 0.9) for change in bench.NEUTRAL]
    rows = bench.verdicts(setting, 0, images=480, doses=doses)
    assert len(rows) == 2 + 6
    assert {row["change"] for row in rows if row["verdict"] in HIGHER} == {"A->T"}


@pytest.mark.slow
def test_directions(bench: Any, coco: Path) -> None:
    """U follows the doses of its own direction, and no others."""
    rows = pd.DataFrame(
        [row for trial in range(3) for row in bench.directions(bench.Setting(coco, folds=4), trial, 480)]
    )
    lines = {line.what: line for line in bench.table({"directions": rows})}
    assert float(lines["u-ta: Spearman with T->A"].measured) > 0.8
    assert float(lines["u-at: Spearman with A->T"].measured) > 0.8
    assert lines["u-ta: moved by A->T"].holds
    assert lines["u-at: moved by T->A"].holds


@pytest.mark.slow
def test_the_shared_captioners(bench: Any, coco: Path) -> None:
    """Equalizer lies above NIC+ under each family of judges (of five folds p says little)."""
    setting = bench.Setting(coco, folds=5, refits=0)
    rows = [row for trial in range(len(bench.FAMILIES)) for row in bench.families(setting, trial)]
    lines = [*bench.table({"families": pd.DataFrame(rows)})]
    assert len(lines) == len(bench.FAMILIES)
    assert all(line.measured.startswith("+") for line in lines)


@pytest.mark.slow
def test_people_against_people_judged(people: Corpus) -> None:
    """Five metrics, 8 trials: the sd of 8 values is known to a quarter, a mean of five metrics' to a sixth or so."""
    assert people.labels is not None
    quick = {"folds": 3, "refits": 4, "chance": 0, "resamples": 100, "workers": 1, "judge": "linear"}
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
    settings = {"judge": "linear", "folds": 5, "refits": 8, "chance": 2, "workers": 1}
    none, much = evaluate(Corpus(world.human, tuple(told), world.labels), metrics="lic", **settings).summaries
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
    quick = {"folds": 5, "refits": 0, "chance": 0, "resamples": 100, "workers": 1}
    rows = evaluate(corpus, metrics="lic", **quick).summaries
    for row in rows:
        expected = known["rows"][f"{row.captioner} lic"]
        assert row.amplification == pytest.approx(expected["amplification"], abs=3 * expected["sd"])
        assert read_expected(1200)[f"{row.captioner} lic"] == f"{expected['amplification']:+.3f}"
