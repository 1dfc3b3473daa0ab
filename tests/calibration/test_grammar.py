"""The calibration world: closed forms against slow oracles, sentences against English and the lexicon."""

from __future__ import annotations

import re
from importlib import resources
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
import yaml
from helpers import read_json, read_rows
from hypothesis import given, settings
from hypothesis import strategies as st

from judge.calibration.grammar import Content, World, make_world, sentence, simulate, task_words, write_world
from judge.calibration.truth import bayes_score, evidence_table, truth
from judge.calibration.world import (
    CAPTIONERS,
    CLASSES,
    DEFAULT,
    FAITHFUL,
    SETTINGS,
    TASKS,
    Captioner,
)
from judge.corpus.captions import read_captions
from judge.text.lexicon import load_lexicon, mask
from judge.text.tokens import tokenize
from judge.types import Captions

GENDER = load_lexicon("gender")
YAML = yaml.safe_load((resources.files("judge.calibration") / "grammar.yaml").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def world() -> World:
    return make_world(1500, seed=7)


@pytest.fixture(scope="module")
def generated(world: World) -> dict[str, Captions]:
    return {name: simulate(world, name=name, captioner=captioner) for name, captioner in CAPTIONERS.items()}


def test_deterministic_and_captioners_are_independent(world: World, generated: dict[str, Captions]) -> None:
    again = make_world(1500, seed=7)
    assert again == world
    assert list(again.human.by_image) == [str(number) for number in range(1, 1501)]
    simulate(again, name="another", captioner=Captioner(stereotype=0.9))
    assert simulate(again, name="much", captioner=CAPTIONERS["much"]) == generated["much"]
    assert make_world(1500, seed=8).human.by_image != world.human.by_image
    assert simulate(world, name="also none", captioner=FAITHFUL).by_image != generated["none"].by_image
    # Five captions, mostly distinct; of captioners one.
    assert {len(captions) for captions in world.human.by_image.values()} == {5}
    assert np.mean([len(set(captions)) == 5 for captions in world.human.by_image.values()]) > 0.98
    assert all(len(told) == 1 for captions in generated.values() for told in captions.by_image.values())


def test_english_in_which_masking_leaves_no_gender_word(world: World, generated: dict[str, Captions]) -> None:
    lexicon = frozenset().union(*GENDER.classes.values(), GENDER.hidden_only)
    wrong = re.compile(r"\b[Aa] [aeiou]|\b[Aa]n [^aeiou]|\b(\w+) \1\b|[{}]|  | [.,]|^\W|[^\w.]$")
    mentioned = []
    for side in (world.human, *generated.values()):
        for caption in chain.from_iterable(side.by_image.values()):
            assert not wrong.search(caption), caption
            assert caption[0].isupper() or side is not world.human
            words = tokenize(caption)
            assert not lexicon & set(mask(words, GENDER))
            assert GENDER.mentions(words) <= set(CLASSES)
            assert len(GENDER.mentions(words)) <= 1
            mentioned.append(bool(GENDER.mentions(words)))
    assert np.mean(mentioned) == pytest.approx(DEFAULT.gendered, abs=0.02)


@pytest.mark.parametrize("vocabulary", [None, 1, 3])
@settings(max_examples=200)
@given(st.sampled_from([None, *TASKS]), st.sampled_from([None, *SETTINGS]), st.integers(0, 10**9))
def test_classes_are_worded_alike_once_masked(
    vocabulary: int | None, task: str | None, setting: str | None, seed: int
) -> None:
    """So nothing but the evidence of the closed form can tell the attribute."""
    one, other = (
        sentence(Content(name, task, setting), rng=np.random.default_rng(seed), vocabulary=vocabulary)
        for name in CLASSES
    )
    assert mask(tokenize(one), GENDER) == mask(tokenize(other), GENDER)
    assert one != other
    assert told(one) == told(other) == (task, setting)


def told(caption: str) -> tuple[str | None, str | None]:
    """Task and setting, read back from the words."""
    text = f" {' '.join(tokenize(caption))} "
    tasks = {task for task, nouns in task_words().items() for noun in nouns if f" {noun} " in text}
    places = {name for name, phrases in YAML["settings"].items() for phrase in phrases if f" {phrase} " in text}
    assert len(tasks) <= 1
    assert len(places) <= 1
    return next(iter(tasks), None), next(iter(places), None)


@pytest.mark.parametrize("name", ["human", "none", "much"])
def test_words_are_worth_what_the_closed_form_says(name: str, world: World, generated: dict[str, Captions]) -> None:
    """The optimal judge, reading the sentences, reaches its closed-form score within noise."""
    side, captioner = (world.human, FAITHFUL) if name == "human" else (generated[name], CAPTIONERS[name])
    posterior = evidence_table(DEFAULT, captioner)
    posterior /= np.maximum(posterior.sum(axis=0), 1e-300)
    values = []
    for image, captions in side.by_image.items():
        female = world.labels.by_image[image] == "female"
        for task, setting in map(told, captions):
            index = (TASKS.index(task) if task else 12, SETTINGS.index(setting) if setting else 8)
            own, other = posterior[(slice(None), *index)][:: 1 if female else -1]
            values.append(own if own > other or (own == other and female) else 0.0)
    # Five captions of an image are not independent: noise by image.
    means = np.reshape(values, (len(world.scenes), -1)).mean(axis=1)
    assert abs(means.mean() - bayes_score(DEFAULT, captioner)) < 4 * means.std() / len(means) ** 0.5


def test_written_as_coco(tmp_path: Path) -> None:
    world = make_world(30, seed=2)
    files = write_world(world, CAPTIONERS, tmp_path / "new" / "world")
    data = read_json(files.human)
    assert [image["id"] for image in data["images"]] == list(range(1, 31))
    assert len({annotation["id"] for annotation in data["annotations"]}) == 150
    assert read_captions(files.human, side="human").by_image == world.human.by_image
    assert {row["image_id"]: row["gender"] for row in read_rows(files.labels)} == world.labels.by_image
    for name, captioner in CAPTIONERS.items():
        expected = simulate(world, name=name, captioner=captioner).by_image
        assert read_captions(files.captions[name], side="generated").by_image == expected
    assert read_json(files.truth) == truth(CAPTIONERS)
    found = {str(path.relative_to(files.folder)) for path in files.folder.rglob("*.*")}
    plain = [".caption-judge", "captions_human.json", "labels.csv", "truth.json", "world.yaml"]
    assert found == {*plain, *(f"captions/{name}.json" for name in CAPTIONERS)}
    assert [path.name for path in files.folder.parent.iterdir()] == ["world"]
