"""The calibration world: closed forms against slow oracles, sentences against English and the lexicon."""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from importlib import resources
from itertools import chain, pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_predict

from judge.calibration import grammar
from judge.calibration.grammar import Content, World, make_world, sentence, simulate, task_words, write_world
from judge.calibration.truth import bayes_score, evidence_table, true_amplification, truth
from judge.calibration.world import (
    CAPTIONERS,
    CLASSES,
    DEFAULT,
    FAITHFUL,
    SETTINGS,
    TASKS,
    Captioner,
    Parameters,
    described_by,
    draw_scenes,
    setting_given_task,
    stream,
    task_given_attribute,
)
from judge.errors import JudgeError
from judge.text.alignment import align
from judge.text.lexicon import load_lexicon
from judge.text.masking import mask
from judge.text.tokens import tokenize
from judge.types import Captions

GENDER = load_lexicon("gender")
YAML = yaml.safe_load((resources.files("judge.calibration") / "grammar.yaml").read_text(encoding="utf-8"))

NOUNS = [noun for nouns in task_words().values() for noun in nouns]
PLACES = {word for phrases in YAML["settings"].values() for phrase in phrases for word in phrase.split()}


@pytest.fixture(scope="module")
def world() -> World:
    return make_world(1500, seed=7)


@pytest.fixture(scope="module")
def generated(world: World) -> dict[str, Captions]:
    return {name: simulate(world, name=name, captioner=captioner) for name, captioner in CAPTIONERS.items()}


# Scenes


def test_scenes_follow_their_probabilities() -> None:
    """The share of classes exactly; tasks within noise; settings too, and by the task alone."""
    uneven = draw_scenes(200, parameters=Parameters(female_share=0.3))
    assert sum(scene.attribute == "female" for scene in uneven) == 60
    scenes = draw_scenes(20_000, seed=11)
    assert Counter(scene.attribute for scene in scenes) == {"female": 10_000, "male": 10_000}

    def near(count: int, of: int, expected: float) -> bool:
        return bool(abs(count / of - expected) < 4.5 * (expected * (1 - expected) / of) ** 0.5)

    for (row, name), (column, task) in product(enumerate(CLASSES), enumerate(TASKS)):
        found = Counter(scene.setting for scene in scenes if scene.tasks == (task,) and scene.attribute == name)
        assert near(found.total(), 10_000, task_given_attribute(0.3)[row, column])
        assert len(found) == 3
        for setting, count in found.items():
            assert near(count, found.total(), setting_given_task()[column, SETTINGS.index(setting)])


def test_what_captioners_tell() -> None:
    scenes = draw_scenes(500)
    rng = np.random.default_rng(0)
    assert described_by(scenes, FAITHFUL, rng) == scenes
    for seen, scene in zip(described_by(scenes, Captioner(stereotype=1), rng), scenes, strict=True):
        assert (TASKS.index(seen.tasks[0]) < 6) == (scene.attribute == "female")
        assert seen == replace(scene, tasks=seen.tasks)
    for seen, scene in zip(described_by(scenes, Captioner(guess=1), rng), scenes, strict=True):
        assert (TASKS.index(scene.tasks[0]) < 6) == (seen.attribute == "female")
        assert seen == replace(scene, attribute=seen.attribute)
    for seen, scene in zip(described_by(scenes, Captioner(error=1), rng), scenes, strict=True):
        assert seen.image_id == scene.image_id
        assert seen.attribute != scene.attribute
        assert seen.setting != scene.setting
        assert seen.tasks != scene.tasks


def test_settings_can_lean_to_the_attribute() -> None:
    scenes = draw_scenes(4000, seed=2, parameters=Parameters(association=0, setting_association=0.5))
    own = [(SETTINGS.index(scene.setting) < 4) == (scene.attribute == "female") for scene in scenes]
    # Half go with the attribute; the others with the task, which here knows nothing of it.
    assert np.mean(own) == pytest.approx(0.75, abs=0.03)
    always = draw_scenes(200, parameters=Parameters(setting_association=1))
    assert all((SETTINGS.index(scene.setting) < 4) == (scene.attribute == "female") for scene in always)


def test_vocabulary_is_the_number_of_words(world: World) -> None:
    told = [simulate(world, name="x", captioner=Captioner(vocabulary=number)) for number in (1, 2, 3, 6)]
    sizes = [len(words_of(side)) for side in (*told, world.human)]
    assert sizes == sorted(set(sizes))


def words_of(side: Captions) -> set[str]:
    return {word for captions in side.by_image.values() for caption in captions for word in tokenize(caption)}


# Sentences


def test_deterministic_and_captioners_are_independent(world: World, generated: dict[str, Captions]) -> None:
    again = make_world(1500, seed=7)
    assert again == world
    assert list(again.human.by_image) == [str(number) for number in range(1, 1501)]
    simulate(again, name="another", captioner=Captioner(stereotype=0.9))
    assert simulate(again, name="much", captioner=CAPTIONERS["much"]) == generated["much"]
    assert make_world(1500, seed=8).human.by_image != world.human.by_image
    assert simulate(world, name="none", captioner=FAITHFUL, seed=8) != generated["none"]
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


def test_nouns_belong_to_one_task_and_to_no_place() -> None:
    assert len(set(NOUNS)) == len(NOUNS)
    assert list(task_words()) == list(TASKS) == list(YAML["tasks"])
    assert set(YAML["settings"]) == set(SETTINGS)
    elsewhere = PLACES | {word for phrase in YAML["idle"] + YAML["endings"] for word in phrase.split()}
    assert not elsewhere & {word for noun in NOUNS for word in noun.split()} - {"of"}


def test_alignment_has_work_but_takes_no_evidence(world: World, generated: dict[str, Captions]) -> None:
    human = [tokenize(caption) for captions in world.human.by_image.values() for caption in captions]
    evidence = PLACES | {word for noun in NOUNS for word in noun.split()}
    for captioner in generated.values():
        assert evidence <= words_of(captioner) <= words_of(world.human)
        own = [tokenize(captions[0]) for captions in captioner.by_image.values()]
        _, report = align(human, own, how="constant")
        assert 0.3 < report.words_unknown < 0.7
        assert 0.1 < report.tokens_unknown < 0.4


def test_a_simple_judge_finds_the_order_and_nearly_the_size() -> None:
    world = make_world(4000, seed=1)
    answers = np.array([CLASSES.index(scene.attribute) for scene in world.scenes])
    human = masked(world.human)
    measured = {}
    for name, captioner in CAPTIONERS.items():
        own = masked(simulate(world, name=name, captioner=captioner))
        measured[name] = linear_score(own, answers) - linear_score(align(human, own, how="constant")[0], answers)
        assert measured[name] == pytest.approx(true_amplification(DEFAULT, captioner), abs=0.035)
    assert measured["none"] + 0.04 < measured["some"] < measured["much"] - 0.1


def masked(captions: Captions) -> list[tuple[str, ...]]:
    return [mask(tokenize(told[0]), GENDER) for told in captions.by_image.values()]


def linear_score(captions: list[tuple[str, ...]], answers: np.ndarray) -> float:
    """LIC's score of one side: 1-2-grams, logistic regression, five folds."""
    grams = CountVectorizer(analyzer=lambda words: [*words, *map(" ".join, pairwise(words))], binary=True)
    counts = grams.fit_transform(captions)
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    found = cross_val_predict(
        LogisticRegression(C=0.5, max_iter=500), counts, answers, cv=folds, method="predict_proba"
    )
    return float((found[np.arange(len(answers)), answers] * (found.argmax(axis=1) == answers)).mean())


# Files


def test_written_as_coco(tmp_path: Path) -> None:
    world = make_world(30, seed=2)
    files = write_world(world, CAPTIONERS, tmp_path / "new" / "world")
    data = json.loads(files.human.read_text())
    assert [image["id"] for image in data["images"]] == list(range(1, 31))
    read: dict[str, list[str]] = {}
    for annotation in data["annotations"]:
        read.setdefault(str(annotation["image_id"]), []).append(annotation["caption"])
    assert {image: tuple(captions) for image, captions in read.items()} == world.human.by_image
    assert len({annotation["id"] for annotation in data["annotations"]}) == 150
    with files.labels.open(newline="") as file:
        assert {row["image_id"]: row["gender"] for row in csv.DictReader(file)} == world.labels.by_image
    for name, captioner in CAPTIONERS.items():
        results = json.loads(files.captions[name].read_text())
        expected = simulate(world, name=name, captioner=captioner).by_image
        assert {str(result["image_id"]): (result["caption"],) for result in results} == expected
    assert json.loads(files.truth.read_text()) == truth(CAPTIONERS)
    found = {str(path.relative_to(files.folder)) for path in files.folder.rglob("*.*")}
    plain = [".caption-judge", "captions_human.json", "labels.csv", "truth.json", "world.yaml"]
    assert found == {*plain, *(f"captions/{name}.json" for name in CAPTIONERS)}
    assert [path.name for path in files.folder.parent.iterdir()] == ["world"]


def test_written_twice_is_the_same_to_the_byte(tmp_path: Path) -> None:
    one, other = (write_world(make_world(20), {"some": Captioner(stereotype=0.25)}, tmp_path / name) for name in "ab")
    for first, second in zip(sorted(one.folder.rglob("*.*")), sorted(other.folder.rglob("*.*")), strict=True):
        assert first.read_bytes() == second.read_bytes()


def test_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(grammar, "truth", full)
    with pytest.raises(JudgeError, match="No space left"):
        write_world(make_world(12), CAPTIONERS, tmp_path / "world")
    assert list(tmp_path.iterdir()) == []


def test_an_empty_folder_is_taken_a_full_one_left_alone(tmp_path: Path) -> None:
    world = make_world(12)
    write_world(world, CAPTIONERS, tmp_path)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(JudgeError, match="holds another world"):
        write_world(world, CAPTIONERS, tmp_path)
    with pytest.raises(JudgeError, match="is a file"):
        write_world(world, CAPTIONERS, tmp_path / "labels.csv")
    with pytest.raises(JudgeError, match="cannot be written"):
        write_world(world, CAPTIONERS, tmp_path / "labels.csv" / "world")
    with pytest.raises(JudgeError, match="holds something that is no world"):
        write_world(world, CAPTIONERS, tmp_path / "captions", overwrite=True)
    assert sorted(tmp_path.rglob("*")) == before
    write_world(make_world(13), {}, tmp_path, overwrite=True)
    assert not (tmp_path / "captions" / "none.json").exists()
    assert len(json.loads((tmp_path / "captions_human.json").read_text())["images"]) == 13


@pytest.mark.parametrize("name", ["", "a/b", "..", ".hidden"])
def test_names_that_are_no_files_are_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(JudgeError, match="cannot name a file"):
        write_world(make_world(2), {name: FAITHFUL}, tmp_path / "world")
    assert list(tmp_path.iterdir()) == []


NAN = float("nan")
WRONG: dict[Callable[..., object], dict[str, Any]] = {
    Parameters: {"association": 1.0, "mention": 1.5, "place": NAN, "female_share": 0.0, "setting_association": 2},
    Captioner: {"stereotype": -0.1, "guess": 1.1, "error": NAN, "vocabulary": 0},
    make_world: {"images": 0, "seed": -1},
    bayes_score: {"score": "acuracy"},
    partial(stream, key="x"): {"seed": -1},
}


@pytest.mark.parametrize(("make", "name", "value"), [(make, *of) for make in WRONG for of in WRONG[make].items()])
def test_values_out_of_range_are_refused(make: Callable[..., object], name: str, value: object) -> None:
    with pytest.raises(JudgeError):
        make(**{name: value})


def test_hidden_tasks_are_worth_what_the_closed_form_says() -> None:
    """T->A on the written words: with the nouns of tasks hidden, a simple judge of the task comes near its optimum."""
    world = make_world(6000, seed=4)
    answers = np.array([TASKS.index(scene.tasks[0]) for scene in world.scenes])
    pattern = re.compile(rf"\b(?:{'|'.join(sorted(NOUNS, key=len, reverse=True))})\b")
    measured = []
    for name, captioner in (
        ("faithful", FAITHFUL),
        ("guessing", Captioner(guess=0.9)),
        ("stereotyping", Captioner(stereotype=0.9)),
    ):
        told = simulate(world, name=name, captioner=captioner)
        hidden = [tokenize(pattern.sub("task", captions[0])) for captions in told.by_image.values()]
        measured.append(linear_score(hidden, answers))
        # A judge that learns falls short of the optimum, never beats it.
        assert -0.03 < measured[-1] - bayes_score(DEFAULT, captioner, direction="T->A") < 0.01
    faithful, guessing, stereotyping = measured
    assert guessing - faithful > 0.05
    assert abs(stereotyping - faithful) < 0.01
