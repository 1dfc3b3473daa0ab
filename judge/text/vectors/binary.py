"""Vectors as bytes: word2vec's binary format, and fastText's models.

Formats: https://code.google.com/archive/p/word2vec (``distance.c``) and https://github.com/facebookresearch/fastText
(``args.cc``, ``dictionary.cc``, ``densematrix.cc``, version 12 of its files).
"""

from __future__ import annotations

import io
import struct
from collections.abc import Set
from dataclasses import dataclass

import numpy as np

from judge.errors import JudgeError
from judge.text.vectors.rows import AGAIN, MAX_WIDTH, UNREADABLE, FloatArray32, Rows, Tape, damaged, decode, finite

_MAGIC = 793712314
FASTTEXT = struct.pack("<i", _MAGIC)
_VERSIONS = (11, 12)
_SUPERVISED = 3
_END_OF_SENTENCE = b"</s>"
# Rows of the input matrix summed at a time.
_BLOCK = 4096


def read_word2vec(stream: io.BufferedReader, wanted: Set[str], *, source: str) -> Rows:
    r"""Read "V D\n", then V times a word, a space, D little-endian 4-byte floats (and, by some writers, a line break).

    Raises:
        JudgeError: cut off; more bytes than the first line says; a word that is not UTF-8; a value of a wanted word
            that is no finite number. Records count from 1.
    """
    tape = Tape(stream, source)
    count, width = map(int, tape.until(b"\n").split())
    rows: dict[str, FloatArray32] = {}
    for record in range(1, count + 1):
        tape.record = record
        word = decode(tape.until(b" ").lstrip(b"\n"), tape.where)
        values = tape.take(4 * width)
        if word in wanted and word not in rows:
            rows[word] = finite(np.frombuffer(values, dtype="<f4").astype(np.float32), word, tape.where)
    if not tape.at_end():
        what = f"its first line says {count:,} vectors of {width:,} numbers, and it holds more"
        raise JudgeError(what, where=tape.where, mend=AGAIN)
    return rows


@dataclass(frozen=True, slots=True)
class _Model:
    """What a fastText model says before its matrices."""

    width: int
    words: int
    buckets: int
    least: int
    most: int
    pruned: dict[int, int] | None

    def subwords(self, word: bytes) -> list[int]:
        """Rows of the n-grams of "<word>", as ``Dictionary::computeSubwords`` lists them.

        N-grams of ``least`` to ``most`` characters (not bytes), one that repeats as often as it stands there.
        """
        if word == _END_OF_SENTENCE or self.most <= 0:
            return []
        text = [char.encode() for char in f"<{word.decode()}>"]
        rows = []
        for start in range(len(text)):
            for length in range(max(1, self.least), self.most + 1):
                stop = start + length
                if stop > len(text):
                    break
                if length == 1 and (start == 0 or stop == len(text)):
                    continue
                bucket = _hash(b"".join(text[start:stop])) % self.buckets
                if self.pruned is None:
                    rows.append(self.words + bucket)
                elif bucket in self.pruned:
                    rows.append(self.words + self.pruned[bucket])
        return rows


def read_fasttext(stream: io.BufferedReader, wanted: Set[str], *, source: str) -> Rows:
    """Read a fastText ``.bin``: of each word of its dictionary the vector that ``print-word-vectors`` prints.

    That is the mean of the word's own row of the input matrix and of the rows of its character n-grams. Words outside
    the dictionary get none, though fastText would make one of their n-grams alone: a ``.bin`` and the ``.vec`` beside
    it then say the same.

    Raises:
        JudgeError: another version, quantised (``.ftz``), cut off, damaged, not UTF-8, a value that is not finite.
    """
    tape = Tape(stream, source)
    model, found = _head(tape, wanted)
    (quantised,) = struct.unpack("<?", tape.take(1))
    if quantised:
        raise JudgeError("a quantised fastText model (.ftz)", where=source, mend="give the .bin that it was made from")
    height, width = struct.unpack("<qq", tape.take(16))
    if width != model.width or not model.words <= height:
        what = f"its input matrix is {height:,} x {width:,}, which does not fit its dictionary"
        raise JudgeError(what, where=source, mend=AGAIN)
    begin = tape.position
    rows = {word: [index, *model.subwords(word.encode())] for word, index in found.items()}
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
        word: finite(mean, word, f"{source}, record {found[word] + 1}") for word, mean in zip(rows, means, strict=True)
    }


def _head(tape: Tape, wanted: Set[str]) -> tuple[_Model, dict[str, int]]:
    """The settings, and the rows of the wanted words, out of the dictionary."""
    _, version = struct.unpack("<ii", tape.take(8))
    if version not in _VERSIONS:
        what = f"a fastText model of version {version}; 11 and 12 are known"
        raise JudgeError(what, where=tape.source, mend="convert it to .vec")
    settings = struct.unpack("<12id", tape.take(56))
    width, kind, buckets, least, most = settings[0], *settings[7:11]
    size, words, _, _, pruned = struct.unpack("<iiiqq", tape.take(28))
    if not (0 < width <= MAX_WIDTH and 0 <= words <= size and buckets >= 0):
        raise JudgeError("its settings make no sense", where=tape.where, mend=AGAIN)
    found: dict[str, int] = {}
    for index in range(size):
        tape.record = index + 1
        word = decode(tape.until(b"\0"), tape.where)
        tape.take(9)  # How often it was seen (8 bytes), and whether it is a word or a label: words come first.
        if index < words and word in wanted:
            found.setdefault(word, index)
    kept = dict(struct.iter_unpack("<ii", tape.take(8 * pruned))) if pruned >= 0 else None
    # Version 11's classifiers had no n-grams, whatever they say.
    most = 0 if (version == 11 and kind == _SUPERVISED) or not buckets else most
    return _Model(width, words, buckets, least, most, kept), found


def _means(stream: io.BufferedReader, rows: list[list[int]], *, begin: int, width: int) -> FloatArray32:
    """Of each list of rows the mean; rows are read in the file's order, once, a block at a time."""
    sums = np.zeros((len(rows), width))
    owners = np.repeat(np.arange(len(rows)), [len(needed) for needed in rows])
    flat = np.array([row for needed in rows for row in needed], dtype=np.int64)
    order = np.argsort(flat, kind="stable")
    flat, owners = flat[order], owners[order]
    for start in range(0, len(flat), _BLOCK):
        unique, where = np.unique(flat[start : start + _BLOCK], return_inverse=True)
        block = np.zeros((len(unique), width), dtype=np.float32)
        for index, row in enumerate(unique.tolist()):
            stream.seek(begin + 4 * width * row)
            values = stream.read(4 * width)
            if len(values) < 4 * width:
                raise EOFError(f"row {row + 1} is missing")
            block[index] = np.frombuffer(values, dtype="<f4")
        np.add.at(sums, owners[start : start + _BLOCK], block[where])
    counts = np.array([len(needed) for needed in rows], dtype=np.float64).reshape(-1, 1)
    return (sums / counts).astype(np.float32)


def _hash(text: bytes) -> int:
    """FNV-1a of 32 bits, in which fastText takes bytes for signed numbers."""
    value = 2166136261
    for byte in text:
        value ^= byte if byte < 128 else byte | 0xFFFFFF00
        value = value * 16777619 & 0xFFFFFFFF
    return value
