"""The demo in a loop, in one process: nothing may grow.

- memory of this process: its slope over the last two thirds of the loops, less twice its standard error, exceeds 0.1 %
  of its mean a loop;
- open files, threads and children: more after the last loop than after the third;
- temporary files and folders: any is left after a loop. joblib leaves an empty folder a call with workers, which goes
  with the process, and is counted apart.
"""

from __future__ import annotations

import gc
import logging
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import astuple, dataclass, fields
from pathlib import Path

import numpy as np
import psutil

_SHARED = Path("/dev/shm")  # Where joblib puts its folders.
SHARE = 1e-3
"""Of the mean, by which memory may grow in a loop."""


@dataclass(frozen=True)
class Loop:
    """What one loop left."""

    seconds: float
    own: float
    """Megabytes of memory."""
    workers: float
    files: int
    threads: int
    children: int
    left: int
    of_joblib: int = 0


def growing(loops: Sequence[Loop]) -> list[str]:
    """What grows, in a line each."""
    found = []
    own = np.array([loop.own for loop in loops[len(loops) // 3 :]])
    slope, error = slope_of(own)
    if slope - 2 * error > SHARE * own.mean():
        found.append(f"memory: {slope:+.2f} MB a loop (standard error {error:.2f}), mean {own.mean():.0f} MB")
    early, last = loops[min(2, len(loops) - 1)], loops[-1]
    pairs = {name: (getattr(early, name), getattr(last, name)) for name in ("files", "threads", "children")}
    told = "{}: {} after the third loop, {} after the last"
    found += [told.format(name, *pair) for name, pair in pairs.items() if pair[1] > pair[0]]
    if left := max(loop.left for loop in loops):
        found.append(f"temporary files: {left} left")
    return found


def slope_of(values: np.ndarray) -> tuple[float, float]:
    """Of the least-squares line through values at 0, 1, ..., and its standard error."""
    places = np.arange(len(values)) - (len(values) - 1) / 2
    spread = (places**2).sum()
    slope = float(places @ values / spread)
    rest = values - values.mean() - slope * places
    return slope, float(np.sqrt((rest**2).sum() / max(1, len(values) - 2) / spread))


def measure(seconds: float, before: set[str], temporary: Path) -> Loop:
    """As things are."""
    gc.collect()
    process = psutil.Process()
    children = process.children(recursive=True)
    workers = sum(child.memory_info().rss for child in children)
    others = {path.name for place in (temporary, _SHARED) if place.is_dir() for path in place.iterdir()} - before
    of_joblib = {name for name in others if name.startswith(f"joblib_memmapping_folder_{process.pid}_")}
    left = [name for name in others if name.startswith(("caption-judge-", "tmp"))]
    counts = process.num_fds(), process.num_threads(), len(children), len(left), len(of_joblib)
    return Loop(seconds, process.memory_info().rss / 1e6, workers / 1e6, *counts)


def demo(place: Path, images: int) -> Callable[[], None]:
    """``judge demo`` as the command line does it."""
    from judge.commands.app import app

    def run() -> None:
        with Path(os.devnull).open("w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
            app(["demo", "--images", str(images), "--out", str(place / "demo")], standalone_mode=False)

    return run


def long_form(seed: int, end: float, names: Sequence[str]) -> int:
    """Run the demo with 300 images until ``end``; print a line a loop, then what grows."""
    logging.disable()
    loops: list[Loop] = []
    with tempfile.TemporaryDirectory() as place:
        temporary = Path(place, "temporary")
        temporary.mkdir()
        tempfile.tempdir = os.environ["TMPDIR"] = str(temporary)
        run = demo(Path(place), 300)
        before = {path.name for path in _SHARED.iterdir()} if _SHARED.is_dir() else set()
        print("| loop | " + " | ".join(field.name for field in fields(Loop)) + " |")
        while time.monotonic() < end or len(loops) < 4:
            begun = time.monotonic()
            run()
            loops.append(measure(time.monotonic() - begun, before, temporary))
            print("| " + " | ".join(f"{value:.0f}" for value in (len(loops), *astuple(loops[-1]))) + " |", flush=True)
    found = growing(loops)
    slope, error = slope_of(np.array([loop.own for loop in loops[len(loops) // 3 :]]))
    print(f"\n{len(loops)} loops; memory {slope:+.2f} MB a loop (standard error {error:.2f})")
    print("".join(f"grows: {line}\n" for line in found))
    return len(found)
