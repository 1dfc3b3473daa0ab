"""``judge mask`` as a user meets it: images without people, and one line for each fault."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from helpers import judge, read_json, refusal, tree
from masking.test_images import png_header
from PIL import Image
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


def write_instances(path: Path, names: Sequence[str], annotations: Sequence[dict[str, Any]]) -> Path:
    images = [{"id": n, "file_name": name, "height": HEIGHT, "width": WIDTH} for n, name in enumerate(names)]
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

    def run(self, *arguments: object) -> Result:
        return judge(*self.given(), *arguments)

    def add(self, name: str, data: bytes | None) -> None:
        """One image more, listed in the instances file."""
        if data is not None:
            (self.images / name).write_bytes(data)
        document = read_json(self.instances)
        new = {"id": len(document["images"]), "file_name": name, "height": HEIGHT, "width": WIDTH}
        self.instances.write_text(json.dumps(document | {"images": [*document["images"], new]}))


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_everything_but_people_is_hidden(world: World) -> None:
    """Objects, all of them; or all pixels of no instance."""
    done = world.run("--hide", "objects")
    assert "6 images masked; 6 (100.0%) hold objects; 6 instances" in done.stdout
    dog = np.zeros((HEIGHT, WIDTH), dtype=bool)
    dog[10:20, 20:30] = True
    before, after = pixels_of(world.images / "0.png"), pixels_of(world.out / "0.png")
    np.testing.assert_array_equal(after, np.where(dog[:, :, None], 0, before))
    seen = dog.copy()
    seen[6:26, 5:15] = True  # The person.
    done = world.run("--hide", "background", "--overwrite")
    assert "6 (100.0%) hold background; 0 instances" in done.stdout
    np.testing.assert_array_equal(pixels_of(world.out / "0.png"), np.where(seen[:, :, None], before, 0))
    assert "--hide background hides no dog" in refusal(
        *world.given(world.root / "new"), "--hide", "background", "--category", "dog"
    )
    detectors = ["--images", world.images, "--instances", world.instances, "--hide", "background"]
    assert "no detector finds the background" in refusal("ablate", "detectors", *detectors)


def test_masks_a_folder(world: World) -> None:
    (world.images / "more.png").write_bytes((world.images / "0.png").read_bytes())
    done = world.run()
    assert (done.exit_code, done.stderr) == (0, ""), done.output
    assert done.stdout == (
        "6 images masked; 3 (50.0%) hold person; 4 instances, 8.4% of the pixels hidden\n"
        "NOTE: 1 images of the folder are not in the instances file; they were left out\n"
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


@pytest.mark.parametrize(("arguments", "hidden"), [
    (["--mode", "partial"], 100 + 3),  # half of 200 pixels, of 6
    (["--mode", "box"], 12 * 22 + 6),
    (["--dilation", "1"], 200 + 2 * (10 + 20) + 6 + 2 + 3),  # no corners: they are 1.4 away
    (["--foreground", "largest"], 200),
    (["--foreground", "0.004"], 206),
    (["--hide", "object", "--category", "dog"], 100),
    (["--hide", "both", "--category", "dog"], 306),
])  # fmt: skip
def test_what_is_hidden(world: World, arguments: list[str], hidden: int) -> None:
    done = world.run(*arguments)
    assert done.exit_code == 0, done.output
    changed = (pixels_of(world.out / "4.png") != pixels_of(world.images / "4.png")).any(axis=2)
    assert changed.sum() == hidden
    row = pd.read_parquet(world.out / "masks.parquet").set_index("image").loc["4.png"]
    assert row["share_hidden"] == pytest.approx(hidden / HEIGHT / WIDTH)


def test_bad_images_are_listed_and_the_others_done(world: World) -> None:
    """Each fault is one line; nothing is written elsewhere, and nothing changes where images are read.

    Links to folders are not followed.
    """
    secret, out = world.root / "secret.png", "leads out of the folder of images"
    secret.write_bytes((world.images / "0.png").read_bytes())
    (world.images / "link").symlink_to(world.root)
    whole = secret.read_bytes()
    faults = {
        "truncated.png": ("is truncated", whole[: len(whole) // 2]),
        "bomb.png": (f"has 50000 x 50000 pixels, over the limit of {MAX_PIXELS:,}", png_header(50_000, 50_000)),
        "missing.jpg": ("no such image", None),
        "../secret.png": (out, None),
        "/etc/hostname": (out, None),
        "link/secret.png": ("lies behind a link out of the folder", None),
        "contact_sheet.jpg": ("would be written where 'contact_sheet.png' is", whole),
        "two\nlines.jpg": ("no such image", None),
    }
    for name, (_, data) in faults.items():
        world.add(name, data)
    before = tree(world.images)
    done = world.run()
    assert (done.exit_code, done.stdout[:15]) == (1, "6 images masked"), done.output
    *lines, last = done.stderr.splitlines()
    assert last == f"judge: {len(faults)} of {len(faults) + 6} images could not be masked"
    for name, (message, _) in faults.items():
        assert [line for line in lines if name.replace("\n", r"\n") in line and message in line], name
    assert sorted(tree(world.out)) == [".caption-judge", *world.names, *WRITTEN]
    assert sorted(path.name for path in world.root.iterdir()) == ["instances.json", "out", "pictures", "secret.png"]
    assert tree(world.images) == before


def test_faults_of_the_whole_command_leave_nothing(world: World) -> None:
    """Options; places in the folder of images, by itself or by a link; a folder whose files are read."""
    link, new = world.root / "link", world.root / "a" / "b"
    link.symlink_to(world.images)
    write_manifest(world.root, "folder of masked images")
    before, paths = tree(world.root), sorted(world.root.rglob("*"))
    for out, arguments, message in (
        (new, ["--hide", "object", "--category", "dgo"], "no category 'dgo'. Did you mean 'dog'?"),
        (new, ["--hide", "object"], "--hide: nothing says which object goes with the attribute. Give --labels, or"),
        (new, ["--foreground", "smallest"], "'foreground"),
        (new, ["--column", "gender=sex"], "'gender' is no column of labels"),
        *((place, [], "--out") for place in (world.images, link, link / "sub", world.images / "sub" / "deeper")),
        (world.root, ["--overwrite"], "which is read"),
    ):
        assert message in refusal(*world.given(out), *arguments)
        assert tree(world.root) == before
        assert sorted(world.root.rglob("*")) == paths


def test_the_object_that_goes_with_the_attribute(world: World) -> None:
    """Ties: 3 of 3 women; dogs: 3 of 6. Labels go by the "id" of images, as captions do: 1.png has 0, and 0.png 1."""
    tie = {"category_id": 3, "segmentation": [[0, 0, 4, 0, 4, 5, 0, 5]]}
    names = [world.names[n ^ 1] for n in range(6)]
    write_instances(world.instances, names, [*world.annotations, *({"image_id": n} | tie for n in (1, 3, 5))])
    labels = world.root / "labels.csv"
    rows = [f"{n},{('male', 'female')[n % 2]}" for n in range(6)]
    labels.write_text("\n".join(["image_id,gender", *rows]), encoding="utf-8")
    done = world.run("--hide", "object", "--labels", labels)
    assert done.exit_code == 0, done.output
    printed = "Hidden object: tie (100% of 3 images with it are female)\n6 images masked; 3 (50.0%) hold tie"
    assert done.stdout.startswith(printed)
    for n, name in enumerate(names):
        expected = pixels_of(world.images / name).copy()
        if n % 2:
            expected[0:5, 0:4] = 0
        np.testing.assert_array_equal(pixels_of(world.out / name), expected)
    done = world.run("--hide", "both", "--labels", labels, "--overwrite")
    assert "hold person or tie" in done.stdout
    assert pd.read_parquet(world.out / "masks.parquet")["instances"].tolist() == [1, 1, 1, 1, 2, 1]
