"""Generated captions alone: SC against chance, and scenes that several images show with different people."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from helpers import done_well, evaluate_numbers, fault_of, judge, known, refusal

from judge import Corpus, evaluate
from judge.calibration.grammar import World
from judge.corpus.labels import LabelOptions, read_labels
from judge.corpus.splits import stratified_folds
from judge.evidence import Resample
from judge.measure import Result
from judge.types import Captions, Labels

CLASSES = "female", "male"


def pairs(world: World, count: int, *, dose: float, scenes: bool = True, seed: int = 0) -> Corpus:
    """Scenes with a woman and with a man, of which most captions are one text; a share ``dose`` is of her or him."""
    generator = np.random.default_rng(seed)
    texts = {image: told[0] for image, told in world.human.by_image.items()}
    of = {name: [texts[image] for image, own in world.labels.by_image.items() if own == name] for name in CLASSES}
    captions, labels, places = dict[str, tuple[str]](), dict[str, str](), dict[str, str]()
    for scene in range(count):
        one = [*texts.values()][generator.integers(len(texts))]
        for name in CLASSES:
            image = f"{scene}-{name}"
            own = of[name][generator.integers(len(of[name]))]
            captions[image] = (own if generator.random() < dose else one,)
            labels[image], places[image] = name, f"scene {scene}"
    known_scenes = places if scenes else {}
    told = Labels("gender", CLASSES, labels, "made up", scenes=known_scenes)
    return Corpus(Captions("human", {}), (Captions("cap", captions),), told)


def measured(corpus: Corpus, **settings: Any) -> Result:
    how: dict[str, Any] = {"metrics": "sc", "folds": 3, "refits": 4, "seeds": 1, "workers": 1, "judge": "linear"}
    return evaluate_numbers(corpus, **how | settings)


def test_pairs_with_one_caption_are_at_chance(world: World) -> None:
    """Judges that learnt a scene with one person guess the other class of it, unless scenes are known."""
    (row,) = measured(pairs(world, 60, dose=0)).summaries
    assert row.human is None
    # One of two equal captions is right.
    assert (row.generated, row.amplification) == (0.5, 0)
    assert row.p_value == 1
    (wrong,) = measured(pairs(world, 60, dose=0, scenes=False), refits=0, chance=0).summaries
    assert known(wrong.generated) < 0.4


def test_a_dose_is_found_and_counted(world: World) -> None:
    result = measured(pairs(world, 150, dose=0.9), folds=5, chance=0)
    (row,) = result.summaries
    scores = result.scores[result.scores["side"] == "generated"]
    right = (scores["predicted"] == scores["answer"]).groupby(scores["answer"]).mean()
    assert row.generated == pytest.approx(right.mean())
    assert row.amplification == pytest.approx(right.mean() - 1 / 2)
    assert known(row.interval).low > 0
    assert [of.verdict for of in result.conclusions()] == ["above chance"]
    scenes = scores.assign(scene=scores["image_id"].str.partition("-")[0]).groupby(["seed", "scene"])
    folds = scenes["fold"].nunique()
    assert (folds == 1).all()
    shuffled = result.replicates[result.replicates["kind"] == "shuffled"]
    # As many as there are refits, whatever was asked of chance.
    assert len(shuffled) == 4
    assert "exchanged" not in {*result.replicates["kind"]}
    assert shuffled["generated"].mean() == pytest.approx(0.5, abs=0.05)
    # No judge is trained on a human side that does not exist.
    assert {*result.scores["side"]} == {"generated"}


def test_labels_move_within_scenes_and_halves_have_whole_ones() -> None:
    classes = {f"{scene}{who}": name for scene in "abcdefgh" for who, name in zip("12", CLASSES, strict=True)}
    scenes = {image: image[0] for image in classes}
    seen = defaultdict(set)
    for number in range(20):
        moved = Resample("shuffled", number).classes(classes, scenes)
        for scene in "abcdefgh":
            assert {moved[f"{scene}1"], moved[f"{scene}2"]} == {*CLASSES}
            seen[scene].add(moved[f"{scene}1"])
        one, other = (Resample("half", 2 * number + part).classes(classes, scenes).keys() for part in (0, 1))
        assert one | other == classes.keys()
        assert not {scenes[image] for image in one} & {scenes[image] for image in other}
        assert len(one) == len(other)
    assert all(len(of) == 2 for of in seen.values())
    for split in stratified_folds(classes, seed=0, folds=4, scenes=scenes):
        assert not {scenes[image] for image in split.train} & {scenes[image] for image in split.test}


def test_captioners_alone_are_compared(world: World) -> None:
    some, none = (pairs(world, 40, dose=dose, seed=seed) for dose, seed in ((0.9, 1), (0.0, 2)))
    both = tuple(Captions(name, of.generated[0].by_image) for name, of in (("some", some), ("none", none)))
    result = measured(Corpus(some.human, both, some.labels), refits=2)
    (row,) = result.differences()
    assert (row.first, row.second, row.paired) == ("some", "none", True)
    assert row.value == pytest.approx(known(result.summaries[0].generated) - known(result.summaries[1].generated))


def test_what_needs_human_captions_says_so(world: World, tmp_path: Path) -> None:
    corpus = pairs(world, 20, dose=0.5)
    assert "compares with human captions, and there are none" in fault_of(evaluate, corpus)
    assert "Ratio compares" in fault_of(evaluate, corpus, metrics="ratio")
    assert "quality=True: quality is measured against human captions" in fault_of(measured, corpus, quality=True)
    assert "a hold-out divides scenes" in fault_of(measured, corpus, protocol="paper", seeds=1)
    unlabelled = Corpus(corpus.human, corpus.generated)
    assert "no labels, and no human captions" in fault_of(measured, unlabelled)
    assert "human" not in repr(corpus)
    assert "baseline='cpa': no captioner is called 'cpa'" in fault_of(measured, corpus, baseline="cpa")


TABLE = "image_id,gender,scene\n1,female,a\n2,male,a\n"


def test_scenes_of_a_table(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text(TABLE)
    assert not read_labels(path).scenes
    assert read_labels(path, options=LabelOptions(scene_column="scene")).scenes == {"1": "a", "2": "a"}
    faults = {
        TABLE.replace("scene", "scnee"): "no column 'scene'",
        TABLE + "2,male,b\n": "image '2' has two scenes",
        TABLE + "3,male,\n": "image '3' has no scene",
    }
    for text, fault in faults.items():
        path.write_text(text)
        assert fault in fault_of(read_labels, path, options=LabelOptions(scene_column="scene"))
    path.write_text('{"1": "female", "2": "male"}')
    assert "has no column 'scene'" in fault_of(read_labels, path, options=LabelOptions(scene_column="scene"))


def test_from_files_to_a_report(world: World, tmp_path: Path) -> None:
    corpus = pairs(world, 150, dose=0.9)
    labels, captions = known(corpus.labels), corpus.generated[0].by_image
    rows = [
        {"image_id": image, "gender": name, "scene": labels.scenes[image]} for image, name in labels.by_image.items()
    ]
    pd.DataFrame(rows).to_csv(tmp_path / "people.csv", index=False)
    records = [{"image_id": image, "caption": text} for image, (text,) in captions.items()]
    (tmp_path / "mine.json").write_text(json.dumps(records))
    given = ["--captions", tmp_path / "mine.json", "--labels", tmp_path / "people.csv", "--column"]
    given.append("labels.scene=scene")
    quick = ["--judge", "linear", "--folds", 5, "--seeds", 1, "--refits", 4, "--workers", 1, "--out", tmp_path / "run"]
    kept = tmp_path / "judges"
    done_well("train", *given, "--metrics", "sc", *quick[:-2], "--checkpoints", kept)
    done = done_well("evaluate", *given, "--metrics", "sc", *quick, "--verbose", "--checkpoints", kept)
    assert "above chance" in done.stdout
    run = json.loads((tmp_path / "run" / "metrics.json").read_text())["run"]
    assert run["labels"]["scenes"] == 150
    (entry,) = run["captioners"].values()
    assert {*entry["text"]} == {*entry["coverage"]} == {"generated"}
    page = (tmp_path / "run" / "report.html").read_text()
    assert "how much better than by chance" in page
    assert "than in human captions" not in page
    assert judge("report", tmp_path / "run", "--format", "md", "--out", tmp_path / "report.md").exit_code == 0
    assert "on shuffled labels within scenes" in (tmp_path / "report.md").read_text()
    assert "no column 'place'" in refusal(
        "evaluate", *given[:-1], "labels.scene=place", "--metrics", "sc", "--out", tmp_path / "no"
    )
