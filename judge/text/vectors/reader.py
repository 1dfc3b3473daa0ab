"""What readers of vectors share: rows by word, and errors."""

from __future__ import annotations

import zlib
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from judge.errors import JudgeError

FloatArray32 = npt.NDArray[np.float32]
Rows = Mapping[str, FloatArray32]
"""Word -> its vector, [D]."""

AGAIN = "fetch the file again, or choose another with --vectors"
# What reading an archive raises where it is cut off or damaged.
UNREADABLE = (EOFError, zlib.error, OSError)


def finite(row: FloatArray32, word: str, where: str) -> FloatArray32:
    """``row``, if every value of it is a finite number."""
    if not np.isfinite(row).all():
        what = f"the vector of '{word}' holds a value that is no finite number"
        raise JudgeError(what, where=where, mend=AGAIN)
    return row


def decode(word: bytes, where: str) -> str:
    """``word`` as text.

    Raises:
        JudgeError: not UTF-8.
    """
    try:
        return word.decode("utf-8")
    except UnicodeDecodeError:
        raise JudgeError("its word is not UTF-8", where=where, mend="convert the file to UTF-8") from None


def damaged(error: BaseException, where: str) -> JudgeError:
    """The error of an archive that cannot be unpacked, or of a disk."""
    return JudgeError(f"cut off or damaged here ({error})", where=where, mend=AGAIN)
