"""The cache of detections: a file for each detector and content of a picture, whatever the picture's name."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from judge.errors import FAULTS
from judge.masking.detectors import Detector
from judge.masking.detectors.annotations import read_rle
from judge.masking.instances import Instance, Picture
from judge.utils.files import read_json_cache, warn_damaged, write_whole, writing

# Counts up whenever what is made of a network's outputs here, or of a picture's bytes, changes.
_FORMAT = 2  # 1 had no checksums.


class Cached:
    """A detector whose detections are kept on disk.

    Files lie at ``folder/<detector>/<2 digits>/<hash of the pixels>.json``; damaged ones are made anew.

    Args:
        detector: asked about pictures that are not in the cache.
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
        self.name, self.key, self.batch = detector.name, detector.key, detector.batch
        self.categories = tuple(dict.fromkeys(self.names.get(name, name) for name in detector.categories))
        with writing(f"--cache {folder}"):
            self.folder.mkdir(parents=True, exist_ok=True)

    def detect(self, pictures: Sequence[Picture]) -> list[tuple[Instance, ...]]:
        """See :meth:`~judge.masking.detectors.Detector.detect`."""
        paths = [self._path(picture) for picture in pictures]
        found = [self._load(path) for path in paths]
        missing = [index for index, instances in enumerate(found) if instances is None]
        if missing:
            fresh = self.detector.detect([pictures[index] for index in missing])
            for index, instances in zip(missing, fresh, strict=True):
                found[index] = instances
                # A full disk costs the next run time, not this one its results.
                with suppress(OSError):
                    paths[index].parent.mkdir(exist_ok=True)
                    write_whole(paths[index], json.dumps(_rows(instances)).encode())
        return [tuple(replace(one, label=self.names.get(one.label, one.label)) for one in of or ()) for of in found]

    def _load(self, path: Path) -> tuple[Instance, ...] | None:
        """What is kept of a picture; None where nothing is, or what is kept is damaged, which is told.

        Raises:
            JudgeError: it cannot be read.
        """
        try:
            rows = read_json_cache(path)
            return None if rows is None else tuple(map(_instance, rows))
        except FAULTS:
            warn_damaged(path)
            return None

    def _path(self, picture: Picture) -> Path:
        height, width, _ = picture.pixels.shape
        content = hashlib.blake2b(f"{height}x{width}".encode(), digest_size=20)
        content.update(picture.pixels.data if picture.pixels.flags.c_contiguous else picture.pixels.tobytes())
        name = content.hexdigest()
        return self.folder / name[:2] / f"{name}.json"


def _rows(instances: Sequence[Instance]) -> list[dict[str, Any]]:
    return [asdict(instance) | {"counts": instance.counts.decode()} for instance in instances]


def _instance(row: dict[str, Any]) -> Instance:
    height, width = map(int, row["size"])
    x, y, right, bottom = map(float, row["box"])
    counts = read_rle({"size": [height, width], "counts": row["counts"]}, (height, width), where="cache")["counts"]
    box, score, crowd = (x, y, right, bottom), float(row["score"]), bool(row["crowd"])
    return Instance(str(row["label"]), box, counts, (height, width), score, crowd)
