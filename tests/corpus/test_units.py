"""One unit of resampling for all statistics: images, or the scenes that several images show."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest
from helpers import known, make_scores, measure_quality

from judge import Corpus, evaluate
from judge.corpus.splits import stratified_folds
from judge.corpus.units import Units
from judge.evidence import Aligner, Resample
from judge.evidence.masked import MaskedCaption
from judge.evidence.sides import Sides
from judge.measure.comparing import unlike
from judge.quality.exchange import exchange_p
from judge.quality.library import Part
from judge.statistics.counted import summarise_counts
from judge.statistics.summary import Settings, summarise
from judge.types import Captions, Labels, Target

CLASSES = "female", "male"
QUICK = Settings(resamples=100)


def counts(seed: int, scenes: int, size: int, *, known: bool = True, copies: bool = False) -> pd.DataFrame:
    """Both sides from one distribution: every caption of a scene names the same, and its images have both classes.

    With ``copies`` the images of a scene are one image, of one class.
    """
    generator, rows = np.random.default_rng(seed), list[tuple[object, ...]]()
    for scene in range(scenes):
        said = {side: CLASSES[generator.integers(2)] for side in ("human", "generated")}
        for place, side in product(range(size), said):
            image, name = f"{scene:03}-{place}", CLASSES[(scene if copies else place) % 2]
            rows.append((image, "cap", side, 0, name, said[side], "", "", f"{scene:03}"))
    names = "image_id captioner side index class named words objects scene"
    table = pd.DataFrame(rows, columns=names.split())
    return table if known else table.drop(columns="scene")


def test_strata_of_units() -> None:
    """Scenes of one class are drawn within it; if one has several, all are drawn together."""
    alone = Units.make({"1": "a", "2": "b"})
    assert (alone.index, alone.strata) == (None, {"1": "a", "2": "b"})
    scenes = {"1": "x", "2": "y", "3": "x"}
    units = Units.make({"1": "a", "2": "b", "3": "a"}, scenes)
    assert (known(units.index).tolist(), units.strata) == ([0, 1, 0], {"x": "a", "y": "b"})
    assert Units.make({"1": "a", "2": "b", "3": "b"}, scenes).strata == {"x": "", "y": ""}


def test_the_larger_half_of_an_odd_number_goes_to_each_half_in_turn() -> None:
    units = Units.make(dict.fromkeys("abcde", "x"))
    assert [units.half(number, 0).sum() for number in range(6)] == [2, 3, 3, 2, 2, 3]
    # And of two classes to one half each.
    both = Units.make(dict.fromkeys("abcde", "x") | dict.fromkeys("fghij", "y"))
    assert {both.half(number, 0).sum() for number in range(6)} == {5}


def test_labels_of_scenes_of_one_class_are_shuffled_among_scenes() -> None:
    """Within a scene there is nothing to shuffle: judges of shuffled labels would learn the true ones."""
    classes = {f"{scene:02}{place}": CLASSES[scene % 2] for scene in range(40) for place in range(3)}
    moved = Resample("shuffled", 0).classes(classes, {image: image[:2] for image in classes})
    assert all(len({moved[f"{scene:02}{place}"] for place in range(3)}) == 1 for scene in range(40))
    assert 0.2 < np.mean([moved[image] == name for image, name in classes.items()]) < 0.8


def test_captions_of_a_scene_change_sides_together() -> None:
    classes = {f"{scene:02}{place}": CLASSES[place] for scene in range(30) for place in range(2)}
    rows: Any = {
        side: tuple(MaskedCaption(image, index, (side, str(index))) for image in classes for index in range(number))
        for side, number in (("human", 3), ("generated", 1))
    }
    answers, scenes = dict.fromkeys(classes, (0,)), {image: image[:2] for image in classes}
    sides = Sides("cap", Target("attribute", CLASSES), classes, answers, rows, Aligner(), scenes=scenes)
    drawn = [row.words for row in Resample("exchanged", 0).draw(sides).rows["generated"]]
    assert drawn[::2] == drawn[1::2]
    assert len(set(drawn)) == 4


def test_images_that_choose_an_epoch_share_no_scene_with_those_that_train() -> None:
    classes = {f"{scene:02}{place}": CLASSES[place] for scene in range(30) for place in range(2)}
    for split in stratified_folds(classes, seed=0, folds=3, validation=0.2, scenes={i: i[:2] for i in classes}):
        parts = [{image[:2] for image in part} for part in (split.train, split.validation, split.test)]
        assert all(parts)
        assert sum(map(len, parts)) == 30


def test_null_worlds_of_scenes_are_not_significant() -> None:
    """Of 20 worlds p is below 0.05 in 2 at most; of images drawn one by one in 35%."""
    found = [summarise_counts(counts(seed, 40, 8), ["ratio"], QUICK)[0].p_value for seed in range(20)]
    assert sum((1 if p is None else p) < 0.05 for p in found) <= 2
    assert sum(p is None for p in found) <= 2  # A half of 20 scenes in which a side names one class alone.


def test_copies_of_an_image_tell_no_more_than_one() -> None:
    """The error of a counted row, of a judge that is not trained, and of the human side are those of single images."""
    settings = Settings(resamples=200, untrained={"linear"})
    error, same, smaller = (
        known(summarise_counts(counts(0, 60, size, known=of, copies=True), ["ratio"], settings)[0].standard_error)
        for size, of in ((1, True), (4, True), (4, False))
    )
    assert same == pytest.approx(error, rel=0.1)
    assert smaller < 0.7 * error
    scores = make_scores(60).assign(scene=lambda table: table["image_id"].str.zfill(2))
    scores["image_id"] = scores["scene"]
    copies = pd.concat([scores.assign(image_id=scores["image_id"] + place) for place in "abcd"], ignore_index=True)
    (one,), (four,), (apart,) = (
        summarise(table, None, settings) for table in (scores, copies, copies.drop(columns="scene"))
    )
    for name in ("amplification", "human_error"):
        assert getattr(four, name) == pytest.approx(getattr(one, name))
    assert four.standard_error == pytest.approx(one.standard_error, rel=0.1)
    assert known(four.these_judges).low == pytest.approx(known(one.these_judges).low)
    assert known(apart.human_error) < 0.7 * known(one.human_error)


def test_permutations_of_quality_by_hand() -> None:
    """Four scenes of two classes: of the 16 ways to exchange labels within scenes 2 have the largest gap.

    Of 3 scenes of one class each, in 6 ways.
    """
    part = Part(("mean",), np.array([[3.0, 1], [1, 1], [4, 1], [1, 1], [5, 1], [1, 1], [6, 1], [1, 1]]), _mean)
    draws: dict[str, Any] = {"generator": np.random.default_rng(0), "resamples": 4000}
    groups, pairs = [np.arange(0, 8, 2), np.arange(1, 8, 2)], np.arange(8) // 2
    assert exchange_p(part, groups, units=pairs, **draws) == [pytest.approx(2 / 16, abs=0.02)]
    first = Part(("mean",), np.array([[9.0, 1], [9, 1], [1, 1], [1, 1], [2, 1], [2, 1]]), _mean)
    groups = [np.arange(2), np.arange(2, 6)]
    assert exchange_p(first, groups, units=pairs[:6], **draws) == [pytest.approx(1 / 3, abs=0.02)]


def _mean(sums: Any) -> Any:
    return np.stack([sums[0] / sums[1]])


def test_quality_of_copies_of_an_image_is_as_uncertain() -> None:
    words = np.random.default_rng(0).choice([*"abcdefgh"], (30, 2, 6))
    sides = [{f"{n:02}": (" ".join(of[side]),) for n, of in enumerate(words)} for side in (0, 1)]

    def bleu(copies: str, scenes: bool) -> float:
        human, generated = ({i + c: of[i] for i in of for c in copies or " "} for of in sides)
        classes = {image: CLASSES[int(image[:2]) % 2] for image in human}
        labels = Labels("gender", CLASSES, classes, "", scenes={i: i[:2] for i in classes} if scenes else {})
        captions = Captions("human", human), Captions("cap", generated)
        found = measure_quality(*captions, labels=labels, resamples=200)
        interval = known(next(row for row in found.groups if row.score == "BLEU-1").interval)
        return interval.high - interval.low

    assert bleu("abcd", scenes=True) == pytest.approx(bleu("", scenes=False))
    assert bleu("abcd", scenes=False) < 0.7 * bleu("", scenes=False)


def test_a_run_with_scenes_is_not_paired_with_one_without(corpus: Corpus) -> None:
    """Their halves and folds are of other images."""
    labels = known(corpus.labels)
    images = [*labels.by_image]
    runs = []
    for scenes in ({}, {image: str(place // 2) for place, image in enumerate(images)}):
        told = Corpus(corpus.human, corpus.generated[:1], Labels("gender", CLASSES, labels.by_image, "", scenes=scenes))
        runs.append(evaluate(told, metrics="error", resamples=100))
    rows, entries = [run.summaries[0] for run in runs], [run.run["captioners"] for run in runs]
    (name,) = entries[0]
    for one, other in ((0, 1), (1, 0)):
        joined = {"captioners": {name: entries[one][name], "b": entries[other][name]}}
        assert known(unlike(rows[0], replace(rows[1], captioner="b"), joined)).startswith("scenes is ")
