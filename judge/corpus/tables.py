"""JSON, JSON lines, CSV, TSV and Excel, parsed. Tables become rows: dicts of column -> cell."""

from __future__ import annotations

import csv
import io
import json
import re
import warnings
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from judge.corpus.records import Row
from judge.errors import JudgeError
from judge.utils.reading import CELL, CELLS, LIST, QUOTED, ROW, TEXT, long_number, memory_limit, refuse_large

_FLICKR = re.compile(r"[^\t\n]+\.jpg#[0-9]+\t")
_DELIMITERS = "\t,;|"
_TAGS = 8  # XML tags of a cell, at most, with its text in the table of texts.
_SAVE_CSV = "save it as CSV, which has no such limit, or delete the empty rows and columns"


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
        raise long_number(error, where) or fault from error
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

    Nothing is guessed ("NA", "null" and "1.0" are texts), because a caption may say any of them. Flickr8k.token.txt and
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
            lines = list(_filled(sheet.iter_rows(values_only=True), source))
    except JudgeError:
        raise
    except Exception as error:  # openpyxl lets errors of the XML library and of its own parsing through.
        mend = "save it again, or as CSV"
        raise JudgeError(f"Excel file cannot be read ({error})", where=source, mend=mend) from error
    if not lines:
        raise JudgeError("the first sheet is empty", where=source, mend="put the table on the first sheet")
    width = max(map(len, lines))
    CELLS.refuse(width * len(lines), source, instead=_SAVE_CSV)
    filled = [["" if cell is None else cell for cell in (*line, *[None] * (width - len(line)))] for line in lines]
    header = header_of(filled[0], source)
    return [dict(zip(header, line, strict=True)) for line in filled[1:]]


def _filled(lines: Iterable[Sequence[object]], source: str) -> Iterator[Sequence[object]]:
    """The lines that are not empty; ``CELLS`` counts empty ones too, as they come."""
    cells = 0
    for line in lines:
        cells += max(1, len(line))
        CELLS.refuse(cells, source, instead=_SAVE_CSV)
        if any(cell is not None for cell in line):
            yield line


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
