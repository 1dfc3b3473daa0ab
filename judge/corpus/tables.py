"""JSON, JSON lines, CSV, TSV and pickles, parsed. Tables become rows: dicts of column -> cell.

Unpickling can run any code. Here only the instructions that build lists, dicts, texts, numbers, booleans
and None are known; all others are refused.
"""

import csv
import io
import json
import pickle
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pickle import _Unpickler
from typing import Any, NoReturn

from judge.corpus.columns import CAPTIONS, IDS, detect
from judge.corpus.records import Row
from judge.errors import JudgeError
from judge.utils.reading import CELL, LIST, LONG, QUOTED, ROW, TEXT, long_number, memory_limit, refuse_large

_FLICKR = re.compile(r"[^\t\n]+\.jpg#[0-9]+\t")
_DELIMITERS = "\t,;|"
_PREAMBLE = re.compile(r"\s*(?:sep=(.)\r?|#([^\n]*))\n")
_COLUMNS = (*IDS, *CAPTIONS["human"], *CAPTIONS["generated"])
# The C unpickler sizes its memo by a number in the file, so four bytes can claim 64 GB; the Python one
# has a dict, and its instructions can be listed. Tuples and sets, which may be keys, could take forever to look up.
_ALLOWED = (
    "MARK STOP POP POP_MARK NONE NEWTRUE NEWFALSE BININT BININT1 BININT2 FLOAT BINFLOAT "
    "STRING BINSTRING SHORT_BINSTRING UNICODE BINUNICODE SHORT_BINUNICODE BINUNICODE8 "
    "LIST EMPTY_LIST APPEND APPENDS DICT EMPTY_DICT SETITEM SETITEMS PUT BINPUT LONG_BINPUT MEMOIZE PROTO FRAME "
    # These name a class; they are allowed so that find_class can say which class it refuses.
    "GLOBAL STACK_GLOBAL INST"
)
_CHECKED = "GET BINGET LONG_BINGET INT LONG LONG1"
_MEND = (
    "a pickle can run code, so only lists, dicts, texts and numbers are read; "
    "where it was written, turn it into JSON: json.dump(data, file, default=str)"
)
_MEND_TABLE = (
    "a table of pandas is read as CSV: where it was written, table.to_csv('captions.csv', index=False); for ArtEmis's "
    "speakers it is the second of [settings, table, attention]"
)
# Bytes of memory that short instructions take, at most; any other one takes twelve times its length at most.
_COSTS = {b"(": 120, b"]": 64, b"}": 72, b"\x94": 110, b"r": 110} | dict.fromkeys((b"X", b"U", b"T", b"\x8c"), 60)
_COST = 12


def load_json(text: str, *, source: str) -> object:
    """The value of a JSON file; for JSON lines, the list of rows. An object with one key twice is refused."""
    where, count = source, text.count
    size = ROW * count("{") + LIST * count("[") + CELL * count(",") + QUOTED * count('"') // 2 + TEXT * len(text)
    refuse_large(size, source)
    try:
        try:
            return _DECODER.decode(text)
        except json.JSONDecodeError as error:
            if error.msg != "Extra data" or not text.lstrip().startswith("{"):
                raise
        rows = []
        # Not splitlines(): captions may hold U+2028, which is a line break only to Python.
        for number, line in enumerate(text.split("\n"), start=1):
            where = f"{source}, line {number}"
            if line.strip():
                rows.append(_DECODER.decode(line))
    except json.JSONDecodeError as error:
        what = f"not JSON ({error.msg} at line {error.lineno}, column {error.colno})"
        raise JudgeError(what, where=where, mend="mend the file, or export it again") from error
    except KeyError as error:
        what = f"key '{error.args[0]}' occurs twice in one object"
        raise JudgeError(what, where=where, mend="keep one of the two") from None
    except (RecursionError, ValueError) as error:
        # Endless lists in lists; numbers of thousands of digits.
        fault = JudgeError(f"not JSON that can be read ({error})", where=where, mend="mend the file")
        raise long_number(where) if LONG in str(error) else fault from error
    return rows


def _unique(pairs: list[tuple[str, object]]) -> Row:
    row = dict(pairs)
    if len(row) != len(pairs):
        raise KeyError(_twice([key for key, _ in pairs]))
    return row


_DECODER = json.JSONDecoder(object_pairs_hook=_unique)


def frame_rows(value: object, source: str) -> object:
    """The rows of a table as `to_json` of pandas writes it: by columns, by records, split or with a schema.

    Its index holds the images if no column does and it numbers no rows. Any other value is returned as it is.
    """
    held: dict[str, Any] = value if isinstance(value, dict) else {}
    names, data, parts = held.get("columns"), held.get("data"), [*held.values()]
    if "schema" in held and isinstance(data, list):
        return data
    if isinstance(names, list) and isinstance(data, list):
        keys, header = held.get("index", [*range(len(data))]), header_of(names, source)
        rectangular = all(isinstance(row, list) and len(row) == len(header) for row in data)
        if not rectangular or not isinstance(keys, list) or len(keys) != len(data):
            return value
        rows = [dict(zip(header, row, strict=True)) for row in data]
    elif not parts or not all(isinstance(part, dict) for part in parts):
        return value
    elif detect([*held], _COLUMNS) and all(part.keys() == parts[0].keys() for part in parts):
        keys, rows = [*parts[0]], [{name: part[key] for name, part in held.items()} for key in parts[0]]
    else:
        return parts if all(detect([*part], IDS[:3]) for part in parts) else value
    if detect([*(rows or [{}])[0]], IDS) or [*map(str, keys)] == [*map(str, range(len(rows)))]:
        return rows
    return [{"image_id": key, **row} for key, row in zip(keys, rows, strict=True)]


def _without_preamble(text: str) -> tuple[str, str]:
    """A table without the lines above its header, and the separator that one of them names ("sep=;"), if any.

    Lines of comments begin with #, as may the header itself.
    """
    separator, start = "", 0
    while found := _PREAMBLE.match(text, start):
        if detect(re.split(f"[{_DELIMITERS}]", found[2] or ""), IDS):
            return text[found.start(2) :], separator
        separator, start = found[1] or separator, found.end()
    return text[start:].lstrip("\r\n"), separator


def load_csv(text: str, *, source: str) -> list[Row]:
    """Rows of a table with a header line and commas, tabs, semicolons or bars; every cell stays a text, "NA" too.

    Flickr8k's and Flickr30k's .token files have no header: ``IMAGE.jpg#NUMBER``, a tab, a caption.
    """
    if _FLICKR.match(text):
        named = (line.split("\t", 1) for line in text.splitlines() if line)
        return [{"image": image.partition("#")[0], "caption": "".join(caption)} for image, *caption in named]
    table, delimiter = _without_preamble(text)
    above, text = text.count("\n") - table.count("\n"), table
    delimiter = delimiter or max(_DELIMITERS, key=text.partition("\n")[0].count)
    rows = text.count("\n")
    refuse_large((ROW + LIST) * rows + CELL * (rows + text.count(delimiter)) + TEXT * len(text), source)
    previous = csv.field_size_limit(memory_limit())  # Images in base64 are longer than the default limit.
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        lines = [line for line in reader if line]
    except csv.Error as error:
        mend = 'put captions in double quotes, with quotes in them doubled ("")'
        where = f"{source}, line {above + reader.line_num}"
        raise JudgeError(f"table cannot be read ({error})", where=where, mend=mend) from error
    finally:
        csv.field_size_limit(previous)
    header = header_of(lines[0] if lines else [], source)
    for number, line in enumerate(lines[1:], start=1):
        if len(line) != len(header):
            what = f"row of {len(line)} under a header of {len(header)}"
            less = len(line) < len(header)
            mend = "add the separator that it lacks" if less else "put captions that hold the separator in quotes"
            raise JudgeError(what, where=f"{source}, record {number}", mend=mend)
    return [dict(zip(header, line, strict=True)) for line in lines[1:]]


def header_of(names: Iterable[object], source: str) -> list[str]:
    """The names of a table's columns; a JudgeError for one that occurs twice."""
    header = [str(name).strip() for name in names]
    if twice := _twice([name for name in header if name]):
        raise JudgeError(f"column '{twice}' occurs twice", where=source, mend="rename one of the two")
    # pandas writes an index as a nameless column.
    return [name or f"column {index}" for index, name in enumerate(header, start=1)]


def _twice(names: Sequence[str]) -> str:
    """The first name that occurs again; "" for none."""
    return next((name[:60] or "''" for name, count in Counter(names).items() if count > 1), "")


def _unknown(unpickler: Any) -> None:
    unpickler.refuse("pickle builds objects, tuples or sets")


def _checked(code: int) -> Callable[[Any], None]:
    """An instruction that must not leave a list or a long number on the stack.

    A few bytes could repeat a list forever, or put it into itself; long numbers could all have one hash.
    """
    load: Callable[[Any], None] = _Unpickler.dispatch[code]

    def checked(unpickler: Any) -> None:
        load(unpickler)
        value = unpickler.stack[-1]
        if isinstance(value, list | dict):
            unpickler.refuse("pickle repeats a list or dict")
        if isinstance(value, int) and value.bit_length() > 64:
            unpickler.refuse("pickle holds a number of over 64 bits")

    return checked


class _PlainUnpickler(_Unpickler):
    """Builds plain values and nothing else; keys are texts and numbers."""

    dispatch = {  # noqa: RUF012  # the base class's own name and shape
        **dict.fromkeys(_Unpickler.dispatch, _unknown),
        **{code: _Unpickler.dispatch[code] for name in _ALLOWED.split() for code in getattr(pickle, name)},
        **{code: _checked(code) for name in _CHECKED.split() for code in getattr(pickle, name)},
    }

    def __init__(self, file: io.BytesIO, source: str) -> None:
        super().__init__(file, encoding="utf-8", errors="strict")  # Python 2 pickles hold texts as bytes.
        self.source = source

    def refuse(self, what: str, mend: str = _MEND) -> NoReturn:
        raise JudgeError(f"{what}, which is refused", where=self.source, mend=mend)

    def find_class(self, module: str, name: str) -> NoReturn:
        mend = _MEND_TABLE if module.partition(".")[0] == "pandas" else _MEND
        self.refuse(f"pickle holds the class '{module}.{name}'", mend)

    def persistent_load(self, pid: object) -> NoReturn:  # noqa: ARG002  # the base class's signature
        self.refuse("pickle refers to objects outside it")


def load_pickle(data: bytes, *, source: str) -> object:
    """The value of a pickle (protocols 0 to 5) made of lists, dicts, texts and numbers; any other one is refused.

    If a number comes first and another value follows, as ArtEmis's code writes files, that value is returned.
    """
    size = _COST * len(data) + sum(cost * data.count(code) for code, cost in _COSTS.items())
    refuse_large(size, source, instead="give JSON")
    file = io.BytesIO(data)
    try:
        value = _PlainUnpickler(file, source).load()
        if type(value) is int and file.tell() < len(data):
            value = _PlainUnpickler(file, source).load()
    except JudgeError:
        raise
    except Exception as error:
        # Garbage fails in as many ways as there are instructions: IndexError, KeyError, struct.error, EOFError ...
        what = f"pickle cannot be read ({type(error).__name__}: {error})"
        raise JudgeError(what, where=source, mend="it may be cut off: copy it again, or give JSON") from error
    return value
