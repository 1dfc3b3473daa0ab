"""What readers of vectors share: rows by word, their faults, and a stream read piece by piece."""

from __future__ import annotations

import io
import zlib
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from judge.errors import JudgeError

FloatArray32 = npt.NDArray[np.float32]
Rows = Mapping[str, FloatArray32]
"""Word -> its vector, [D]."""

MAX_WIDTH = 100_000
# No word of any file at hand has a tenth of it; where the next end of a word lies further off, the format is another.
MAX_WORD = 100_000
AGAIN = "fetch the file again, or choose another with --vectors"
# What reading an archive raises where it is cut off or damaged.
UNREADABLE = (EOFError, zlib.error, OSError)
_PIECE = 2**20


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
    """The fault of an archive, or of a disk, in one line."""
    return JudgeError(f"cut off or damaged here ({error})", where=where, mend=AGAIN)


class Tape:
    """A binary stream in pieces; ``record`` counts for messages.

    Args:
        stream: at its beginning.
        source: the file, for messages.
    """

    def __init__(self, stream: io.BufferedReader, source: str) -> None:
        self.stream, self.source = stream, source
        self.record = 0
        self._piece, self._at, self._read = b"", 0, 0

    @property
    def where(self) -> str:
        """File and record, for messages."""
        return f"{self.source}, record {self.record}" if self.record else f"{self.source}, at its beginning"

    @property
    def position(self) -> int:
        """Bytes taken so far."""
        return self._read - len(self._piece) + self._at

    def take(self, count: int) -> bytes:
        """The next ``count`` bytes.

        Raises:
            JudgeError: there are fewer.
        """
        while len(self._piece) - self._at < count:
            if not self._more():
                raise JudgeError("the file ends in the middle of it", where=self.where, mend=AGAIN)
        self._at += count
        return self._piece[self._at - count : self._at]

    def until(self, end: bytes) -> bytes:
        """What stands before the next ``end`` (one byte), which is passed.

        Raises:
            JudgeError: there is none, or none within ``MAX_WORD`` bytes.
        """
        while (found := self._piece.find(end, self._at, self._at + MAX_WORD)) < 0:
            if len(self._piece) - self._at >= MAX_WORD:
                raise JudgeError("no word begins here, so it is damaged", where=self.where, mend=AGAIN)
            if not self._more():
                raise JudgeError("the file ends in the middle of it", where=self.where, mend=AGAIN)
        word, self._at = self._piece[self._at : found], found + 1
        return word

    def at_end(self) -> bool:
        """Whether nothing but white space is left."""
        while not (left := self._piece[self._at :].strip()) and self._more():
            pass
        return not left

    def _more(self) -> bool:
        try:
            # Not ``read``: of an archive that is cut off, all that is whole comes first.
            piece = self.stream.read1(_PIECE)
        except UNREADABLE as error:
            raise damaged(error, self.where) from error
        self._piece, self._at = self._piece[self._at :] + piece, 0
        self._read += len(piece)
        return bool(piece)
