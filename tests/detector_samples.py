"""Pictures for detectors, and what every detector must do with them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from judge.masking.detectors import Detector
from judge.masking.images import list_pictures, read_picture
from judge.masking.instances import Instance, Picture

SIZES = [(96, 96), (137, 401), (401, 37), (96, 128), (1, 60), (96, 128)]
"""Height and width: square, wide, tall, two alike, a line."""


class FakeDetector:
    """Finds what ``find`` returns; ``asked`` holds the names of the pictures, batch by batch."""

    name, categories = "fake", ("person", "dog")

    def __init__(self, find: Callable[[Picture], tuple[Instance, ...]], *, key: str = "one", batch: int = 2) -> None:
        self.find, self.key, self.batch = find, key, batch
        self.asked: list[list[str]] = []

    def detect(self, pictures: Sequence[Picture]) -> list[tuple[Instance, ...]]:
        self.asked.append([picture.name for picture in pictures])
        return [self.find(picture) for picture in pictures]


def odd_pictures(sizes: Sequence[tuple[int, int]] = SIZES, seed: int = 0) -> list[Picture]:
    """Coarse noise."""
    rng = np.random.default_rng(seed)
    pictures = []
    for number, (height, width) in enumerate(sizes):
        coarse = rng.integers(0, 256, (-(-height // 8), -(-width // 8), 3), dtype=np.uint8)
        pixels = np.kron(coarse, np.ones((8, 8, 1), dtype=np.uint8))[:height, :width]
        pictures.append(Picture(f"{number}.png", np.ascontiguousarray(pixels)))
    return pictures


def real_pictures(shared: Path, count: int = 3) -> list[Picture]:
    """Of COCO, some of each orientation."""
    folder = shared / "coco-mini" / "val2017"
    return [read_picture(folder, name) for name in list_pictures(folder)[:count]]


def check_contract(detector: Detector, pictures: Sequence[Picture] = ()) -> list[tuple[Instance, ...]]:
    """What the protocol promises, of odd pictures unless others are given; returns what was found."""
    pictures = pictures or odd_pictures()
    found = detector.detect(pictures)
    assert detector.detect([]) == []
    assert len(found) == len(pictures)
    for picture, instances in zip(pictures, found, strict=True):
        height, width = picture.pixels.shape[:2]
        for instance in instances:
            assert instance.size == (height, width)
            assert instance.mask.shape == (height, width)
            assert instance.area > 0
            assert not instance.crowd
            assert 0.05 <= instance.score <= 1
            x, y, w, h = instance.box
            assert min(x, y, w, h) >= 0
            assert x + w <= width + 1e-3
            assert y + h <= height + 1e-3
    return found


def check_independence(detector: Detector) -> None:
    """What is found in a picture does not depend on the others of its batch."""
    pictures = odd_pictures([(96, 96)] * 5 + [(60, 200), (200, 60)])
    together = detector.detect(pictures)
    alone = [detector.detect([picture])[0] for picture in pictures]
    assert np.mean([agreement(one, two) for one, two in zip(alone, together, strict=True)]) > 0.9


def check_keys(load: Callable[..., Detector], weights: Path, other: Path, options: Sequence[Mapping[str, Any]]) -> None:
    """Other weights and each of ``options`` have keys of their own; the file's name and the batch have none."""
    copy = weights.with_name("copy.safetensors")
    copy.write_bytes(weights.read_bytes())
    assert load(copy, device="cpu", batch=1).key == load(weights, device="cpu").key
    keys = {load(weights, device="cpu", **option).key for option in ({}, *options)}
    assert len(keys | {load(other, device="cpu").key}) == len(options) + 2


class Bomb:
    """Unpickling it would leave a mark."""

    def __init__(self, mark: Path) -> None:
        self.marker = mark

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.marker,)


def overlap(one: np.ndarray, two: np.ndarray) -> float:
    """Intersection over union of masks."""
    return float((one & two).sum() / max(1, (one | two).sum()))


def agreement(one: Sequence[Instance], two: Sequence[Instance]) -> float:
    """Share of the instances of ``one`` that have their like in ``two``: label, score, box, mask.

    Less than 1 is no fault: of two boxes of nearly one score suppression may keep the one or the other.
    """
    if not one:
        return float(not two)

    def alike(a: Instance, b: Instance) -> bool:
        return (
            a.label == b.label
            and abs(a.score - b.score) < 0.01
            and float(np.abs(np.subtract(a.box, b.box)).max()) < 1
            and overlap(a.mask, b.mask) > 0.8
        )

    return sum(any(alike(a, b) for b in two) for a in one) / len(one)


def run_apart(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """``code`` in a fresh interpreter: home and working directory are empty folders in ``folder``, nothing connects.

    The code's own ``print`` comes back; each attempt to connect is a line "connected" on standard error.
    """
    home, here, temporary = (folder / name for name in ("home", "here", "temporary"))
    for path in (home, here, temporary):
        path.mkdir()
    guard = """
import os, socket, sys
def refuse(*arguments, **options):
    print("connected", file=sys.stderr)
    raise OSError("no network in this test")
socket.socket.connect = socket.socket.connect_ex = socket.getaddrinfo = socket.create_connection = refuse
"""
    root = Path(__file__).parents[1]
    environment = {
        "HOME": str(home), "TMPDIR": str(temporary), "PYTHONPATH": str(root), "PATH": "/usr/bin:/bin",
        "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1",
    }  # fmt: skip
    command = [sys.executable, "-W", "error::ResourceWarning", "-c", guard + code]
    done = subprocess.run(command, cwd=here, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert "connected" not in done.stderr
    left = [*home.rglob("*"), *here.rglob("*"), *(path for path in temporary.rglob("*") if path.is_file())]
    assert not left, left
    return done
