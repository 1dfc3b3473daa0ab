"""Detectors: pictures in, the people and things in them out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Protocol

from judge.errors import JudgeError, nearest
from judge.masking import DETECTORS, MAX_PIXELS
from judge.masking.images import read_picture
from judge.masking.instances import Instance, Picture
from judge.types import Progress

Failures = list[tuple[str, JudgeError]]
"""Pictures that were left out, by name, and why."""
_NO_LOCK: AbstractContextManager[object] = nullcontext()


class Detector(Protocol):
    """Finds things in pictures."""

    @property
    def name(self) -> str:
        """Its name in options: "gt", "yolo", "maskrcnn"."""
        ...

    @property
    def key(self) -> str:
        """Fingerprint of all that decides its results (weights by content, options, library version), for the cache."""
        ...

    @property
    def categories(self) -> tuple[str, ...]:
        """Names of the categories that it detects."""
        ...

    @property
    def batch(self) -> int:
        """Pictures to pass at a time."""
        ...

    def detect(self, pictures: Sequence[Picture]) -> list[tuple[Instance, ...]]:
        """Everything found, of every category, one tuple a picture; scores from 0.05 on.

        Thresholds above that are ``instances.select``'s: one detection serves them all.

        Raises:
            JudgeError: a picture that does not fit what the detector knows of it.
        """
        ...


@contextmanager
def collected(
    failures: Failures, name: str, *, what: str = "cannot be read", mend: str = "leave it out, or make it smaller"
) -> Iterator[None]:
    """Add a fault of the picture ``name`` to ``failures`` and go on; an ``OSError``, such as a full disk, is raised."""
    try:
        yield
    except JudgeError as error:
        failures.append((name, error))
    except OSError:
        raise
    except Exception as error:  # OpenCV's or torch's own, or too little memory for a very large picture.
        reason = (str(error).strip().splitlines() or [""])[0]
        fault = JudgeError(f"{what} ({type(error).__name__}: {reason})", where=f"picture '{name}'", mend=mend)
        failures.append((name, fault))


def detect_pictures(
    folder: Path,
    names: Sequence[str],
    *detectors: Detector,
    failures: Failures | None,
    max_pixels: int = MAX_PIXELS,
    lock: AbstractContextManager[object] = _NO_LOCK,
    progress: Progress | None = None,
) -> Iterator[tuple[Picture, list[tuple[Instance, ...]]]]:
    """Read pictures batch by batch and yield each, in order, with what every one of ``detectors`` finds in it.

    A picture that cannot be read, or at which a detector fails, is left out.

    Args:
        folder: of the pictures.
        names: relative to it.
        detectors: asked one after the other; batches are as large as the largest of theirs.
        failures: takes the name and the fault of each picture left out; None to raise the first fault.
        max_pixels: more is taken for a decompression bomb.
        lock: held while a detector works.
        progress: called after each batch.

    Raises:
        JudgeError: a picture's fault, where ``failures`` is None.
    """
    size = max(detector.batch for detector in detectors)
    for start in range(0, len(names), size):
        faults: Failures = []
        pictures = []
        for name in names[start : start + size]:
            with collected(faults, name):
                pictures.append(read_picture(folder, name, max_pixels=max_pixels))
        found: list[list[tuple[Instance, ...]]] = [[] for _ in pictures]
        for detector in detectors:
            with lock:
                answers = _detect_each(detector, pictures, faults)
            whole = [place for place, answer in enumerate(answers) if answer is not None]
            pictures = [pictures[place] for place in whole]
            found = [[*found[place], answers[place] or ()] for place in whole]
        if faults and failures is None:
            raise faults[0][1]
        if failures is not None:
            failures += faults
        yield from zip(pictures, found, strict=True)
        if progress:
            progress("looking for people", min(start + size, len(names)), len(names))


def _detect_each(
    detector: Detector, pictures: Sequence[Picture], failures: Failures
) -> list[tuple[Instance, ...] | None]:
    """Detect in all at once; if that fails (one picture's fault, too little memory), one by one: None for a failure."""
    with suppress(Exception):
        return list(detector.detect(pictures))
    found: list[tuple[Instance, ...] | None] = [None] * len(pictures)
    mend = "take another detector, or a smaller --batch-size"
    for place, picture in enumerate(pictures):
        with collected(failures, picture.name, what=f"{detector.name} fails at it", mend=mend):
            [found[place]] = detector.detect([picture])
    return found


def make_detector(
    name: str,
    *,
    weights: str | None = None,
    trust: Path | None = None,
    device: str | None = None,
    batch: int = 8,
    mask_threshold: float = 0.5,
    say: Callable[[str], None] | None = None,
) -> Detector:
    """The network called ``name``.

    Args:
        name: one of ``DETECTORS`` but ``gt``.
        weights: a file, or a name that its library knows.
        trust: the folder whose ``.pt`` files may be unpickled.
        device: None for a GPU where there is one.
        batch: pictures that it gets at a time.
        mask_threshold: probability from which a pixel belongs to a mask, in (0, 1).
        say: called with a line on what is fetched.

    Raises:
        JudgeError: unknown name, missing file, an extra that is not installed, weights that cannot be loaded.
    """
    if name not in DETECTORS:
        raise JudgeError(f"unknown detector '{name}'", mend=nearest(name, list(DETECTORS)))
    if not weights:
        mend = "give a file, or make one with judge train detector"
        raise JudgeError(f"detector '{name}' needs weights", where="--weights", mend=mend)
    if name == "yolo":
        from judge.masking.detectors.yolo import load_yolo

        return load_yolo(weights, trust=trust, device=device, batch=batch, say=say, mask_threshold=mask_threshold)
    from judge.masking.detectors.maskrcnn import load_maskrcnn

    return load_maskrcnn(weights, device=device, batch=batch, mask_threshold=mask_threshold)
