"""Word vectors from files: GloVe text, word2vec text and binary, fastText ``.vec``, gzip of each, told by content.

Formats: https://nlp.stanford.edu/projects/glove, https://code.google.com/archive/p/word2vec (``distance.c``) and
https://fasttext.cc/docs/en/crawl-vectors.html. A file is read once, from its beginning to its end, and never held in
memory as a whole.
"""

from __future__ import annotations

import gzip
import io
import re
import zlib
from collections.abc import Iterator, Mapping, Set
from contextlib import contextmanager
from typing import cast

import numpy as np
import numpy.typing as npt

from judge.errors import JudgeError
from judge.utils.files import from_home
from judge.utils.reading import WIDTH, WORD, NotRegularError, open_regular

FloatArray32 = npt.NDArray[np.float32]
Rows = Mapping[str, FloatArray32]
"""Word -> its vector, [D]."""

AGAIN = "fetch the file again, or choose another with --vectors"
_HEAD = 2**16
_NUMBER = 40  # Bytes of a number in a text and of the space before it, at most.
_HEADER = re.compile(rb"([0-9]{1,12}) ([0-9]{1,12})[ \r]*\n")
# "the 0.418 ...": a word, then a number as people write it.
_TEXT = re.compile(rb"[^\n]*? [-+]?(?:[0-9]+\.?|\.[0-9]|nan|inf)[0-9.eE+-]*(?:[ \r\n]|$)", re.IGNORECASE)
_DECIMAL = re.compile(rb"[-+]?[0-9]*\.[0-9]+(?:[eE][-+]?[0-9]+)?")
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1f]")
_BOM = b"\xef\xbb\xbf"
_KNOWN = "give GloVe text, word2vec text or binary, fastText .vec, or gzip of one"
_REFUSED = {
    b"PK\x03\x04": ("is a zip archive", "unpack it first"),
    b"BZh": ("is a bzip2 archive", "unpack it first"),
    b"\xfd7zXZ": ("is an xz archive", "unpack it first"),
    b"\x80": ("is a pickle, which can run any code", "save it in word2vec's format"),
    b"\xba\x16O/": ("is a fastText model", "give the .vec that is published beside it"),
    b"\x93NUMPY": ("is a numpy array, without words", _KNOWN),
}


def read_file(reference: str, wanted: Set[str]) -> Rows:
    """Vectors of the words ``wanted``; of a word that stands twice the first vector counts.

    Raises:
        JudgeError: no such file, a folder, empty, no known format, cut off, damaged, of mixed width; a word that is
            not UTF-8; a value of a wanted word that is no finite number. Lines and records count from 1.
    """
    with _opened(reference) as stream:
        head = _reading(stream, _HEAD, reference)
        for mark, (what, mend) in _REFUSED.items():
            if head.startswith(mark):
                raise JudgeError(what, where=reference, mend=mend)
        if not head.strip():
            raise JudgeError("file is empty", where=reference, mend=_KNOWN)
        head = head.removeprefix(_BOM)
        header = _HEADER.match(head)
        if not header and not _TEXT.match(head):
            raise JudgeError("holds no word vectors of a known format", where=reference, mend=_KNOWN)
        size, body = (0, 0), head
        if header:
            size, body = (int(header[1]), int(header[2])), head[header.end() :]
            WIDTH.refuse(size[1], reference, instead=_KNOWN)
            if not all(size):
                what = f"its first line says {size[0]:,} vectors of {size[1]:,} numbers"
                raise JudgeError(what, where=reference, mend=_KNOWN)
            if not body.strip():
                raise JudgeError("holds no vectors after its first line", where=reference, mend=AGAIN)
        is_text = not header or _TEXT.match(body) or _could_be_text(body)
        records = (_text_records if is_text else _binary_records)(_Stream(stream, head, reference), size)
        rows: dict[str, FloatArray32] = {}
        for name, values, where in records:
            try:
                word = name.decode("utf-8")
            except UnicodeDecodeError:
                raise JudgeError("its word is not UTF-8", where=where, mend="convert the file to UTF-8") from None
            if word in wanted and word not in rows:
                rows[word] = finite(_numbers(values, where) if is_text else np.frombuffer(values, "<f4"), word, where)
        return rows


def finite(row: FloatArray32, word: str, where: str) -> FloatArray32:
    """``row``, if all of its values are finite numbers."""
    if not np.isfinite(row).all():
        what = f"the vector of '{word}' holds a value that is no finite number"
        raise JudgeError(what, where=where, mend=AGAIN)
    return row


class _Stream:
    """A stream of bytes, cut at marks or into records of known sizes.

    Args:
        stream: behind its ``head``.
        head: the first bytes.
        source: the file, for messages.
    """

    def __init__(self, stream: io.BufferedReader, head: bytes, source: str) -> None:
        self.stream, self.source, self.where = stream, source, f"{source}, at its beginning"
        self._piece, self._at = head, 0

    def take(self, count: int) -> bytes:
        """The next ``count`` bytes.

        Raises:
            JudgeError: there are fewer.
        """
        while len(self._piece) < self._at + count:
            if not self._read():
                raise JudgeError("the file ends in the middle of it", where=self.where, mend=AGAIN)
        self._at += count
        return self._piece[self._at - count : self._at]

    def until(self, end: bytes, longest: int, fault: JudgeError, *, last: bool = False) -> bytes:
        """The bytes before the next ``end`` (one byte), which is skipped; if ``last``, the file may end instead.

        Raises:
            JudgeError: ``fault``, if there is none within ``longest`` bytes; the file ends.
        """
        while (found := self._piece.find(end, self._at, self._at + longest)) < 0:
            if len(self._piece) >= self._at + longest:
                raise fault
            if not self._read():
                return self.take(len(self._piece) - self._at if last else 1)
        return self.take(found + 1 - self._at)[:-1]

    def at_end(self, *, blank: bool = False) -> bool:
        """Whether nothing is left, or if ``blank`` nothing but white space."""
        while self._at >= len(self._piece) or (blank and not self._piece[self._at :].strip()):
            if not self._read():
                return True
        return False

    def _read(self) -> bytes:
        # Not ``read``: of an archive that is cut off, all that is whole comes first.
        piece = _reading(self.stream, 2**20, self.where, part=True)
        self._piece, self._at = self._piece[self._at :] + piece, 0
        return piece


def _reading(stream: io.BufferedReader, count: int, where: str, *, part: bool = False) -> bytes:
    """The next bytes: ``count``, or if ``part`` as many as there are at once."""
    try:
        return stream.read1(count) if part else stream.read(count)
    except (EOFError, zlib.error, OSError) as error:
        raise JudgeError(f"cut off or damaged here ({error})", where=where, mend=AGAIN) from error


def _text_records(stream: _Stream, size: tuple[int, int]) -> Iterator[tuple[bytes, bytes, str]]:
    """Word, numbers and place of each line "word v1 ... vD"; ``size``: lines and D of the first line, 0 without one.

    A word may hold spaces, as some of GloVe 840B's do: its numbers are the last D fields.
    """
    width, count, number = size[1], 0, 0
    longest = int(WORD.value() + _NUMBER * WIDTH.value())
    while not stream.at_end():
        number += 1
        where = stream.where = f"{stream.source}, line {number}"
        fault = JudgeError("too long for a vector", where=where, mend=WIDTH.raise_it(AGAIN))
        body = stream.until(b"\n", longest, fault, last=True).rstrip(b"\r\n ")
        if not body or (size[0] and number == 1):
            continue
        width = width or _width(body, where)
        count += 1
        word = _word(body, width, where)
        yield word, body[len(word) + 1 :], where
        stream.where = f"{stream.source}, line {number + 1}"
    if size[0] and count != size[0]:
        what = f"its first line says {size[0]:,} vectors, and it holds {count:,}"
        raise JudgeError(what, where=f"{stream.source}, line {count + 1}", mend=AGAIN)


def _width(body: bytes, where: str) -> int:
    """How many numbers a line ends with."""
    width = 0
    for field in reversed(body.split(b" ")[1:]):
        try:
            float(field)
        except ValueError:
            break
        width += 1
    WIDTH.refuse(width, where, instead=AGAIN)
    if not width:
        raise JudgeError("is no word followed by numbers", where=where, mend=AGAIN)
    return width


def _word(body: bytes, width: int, where: str) -> bytes:
    """The word: all before the last ``width`` fields."""
    fields = body.count(b" ")
    if fields == width:
        return body[: body.find(b" ")]
    if fields > width:
        word = body.rsplit(b" ", width)[0]
        # "at name@domain.com" is a word of GloVe's; "cat 0.12" is one number too many.
        further = sum(1 for part in word.split(b" ")[1:] if _DECIMAL.fullmatch(part))
        if not further:
            return word
        fields = width + further
    raise JudgeError(f"holds {fields:,} numbers where others hold {width:,}", where=where, mend=AGAIN)


def _numbers(body: bytes, where: str) -> FloatArray32:
    try:
        values = [float(field) for field in body.split(b" ")]
    except ValueError:
        raise JudgeError("a value is no number", where=where, mend=AGAIN) from None
    with np.errstate(over="ignore"):  # A number that is too large is reported as not finite.
        return np.array(values, dtype=np.float32)


def _binary_records(stream: _Stream, size: tuple[int, int]) -> Iterator[tuple[bytes, bytes, str]]:
    r"""From "V D\n", then V times a word, a space and D little-endian 4-byte floats (some writers add a line break)."""
    stream.until(b"\n", _HEAD, JudgeError("has no first line", where=stream.where, mend=AGAIN))
    for record in range(1, size[0] + 1):
        where = stream.where = f"{stream.source}, record {record}"
        fault = JudgeError("no word begins here, so it is damaged", where=where, mend=WORD.raise_it(AGAIN))
        word = stream.until(b" ", int(WORD.value()), fault).lstrip(b"\n")
        yield word, stream.take(4 * size[1]), where
    if not stream.at_end(blank=True):
        what = f"its first line says {size[0]:,} vectors of {size[1]:,} numbers, and it holds more"
        raise JudgeError(what, where=stream.where, mend=AGAIN)


@contextmanager
def _opened(reference: str) -> Iterator[io.BufferedReader]:
    """The file's bytes; those of a gzip archive unpacked."""
    try:
        file = open_regular(from_home(reference))
    except IsADirectoryError:
        mend = f"give one file; for a Hugging Face encoder write hf:{reference}"
        raise JudgeError("is a folder", where=reference, mend=mend) from None
    except NotRegularError:
        raise JudgeError("is not a regular file", where=reference, mend="give a file on disk") from None
    except FileNotFoundError:
        mend = "give corpus, a file, or hf:NAME"
        raise JudgeError("no such file of vectors", where=f"--vectors {reference}", mend=mend) from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path.
        raise JudgeError(f"cannot be read ({error})", where=reference, mend="check the path") from error
    with file:
        if file.peek(2)[:2] != b"\x1f\x8b":
            yield file
            return
        with gzip.open(file) as unpacked:
            yield io.BufferedReader(cast("io.RawIOBase", unpacked), 2**18)


def _could_be_text(body: bytes) -> bool:
    """Whether ``body`` could be text at all, so that a damaged text file is reported as such."""
    whole = body if len(body) < _HEAD // 2 else body[: body.rfind(b" ")]
    try:
        whole.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return not _CONTROL.search(whole)
