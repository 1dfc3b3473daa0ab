"""Vectors as text: a word and its numbers a line, with a first line of counts (word2vec, fastText) or without (GloVe).

Formats: https://nlp.stanford.edu/projects/glove, https://code.google.com/archive/p/word2vec and
https://fasttext.cc/docs/en/crawl-vectors.html.
"""

from __future__ import annotations

import io
import re
from collections.abc import Set
from functools import partial

import numpy as np

from judge.errors import JudgeError
from judge.text.vectors.reader import AGAIN, UNREADABLE, FloatArray32, Rows, damaged, decode, finite
from judge.utils.reading import WIDTH, WORD

_NUMBER = 40  # Bytes of one on a line, and of the space before it, at most.
_DECIMAL = re.compile(rb"[-+]?[0-9]*\.[0-9]+(?:[eE][-+]?[0-9]+)?")


def read_text(stream: io.BufferedReader, wanted: Set[str], *, source: str, size: tuple[int, int] | None = None) -> Rows:
    """Read lines "word v1 ... vD".

    A word may hold spaces, as some of GloVe 840B's do: its numbers are the last D fields.

    Args:
        stream: the file's bytes, from its beginning on.
        wanted: words to keep.
        source: the file, for messages.
        size: (lines, D) as the first line says; None where there is no such line, and D is that of the first word.

    Raises:
        JudgeError: a line of another width, with its number; a word that is not UTF-8; fewer or more lines than
            ``size`` says; a value of a wanted word that is no finite number.
    """
    width = size[1] if size else 0
    rows: dict[str, FloatArray32] = {}
    count = number = 0
    longest = int(WORD.value() + _NUMBER * WIDTH.value())
    try:
        for number, line in enumerate(iter(partial(stream.readline, longest), b""), start=1):
            where, body = f"{source}, line {number}", line.rstrip(b"\r\n ")
            if len(line) == longest:
                raise JudgeError("too long for a vector", where=where, mend=WIDTH.raise_it(AGAIN))
            if not body or (size and number == 1):
                continue
            width = width or _width(body, where)
            count += 1
            word = decode(_word(body, width, where), where)
            if word in wanted and word not in rows:
                rows[word] = finite(_numbers(body, width, where), word, where)
    except UNREADABLE as error:
        raise damaged(error, f"{source}, line {number + 1}") from error
    if size and count != size[0]:
        what = f"its first line says {size[0]:,} vectors, and it holds {count:,}"
        raise JudgeError(what, where=f"{source}, line {count + 1}", mend=AGAIN)
    return rows


def _width(body: bytes, where: str) -> int:
    """How many numbers the first line of a file ends with."""
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


def _numbers(body: bytes, width: int, where: str) -> FloatArray32:
    fields = body.rsplit(b" ", width)[1:]
    try:
        values = [float(field) for field in fields]
    except ValueError:
        raise JudgeError("a value is no number", where=where, mend=AGAIN) from None
    with np.errstate(over="ignore"):  # A number that is too large is reported as not finite.
        return np.array(values, dtype=np.float32)
