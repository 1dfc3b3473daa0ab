"""Where the people are: one protocol, pictures in, instances out."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Protocol

from judge.errors import JudgeError, nearest
from judge.masking import DETECTORS
from judge.masking.instances import Instance, Picture


class Detector(Protocol):
    """Finds things in pictures."""

    @property
    def name(self) -> str:
        """How the user calls it: "gt", "yolo", "maskrcnn"."""
        ...

    @property
    def key(self) -> str:
        """What its results depend on (weights by content, options, library version), for the cache."""
        ...

    @property
    def categories(self) -> tuple[str, ...]:
        """What it tells apart."""
        ...

    @property
    def batch(self) -> int:
        """How many pictures it likes to get at a time."""
        ...

    def detect(self, pictures: Sequence[Picture]) -> list[tuple[Instance, ...]]:
        """Everything found, of every category, one tuple a picture; scores from 0.05 on.

        Thresholds above that are ``instances.select``'s: one detection serves them all.

        Raises:
            JudgeError: a picture that does not fit what the detector knows of it.
        """
        ...


def detect_each(
    detector: Detector, pictures: Sequence[Picture], failures: list[tuple[str, JudgeError]]
) -> list[tuple[Instance, ...] | None]:
    """What ``detector`` finds in each of ``pictures``; None for one that it fails at, its fault in ``failures``.

    All at once; where that fails (one picture's fault, or too little memory), one after the other.
    """
    try:
        return list(detector.detect(pictures))
    except Exception:
        found: list[tuple[Instance, ...] | None] = []
        for picture in pictures:
            try:
                found += detector.detect([picture])
            except JudgeError as error:
                failures.append((picture.name, error))
                found.append(None)
            except Exception as error:
                reason = (str(error).strip().splitlines() or [""])[0]
                what = f"{detector.name} fails at it ({type(error).__name__}: {reason})"
                mend = "take another detector, or a smaller --batch-size"
                failures.append((picture.name, JudgeError(what, where=f"picture '{picture.name}'", mend=mend)))
                found.append(None)
        return found


def make_detector(  # noqa: PLR0913 - what the detectors need between them
    name: str,
    *,
    instances: Path | None = None,
    labels: Collection[str] | None = None,
    weights: str | None = None,
    trust: Path | None = None,
    device: str | None = None,
    batch: int = 8,
    mask_threshold: float = 0.5,
    say: Callable[[str], None] | None = None,
) -> Detector:
    """The detector that the user calls ``name``.

    Args:
        name: one of ``DETECTORS``.
        instances: the COCO file that ``gt`` knows.
        labels: the categories that ``gt`` reads; None for all.
        weights: of a network: a file, or a name that its library knows.
        trust: the folder whose ``.pt`` files may be unpickled.
        device: of a network; None for a GPU where there is one.
        batch: pictures that a network sees at a time.
        mask_threshold: probability from which a pixel belongs to a network's mask, in (0, 1).
        say: told what is fetched.

    Raises:
        JudgeError: unknown name, missing file, an extra that is not installed, weights that cannot be loaded.
    """
    if name == "gt":
        from judge.masking.detectors.ground_truth import GroundTruth

        if instances is None:
            raise JudgeError("detector 'gt' needs the instances", where="--instances", mend="give their COCO file")
        return GroundTruth.read(instances, labels=labels)
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
