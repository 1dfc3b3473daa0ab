"""Two processes of one thread against one: captioning, and judges trained.

    python scripts/bench_processes.py
    python scripts/bench_processes.py --parts captioning --pairs 9

Each figure is of a pair of launches by ``accelerate launch``, of one process and of two, in turns, one thread each,
timed inside, from the moment when all are ready (a first small piece of work is done) until the last has everybody's
results: on the clock, and by the CPU seconds of the process that needs most, which other load on the machine changes
less. ``products`` is what the machine itself gives at that time: matrix products that share nothing. ``captioning``: a
BLIP of random weights on drawn scenes, notes written. ``members``: all of ``judge evaluate`` of LIC by LSTMs, tables
and intervals included, which one process makes. Figures: BENCHMARKS.md.
"""

from __future__ import annotations

import argparse
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import torch
from bench_judge import draw, machine, save_blip

from judge.captioning import caption_pictures
from judge.captioning.writer import Writing
from judge.commands.evaluate import RunConfig, run
from judge.config import make_config
from judge.masking.masked_images import MaskedImages
from judge.training.launch import end_launch, gather, make_accelerator, share_out

ROOT = Path(__file__).parents[1]
SIZE = 160
WIDTHS = {"hidden_size": 128, "intermediate_size": 512, "num_hidden_layers": 4, "num_attention_heads": 4}


def products(_: Path, amount: int) -> None:
    """``amount`` rounds of products of matrices that fit into a core's own cache."""

    def multiply(rounds: Sequence[int]) -> Iterator[None]:
        one = torch.ones(256, 256)
        for _ in rounds:
            for _ in range(200):
                one @ one
            yield

    share_out(range(amount), multiply)


def captioning(folder: Path, amount: int) -> None:
    """Captions of the first ``amount`` pictures."""
    pictures = folder / "world" / "images"
    names = {path.stem: path.name for path in sorted(pictures.iterdir())[:amount]}
    with tempfile.TemporaryDirectory() as kept:
        caption_pictures(str(folder / "blip"), MaskedImages(pictures, names), Writing(), notes=Path(kept) / "notes")


def members(folder: Path, amount: int) -> None:
    """LIC by LSTMs of ``amount`` epochs: 2 seeds, of people and of the captioner, each caption index."""
    world = folder / "world"
    told = {
        "human": world / "captions_human.json",
        "captions": str(world / "captions" / "none.json"),
        "labels": world / "labels.csv",
    }
    told |= {"metrics": ["lic"], "judge": ["lstm"], "protocol": "paper", "seeds": 2, "epochs": amount}
    run(make_config(told | {"resamples": 100, "refits": 0, "workers": 1}, RunConfig))


PARTS: dict[str, tuple[Callable[[Path, int], None], int, int]] = {
    "products": (products, 20, 300),
    "captioning": (captioning, 16, 384),
    "members": (members, 1, 2),
}
"""What is timed, how much of it is done to begin with, and how much is timed."""


def take_time(part: str, folder: Path) -> None:
    """In each process of a launch; the main one prints the seconds, on the clock and of the CPU."""
    work, first, amount = PARTS[part]
    accelerator = make_accelerator()
    work(folder, first)
    accelerator.wait_for_everyone()
    start, before = time.perf_counter(), time.process_time()
    work(folder, amount)
    busiest = max(gather(time.process_time() - before))
    if accelerator.is_main_process:
        print(time.perf_counter() - start, busiest)
    end_launch()


def launch(part: str, folder: Path, processes: int) -> tuple[float, float]:
    """Seconds on so many processes: on the clock, and of the CPU."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "accelerate.commands.launch", "--config_file", ROOT / "accelerate_config.yaml"]
    command += ["--num_processes", processes, "--main_process_port", port, __file__, "--timed", part, "--in", folder]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(  # noqa: S603 - this very script
        list(map(str, command)), env=environment, stdout=subprocess.PIPE, text=True, check=True
    )
    clock, busiest = done.stdout.split()[-2:]
    return float(clock), float(busiest)


def compare(part: str, folder: Path, pairs: int) -> None:
    """Print each pair, and the medians."""
    ratios = []
    for _ in range(pairs):
        one, two = launch(part, folder, 1), launch(part, folder, 2)
        ratios.append((one[0] / two[0], one[1] / two[1]))
        clock, busiest = (f"{a:.1f} / {b:.1f} s" for a, b in zip(one, two, strict=True))
        print(f"{part}: clock {clock}, CPU {busiest}; load average {os.getloadavg()[0]:.1f}", flush=True)
    for what, found in zip(("clock", "CPU"), zip(*ratios, strict=True), strict=True):
        low, middle, high = min(found), statistics.median(found), max(found)
        print(f"{part}: one / two by {what}: median {middle:.2f}, {low:.2f} to {high:.2f}", flush=True)


def main() -> None:
    """Draw, launch, compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", default=",".join(PARTS), help=f"of {', '.join(PARTS)} [%(default)s]")
    parser.add_argument("--pairs", type=int, default=5, help="launches of one process and of two [%(default)s]")
    parser.add_argument("--timed", choices=PARTS, help=argparse.SUPPRESS)
    parser.add_argument("--in", dest="folder", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.timed:
        take_time(given.timed, given.folder)
        return
    print(machine())
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        save_blip(folder / "blip", draw(600, SIZE, folder / "world"), size=SIZE, **WIDTHS)
        for part in given.parts.split(","):
            compare(part, folder, given.pairs)


if __name__ == "__main__":
    main()
