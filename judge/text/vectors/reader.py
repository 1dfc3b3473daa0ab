"""What readers of vectors share: rows by word, errors, and a binary stream read record by record."""

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
    """The error of an archive that cannot be unpacked, or of a disk."""
    return JudgeError(f"cut off or damaged here ({error})", where=where, mend=AGAIN)


class RecordReader:
    """A binary stream, read record by record.

    Args:
        stream: at its beginning.
        source: the file, for messages.

    Attributes:
        record: number of the current record, for messages; 0 before the first.
        position: bytes read so far.
    """

    def __init__(self, stream: io.BufferedReader, source: str) -> None:
        self.stream, self.source = stream, source
        self.record = self.position = 0
        self._piece, self._at = b"", 0

    @property
    def where(self) -> str:
        """File and record, for messages."""
        return f"{self.source}, record {self.record}" if self.record else f"{self.source}, at its beginning"

    def take(self, count: int) -> bytes:
        """The next ``count`` bytes.

        Raises:
            JudgeError: there are fewer.
        """
        while len(self._piece) < self._at + count:
            self._fill()
        self._at += count
        self.position += count
        return self._piece[self._at - count : self._at]

    def until(self, end: bytes) -> bytes:
        """The bytes before the next ``end`` (one byte), which is skipped.

        Raises:
            JudgeError: there is none, or none within ``MAX_WORD`` bytes.
        """
        while (found := self._piece.find(end, self._at, self._at + MAX_WORD)) < 0:
            if len(self._piece) >= self._at + MAX_WORD:
                raise JudgeError("no word begins here, so it is damaged", where=self.where, mend=AGAIN)
            self._fill()
        return self.take(found + 1 - self._at)[:-1]

    def at_end(self) -> bool:
        """Whether nothing but white space is left."""
        while not self._piece[self._at :].strip():
            if not self._read():
                return True
        return False

    def _fill(self) -> None:
        if not self._read():
            raise JudgeError("the file ends in the middle of it", where=self.where, mend=AGAIN)

    def _read(self) -> bool:
        try:
            # Not ``read``: of an archive that is cut off, all that is whole comes first.
            piece = self.stream.read1(_PIECE)
        except UNREADABLE as error:
            raise damaged(error, self.where) from error
        self._piece, self._at = self._piece[self._at :] + piece, 0
        return bool(piece)
