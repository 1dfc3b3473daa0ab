"""``judge train detector``: train a detector from nothing, or go on from given weights."""

from __future__ import annotations

import math
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BeforeValidator

from judge.commands.console import say, show_progress
from judge.config import OutputSettings
from judge.config.values import DEVICE, IMAGES, INSTANCES, Files, Seed, listed, names
from judge.errors import JudgeError, require
from judge.types import Progress
from judge.utils.options import option
from judge.utils.output_file import OutputFile

if TYPE_CHECKING:
    from judge.training.detectors import TrainedDetector


class TrainDetectorConfig(OutputSettings):
    """Options of ``judge train detector``."""

    command = "judge train detector"
    panel = "Training"

    kind: Literal["yolo", "maskrcnn"] = option(
        ..., "detector: yolo (Ultralytics, AGPL-3.0) or maskrcnn (torchvision)", essential=True
    )
    images: Path = option(..., IMAGES, essential=True)
    instances: Files = option(..., INSTANCES, repeated="PATH", essential=True)
    categories: Annotated[
        tuple[str, ...] | None, BeforeValidator(lambda value: names([value]) if isinstance(value, str) else value)
    ] = option(None, "categories to detect, comma-separated", "all of the file", essential=True)
    start: str | None = option(
        None, "weights to start from", "none: a small network from scratch", essential=True, file=True
    )
    trust_weights: Path | None = option(None, "folder whose .pt files may be unpickled, which can run any code in them")
    epochs: int = option(40, "passes over the images", ge=0)
    batch_size: int = option(8, "images per step", ge=1)
    learning_rate: float | None = option(None, "highest learning rate", "the detector's own", gt=0, lt=1)
    image_size: int = option(160, "pixels of an image's longer side, a multiple of 32")
    validation: float = option(0.1, "share of the images held out", ge=0, lt=1)
    seed: Seed = option(0, "seed of weights, split, order and flips")
    device: str | None = option(None, *DEVICE)
    out: Path = option(..., "file for the weights", "checkpoints/detector.safetensors", essential=True)


def train(config: TrainDetectorConfig, *, progress: Progress | None = None) -> TrainedDetector:
    """Train a detector and write its file.

    Raises:
        JudgeError: the file is there already (without ``overwrite``), or anything that ``train_detector`` raises.
    """
    out = OutputFile(config.out, overwrite=config.overwrite)
    out.check(config.inputs())
    require("detectors", "torch", "torchvision", "cv2", "PIL", "pycocotools")
    from judge.training.detector_models import DetectorRecipe
    from judge.training.detectors import train_detector

    recipe = DetectorRecipe(**{field.name: getattr(config, field.name) for field in fields(DetectorRecipe)})
    with out.working():
        return train_detector(
            recipe, config.images, listed(config.instances), config.out, new=not config.overwrite, progress=progress
        )


def command(config: TrainDetectorConfig) -> None:
    """Train a small detector from scratch, or fine-tune given weights, on any images with instances.

    Leaves one file that --weights takes. It holds tensors only: reading it runs no code.
    """
    from judge.masking.measured import LEAST

    with show_progress() as progress:
        found = train(config, progress=progress)
    recall = found.overlap.recall
    held = "no pixel to find" if math.isnan(recall) else f"{recall:.1%} of the pixels found"
    say(f"Trained on {found.pictures} pictures in {found.seconds:.0f} s; in {found.held_out} held out: {held}")
    if recall < LEAST:
        what = f"finds {recall:.1%} of the pixels in held-out images, so it would hide nobody"
        mend = "train longer (--epochs), on more images, or from given weights (--start)"
        raise JudgeError(f"{what}; its weights are kept", where=str(found.path), mend=mend)
    say(f"The weights are in {found.path}; use them with --detector {config.kind} --weights {found.path}")
