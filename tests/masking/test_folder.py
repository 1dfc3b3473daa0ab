"""A whole folder: the same bytes on any number of workers, and one bad image never ends the others."""

from __future__ import annotations

import json
import threading
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
from judge.masking.folder import SHEET, Finished, Masked, MaskFolder
from judge.masking.images import encode
from judge.masking.instances import Instance, LoadedImage, from_mask
from judge.masking.people import Hiding
from judge.masking.sheet import HEIGHT, Tile, before_and_after, contact_sheet

SIZE = (40, 60)


def drawn(number: int) -> np.ndarray:
    return np.random.default_rng(number).integers(0, 256, (*SIZE, 3), dtype=np.uint8)


class Squares(FakeDetector):
    """A square person in each image whose name does not say "empty"; fails on the image ``bad``."""

    def __init__(self, bad: str = "") -> None:
        super().__init__(self.person)
        self.bad, self.busy = bad, threading.Lock()

    def detect(self, image: LoadedImage) -> tuple[Instance, ...]:
        assert self.busy.acquire(blocking=False), "two threads detect at a time"
        try:
            return super().detect(image)
        finally:
            self.busy.release()

    def person(self, image: LoadedImage) -> tuple[Instance, ...]:
        if image.name == self.bad:
            raise JudgeError("cannot be processed", where=image.name)
        mask = np.zeros(image.size, dtype=bool)
        mask[10:20, 10:30] = True
        return () if "empty" in image.name else (from_mask(mask, "person"),)


@pytest.fixture
def images(tmp_path: Path) -> Path:
    """images/0.png ... 11.png; every fourth name says "empty"."""
    folder = tmp_path / "images"
    folder.mkdir()
    for number in range(12):
        (folder / f"{number}{'_empty' * (number % 4 == 3)}.png").write_bytes(encode(drawn(number)))
    (tmp_path / "out").mkdir()
    return folder


def names_in(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def run(images: Path, names: Sequence[str], detector: Squares | None = None, **options: object) -> Masked:
    hiding = options.pop("hiding", Hiding())
    job = MaskFolder(images, images.parent / "out", detector or Squares(), hiding, **options)  # type: ignore[arg-type]
    return job.run(names, workers=2)


@pytest.mark.parametrize(("kind", "fill"), [("png", "black"), ("png", "noise"), ("webp", "blur")])
def test_workers_do_not_change_a_byte(images: Path, tmp_path: Path, fill: str, kind: str) -> None:
    names = [*names_in(images), "gone.png"]
    (images / "2.png").write_bytes(b"damaged")
    made, sheets, threads = [], [], cv2.getNumThreads()
    for workers in (1, 2, 4):
        out = tmp_path / f"out{workers}"
        out.mkdir()
        seen: list[tuple[str, int, int]] = []
        job = MaskFolder(images, out, Squares("10.png"), Hiding(fill=fill, dilation=2, seed=5), kind)  # type: ignore[arg-type]
        done = job.run(names, workers=workers, progress=lambda *told, seen=seen: seen.append(told))
        faults = [(name, str(fault)) for name, fault in done.failures]
        made.append((done.rows, faults, {name: (out / name).read_bytes() for name in names_in(out)}))
        sheets.append(done.sheet())
        assert [of[1:] for of in seen] == [(n, 13) for n in range(1, 14)]
    assert [name for name, _ in made[0][1]] == ["10.png", "2.png", "gone.png"]
    assert len(made[0][2]) == 10
    assert made[1:] == made[:1] * 2
    assert all(np.array_equal(sheet, sheets[0]) for sheet in sheets)
    assert cv2.getNumThreads() == threads


def test_finished_images_are_not_masked_again(images: Path, tmp_path: Path) -> None:
    """Unless the image, the settings or the masked image changed, or the contact sheet shows it."""
    names = [f"n{number:03}.png" for number in range(200)]  # 96 of them are candidates for the contact sheet.
    for name in names:
        (images / name).write_bytes(encode(drawn(0)[:30, :40]))
    log, out = tmp_path / "log", tmp_path / "out"

    def again(key: str = "one") -> tuple[Masked, int]:
        detector = Squares()
        return run(images, names, detector, finished=Finished(log, out, key)), len(detector.called)

    first, count = again()
    assert count == 200
    log.write_text(log.read_text()[:-30])  # As a kill leaves it.
    (images / names[3]).write_bytes(encode(drawn(1)[:30, :40]))
    (out / names[5]).write_bytes(b"")
    other, count = again()
    assert count in {98, 99}  # The last line may be of an image on the sheet.
    assert other.rows == first.rows
    np.testing.assert_array_equal(other.sheet(), first.sheet())
    assert again()[1] == 96
    assert again("two")[1] == 200


@pytest.mark.parametrize(
    ("names", "failing", "reason"),
    [
        (["a.jpg", "a.png"], ["a.png"], "would be written where 'a.jpg' is"),
        (["sub/a.png", "sub\\a.png"], ["sub\\a.png"], "would be written where 'sub/a.png' is"),
        # A file and a folder of one name, in either order.
        (["a.jpg", "a.png/b.png"], ["a.png/b.png"], "would be written where 'a.jpg' is"),
        (["a.png/b.png", "a.jpg"], ["a.jpg"], "would be written where 'a.png/b.png' is"),
        (["a.png", "sheet.jpg"], ["sheet.jpg"], "would be written where 'sheet.png' is"),
        (["a.png", "x" * 253], ["x" * 253], "has too long a name"),
    ],
)
def test_two_images_for_one_place(images: Path, names: list[str], failing: list[str], reason: str) -> None:
    for folder in ("a.png", "sub"):
        (images / folder).mkdir(exist_ok=True)
        (images / folder / "b.png").write_bytes(encode(drawn(2)))
    (images / "sub" / "a.png").write_bytes(encode(drawn(3)))
    if "a.png/b.png" not in names:
        (images / "a.png" / "b.png").unlink()
        (images / "a.png").rmdir()
        (images / "a.png").write_bytes(encode(drawn(0)))
    for name in ("a.jpg", "sheet.jpg", "x" * 253):
        (images / name).write_bytes(encode(drawn(1)))
    done = run(images, names, reserved={"sheet.png"})
    assert [name for name, _ in done.failures] == failing
    assert reason in str(done.failures[0][1])
    assert [row.image for row in done.rows] == names[:1]


def test_images_in_folders_keep_their_places(images: Path) -> None:
    (images / "val" / "deep").mkdir(parents=True)
    (images / "val" / "deep" / "x.y.jpeg").write_bytes(encode(drawn(1)))
    (images / "long.png").write_bytes(encode(np.zeros((2, 16_384, 3), dtype=np.uint8)))
    done = run(images, ["val/deep/x.y.jpeg", "long.png"], kind="webp")
    assert [row.masked for row in done.rows] == names_in(images.parent / "out") == ["val/deep/x.y.webp"]
    [(name, fault)] = done.failures  # Too large for WebP.
    assert name == "long.png"
    assert "an image of 16384 x 2 does not fit into webp" in str(fault)


def test_memory_does_not_grow_with_the_folder(images: Path) -> None:
    """No more images are in memory than there are workers; the rest are rows, and few tiles."""
    held: list[weakref.ref[np.ndarray]] = []
    most = []

    class Counting(Squares):
        def detect(self, image: LoadedImage) -> tuple[Instance, ...]:
            held[:] = [reference for reference in held if reference() is not None]
            held.append(weakref.ref(image.pixels))
            most.append(len(held))
            return super().detect(image)

    names = [f"{number}.png" for number in range(300)]
    for name in names:
        (images / name).write_bytes(encode(drawn(0)[:4, :4]))
    done = run(images, names, Counting())
    assert len(done.rows) == 300
    assert 1 <= max(most) <= 4
    assert len(done.tiles) <= 4 * SHEET + 4


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
    assert (before[20:60, 20:80] == 60).all()  # What will be hidden is visible within its outline.
    assert ((before == (255, 0, 255)).all(axis=2)).sum() > 100
    sheet = contact_sheet([found] * 12)
    assert sheet.shape[1] == 6 + 7 * 208  # Pairs of 100 + 2 + 100 pixels, 6 between; seven of 12 fit into 1,600.
    assert 2 * HEIGHT < sheet.shape[0] < 3 * HEIGHT
    for shape in [(1, 1), (1, 5000), (5000, 1), (2000, 3000)]:
        sheet = contact_sheet([tile(shape, title="a/very/long/name/" * 20), tile((50, 70), title="")])
        assert HEIGHT < sheet.shape[0] < 2 * HEIGHT
        assert sheet.shape[1] < 1600
    # The ten with something hidden come first, then those of the others that have room.
    tiles = [tile((160, 160), hidden=number >= 30, title=str(number)) for number in range(40)]
    np.testing.assert_array_equal(Masked(tiles=tiles).sheet(), contact_sheet([*tiles[: SHEET - 10], *tiles[30:]]))


def test_images_turned_by_exif_fit_upright_annotations(tmp_path: Path) -> None:
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
    assert (after < 30).all()  # The white part, at the top once upright, is hidden.
