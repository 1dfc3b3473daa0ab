"""The demo in a loop, in one process: nothing may grow.

- memory of this process: its slope over the last two thirds of the loops, less twice its standard error, exceeds 0.1 %
  of its mean a loop;
- open files, threads, child processes and temporary files: more after the last loop than after the third.
"""

from __future__ import annotations

import gc
import logging
import os
import tempfile
import time
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import numpy as np
import psutil
from scipy.stats import linregress

MEMORY, COUNTS = "memory in MB", ("open files", "threads", "children", "temporary files")
SHARE = 1e-3
"""Of the mean, by which memory may grow in a loop."""


def growing(loops: Sequence[dict[str, float]]) -> list[str]:
    """What grows, in a line each."""
    memory = np.array([loop[MEMORY] for loop in loops[len(loops) // 3 :]])
    line, found = linregress(np.arange(len(memory)), memory), list[str]()
    if line.slope - 2 * line.stderr > SHARE * memory.mean():
        found.append(
            f"memory: {line.slope:+.2f} MB a loop (standard error {line.stderr:.2f}), mean {memory.mean():.0f}"
        )
    third, last = loops[min(2, len(loops) - 1)], loops[-1]
    found += [f"{name}: {third[name]}, then {last[name]}" for name in COUNTS if last[name] > third[name]]
    return found


def measure(temporary: Path) -> dict[str, float]:
    """What this process holds."""
    gc.collect()
    process = psutil.Process()
    counts = process.num_fds(), process.num_threads(), len(process.children(recursive=True))
    return {MEMORY: process.memory_info().rss / 1e6} | dict(
        zip(COUNTS, (*counts, len(list(temporary.iterdir()))), strict=True)
    )


def long_form(seed: int, end: float, names: Sequence[str]) -> int:
    """Run the demo with 300 images until ``end``, as the command line does; print a line a loop, then what grows."""
    from judge.commands.app import app

    logging.disable()
    loops = list[dict[str, float]]()
    with tempfile.TemporaryDirectory() as place:
        temporary = Path(place, "temporary")
        temporary.mkdir()
        tempfile.tempdir = os.environ["TMPDIR"] = str(temporary)
        while time.monotonic() < end or len(loops) < 4:
            with Path(os.devnull).open("w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
                app(["demo", "--images", "300", "--out", str(Path(place, "demo"))], standalone_mode=False)
            loops.append(measure(temporary))
            print(len(loops), ", ".join(f"{name} {value:.0f}" for name, value in loops[-1].items()), flush=True)
    found = growing(loops)
    print("".join(f"grows: {line}\n" for line in found))
    return len(found)
