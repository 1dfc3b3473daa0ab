"""LIC's release pickles, read without trusting them.

Unpickling runs whatever the pickle says. Here only the instructions that build lists, tuples, dicts, sets,
texts, numbers, booleans and None are known; every other one is refused.
"""

from __future__ import annotations

import io
import pickle
from pickle import _Unpickler
from typing import NoReturn

from judge.errors import JudgeError

# The C unpickler sizes its memo by a number in the file, so four bytes can claim 64 GB; the Python one
# keeps a dict. It is also the one whose instructions can be listed.
_ALLOWED = (
    "MARK STOP POP POP_MARK DUP NONE NEWTRUE NEWFALSE INT BININT BININT1 BININT2 LONG LONG1 FLOAT BINFLOAT "
    "STRING BINSTRING SHORT_BINSTRING UNICODE BINUNICODE SHORT_BINUNICODE BINUNICODE8 "
    "LIST EMPTY_LIST APPEND APPENDS TUPLE EMPTY_TUPLE TUPLE1 TUPLE2 TUPLE3 DICT EMPTY_DICT SETITEM SETITEMS "
    "EMPTY_SET ADDITEMS FROZENSET GET BINGET LONG_BINGET PUT BINPUT LONG_BINPUT MEMOIZE PROTO FRAME "
    # These name a class; they are kept so that find_class can say which one it refuses.
    "GLOBAL STACK_GLOBAL INST"
)
_MEND = (
    "a pickle can run code, so only lists, dicts, texts and numbers are read; "
    "where it was written, turn it into JSON: json.dump(data, file, default=str)"
)


_MEND_TABLE = (
    "a table of pandas is read as CSV: where it was written, table.to_csv('captions.csv', index=False); of ArtEmis's "
    "speakers it is the second of [settings, table, attention]"
)


class _RefusedError(Exception):
    """The pickle asks for something that could run code."""

    def __init__(self, what: str, mend: str = _MEND) -> None:
        super().__init__(what)
        self.mend = mend


def _unknown(_: object) -> NoReturn:
    raise _RefusedError("pickle builds objects")


class _PlainUnpickler(_Unpickler):
    """Builds plain values and nothing else."""

    dispatch = {  # noqa: RUF012  # the base class's own name and shape
        **dict.fromkeys(_Unpickler.dispatch, _unknown),
        **{code: _Unpickler.dispatch[code] for code in (getattr(pickle, name)[0] for name in _ALLOWED.split())},
    }

    def find_class(self, module: str, name: str) -> NoReturn:
        mend = _MEND_TABLE if module.partition(".")[0] == "pandas" else _MEND
        raise _RefusedError(f"pickle holds the class '{module}.{name}'", mend)

    def persistent_load(self, pid: object) -> NoReturn:  # noqa: ARG002  # the base class's signature
        raise _RefusedError("pickle refers to objects outside it")


def load_pickle(data: bytes, *, source: str) -> object:
    """The value of a pickle (protocols 0 to 5) made of plain lists, dicts, texts and numbers.

    Where a number stands first and something follows, as ArtEmis's code writes files, the value is what follows.

    Raises:
        JudgeError: it names a class (numpy scalars do), builds an object, is cut off or is no pickle.
    """
    file = io.BytesIO(data)
    try:
        # Python 2 pickles hold texts as bytes.
        value = _PlainUnpickler(file, encoding="utf-8", errors="strict").load()
        if type(value) is int and file.tell() < len(data):
            value = _PlainUnpickler(file, encoding="utf-8", errors="strict").load()
    except _RefusedError as error:
        raise JudgeError(f"{error}, which is refused", where=source, mend=error.mend) from None
    except Exception as error:
        # Garbage fails in as many ways as there are instructions: IndexError, KeyError, struct.error, EOFError ...
        what = f"pickle cannot be read ({type(error).__name__}: {error})"
        raise JudgeError(what, where=source, mend="it may be cut off: copy it again, or give JSON") from error
    return value
