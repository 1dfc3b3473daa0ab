"""Every metric with 2, 3 and 9 classes, unequal, rare, or absent on one side: oracle's number, or one clear line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import oracle
import pytest
from classes import SIZES, SPARE, THINGS, World, draw, undescribed, without
from helpers import evaluate_numbers, known, one_line
from oracle import Row, Said, Table, table

from judge import evaluate
from judge.corpus import Corpus
from judge.measure import Result
from judge.metrics import METRICS
from judge.report.warnings import warnings
from judge.statistics.summary import Summary

QUICK: dict[str, Any] = {
    "resamples": 100, "workers": 1, "folds": 2, "seeds": 1, "refits": 0, "chance": 0, "least": 2,
}  # fmt: skip
COUNTED = [name for name, row in METRICS.items() if row.counted]
# U needs captions that name one class each: tests/metrics/test_uncertainty.py. Conditional leakage needs three people.
READ = [
    name for name, row in METRICS.items() if not (row.counted or row.uses_images or row.from_annotation or row.given)
]

# What is unusual of the classes: world -> world. The last class has the fewest images.
SCENARIOS: dict[str, Callable[[World, str], World]] = {
    "unequal": lambda world, _: world,
    "never named by the captioner": partial(without, of="cap"),
    "never named": partial(without, of="all"),
    "not described by the captioner": undescribed,
    "not in any image": lambda world, _: replace(world, words={**world.words, **SPARE}),
}


@dataclass(frozen=True)
class Run:
    """A world, and what was measured of it."""

    world: World
    result: Result

    def row(self, metric: str) -> Summary:
        (found,) = (row for row in self.result.summaries if row.metric.name == metric)
        return found

    def rows(self, metric: str, side: str) -> list[Row]:
        scores = self.result.scores
        mine = scores[(scores["metric"] == metric) & (scores["side"] == side)]
        return [dict(row) for row in mine.to_dict("records")]


def measure(world: World, folder: Path, metrics: Sequence[str], *, examples: bool = False, **settings: Any) -> Result:
    path = folder / "feeling.yaml"
    path.write_text(world.lexicon, encoding="utf-8")
    how = evaluate if examples else evaluate_numbers
    return how(world.corpus, lexicon=str(path), metrics=list(metrics), **QUICK | settings)


# Of two classes one is left where the captioner does not describe the other: refused, see below.
CASES = [
    pytest.param(k, name, marks=pytest.mark.slow if k == max(SIZES) and name != "unequal" else ())
    for k in SIZES
    for name in SCENARIOS
    if (k, name) != (2, "not described by the captioner")
]
# Where judges are trained too: of other numbers of classes what is unusual meets the same code.
READING = [(9, "unequal"), *((3, name) for name in SCENARIOS if name != "never named")]


def counted_of(name: str) -> list[str]:
    """Counted metrics of a scenario: where a class is never named, no words stand with every class (refused, below)."""
    return [metric for metric in COUNTED if (metric, name) != ("ba", "never named")]


@pytest.fixture(scope="module")
def run_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int, str], Run]:
    """What is measured in the world of a number of classes and of a scenario, once each."""

    @cache
    def make(count: int, name: str) -> Run:
        plain = draw(SIZES[count], captions=1 + (name == "unequal" and count < 9))
        world = SCENARIOS[name](plain, [*plain.words][-1])
        metrics = [*(READ if (count, name) in READING else []), *counted_of(name)]
        # Examples are chosen beside rows without a value too.
        examples = (count, name) == (3, "never named by the captioner")
        folder = tmp_path_factory.mktemp("run")
        refits = 2 * ((count, name) == (3, "unequal"))
        return Run(world, measure(world, folder, metrics, examples=examples, refits=refits))

    return make


def classes_of(world: World) -> list[str]:
    return sorted({world.classes[image] for image in world.images})


def words_of(world: World) -> list[str]:
    """LIC's vocabulary: content words in two captions or more of those that name each class, and it alone."""
    counts = Counter((row.one, word) for side in (world.human, world.generated)
                     for row in world.said(side, content=True) for word in row.labels)  # fmt: skip
    return sorted({w for _, w in counts if all(counts[name, w] >= 2 for name in classes_of(world))})


def predicted_classes(world: World) -> tuple[Table, Table]:
    """What images show, by annotated class, and by the class that the captioner names: T->A."""
    naming = [row for row in world.said(world.generated) if row.one]
    left = {row.image for row in naming}
    told = [Said(row.image, row.annotated, row.named, world.shown[row.image]) for row in naming]
    truth = [row for row in world.annotated if row.image in left]
    return table(truth, lambda row: row.annotated), table(told, lambda row: row.one)


def expected_count(world: World, metric: str) -> float | None:
    """The published value, by loops."""
    classes, sides = classes_of(world), [world.said(side) for side in (world.human, world.generated)]
    things = sorted({thing for side in sides for row in side for thing in row.labels})
    if metric in {"ba", "ba-objects"}:
        words = metric == "ba"
        said = [world.said(side, content=words) for side in (world.human, world.generated)]
        tables = [table(side, lambda row: row.one) for side in said]
        return oracle.ba(*tables, classes, words_of(world) if words else things)
    if metric == "ratio":
        named = Counter(row.one for row in sides[0] if row.one in classes)
        least, most = (sorted(classes, key=lambda name: (sign * named[name], name)) for sign in (1, -1))
        some = [name for name in least if named[name] or len(named) < 2]
        lowest = max(name for name in some if named[name] == named[some[0]])
        values = [oracle.ratio(side, most[0], lowest) for side in sides]
        return None if None in values else known(values[1]) / known(values[0])
    if metric == "error":
        return oracle.error(sides[1]) - oracle.error(sides[0])
    direction = known(METRICS[metric].direction)
    by_class = [table(side, lambda row: row.annotated) for side in sides]
    truth, predicted = by_class if direction == "A->T" else predicted_classes(world)
    labels = things if direction == "A->T" else [*THINGS]
    if metric.startswith("multi"):
        return oracle.multi(truth, predicted, classes, direction=direction)
    how = oracle.dba if metric.startswith("dba") else oracle.dpa
    return how(truth, predicted, classes, labels, direction=direction)


@pytest.mark.parametrize(("count", "name"), CASES)
def test_counted(count: int, name: str, run_of: Callable[[int, str], Run]) -> None:
    run = run_of(count, name)
    for metric in counted_of(name):
        row, expected = run.row(metric), expected_count(run.world, metric)
        assert row.published == (None if expected is None else pytest.approx(expected, abs=1e-12)), metric
        if expected is None:
            assert any(row.metric.title in note and note.startswith("No value for") for note in warnings(run.result))
            assert row.amplification is None
        else:
            assert np.isfinite(known(row.amplification))
            assert row.images <= len(run.world.images)


QUANTITIES = {"lic": oracle.confident_accuracy, "leakage": oracle.accuracy, "sc": oracle.accuracy}


def expected_sides(rows: Mapping[str, Sequence[Row]], metric: str) -> list[float | None]:
    """Scores of both sides, of the rows of ``scores.parquet``."""
    if metric in QUANTITIES:
        return [oracle.mean_of_classes(of, QUANTITIES[metric]) for of in rows.values()]
    direction = known(METRICS[metric].direction)
    return [oracle.directional(of, direction=direction, pooled=metric.startswith("dbac")) for of in rows.values()]


@pytest.mark.parametrize("metric", READ)
@pytest.mark.parametrize(("count", "name"), READING)
def test_judged_by_linear(count: int, name: str, metric: str, run_of: Callable[[int, str], Run]) -> None:
    run = run_of(count, name)
    row, sides = run.row(metric), ("generated",) if metric == "sc" else ("human", "generated")
    rows = {side: run.rows(metric, side) for side in sides}
    values = expected_sides(rows, metric)
    assert [getattr(row, side) for side in sides] == pytest.approx(values, rel=1e-9)
    if metric == "sc":
        assert row.amplification == pytest.approx(known(values[0]) - 1 / len(classes_of(run.world)), abs=1e-9)
        return
    human, generated = map(known, values)
    normal = METRICS[metric].amplification == "normalised"
    assert row.amplification == pytest.approx((generated - human) / (generated + human if normal else 1), abs=1e-9)
    # Judges are asked of the classes that have images, whatever the lexicon knows.
    if METRICS[metric].target == "attribute":
        assert {of["answer"] for side in sides for of in rows[side]} == {*classes_of(run.world)}
        assert {of["predicted"] for side in sides for of in rows[side]} <= {*classes_of(run.world)}
        assert len(rows["generated"]) == len(run.world.images)


def test_too_few_classes_or_images_of_one(tmp_path: Path) -> None:
    """Others are in ``attack/mistakes.yaml``."""
    for metric in ("lic", "error"):
        with one_line("all 40 images are 'amusement'", "needs two classes or more"):
            measure(undescribed(draw(SIZES[2]), "awe"), tmp_path, [metric])


@pytest.mark.parametrize("protocol", ["crossfit", "paper"])
def test_ten_images_of_a_class_are_enough_for_refits(protocol: str, tmp_path: Path) -> None:
    """Each half has five of them, one for each fold."""
    how = {"protocol": protocol, "folds": 10, "refits": 2, "judge": "linear"}
    (row,) = measure(draw((40, 25, 10)), tmp_path, ["lic"], **how).summaries
    assert row.basis == "refits"
    assert known(row.standard_error) > 0


def test_a_class_that_the_lexicon_has_no_words_for(tmp_path: Path) -> None:
    """BA says what helps, which then runs; metrics that count names say that of this class they cannot tell."""
    world = draw(SIZES[3])
    last = [*world.words][-1]
    path = tmp_path / "silent.yaml"
    path.write_text(world.lexicon.replace(f"[{world.words[last]}]", "[]"), encoding="utf-8")
    with one_line(f"has no words for '{last}'. Use ba-objects, ", f"or give a lexicon with words for '{last}'"):
        evaluate(world.corpus, lexicon=str(path), metrics=["ba"], **QUICK | {"least": 1})
    told = warnings(evaluate_numbers(world.corpus, lexicon=str(path), metrics="ba-objects,error,dba-o", **QUICK))
    note = f"The lexicon has no words for {last}: no caption counts as naming that, so that BA (objects), Error cannot"
    assert any(line.startswith(note) for line in told)
    assert not any("has no words for" in line for line in warnings(measure(world, tmp_path, ["error"])))


def test_captioners_of_other_classes_are_not_compared(tmp_path: Path) -> None:
    """One of two classes is easier to guess than one of three."""
    world = draw(SIZES[3])
    (full,) = world.corpus.generated
    (part,) = undescribed(world, "awe").corpus.generated
    captioners = [replace(of, name=name) for name, of in (("one", full), ("part", part), ("two", full))]
    (tmp_path / "feeling.yaml").write_text(world.lexicon, encoding="utf-8")
    corpus = Corpus(world.corpus.human, tuple(captioners), world.corpus.labels)
    result = evaluate_numbers(corpus, lexicon=str(tmp_path / "feeling.yaml"), metrics="leakage,error", **QUICK)
    assert {(of.first, of.second) for of in result.differences()} == {("one", "two")}
    assert {of.metric.name for of in result.differences()} == {"leakage", "error"}
    assert "Captioners whose images have other classes are not compared with each other." in warnings(result)
