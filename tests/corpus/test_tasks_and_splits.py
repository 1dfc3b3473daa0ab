"""Tasks of images, and images in training and test: every shape of file, splits, balance, determinism."""

from __future__ import annotations

import json
from collections import Counter
from functools import partial
from pathlib import Path

import helpers
import pandas as pd
import pytest
from helpers import Write, fault_of, table_bytes
from hypothesis import given, settings
from hypothesis import strategies as st

from judge.corpus.splits import make_splits
from judge.corpus.tasks import Tasks, derive_tasks, read_tasks, usable

fault = partial(helpers.fault, read=read_tasks)
DOG, CAT, NONE = frozenset({"dog"}), frozenset({"cat"}), frozenset[str]()
INSTANCES = {
    "images": [{"id": number, "file_name": f"{number}.jpg"} for number in (1, 2, 3)],
    "annotations": [{"image_id": image, "category_id": of} for image, of in ((1, 18), (1, 18), (1, 7), (2, 7))],
    "categories": [{"id": 7, "name": "cat"}, {"id": 18, "name": "Dog"}, {"id": 3, "name": "zebra"}],
}


def shown(tasks: Tasks) -> dict[str, set[str]]:
    return {image: {*tasks.shown(image)} for image in tasks.by_image}


def test_coco_instances(write: Write) -> None:
    tasks = read_tasks(write(INSTANCES))
    assert tasks.names == ("cat", "dog", "zebra")
    assert tasks.by_image == {"1": (0, 1), "2": (0,), "3": ()}  # the third has no annotation: it shows nothing
    cut = {**INSTANCES, "images": INSTANCES["images"][:1]}
    tasks = read_tasks(write(cut))
    assert tasks.by_image == {"1": (0, 1)}
    assert tasks.ignored == {"annotation of an image that is not listed": 1}
    bare = {key: INSTANCES[key] for key in ("annotations", "categories")}
    assert read_tasks(write(bare)).by_image == {"1": (0, 1), "2": (0,)}


@pytest.mark.parametrize(
    "content",
    [
        "image_id,objects\n1,dog;Cat\n2,cat\n3,\n",
        'image_id,objects\n1,"[\'dog\', \'cat\']"\n2,"[""cat""]"\n3,[]\n',
        "image,object\n1.jpg,dog\n1.jpg,cat\n2.jpg,cat\n2.jpg,cat\n3.jpg,\n",
        [{"img_id": 1, "objects": ["dog", "cat"]}, {"img_id": 2, "objects": ["cat"]}, {"img_id": 3, "objects": None}],
        "\n".join(json.dumps({"image_id": i, "tasks": t}) for i, t in ((1, ["cat", "dog"]), (2, "cat"), (3, []))),
        {"1": ["dog", "cat"], "2": ["cat"], "3": []},
        table_bytes(pd.DataFrame({"image_id": [1, 2, 3], "objects": [["dog", "cat"], ["cat"], []]}), "parquet"),
    ],
    ids=["csv", "lists", "rows", "json", "json lines", "mapping", "parquet"],
)
def test_every_format(write: Write, content: object) -> None:
    assert shown(read_tasks(write(content))) == {"1": {"cat", "dog"}, "2": {"cat"}, "3": set()}


def test_shared_objects(coco: Path) -> None:
    tasks = read_tasks(coco / "objects.json")
    raw = json.loads((coco / "objects.json").read_text("utf-8"))
    assert len(tasks.names) == 79
    assert shown(tasks) == {image: {raw["categories"][index] for index in of} for image, of in raw["objects"].items()}


def lists(objects: dict[str, object], *names: str) -> dict[str, object]:
    return {"categories": list(names), "objects": objects}


@pytest.mark.parametrize(("content", "expected"), [
    (lists({"1": [1]}, "a"), "record 1 ('1'): index 1 of 1 categories. Give whole numbers, counted from 0."),
    (lists({"1": ["a"]}, "a"), "record 1 ('1'): index is a text. Give whole numbers, counted"),
    (lists({"1": 0}, "a"), "record 1 ('1'): objects are a number. Give a list of indices."),
    (lists({"1": [0]}, "a", "A"), "categories, record 2: category 'a' occurs twice. Give each a name of its own."),
    (lists({"1": []}, "a"), "none of 1 images shows anything. Check the file."),
    (lists({}), "'categories' is no list, or 'objects' no object. "),
    (
        {**INSTANCES, "annotations": [{"image_id": 1, "category_id": 99}]},
        "annotations, record 1: category_id 99 is no category. Give the id of one of 'categories'.",
    ),
    (
        {**INSTANCES, "annotations": [{"category_id": 7}]},
        "annotations, record 1: image id is missing. Give the record a number or a file name.",
    ),
    (
        {**INSTANCES, "categories": [{"id": 7, "name": "cat"}, {"id": 7, "name": "dog"}]},
        "categories, record 2: category id is a number, or occurs twice. ",
    ),
    ({"1": 3}, "JSON of the wrong shape (an object). "),
    ([{"image_id": 1, "objects": [3]}], "record 1: an object is a number. Write its name."),
    ("image_id,objects\n,dog\n", "record 1: image id is empty. "),
    ("image_id,objects\n1,[dog\n", "record 1: looks like a list of objects but is none. "),
])  # fmt: skip
def test_bad_files(write: Write, content: object, expected: str) -> None:
    assert fault(write(content)).startswith(expected)


def test_one_caption_is_enough() -> None:
    said = {str(count): [DOG] * count + [NONE] * (5 - count) for count in range(6)}
    tasks = derive_tasks(said, names=["dog"])
    assert tasks.by_image == {image: (0,) if int(image) else () for image in said}
    assert tasks.ignored == {"no task named": 1}


FOUR = Tasks(("a", "b", "c", "d"), {"1": (0, 1), "2": (0,), "3": (0, 2), "9": (3,)}, "objects.json")


def test_only() -> None:
    some = FOUR.only(["d", "b"])
    assert (some.names, some.by_image) == (("b", "d"), {"1": (0,), "2": (), "3": (), "9": (1,)})
    assert "no task 'e'" in fault_of(FOUR.only, ["e"])


def test_what_can_be_guessed() -> None:
    """Among 1, 2, 3: "a" is always there, "d" never; 7 is unknown, 9 not asked for."""
    left, dropped = usable(FOUR, ["1", "2", "3", "7"])
    assert (left.names, left.by_image) == (("b", "c"), {"1": (0,), "2": (), "3": (1,)})
    assert dropped == {"tasks never present": ("d",), "tasks always present": ("a",), "without tasks": ("7",)}
    whole, dropped = usable(FOUR, ["1", "3", "9"])
    assert (whole.names, dropped) == (FOUR.names, {})
    assert fault_of(usable, FOUR, ["7"]) == (
        "objects.json: no image in common (captions '7', objects '1'). Check that image ids mean the same in all files."
    )
    assert "none of 4 tasks is present in some of 1 images and absent in others" in fault_of(usable, FOUR, ["2"])


classes = st.lists(st.integers(10, 60), min_size=2, max_size=4).map(
    lambda sizes: {f"{k}-{i}": f"class{k}" for k, size in enumerate(sizes) for i in range(size)}
)


@given(classes, st.integers(0, 1000), st.sampled_from(["paper", "crossfit"]))
@settings(max_examples=25, deadline=None)
def test_no_image_is_on_both_sides_and_weights_balance(images: dict[str, str], seed: int, protocol: str) -> None:
    splits = make_splits(protocol, images, seed=seed)
    for split in splits:
        parts = [set(split.train), set(split.test), set(split.validation)]
        assert sum(map(len, parts)) == len(set.union(*parts))
        assert set.union(*parts) <= images.keys()
        assert {images[image] for image in split.test} == set(images.values())
        counts = Counter(images[image] for image in split.train)
        weights = {name: counts[name] * split.weights[name] for name in counts}
        assert sum(weights.values()) == pytest.approx(len(split.train))
        assert max(weights.values()) == pytest.approx(min(weights.values()))
    if protocol == "crossfit":
        assert Counter(image for split in splits for image in split.test) == Counter(dict.fromkeys(images, 1))


@given(classes, st.integers(0, 1000))
@settings(max_examples=25, deadline=None)
def test_imagecaptioner2_learns_from_70_chooses_by_10_scores_20_percent(images: dict[str, str], seed: int) -> None:
    (split,) = make_splits("paper", images, seed=seed, holdout=(0.2, 0.1))
    smallest = min(Counter(images.values()).values())
    scored, chosen = max(1, round(0.2 * smallest)), round(0.1 * smallest)
    for part, size in ((split.test, scored), (split.validation, chosen), (split.train, smallest - scored - chosen)):
        assert Counter(images[image] for image in part) == Counter(dict.fromkeys(images.values(), size))
    assert len({*split.train, *split.validation, *split.test}) == smallest * len(set(images.values()))


def test_sizes_of_the_papers_splits() -> None:
    """COCO's 10,780 images with a gender: 3,314 women, as LIC has 6,628 in equal classes, so 7,466 men.

    DBAC and DPAC: "80-20 data split, resulting in 8624 training and 2156 test images". LIC: 90/10 of equal classes.
    """
    images = {f"{i}": "female" if i < 3314 else "male" for i in range(10_780)}
    (whole,) = make_splits("paper", images, seed=0, holdout=(0.2, 0.0), balanced=False)
    assert (len(whole.train), len(whole.test), whole.validation) == (8624, 2156, ())
    assert Counter(images[image] for image in whole.test) == {"female": 663, "male": 1493}  # A fifth of each.
    assert set(whole.weights.values()) == {1.0}
    (own,) = make_splits("paper", images, seed=0)
    assert Counter(images[image] for image in own.train) == {"female": 2983, "male": 2983}
    assert Counter(images[image] for image in own.test) == {"female": 331, "male": 331}
    folds = make_splits("crossfit", images, seed=0, folds=5, balanced=False)
    assert {len(fold.test) for fold in folds} == {2156}
    assert {weight for fold in folds for weight in fold.weights.values()} == {1.0}


@given(classes, st.integers(0, 1000))
@settings(max_examples=8, deadline=None)
def test_folds_leave_an_eighth_of_what_is_not_scored_to_choose(images: dict[str, str], seed: int) -> None:
    """10 of the 80 percent that the paper does not score; every class among them, and none of it in training."""
    splits = make_splits("crossfit", images, seed=seed, folds=5, holdout=(0.2, 0.1))
    for split in splits:
        train, chosen, scored = set(split.train), set(split.validation), set(split.test)
        assert (train | chosen | scored) == images.keys()
        assert len(train) + len(chosen) + len(scored) == len(images)
        assert len(chosen) == pytest.approx((len(images) - len(scored)) / 8, abs=max(1, len(set(images.values()))))
        assert {images[image] for image in chosen} == set(images.values())
    assert make_splits("crossfit", dict(reversed(images.items())), seed=seed, folds=5, holdout=(0.2, 0.1)) == splits
    # Folds choose apart from each other (of few images two may agree by chance), and a metric without validation
    # learns from all.
    assert len({split.validation for split in splits}) == len(splits) or min(Counter(images.values()).values()) < 40
    assert not any(split.validation for split in make_splits("crossfit", images, seed=seed, folds=5))
