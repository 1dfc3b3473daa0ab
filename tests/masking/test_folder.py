"""A whole folder: the same bytes on any number of workers, and one bad image never ends the others."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

import cv2
import numpy as np
import pytest
from detector_samples import FakeDetector
from helpers import tree

from judge.errors import JudgeError
from judge.masking.folder import CELL, GAP, LINE, SHEET, Finished, Masked, MaskFolder, before_and_after, contact_sheet
from judge.masking.images import encode
from judge.masking.instances import Instance, LoadedImage, from_mask
from judge.masking.people import Hiding

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


def run(images: Path, names: Sequence[str], detector: Squares | None = None, **options: object) -> Masked:
    hiding = options.pop("hiding", Hiding())
    job = MaskFolder(images, images.parent / "out", detector or Squares(), hiding, **options)  # type: ignore[arg-type]
    return job.run(names, workers=2)


def test_workers_do_not_change_a_byte(images: Path, tmp_path: Path) -> None:
    names = [*sorted(tree(images)), "gone.png"]
    (images / "2.png").write_bytes(b"damaged")
    made, sheets, threads = [], [], cv2.getNumThreads()
    for workers in (1, 4):
        out = tmp_path / f"out{workers}"
        out.mkdir()
        seen: list[tuple[str, int, int]] = []
        job = MaskFolder(images, out, Squares("10.png"), Hiding(fill="mean", dilation=2))
        done = job.run(names, workers=workers, progress=lambda *step, seen=seen: seen.append(step))
        faults = [(name, str(fault)) for name, fault in done.failures]
        made.append((done.rows, faults, tree(out)))
        sheets.append(done.sheet())
        assert [of[1:] for of in seen] == [(n, 13) for n in range(1, 14)]
    assert [name for name, _ in made[0][1]] == ["10.png", "2.png", "gone.png"]
    assert len(made[0][2]) == 10
    assert made[0] == made[1]
    np.testing.assert_array_equal(*sheets)
    assert cv2.getNumThreads() == threads


def test_finished_images_are_not_masked_again(images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless the image, the settings or the masked image changed, or the contact sheet shows it."""
    monkeypatch.setattr("judge.masking.folder._CANDIDATES", 10)
    names = [f"n{number:03}.png" for number in range(20)]  # 10 of them are candidates for the contact sheet.
    for name in names:
        (images / name).write_bytes(encode(drawn(0)[:30, :40]))
    log, out = tmp_path / "log", tmp_path / "out"

    def again(key: str = "one") -> tuple[Masked, int]:
        detector = Squares()
        return run(images, names, detector, finished=Finished(log, out, key)), len(detector.called)

    first, count = again()
    assert count == 20
    log.write_text(log.read_text()[:-30])  # As a kill leaves it.
    (images / names[3]).write_bytes(encode(drawn(1)[:30, :40]))
    (out / names[5]).write_bytes(b"")
    other, count = again()
    assert count in {12, 13}  # The last line may be of an image on the sheet.
    assert other.rows == first.rows
    np.testing.assert_array_equal(other.sheet(), first.sheet())
    assert again()[1] == 10
    assert again("two")[1] == 20


def test_two_images_for_one_place(images: Path) -> None:
    (images / "sub").mkdir()
    for name in ("a.jpg", "a.png", "sub/x.y.jpeg", "sheet.jpg", "x" * 253):
        (images / name).write_bytes(encode(drawn(1)))
    reasons = {
        "a.png": "would be written where 'a.jpg' is",
        "sub\\x.y.jpeg": "would be written where 'sub/x.y.jpeg' is",
        "sheet.jpg": "would be written where 'sheet.png' is",
        "x" * 253: "has too long a name",
    }
    done = run(images, ["a.jpg", "sub/x.y.jpeg", *reasons], reserved={"sheet.png"})
    assert {name for name, _ in done.failures} == reasons.keys()
    assert all(reasons[name] in str(fault) for name, fault in done.failures)
    assert [row.image for row in done.rows] == ["a.jpg", "sub/x.y.jpeg"]
    assert [row.masked for row in done.rows] == sorted(tree(images.parent / "out")) == ["a.png", "sub/x.y.png"]


def panel(shape: tuple[int, int], *, title: str = "x.png") -> np.ndarray:
    before = np.full((*shape, 3), 60, dtype=np.uint8)
    region = np.zeros(shape, dtype=bool)
    region[: shape[0] // 2] = True
    return before_and_after(title, before, np.where(region[:, :, None], 0, before).astype(np.uint8), region)


def test_a_contact_sheet_shows_before_and_after() -> None:
    width, height = CELL
    made = panel((2 * height, 200))
    before, after = made[:height, :100], made[:height, width + GAP : width + GAP + 100]
    assert (after[:70] == 0).all()
    assert (after[90:] == 60).all()
    assert (before[20:60, 20:80] == 60).all()  # What will be hidden is visible within its outline.
    assert (before == (255, 0, 255)).all(axis=2).sum() > 100
    assert (made[:height, 100:width] == 255).all()
    assert made[height + GAP :].min() < 100  # The title.
    for shape in [(1, 1), (1, 5000), (5000, 1)]:
        sheet = contact_sheet([panel(shape, title="a/very/long/name/" * 20), panel((50, 70), title="")])
        assert sheet.shape == (height + GAP + LINE, 6 * (width + GAP), 3)  # Three panels, the last one white.
        assert (sheet[:, -2 * (width + GAP) :] == 255).all()
    # The ten with something hidden come first, then those of the others that have room.
    tiles = [(number >= 30, panel((160, 160), title=str(number))) for number in range(40)]
    expected = [made for _, made in (*tiles[: SHEET - 10], *tiles[30:])]
    np.testing.assert_array_equal(Masked(tiles=tiles).sheet(), contact_sheet(expected))
    assert (Masked().sheet() == 255).all()
