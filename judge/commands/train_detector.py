"""``judge train detector``: train a detector from nothing, or go on from given weights."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

from judge.config import TrainDetectorConfig, listed
from judge.errors import require
from judge.types import Progress
from judge.utils.outputs import OutputFile

if TYPE_CHECKING:
    from judge.training.detectors import TrainedDetector


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
