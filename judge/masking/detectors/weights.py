"""What the detectors that are networks share: their files of weights, and which detections count."""

from __future__ import annotations

import hashlib
from pathlib import Path

from judge.errors import JudgeError
from judge.utils.reading import memory_limit, read_bytes

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
        absent = isinstance(error, FileNotFoundError)
        what = "no such file of weights" if absent else f"cannot be read ({error.strerror})"
        raise JudgeError(what, where=str(path), mend="check the path") from error


def fingerprint(*parts: object) -> str:
    """A hash of what results depend on (weights' bytes, options, versions): 64 hexadecimal digits."""
    digests = (hashlib.sha256(part if isinstance(part, bytes) else repr(part).encode()).digest() for part in parts)
    return hashlib.sha256(b"".join(digests)).hexdigest()
