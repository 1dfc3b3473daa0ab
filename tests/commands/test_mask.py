"""``judge mask`` as a user meets it: images without people, and one line for each fault."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from attack.kills import content_of
from helpers import done_well, judge, refusal
from masking.test_images import png_header
from PIL import Image
from pycocotools.coco import COCO
from typer.testing import Result

from judge.masking.images import MAX_PIXELS, encode, list_images
from judge.utils.outputs import write_manifest

HEIGHT, WIDTH = 30, 40
SQUARE = [[5, 6, 15, 6, 15, 26, 5, 26]]  # 10 x 20 pixels
WRITTEN = ["contact_sheet.png", "log.jsonl", "mask.yaml", "masks.parquet"]
DOG = [[20, 10, 30, 10, 30, 20, 20, 20]]  # 10 x 10


def pixels_of(path: Path) -> np.ndarray:
    with Image.open(path) as image:
        return np.asarray(image.convert("RGB"))


def tree(folder: Path) -> dict[str, bytes | None]:
    """Files by their bytes, what states times apart."""
    return {p.relative_to(folder).as_posix(): content_of(p) for p in sorted(folder.rglob("*")) if p.is_file()}


def write_instances(path: Path, names: Sequence[str], annotations: Sequence[dict[str, Any]], **size: int) -> Path:
    size = {"height": HEIGHT, "width": WIDTH} | size
    images = [{"id": n, "file_name": name} | size for n, name in enumerate(names)]
    categories = [{"id": n, "name": name} for n, name in enumerate(("person", "dog", "tie"), start=1)]
    numbered = [{"id": 100 + n, "iscrowd": 0} | annotation for n, annotation in enumerate(annotations)]
    path.write_text(json.dumps({"images": images, "annotations": numbered, "categories": categories}))
    return path


class World:
    """images/0.png ... 5.png and instances.json: a dog in each, a person in each of an even number, in 4 two."""

    def __init__(self, root: Path) -> None:
        self.root, self.images, self.out = root, root / "pictures", root / "out"
        self.images.mkdir()
        self.names = [f"{n}.png" for n in range(6)]
        for n, name in enumerate(self.names):
            picture = np.random.default_rng(n).integers(1, 256, (HEIGHT, WIDTH, 3), dtype=np.uint8)
            (self.images / name).write_bytes(encode(picture))
        people = [{"image_id": n, "category_id": 1, "segmentation": SQUARE, "bbox": [4, 5, 12, 22]} for n in (0, 2, 4)]
        second = {"image_id": 4, "category_id": 1, "bbox": [38, 0, 2, 3]}
        dogs = [{"image_id": n, "category_id": 2, "segmentation": DOG} for n in range(6)]
        self.annotations = [*people, second, *dogs]
        self.instances = write_instances(root / "instances.json", self.names, self.annotations)

    def given(self, out: Path | None = None) -> list[object]:
        places = ["--images", self.images, "--instances", self.instances, "--out", out or self.out]
        return ["mask", *places, "--workers", 2]

    def run(self, *arguments: object, out: Path | None = None) -> Result:
        return judge(*self.given(out), *arguments)

    def add(self, name: str, data: bytes | None, annotation: dict[str, Any] | None = None, **size: int) -> None:
        """One image more, listed in the instances file."""
        if data is not None:
            (self.images / name).parent.mkdir(parents=True, exist_ok=True)
            (self.images / name).write_bytes(data)
        document = json.loads(self.instances.read_text())
        number = len(document["images"])
        document["images"].append({"id": number, "file_name": name, "height": HEIGHT, "width": WIDTH} | size)
        if annotation is not None:
            document["annotations"].append({"id": 900 + number, "image_id": number, "category_id": 1} | annotation)
        self.instances.write_text(json.dumps(document))


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_masks_a_folder(world: World) -> None:
    done = world.run()
    assert (done.exit_code, done.stderr) == (0, ""), done.output
    assert done.stdout == (
        "6 images masked; 3 (50.0%) hold person; 4 instances, 8.4% of the pixels hidden\n"
        f"They are in {world.out}; look at {world.out / 'contact_sheet.png'}\n"
    )
    assert sorted(path.name for path in world.out.iterdir()) == [".caption-judge", *world.names, *WRITTEN]
    hidden = np.zeros((6, HEIGHT, WIDTH), dtype=bool)
    hidden[::2, 6:26, 5:15] = True
    hidden[4, 0:3, 38:40] = True
    for name, mask in zip(world.names, hidden, strict=True):
        expected = np.where(mask[:, :, None], 0, pixels_of(world.images / name))
        np.testing.assert_array_equal(pixels_of(world.out / name), expected)
    table = pd.read_parquet(world.out / "masks.parquet")
    columns = {"image": world.names, "masked": world.names, "instances": [1, 0, 1, 0, 2, 0]}
    columns |= {"share_hidden": hidden.mean(axis=(1, 2)), "detector": ["gt"] * 6, "mode": ["segment"] * 6}
    pd.testing.assert_frame_equal(table, pd.DataFrame(columns), check_dtype=False)
    # The sheet shows people before they are hidden: whoever reads the masked folder must not see it.
    assert list_images(world.out) == sorted(world.names)


@pytest.mark.parametrize(
    ("arguments", "hidden"),
    [
        (["--mode", "partial"], 100 + 3),  # half of 200 pixels, of 6
        (["--mode", "partial", "--share", "0.07"], 14 + 1),
        (["--mode", "box"], 12 * 22 + 6),
        (["--dilation", "1"], 200 + 2 * (10 + 20) + 6 + 2 + 3),  # no corners: they are 1.4 away
        (["--foreground", "largest"], 200),
        (["--foreground", "0.01"], 200),
        (["--foreground", "0.004"], 206),
        (["--hide", "object", "--category", "dog"], 100),
        (["--hide", "both", "--category", "dog"], 306),
        (["--threshold", "1"], 206),
    ],
)
def test_what_is_hidden(world: World, arguments: list[str], hidden: int) -> None:
    done = world.run(*arguments)
    assert done.exit_code == 0, done.output
    changed = (pixels_of(world.out / "4.png") != pixels_of(world.images / "4.png")).any(axis=2)
    assert changed.sum() == hidden
    row = pd.read_parquet(world.out / "masks.parquet").set_index("image").loc["4.png"]
    assert row["share_hidden"] == pytest.approx(hidden / HEIGHT / WIDTH)


def test_noise_is_that_of_the_seed(world: World) -> None:
    outs = [world.root / f"out{n}" for n in range(3)]
    for out, seed in zip(outs, (7, 7, 8), strict=True):
        assert world.run("--fill", "noise", "--seed", seed, "--format", "webp", out=out).exit_code == 0
    first, second, third = ([(out / f"{n}.webp").read_bytes() for n in range(6)] for out in outs)
    assert first == second != third


def test_real_photographs_end_to_end(shared: Path, tmp_path: Path) -> None:
    """Read back, images are black wherever pycocotools' masks have a person, and unchanged elsewhere."""
    images, instances, out = shared / "coco-mini" / "val2017", tmp_path / "instances.json", tmp_path / "out"
    document = json.loads((images.parent / "annotations" / "instances_val2017.json").read_text(encoding="utf-8"))
    document["images"] = document["images"][:8]
    instances.write_text(json.dumps(document))
    truth = COCO(str(instances))
    done_well("mask", "--images", images, "--instances", instances, "--out", out)
    table = pd.read_parquet(out / "masks.parquet").set_index("image")
    assert (table["share_hidden"] > 0).sum() > 2
    for image in document["images"]:
        name, hidden = image["file_name"], np.zeros((image["height"], image["width"]), dtype=bool)
        people = truth.loadAnns(truth.getAnnIds(imgIds=[image["id"]], catIds=truth.getCatIds(catNms=["person"])))
        for annotation in people:
            hidden |= truth.annToMask(annotation).astype(bool)
        after = pixels_of((out / name).with_suffix(".png"))
        np.testing.assert_array_equal(after, np.where(hidden[:, :, None], 0, pixels_of(images / name)))
        assert (table.loc[name, "instances"], table.loc[name, "share_hidden"]) == (len(people), hidden.mean())


def jpeg(size: tuple[int, int] = (HEIGHT, WIDTH)) -> bytes:
    file = io.BytesIO()
    Image.fromarray(np.random.default_rng(1).integers(0, 256, (*size, 3), dtype=np.uint8)).save(file, "JPEG")
    return file.getvalue()


def spoil(world: World) -> dict[str, str]:
    """A fault of every kind that a single image can have; name -> part of its line."""
    good, out, link = jpeg(), "leads out of the folder of images", "is a link out of the folder"
    says, two_points = "its annotation says 40 x 30", {"segmentation": [[1, 2, 3, 4]]}
    faults: dict[str, tuple[str, bytes | None, dict[str, Any] | None]] = {
        "truncated.jpg": ("is truncated", good[: len(good) // 2], None),
        "bomb.png": (f"has 50000 x 50000 pixels, over the limit of {MAX_PIXELS:,}", png_header(50_000, 50_000), None),
        "missing.jpg": ("no such image", None, None),
        "size.jpg": (f"is 20 x 20, {says}", jpeg((20, 20)), None),
        "points.jpg": ("polygon of 2 points", good, two_points),
        **dict.fromkeys(("../secret.png", "/etc/hostname", "..\\secret.png"), (out, None, None)),
        **dict.fromkeys(("link.png", "linked/secret.png"), (link, None, None)),
        "pipe.png": ("cannot be read (it is not a regular file)", None, None),
        "contact_sheet.jpg": ("would be written where 'contact_sheet.png' is", good, None),
        "two\nlines.jpg": ("no such image", None, None),
    }
    for name, (_, data, annotation) in faults.items():
        world.add(name, data, annotation)
    (world.root / "secret.png").write_bytes((world.images / "0.png").read_bytes())
    (world.images / "link.png").symlink_to(world.root / "secret.png")
    (world.images / "linked").symlink_to(world.root)
    os.mkfifo(world.images / "pipe.png")
    document = json.loads(world.instances.read_text())
    document["annotations"].insert(10, {"id": 1, "category_id": 1, "segmentation": SQUARE})
    world.instances.write_text(json.dumps(document))
    expected = {name.replace("\n", r"\n"): message for name, (message, *_) in faults.items()}
    return expected | {"annotations, record 11": "'image_id' is null: what it shows stays visible"}


def test_bad_pictures_are_listed_and_the_others_done(world: World) -> None:
    expected = spoil(world)
    before = tree(world.images)
    done = world.run()
    assert done.exit_code == 1
    assert "Traceback" not in done.output
    *lines, last = done.stderr.splitlines()
    assert last == f"judge: {len(expected)} of {len(expected) + 6} images could not be masked"
    told = {name: line for line in lines for name in line.removeprefix("judge: ").split(": ")[0].split(", ")}
    for name, message in expected.items():
        line = next(line for line in lines if name in line) if ", " in name else told[name]
        assert message in line
        assert line.endswith((".", "?"))
    assert done.stdout.splitlines()[0].startswith("6 images masked")
    assert sorted(tree(world.out)) == [".caption-judge", *world.names, *WRITTEN]
    # Nothing was written elsewhere, and nothing changed where it was read.
    assert sorted(path.name for path in world.root.iterdir()) == ["instances.json", "out", "pictures", "secret.png"]
    assert tree(world.images) == before


def fails(world: World, message: str, *arguments: object, out: Path | None = None) -> None:
    """One line, and nothing left behind."""
    before, paths = tree(world.root), sorted(world.root.rglob("*"))
    assert message in refusal(*world.given(out), *arguments)
    assert tree(world.root) == before
    assert sorted(world.root.rglob("*")) == paths


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--images", "nowhere"], "--images nowhere: is no folder"),
        (["--instances", "nowhere.json"], "nowhere.json: no such file"),
        (["--hide", "object", "--category", "dgo"], "no category 'dgo'. Did you mean 'dog'?"),
        (["--hide", "object"], "--hide: nothing says which object goes with the attribute. Give --instances and"),
        (["--mode", "boxes"], "--mode: unknown value 'boxes'. Did you mean 'box'?"),
        (["--foreground", "smallest"], "'foreground"),
        (["--detector", "yollo"], "--detector: unknown value 'yollo'. Did you mean 'yolo'?"),
        (["--detector", "yolo"], "--weights: detector 'yolo' needs weights"),
        (["--labels", "nowhere.csv", "--hide", "object"], "nowhere.csv"),
    ],
)
def test_faults_of_the_whole_command(world: World, arguments: list[str], message: str) -> None:
    fails(world, message, *arguments, out=world.root / "a/b")


def test_all_pictures_fail(world: World) -> None:
    for name in world.names:
        (world.images / name).write_bytes(b"")
    done = world.run(out=world.root / "deep" / "out")
    assert (done.exit_code, done.stderr.count("\n")) == (1, 2), done.output
    assert done.stderr.startswith(f"judge: {', '.join(world.names[:5])} and 1 more: ")
    assert done.stderr.endswith("judge: 6 of 6 images could not be masked\n")
    assert not (world.root / "deep").exists()


def test_places_that_are_taken(world: World) -> None:
    """The folder of images, by itself or by a link, and folders in it."""
    link = world.root / "link"
    link.symlink_to(world.images)
    for place in (world.images, link, link / "sub", world.images / "sub" / "deeper"):
        fails(world, "--out", out=place)
    write_manifest(world.root, "folder of masked images")
    fails(world, "which is read", "--overwrite", out=world.root)


def test_pictures_that_the_file_does_not_list_are_left_out(world: World) -> None:
    (world.images / "more.png").write_bytes((world.images / "0.png").read_bytes())
    done = world.run()
    assert done.exit_code == 0
    assert "NOTE: 1 images of the folder are not in the instances file; they were left out" in done.stdout
    assert not (world.out / "more.png").exists()


def write_labels(world: World, classes: tuple[str, str]) -> Path:
    """Images of even numbers are of the first class, of odd numbers of the second."""
    labels = world.root / "labels.csv"
    labels.write_text("image_id,gender\n" + "".join(f"{n},{classes[n % 2]}\n" for n in range(6)), encoding="utf-8")
    return labels


def test_the_object_is_chosen_by_image_ids_not_by_names(world: World) -> None:
    """Images 0.png and 1.png have each other's number as "id": labels go by the id, as captions do."""
    document = json.loads(world.instances.read_text())
    people = [a for a in document["annotations"] if a["category_id"] == 1]
    things = [{"id": 300 + n, "image_id": n, "category_id": 2 + n % 2, "segmentation": DOG} for n in range(6)]
    for n, image in enumerate(document["images"]):
        image["id"] = n ^ 1
    world.instances.write_text(json.dumps(document | {"annotations": people + things}))
    spelt = ["--label-value", "female=f", "--label-value", "male=m"]
    done = world.run("--hide", "object", "--labels", write_labels(world, ("f", "m")), *spelt)
    assert "Hidden object: dog (100% of 3 images with it are female)" in done.stdout


def test_the_object_that_goes_with_the_attribute(world: World) -> None:
    """Ties: 3 of 3 women; dogs: 3 of 6."""
    tie = {"category_id": 3, "segmentation": [[0, 0, 4, 0, 4, 5, 0, 5]]}
    write_instances(world.instances, world.names, [*world.annotations, *({"image_id": n} | tie for n in (1, 3, 5))])
    labels = write_labels(world, ("male", "female"))
    done = world.run("--hide", "object", "--labels", labels)
    assert done.exit_code == 0, done.output
    told = "Hidden object: tie (100% of 3 images with it are female)\n6 images masked; 3 (50.0%) hold tie"
    assert done.stdout.startswith(told)
    for n, name in enumerate(world.names):
        expected = pixels_of(world.images / name).copy()
        if n % 2:
            expected[0:5, 0:4] = 0
        np.testing.assert_array_equal(pixels_of(world.out / name), expected)
    done = world.run("--hide", "both", "--labels", labels, "--overwrite")
    assert "hold person or tie" in done.stdout
    assert pd.read_parquet(world.out / "masks.parquet")["instances"].tolist() == [1, 1, 1, 1, 2, 1]
