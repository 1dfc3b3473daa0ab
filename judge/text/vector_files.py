"""Word vectors from files: GloVe, word2vec as text, fastText ``.vec``, gzip of each; recognised by content.

Formats: https://nlp.stanford.edu/projects/glove, https://code.google.com/archive/p/word2vec and
https://fasttext.cc/docs/en/crawl-vectors.html. A file is read line by line and is never in memory as a whole.
"""

import gzip
import io
import re
import zlib
from collections.abc import Iterator, Mapping, Set
from typing import cast

import numpy as np
import numpy.typing as npt

from judge.errors import JudgeError
from judge.utils.files import from_home
from judge.utils.reading import WIDTH, WORD, lifted, open_regular, opening

FloatArray32 = npt.NDArray[np.float32]
Rows = Mapping[str, FloatArray32]
"""Word -> its vector, [D]."""

AGAIN = "fetch the file again, or choose another"
_HEAD = 2**16
_NUMBER = 40  # Bytes of a number in a text, with the space before it, at most.
_HEADER = re.compile(rb"([0-9]{1,12}) ([0-9]{1,12})[ \r]*\n")
# "the 0.418 ...": a word, then a number in decimal notation.
_TEXT = re.compile(rb"[^\n]*? [-+]?(?:[0-9]+\.?|\.[0-9]|nan|inf)[0-9.eE+-]*(?:[ \r\n]|$)", re.IGNORECASE)
_DECIMAL = re.compile(rb"[-+]?[0-9]*\.[0-9]+(?:[eE][-+]?[0-9]+)?")
_BOM = b"\xef\xbb\xbf"
_KNOWN = "give GloVe, word2vec as text, fastText .vec, or gzip of one"
_REFUSED = (
    ((b"PK\x03\x04", b"BZh", b"\xfd7zXZ"), "is an archive", "unpack it first"),
    ((b"\x80",), "is a pickle, which can run any code", "save it in word2vec's format"),
    ((b"\xba\x16O/",), "is a fastText model", "give the .vec that is published beside it"),
    ((b"\x93NUMPY",), "is a numpy array, without words", _KNOWN),
)


def read_file(reference: str, wanted: Set[str] | None) -> Rows:
    """Vectors of the words ``wanted``, None for the first word; if a word occurs twice, its first vector counts."""
    where = f"--vectors {reference}"
    with opening(reference, folder="give one file", absent="give corpus, or a file", where=where):
        file = open_regular(from_home(reference))
    try:
        with file:
            if file.peek(2)[:2] != b"\x1f\x8b":
                return _read(file, reference, wanted)
            with gzip.open(file) as unpacked:
                return _read(io.BufferedReader(cast("io.RawIOBase", unpacked), 2**18), reference, wanted)
    except (EOFError, zlib.error, OSError) as error:
        raise JudgeError(f"file is cut off or damaged ({error})", where=reference, mend=AGAIN) from error


def _read(stream: io.BufferedReader, source: str, wanted: Set[str] | None) -> Rows:
    head = stream.read(_HEAD)
    for marks, what, mend in _REFUSED:
        if head.startswith(marks):
            raise JudgeError(what, where=source, mend=mend)
    if not head.strip():
        raise JudgeError("file is empty", where=source, mend=_KNOWN)
    stream.seek(len(_BOM) if head.startswith(_BOM) else 0)
    head = head.removeprefix(_BOM)
    header = _HEADER.match(head)
    count, width = map(int, header.groups()) if header else (0, 0)
    body = head[header.end() :] if header else head
    if header and not body.strip():
        raise JudgeError("holds no vectors after its first line", where=source, mend=AGAIN)
    if not _TEXT.match(body):
        mend = f"{_KNOWN}; gensim converts word2vec's binary files" if header else _KNOWN
        raise JudgeError("holds no word vectors of a known format", where=source, mend=mend)
    WIDTH.refuse(width, source, instead=_KNOWN)
    rows: dict[str, FloatArray32] = {}
    for name, values, where in _records(stream, count, width, source):
        try:
            word = name.decode("utf-8")
        except UnicodeDecodeError:
            raise JudgeError("its word is not UTF-8", where=where, mend="convert the file to UTF-8") from None
        if wanted is None:
            return {word: _numbers(values, word, where)}
        if word in wanted and word not in rows:
            rows[word] = _numbers(values, word, where)
    return rows


def _records(stream: io.BufferedReader, stated: int, width: int, source: str) -> Iterator[tuple[bytes, bytes, str]]:
    """Word, numbers and place of each line "word v1 ... vD", which may contain spaces, as some words of GloVe 840B do.

    ``stated`` and ``width``: the number of vectors and D in the first line, 0 if it holds a vector.
    """
    longest = int(WORD.value() + _NUMBER * WIDTH.value())
    count = number = 0
    while line := stream.readline(longest):
        number += 1
        where = f"{source}, line {number}"
        if len(line) == longest:
            raise JudgeError("too long for a vector", where=where, mend=lifted(AGAIN))
        body = line.rstrip(b"\r\n ")
        if not body or (stated and number == 1):
            continue
        width = width or _width(body, where)
        count += 1
        word = _word(body, width, where)
        yield word, body[len(word) + 1 :], where
    if stated and count != stated:
        what = f"its first line says {stated:,} vectors, and it holds {count:,}"
        raise JudgeError(what, where=f"{source}, line {count + 1}", mend=AGAIN)


def _width(body: bytes, where: str) -> int:
    """The number of numbers at the end of a line."""
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
    """The word: everything before the last ``width`` fields."""
    if body.count(b" ") == width:  # Much faster than to split millions of lines.
        return body.partition(b" ")[0]
    word, *numbers = body.rsplit(b" ", width)
    # GloVe has the word "at name@domain.com"; "cat 0.12" is one number too many.
    further = sum(bool(_DECIMAL.fullmatch(part)) for part in word.split(b" ")[1:])
    if further or len(numbers) < width:
        what = f"holds {len(numbers) + further:,} numbers where others hold {width:,}"
        raise JudgeError(what, where=where, mend=AGAIN)
    return word


def _numbers(body: bytes, word: str, where: str) -> FloatArray32:
    try:
        values = [float(field) for field in body.split(b" ")]
    except ValueError:
        raise JudgeError("a value is no number", where=where, mend=AGAIN) from None
    with np.errstate(over="ignore"):
        row = np.array(values, dtype=np.float32)
    if not np.isfinite(row).all():
        raise JudgeError(f"the vector of '{word}' holds a value that is no finite number", where=where, mend=AGAIN)
    return row
