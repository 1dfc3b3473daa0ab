"""``judge mask`` as a user meets it: images without people, and one line for each fault."""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from attack.kills import content_of
from helpers import judge, refusal
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
    assert done.exit_code == 0, done.output
    assert done.stderr == ""
    assert done.stdout == (
        "6 images masked; 3 (50.0%) hold person; 4 instances, 8.4% of the pixels hidden\n"
        f"They are in {world.out}; look at {world.out / 'contact_sheet.png'}\n"
    )
    made = [".caption-judge", *world.names, *WRITTEN]
    assert sorted(path.name for path in world.out.iterdir()) == made
    assert sorted(path.name for path in world.root.iterdir()) == ["instances.json", "out", "pictures"]
    for n, name in enumerate(world.names):
        expected = pixels_of(world.images / name).copy()
        if n in {0, 2, 4}:
            expected[6:26, 5:15] = 0
        if n == 4:
            expected[0:3, 38:40] = 0
        np.testing.assert_array_equal(pixels_of(world.out / name), expected)
    sheet = pixels_of(world.out / "contact_sheet.png")
    assert 6 * HEIGHT * WIDTH < (sheet != 255).any(axis=2).sum() < sheet[:, :, 0].size
    # The sheet shows people before they were hidden: whoever reads the masked folder must not see it.
    assert list_images(world.out) == sorted(world.names)


def test_the_table(world: World) -> None:
    assert world.run("--mode", "box", "--format", "webp").exit_code == 0
    table = pd.read_parquet(world.out / "masks.parquet")
    hidden = np.array([12 * 22, 0, 12 * 22, 0, 12 * 22 + 6, 0])
    columns = {"image": world.names, "masked": [f"{n}.webp" for n in range(6)], "instances": [1, 0, 1, 0, 2, 0]}
    columns |= {"share_hidden": hidden / (HEIGHT * WIDTH), "detector": ["gt"] * 6, "mode": ["box"] * 6}
    pd.testing.assert_frame_equal(table, pd.DataFrame(columns), check_dtype=False)
    for row in table.itertuples():
        changed = (pixels_of(world.out / str(row.masked)) != pixels_of(world.images / str(row.image))).any(axis=2)
        assert changed.mean() == row.share_hidden  # there is no black in the images


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


@pytest.mark.parametrize("fill", ["mean", "blur", "noise"])
def test_fills_differ_and_repeat(world: World, fill: str) -> None:
    outs = [world.root / f"out{n}" for n in range(3)]
    for out, seed, workers in zip(outs, (7, 7, 8), (2, 4, 1), strict=True):
        assert world.run("--fill", fill, "--seed", seed, "--workers", workers, out=out).exit_code == 0
    first, second, third = ([(out / name).read_bytes() for name in world.names] for out in outs)
    assert first == second
    assert (first == third) == (fill != "noise")
    assert not (pixels_of(outs[0] / "0.png")[6:26, 5:15] == 0).all()


# All of them once; lossless WebP is slow to write, and gets a few.
@pytest.mark.parametrize(("kind", "count"), [("png", None), ("webp", 8)])
def test_real_photographs_end_to_end(shared: Path, tmp_path: Path, kind: str, count: int | None) -> None:
    """What was written, read back: black wherever pycocotools' masks have a person, else the image."""
    images, instances, out = shared / "coco-mini" / "val2017", tmp_path / "instances.json", tmp_path / "out"
    document = json.loads((images.parent / "annotations" / "instances_val2017.json").read_text(encoding="utf-8"))
    document["images"] = document["images"][:count]
    instances.write_text(json.dumps(document))
    truth = COCO(str(instances))
    done = judge("mask", "--images", images, "--instances", instances, "--out", out, "--format", kind)
    assert (done.exit_code, done.stderr) == (0, "")
    table = pd.read_parquet(out / "masks.parquet").set_index("image")
    assert set(table.index) == {image["file_name"] for image in document["images"]}
    assert (table["share_hidden"] > 0).sum() > 2
    for image in document["images"]:
        name, hidden = image["file_name"], np.zeros((image["height"], image["width"]), dtype=bool)
        people = truth.loadAnns(truth.getAnnIds(imgIds=[image["id"]], catIds=truth.getCatIds(catNms=["person"])))
        for annotation in people:
            hidden |= truth.annToMask(annotation).astype(bool)
        after = pixels_of((out / name).with_suffix(f".{kind}"))
        assert not after[hidden].any()
        np.testing.assert_array_equal(after[~hidden], pixels_of(images / name)[~hidden])
        assert table.loc[name, "instances"] == len(people)
        assert table.loc[name, "share_hidden"] == hidden.mean()


def jpeg(size: tuple[int, int] = (HEIGHT, WIDTH), orientation: int = 1) -> bytes:
    file, exif = io.BytesIO(), Image.Exif()
    exif[274] = orientation
    picture = np.random.default_rng(1).integers(0, 256, (*size, 3), dtype=np.uint8)
    Image.fromarray(picture).save(file, "JPEG", exif=exif)
    return file.getvalue()


def spoil(world: World) -> dict[str, str]:
    """A fault of every kind that a single image can have; name -> part of its line."""
    good, out, link = jpeg(), "leads out of the folder of images", "is a link out of the folder"
    says, two_points = "its annotation says 40 x 30", {"segmentation": [[1, 2, 3, 4]]}
    short_run = {"segmentation": {"size": [HEIGHT, WIDTH], "counts": [10, 10]}}
    faults: dict[str, tuple[str, bytes | None, dict[str, Any] | None]] = {
        "truncated.jpg": ("is truncated", good[: len(good) // 2], None),
        "zero.jpg": ("is empty (0 bytes)", b"", None),
        "bomb.png": (f"has 50000 x 50000 pixels, over the limit of {MAX_PIXELS:,}", png_header(50_000, 50_000), None),
        "missing.jpg": ("no such image", None, None),
        "size.jpg": (f"is 20 x 20, {says}", jpeg((20, 20)), None),
        "turned.jpg": (f"is 30 x 40, {says} (turned by its EXIF orientation?)", jpeg(orientation=6), None),
        "points.jpg": ("polygon of 2 points", good, two_points),
        "rle_sum.jpg": ("run lengths do not add up to 1,200 pixels", good, short_run),
        **dict.fromkeys(("../secret.png", "/etc/hostname", "..\\secret.png"), (out, None, None)),
        **dict.fromkeys(("link.png", "linked/secret.png"), (link, None, None)),
        "pipe.png": ("cannot be read (it is not a regular file)", None, None),
        "0.jpg": ("would be written where '0.png' is", good, None),
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
    sheet = pixels_of(world.out / "contact_sheet.png")
    assert 6 * HEIGHT * WIDTH < (sheet != 255).any(axis=2).sum() < sheet[:, :, 0].size
    # Nothing was written elsewhere, and nothing changed where it was read.
    assert sorted(path.name for path in world.root.iterdir()) == ["instances.json", "out", "pictures", "secret.png"]
    assert tree(world.images) == before
    (world.root / "clean").mkdir()
    clean = World(world.root / "clean")
    assert clean.run().exit_code == 0
    for name in world.names:
        assert (world.out / name).read_bytes() == (clean.out / name).read_bytes()
    for workers in (1, 4):
        assert world.run("--workers", workers, out=world.root / f"out{workers}").stderr == done.stderr


def test_the_limit_of_pixels_is_an_option(world: World) -> None:
    world.add("large.png", encode(np.ones((100, 100, 3), dtype=np.uint8)), height=100, width=100)
    done = world.run("--max-pixels", "9999")
    assert done.exit_code == 1
    told = "large.png: has 100 x 100 pixels, over the limit of 9,999. If you trust it, raise --max-pixels."
    assert told in done.stderr
    assert world.run("--max-pixels", "10000", "--overwrite").exit_code == 0


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_pictures_that_may_not_be_read(world: World) -> None:
    (world.images / "0.png").chmod(0)
    done = world.run()
    assert done.exit_code == 1
    assert "0.png: cannot be read (Permission denied)" in done.stderr


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
        (["--hide", "both"], "Give --instances and --labels, or name the object with --category"),
        (["--category", "dog"], "--category dog: only people are hidden, no dog. Add --hide object, or --hide both."),
        (["--hide", "everybody"], "--hide: unknown value 'everybody'. Known: person, object, both."),
        (["--mode", "boxes"], "--mode: unknown value 'boxes'. Did you mean 'box'?"),
        (["--fill", "white"], "--fill: unknown value 'white'"),
        (["--format", "jpg"], "--format: unknown value 'jpg'"),
        (["--foreground", "smallest"], "'foreground"),
        (["--detector", "yollo"], "--detector: unknown value 'yollo'. Did you mean 'yolo'?"),
        (["--detector", "yolo"], "--weights: detector 'yolo' needs weights"),
        (["--detector", "maskrcnn"], "--weights: detector 'maskrcnn' needs weights"),
        (["--label-value", "female"], "--label-value: 'female' is not KEY=VALUE"),
        (["--labels", "nowhere.csv", "--hide", "object"], "nowhere.csv"),
    ],
)
def test_faults_of_the_whole_command(world: World, arguments: list[str], message: str) -> None:
    fails(world, message, *arguments, out=world.root / "a/b")


def test_without_pictures_or_instances(world: World) -> None:
    (world.root / "empty").mkdir()
    (world.root / "empty" / "notes.txt").write_text("nothing")
    fails(world, "holds no image", "--images", world.root / "empty")
    told = refusal("mask", "--images", world.images, "--out", world.out)
    assert told == "judge: --instances: detector 'gt' needs the instances. Give their COCO file.\n"


def test_all_pictures_fail(world: World) -> None:
    for name in world.names:
        (world.images / name).write_bytes(b"")
    done = world.run(out=world.root / "deep" / "out")
    assert (done.exit_code, done.stderr.count("\n")) == (1, 2), done.output
    assert done.stderr.startswith(f"judge: {', '.join(world.names[:5])} and 1 more: ")
    assert done.stderr.endswith("judge: 6 of 6 images could not be masked\n")
    assert not (world.root / "deep").exists()


def test_places_that_are_taken(world: World) -> None:
    file, thesis, link = (world.root / name for name in ("file", "thesis", "link"))
    file.write_text("in the way")
    thesis.mkdir()
    (thesis / "thesis.tex").write_text("years of work")
    link.symlink_to(world.images)  # a link to the images is the images
    for place in (world.images, link, link / "sub"):
        fails(world, "--out", out=place)
    for place in (world.images / "sub", world.images / "sub" / "deeper"):
        fails(world, "folder of images", out=place)
    fails(world, f"--out {file}: is a file. Name a folder.", out=file)
    fails(world, "cannot be written", out=file / "out")
    fails(world, "holds something that is no folder of masked images", out=thesis)
    fails(world, "holds something that is no folder of masked images", "--overwrite", out=thesis)
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


def caught_at_work(world: World, written: int = 10, *, of: int = 120) -> subprocess.Popen[str]:
    """A run in a process of its own over many large images, of which it has written a few."""
    large, names = world.images / "large.png", [f"{n}.png" for n in range(of)]
    large.write_bytes(encode(np.random.default_rng(0).integers(0, 256, (600, 800, 3), dtype=np.uint8)))
    for name in names:
        (world.images / name).unlink(missing_ok=True)
        os.link(large, world.images / name)
    people = [{"image_id": n, "category_id": 1, "segmentation": SQUARE} for n in range(of)]
    write_instances(world.instances, names, people, height=600, width=800)
    command = [sys.executable, "-m", "judge", *map(str, world.given())]
    # Tests in the background of a shell ignore Ctrl-C, and so would what they start.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    signal.signal(signal.SIGINT, before)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and len(list(world.root.glob("out.partial/*.png"))) < written:
        time.sleep(0.01)
    return process


def test_a_killed_run_goes_on(world: World) -> None:
    """SIGKILL in the middle; what is finished is taken over, but for an image that is another one by then."""
    process = caught_at_work(world, 32, of=72)
    process.kill()
    process.communicate()
    partial = world.root / "out.partial"
    finished = noted(partial)
    assert 8 <= len(finished) < 72
    changed, damaged = finished[0][0], finished[1][1]
    (world.images / changed).unlink()
    (world.images / changed).write_bytes(encode(np.zeros((600, 800, 3), dtype=np.uint8)))
    with (partial / ".finished" / "images.jsonl").open("a") as file:
        file.write('["0000", ["cut')
    content = bytearray((partial / damaged).read_bytes())
    content[60] ^= 1
    (partial / damaged).write_bytes(content)
    before = {row[1]: (partial / row[1]).stat().st_mtime_ns for row in finished}
    there = world.images.rename(world.root / "there")  # As if the disk were away for a while.
    world.images.mkdir()
    for path in there.iterdir():
        (world.images / path.name).touch()
    assert world.run().exit_code == 1
    shutil.rmtree(world.images)
    there.rename(world.images)
    done = world.run()
    assert (done.exit_code, done.stderr) == (0, "")
    again = {name for name, written in before.items() if (world.out / name).stat().st_mtime_ns != written}
    # Every image here may be on the contact sheet, and those are masked again.
    assert damaged in again
    whole = world.root / "two"
    assert world.run(out=whole).exit_code == 0
    first, second = tree(world.out), tree(whole)
    assert first.pop("mask.yaml") != second.pop("mask.yaml")  # Their own place is in it.
    assert first == second
    assert sorted(path.name for path in world.root.iterdir()) == ["instances.json", "out", "pictures", "two"]


def noted(partial: Path) -> list[list[Any]]:
    """The rows of the images that a killed run noted as finished."""
    text = (partial / ".finished" / "images.jsonl").read_text(encoding="utf-8")
    return [json.loads(line)[1] for line in text.splitlines()[:-1] if line]  # A kill may have cut the last one.
