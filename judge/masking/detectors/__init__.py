"""Detectors find people and other things in images; what they share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from judge.errors import JudgeError, nearest
from judge.masking import DETECTORS, MAX_PIXELS
from judge.masking.images import read_image
from judge.masking.instances import Instance, LoadedImage
from judge.types import Progress

Failures = list[tuple[str, JudgeError]]
"""Images that were left out, by name, and why."""


class Detector(Protocol):
    """Finds things in images."""

    @property
    def name(self) -> str:
        """Its name in options: "gt", "yolo", "maskrcnn"."""
        ...

    @property
    def key(self) -> str:
        """Fingerprint of all that decides its results (weights, options, library version), for the cache."""
        ...

    @property
    def categories(self) -> tuple[str, ...]:
        """Names of the categories that it detects."""
        ...

    def detect(self, image: LoadedImage) -> tuple[Instance, ...]:
        """All detections with a score of at least ``MIN_SCORE``, of every category.

        ``Hiding.chosen`` applies higher thresholds, so one detection serves them all.

        Raises:
            JudgeError: an image that does not fit what the detector knows of it.
        """
        ...


@contextmanager
def collected(failures: Failures, name: str) -> Iterator[None]:
    """Add an error of the image ``name`` to ``failures`` and go on; an ``OSError``, such as a full disk, is raised."""
    try:
        yield
    except JudgeError as error:
        failures.append((name, error))
    except OSError:
        raise
    except Exception as error:  # OpenCV's or torch's own, or too little memory for a very large image.
        reason = f"{type(error).__name__}: {(str(error).strip().splitlines() or [''])[0]}"
        mend = "leave it out, or make it smaller"
        failures.append((name, JudgeError(f"cannot be processed ({reason})", where=f"image '{name}'", mend=mend)))


def detect_images(
    folder: Path,
    names: Sequence[str],
    *detectors: Detector,
    failures: Failures | None,
    max_pixels: int = MAX_PIXELS,
    progress: Progress | None = None,
) -> Iterator[tuple[LoadedImage, list[tuple[Instance, ...]]]]:
    """Read images and yield each, in order, with what every one of ``detectors`` finds in it.

    An image that cannot be read, or on which a detector fails, is left out.

    Args:
        folder: the folder of the images.
        names: relative to it.
        detectors: called one after the other.
        failures: collects the name and the error of each image left out; None to raise the first error.
        max_pixels: larger images are refused as decompression bombs.
        progress: called after each image.

    Raises:
        JudgeError: the error of an image, if ``failures`` is None.
    """
    for number, name in enumerate(names, start=1):
        faults: Failures = []
        found = None
        with collected(faults, name):
            image = read_image(folder, name, max_pixels=max_pixels)
            found = image, [detector.detect(image) for detector in detectors]
        if faults and failures is None:
            raise faults[0][1]
        if failures is not None:
            failures += faults
        if found:
            yield found
        if progress:
            progress("looking for people", number, len(names))


def make_detector(
    name: str, *, weights: str | None = None, trust: Path | None = None, device: str | None = None
) -> Detector:
    """The network called ``name``.

    Args:
        name: one of ``DETECTORS`` except ``gt``.
        weights: a file, or a name that its library downloads.
        trust: the folder whose ``.pt`` files may be unpickled.
        device: None: CUDA if available.

    Raises:
        JudgeError: unknown name, missing file, an extra that is not installed, weights that cannot be loaded.
    """
    if name not in DETECTORS:
        raise JudgeError(f"unknown detector '{name}'", mend=nearest(name, list(DETECTORS)))
    if not weights:
        mend = "give a file, such as an ONNX export of Ultralytics"
        raise JudgeError(f"detector '{name}' needs weights", where="--weights", mend=mend)
    if name == "yolo":
        from judge.masking.detectors.yolo import load_yolo

        return load_yolo(weights, trust=trust, device=device)
    from judge.masking.detectors.maskrcnn import load_maskrcnn

    return load_maskrcnn(weights, device=device)
