"""word2vec's binary format: https://code.google.com/archive/p/word2vec (``distance.c``)."""

from __future__ import annotations

import io
from collections.abc import Set

import numpy as np

from judge.errors import JudgeError
from judge.text.vectors.reader import AGAIN, UNREADABLE, FloatArray32, Rows, damaged, decode, finite
from judge.utils.reading import WORD

_PIECE = 2**20


def read_word2vec(stream: io.BufferedReader, wanted: Set[str], *, source: str) -> Rows:
    r"""Read "V D\n", then V times a word, a space, D little-endian 4-byte floats (and, by some writers, a line break).

    Raises:
        JudgeError: cut off; more bytes than the first line says; a word that is not UTF-8; a value of a wanted word
            that is no finite number. Records count from 1.
    """
    reader = _Records(stream, source)
    count, width = map(int, reader.until(b"\n").split())
    rows: dict[str, FloatArray32] = {}
    for record in range(1, count + 1):
        reader.record = record
        word = decode(reader.until(b" ").lstrip(b"\n"), reader.where)
        values = reader.take(4 * width)
        if word in wanted and word not in rows:
            rows[word] = finite(np.frombuffer(values, dtype="<f4").astype(np.float32), word, reader.where)
    if not reader.at_end():
        what = f"its first line says {count:,} vectors of {width:,} numbers, and it holds more"
        raise JudgeError(what, where=reader.where, mend=AGAIN)
    return rows


class _Records:
    """A binary stream, read record by record.

    Args:
        stream: at its beginning.
        source: the file, for messages.

    Attributes:
        record: number of the current record, for messages; 0 before the first.
    """

    def __init__(self, stream: io.BufferedReader, source: str) -> None:
        self.stream, self.source = stream, source
        self.record = 0
        self._piece, self._at, self._longest = b"", 0, int(WORD.value())

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
        return self._piece[self._at - count : self._at]

    def until(self, end: bytes) -> bytes:
        """The bytes before the next ``end`` (one byte), which is skipped.

        Raises:
            JudgeError: there is none, or none within ``WORD``.
        """
        while (found := self._piece.find(end, self._at, self._at + self._longest)) < 0:
            if len(self._piece) >= self._at + self._longest:
                what = "no word begins here, so it is damaged"
                raise JudgeError(what, where=self.where, mend=WORD.raise_it(AGAIN))
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
