"""Ultralytics and ONNX Runtime, imported without side effects on the user's machine or this process.

At import Ultralytics writes settings into the user's configuration folder, looks whether it is online, sets
environment variables for all child processes, turns OpenCV's threads off, changes how NumPy and torch print, adds
warning filters and replaces ``torch.save`` and Pillow's ``Image.open``. Later it would install packages, report what
it is used for and evaluate Python that a file of weights brings along. ONNX Runtime keeps an identifier of the machine
in the user's home and reports to Microsoft (on Linux too, from 1.29 on or so). None of this happens here.

Ultralytics is AGPL-3.0: only a run that names the detector "yolo" imports it, and one with an ONNX file not even then.
"""

from __future__ import annotations

import atexit
import logging
import os
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from judge.errors import require

_SETTINGS = {
    "YOLO_OFFLINE": "1",
    "YOLO_AUTOINSTALL": "False",
    "YOLO_VERBOSE": "False",
    # Checkpoints come through torch's restricted reader with a list of known classes, and no model is built by eval.
    "ULTRALYTICS_SAFE_LOAD": "1",
}
_NO_REPORTS = {"ORT_DISABLE_TELEMETRY": "1", "ORT_TELEMETRY_DISABLED": "1"}


def import_ultralytics() -> Any:
    """The package ``ultralytics``, kept from writing, connecting, installing and printing.

    A process that has imported it by itself beforehand keeps the settings that it then got.

    Raises:
        JudgeError: it is not installed.
    """
    require("detectors", "torch", "torchvision", "cv2", "PIL", "ultralytics")
    if "ultralytics" not in sys.modules:
        _import_apart()
    import ultralytics
    import ultralytics.nn.tasks

    return ultralytics


def _import_apart() -> None:
    stack = ExitStack()
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="caption-judge-"))
    atexit.register(stack.close)
    with _undone():
        os.environ.update(_SETTINGS, YOLO_CONFIG_DIR=folder)
        import ultralytics
        import ultralytics.nn.tasks
    settings: Any = ultralytics.settings
    settings.update({"sync": False})
    logging.getLogger("ultralytics").setLevel(logging.ERROR)


def import_onnxruntime() -> Any:
    """The package ``onnxruntime``, which neither reports nor writes.

    Raises:
        JudgeError: it is not installed.
    """
    require("detectors", "onnxruntime")
    if "onnxruntime" not in sys.modules:
        with _environment():
            # Read once, at import. Its own function to switch reports off comes too late for the first of them.
            os.environ.update(_NO_REPORTS)
            import onnxruntime
    import onnxruntime

    return onnxruntime


@contextmanager
def _undone() -> Iterator[None]:
    """Restore what the import changes outside the package."""
    import cv2
    import numpy as np
    import torch
    from PIL import Image

    threads, save, opened = cv2.getNumThreads(), torch.save, Image.open
    printed = vars(torch._tensor_str.PRINT_OPTS).copy()
    try:
        with _environment(), warnings.catch_warnings(), np.printoptions():
            yield
    finally:
        cv2.setNumThreads(threads)
        torch.save, Image.open = save, opened
        torch.set_printoptions(**printed)  # type: ignore[no-untyped-call]  # torch has no types for it


@contextmanager
def _environment() -> Iterator[None]:
    """Restore the environment variables."""
    before = dict(os.environ)
    try:
        yield
    finally:
        for name in set(os.environ) - set(before):
            del os.environ[name]
        os.environ.update(before)
