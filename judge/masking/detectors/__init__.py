"""Detectors find people and other things in images; what they share."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol, runtime_checkable

from judge.errors import JudgeError
from judge.masking.images import read_image
from judge.masking.instances import Instance, LoadedImage
from judge.types import Progress
from judge.utils.reading import memory_limit, opening, read_bytes

MIN_SCORE = 0.05
"""Detections with a lower score are dropped, whatever the detector."""
Failures = list[tuple[str, JudgeError]]
"""Images that were left out, by name, and why."""


@runtime_checkable
class Detector(Protocol):
    """Finds things in images."""

    @property
    def name(self) -> str:
        """Its name in options: "gt", "yolo", "maskrcnn"; "hf" of all Hugging Face models."""

    @property
    def key(self) -> str:
        """Fingerprint of all that decides its results (weights, options, library version), for the cache."""

    @property
    def categories(self) -> tuple[str, ...]:
        """Names of the categories that it detects."""

    def detect(self, image: LoadedImage) -> tuple[Instance, ...]:
        """All detections with a score of at least ``MIN_SCORE``; ``Hiding.chosen`` applies higher thresholds."""


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
    progress: Progress | None = None,
) -> Iterator[tuple[LoadedImage, list[tuple[Instance, ...]]]]:
    """Read images and yield each, in order, with what each of ``detectors`` finds in it.

    An image that cannot be read, or on which a detector fails, is left out, and ``failures`` collects its error; None
    to raise the first error.
    """
    for number, name in enumerate(names, start=1):
        faults: Failures = []
        found = None
        with collected(faults, name):
            image = read_image(folder, name)
            found = image, [detector.detect(image) for detector in detectors]
        if faults and failures is None:
            raise faults[0][1]
        if failures is not None:
            failures += faults
        if found:
            yield found
        if progress:
            progress("looking for people", number, len(names))


def read_weights(path: Path) -> bytes:
    """The bytes of a weights file; one that is missing, a folder or not readable is refused."""
    with opening(path, folder="name the file in it"):
        return read_bytes(path, memory_limit())
