"""The cache of detections: a file for each detector and content of an image, whatever the image's name."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from judge.errors import FAULTS, JudgeError
from judge.masking.detectors import Detector
from judge.masking.detectors.annotations import read_rle
from judge.masking.instances import Instance, LoadedImage
from judge.utils.files import read_json_cache, warn_damaged, write_whole, writing

# Increase it when the detections of a network, or the pixels of an image, change with the same versions of libraries.
_FORMAT = 3


class Cached:
    """A detector whose detections are kept on disk.

    Files lie at ``folder/<detector>/<2 digits>/<hash of the pixels>.json``; damaged ones are computed again.

    Args:
        detector: called for images that are not in the cache.
        folder: shared by all runs and detectors; made if need be.
        names: category -> its name here, where that is another.
        doubts: what a user must know of the categories, a sentence each.

    Raises:
        JudgeError: the folder cannot be made.
    """

    def __init__(
        self, detector: Detector, folder: Path, names: Mapping[str, str] | None = None, doubts: Sequence[str] = ()
    ) -> None:
        self.detector, self.names, self.doubts = detector, names or {}, doubts
        digest = hashlib.sha256(f"{_FORMAT} {detector.key}".encode()).hexdigest()[:16]
        self.folder = folder / f"{detector.name}-{digest}"
        self.name, self.key = detector.name, detector.key
        self.categories = tuple(dict.fromkeys(self.names.get(name, name) for name in detector.categories))
        with writing(f"--cache {folder}"):
            self.folder.mkdir(parents=True, exist_ok=True)

    def detect(self, image: LoadedImage) -> tuple[Instance, ...]:
        """See :meth:`~judge.masking.detectors.Detector.detect`."""
        path = self._path(image)
        found = self._load(path)
        if found is None:
            found = self.detector.detect(image)
            with suppress(OSError):  # A full disk costs the next run time, not this one its results.
                path.parent.mkdir(exist_ok=True)
                rows = [asdict(instance) | {"counts": instance.counts.decode()} for instance in found]
                write_whole(path, json.dumps(rows).encode())
        return tuple(replace(one, label=self.names.get(one.label, one.label)) for one in found)

    def _load(self, path: Path) -> tuple[Instance, ...] | None:
        """The cached detections of an image; None if there are none, or they are damaged, which is reported.

        Raises:
            JudgeError: they cannot be read.
        """
        if (rows := read_json_cache(path)) is None:
            return None
        try:
            return tuple(map(_instance, rows))
        except (JudgeError, *FAULTS):
            warn_damaged(path)
            return None

    def _path(self, image: LoadedImage) -> Path:
        size = f"{image.size[0]}x{image.size[1]}".encode()
        name = hashlib.blake2b(size + image.pixels.tobytes(), digest_size=20).hexdigest()
        return self.folder / name[:2] / f"{name}.json"


def _instance(row: dict[str, Any]) -> Instance:
    height, width = map(int, row["size"])
    x, y, across, down = map(float, row["box"])
    counts = read_rle({"size": [height, width], "counts": row["counts"]}, (height, width), where="cache")["counts"]
    box, score, crowd = (x, y, across, down), float(row["score"]), bool(row["crowd"])
    return Instance(str(row["label"]), box, counts, (height, width), score, crowd)
