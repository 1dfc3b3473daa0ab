"""``yolo``: models of Ultralytics that segment or detect.

Ultralytics is AGPL-3.0 and is imported only by commands that use this detector. A ``.pt`` file is a pickle, and reading
a pickle can run code, so it must lie in the folder of ``--trust-weights``. An ONNX file holds numbers only.
"""

import ast
import atexit
import os
import re
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from judge.errors import JudgeError, require
from judge.masking.detectors import MIN_SCORE, read_weights
from judge.masking.instances import Instance, LoadedImage, Pixels, box_mask, from_mask
from judge.utils.files import resolved
from judge.utils.identity import content_of
from judge.utils.parallel import choose_device

_SETTINGS = {
    "YOLO_OFFLINE": "1",
    "YOLO_AUTOINSTALL": "False",
    "YOLO_VERBOSE": "False",
    "ULTRALYTICS_SAFE_LOAD": "1",  # Checkpoints are read by torch's restricted unpickler.
    "ORT_DISABLE_TELEMETRY": "1",
    "ORT_TELEMETRY_DISABLED": "1",
}
_TASKS = ("segment", "detect")
# What the numbers in an ONNX file's metadata look like.
_NUMBERS = {"imgsz": r"\[?\d{2,4}(, ?\d{2,4})?\]?", "stride": r"[1-9]\d{0,2}", "batch": r"\d{1,4}", "channels": "3"}


def import_ultralytics() -> Any:
    """The package ``ultralytics``, without telemetry, online checks and installation of packages.

    It writes its settings into a temporary folder; what it replaces in other packages is restored.
    """
    require("ultralytics", "torch", "torchvision", "cv2", "PIL", "ultralytics", "onnx", "onnxruntime")
    if "ultralytics" not in sys.modules:
        import cv2
        import torch
        from PIL import Image

        folder = tempfile.TemporaryDirectory()
        atexit.register(folder.cleanup)
        os.environ.update(_SETTINGS, YOLO_CONFIG_DIR=folder.name)
        threads, opened, save = cv2.getNumThreads(), Image.open, torch.save
        with np.printoptions():
            import ultralytics
            import ultralytics.models
        cv2.setNumThreads(threads)
        Image.open, torch.save = opened, save
        settings: Any = ultralytics.settings
        settings.update({"sync": False})
    import ultralytics

    return ultralytics


class Yolo:
    """An Ultralytics model as a detector.

    Images are passed one at a time: Ultralytics pads the images of a batch to one shape, and drops the rest of a batch
    when non-maximum suppression takes too long. ``export``: ``task`` and perhaps ``imgsz`` of an ONNX file.
    """

    name = "yolo"

    def __init__(self, path: Path, export: Mapping[str, Any], *, device: str | None) -> None:
        import torch

        ultralytics = import_ultralytics()
        # With retina_masks, masks have the size of the image.
        self.options: dict[str, Any] = {"conf": MIN_SCORE, "retina_masks": True, "verbose": False, "save": False}
        self.options |= {"device": choose_device(device), **{key: export[key] for key in export if key == "imgsz"}}
        try:
            self.model = ultralytics.YOLO(str(path), task=export.get("task"))
            self._predict(np.zeros((64, 64, 3), dtype=np.uint8))
            names = self.model.predictor.model.names
            self.categories: tuple[str, ...] = tuple(str(names[index]) for index in range(len(names)))
        except Exception as error:  # Damaged pickles and ONNX files fail in many ways.
            mend = "download it again; or export it with 'yolo export format=onnx', one image at a time"
            what = f"does not run as a model of Ultralytics ({type(error).__name__})"
            raise JudgeError(what, where=str(path), mend=mend) from error
        _check_task(self.model.task, str(path))
        content = content_of(str(path))
        self.key = f"yolo {content}, ultralytics {ultralytics.__version__}, torch {torch.__version__}"

    def detect(self, image: LoadedImage) -> tuple[Instance, ...]:
        """See :meth:`~judge.masking.detectors.Detector.detect`; at most 300 instances."""
        result = self._predict(image.pixels)
        found = []
        for place, (x, y, right, bottom, confidence, number) in enumerate(result.boxes.data.tolist()):
            box, label, score = (x, y, right - x, bottom - y), self.categories[int(number)], min(1.0, confidence)
            drawn = None if result.masks is None else result.masks.data[place].cpu().numpy().astype(np.bool_)
            mask = box_mask(box, image.size) if drawn is None else drawn
            found.append(from_mask(mask, label, box=box, score=score))
        return tuple(instance for instance in found if instance.area)

    def _predict(self, pixels: Pixels) -> Any:
        [result] = self.model.predict(np.ascontiguousarray(pixels[..., ::-1]), **self.options)  # BGR
        return result


def load_yolo(weights: str | Path, *, trust: Path | None = None, device: str | None = None) -> Yolo:
    """A detector from an ``.onnx`` file of ``yolo export``, a ``.pt`` file or a model's name ("yolo11n-seg").

    ``trust``: the folder of ``--trust-weights``: pickles in it alone are read, and named models downloaded into it.
    """
    path = Path(weights)
    if trust is not None and not trust.is_dir():
        raise JudgeError("is no folder", where=f"--trust-weights {trust}", mend="make it, or name another")
    if not path.exists() and re.fullmatch(r"yolo[\w.-]+", str(weights)) and path.suffix != ".onnx":
        if trust is None:
            what, mend = "would be downloaded as a pickle", "if you trust Ultralytics, add --trust-weights FOLDER"
            raise JudgeError(f"{what}, and reading one can run code", where=str(weights), mend=mend)
        return Yolo(trust / f"{path.name.removesuffix('.pt')}.pt", {}, device=device)
    if path.suffix not in {".onnx", ".pt"}:
        mend = "give an .onnx or .pt file, or a model's name such as yolo11n-seg"
        raise JudgeError("is no file of YOLO weights", where=str(weights), mend=mend)
    data = read_weights(path)
    if path.suffix == ".onnx":
        return Yolo(path, _read_metadata(data, str(path)), device=device)
    if trust is None or not resolved(path).is_relative_to(resolved(trust)):
        mend = f"export it to ONNX; or, if you trust its author, name its folder: --trust-weights {path.parent}"
        raise JudgeError("is a pickle, and reading one can run code", where=str(path), mend=mend)
    return Yolo(path, {}, device=device)


def _check_task(task: object, where: str) -> None:
    if task not in _TASKS:
        mend = "give weights of an Ultralytics model that segments or detects"
        raise JudgeError(f"is made for the task '{task}'", where=where, mend=mend)


def _read_metadata(data: bytes, where: str) -> dict[str, Any]:
    """Task and image size in an ONNX file's metadata, which are checked before Ultralytics uses them."""
    import_ultralytics()
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        # From bytes: such a graph cannot name other files of the disk as its weights.
        session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
        notes: dict[str, str] = session.get_modelmeta().custom_metadata_map
    except Exception as error:  # ONNX Runtime has no base class for its errors.
        raise JudgeError("cannot be read as ONNX", where=where, mend="export it again, into one file") from error
    _check_task(notes.get("task"), where)
    wrong = [key for key, pattern in _NUMBERS.items() if key in notes and not re.fullmatch(pattern, notes[key])]
    # Ultralytics parses Python literals, and deep nesting can exhaust the parser's stack.
    if wrong or any(len(note) > 1_000_000 or re.search(r"([(\[{]\s*){20}", note) for note in notes.values()):
        raise JudgeError("its metadata cannot be read", where=where, mend="export it again")
    return {"task": notes["task"], **({"imgsz": ast.literal_eval(notes["imgsz"])} if "imgsz" in notes else {})}
