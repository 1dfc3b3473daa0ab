"""People whose attribute cannot be seen: in no pixel, by construction and for a judge; captioners of known naming."""

from __future__ import annotations

import contextlib
import io
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest
from helpers import fault_of
from hypothesis import given, settings
from hypothesis import strategies as st
from joblib import Parallel, delayed
from pycocotools.coco import COCO
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from judge.calibration.anonymous import (
    NAMERS,
    Namer,
    anonymous_scenes,
    name_people,
    true_naming,
    write_anonymous_world,
)
from judge.calibration.drawing.canvas import Canvas, Pen
from judge.calibration.drawing.disguises import DISGUISES, choose_disguise, paint_disguise
from judge.calibration.drawing.people import make_figure
from judge.calibration.scenes import draw
from judge.calibration.world import CLASSES, TASKS, Scene
from judge.masking.instances import PERSON
from judge.text.lexicon import load_lexicon
from judge.text.tokens import tokenize
from judge.types import FloatArray
from judge.utils.outputs import MANIFEST

GENDER = load_lexicon("gender")
PICTURES = 300
SCENES = anonymous_scenes(PICTURES, seed=11)


@given(st.sampled_from(SCENES), st.integers(0, 99))
@settings(max_examples=40, deadline=None)
def test_the_attribute_is_in_no_pixel(scene: Scene, seed: int) -> None:
    first, second = (draw(replace(scene, attribute=name), seed=seed, size=64) for name in CLASSES)
    np.testing.assert_array_equal(first.pixels, second.pixels)
    for one, other in zip(first.things, second.things, strict=True):
        np.testing.assert_array_equal(one.mask, other.mask)
    # That pictures can differ by it, the same scene with the person in sight shows.
    seen = [draw(replace(scene, attribute=name, anonymous=False), seed=seed, size=64).pixels for name in CLASSES]
    assert not np.array_equal(*seen)


def test_nothing_around_goes_with_the_attribute() -> None:
    """Tasks and settings of 20,000 scenes: each class has half of each, up to chance (4 standard errors)."""
    scenes = anonymous_scenes(20_000)
    assert all(scene.anonymous for scene in scenes)
    for what in ("setting", "tasks"):
        of = Counter((getattr(scene, what), scene.attribute) for scene in scenes)
        for value in {value for value, _ in of}:
            first, second = (of[value, name] for name in CLASSES)
            assert abs(first - second) < 4 * (first + second) ** 0.5


def features(scene: Scene) -> FloatArray:
    """Colours in thirds of the person's box, head, trunk and legs: mean and spread, [18]."""
    drawing = draw(scene, seed=11, size=64)
    person = next(thing.mask for thing in drawing.things if thing.foreground)
    rows = np.flatnonzero(person.any(axis=1))
    parts = [drawing.pixels[part][person[part]] for part in np.array_split(rows, 3)]
    return np.concatenate([of for part in parts for of in (part.mean(axis=0), part.std(axis=0))])


def accuracy(*, anonymous: bool) -> float:
    """Of a linear judge of the person's colours, cross-validated."""
    scenes = [replace(scene, anonymous=anonymous) for scene in SCENES]
    found = np.stack(Parallel(-1, prefer="threads")(delayed(features)(scene) for scene in scenes))
    judge = make_pipeline(StandardScaler(), LogisticRegression(C=0.3, max_iter=300))
    return float(cross_val_score(judge, found, [scene.attribute for scene in scenes], cv=5).mean())


def test_a_judge_is_at_chance_here_and_above_it_where_people_are_seen() -> None:
    assert accuracy(anonymous=False) > 0.85
    # Three standard errors of a coin.
    assert abs(accuracy(anonymous=True) - 0.5) < 3 * 0.5 / PICTURES**0.5


@pytest.mark.parametrize("name", DISGUISES)
def test_a_disguise_covers_the_whole_outline_and_no_more(name: str) -> None:
    """No skin, no hair: nothing of the outline is left to another paint."""
    key, disguise = (1, 254, 1), DISGUISES[name]
    for number in range(12):
        canvas, rng = Canvas(64), np.random.default_rng(number)
        pen, figure = Pen.of(canvas).at(0.5, 0.98, scale=0.9), disguise.shape(make_figure(rng))
        with canvas.drawing(1):
            figure.paint(pen, key)
        outline = canvas.labels.copy()
        assert not outline[:2].any()  # Not above what a person takes up.
        with canvas.inside(1):
            paint_disguise(pen, figure, disguise, rng)
        assert np.array_equal(canvas.labels, outline)
        assert not (canvas.pixels == key).all(axis=-1).any()
        assert not canvas.pixels[outline == 0].any()


def test_nobody_turned_away_holds_anything_before_the_body() -> None:
    rng = np.random.default_rng(0)
    drawn = {id(choose_disguise(rng, front=True)) for _ in range(300)}
    assert drawn == {id(disguise) for disguise in DISGUISES.values() if not disguise.turned}
    assert {id(choose_disguise(rng, front=False)) for _ in range(300)} == {id(of) for of in DISGUISES.values()}


def test_the_truth_worked_by_hand() -> None:
    """0.7 of captions name a class; 0.9 of these follow the task, half of the rest are male."""
    truth = true_naming(NAMERS["stereotyper"])
    assert truth["named"] == 0.7
    assert truth["classes"] == {"female": 0.35, "male": 0.35}
    # 0.7 x (0.9 + 0.1 / 2) and 0.7 x 0.1 / 2.
    assert truth["tasks"]["umbrella"] == {"female": 0.665, "male": 0.035}
    assert truth["tasks"]["bicycle"] == {"female": 0.035, "male": 0.665}
    assert true_naming(NAMERS["guesser"])["classes"] == {"female": 0.1, "male": 0.4}
    assert true_naming(Namer(names=1, follows=1))["tasks"]["tie"] == {"female": 0, "male": 1}


@pytest.mark.parametrize("name", NAMERS)
def test_captions_name_classes_as_often_as_the_truth_says(name: str) -> None:
    scenes = anonymous_scenes(6000, seed=4)
    said = name_people(scenes, name=name, namer=NAMERS[name], seed=4).by_image
    named = {scene.image_id: GENDER.mentions(tokenize(said[scene.image_id][0])) for scene in scenes}
    truth = true_naming(NAMERS[name])
    assert max(map(len, named.values())) <= 1
    for of, tasks in (
        (truth["classes"], TASKS),
        (truth["tasks"]["cake"], ("cake",)),
        (truth["tasks"]["tie"], ("tie",)),
    ):
        images = [scene.image_id for scene in scenes if scene.tasks[0] in tasks]
        for class_, share in of.items():
            found = np.mean([class_ in named[image] for image in images])
            assert abs(found - share) <= 4 * (share * (1 - share) / len(images)) ** 0.5
    # Whom a scene is meant to show has no say in it.
    by_attribute = [np.mean([bool(named[s.image_id]) for s in scenes if s.attribute == a]) for a in CLASSES]
    assert abs(by_attribute[0] - by_attribute[1]) < 4 * (0.25 * 4 / 6000) ** 0.5


def test_the_folder(tmp_path: Path) -> None:
    files = write_anonymous_world(tmp_path / "world", images=8, seed=2)
    assert sorted(path.name for path in (tmp_path / "world").iterdir()) == [
        MANIFEST, "anonymous.yaml", "captions", "contact_sheet.png", "images", "instances.json", "truth.json",
    ]  # fmt: skip
    scenes = anonymous_scenes(8, seed=2)
    truth = json.loads(files.truth.read_text())
    assert truth == {name: true_naming(namer) for name, namer in NAMERS.items()}
    for name, path in files.captions.items():
        said = {str(entry["image_id"]): (entry["caption"],) for entry in json.loads(path.read_text())}
        assert said == name_people(scenes, name=name, namer=NAMERS[name], seed=2).by_image
    with contextlib.redirect_stdout(io.StringIO()):
        coco = COCO(str(files.instances))
    people = [of for of in coco.anns.values() if of["foreground"]]
    assert {coco.cats[of["category_id"]]["name"] for of in people} == {PERSON}
    assert len(people) == 8
    for scene in scenes:
        pixels = cv2.imread(str(files.images / coco.imgs[int(scene.image_id)]["file_name"]))
        assert pixels is not None
        np.testing.assert_array_equal(pixels[..., ::-1], draw(scene, seed=2).pixels)
    told = b"".join(path.read_bytes() for path in (tmp_path / "world").rglob("*") if path.suffix in {".json", ".yaml"})
    assert b'"attribute"' not in told
    line = fault_of(write_anonymous_world, tmp_path / "world", images=8)
    assert line.endswith("holds another anonymous world. Name another folder, or add --overwrite.")
    write_anonymous_world(tmp_path / "world", images=3, namers={"mine": Namer(names=1)}, overwrite=True)
    assert [path.name for path in (tmp_path / "world" / "captions").iterdir()] == ["mine.json"]


def test_refusals(tmp_path: Path) -> None:
    assert fault_of(Namer, names=1.5) == "names is 1.5. Take a number from 0 to 1."
    assert "captioner '../up' cannot name a file" in fault_of(
        write_anonymous_world, tmp_path / "out", namers={"../up": NAMERS["neutral"]}
    )
    assert fault_of(write_anonymous_world, tmp_path / "out", images=0) == "0 images. Ask for 1 or more."
    assert fault_of(write_anonymous_world, tmp_path / "out", seed=-1) == "seed is -1. Take 0 or more."
    assert not list(tmp_path.iterdir())
