"""The images of a run, as judges see them and as examples are shown."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import pandas as pd

from judge.commands.images import (
    choose_hiding,
    find_images,
    known_images,
    open_detector,
    read_truth,
    refuse_unmasked,
    truth_beside,
)
from judge.config.inputs import (
    ShownSettings,
)
from judge.errors import JudgeError, require
from judge.judges import find_judge
from judge.masking.detectors import Detector
from judge.masking.detectors.ground_truth import GroundTruth
from judge.masking.images import list_images
from judge.masking.masked_images import MaskedImages, find_hidden, hides_people, make_thumbnails
from judge.masking.people import Hiding
from judge.types import Progress


@dataclass(eq=False)
class RunImages:
    """The images of a run; instances, names and weights are read once, when first needed.

    Raises:
        JudgeError: there are no such images, whether or not a judge sees them.
    """

    config: ShownSettings
    judges: Sequence[str] = ()
    seed: int = 0
    progress: Progress | None = None
    _shown: MaskedImages | None = None

    def __post_init__(self) -> None:
        if self.config.images and not self.config.images.exists():
            list_images(self.config.images)  # Which says so in one line; shards may be named by a pattern.

    @cached_property
    def truth(self) -> GroundTruth | None:
        """The instances, of all categories, where the run names their file."""
        require("images", "cv2", "PIL", "pycocotools")
        return read_truth(self.config) if self.config.instances else None

    @cached_property
    def plain(self) -> MaskedImages:
        """All images with a usable id; nothing is hidden."""
        assert self.config.images is not None
        known = known_images(self.config.images, self.truth)
        return MaskedImages(self.config.images, known, max_pixels=self.config.max_pixels)

    def hidden(self, image_ids: Sequence[str]) -> MaskedImages:
        """The images of ``image_ids`` as judges see them, and where things are, if a judge asks for regions.

        Regions come from the detector; where nothing is hidden it does not run, and the instances file has them.

        Raises:
            JudgeError: an image without a file; as ``choose_hiding``, ``open_detector`` and ``find_hidden``.
        """
        from judge.training.launch import in_main_process

        found = in_main_process(lambda: self._hidden(image_ids))
        if image_ids:
            self._shown = found
            self.free()
        return found

    def of_examples(self, examples: pd.DataFrame) -> dict[str, bytes]:
        """Image id -> small image, people hidden, of a report's examples; none where the run hides nobody whole.

        None either where no judge asked for images and they cannot be had, which is told: numbers do not depend on
        them.
        """
        if self.config.images is None or not len(examples) or self.config.mask in {"none", "partial"}:
            return {}
        wanted = list(dict.fromkeys(examples["image_id"]))
        try:
            shown = self._shown or self._hidden([image for image in wanted if image in self.plain.names])
            return make_thumbnails(shown, wanted) if hides_people(shown) else {}
        except JudgeError as error:
            logging.getLogger(__name__).info("NOTE: examples are shown without images: %s", error)
            return {}

    @property
    def masks(self) -> dict[str, Any]:
        """Measure what masks hide from judges: ``{"masks": ...}``, or {} if nothing is hidden."""
        return {"masks": self._shown.masks} if self._shown and self._shown.masks else {}

    @property
    def notes(self) -> list[str]:
        """What a user must know of the masks that judges saw, a sentence each."""
        return list(self._shown.doubts) if self._shown else []

    def free(self) -> None:
        """Give back what is read again if it is asked for: instances (a gigabyte of COCO's) and the detector."""
        for name in ("truth", "_hiding"):
            self.__dict__.pop(name, None)

    def _hidden(self, image_ids: Sequence[str]) -> MaskedImages:
        names = find_images(self.plain.names, image_ids, self.plain.folder)
        regions = any(find_judge(name).regions for name in self.judges)
        hiding, detector = self._hiding
        if self.truth and regions and (detector is None or detector.name == "gt"):
            detector = self.truth  # Things of all categories, which no other judge needs.
        if detector is None:
            return replace(self.plain, names=names)
        found = find_hidden(
            self.plain.folder,
            names,
            detector=detector,
            hiding=hiding,
            truth=truth_beside(self.config, detector, hiding.labels, self.truth) if hiding else None,
            max_pixels=self.plain.max_pixels,
            regions=regions,
            progress=self.progress,
        )
        refuse_unmasked(self.config, found.masks, found.doubts)
        return found

    @cached_property
    def _hiding(self) -> tuple[Hiding, Detector] | tuple[None, None]:
        config = self.config
        if config.mask == "none":
            return None, None
        hiding, _, truth = choose_hiding(config, config.mask, seed=self.seed, truth=self.truth)
        return hiding, open_detector(config.detector, config, hiding.labels, truth=truth)
