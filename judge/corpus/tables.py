"""JSON, JSON lines, CSV, TSV, Excel and pickles, parsed. Tables become rows: dicts of column -> cell.

Unpickling can run any code. Here only the instructions that build lists, dicts, texts, numbers, booleans
and None are known; all others are refused.
"""

from __future__ import annotations

import csv
import io
import json
import pickle
import re
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pickle import _Unpickler
from typing import Any, NoReturn

from judge.corpus.records import Row
from judge.errors import JudgeError
from judge.utils.reading import CELL, CELLS, LIST, LONG, QUOTED, ROW, TEXT, long_number, memory_limit, refuse_large

_FLICKR = re.compile(r"[^\t\n]+\.jpg#[0-9]+\t")
_DELIMITERS = "\t,;|"
_TAGS = 8  # XML tags of a cell, at most, with its text in the table of texts.
_SAVE_CSV = "save it as CSV, which has no such limit, or delete the empty rows and columns"
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
    """The value of a JSON file; for JSON lines, the list of rows.

    Raises:
        JudgeError: not JSON; an object with the same key twice (the second would hide the first); too large.
    """
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
    except _KeyTwiceError as error:
        raise JudgeError(f"key '{error}' occurs twice in one object", where=where, mend="keep one of the two") from None
    except (RecursionError, ValueError) as error:
        # Endless lists in lists; numbers of thousands of digits.
        fault = JudgeError(f"not JSON that can be read ({error})", where=where, mend="mend the file")
        raise long_number(where) if LONG in str(error) else fault from error
    return rows


class _KeyTwiceError(Exception):
    """A key of an object occurs twice."""


def _unique(pairs: list[tuple[str, object]]) -> Row:
    row = dict(pairs)
    if len(row) != len(pairs):
        raise _KeyTwiceError(_twice([key for key, _ in pairs]))
    return row


_DECODER = json.JSONDecoder(object_pairs_hook=_unique)


def load_csv(text: str, *, source: str) -> list[Row]:
    """Rows of a table with a header line and commas, tabs, semicolons or bars; every cell stays a text.

    "NA", "null" and "1.0" are texts too, since captions may consist of them. Flickr8k.token.txt and
    results_20130124.token of Flickr30k, which have no header, are recognised: ``IMAGE.jpg#NUMBER``, a tab, a caption.

    Raises:
        JudgeError: a quote that never ends; a row that is longer or shorter than the header; a repeated column name;
            too large.
    """
    if _FLICKR.match(text):
        named = (line.split("\t", 1) for line in text.splitlines() if line)
        return [{"image": image.partition("#")[0], "caption": "".join(caption)} for image, *caption in named]
    first = text.partition("\n")[0]
    delimiter = max(_DELIMITERS, key=first.count)
    rows = text.count("\n")
    refuse_large((ROW + LIST) * rows + CELL * (rows + text.count(delimiter)) + TEXT * len(text), source)
    previous = csv.field_size_limit(memory_limit())  # Images in base64 are longer than the default limit.
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        lines = [line for line in reader if line]
    except csv.Error as error:
        mend = 'put captions in double quotes, with quotes in them doubled ("")'
        where = f"{source}, line {reader.line_num}"
        raise JudgeError(f"table cannot be read ({error})", where=where, mend=mend) from error
    finally:
        csv.field_size_limit(previous)
    header = header_of(lines[0], source)
    for number, line in enumerate(lines[1:], start=1):
        if len(line) != len(header):
            what = f"row of {len(line)} under a header of {len(header)}"
            mend = "put captions that hold the separator in quotes"
            raise JudgeError(what, where=f"{source}, record {number}", mend=mend)
    return [dict(zip(header, line, strict=True)) for line in lines[1:]]


def header_of(names: Iterable[object], source: str) -> list[str]:
    """The names of a table's columns.

    Raises:
        JudgeError: a name that occurs twice.
    """
    header = [str(name).strip() for name in names]
    if twice := _twice([name for name in header if name]):
        raise JudgeError(f"column '{twice}' occurs twice", where=source, mend="rename one of the two")
    # pandas writes an index as a nameless column.
    return [name or f"column {index}" for index, name in enumerate(header, start=1)]


def _twice(names: Sequence[str]) -> str:
    """The first name that occurs again; "" for none."""
    return next((name[:60] or "''" for name, count in Counter(names).items() if count > 1), "")


def load_xlsx(data: bytes, *, source: str) -> list[Row]:
    """Rows of the first sheet of an Excel workbook; an empty cell is an empty text.

    Raises:
        JudgeError: not a workbook; damaged; openpyxl is not installed; more than ``CELLS``.
    """
    try:
        import openpyxl
    except ImportError as error:
        mend = "install it (pip install 'caption-judge[tables]'), or save the sheet as CSV"
        raise JudgeError("Excel files need openpyxl", where=source, mend=mend) from error

    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            _check_archive(archive, source)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # They are about styles and validation, which are not read.
            sheet = openpyxl.load_workbook(io.BytesIO(data), read_only=True, data_only=True).worksheets[0]
            sheet.reset_dimensions()  # The size that the file states may be wrong.
            lines, cells = list[list[object]](), 0
            for line in sheet.iter_rows(values_only=True):
                cells += max(1, len(line))  # Empty ones too.
                CELLS.refuse(cells, source, instead=_SAVE_CSV)
                if any(cell is not None for cell in line):
                    lines.append(["" if cell is None else cell for cell in line])
    except JudgeError:
        raise
    except Exception as error:  # openpyxl lets errors of the XML library and of its own parsing through.
        mend = "save it again, or as CSV"
        raise JudgeError(f"Excel file cannot be read ({error})", where=source, mend=mend) from error
    if not lines:
        raise JudgeError("the first sheet is empty", where=source, mend="put the table on the first sheet")
    width = max(map(len, lines))
    CELLS.refuse(width * len(lines), source, instead=_SAVE_CSV)
    header, *rows = ([*line, *[""] * (width - len(line))] for line in lines)
    names = header_of(header, source)
    return [dict(zip(names, line, strict=True)) for line in rows]


def _check_archive(archive: zipfile.ZipFile, source: str) -> None:
    """Refuse a zip archive that is no workbook, or unpacks to too much."""
    if "xl/workbook.xml" not in archive.namelist():
        raise JudgeError("is a zip archive, not a table", where=source, mend="unpack it and give the file inside")
    refuse_large(sum(entry.file_size for entry in archive.infolist()), source, packed=True)
    tags = 0
    for entry in archive.infolist():
        if entry.filename.endswith((".xml", ".rels")):
            with archive.open(entry) as file:
                while part := file.read(2**20):
                    tags += part.count(b"<")
                    CELLS.refuse(tags / _TAGS, source, instead=_SAVE_CSV)


class _RefusedError(Exception):
    """The pickle asks for something that could run code."""

    def __init__(self, what: str, mend: str = _MEND) -> None:
        super().__init__(what)
        self.mend = mend


def _unknown(_: object) -> NoReturn:
    raise _RefusedError("pickle builds objects, tuples or sets")


def _checked(code: int) -> Callable[[Any], None]:
    """An instruction that must not leave a list or a long number on the stack.

    A few bytes could repeat a list forever, or put it into itself; long numbers could all have one hash.
    """
    load: Callable[[Any], None] = _Unpickler.dispatch[code]

    def checked(unpickler: Any) -> None:
        load(unpickler)
        value = unpickler.stack[-1]
        if isinstance(value, list | dict):
            raise _RefusedError("pickle repeats a list or dict")
        if isinstance(value, int) and value.bit_length() > 64:
            raise _RefusedError("pickle holds a number of over 64 bits")

    return checked


def _codes(names: str) -> list[int]:
    return [getattr(pickle, name)[0] for name in names.split()]


class _PlainUnpickler(_Unpickler):
    """Builds plain values and nothing else; keys are texts and numbers."""

    dispatch = {  # noqa: RUF012  # the base class's own name and shape
        **dict.fromkeys(_Unpickler.dispatch, _unknown),
        **{code: _Unpickler.dispatch[code] for code in _codes(_ALLOWED)},
        **{code: _checked(code) for code in _codes(_CHECKED)},
    }

    def find_class(self, module: str, name: str) -> NoReturn:
        mend = _MEND_TABLE if module.partition(".")[0] == "pandas" else _MEND
        raise _RefusedError(f"pickle holds the class '{module}.{name}'", mend)

    def persistent_load(self, pid: object) -> NoReturn:  # noqa: ARG002  # the base class's signature
        raise _RefusedError("pickle refers to objects outside it")


def load_pickle(data: bytes, *, source: str) -> object:
    """The value of a pickle (protocols 0 to 5) made of lists, dicts, texts and numbers.

    If a number comes first and another value follows, as ArtEmis's code writes files, that value is returned.

    Raises:
        JudgeError: it names a class (numpy scalars do), builds an object, a tuple or a set, is cut off or is no pickle;
            it has one list in two places; a number has over 64 bits; too large.
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
