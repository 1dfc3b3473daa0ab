"""Annotation files that contradict themselves, masks of other tools, several files: hidden, refused or reported."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import judge
from PIL import Image

from judge.masking.detectors.labels import read_labels
from judge.masking.images import read_image
from judge.masking.instances import box_mask

Record = dict[str, Any]
HEIGHT, WIDTH = 60, 80
# Two people, red on grey, in COCO's x, y, width, height; 600 pixels each.
BOXES = {1: (10, 20, 20, 30), 2: (50, 10, 20, 30)}


def polygon(x: float, y: float, width: float, height: float) -> list[float]:
    return [x, y, x + width, y, x + width, y + height, x, y + height]


def document() -> Record:
    annotations = [
        {"id": n, "image_id": n, "category_id": 1, "iscrowd": 0, "area": 600, "bbox": [*box]}
        | {"segmentation": [polygon(*box)]}
        for n, box in BOXES.items()
    ]
    images = [{"id": n, "file_name": f"{n:012d}.png", "width": WIDTH, "height": HEIGHT} for n in BOXES]
    categories = [{"id": 1, "name": "person"}, {"id": 2, "name": "dog"}, {"id": 3, "name": "man"}]
    return {"images": images, "annotations": annotations, "categories": categories}


@pytest.fixture
def images(tmp_path: Path) -> Path:
    """Below a folder of the folder, as COCO's are."""
    (tmp_path / "images" / "val").mkdir(parents=True)
    for n, box in BOXES.items():
        pixels = np.where(box_mask(box, (HEIGHT, WIDTH))[..., None], np.uint8([200, 20, 20]), np.uint8([90, 90, 90]))
        Image.fromarray(pixels).save(tmp_path / "images" / "val" / f"{n:012d}.png")
    return tmp_path / "images"


def masked(images: Path, instances: object, *options: object) -> tuple[int, list[int], str]:
    """Exit code, red pixels that stay visible in each masked image, and what is printed."""
    out = images.parent / "out"
    done = judge("mask", "--images", images, "--instances", instances, "--out", out, "--overwrite", *options)
    pixels = [read_image(out, path.relative_to(out).as_posix()).pixels for path in sorted(out.rglob("0*.png"))]
    return done.exit_code, [int((one[..., 0] > one[..., 1]).sum()) for one in pixels], done.output


def write(path: Path, value: object) -> Path:
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


def each(**changes: Any) -> Callable[[Record], None]:
    """Changes of every annotation; a function is called with its box."""

    def change(value: Record) -> None:
        for one in value["annotations"]:
            one |= {name: new(one["bbox"]) if callable(new) else new for name, new in changes.items()}

    return change


def first(**changes: Any) -> Callable[[Record], None]:
    return lambda value: value["annotations"][0].update(changes)


HIDDEN: dict[str, tuple[Callable[[Record], None], list[int], str]] = {
    "id as text": (first(image_id="1"), [0, 0], ""),
    "file name as id": (first(image_id="000000000001.jpg"), [0, 0], ""),
    "category as text": (each(category_id="1"), [0, 0], ""),
    "a man": (first(category_id=3), [600, 0], "NOTE: 'man' of "),
    "no listed image": (first(image_id=77), [600, 0], "1 annotations of "),
    "ids of other files": (
        lambda value: [one.update(id=3 - one["id"]) for one in value["images"]] and [
            one.update(image_id=3 - one["image_id"]) for one in value["annotations"]],
        [0, 0], "'000000000001.png' has the id 2, and 1 is the id of '000000000002.png'",
    ),
    "area": (each(area=0), [0, 0], "2 of the annotations have an area that differs"),
    "box of the mask": (
        each(bbox=lambda box: [box[0] - 8, 0, 28, 60]), [0, 0], "2 of the annotations have a bbox that is not the box",
    ),
    "windows path": (
        lambda value: value["images"][0].update(file_name="D:\\photos\\000000000001.png"), [0, 0], "",
    ),
    "no sizes": (lambda value: [one.pop(key) for one in value["images"] for key in ("width", "height")], [0, 0], ""),
}  # fmt: skip


@pytest.mark.parametrize(("change", "visible", "note"), HIDDEN.values(), ids=HIDDEN)
def test_what_is_hidden_or_reported(
    images: Path, change: Callable[[Record], None], visible: list[int], note: str
) -> None:
    value = document()
    change(value)
    code, left, printed = masked(images, write(images.parent / "i.json", value))
    assert (code, left) == (0, visible), printed
    assert note in printed
    assert bool(note) == ("NOTE" in printed)


def test_what_would_stay_visible_is_refused(images: Path) -> None:
    """An empty mask costs its image; masks that hide nobody in any image cost the command, unless that is allowed."""
    value = document()
    first(segmentation=[], bbox=[0, 0, 0, 0])(value)
    path = images.parent / "i.json"
    code, left, printed = masked(images, write(path, value))
    assert (code, left) == (1, [0])
    assert "hides nothing: its mask is empty" in printed
    code, _, printed = masked(images, write(path, value | {"annotations": []}))
    assert code == 2
    assert "masks hide somebody in 0.0% of 2 images. Give other weights or instances" in printed
    assert masked(images, path, "--allow-unmasked")[:2] == (0, [600, 600])


def test_people_by_other_names(images: Path) -> None:
    """OpenImages has Person, Man and Woman; where "person" stands beside them they are named."""
    value = document()
    first(category_id=3)(value)
    path = write(images.parent / "i.json", value)
    assert masked(images, path, "--person-category", "man")[:2] == (0, [0, 0])
    assert "no category 'mna'. Did you mean 'man'?" in masked(images, path, "--person-category", "mna")[2]
    value["categories"] = [{"id": 1, "name": "Person"}, {"id": 3, "name": "Human body"}, {"id": 2, "name": "Dog"}]
    code, left, printed = masked(images, write(path, value))
    assert (code, left) == (0, [0, 0])
    assert "hidden as people: Human body, Person." in printed


def test_images_that_exif_turns(images: Path) -> None:
    """They are masked upright, and counted."""
    for n, orientation, back in [(1, 3, Image.Transpose.ROTATE_180), (2, 6, Image.Transpose.ROTATE_90)]:
        exif = Image.Exif()
        exif[0x0112] = orientation
        path = images / "val" / f"{n:012d}.png"
        Image.open(path).transpose(back).save(path, exif=exif)
    path = write(images.parent / "i.json", document())
    code, left, printed = masked(images, path)
    assert (code, left) == (0, [0, 0])
    assert "NOTE: 2 images: their EXIF orientation turned or mirrored them" in printed


def test_masks_of_other_tools(images: Path) -> None:
    """COCO results, PNG masks and YOLO labels give the masks that COCO instances give."""
    results = [
        {"image_id": one["image_id"], "category_id": 1, "segmentation": one["segmentation"], "score": 0.9}
        for one in document()["annotations"]
    ]
    path = write(images.parent / "results.json", results)
    assert masked(images, path)[:2] == (0, [0, 0])
    assert masked(images, write(path, [results[0], results[1] | {"score": 0.4}]))[:2] == (0, [0, 600])
    code, left, printed = masked(images, write(path, results[:1]))
    assert (code, left) == (0, [0, 600])
    assert "1 of 2 images have no record in " in printed
    masks = images.parent / "masks" / "val"
    masks.mkdir(parents=True)
    for n, box in BOXES.items():
        values = box_mask(box, (HEIGHT, WIDTH)).astype(np.uint16) * n  # Numbers of instances, as 16 bits hold them.
        Image.fromarray(values if n == 1 else values.astype(np.uint8)).save(masks / f"{n:012d}.png")
    assert masked(images, masks.parent)[:2] == (0, [0, 0])
    lines = spelled(1, *shares_of(BOXES[1])), spelled(1, *corners_of(BOXES[2]), 0.8)
    labels = label_files(images.parent / "labels", *lines)
    (labels / "classes.txt").unlink()
    assert "its classes have no names" in masked(images, labels)[2]
    names = images.parent / "data.yaml"
    names.write_text("names:\n  0: dog\n  1: pedestrian\n")
    assert masked(images, labels, "--class-names", names)[:2] == (0, [0, 0])
    (labels / "000000000001.txt").write_text("1 0.5 0.5\n")
    assert "000000000001.txt, line 1: is no YOLO label" in masked(images, labels, "--class-names", names)[2]


def label_files(folder: Path, *lines: str) -> Path:
    folder.mkdir()
    (folder / "classes.txt").write_text("person\ndog\n")
    for n, line in enumerate(lines, start=1):
        (folder / f"{n:012d}.txt").write_text(line)
    return folder


def spelled(*numbers: object) -> str:
    return " ".join(map(str, numbers)) + "\n"


def shares_of(box: tuple[int, int, int, int]) -> list[float]:
    """YOLO's x and y of the centre, width and height."""
    x, y, width, height = box
    return [(x + width / 2) / WIDTH, (y + height / 2) / HEIGHT, width / WIDTH, height / HEIGHT]


def corners_of(box: tuple[int, int, int, int]) -> list[float]:
    return [share / side for share, side in zip(polygon(*box), [WIDTH, HEIGHT] * 4, strict=True)]


def keypoints(box: tuple[int, int, int, int], each: int, *, absent: int = 0) -> list[float]:
    """17 keypoints as COCO has them, from the nose down, those of the left before those of the right; with two or three
    numbers each; the last ones are not visible."""
    x, y, width, height = shares_of(box)
    rows = [0.05, *[0.03] * 2, *[0.05] * 2, *[0.2] * 2, *[0.35] * 2, *[0.5] * 2, *[0.5] * 2, *[0.7] * 2, *[0.9] * 2]
    columns = [0.0, *[side * reach for reach in (0.05, 0.1, 0.25, 0.35, 0.3, 0.15, 0.15, 0.15) for side in (-1, 1)]]
    points = [(x + width * column, y + height * (row - 0.5), 0.9) for row, column in zip(rows, columns, strict=True)]
    points[17 - absent :] = [(0.0, 0.0, 0.0)] * absent
    return [number for point in points for number in point[:each]]


BOX_SHARES = {n: shares_of(box) for n, box in BOXES.items()}
TWO = "2 of the annotations are read as boxes with keypoints, or with the number of a track"
# Other people in the corner of an image, so that lines differ: 4 x 4 pixels.
SMALL = (2, 2, 4, 4)
SOUND_LABELS: dict[str, tuple[Callable[[int], list[str]], str]] = {
    "boxes": (lambda n: [spelled(0, *BOX_SHARES[n])], ""),
    "scores": (lambda n: [spelled(0, *BOX_SHARES[n], 1.0000001)], ""),
    "empty lines": (lambda n: ["\n", spelled(0, *BOX_SHARES[n]), "  \n", spelled(0, *shares_of(SMALL))], ""),
    "a box under one pixel": (lambda n: [spelled(0, *BOX_SHARES[n]), spelled(0, 0.005, 0.006, 0.003, 0.003)], ""),
    "numbers of tracks": (lambda n: [spelled(0, *BOX_SHARES[n], 6 * n - 5)], ""),
    "scores and tracks": (lambda n: [spelled(0, *BOX_SHARES[n], 0.91, n)], TWO),
    "some tracks lost": (
        lambda n: [spelled(0, *BOX_SHARES[n], 0.91, 3) if n == 1 else spelled(0, *BOX_SHARES[n], 0.91)],
        f"1{TWO[1:]}",
    ),
    "poses": (lambda n: [spelled(0, *BOX_SHARES[n], *keypoints(BOXES[n], 2))], TWO),
    "poses, visibility": (lambda n: [spelled(0, *BOX_SHARES[n], *keypoints(BOXES[n], 3))], TWO),
    "poses, scores, tracks": (
        lambda n: [spelled(0, *BOX_SHARES[n], *keypoints(BOXES[n], 3), 0.9, n)], TWO,
    ),
    "poses, some points absent": (
        lambda n: [spelled(0, *BOX_SHARES[n], *keypoints(BOXES[n], 3, absent=17 if n == 1 else 4))], TWO,
    ),
    "poses, one off its box": (
        lambda n: [spelled(0, *BOX_SHARES[n], *keypoints(BOXES[3 - n if n == 1 else n], 2))], TWO,
    ),
    "polygons": (lambda n: [spelled(0, *corners_of(BOXES[n]))], ""),
    "polygons, scores, tracks": (lambda n: [spelled(0, *corners_of(BOXES[n]), 0.8, n)], ""),
    "polygons and a triangle at the border": (
        lambda n: [spelled(0, *corners_of(BOXES[n])), spelled(0, 0, 0.9, 0.1, 0.9, 0.05, 1)], "",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("lines", "note"), SOUND_LABELS.values(), ids=SOUND_LABELS)
def test_labels_of_yolo(images: Path, lines: Callable[[int], list[str]], note: str) -> None:
    folder = label_files(images.parent / "labels", *("".join(lines(n)) for n in BOXES))
    code, visible, printed = masked(images, folder)
    assert (code, visible) == (0, [0, 0]), printed
    assert note in printed
    assert bool(note) == ("NOTE" in printed), printed


def test_scores_of_poses_count(images: Path) -> None:
    lines = [spelled(0, *BOX_SHARES[n], *keypoints(BOXES[n], 2), score, 1) for n, score in ((1, 0.2), (2, 0.8))]
    assert masked(images, label_files(images.parent / "labels", *lines))[:2] == (0, [600, 0])


def test_polygons_of_coco_are_no_poses(shared: Path, tmp_path: Path) -> None:
    """Each in a folder of its own: 1% look like one. A folder is read so if a quarter of its lines do."""
    value = json.loads((shared / "coco-mini" / "annotations" / "instances_val2017.json").read_text("utf-8"))
    sizes = {image["id"]: (image["width"], image["height"]) for image in value["images"]}
    wrong, count, lines = 0, 0, list[str]()
    for one in value["annotations"]:
        for points in one["segmentation"] if not one["iscrowd"] else ():
            shares = (np.reshape(points, (-1, 2)) / sizes[one["image_id"]]).ravel().tolist()
            path = tmp_path / "1.txt"
            lines.append(spelled(0, *shares))
            path.write_text(lines[-1])
            [row] = read_labels({"1": path})
            assert row["shares"] in {tuple(shares), tuple(shares[:4])}
            wrong, count = wrong + (len(row["shares"]) < len(shares)), count + (len(shares) > 6)
    assert wrong <= 0.02 * count
    path.write_text("".join(lines))
    assert all(len(row["shares"]) == row["given"] for row in read_labels({"all": path}))


def save_masks(folder: Path, draw: Callable[[np.ndarray], np.ndarray], palette: bytes = b"") -> Path:
    folder.mkdir()
    for n, box in BOXES.items():
        image = Image.fromarray(draw(box_mask(box, (HEIGHT, WIDTH))).astype(np.uint8), "P" if palette else None)
        if palette:
            image.putpalette(palette)
        image.save(folder / f"{n:012d}.png")
    return folder


def with_border(mask: np.ndarray) -> np.ndarray:
    """VOC: 15 is a person, 5 a bottle, 255 what is neither."""
    values = np.where(mask, 15, 0)
    values[0, :3], values[5, 5] = 5, 255
    return values


SEVERAL = "2 of the annotations have several values beside 0, all hidden: set other classes, borders and noise to 0"
VOC = bytes([0, 0, 0, 128, 0, 0] + 254 * [192, 128, 128])


@pytest.mark.parametrize(("draw", "palette", "code", "note"), [
    (lambda mask: 255 * mask, b"", 0, ""),
    (lambda mask: mask, VOC, 0, ""),
    (with_border, b"", 0, "values 5, 15, 255"),
    (lambda mask: mask * np.where(np.arange(WIDTH) % 2, 1, 2), VOC, 0, "values #800000, #c08080"),
    (lambda mask: np.where(mask, 255, np.arange(WIDTH) % 3), b"", 0, "values 1, 2, 255"),  # Faint noise.
    (lambda mask: mask[..., None] * np.uint8([0, 0, 255]), b"", 0, ""),
    (lambda mask: 255 * ~mask, b"", 2, "masks cover all four corners, so probably the background, in 100.0%"),
    (lambda mask: 24 - mask, b"", 2, "masks hide 100.0% of the pixels of 2 images"),  # Cityscapes: 0 is no label.
])  # fmt: skip
def test_values_of_png_masks(
    images: Path, draw: Callable[[np.ndarray], np.ndarray], palette: bytes, code: int, note: str
) -> None:
    done, visible, printed = masked(images, save_masks(images.parent / "masks", draw, palette))
    assert done == code, printed
    assert visible == ([] if code else [0, 0])
    assert note in printed
    assert (SEVERAL in printed) == ("values" in note)
    assert bool(note) == ("NOTE" in printed or code > 0)


def test_two_images_of_one_id(images: Path) -> None:
    """With PNG masks neither is masked, for this reason."""
    (images / "val" / "000000000001.jpg").write_bytes((images / "val" / "000000000001.png").read_bytes())
    code, visible, printed = masked(images, save_masks(images.parent / "masks", lambda mask: 255 * mask))
    assert (code, visible) == (1, [0])
    assert "'id' 1 is that of 'val/000000000001.jpg' too. Rename one of the images." in printed


def test_several_files(images: Path) -> None:
    parts = [document() | {"annotations": [one]} for one in document()["annotations"]]
    paths = [write(images.parent / f"{n}.json", part) for n, part in enumerate(parts)]
    assert masked(images, paths[0], "--instances", paths[1])[:2] == (0, [0, 0])
    parts[1]["images"][0] |= {"width": 81}
    code, left, printed = masked(images, paths[0], "--instances", write(paths[1], parts[1]))
    assert (code, left) == (1, [0])
    assert "'000000000001.png' has another id or size than in another file" in printed
