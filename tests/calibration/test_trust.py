"""Intervals and p-values on data without any amplification: the small form of ``scripts/bench_trust.py``.

A few trials tell an interval that is half as wide as it should be, or a test that rejects every third time, from right
ones; the shares themselves are in BENCHMARKS.md.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from importlib import import_module, resources
from pathlib import Path

import numpy as np
import pytest
from helpers import few
from typer.testing import CliRunner

from judge import Corpus, evaluate
from judge.calibration.grammar import make_world, simulate, write_world
from judge.calibration.nulls import people_as_captioner
from judge.calibration.world import CAPTIONERS, Captioner
from judge.commands.demo import read_expected
from judge.errors import JudgeError
from judge.statistics.comparisons import Difference
from judge.statistics.summary import Summary


@pytest.fixture(scope="module")
def people(coco: Path) -> Corpus:
    return Corpus.read(
        human=coco / "captions_human.json", captions=[], labels=coco / "gender.csv", objects=coco / "objects.json"
    )


def by_metric(tables: Iterable[Iterable[Summary]]) -> dict[str, list[Summary]]:
    found = defaultdict(list)
    for table in tables:
        for row in table:
            found[row.metric.name].append(row)
    return found


def claimed(rows: list[Summary]) -> float:
    """Mean of the standard errors, over the standard deviation of the values."""
    values = [row.amplification for row in rows if row.amplification is not None]
    errors = [row.standard_error for row in rows if row.standard_error is not None]
    assert len(values) == len(errors) == len(rows)
    return float(np.mean(errors) / np.std(values, ddof=1))


def share(rows: Iterable[Summary | Difference], *, rejected: bool) -> float:
    """Of the rows, with p < 0.05; or whose interval does not hold 0."""
    found = []
    for row in rows:
        assert row.p_value is not None
        assert row.interval is not None
        found.append(row.p_value < 0.05 if rejected else not row.interval.low <= 0 <= row.interval.high)
    return float(np.mean(found))


def test_people_against_people_judged(people: Corpus) -> None:
    """Six metrics, 8 trials: the sd of 8 values is known to a quarter, a mean of six metrics' to a sixth or so."""
    assert people.labels is not None
    tables = [
        evaluate(
            people_as_captioner(people, people.labels, images=240, seed=seed),
            metrics=["lic", "leakage", "dbac", "dpac"],
            folds=3,
            refits=6,
            chance=0,
            seed=seed,
            resamples=100,
            workers=1,
        ).summaries
        for seed in range(8)
    ]
    found = by_metric(tables)
    assert set(found) == {"lic", "leakage", "dbac-at", "dbac-ta", "dpac-at", "dpac-ta"}
    ratios = [claimed(rows) for rows in found.values()]
    assert all(0.5 < ratio < 2.2 for ratio in ratios)
    assert 0.75 < np.mean(ratios) < 1.5
    everything = [row for table in tables for row in table]
    assert all(row.basis == "refits" for row in everything)
    assert share(everything, rejected=True) <= 0.15
    assert share(everything, rejected=False) <= 0.15


def test_people_against_people_counted(people: Corpus) -> None:
    """The published values are far from 0 (BA -0.13 at 900 images); what is above chance and differences are not."""
    assert people.labels is not None
    results = [
        evaluate(
            people_as_captioner(people, people.labels, images=400, seed=seed, captioners=2, mislabelled=0.1),
            metrics=["ba", "dba", "multi:pairs", "dpa"],
            least=2,
            resamples=200,
            workers=1,
        )
        for seed in range(12)
    ]
    tables = [[row for row in result.summaries if row.captioner == "a person"] for result in results]
    found = by_metric(tables)
    published = [row.published for row in found["ba"] if row.published is not None]
    assert max(published) < -0.02
    assert abs(np.mean([row.amplification for row in found["ba"] if row.amplification is not None])) < 0.02
    assert 0.75 < np.mean([claimed(rows) for rows in found.values()]) < 1.5
    differences = [row for result in results for row in result.differences()]
    assert all(row.paired and (row.first, row.second) == ("a person", "person 2") for row in differences)
    assert len(differences) == 12 * len(found)
    for everything in ([row for table in tables for row in table], differences):
        assert share(everything, rejected=True) <= 0.12
        assert share(everything, rejected=False) <= 0.12


def test_power_on_a_known_dose() -> None:
    """A captioner that follows the stereotype is found; one that does not is told apart from it by its interval."""
    world = make_world(500, seed=11)
    told = [simulate(world, name=f"{dose:g}", captioner=Captioner(stereotype=dose)) for dose in (0.0, 0.9)]
    none, much = evaluate(
        Corpus(world.human, tuple(told), world.labels), metrics="lic", folds=5, refits=8, chance=2, workers=1
    ).summaries
    assert none.interval is not None
    assert much.interval is not None
    assert none.interval.low <= 0 <= none.interval.high
    assert much.interval.low > max(0, none.interval.high)
    assert much.p_value is not None
    assert much.p_value < 0.005
    # An unconfident judge would score 0.25: this one is more sure than it should be.
    assert much.chance is not None
    assert all(value == pytest.approx(0.25, abs=0.1) for value in much.chance)


def test_networks_trained_again_see_no_amplification_where_there_is_none(tmp_path: Path) -> None:
    """ImageCaptioner2 with Show, Attend and Tell in one drawn world; refused where images are too few."""
    files = few(
        write_world(make_world(90, seed=2), {"none": Captioner(vocabulary=99)}, tmp_path / "world", pictures=64)
    )
    settings = {
        "human": files.human,
        "captions": files.captions["none"],
        "labels": files.labels,
        "images": files.folder / "images",
        "instances": files.folder / "instances.json",
        "features": tmp_path / "features",
        "metrics": "imagecaptioner2",
        "judge": "sat",
        "backbone": "test_resnet",
        "backbone_weights": "random",
        "image_size": 64,
        "folds": 2,
        "epochs": 2,
        "learning_rate": 0.002,
        "workers": 1,
    }
    (row,) = evaluate(**settings, refits=4).summaries
    assert (row.basis, row.degrees) == ("refits", 4)
    assert row.interval is not None
    assert row.interval.low <= 0 <= row.interval.high
    assert row.p_value is not None
    assert row.p_value > 0.01
    with pytest.raises(JudgeError, match="refits on halves of the images need 80"):
        evaluate(**{**settings, "folds": 40}, refits=4)


@pytest.fixture(scope="module")
def scripts() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(Path(__file__).parents[2] / "scripts")
        yield


@pytest.mark.usefixtures("scripts")
def test_the_benchmark_goes_on_from_what_it_has(coco: Path, tmp_path: Path) -> None:
    bench = import_module("bench_trust")
    arguments = ["nulls", "--data", coco, "--images", 60, "--metrics", "lic", "--folds", 3, "--refits", 2]
    arguments += ["--workers", 1, "--out", tmp_path / "nulls.jsonl", "--trials"]
    one = CliRunner().invoke(bench.app, [*map(str, arguments), "2"], catch_exceptions=False)
    kept = (tmp_path / "nulls.jsonl").read_text(encoding="utf-8")
    two = CliRunner().invoke(bench.app, [*map(str, arguments), "3"], catch_exceptions=False)
    assert (tmp_path / "nulls.jsonl").read_text(encoding="utf-8").startswith(kept)
    assert [re.findall(r"lic \(linear\), refits +(\d+)", run.stdout) for run in (one, two)] == [["2"], ["3"]]


def test_what_is_expected_of_the_demo_is_a_mean_over_worlds(scripts: None) -> None:
    expect = import_module("expect_demo")
    rows = [
        {"seed": seed, "row": "none lic", "human": 0.3, "generated": 0.3 + value, "amplification": value}
        for seed, value in ((1, 0.1), (2, 0.2), (3, 0.3))
    ]
    found = expect.summarise(rows, 1200)
    expected = {"human": 0.3, "generated": 0.5, "amplification": 0.2, "sd": 0.1, "worlds": 3}
    assert found == {"images": 1200, "rows": {"none lic": expected}}


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
