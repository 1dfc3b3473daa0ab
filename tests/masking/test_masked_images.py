"""What judges see, and statistics of masks, which decide whether a run goes on."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from detector_samples import FakeDetector
from helpers import run_of
from PIL import Image

from judge.commands.evaluate import RunConfig
from judge.commands.images import RunImages
from judge.config import make_config
from judge.errors import JudgeError
from judge.masking.detectors.ground_truth import GroundTruth
from judge.masking.images import encode
from judge.masking.instances import BoolMask, Instance, box_mask, from_mask, visible_boxes
from judge.masking.masked_images import MaskedImages, find_hidden, hides_people, make_thumbnails
from judge.masking.measured import count, describe_masks, hide_nobody, pool
from judge.masking.people import Hiding
from judge.metrics import METRICS
from judge.statistics.summary import Summary
from judge.statistics.validity import void_rows

SIZE = (20, 40)
NAMES = {"1": "one.png", "2": "two.png"}
NOTHING = np.zeros(SIZE, dtype=np.bool_)


def thing(top: int, bottom: int, left: int, right: int, label: str = "dog") -> Instance:
    return from_mask(box_mask((left, top, right - left, bottom - top), SIZE), label)


def block(top: int, bottom: int, left: int, right: int) -> BoolMask:
    return thing(top, bottom, left, right).mask


PERSON, DOG, TIE = thing(5, 20, 10, 20, "person"), thing(10, 18, 25, 35), thing(6, 12, 12, 16, "tie")


def drawn(number: int) -> np.ndarray:
    return np.random.default_rng(number).integers(1, 256, (*SIZE, 3), dtype=np.uint8)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for image, name in NAMES.items():
        (tmp_path / name).write_bytes(encode(drawn(int(image))))
    return tmp_path


def seen(folder: Path, *instances: Instance, plain: bool = False, **how: Any) -> MaskedImages:
    hiding = None if plain else Hiding(**how)
    return MaskedImages(folder, NAMES, hiding, dict.fromkeys(NAMES.values(), instances))


def test_the_key_changes_with_the_pixels_alone(folder: Path) -> None:
    plain = seen(folder, plain=True)
    ways = [plain, seen(folder, PERSON), seen(folder, PERSON, replace(DOG, label="person"))]
    more: list[dict[str, Any]] = [{"dilation": 2}, {"mode": "partial"}, {"mode": "partial", "share": 0.25}]
    more += [{"fill": "mean"}, {"labels": (), "background": True}]
    ways += [seen(folder, PERSON, **how) for how in more]
    assert len({way.read("1").tobytes() for way in ways}) == len(ways)
    assert len({way.key("1") for way in ways}) == len(ways)
    # Where nothing is known, all is background.
    black = seen(folder, labels=(), background=True)
    assert not black.read("1").any()
    assert black.key("1") not in {way.key("1") for way in ways}
    # What changes no pixel changes no key, or features would be computed again.
    more = [{"threshold": 0.6}, {"share": 0.25}, {"foreground": "largest"}, {"labels": ("person", "cat")}]
    same = [seen(folder, replace(PERSON, score=0.7), DOG), *(seen(folder, PERSON, **how) for how in more)]
    assert {one.key("1") for one in same} == {seen(folder, PERSON).key("1")}
    nothing = [seen(folder), seen(folder, DOG), seen(folder, replace(PERSON, score=0.7), threshold=0.8)]
    assert {one.key("1") for one in nothing} == {plain.key("1")}
    assert {one.read("1").tobytes() for one in nothing} == {drawn(1).tobytes()}


def test_people_are_detected_once_per_image(folder: Path) -> None:
    """Two image ids may share a file."""
    detector = FakeDetector(lambda image: (PERSON, DOG) if image.name == "one.png" else ())
    done: list[int] = []
    names = NAMES | {"3": "one.png"}
    images = find_hidden(
        folder, names, detector=detector, hiding=Hiding(), progress=lambda _, count, total: done.append(count)
    )
    assert images.hidden == {"one.png": (PERSON,), "two.png": ()}
    assert (detector.called, done) == (["one.png", "two.png"], [1, 2])
    assert (images.read("1") == 0).all(axis=2).tolist() == PERSON.mask.tolist()
    # The checksum taken while detecting gives the key that reading the file again gives.
    assert images.key("3") == images.key("1") == replace(images, checksums={}).key("1")
    assert images.boxes("1") == ()
    with pytest.raises(JudgeError, match="no file of image '5'"):
        images.read("5")
    (folder / "one.png").unlink()
    for read in (images.read, replace(images, checksums={}).key):
        with pytest.raises(JudgeError, match=r"one\.png: no such image"):
            read("1")


def test_boxes_of_visible_parts() -> None:
    """A thing counts if half of it is visible; its box, in shares of the image, is that of the visible part."""
    assert visible_boxes([thing(5, 10, 4, 20), thing(0, 20, 0, 40)], NOTHING) == ((0, 0, 1, 1), (0.1, 0.25, 0.5, 0.5))
    dog = thing(0, 10, 10, 20)
    assert visible_boxes([dog], block(0, 20, 0, 14)) == ((14 / 40, 0.0, 0.5, 0.5),)
    assert visible_boxes([dog], block(0, 20, 0, 15)) == ((15 / 40, 0.0, 0.5, 0.5),)
    assert visible_boxes([dog], block(0, 20, 0, 16)) == ()
    assert visible_boxes([dog], block(3, 6, 12, 16)) == ((0.25, 0.0, 0.5, 0.5),)


def test_boxes_beside_what_is_hidden(folder: Path) -> None:
    """A tie on a hidden person has no box; where nothing is hidden, everything has one."""
    detector = FakeDetector(lambda image: (PERSON, DOG, TIE))
    assert find_hidden(folder, NAMES, detector=detector, hiding=Hiding(), regions=True).boxes("1") == (
        (25 / 40, 0.5, 35 / 40, 0.9),
    )
    plain = find_hidden(folder, NAMES, detector=detector, hiding=None, regions=True)
    assert len(plain.boxes("2")) == 3
    assert np.array_equal(plain.read("2"), drawn(2))


def test_thumbnails_show_nobody_who_was_not_detected(folder: Path) -> None:
    images = replace(seen(folder), hidden={"one.png": (PERSON,), "two.png": (DOG,)}, hiding=Hiding(("person", "dog")))
    assert [*make_thumbnails(images, ["1", "2", "elsewhere"])] == ["1"]
    assert [*make_thumbnails(replace(images, hiding=None, hidden={}), "12")] == ["1", "2"]


def test_whether_people_are_hidden_whole(folder: Path) -> None:
    whole = [Hiding(), Hiding(("person", "dog"), mode="box")]
    others = [None, Hiding(("dog",)), Hiding(mode="partial"), Hiding(foreground="largest")]
    found = [hides_people(replace(seen(folder), hiding=hiding)) for hiding in (*whole, *others)]
    assert found == [True, True, False, False, False, False]


def world(folder: Path, boxes: list[list[int] | None], name: str = "i.json") -> Path:
    """Images of 10 x 10; in each a person in a box, or nobody."""
    (folder / "images").mkdir(exist_ok=True)
    for n in range(len(boxes)):
        Image.fromarray(np.full((10, 10, 3), 9, dtype=np.uint8)).save(folder / "images" / f"{n}.png")
    value = {
        "images": [{"id": n, "file_name": f"{n}.png", "width": 10, "height": 10} for n in range(len(boxes))],
        "annotations": [{"id": n, "image_id": n, "category_id": 1, "bbox": box} for n, box in enumerate(boxes) if box],
        "categories": [{"id": 1, "name": "person"}],
    }
    (folder / name).write_text(json.dumps(value), encoding="utf-8")
    return folder / name


def test_shares_recall_and_precision(tmp_path: Path) -> None:
    """20 of 40 pixels of people are found, and 10 of nobody: recall 1/2, precision 2/3; 30 of 400 pixels are hidden."""
    truth = GroundTruth.read(world(tmp_path, [[0, 0, 10, 2], [0, 0, 10, 2], None, None], "truth.json"))
    found = GroundTruth.read(world(tmp_path, [[0, 0, 10, 2], None, [0, 0, 10, 1], None]))
    names = {str(n): f"{n}.png" for n in range(4)}
    images = find_hidden(tmp_path / "images", names, detector=found, hiding=Hiding(), truth=truth)
    assert images.masks == {
        "of": 4, "images": 0.5, "people": 0.5, "pixels": pytest.approx(0.075), "corners": 0.0, "recall": 0.5,
        "precision": pytest.approx(2 / 3),
    }  # fmt: skip
    text = "Masks hide people in 50.0% of 4 images, and 7.5% of the pixels; pixels against ground truth: recall 50.0%"
    assert describe_masks(images.masks) == f"{text}, precision 66.7%."


def test_masks_that_hide_the_background_are_told_or_refused(tmp_path: Path) -> None:
    """Inverted, in every mode; whole images; half of an image in most images; nothing of it where people hide least."""
    outside = ~block(5, 15, 10, 30)
    names = {str(n): f"{n}.png" for n in range(4)}
    for name in names.values():
        (tmp_path / name).write_bytes(encode(drawn(0)))

    def told(masks: list[BoolMask], **how: Any) -> tuple[str, str]:
        detector = FakeDetector(lambda image: (from_mask(masks[int(image.name[0])], "person"),))
        found = find_hidden(tmp_path, names, detector=detector, hiding=Hiding(**how))
        assert found.masks is not None
        return hide_nobody(found.masks), " ".join(found.doubts)

    whole, part, large = ~NOTHING, block(5, 15, 10, 30), block(0, 12, 0, 40)
    four = "masks cover all four corners, so probably the background, in 75.0% of 4 images"
    for mode in ("segment", "partial", "box"):
        assert told([outside, outside, outside, part], mode=mode)[0] == four
    assert told([whole] * 4)[0] == "masks hide 100.0% of the pixels of 4 images"
    assert told([outside, outside, part, part])[1].startswith(
        "masks hide half of the pixels or all four corners in 2 of 4"
    )
    assert told([large, large, part, part])[0] == ""
    assert told([large, large, part, part])[1]
    # People who cover most of one image, and the background of many.
    assert told([large, part, part, part]) == ("", "")
    assert told([part] * 4, labels=(), background=True) == ("", "")


MASKS = {"of": 100, "images": 1.0, "people": 1.0, "pixels": 0.1, "corners": 0.0, "recall": None, "precision": None}


@pytest.mark.parametrize(("changes", "reason"), [
    ({"people": 0.05}, ""),
    ({"people": 0.04}, "masks hide somebody in 4.0% of 100 images"),
    # If most images show nobody, a good detector hides little.
    ({"people": 0.04, "recall": 0.9, "precision": 0.9}, ""),
    ({"recall": 0.049, "precision": 0.9}, "masks find 4.9% of the pixels of people"),
    ({"people": None, "images": 0.0}, ""),
    ({"people": None, "pixels": 0.99, "corners": 1.0}, ""),
    ({"pixels": 0.96, "recall": 0.9, "precision": 0.1}, "masks hide 96.0% of the pixels of 100 images"),
    ({"corners": 0.51}, "masks cover all four corners, so probably the background, in 51.0% of 100 images"),
    ({"corners": 0.5}, ""),
])  # fmt: skip
def test_masks_that_hide_nobody_void_metrics_of_images(changes: dict[str, Any], reason: str) -> None:
    masks = MASKS | changes
    assert hide_nobody(masks) == reason
    run = run_of({"c": {"f": 9, "m": 9}}, masks=masks)
    rows = [Summary("c", METRICS[name], "sat", 0.9, 0.9, 0.1, human_error=0.01) for name in ("lic", "imagecaptioner2")]
    assert [finding.text for finding in void_rows(rows, run).values()] == [reason] * bool(reason)


def test_a_run_is_refused_before_judges_are_trained(tmp_path: Path) -> None:
    world(tmp_path, [None] * 30 + [[0, 0, 5, 5]])
    settings = {"human": "-", "images": tmp_path / "images", "instances": tmp_path / "i.json"}
    images = [str(n) for n in range(31)]
    with pytest.raises(JudgeError, match=r"masks hide somebody in 3\.2% of 31 images"):
        RunImages(make_config(settings, RunConfig)).hidden(images)
    allowed = RunImages(make_config(settings | {"allow_unmasked": True}, RunConfig))
    allowed.hidden(images)
    assert allowed.masks["masks"]["people"] == pytest.approx(1 / 31)


def test_overlap_by_hand() -> None:
    """A person of 100 pixels, found as 10 x 8 of it and 2 x 8 beside: 80 found, 20 missed, 16 beside."""
    found = [from_mask(box_mask((0, 0, 12, 8), (20, 20)), "person", score=0.9)]
    counts = count([from_mask(box_mask((0, 0, 10, 10), (20, 20)), "person")], found, Hiding().region(found, (20, 20)))
    assert counts == [100, 96, 80, 20, 96]
    assert pool(np.array(counts, dtype=float)) == pytest.approx((0.8, 80 / 116, 0.2, 16 / 96))
    # A triangle found exactly: its upper half leaves half visible, its box hides much beside.
    truth = [from_mask(np.tri(20, dtype=np.bool_), "person")]
    for hiding, expected in ((Hiding(mode="partial"), (0.5, 0)), (Hiding(mode="box"), (0, 190 / 400))):
        counts = count(truth, truth, hiding.region(truth, (20, 20)))
        assert tuple(pool(np.array(counts, float))[2:]) == expected
