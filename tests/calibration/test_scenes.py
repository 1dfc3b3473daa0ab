"""Drawn scenes: where the attribute shows, exact masks, files that pycocotools reads, the same bytes ever."""

from __future__ import annotations

import contextlib
import io
from dataclasses import replace
from itertools import product
from pathlib import Path

import cv2
import numpy as np
from helpers import tree
from hypothesis import given, settings
from hypothesis import strategies as st
from pycocotools.coco import COCO

from judge.calibration.drawing import Drawing, draw
from judge.calibration.scenes import CATEGORIES, write_images
from judge.calibration.world import CLASSES, SETTINGS, TASKS, Scene
from judge.masking.instances import PERSON

IDS, WORDS = st.integers(1, 10**6).map(str), (st.sampled_from(names) for names in (CLASSES, SETTINGS, TASKS))
SCENES = st.builds(Scene, IDS, *WORDS)


def same(one: Drawing, other: Drawing) -> bool:
    return np.array_equal(one.pixels, other.pixels) and all(
        a.label == b.label and np.array_equal(a.mask, b.mask) for a, b in zip(one.things, other.things, strict=True)
    )


@settings(deadline=None, max_examples=15)
@given(SCENES, st.integers(0, 3), st.sampled_from([96, 160]))
def test_the_attribute_shows_on_the_foreground_person_alone(scene: Scene, seed: int, size: int) -> None:
    """Not in any outline, and in no pixel outside of the person's: what segment masking hides is all there is."""
    one, other = (draw(replace(scene, attribute=attribute), seed=seed, size=size) for attribute in CLASSES)
    assert same(one._replace(pixels=other.pixels), other)
    person = one.things[0].mask
    assert np.array_equal(one.pixels[~person], other.pixels[~person])
    assert (one.pixels[person] != other.pixels[person]).any(axis=1).mean() > 0.4


def test_tasks_remain_visible_when_people_are_hidden() -> None:
    """In every setting, with every task; the foreground person is the largest; there are one to three people."""
    numbers = set()
    for number, (setting, task) in enumerate(product(SETTINGS, TASKS)):
        things = draw(Scene(str(number), CLASSES[number % 2], setting, task), seed=5).things
        assert [thing.label for thing in things] == [PERSON, task, *[PERSON] * (len(things) - 2)]
        people = [thing.mask for thing in things if thing.label == PERSON]
        numbers.add(len(people))
        assert people[0].sum() > max(1000, *(1.1 * mask.sum() for mask in people[1:]), 0)
        assert (things[1].mask & ~np.any(people, axis=0)).sum() > 120
    assert numbers == {1, 2, 3}


def test_files_are_the_drawings(tmp_path: Path) -> None:
    """On all cores, in the order of the scenes."""
    scenes = [Scene(str(n), CLASSES[n % 2], SETTINGS[n % 8], TASKS[n % 12]) for n in range(1, 13)]
    told: list[tuple[str, int, int]] = []
    write_images(scenes, tmp_path, seed=4, progress=lambda *args: told.append(args))
    assert told == [("drawing images", done, 12) for done in range(1, 13)]
    with contextlib.redirect_stdout(io.StringIO()):
        coco = COCO(str(tmp_path / "instances.json"))
    assert [category["name"] for category in coco.cats.values()] == list(CATEGORIES)
    images = [f"images/{image['file_name']}" for image in coco.imgs.values()]
    assert sorted(tree(tmp_path)) == ["contact_sheet.png", *sorted(images), "instances.json"]
    for scene in scenes:
        drawing, image = draw(scene, seed=4), coco.imgs[int(scene.image_id)]
        assert image["file_name"] == f"{int(scene.image_id):012d}.png"
        pixels = cv2.imread(str(tmp_path / "images" / image["file_name"]))
        assert pixels is not None
        np.testing.assert_array_equal(pixels[..., ::-1], drawing.pixels)
        assert pixels.shape[:2] == (image["height"], image["width"])
        for place, (thing, annotation) in enumerate(zip(drawing.things, coco.imgToAnns[image["id"]], strict=True)):
            np.testing.assert_array_equal(coco.annToMask(annotation), thing.mask)
            assert coco.cats[annotation["category_id"]]["name"] == thing.label
            assert annotation["area"] == thing.mask.sum()
            assert annotation["bbox"] == list(cv2.boundingRect(thing.mask.astype(np.uint8)))
            assert (annotation["iscrowd"], annotation["foreground"]) == (0, int(place == 0))
