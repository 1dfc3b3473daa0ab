"""Networks as detectors, and the cache of their detections: a file for each detector and content of an image."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from types import FunctionType

from judge.errors import FAULTS, JudgeError, nearest
from judge.masking import DETECTORS
from judge.masking.detectors import Detector
from judge.masking.detectors.annotations import read_rle
from judge.masking.detectors.huggingface import HuggingFace
from judge.masking.detectors.maskrcnn import load_maskrcnn
from judge.masking.detectors.yolo import load_yolo
from judge.masking.instances import Instance, LoadedImage
from judge.utils.files import read_json_cache, warn_damaged, write_whole, writing
from judge.utils.plugins import load_plugin, plugins, unusable

# Increase it when the detections of a network, or the pixels of an image, change with the same versions of libraries.
_FORMAT = 3


def make_detector(
    name: str, *, weights: str | None = None, trust: Path | None = None, device: str | None = None
) -> Detector:
    """The network called ``name``: one of ``DETECTORS`` except ``gt``, ``hf:NAME``, or one of another package."""
    if name.startswith("hf:"):
        return HuggingFace(name.removeprefix("hf:"), device=device)
    if plugin := load_plugin("detectors", name, FunctionType, DETECTORS):
        if not isinstance(made := plugin(weights=weights, device=device), Detector):
            raise unusable("detectors", name, f"makes an object of type {type(made).__name__}, no detector")
        return made
    if name not in DETECTORS:
        mend = nearest(name, [*DETECTORS, *plugins("detectors")])
        mend += f"{'' if mend.endswith('?') else '.'} What another tool found is NAME=FILE"
        raise JudgeError(f"unknown detector '{name}'", mend=mend)
    if not weights:
        mend = "give torchvision's maskrcnn_resnet50_fpn_v2, or the file of a state dict"
        mend = "give a file, such as an ONNX export of Ultralytics" if name == "yolo" else mend
        raise JudgeError(f"detector '{name}' needs weights", where="--weights", mend=mend)
    return load_yolo(weights, trust=trust, device=device) if name == "yolo" else load_maskrcnn(weights, device=device)


class Cached:
    """A detector whose detections are kept on disk.

    Files lie at ``folder/<detector>/<2 digits>/<hash of the pixels>.json``; damaged ones are computed again. ``names``:
    category -> its name here, where that is another; ``doubts``: what a user must know of the categories.
    """

    def __init__(
        self, detector: Detector, folder: Path, names: Mapping[str, str] | None = None, doubts: Sequence[str] = ()
    ) -> None:
        self.detector, self.names, self.doubts = detector, names or {}, doubts
        digest = hashlib.sha256(f"{_FORMAT} {detector.key}".encode()).hexdigest()[:16]
        self.folder = folder / f"{detector.name}-{digest}"
        self.name, self.key = detector.name, detector.key
        self.categories = tuple(dict.fromkeys(self.names.get(name, name) for name in detector.categories))
        with writing(f"--cache: {folder}"):
            self.folder.mkdir(parents=True, exist_ok=True)

    def detect(self, image: LoadedImage) -> tuple[Instance, ...]:
        """See :meth:`~judge.masking.detectors.Detector.detect`."""
        size = f"{image.size[0]}x{image.size[1]}".encode()
        name = hashlib.blake2b(size + image.pixels.tobytes(), digest_size=20).hexdigest()
        path = self.folder / name[:2] / f"{name}.json"
        found = _load(path)
        if found is None:
            found = self.detector.detect(image)
            with suppress(OSError):  # A full disk costs the next run time, not this one its results.
                path.parent.mkdir(exist_ok=True)
                rows = [asdict(instance) | {"counts": instance.counts.decode()} for instance in found]
                write_whole(path, json.dumps(rows).encode())
        return tuple(replace(one, label=self.names.get(one.label, one.label)) for one in found)


def _load(path: Path) -> tuple[Instance, ...] | None:
    """The cached detections of an image; None if there are none, or they are damaged, which is reported."""
    if (rows := read_json_cache(path)) is None:
        return None
    found = []
    try:
        for row in rows:
            (height, width), (x, y, across, down) = map(int, row["size"]), map(float, row["box"])
            shape = {"size": [height, width], "counts": row["counts"]}
            counts = read_rle(shape, (height, width), where="cache")["counts"]
            box, score, crowd = (x, y, across, down), float(row["score"]), bool(row["crowd"])
            found.append(Instance(str(row["label"]), box, counts, (height, width), score, crowd))
    except (JudgeError, *FAULTS):
        warn_damaged(path)
        return None
    return tuple(found)
