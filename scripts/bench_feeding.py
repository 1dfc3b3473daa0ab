"""What feeding Hugging Face judges costs: pictures kept resized against pictures read anew, and batches collated ahead.

    python scripts/bench_feeding.py
    python scripts/bench_feeding.py --scenes 512 --size 160 --pairs 5

Scenes are drawn, weights random. ``feed``: batches of BLIP-384's shape, collated and sent to the device, for a judge
that costs nothing; ``train``: three epochs of a small BLIP on one thread. Ratios are of pairs, one after the other.
Figures: BENCHMARKS.md.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from bench_judge import Drawn, cached, clock, draw, machine, save_blip, threads, train, use

from judge.judges import Blueprint, Materials
from judge.training.batches import Batches, MicroBatch
from judge.training.loop import NetworkJudge, Trainer

PIECE = 8
SMALL: dict[str, Any] = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "vocab_size": 400,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "sep_token_id": 2,
    "pad_token_id": 0,
}


def materials_of(blueprint: Blueprint, drawn: Drawn, folder: Path) -> tuple[Materials, Materials]:
    """Pictures that are read anew, and kept ones."""
    anew = Materials(drawn.pictures)
    kept, seconds = cached(blueprint.name, drawn, anew, folder)
    print(f"{len(drawn.samples)} pictures resized in {seconds:.2f} s", flush=True)
    return anew, replace(anew, features=kept)


def ratios(name: str, slow: Callable[[], float], fast: Callable[[], float], pairs: int) -> None:
    """Print the median of seconds ``slow`` / ``fast``, and the range."""
    found = [slow() / fast() for _ in range(pairs)]
    print(f"ratio {name}: {statistics.median(found):.2f} ({min(found):.2f} to {max(found):.2f})", flush=True)


def time_feed(blueprint: Blueprint, drawn: Drawn, folder: Path, pairs: int) -> None:
    """Seconds of a pass over all samples, in pieces of eight."""
    places = range(len(drawn.samples))
    pieces = [MicroBatch(places[start : start + PIECE]) for start in range(0, len(places), PIECE)]

    def feeding(materials: Materials, workers: int) -> Callable[[], float]:
        judge = NetworkJudge(blueprint, drawn.target, blueprint.recipe, Trainer(use()), materials)  # type: ignore[arg-type]
        network = judge.make(drawn.samples, 0)
        batches = Batches(network, drawn.samples, drawn.target, judge.trainer.accelerator.device, workers=workers)

        def once() -> float:
            start = clock()
            assert sum(1 for _ in batches.load(pieces)) == len(pieces)
            return clock() - start

        once()  # Processes start.
        print(f"{workers} workers, {'kept' if materials.features else 'anew'}: {len(places) / once():.0f} samples/s")
        return once

    anew, kept = materials_of(blueprint, drawn, folder)
    before = feeding(anew, 0)
    for name, materials, workers in (("kept", kept, 0), ("2 workers", anew, 2), ("kept, 2 workers", kept, 2)):
        ratios(f"anew in one process / {name}", before, feeding(materials, workers), pairs)


def time_training(blueprint: Blueprint, drawn: Drawn, folder: Path, pairs: int) -> None:
    """Seconds of three epochs, and whether the judges are the same."""
    ways = materials_of(blueprint, drawn, folder)
    judges: list[NetworkJudge] = []

    def fit(materials: Materials) -> float:
        judge, seconds = train(blueprint, drawn, materials, use(cpu=True), epochs=3)
        judges.append(judge)
        print(f"{3 * len(drawn.samples) / sum(seconds):.0f} samples/s, {'kept' if materials.features else 'anew'}")
        return sum(seconds)

    ratios("training anew / kept", lambda: fit(ways[0]), lambda: fit(ways[1]), pairs)
    found = [judge.predict(drawn.samples).probabilities for judge in judges]
    print(f"the same numbers: {all(np.array_equal(found[0], other) for other in found)}")


def main() -> None:
    """Draw, then measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scenes", type=int, default=256, help="pictures drawn, one caption each [%(default)s]")
    parser.add_argument("--size", type=int, default=160, help="of drawn pictures [%(default)s]")
    parser.add_argument("--pairs", type=int, default=3, help="of measurements [%(default)s]")
    given = parser.parse_args()
    print(f"machine: {machine()}\nsettings: {vars(given)}", flush=True)
    with tempfile.TemporaryDirectory() as place, threads(1):
        folder = Path(place)
        drawn = draw(given.scenes, given.size, folder / "world")
        for name, size, measure in (("feed", 384, time_feed), ("train", 64, time_training)):
            print(f"\n{name}: BLIP of {size} pixels")
            measure(save_blip(folder / name, drawn, size=size, **SMALL), drawn, folder / "kept", given.pairs)


if __name__ == "__main__":
    torch.manual_seed(0)
    main()
