"""Opening a file of vectors and recognising its format by its content, never by its name."""

from __future__ import annotations

import gzip
import io
import re
from collections.abc import Iterator, Set
from contextlib import contextmanager
from typing import cast

from judge.errors import JudgeError
from judge.text.vectors.binary import read_word2vec
from judge.text.vectors.reader import AGAIN, UNREADABLE, Rows, damaged
from judge.text.vectors.text import read_text
from judge.utils.files import from_home
from judge.utils.reading import WIDTH, NotRegularError, open_regular

_HEAD = 2**16
_HEADER = re.compile(rb"([0-9]{1,12}) ([0-9]{1,12})[ \r]*\n")
# "the 0.418 ...": a word, then a number as people write it.
_TEXT = re.compile(rb"[^\n]*? [-+]?(?:[0-9]+\.?|\.[0-9]|nan|inf)[0-9.eE+-]*(?:[ \r\n]|$)", re.IGNORECASE)
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
    """Vectors of the words ``wanted``, out of a file of any known format; see the reader of each.

    The file is read once, from its beginning to its end, and never held in memory as a whole. Of words that are not
    wanted only the width is looked at. Of a word that stands twice the first vector counts.

    Raises:
        JudgeError: no such file, a folder, empty, no known format, cut off, damaged, of mixed width, not UTF-8, not
            finite.
    """
    with _opened(reference) as stream:
        try:
            head = stream.read(_HEAD)
        except UNREADABLE as error:
            raise damaged(error, reference) from error
        for mark, (what, mend) in _REFUSED.items():
            if head.startswith(mark):
                raise JudgeError(what, where=reference, mend=mend)
        if not head.strip():
            raise JudgeError("file is empty", where=reference, mend=_KNOWN)
        start = len(_BOM) if head.startswith(_BOM) else 0
        head = head[start:]
        stream.seek(start)
        if header := _HEADER.match(head):
            size = int(header[1]), int(header[2])
            WIDTH.refuse(size[1], reference, instead=_KNOWN)
            if not all(size):
                what = f"its first line says {size[0]:,} vectors of {size[1]:,} numbers"
                raise JudgeError(what, where=reference, mend=_KNOWN)
            body = head[header.end() :]
            if not body.strip():
                raise JudgeError("holds no vectors after its first line", where=reference, mend=AGAIN)
            if _TEXT.match(body) or _is_text(body):
                return read_text(stream, wanted, source=reference, size=size)
            return read_word2vec(stream, wanted, source=reference)
        if not _TEXT.match(head):
            raise JudgeError("holds no word vectors of a known format", where=reference, mend=_KNOWN)
        return read_text(stream, wanted, source=reference)


@contextmanager
def _opened(reference: str) -> Iterator[io.BufferedReader]:
    """The file's bytes, unpacked where it is a gzip archive."""
    path = from_home(reference)
    try:
        file = open_regular(path)
    except IsADirectoryError:
        mend = f"give one file; for a Hugging Face encoder write hf:{reference}"
        raise JudgeError("is a folder", where=reference, mend=mend) from None
    except NotRegularError:
        raise JudgeError("is not a regular file", where=reference, mend="give a file on disk") from None
    except FileNotFoundError:
        mend = "give corpus, a file, or hf:NAME"
        raise JudgeError("no such file of vectors", where=f"--vectors {reference}", mend=mend) from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        raise JudgeError(f"cannot be read ({error})", where=reference, mend="check the path") from error
    with file:
        packed = file.read(2) == b"\x1f\x8b"
        file.seek(0)
        if not packed:
            yield file
            return
        with gzip.open(file) as unpacked:
            yield io.BufferedReader(cast("io.RawIOBase", unpacked), 2**18)


def _is_text(body: bytes) -> bool:
    """Whether ``body`` could be text at all: a damaged text file is reported as such."""
    whole = body if len(body) < _HEAD // 2 else body[: body.rfind(b" ")]
    try:
        whole.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return not _CONTROL.search(whole)
