"""``judge train detector``: train a detector from scratch, or fine-tune given weights."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

from judge.config import TrainDetectorConfig
from judge.errors import JudgeError, require
from judge.types import Progress

if TYPE_CHECKING:
    from judge.training.detectors import TrainedDetector


def train(config: TrainDetectorConfig, *, progress: Progress | None = None) -> TrainedDetector:
    """Train a detector and write its one file.

    Raises:
        JudgeError: the file is there already (without ``overwrite``), or anything that ``train_detector`` raises.
    """
    if config.out.exists() and not config.overwrite:
        mend = "name another file, or add --overwrite"
        raise JudgeError("is there already", where=f"--out {config.out}", mend=mend)
    require("detectors", "torch", "torchvision", "cv2", "PIL", "pycocotools")
    from judge.training.detector_models import DetectorRecipe
    from judge.training.detectors import train_detector

    recipe = DetectorRecipe(**{field.name: getattr(config, field.name) for field in fields(DetectorRecipe)})
    return train_detector(
        config.kind,
        config.images,
        config.instances,
        config.out,
        recipe=recipe,
        labels=config.categories,
        start=config.start,
        trust=config.trust_weights,
        device=config.device,
        progress=progress,
    )
