"""Vectors as bytes: word2vec's binary format, and fastText's models.

Formats: https://code.google.com/archive/p/word2vec (``distance.c``) and https://github.com/facebookresearch/fastText
(``args.cc``, ``dictionary.cc``, ``densematrix.cc``, version 12 of its files).
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter

import numpy as np

from judge.errors import JudgeError
from judge.text.vectors.reader import (
    AGAIN,
    MAX_WIDTH,
    UNREADABLE,
    FloatArray32,
    RecordReader,
    Rows,
    damaged,
    decode,
    finite,
)

_MAGIC = 793712314
FASTTEXT = struct.pack("<i", _MAGIC)
_VERSIONS = (11, 12)
_SUPERVISED = 3
_END_OF_SENTENCE = "</s>"
_QUANTISED = "a quantised fastText model (.ftz)", "give the .bin that it was made from"


def read_word2vec(stream: io.BufferedReader, wanted: Set[str], *, source: str) -> Rows:
    r"""Read "V D\n", then V times a word, a space, D little-endian 4-byte floats (and, by some writers, a line break).

    Raises:
        JudgeError: cut off; more bytes than the first line says; a word that is not UTF-8; a value of a wanted word
            that is no finite number. Records count from 1.
    """
    reader = RecordReader(stream, source)
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


@dataclass(frozen=True, slots=True)
class _Model:
    """The settings of a fastText model, and the rows of the wanted words in its input matrix."""

    width: int
    words: int
    buckets: int
    least: int
    most: int
    rows: dict[str, int]

    def subwords(self, word: str) -> Iterator[int]:
        """Rows of the n-grams of "<word>", as ``Dictionary::computeSubwords`` lists them.

        N-grams of ``least`` to ``most`` characters (not bytes), one that repeats as often as it occurs.
        """
        text = f"<{word}>"
        starts = range(len(text)) if word != _END_OF_SENTENCE else ()
        for start in starts:
            for stop in range(start + max(1, self.least), min(start + self.most, len(text)) + 1):
                gram = text[start:stop]
                if gram not in {"<", ">"} or 0 < start < len(text) - 1:
                    yield self.words + _hash(gram.encode()) % self.buckets


def read_fasttext(stream: io.BufferedReader, wanted: Set[str], *, source: str) -> Rows:
    """Read a fastText ``.bin``: of each word of its dictionary the vector that ``print-word-vectors`` prints.

    That is the mean of the word's own row of the input matrix and of the rows of its character n-grams. Words outside
    the dictionary get none, though fastText would make one of their n-grams alone: a ``.bin`` and the ``.vec`` beside
    it then say the same.

    Raises:
        JudgeError: another version, quantised (``.ftz``), cut off, damaged, not UTF-8, a value that is not finite.
    """
    reader = RecordReader(stream, source)
    model = _read_model(reader, wanted)
    quantised, height, width = struct.unpack("<?qq", reader.take(17))
    if quantised:
        raise JudgeError(_QUANTISED[0], where=source, mend=_QUANTISED[1])
    if width != model.width or not model.words <= height:
        what = f"its input matrix is {height:,} x {width:,}, which does not fit its dictionary"
        raise JudgeError(what, where=source, mend=AGAIN)
    begin = reader.position
    rows = {word: [row, *model.subwords(word)] for word, row in model.rows.items()}
    for word, needed in rows.items():
        if max(needed) >= height:
            what = f"the n-grams of '{word}' lie beyond its input matrix of {height:,} rows"
            raise JudgeError(what, where=source, mend=AGAIN)
    try:
        means = _means(stream, list(rows.values()), begin=begin, width=width)
        # Also where no row was needed from there: a file that is cut off is not to be trusted.
        stream.seek(begin + 4 * width * height - 1)
        whole = bool(stream.read(1))
    except UNREADABLE as error:
        raise damaged(error, f"{source}, input matrix") from error
    if not whole:
        raise JudgeError("the file ends in the middle of it", where=f"{source}, input matrix", mend=AGAIN)
    return {
        word: finite(mean, word, f"{source}, record {model.rows[word] + 1}")
        for word, mean in zip(rows, means, strict=True)
    }


def _read_model(reader: RecordReader, wanted: Set[str]) -> _Model:
    _, version = struct.unpack("<ii", reader.take(8))
    if version not in _VERSIONS:
        what = f"a fastText model of version {version}; 11 and 12 are known"
        raise JudgeError(what, where=reader.source, mend="convert it to .vec")
    settings = struct.unpack("<12id", reader.take(56))
    width, kind, buckets, least, most = settings[0], *settings[7:11]
    size, words, _, _, pruned = struct.unpack("<iiiqq", reader.take(28))
    if not (0 < width <= MAX_WIDTH and 0 <= words <= size and buckets >= 0):
        raise JudgeError("its settings make no sense", where=reader.where, mend=AGAIN)
    if pruned >= 0:  # Only quantised models are pruned.
        raise JudgeError(_QUANTISED[0], where=reader.source, mend=_QUANTISED[1])
    rows: dict[str, int] = {}
    for index in range(size):
        reader.record = index + 1
        word = decode(reader.until(b"\0"), reader.where)
        reader.take(9)  # Its count (8 bytes), and whether it is a word or a label: words come first.
        if index < words and word in wanted:
            rows.setdefault(word, index)
    # Version 11's classifiers had no n-grams, whatever they say.
    most = 0 if (version == 11 and kind == _SUPERVISED) or not buckets else most
    return _Model(width, words, buckets, least, most, rows)


def _means(stream: io.BufferedReader, rows: Sequence[Sequence[int]], *, begin: int, width: int) -> FloatArray32:
    """The mean of each list of rows; each row is read once, in the file's order."""
    sums = np.zeros((len(rows), width))
    needed = sorted((row, owner) for owner, of in enumerate(rows) for row in of)
    for row, owners in groupby(needed, key=itemgetter(0)):
        stream.seek(begin + 4 * width * row)
        values = stream.read(4 * width)
        if len(values) < 4 * width:
            raise EOFError(f"row {row + 1} is missing")
        for _, owner in owners:
            sums[owner] += np.frombuffer(values, dtype="<f4")
    counts = np.array([len(of) for of in rows], dtype=np.float64).reshape(-1, 1)
    return (sums / counts).astype(np.float32)


def _hash(text: bytes) -> int:
    """FNV-1a of 32 bits, in which fastText takes bytes for signed numbers."""
    value = 2166136261
    for byte in text:
        value ^= byte if byte < 128 else byte | 0xFFFFFF00
        value = value * 16777619 & 0xFFFFFFFF
    return value
