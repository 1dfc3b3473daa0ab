"""Images with people hidden, as judges see them: by image id, masked in memory, never written."""

import io
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from judge.errors import JudgeError
from judge.masking.cache import Cached
from judge.masking.detectors import Detector, Failures, detect_images
from judge.masking.detectors.ground_truth import GroundTruth
from judge.masking.images import read_bytes, read_image, read_size
from judge.masking.instances import PERSON, Box, Instance, Pixels, visible_boxes
from judge.masking.measured import MaskStatistics, measure_masks
from judge.masking.people import Hiding
from judge.types import Doubt, Progress
from judge.utils.identity import digest_of

THUMBNAIL = 320
"""Pixels along the longer side of an image in a report."""
_HALF, _MANY = 0.5, 0.25  # Shares of an image, and of images, that people seldom cover.


@dataclass(frozen=True)
class MaskedImages:
    """Images with people hidden, as judges and captioners see them.

    Attributes:
        names: image id -> the image's name in ``folder``.
        hiding: what is hidden, and how; None for images as they are.
        hidden: name -> the instances that are hidden; where the background is, those that are not.
        regions: name -> boxes of visible things; empty if no judge needs them.
        masks: the result of :func:`judge.masking.measured.measure_masks`; None if nothing is hidden.
        doubts: what a user must know of the masks, a sentence each.
        checksums: name -> checksum of the image's file, where it has been read already.
    """

    folder: Path
    names: Mapping[str, str]
    hiding: Hiding | None = None
    hidden: Mapping[str, tuple[Instance, ...]] = field(default_factory=dict)
    regions: Mapping[str, tuple[Box, ...]] = field(default_factory=dict)
    masks: Mapping[str, Any] | None = None
    doubts: Sequence[str] = ()
    checksums: Mapping[str, str] = field(default_factory=dict)

    def read(self, image_id: str) -> Pixels:
        """[H, W, 3] uint8, RGB; errors are those of :func:`~judge.masking.images.read_image`."""
        name = self._name(image_id)
        image = read_image(self.folder, name)
        return self.hiding.apply(image, self.hidden[name])[0] if self.hiding else image.pixels

    def size(self, image_id: str) -> tuple[int, int] | None:
        """Height and width of what ``read`` returns; None if the image cannot be read."""
        return read_size(self.folder, self._name(image_id))

    def key(self, image_id: str) -> str:
        """A checksum of all that decides what ``read`` returns: the file's bytes and what is hidden of them.

        Settings that change no pixel do not change it: an image in which nothing is hidden has the key of its file.
        """
        name = self._name(image_id)
        content = self.checksums.get(name) or digest_of(read_bytes(self.folder, name))
        if not (how := self.hiding) or not ((chosen := how.chosen(self.hidden[name])) or how.background):
            return content
        things = [(instance.counts, instance.box, instance.crowd) for instance in chosen]
        share = how.share if how.mode == "partial" else None
        decisive = content, how.mode, share, how.dilation, how.fill, how.background or None, things
        return digest_of(repr(decisive))

    def boxes(self, image_id: str) -> tuple[Box, ...]:
        """Where visible things are; none if ``regions`` were not computed."""
        return self.regions.get(self._name(image_id), ())

    def _name(self, image_id: str) -> str:
        if image_id not in self.names:
            mend = "add it, or leave out the image's captions"
            raise JudgeError(f"no file of image '{image_id}'", where=f"--images {self.folder}", mend=mend)
        return self.names[image_id]


def find_hidden(  # noqa: PLR0913 - which images, what is hidden, how errors are reported
    folder: Path,
    names: Mapping[str, str],
    *,
    detector: Detector,
    hiding: Hiding | None,
    truth: GroundTruth | None = None,
    regions: bool = False,
    failures: Failures | None = None,
    progress: Progress | None = None,
) -> MaskedImages:
    """Find, once for each image, what is to be hidden and, with ``regions``, where other things are.

    Arguments are as of :class:`MaskedImages` and :func:`~judge.masking.detectors.detect_images`. ``truth``: ground
    truth beside the detector, to measure it by.
    """
    found, boxes = dict[str, tuple[Instance, ...]](), dict[str, tuple[Box, ...]]()
    checksums, statistics = dict[str, str](), list[MaskStatistics]()
    wanted, how = list(dict.fromkeys(names.values())), hiding or Hiding()
    for image, [instances] in detect_images(folder, wanted, detector, failures=failures, progress=progress):
        checksums[image.name] = image.checksum
        found[image.name] = hiding.chosen(instances) if hiding else ()
        region = how.region(found[image.name], image.size)
        if hiding:
            statistics.append(MaskStatistics.of(image, hiding, found[image.name], region, truth))
        if regions:
            boxes[image.name] = visible_boxes(instances, region, threshold=how.threshold)
    kept = {image: name for image, name in names.items() if name in found}
    visible = MaskedImages(folder, kept, regions=boxes, checksums=checksums)
    if hiding is None:
        return visible
    masks = measure_masks(statistics, hides_people=PERSON in hiding.labels)
    return replace(visible, hiding=hiding, hidden=found, masks=masks, doubts=doubts_of(detector, hiding, statistics))


def doubts_of(detector: Detector, hiding: Hiding, statistics: Sequence[MaskStatistics]) -> list[str]:
    """What a user must know of masks, a sentence each; often nothing."""
    doubts = list(detector.doubts) if isinstance(detector, GroundTruth | Cached) else []
    if isinstance(detector, GroundTruth) and (low := detector.describe_low_scores(hiding.threshold)):
        doubts.append(low)
    if isinstance(detector, GroundTruth) and (count := sum(one.turned for one in statistics)):
        what = "their EXIF orientation turned or mirrored them, and masks are taken to be drawn on the upright image"
        doubts.append(Doubt(f"{count:,} images: {what}. Look at some of them, with judge mask."))
    large = [one.share > _HALF or one.corners for one in statistics if one.people and one.instances]
    if sum(large) > _MANY * len(large):
        what = f"masks hide half of the pixels or all four corners in {sum(large):,} of {len(large):,} images"
        doubts.append(Doubt(f"{what}: see on the contact sheet of judge mask that they hide people alone."))
    return doubts


def hides_people(images: MaskedImages) -> bool:
    """Whether people are hidden whole in these images (where the detector found them)."""
    how = images.hiding
    return how is not None and PERSON in how.labels and how.mode != "partial" and how.foreground == "all"


def make_thumbnails(images: MaskedImages, image_ids: Iterable[str]) -> dict[str, bytes]:
    """Image id -> a small JPEG, scaled after people were hidden.

    Images without a file are left out. If people are hidden, so are images in which the detector found nobody: there
    may be a person whom it missed.
    """
    from PIL import Image

    found: dict[str, bytes] = {}
    for image_id in image_ids:
        instances = images.hidden.get(images.names.get(image_id, ""), ())
        if images.hiding is not None and not any(instance.label == PERSON for instance in instances):
            continue
        with suppress(JudgeError):
            image = Image.fromarray(images.read(image_id))
            image.thumbnail((THUMBNAIL, THUMBNAIL))
            buffer = io.BytesIO()
            image.save(buffer, "JPEG", quality=72, optimize=True)
            found[image_id] = buffer.getvalue()
    return found
