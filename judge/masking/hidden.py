"""What judges see of pictures: by image id, people hidden, made in memory and never written."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from judge.errors import JudgeError
from judge.masking import MAX_PIXELS
from judge.masking.detectors import Detector
from judge.masking.folder import Hiding
from judge.masking.images import inside, read_picture
from judge.masking.instances import Instance, Pixels
from judge.masking.regions import Box, visible_boxes
from judge.types import Progress

_NOTHING = Hiding()


@dataclass(frozen=True)
class HiddenPictures:
    """Pictures as judges see them.

    Attributes:
        folder: of the pictures.
        names: image id -> the picture's name in it.
        hiding: what is hidden, and how; None for pictures as they are.
        hidden: name -> the instances that are hidden.
        max_pixels: more is taken for a decompression bomb.
        regions: name -> where things are that can still be seen; empty where no judge asks for them.
    """

    folder: Path
    names: Mapping[str, str]
    hiding: Hiding | None = None
    hidden: Mapping[str, tuple[Instance, ...]] = field(default_factory=dict)
    max_pixels: int = MAX_PIXELS
    regions: Mapping[str, tuple[Box, ...]] = field(default_factory=dict)

    def read(self, image_id: str) -> Pixels:
        """[H, W, 3] uint8, RGB.

        Raises:
            JudgeError: the picture is missing or at fault.
        """
        name = self._name(image_id)
        picture = read_picture(self.folder, name, max_pixels=self.max_pixels)
        return self.hiding.apply(picture, self.hidden[name]).pixels if self.hiding else picture.pixels

    def key(self, image_id: str) -> str:
        """Decides what ``read`` returns: the file's bytes and what is hidden of them, hashed; no decoding.

        What changes no pixel is no part of it: where nothing is hidden, a picture has the key that it has as it is.
        """
        name = self._name(image_id)
        try:
            content = hashlib.blake2b(inside(self.folder, name).read_bytes(), digest_size=16)
        except OSError as error:
            where, mend = str(self.folder / name), "check --images"
            raise JudgeError(f"cannot be read ({error.strerror})", where=where, mend=mend) from error
        if self.hiding and (chosen := self.hiding.chosen(self.hidden[name])):
            content.update(repr(_told(self.hiding, chosen, name)).encode())
        return content.hexdigest()

    def boxes(self, image_id: str) -> tuple[Box, ...]:
        """Where things are that can still be seen; none where nobody looked for them."""
        return self.regions.get(self._name(image_id), ())

    def _name(self, image_id: str) -> str:
        if image_id not in self.names:
            mend = "add it, or leave out the image's captions"
            raise JudgeError(f"no picture of image '{image_id}'", where=f"--images {self.folder}", mend=mend)
        return self.names[image_id]


def _told(hiding: Hiding, chosen: Sequence[Instance], name: str) -> tuple[object, ...]:
    """All that decides what the picture ``name`` looks like without the instances ``chosen``."""
    things = [(instance.counts, instance.box, instance.crowd) for instance in chosen]
    share = hiding.share if hiding.mode == "partial" else None
    noise = (hiding.seed, name) if hiding.fill == "noise" else None
    return hiding.mode, share, hiding.dilation, hiding.fill, noise, things


def find_hidden(
    folder: Path,
    names: Mapping[str, str],
    *,
    detector: Detector,
    hiding: Hiding | None,
    max_pixels: int = MAX_PIXELS,
    regions: bool = False,
    progress: Progress | None = None,
) -> HiddenPictures:
    """Look for what is to be hidden in each picture, and for what is not, once.

    Args:
        folder: of the pictures.
        names: image id -> the picture's name.
        detector: finds the instances.
        hiding: what is hidden, and how; None for nothing.
        max_pixels: more is taken for a decompression bomb.
        regions: whether some judge asks where things are: whatever the detector finds with the score that hides.
        progress: told of progress.

    Raises:
        JudgeError: a picture is missing or at fault, or does not fit what the detector knows of it.
    """
    found: dict[str, tuple[Instance, ...]] = {}
    boxes: dict[str, tuple[Box, ...]] = {}
    for batch in _batches(list(dict.fromkeys(names.values())), detector.batch):
        pictures = [read_picture(folder, name, max_pixels=max_pixels) for name in batch]
        for picture, instances in zip(pictures, detector.detect(pictures), strict=True):
            found[picture.name] = hiding.chosen(instances) if hiding else ()
            if regions:
                hidden = (hiding or _NOTHING).region(found[picture.name], picture.pixels.shape[:2])
                boxes[picture.name] = visible_boxes(instances, hidden, threshold=(hiding or _NOTHING).threshold)
        if progress:
            progress("looking for people", len(found), len(names))
    return HiddenPictures(folder, names, hiding, found if hiding else {}, max_pixels, boxes)


def _batches(names: Sequence[str], size: int) -> list[Sequence[str]]:
    return [names[start : start + size] for start in range(0, len(names), size)]
