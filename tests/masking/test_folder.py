"""A whole folder: the same bytes on any number of workers, one bad picture never the end of the others."""

from __future__ import annotations

import json
import re
import threading
import time
import weakref
from collections.abc import Sequence
from pathlib import Path

import cv2
import numpy as np
import pytest
from detector_samples import FakeDetector
from PIL import Image

from judge.errors import JudgeError
from judge.masking.detectors.ground_truth import GroundTruth
from judge.masking.folder import SHEET, Hiding, Masked, MaskFolder
from judge.masking.images import encode
from judge.masking.instances import Instance, Picture, from_mask
from judge.masking.people import Fill
from judge.masking.sheet import HEIGHT, Tile, before_and_after, contact_sheet

SIZE = (40, 60)


def drawn(number: int) -> np.ndarray:
    return np.random.default_rng(number).integers(0, 256, (*SIZE, 3), dtype=np.uint8)


class Squares(FakeDetector):
    """A square person in each picture but those whose name says "empty"; fails at the picture ``bad``."""

    def __init__(self, batch: int = 1, bad: str = "") -> None:
        super().__init__(self.person, batch=batch)
        self.bad, self.busy = bad, threading.Lock()

    def detect(self, pictures: Sequence[Picture]) -> list[tuple[Instance, ...]]:
        assert self.busy.acquire(blocking=False), "asked by two threads at a time"
        try:
            time.sleep(0.001)
            return super().detect(pictures)
        finally:
            self.busy.release()

    def person(self, picture: Picture) -> tuple[Instance, ...]:
        if picture.name == self.bad:
            raise JudgeError("cannot be looked at", where=picture.name)
        mask = np.zeros(picture.size, dtype=bool)
        mask[10:20, 10:30] = True
        return () if "empty" in picture.name else (from_mask(mask, "person"),)


@pytest.fixture
def images(tmp_path: Path) -> Path:
    """pictures/0.png ... 11.png; every fourth name says "empty"."""
    folder = tmp_path / "pictures"
    folder.mkdir()
    for number in range(12):
        (folder / f"{number}{'_empty' * (number % 4 == 3)}.png").write_bytes(encode(drawn(number)))
    (tmp_path / "out").mkdir()
    return folder


def names_in(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def run(images: Path, names: Sequence[str], detector: Squares | None = None, **options: object) -> Masked:
    workers = options.pop("workers", 2)
    hiding = options.pop("hiding", Hiding())
    job = MaskFolder(images, images.parent / "out", detector or Squares(), hiding, **options)  # type: ignore[arg-type]
    return job.run(names, workers=workers)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["png", "webp"])
@pytest.mark.parametrize("fill", ["black", "mean", "blur", "noise"])
def test_workers_and_batches_do_not_change_a_byte(images: Path, tmp_path: Path, fill: Fill, kind: str) -> None:
    names = names_in(images)
    (images / "2.png").write_bytes(b"damaged")
    made, sheets = [], []
    for index, (workers, batch) in enumerate([(1, 1), (2, 1), (4, 1), (2, 5), (1, 100)]):
        out = tmp_path / f"out{index}"
        out.mkdir()
        job = MaskFolder(images, out, Squares(batch), Hiding(fill=fill, dilation=2, seed=5), kind)  # type: ignore[arg-type]
        done = job.run(names, workers=workers)
        faults = [(name, str(fault)) for name, fault in done.failures]
        made.append((done.rows, faults, {name: (out / name).read_bytes() for name in names_in(out)}))
        sheets.append(done.sheet())
    assert (len(made[0][1]), len(made[0][2])) == (1, 11)
    for other, sheet in zip(made[1:], sheets[1:], strict=True):
        assert other == made[0]
        np.testing.assert_array_equal(sheet, sheets[0])


def test_noise_differs_from_picture_to_picture(images: Path) -> None:
    for name in ("a.png", "b.png"):
        (images / name).write_bytes(encode(drawn(0)))
    run(images, ["a.png", "b.png"], hiding=Hiding(fill="noise"))
    first, second = (np.asarray(Image.open(images.parent / "out" / name)) for name in ("a.png", "b.png"))
    assert (first[10:20, 10:30] != second[10:20, 10:30]).mean() > 0.9
    np.testing.assert_array_equal(first[20:], second[20:])


def test_a_fault_in_a_batch_costs_one_picture(images: Path) -> None:
    detector = Squares(batch=4, bad="10.png")
    done = run(images, names_in(images), detector)
    assert [(name, str(fault)) for name, fault in done.failures] == [("10.png", "10.png: cannot be looked at.")]
    assert len(done.rows) == 11
    assert max(map(len, detector.asked)) == 4
    assert ["10.png"] in detector.asked


@pytest.mark.parametrize(
    ("names", "failing", "reason"),
    [
        (["a.jpg", "a.png"], ["a.png"], "would be written where 'a.jpg' is"),
        (["a.png", "./a.png"], ["./a.png"], "would be written where 'a.png' is"),
        (["sub/a.png", "sub\\a.png"], ["sub\\a.png"], "would be written where 'sub/a.png' is"),
        (["a.png", "a.png"], ["a.png"], "would be written where 'a.png' is"),
        # A file and a folder of one name, in either order.
        (["a.jpg", "a.png/b.png"], ["a.png/b.png"], "would be written where 'a.jpg' is"),
        (["a.png/b.png", "a.jpg"], ["a.jpg"], "would be written where 'a.png/b.png' is"),
        (["a.png", "sheet.jpg"], ["sheet.jpg"], "would be written where 'sheet.png' is"),
        (["a.png", "table/b.png"], ["table/b.png"], "would be written where 'table' is"),
        (["a.png", "x" * 253], ["x" * 253], "has too long a name"),
    ],
)
def test_two_pictures_for_one_place(images: Path, names: list[str], failing: list[str], reason: str) -> None:
    for folder in ("a.png", "sub", "table"):
        (images / folder).mkdir(exist_ok=True)
        (images / folder / "b.png").write_bytes(encode(drawn(2)))
    (images / "sub" / "a.png").write_bytes(encode(drawn(3)))
    if "a.png/b.png" not in names:
        (images / "a.png" / "b.png").unlink()
        (images / "a.png").rmdir()
        (images / "a.png").write_bytes(encode(drawn(0)))
    for name in ("a.jpg", "sheet.jpg", "x" * 253):
        (images / name).write_bytes(encode(drawn(1)))
    done = run(images, names, reserved={"sheet.png", "table"})
    assert [name for name, _ in done.failures] == failing
    assert reason in str(done.failures[0][1])
    assert [row.image for row in done.rows] == names[:1]


def test_pictures_in_folders_keep_their_places(images: Path) -> None:
    (images / "val" / "deep").mkdir(parents=True)
    (images / "val" / "deep" / "x.y.jpeg").write_bytes(encode(drawn(1)))
    done = run(images, ["val/deep/x.y.jpeg"], kind="webp")
    assert [row.masked for row in done.rows] == ["val/deep/x.y.webp"]
    assert names_in(images.parent / "out") == ["val/deep/x.y.webp"]
    # One too large for WebP fails alone.
    (images / "long.png").write_bytes(encode(np.zeros((2, 16_384, 3), dtype=np.uint8)))
    done = run(images, ["long.png", "0.png"], kind="webp")
    [(name, fault)] = done.failures
    assert name == "long.png"
    assert re.search(r"a picture of 16384 x 2 does not fit into webp.*--format png", str(fault))
    assert "\n" not in str(fault)


@pytest.mark.parametrize("workers", [1, 3])
def test_progress_and_opencv_threads(images: Path, workers: int) -> None:
    seen: list[tuple[str, int, int]] = []
    threads = cv2.getNumThreads()
    job = MaskFolder(images, images.parent / "out", Squares(), Hiding())
    job.run([*names_in(images), "gone.png"], workers=workers, progress=lambda *told: seen.append(told))
    assert [done for _, done, _ in seen] == list(range(1, 14))
    assert {total for _, _, total in seen} == {13}
    assert cv2.getNumThreads() == threads


def test_memory_does_not_grow_with_the_folder(images: Path) -> None:
    """However large the folder, no more pictures are held than there are workers; the rest are rows, and few tiles."""
    held: list[weakref.ref[np.ndarray]] = []
    most = []

    class Counting(Squares):
        def detect(self, pictures: Sequence[Picture]) -> list[tuple[Instance, ...]]:
            held[:] = [reference for reference in held if reference() is not None]
            held.extend(weakref.ref(picture.pixels) for picture in pictures)
            most.append(len(held))
            return super().detect(pictures)

    names = [f"{number}.png" for number in range(300)]
    for name in names:
        (images / name).write_bytes(encode(drawn(0)[:4, :4]))
    done = run(images, names, Counting())
    assert len(done.rows) == 300
    assert 1 <= max(most) <= 4
    assert len(done.tiles) <= 4 * SHEET + 4


def test_a_sheet_where_all_that_would_be_shown_failed(images: Path) -> None:
    """Of 200 names every second one is a candidate; just those are missing."""
    names = [f"n{number:03}.png" for number in range(200)]
    for name in names[1::2]:
        (images / name).write_bytes(encode(drawn(0)[:4, :4]))
    done = run(images, names)
    assert (len(done.rows), len(done.failures)) == (100, 100)
    assert done.sheet().shape[2] == 3


def tile(shape: tuple[int, int], *, hidden: bool = True, title: str = "x.png") -> Tile:
    before = np.full((*shape, 3), 60, dtype=np.uint8)
    region = np.zeros(shape, dtype=bool)
    region[: shape[0] // 2] = hidden
    return before_and_after(title, before, np.where(region[:, :, None], 0, before).astype(np.uint8), region)


def test_a_contact_sheet_shows_before_and_after() -> None:
    found = tile((320, 200))
    before, after = found.panels
    assert before.shape == after.shape == (HEIGHT, 100, 3)
    assert (after[:70] == 0).all()
    assert (after[90:] == 60).all()
    assert (before[20:60, 20:80] == 60).all()  # what will be hidden can be seen, within its outline
    assert ((before == (255, 0, 255)).all(axis=2)).sum() > 100
    sheet = contact_sheet([found] * 12)
    assert sheet.shape[1] == 6 + 7 * 208  # pairs of 100 + 2 + 100 pixels, 6 between; of 12 seven have room in 1,600
    assert 2 * HEIGHT < sheet.shape[0] < 3 * HEIGHT
    assert (sheet == 0).all(axis=2).sum() > 12 * 70 * 100


@pytest.mark.parametrize("shape", [(1, 1), (1, 5000), (5000, 1), (3, 2), (2000, 3000)])
def test_tiles_of_any_shape(shape: tuple[int, int]) -> None:
    sheet = contact_sheet([tile(shape, title="a/very/long/name/" * 20), tile((50, 70), title="")])
    assert sheet.dtype == np.uint8
    assert HEIGHT < sheet.shape[0] < 2 * HEIGHT
    assert sheet.shape[1] < 1600


def test_what_is_shown_first() -> None:
    tiles = [tile((160, 160), hidden=number >= 30, title=str(number)) for number in range(40)]
    sheet = Masked(tiles=tiles).sheet()
    # All ten in which something is hidden, then those of the others that have room.
    np.testing.assert_array_equal(sheet, contact_sheet([*tiles[: SHEET - 10], *tiles[30:]]))


def test_exif_turned_pictures_fit_upright_annotations(tmp_path: Path) -> None:
    """A JPEG stored lying, annotated as it is seen."""
    (tmp_path / "out").mkdir()
    lying, exif = np.zeros((40, 60, 3), dtype=np.uint8), Image.Exif()
    lying[:, :20] = 255
    exif[274] = 6
    Image.fromarray(lying).save(tmp_path / "a.jpg", exif=exif, quality=100)
    document = {
        "images": [{"id": 1, "file_name": "a.jpg", "height": 60, "width": 40}],
        "annotations": [{"id": 1, "image_id": 1, "category_id": 1, "bbox": [0, 0, 40, 20]}],
        "categories": [{"id": 1, "name": "person"}],
    }
    (tmp_path / "i.json").write_text(json.dumps(document))
    truth = GroundTruth.read(tmp_path / "i.json")
    done = MaskFolder(tmp_path, tmp_path / "out", truth, Hiding()).run(["a.jpg"], workers=1)
    assert not done.failures
    after = np.asarray(Image.open(tmp_path / "out" / "a.png"))
    assert after.shape == (60, 40, 3)
    assert (after < 30).all()  # the white part, which is at the top once upright, is hidden
