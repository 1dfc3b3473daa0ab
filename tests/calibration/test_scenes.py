"""Drawn scenes: where the attribute shows, exact masks, files that pycocotools reads, the same bytes ever."""

from __future__ import annotations

import contextlib
import io
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pycocotools.coco import COCO
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from judge.calibration.drawing.canvas import Canvas, Pen
from judge.calibration.drawing.objects import WAYS
from judge.calibration.drawing.people import make_figure, paint_person
from judge.calibration.drawing.settings import DRAWN
from judge.calibration.scenes import CATEGORIES, Drawing, draw, write_pictures
from judge.calibration.world import CLASSES, SETTINGS, TASKS, Scene
from judge.errors import JudgeError
from judge.masking.instances import PERSON, BoolMask

SCENE = Scene("7", "female", "park", ("dog",))
EVERY = [
    Scene(str(number), CLASSES[number % 2], SETTINGS[number % len(SETTINGS)], (TASKS[number % len(TASKS)],))
    for number in range(1, 241)
]
SCENES = st.builds(
    Scene,
    st.integers(1, 10**6).map(str),
    st.sampled_from(CLASSES),
    st.sampled_from(SETTINGS),
    st.lists(st.sampled_from(TASKS), min_size=1, max_size=2, unique=True).map(tuple),
)


@pytest.fixture(scope="module")
def drawings() -> list[Drawing]:
    return [draw(scene, seed=5) for scene in EVERY]


def same(one: Drawing, other: Drawing) -> bool:
    return np.array_equal(one.pixels, other.pixels) and all(
        a.label == b.label and a.foreground == b.foreground and np.array_equal(a.mask, b.mask)
        for a, b in zip(one.things, other.things, strict=True)
    )


def people(drawing: Drawing) -> BoolMask:
    return np.any([thing.mask for thing in drawing.things if thing.label == PERSON], axis=0)


def thickness(mask: BoolMask) -> int:
    """How often a mask can lose its rim."""
    layers, left = 0, mask.astype(np.uint8)
    while left.any():
        layers, left = layers + 1, cv2.erode(left, np.ones((3, 3), np.uint8), borderValue=0)
    return layers


# What is in a picture


@settings(deadline=None, max_examples=40)
@given(SCENES, st.integers(0, 3), st.sampled_from([96, 160]))
def test_the_attribute_shows_on_the_foreground_person_alone(scene: Scene, seed: int, size: int) -> None:
    """Not in any outline, and in no pixel outside of the person's: what segment masking hides is all there is."""
    one, other = (draw(replace(scene, attribute=attribute), seed=seed, size=size) for attribute in CLASSES)
    assert same(replace(one, pixels=other.pixels), other)
    person = one.things[0].mask
    assert np.array_equal(one.pixels[~person], other.pixels[~person])
    assert (one.pixels[person] != other.pixels[person]).any(axis=1).mean() > 0.4


@settings(deadline=None, max_examples=40)
@given(SCENES, st.integers(0, 3))
def test_things(scene: Scene, seed: int) -> None:
    drawing = draw(scene, seed=seed)
    labels = [thing.label for thing in drawing.things]
    assert labels[: 1 + len(scene.tasks)] == [PERSON, *scene.tasks]
    assert set(labels[1 + len(scene.tasks) :]) <= {PERSON}
    assert len(labels) <= len(scene.tasks) + 3
    assert [thing.foreground for thing in drawing.things] == [True] + [False] * (len(labels) - 1)
    assert drawing.pixels.shape == (160, 160, 3)
    assert drawing.pixels.dtype == np.uint8
    for thing in drawing.things:
        assert thing.mask.shape == (160, 160)
        assert thing.mask.dtype == np.bool_


def test_the_foreground_person_is_the_largest(drawings: list[Drawing]) -> None:
    for drawing in drawings:
        first, *others = (int(thing.mask.sum()) for thing in drawing.things if thing.label == PERSON)
        assert first > 1.1 * max(others, default=0)
        assert first > 1000


def test_one_to_three_people(drawings: list[Drawing]) -> None:
    numbers = {sum(thing.label == PERSON for thing in drawing.things) for drawing in drawings}
    assert numbers == {1, 2, 3}


def test_a_task_remains_when_people_are_masked(drawings: list[Drawing]) -> None:
    for drawing in drawings:
        for thing in drawing.things:
            if thing.label != PERSON:
                assert (thing.mask & ~people(drawing)).sum() > 120


def test_masks_share_no_more_than_the_pixels_between_them(drawings: list[Drawing]) -> None:
    # A strip one pixel wide, two where it runs askew: what a single erosion takes away.
    for drawing in drawings:
        for number, thing in enumerate(drawing.things):
            for other in drawing.things[:number]:
                assert thickness(thing.mask & other.mask) <= 1


@pytest.mark.parametrize("attribute", CLASSES)
def test_a_look_covers_the_whole_outline_and_no_more(attribute: str) -> None:
    """What a look left unpainted would be alike for both classes, and in no colour that a person has."""
    key = (1, 254, 1)
    for number in range(20):
        canvas, rng = Canvas(64), np.random.default_rng(number)
        pen, figure = Pen.of(canvas).at(0.5, 0.95, scale=0.8), make_figure(rng)
        with canvas.drawing(1):
            figure.paint(pen, key)
        outline = canvas.labels.copy()
        with canvas.inside(1):
            paint_person(pen, figure, attribute, rng)
        assert np.array_equal(canvas.labels, outline)
        assert not (canvas.pixels == key).all(axis=-1).any()
        assert not canvas.pixels[outline == 0].any()


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("task", TASKS)
def test_every_setting_with_every_task(setting: str, task: str) -> None:
    drawing = draw(Scene("3", "male", setting, (task,)), size=64)
    assert [thing.label for thing in drawing.things[:2]] == [PERSON, task]


def test_everything_of_the_world_can_be_drawn_and_nothing_else() -> None:
    assert set(WAYS) == set(TASKS)
    assert set(DRAWN) == set(SETTINGS)


@pytest.mark.parametrize("size", [96, 128, 224, 320])
def test_sizes(size: int) -> None:
    """The same picture, larger or smaller."""
    small, other = draw(SCENE), draw(SCENE, size=size)
    assert other.pixels.shape == (size, size, 3)
    for a, b in zip(small.things, other.things, strict=True):
        assert b.mask.mean() == pytest.approx(a.mask.mean(), rel=0.12)
    reduced = cv2.resize(other.pixels, (32, 32), interpolation=cv2.INTER_AREA).astype(float)
    assert np.abs(reduced - cv2.resize(small.pixels, (32, 32), interpolation=cv2.INTER_AREA)).mean() < 8


def features(drawings: list[Drawing]) -> np.ndarray:
    return np.stack([cv2.resize(d.pixels, (12, 12), interpolation=cv2.INTER_AREA).ravel() for d in drawings])


def test_settings_can_be_told_apart(drawings: list[Drawing]) -> None:
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=300))
    answers = [scene.setting for scene in EVERY]
    assert model.fit(features(drawings[:160]), answers[:160]).score(features(drawings[160:]), answers[160:]) > 0.8


# The same bytes


@settings(deadline=None, max_examples=8)
@given(SCENES, st.integers(0, 3))
def test_drawn_twice_is_the_same(scene: Scene, seed: int) -> None:
    assert same(draw(scene, seed=seed), draw(scene, seed=seed))


def test_another_seed_and_another_scene_are_another_picture() -> None:
    pixels = [draw(SCENE).pixels, draw(SCENE, seed=1).pixels, draw(replace(SCENE, image_id="8")).pixels]
    assert len({picture.tobytes() for picture in pixels}) == 3


# Files


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_workers_change_no_byte(tmp_path: Path) -> None:
    told: list[tuple[str, int, int]] = []
    write_pictures(EVERY[:60], tmp_path / "one", seed=2, size=64, workers=1)
    write_pictures(EVERY[:60], tmp_path / "two", seed=2, size=64, workers=2, progress=lambda *args: told.append(args))
    assert contents(tmp_path / "one") == contents(tmp_path / "two")
    assert [done for _, done, _ in told] == sorted(done for _, done, _ in told)
    assert told[-1] == ("drawing pictures", 60, 60)


def test_files_are_the_drawings(tmp_path: Path) -> None:
    scenes = [*EVERY[:12], Scene("250", "male", "street", ("tie", "pizza"))]
    write_pictures(scenes, tmp_path, seed=4, workers=1)
    with contextlib.redirect_stdout(io.StringIO()):
        coco = COCO(str(tmp_path / "instances.json"))
    assert [category["name"] for category in coco.cats.values()] == list(CATEGORIES)
    assert sorted(contents(tmp_path)) == sorted(
        ["contact_sheet.png", "instances.json", *(f"images/{image['file_name']}" for image in coco.imgs.values())]
    )
    for scene in scenes:
        drawing, image = draw(scene, seed=4), coco.imgs[int(scene.image_id)]
        assert image["file_name"] == f"{int(scene.image_id):012d}.png"
        pixels = cv2.imread(str(tmp_path / "images" / image["file_name"]))
        assert pixels is not None
        np.testing.assert_array_equal(pixels[..., ::-1], drawing.pixels)
        assert pixels.shape[:2] == (image["height"], image["width"])
        for thing, annotation in zip(drawing.things, coco.imgToAnns[image["id"]], strict=True):
            np.testing.assert_array_equal(coco.annToMask(annotation), thing.mask)
            assert coco.cats[annotation["category_id"]]["name"] == thing.label
            assert annotation["area"] == thing.mask.sum()
            rows, columns = np.nonzero(thing.mask)
            x, y, width, height = annotation["bbox"]
            assert (x, y) == (columns.min(), rows.min())
            assert (x + width, y + height) == (columns.max() + 1, rows.max() + 1)
            assert (annotation["iscrowd"], annotation["foreground"]) == (0, int(thing.foreground))


def test_no_scenes_no_pictures(tmp_path: Path) -> None:
    write_pictures([], tmp_path)
    assert list(contents(tmp_path)) == ["instances.json"]


def test_a_scene_that_cannot_be_drawn_ends_the_writing(tmp_path: Path) -> None:
    with pytest.raises(JudgeError, match="'beech' cannot be drawn"):
        write_pictures([*EVERY[:3], replace(SCENE, setting="beech"), *EVERY], tmp_path, size=64, workers=2)
    assert len(contents(tmp_path)) < len(EVERY)


# Refusals


@pytest.mark.parametrize(
    ("scene", "size", "line"),
    [
        (replace(SCENE, setting="beech"), 160, "scene 7: 'beech' cannot be drawn. Did you mean 'beach'?"),
        (replace(SCENE, tasks=("dogs",)), 160, "scene 7: 'dogs' cannot be drawn. Did you mean 'dog'?"),
        (replace(SCENE, attribute="males"), 160, "scene 7: 'males' cannot be drawn. Did you mean 'male'?"),
        (replace(SCENE, tasks=()), 160, "scene 7: 0 tasks. Give it one or two."),
        (replace(SCENE, tasks=TASKS[:3]), 160, "scene 7: 3 tasks. Give it one or two."),
        (SCENE, 63, "pictures of 63 pixels. Take 64 or more."),
    ],
)
def test_what_cannot_be_drawn(scene: Scene, size: int, line: str) -> None:
    with pytest.raises(JudgeError) as caught:
        draw(scene, size=size)
    assert str(caught.value) == line


def test_a_negative_seed() -> None:
    with pytest.raises(JudgeError):
        draw(SCENE, seed=-1)


def test_importing_scenes_is_light() -> None:
    code = "import judge.calibration.scenes, sys; print(sorted({'cv2', 'pycocotools', 'joblib'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
