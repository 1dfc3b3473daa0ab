"""Verdicts, intervals and p-values where the truth is known: the small form of ``scripts/bench_trust.py``."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module, resources
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from helpers import known

from judge import Corpus, evaluate
from judge.calibration.grammar import make_world, simulate
from judge.calibration.trials import people_as_captioner
from judge.calibration.world import CAPTIONERS, DEMO
from judge.commands.demo import read_expected
from judge.corpus.tasks import Tasks
from judge.statistics.summary import Summary


@pytest.fixture(scope="module")
def people(coco: Path) -> Corpus:
    return Corpus.read(
        human=coco / "captions_human.json", captions=[], labels=coco / "gender.csv", objects=coco / "objects.json"
    )


def most_shown(corpus: Corpus, count: int = 10) -> Corpus:
    """The corpus with the tasks that most images show: judges of all eighty need several times as long."""
    tasks = known(corpus.tasks)
    shown = {image: tasks.shown(image) for image in tasks.by_image}
    kept = {name for name, _ in Counter(chain.from_iterable(shown.values())).most_common(count)}
    few = {image: [name for name in of if name in kept] for image, of in shown.items()}
    return replace(corpus, tasks=Tasks.of(few, tasks.source))


def claimed(rows: list[Summary]) -> float:
    """Mean of the standard errors, over the standard deviation of the values."""
    values, errors = ([known(getattr(row, name)) for row in rows] for name in ("amplification", "standard_error"))
    return float(np.mean(errors) / np.std(values, ddof=1))


def holds_nothing(row: Summary) -> bool:
    return known(row.interval).low <= 0 <= known(row.interval).high


@pytest.fixture(scope="module")
def bench() -> Any:
    """The script as a module."""
    return import_module("bench_trust")


@pytest.fixture(scope="module")
def setting(bench: Any, coco: Path) -> Any:
    return bench.Setting(coco, refits=8)


def test_captioners_depend_on_names_and_draws_alone(bench: Any, setting: Any) -> None:
    """A form takes human captions away, and has the same words around a dose; other forms do not change its own."""
    world, forms = bench.read(setting.data), bench.FORMS
    drawn, again = (world.draw(60, 3) for _ in range(2))
    chosen = [forms["paragraph"], forms["a person"], forms["trigrams"], forms["a person, 30% wrong gender"]]
    found = {of.name: (one, of) for one in drawn.corpora(chosen) for of in one.generated}
    for form in reversed(chosen):
        assert again.captions(form) == found[form.name][1].by_image
    for name, takes in (("a person", 1), ("paragraph", 2), ("trigrams", 0)):
        corpus, _ = found[name]
        every = {image: {*world.corpus.human.by_image[image]} for image in drawn.images}
        assert {len(every[image]) - len({*of}) for image, of in corpus.human.by_image.items()} == {takes}
    plain, dosed = (again.captions(form) for form in (forms["paragraph"], forms["paragraph"].dosed("A->T", 0.4)))
    same = [plain[image] == dosed[image] for image in drawn.images]
    assert 0.1 < np.mean(same) < 0.9
    lengths = np.array([[len(of[image][0].split()) for image in drawn.images] for of in (plain, dosed)])
    assert np.abs(lengths[0] - lengths[1]).max() <= 8
    # The boilerplate at the end is the same.
    assert all(plain[image][0].split()[-4:] == dosed[image][0].split()[-4:] for image in drawn.images)


@pytest.mark.slow
def test_directions(bench: Any, setting: Any) -> None:
    """U follows the doses of its own direction, and no others."""
    doses, moved = (0.1, 0.4, 0.8), list[dict[str, Any]]()
    person = bench.FORMS["a person"]
    told = [person, *(person.dosed(change, dose) for change in ("A->T", "T->A") for dose in doses)]
    for trial in range(3):
        (drawn,) = bench.read(setting.data).draw(480, trial).corpora(told)
        quick = {"judge": "linear", "folds": 4, "refits": 0, "chance": 0, "resamples": 100, "workers": 1}
        for row in evaluate(drawn, metrics="u-ta,u-at", **quick).summaries:
            *_, last = row.captioner.split(", ")
            change, dose = last.split() if "->" in last else ("none", "0")
            moved.append({"metric": row.metric.name, "change": change, "dose": float(dose), "value": row.amplification})
    means = pd.DataFrame(moved).groupby(["metric", "change", "dose"])["value"].mean()
    for metric, own, other in (("u-ta", "T->A", "A->T"), ("u-at", "A->T", "T->A")):
        none = means[metric, "none", 0.0]
        rises = [means[metric, own, dose] - none for dose in doses]
        assert rises == sorted(rises)
        assert abs(means[metric, other, 0.8] - none) < rises[-1] / 4


@pytest.mark.slow
def test_people_against_people_judged(people: Corpus) -> None:
    """Five metrics, 8 trials: the sd of 8 values is known to a quarter, a mean of five metrics' to a sixth or so."""
    assert people.labels is not None
    quick = {"folds": 3, "refits": 4, "chance": 0, "resamples": 100, "workers": 1, "judge": "linear"}
    everything: list[Summary] = []
    for seed in range(8):
        corpus = people_as_captioner(most_shown(people), people.labels, images=240, seed=seed)
        everything += evaluate(corpus, metrics="lic,leakage,dbac-ta,dpac-at,dpac-ta", seed=seed, **quick).summaries
    names = ("lic", "leakage", "dbac-ta", "dpac-at", "dpac-ta")
    ratios = [claimed([row for row in everything if row.metric.name == name]) for name in names]
    assert all(0.5 < ratio < 2.2 for ratio in ratios)
    assert 0.75 < np.mean(ratios) < 1.5
    assert all(row.basis == "refits" for row in everything)
    assert np.mean([known(row.p_value) < 0.05 for row in everything]) <= 0.15
    assert np.mean([not holds_nothing(row) for row in everything]) <= 0.15


@pytest.mark.slow
def test_the_demo_finds_what_is_expected_of_its_judges() -> None:
    """Of LIC, on a world of its own size: within three sd over worlds; the size that the demo has is known."""
    known = json.loads((resources.files("judge.calibration") / "expected.json").read_text(encoding="utf-8"))
    assert known["images"] == 1200
    assert all(row["worlds"] >= (40 if "lic" in name else 5) for name, row in known["rows"].items())
    assert read_expected(1199) == {}
    world = make_world(1200, seed=0, parameters=DEMO)
    told = tuple(simulate(world, name=name, captioner=captioner) for name, captioner in CAPTIONERS.items())
    corpus = Corpus(world.human, told, world.labels)
    quick = {"folds": 5, "refits": 0, "chance": 0, "resamples": 100, "workers": 1}
    rows = evaluate(corpus, metrics="lic", **quick).summaries
    for row in rows:
        expected = known["rows"][f"{row.captioner} lic"]
        assert row.amplification == pytest.approx(expected["amplification"], abs=3 * expected["sd"])
        assert read_expected(1200)[f"{row.captioner} lic"] == f"{expected['amplification']:+.3f}"


@pytest.mark.slow
def test_other_captioners_change_no_verdict(bench: Any, setting: Any) -> None:
    """A captioner has the same values, and the same verdict of its own, beside others and alone."""
    names = ["a person", "a person, brevity", "list of words"]
    drawn = bench.read(setting.data).draw(300, 5)
    (together, *_), (alone, *_) = (
        bench.tried(setting, drawn, [bench.FORMS[n] for n in of]) for of in (names, names[:1])
    )
    assert alone == together


def trials(captioner: str, values: Sequence[float], error: float, *, dosed: bool = False) -> pd.DataFrame:
    """Rows of a captioner with these values and one claimed error; p, interval and verdict are those of a z-test."""
    rows = pd.DataFrame({"captioner": captioner, "base": captioner.partition(", A->T")[0], "value": values})
    rows = rows.assign(dosed=dosed, error=error, reason="", low=rows["value"] - 1.96 * error)
    rows["high"] = rows["value"] + 1.96 * error
    rows["p"] = [0.01 if abs(value) > 1.96 * error else 0.5 for value in values]
    words = {-1: "tells less than a person", 0: "cannot tell", 1: "amplifies"}
    rows["verdict"] = [words[int(np.sign(value)) * (abs(value) > 1.96 * error)] for value in values]
    return rows


def test_bounds_on_null_trials_made_by_hand(bench: Any) -> None:
    """Normal values of sd 0.02: the bounds hold if that is the claimed error, and fail if it is a half of that."""
    values = np.random.default_rng(0).normal(0, 0.02, 2000)
    for error, holds in ((0.02, True), (0.01, False)):
        lines = [*bench.table({"null-900": trials("a person", values.tolist(), error)})]
        assert [line.holds for line in lines] == [holds] * 3


def test_bounds_on_verdicts_made_by_hand(bench: Any) -> None:
    """Of 20 trials of a form one may amplify; of a dose sixteen must, and none may tell less."""
    one, two = [0.1, *[0.0] * 19], [0.1, 0.1, *[0.0] * 18]
    fair = [trials("a person", one, 0.02), trials("paragraph", two, 0.02), trials("two people", one, 0.02)]
    enough, few = [0.1] * 16 + [0.0] * 4, [0.1] * 15 + [-0.1] * 5
    dosed = [
        trials("a person, A->T 0.4", enough, 0.02, dosed=True),
        trials("six words, A->T 0.4", few, 0.02, dosed=True),
    ]
    frames = {"forms-900": pd.concat(fair), "doses-900": pd.concat(dosed)}
    frames["noise"] = pd.concat([fair[0], trials("a person, A->T 0.4", [0.1, 0.0], 0.02, dosed=True)])
    found = {line.what: line for line in bench.table(frames)}
    forms = found["forms-900: forms that amplify in more than 5% of trials"]
    assert not forms.holds
    assert (
        forms.measured
        == "1 of 3 (paragraph 2 of 20); p < 0.05 above in 7%, mean +0.0067; verdicts: 56 'cannot tell', 4 'amplifies'"
    )
    assert found["forms-900, two people: amplifies"].holds
    assert found["doses-900, a person, A->T 0.4: amplifies"].holds
    assert not found["doses-900, six words, A->T 0.4: amplifies"].holds
    assert not found["doses-900: tells less than a person"].holds
    assert found["three sentences or more: a verdict"].measured.startswith("100.0%")
    assert found["noise, no bias: amplifies"].holds
    assert found["noise: doses found"].measured == "a person, A->T 0.4 50% (else 80%); no verdict 0%"
