"""Two processes of one thread compared with one: captioning, and the training of judges.

    python scripts/bench_processes.py
    python scripts/bench_processes.py captioning --pairs 9

Each pair is a launch by ``accelerate launch`` of one process and one of two, a thread each, timed inside, from the
moment when all are ready until the last has the results of all: by the clock, and by the CPU seconds of the busiest
process, which other load on the machine changes less. ``products`` is what the machine itself gives: matrix products
that share nothing. ``captioning``: a BLIP of random weights on drawn scenes. ``members``: the whole of ``judge
evaluate`` of LIC by LSTMs, with tables and intervals, which one process makes. Figures: BENCHMARKS.md.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated

import torch
import typer
from bench_judge import draw, save_blip
from timing import machine, ratios

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
    """Captions of the first ``amount`` images."""
    images = folder / "world" / "images"
    names = {path.stem: path.name for path in sorted(images.iterdir())[:amount]}
    with tempfile.TemporaryDirectory() as place:
        caption_pictures(str(folder / "blip"), MaskedImages(images, names), Writing(), notes=Path(place) / "notes")


def members(folder: Path, amount: int) -> None:
    """LIC by LSTMs of ``amount`` epochs: 2 seeds, both sides, each caption index."""
    world = folder / "world"
    settings = {"human": world / "captions_human.json", "captions": str(world / "captions" / "none.json")}
    settings |= {"labels": world / "labels.csv", "metrics": ["lic"], "judge": ["lstm"], "protocol": "paper"}
    settings |= {"seeds": 2, "epochs": amount, "resamples": 100, "refits": 0, "workers": 1}
    run(make_config(settings, RunConfig))


PARTS: dict[str, tuple[Callable[[Path, int], None], int, int]] = {
    "products": (products, 20, 300),
    "captioning": (captioning, 16, 384),
    "members": (members, 1, 2),
}
"""Part -> the work, how much of it is done to warm up, and how much is timed."""


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
    command += [
        "--num_processes",
        processes,
        "--main_process_port",
        port,
        __file__,
        "--timed",
        part,
        "--inside",
        folder,
    ]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(  # noqa: S603 - this very script
        list(map(str, command)), env=environment, stdout=subprocess.PIPE, text=True, check=True
    )
    clock, busiest = done.stdout.split()[-2:]
    return float(clock), float(busiest)


def compare(part: str, folder: Path, pairs: int) -> None:
    """Print each pair, and the medians."""
    one, two = [], []
    for _ in range(pairs):
        one.append(launch(part, folder, 1))
        two.append(launch(part, folder, 2))
        clock, busiest = (f"{a:.1f} / {b:.1f} s" for a, b in zip(one[-1], two[-1], strict=True))
        print(f"{part}: clock {clock}, CPU {busiest}; load {os.getloadavg()[0]:.1f}", flush=True)
    for what, first, second in zip(("clock", "CPU"), zip(*one, strict=True), zip(*two, strict=True), strict=True):
        print(f"{part}: one / two by {what}: {ratios(first, second)}", flush=True)


def main(
    parts: Annotated[list[str] | None, typer.Argument(help=f"of {', '.join(PARTS)}; by default all")] = None,
    pairs: Annotated[int, typer.Option(help="launches of one process and of two")] = 5,
    inside: Annotated[Path | None, typer.Option(hidden=True)] = None,
) -> None:
    """Draw, launch, compare."""
    if parts and inside:
        take_time(parts[0], inside)
        return
    print(machine())
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        save_blip(folder / "blip", draw(600, SIZE, folder / "world"), size=SIZE, **WIDTHS)
        for part in parts or PARTS:
            compare(part, folder, pairs)


if __name__ == "__main__":
    typer.run(main)
