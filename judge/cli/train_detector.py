"""``judge train detector``."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from judge.cli.shared import say, show_progress

if TYPE_CHECKING:
    from judge.config import TrainDetectorConfig


def train_detector(config: TrainDetectorConfig) -> None:
    """Train a small detector from scratch, or fine-tune given weights, on any images with instances.

    Leaves one file that --weights takes. It holds tensors only: reading it runs no code.
    """
    from judge.commands.train_detector import train

    with show_progress() as progress:
        found = train(config, progress=progress)
    recall = found.overlap.recall
    held = "no pixel to find" if math.isnan(recall) else f"{recall:.1%} of the pixels found"
    say(f"Trained on {found.pictures} pictures in {found.seconds:.0f} s; in {found.held_out} held out: {held}")
    say(f"The weights are in {found.path}; use them with --detector {config.kind} --weights {found.path}")
