"""LIC's release pickles, read without trusting them.

Unpickling runs whatever the pickle says. Here only the instructions that build lists, tuples, dicts, sets,
texts, numbers, booleans and None are known; all others are refused.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from pickle import _Unpickler
from typing import Any, NoReturn

from judge.errors import JudgeError
from judge.utils.reading import refuse_large

# The C unpickler sizes its memo by a number in the file, so four bytes can claim 64 GB; the Python one
# has a dict, and its instructions can be listed. DUP and LONG4, which no program writes for such values, are refused.
_ALLOWED = (
    "MARK STOP POP POP_MARK NONE NEWTRUE NEWFALSE INT BININT BININT1 BININT2 LONG LONG1 FLOAT BINFLOAT "
    "STRING BINSTRING SHORT_BINSTRING UNICODE BINUNICODE SHORT_BINUNICODE BINUNICODE8 "
    "LIST EMPTY_LIST APPEND APPENDS TUPLE EMPTY_TUPLE TUPLE1 TUPLE2 TUPLE3 DICT EMPTY_DICT SETITEM SETITEMS "
    "EMPTY_SET ADDITEMS FROZENSET GET BINGET LONG_BINGET PUT BINPUT LONG_BINPUT MEMOIZE PROTO FRAME "
    # These name a class; they are allowed so that find_class can say which class it refuses.
    "GLOBAL STACK_GLOBAL INST"
)
_MEND = (
    "a pickle can run code, so only lists, dicts, texts and numbers are read; "
    "where it was written, turn it into JSON: json.dump(data, file, default=str)"
)
_MEND_TABLE = (
    "a table of pandas is read as CSV: where it was written, table.to_csv('captions.csv', index=False); for ArtEmis's "
    "speakers it is the second of [settings, table, attention]"
)
_MEND_VALUE = "write plain lists and dicts of texts and numbers, each list on its own"
# Bytes of memory that short instructions take, at most; any other one takes twelve times its length at most.
_COSTS = {b"(": 120, b"]": 64, b"}": 72, b"\x85": 64, b"\x86": 64, b"\x87": 64, b"\x8f": 224, b"\x94": 110, b"r": 110}
_COSTS |= dict.fromkeys((b"X", b"U", b"T", b"\x8c"), 60)
_COST = 12
_CHECKED = ("GET", "BINGET", "LONG_BINGET", "INT", "LONG")
_BITS = 13_000
_WORD = 2**63  # Few whole numbers below it share a hash.


class _RefusedError(Exception):
    """The pickle asks for something that could run code."""

    def __init__(self, what: str, mend: str = _MEND) -> None:
        super().__init__(what)
        self.mend = mend


def _unknown(_: object) -> NoReturn:
    raise _RefusedError("pickle builds objects")


def _with_keys(code: int, first: int | None = None, step: int = 1) -> Callable[[Any], None]:
    """An instruction that first checks the keys on the stack: looking up a nested one may take forever."""
    load: Callable[[Any], None] = _Unpickler.dispatch[code]

    def checked(unpickler: Any) -> None:
        # Those between a mark and here are in a stack of their own.
        for key in unpickler.stack[first : None if first is None else first + 1 : step]:
            if not isinstance(key, str | float | None) and not (isinstance(key, int) and abs(key) < _WORD):
                raise _RefusedError("pickle has a key that is no text or number", _MEND_VALUE)
        load(unpickler)

    return checked


def _plain(code: int) -> Callable[[Any], None]:
    """An instruction after which the value on the stack is no list that stands elsewhere, and no endless number.

    A few bytes could repeat a list forever, or put it into itself.
    """
    load: Callable[[Any], None] = _Unpickler.dispatch[code]

    def checked(unpickler: Any) -> None:
        load(unpickler)
        value = unpickler.stack[-1]
        if isinstance(value, list | tuple | dict | set | frozenset):
            raise _RefusedError("pickle repeats a list or dict", _MEND_VALUE)
        if isinstance(value, int) and value.bit_length() > _BITS:
            raise _RefusedError("pickle holds a number of over 4,000 digits", _MEND_VALUE)

    return checked


class _PlainUnpickler(_Unpickler):
    """Builds plain values and nothing else; keys are texts and numbers."""

    dispatch = {  # noqa: RUF012  # the base class's own name and shape
        **dict.fromkeys(_Unpickler.dispatch, _unknown),
        **{code: _Unpickler.dispatch[code] for code in (getattr(pickle, name)[0] for name in _ALLOWED.split())},
        pickle.SETITEM[0]: _with_keys(pickle.SETITEM[0], -2),
        pickle.SETITEMS[0]: _with_keys(pickle.SETITEMS[0], step=2),
        pickle.DICT[0]: _with_keys(pickle.DICT[0], step=2),
        pickle.ADDITEMS[0]: _with_keys(pickle.ADDITEMS[0]),
        pickle.FROZENSET[0]: _with_keys(pickle.FROZENSET[0]),
        **{getattr(pickle, name)[0]: _plain(getattr(pickle, name)[0]) for name in _CHECKED},
    }

    def find_class(self, module: str, name: str) -> NoReturn:
        mend = _MEND_TABLE if module.partition(".")[0] == "pandas" else _MEND
        raise _RefusedError(f"pickle holds the class '{module}.{name}'", mend)

    def persistent_load(self, pid: object) -> NoReturn:  # noqa: ARG002  # the base class's signature
        raise _RefusedError("pickle refers to objects outside it")


def load_pickle(data: bytes, *, source: str) -> object:
    """The value of a pickle (protocols 0 to 5) made of plain lists, dicts, texts and numbers.

    If a number comes first and another value follows, as ArtEmis's code writes files, that value is returned.

    Raises:
        JudgeError: it names a class (numpy scalars do), builds an object, is cut off or is no pickle; it has nested
            keys, or one list in two places; a number is too long; too large.
    """
    size = _COST * len(data) + sum(cost * data.count(code) for code, cost in _COSTS.items())
    refuse_large(size, source, instead="give JSON")
    file = io.BytesIO(data)
    try:
        # Python 2 pickles hold texts as bytes.
        value = _PlainUnpickler(file, encoding="utf-8", errors="strict").load()
        if type(value) is int and file.tell() < len(data):
            value = _PlainUnpickler(file, encoding="utf-8", errors="strict").load()
    except JudgeError:
        raise
    except _RefusedError as error:
        raise JudgeError(f"{error}, which is refused", where=source, mend=error.mend) from None
    except Exception as error:
        # Garbage fails in as many ways as there are instructions: IndexError, KeyError, struct.error, EOFError ...
        what = f"pickle cannot be read ({type(error).__name__}: {error})"
        raise JudgeError(what, where=source, mend="it may be cut off: copy it again, or give JSON") from error
    return value
