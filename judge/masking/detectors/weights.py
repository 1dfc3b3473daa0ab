"""What detectors that are networks share: files of weights, the device, the key of the cache."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

from judge.errors import JudgeError
from judge.utils.reading import memory_limit, read_bytes

if TYPE_CHECKING:
    import torch

MIN_SCORE = 0.05
"""Detections with a lower score are dropped, whatever the detector."""


def read_weights(path: Path) -> bytes:
    """The bytes of a weights file.

    Raises:
        JudgeError: missing, a folder, not readable.
    """
    try:
        return read_bytes(path, memory_limit())
    except OSError as error:
        what = (
            "no such file of weights" if isinstance(error, FileNotFoundError) else f"cannot be read ({error.strerror})"
        )
        raise JudgeError(what, where=str(path), mend="check the path") from error


def choose_device(name: str | None) -> torch.device:
    """The device to run on; None: the first CUDA device if there is one, else the CPU.

    Raises:
        JudgeError: no such device here.
    """
    import torch

    try:
        device = torch.device(name or ("cuda" if torch.cuda.is_available() else "cpu"))
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        mend = "use cpu, cuda or cuda:N, of a device that this machine has"
        raise JudgeError("cannot be used here", where=f"--device {name}", mend=mend) from error
    return device


def fingerprint(*parts: object) -> str:
    """A hash of what results depend on: weights' bytes, options, versions; 64 hexadecimal digits."""
    digests = (hashlib.sha256(part if isinstance(part, bytes) else repr(part).encode()).digest() for part in parts)
    return hashlib.sha256(b"".join(digests)).hexdigest()
