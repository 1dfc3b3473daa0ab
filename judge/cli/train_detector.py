"""``judge train detector``."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from judge.cli.shared import say, show_progress
from judge.errors import JudgeError

if TYPE_CHECKING:
    from judge.config import TrainDetectorConfig


def train_detector(config: TrainDetectorConfig) -> None:
    """Train a small detector from scratch, or fine-tune given weights, on any images with instances.

    Leaves one file that --weights takes. It holds tensors only: reading it runs no code.
    """
    from judge.commands.train_detector import train
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
