"""Pictures with people hidden, as judges see them: by image id, masked in memory, never written."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from judge.errors import JudgeError
from judge.masking import MAX_PIXELS
from judge.masking.cache import Cached
from judge.masking.detectors import Detector, Failures, detect_pictures
from judge.masking.detectors.ground_truth import GroundTruth
from judge.masking.folder import Hiding
from judge.masking.images import read_bytes, read_picture
from judge.masking.instances import PERSON, Instance, Pixels
from judge.masking.measured import Look, measure_masks
from judge.masking.regions import Box, visible_boxes
from judge.types import Doubt, Progress


@dataclass(frozen=True)
class HiddenPictures:
    """Pictures with people hidden, as judges and captioners see them.

    Attributes:
        folder: of the pictures.
        names: image id -> the picture's name in it.
        hiding: what is hidden, and how; None for pictures as they are.
        hidden: name -> the instances that are hidden.
        max_pixels: more is taken for a decompression bomb.
        regions: name -> boxes of visible things; empty if no judge asks for them.
        masks: what is hidden, measured: see :func:`judge.masking.measured.measure_masks`; None where nothing is to be.
        doubts: what a user must know of the masks, a sentence each.
    """

    folder: Path
    names: Mapping[str, str]
    hiding: Hiding | None = None
    hidden: Mapping[str, tuple[Instance, ...]] = field(default_factory=dict)
    max_pixels: int = MAX_PIXELS
    regions: Mapping[str, tuple[Box, ...]] = field(default_factory=dict)
    masks: Mapping[str, Any] | None = None
    doubts: Sequence[str] = ()

    def read(self, image_id: str) -> Pixels:
        """[H, W, 3] uint8, RGB.

        Raises:
            JudgeError: the picture is missing or at fault.
        """
        name = self._name(image_id)
        picture = read_picture(self.folder, name, max_pixels=self.max_pixels)
        return self.hiding.apply(picture, self.hidden[name])[0] if self.hiding else picture.pixels

    def key(self, image_id: str) -> str:
        """Decides what ``read`` returns: the file's bytes and what is hidden of them, hashed; no decoding.

        What changes no pixel is no part of it: where nothing is hidden, a picture has the key that it has as it is.

        Raises:
            JudgeError: the picture is missing or cannot be read.
        """
        name = self._name(image_id)
        content = hashlib.blake2b(read_bytes(self.folder, name), digest_size=16)
        if self.hiding and (chosen := self.hiding.chosen(self.hidden[name])):
            content.update(repr(_decisive(self.hiding, chosen, name)).encode())
        return content.hexdigest()

    def boxes(self, image_id: str) -> tuple[Box, ...]:
        """Where visible things are; none if regions were not asked for."""
        return self.regions.get(self._name(image_id), ())

    def _name(self, image_id: str) -> str:
        if image_id not in self.names:
            mend = "add it, or leave out the image's captions"
            raise JudgeError(f"no picture of image '{image_id}'", where=f"--images {self.folder}", mend=mend)
        return self.names[image_id]


def _decisive(hiding: Hiding, chosen: Sequence[Instance], name: str) -> tuple[object, ...]:
    """All that decides the pixels of picture ``name`` once the instances ``chosen`` are hidden."""
    things = [(instance.counts, instance.box, instance.crowd) for instance in chosen]
    share = hiding.share if hiding.mode == "partial" else None
    noise = (hiding.seed, name) if hiding.fill == "noise" else None
    return hiding.mode, share, hiding.dilation, hiding.fill, noise, things


def find_hidden(  # noqa: PLR0913 - which pictures, what is hidden, how faults are told
    folder: Path,
    names: Mapping[str, str],
    *,
    detector: Detector,
    hiding: Hiding | None,
    truth: GroundTruth | None = None,
    max_pixels: int = MAX_PIXELS,
    regions: bool = False,
    failures: Failures | None = None,
    progress: Progress | None = None,
) -> HiddenPictures:
    """Find, once for each picture, what is to be hidden and where other things are.

    Args:
        folder: of the pictures.
        names: image id -> the picture's name.
        detector: finds the instances.
        hiding: what is hidden, and how; None for nothing.
        truth: ground truth beside the detector, to measure it by; None for none.
        max_pixels: more is taken for a decompression bomb.
        regions: whether some judge asks where things are: whatever the detector finds with the score that hides.
        failures: takes the names and faults of pictures, which are then left out; None to raise the first.
        progress: called with the pictures done.

    Raises:
        JudgeError: a picture is missing or at fault, or does not fit what the detector knows of it.
    """
    found: dict[str, tuple[Instance, ...]] = {}
    boxes: dict[str, tuple[Box, ...]] = {}
    looks: list[Look] = []
    wanted = list(dict.fromkeys(names.values()))
    how = hiding or Hiding()
    for picture, [instances] in detect_pictures(
        folder, wanted, detector, failures=failures, max_pixels=max_pixels, progress=progress
    ):
        found[picture.name] = hiding.chosen(instances) if hiding else ()
        hidden = how.region(found[picture.name], picture.size)
        if hiding:
            known = hiding.known(truth, picture)
            looks.append(Look.at(found[picture.name], hidden, known, turned=picture.turned))
        if regions:
            boxes[picture.name] = visible_boxes(instances, hidden, threshold=how.threshold)
    kept = {image: name for image, name in names.items() if name in found}
    if hiding is None:
        return HiddenPictures(folder, kept, max_pixels=max_pixels, regions=boxes)
    masks = measure_masks(looks, hides_people=PERSON in hiding.labels)
    return HiddenPictures(folder, kept, hiding, found, max_pixels, boxes, masks, doubts_of(detector, looks))


def doubts_of(detector: Detector, looks: Iterable[Look]) -> list[str]:
    """What a user must know of masks, a sentence each; often nothing."""
    doubts = list(detector.doubts) if isinstance(detector, GroundTruth | Cached) else []
    if isinstance(detector, GroundTruth) and (count := sum(look.turned for look in looks)):
        what = "their EXIF orientation turned or mirrored them, and masks are taken to be drawn on the upright image"
        doubts.append(Doubt(f"{count:,} images: {what}. Look at some of them, with judge mask."))
    return doubts
