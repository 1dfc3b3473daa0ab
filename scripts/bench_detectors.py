"""Detectors trained from nothing on drawn scenes: how many of the people's pixels they find, and after how long.

    python scripts/bench_detectors.py
    python scripts/bench_detectors.py --kind yolo --epochs 5

Scenes of one seed are drawn to train on, of another to look at. Each detector is measured before training and after,
at a score of 0.5. Times are of the whole of ``train_detector``, on as many threads as torch takes. Figures:
BENCHMARKS.md.
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import torch
import typer

from judge.calibration.scenes import write_pictures
from judge.calibration.world import draw_scenes
from judge.masking.detectors import make_detector
from judge.masking.detectors.ground_truth import GroundTruth
from judge.masking.detectors.weights import Kind
from judge.masking.instances import PERSON
from judge.training.detector_models import DetectorRecipe
from judge.training.detectors import measure_overlap, train_detector

# What reaches a recall of 0.9 in a quarter of an hour on two cores. New pictures teach more than the same ones again.
RECIPES: dict[Kind, DetectorRecipe] = {
    "yolo": DetectorRecipe("yolo", [PERSON], epochs=20, batch_size=8, image_size=160, validation=0.0),
    "maskrcnn": DetectorRecipe("maskrcnn", [PERSON], epochs=6, batch_size=4, image_size=160, validation=0.0),
}


def tell(what: str, done: int, total: int) -> None:
    """Progress, a line an epoch."""
    typer.echo(f"  {what}, {done} of {total}, {time.strftime('%H:%M:%S')}", err=True)


def bench(kind: Kind, worlds: tuple[Path, Path], recipe: DetectorRecipe, out: Path | None) -> None:
    """A line of the table for the untrained and one for the trained detector."""
    train, held = worlds
    truth = GroundTruth.read(held / "instances.json", labels=[PERSON])
    with tempfile.TemporaryDirectory() as folder:
        for state, given in (("untrained", replace(recipe, epochs=0)), ("trained", recipe)):
            path = (out or Path(folder)) / f"{kind}-{state}.safetensors"
            done = train_detector(given, train / "images", [train / "instances.json"], path, progress=tell)
            detector = make_detector(kind, weights=str(path))
            began = time.monotonic()
            found = measure_overlap(detector, truth, held / "images", truth.pictures)
            each = (time.monotonic() - began) / len(truth.pictures)
            typer.echo(
                f"| {kind} | {state} | {given.epochs} | {done.seconds:.0f} | {found.recall:.3f} | {found.iou:.3f} | "
                f"{found.visible:.3f} | {1000 * each:.0f} |"
            )


def main(
    kind: Annotated[str, typer.Option(help="yolo, maskrcnn or both")] = "both",
    pictures: Annotated[int, typer.Option(help="drawn to train on")] = 1600,
    held_out: Annotated[int, typer.Option(help="drawn to look at")] = 200,
    epochs: Annotated[int | None, typer.Option(help="[default: 20 for yolo, 6 for maskrcnn]")] = None,
    size: Annotated[int, typer.Option(help="pixels along a side of a picture")] = 160,
    seed: int = 0,
    out: Annotated[Path | None, typer.Option(help="folder to keep the detectors in")] = None,
) -> None:
    """Draw, train, measure, print a table."""
    kinds: list[Kind] = ["yolo", "maskrcnn"] if kind == "both" else ["yolo" if kind == "yolo" else "maskrcnn"]
    with tempfile.TemporaryDirectory() as folder:
        worlds = Path(folder) / "train", Path(folder) / "held"
        for number, (world, count) in enumerate(zip(worlds, (pictures, held_out), strict=True)):
            write_pictures(draw_scenes(count, seed=2 * seed + number), world, seed=2 * seed + number, size=size)
        typer.echo(f"{pictures} pictures to train on, {held_out} held out, {torch.get_num_threads()} threads")
        typer.echo("| detector | state | epochs | seconds | recall | IoU | visible | ms a picture |")
        typer.echo("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |")
        for chosen in kinds:
            recipe = replace(RECIPES[chosen], seed=seed, epochs=epochs or RECIPES[chosen].epochs)
            bench(chosen, worlds, recipe, out)


if __name__ == "__main__":
    typer.run(main)
