"""Tables as rows: CSV, TSV, JSON lines and Excel. A row is a dict of column -> cell."""

from __future__ import annotations

import csv
import io
import json
import re
import warnings
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from judge.errors import JudgeError
from judge.utils.reading import CELL, CELLS, LIST, QUOTED, ROW, TEXT, long_number, memory_limit, refuse_large

Row = dict[str, object]


class Placed(dict[str, object]):
    """A row that knows in which of several files it lies: "00000.tar, sample '000000042'"."""

    __slots__ = ("_file", "_record")

    def __init__(self, values: Row, file: str, record: int | str) -> None:
        super().__init__(values)
        self._file, self._record = file, record

    @property
    def at(self) -> str:
        """Where the row lies, in words."""
        record = f"record {self._record}" if isinstance(self._record, int) else f"sample '{self._record[:100]}'"
        return f"{self._file}, {record}" if self._file else record


def with_cells(row: Row, cells: Row) -> Row:
    """A row with these cells besides, or in place of others; where it lies stays known."""
    changed = row | cells
    return Placed(changed, row._file, row._record) if isinstance(row, Placed) else changed


_FLICKR = re.compile(r"[^\t\n]+\.jpg#[0-9]+\t")
_TAGS = 8  # A cell takes up to as many in XML, with its text in the table of texts.
_DELIMITERS = "\t,;|"
_SAVE_CSV = "save it as CSV, which has no such limit, or delete the empty rows and columns"


def load_json(text: str, *, source: str) -> object:
    """The value of a JSON file; of JSON lines, the list of rows.

    Raises:
        JudgeError: not JSON; an object with the same key twice (the second would hide the first); too large.
    """
    where = source
    refuse_large(_json_memory(text), source)
    try:
        try:
            return _decode(text, where)
        except json.JSONDecodeError as error:
            if error.msg != "Extra data" or not text.lstrip().startswith("{"):
                raise
        rows = []
        # Not splitlines(): captions may hold U+2028, which is a line break only to Python.
        for number, line in enumerate(text.split("\n"), start=1):
            where = f"{source}, line {number}"
            if line.strip():
                rows.append(_decode(line, where))
    except json.JSONDecodeError as error:
        what = f"not JSON ({error.msg} at line {error.lineno}, column {error.colno})"
        raise JudgeError(what, where=where, mend="mend the file, or export it again") from error
    return rows


def _json_memory(text: str) -> int:
    """About the bytes that the values of a JSON text take."""
    count = text.count
    return ROW * count("{") + LIST * count("[") + CELL * count(",") + QUOTED * count('"') // 2 + TEXT * len(text)


class _TwiceError(Exception):
    """A key of an object occurs twice."""


def _unique(pairs: list[tuple[str, object]]) -> Row:
    row = dict(pairs)
    if len(row) != len(pairs):
        raise _TwiceError(_twice([key for key, _ in pairs]))
    return row


# Made once: json.loads would make one for each of a million lines.
_DECODER = json.JSONDecoder(object_pairs_hook=_unique)


def _decode(text: str, where: str) -> object:
    try:
        value: object = _DECODER.decode(text)
    except json.JSONDecodeError:
        raise
    except _TwiceError as error:
        raise JudgeError(f"key '{error}' occurs twice in one object", where=where, mend="keep one of the two") from None
    except (RecursionError, ValueError) as error:
        # Lists in lists without end; numbers of thousands of digits.
        told = JudgeError(f"not JSON that can be read ({error})", where=where, mend="mend the file")
        raise long_number(error, where) or told from error
    return value


def load_csv(text: str, *, source: str) -> list[Row]:
    """Rows of a table with a header line and commas, tabs, semicolons or bars; every cell stays a text.

    Nothing is guessed ("NA", "null" and "1.0" are texts), because a caption may say any of them. Flickr8k.token.txt and
    results_20130124.token of Flickr30k, which have no header, are recognised: ``IMAGE.jpg#NUMBER``, a tab, a caption.

    Raises:
        JudgeError: a quote that never ends; a row that is longer or shorter than the header; a doubled column name;
            too large.
    """
    if _FLICKR.match(text):
        named = (line.split("\t", 1) for line in text.splitlines() if line)
        return [{"image": image.partition("#")[0], "caption": "".join(caption)} for image, *caption in named]
    first = text.partition("\n")[0]
    delimiter = max(_DELIMITERS, key=first.count)
    rows = text.count("\n")
    refuse_large((ROW + LIST) * rows + CELL * (rows + text.count(delimiter)) + TEXT * len(text), source)
    previous = csv.field_size_limit(memory_limit())  # pictures in base64 are longer than the default limit
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        lines = [line for line in reader if line]
    except csv.Error as error:
        what, mend = (
            f"table cannot be read ({error})",
            'put captions in double quotes, with quotes in them doubled ("")',
        )
        raise JudgeError(what, where=f"{source}, line {reader.line_num}", mend=mend) from error
    finally:
        csv.field_size_limit(previous)
    header = header_of(lines[0], source)
    for number, line in enumerate(lines[1:], start=1):
        if len(line) != len(header):
            what, mend = (
                f"row of {len(line)} under a header of {len(header)}",
                "put captions that hold the separator in quotes",
            )
            raise JudgeError(what, where=f"{source}, record {number}", mend=mend)
    return [dict(zip(header, line, strict=True)) for line in lines[1:]]


def header_of(names: Iterable[object], source: str) -> list[str]:
    """The names of a table's columns.

    Raises:
        JudgeError: one that occurs twice.
    """
    header = [str(name).strip() for name in names]
    twice = _twice([name for name in header if name])
    if twice is not None:
        raise JudgeError(f"column '{twice}' occurs twice", where=source, mend="rename one of the two")
    # Nameless columns (pandas writes its index so) stay apart from each other.
    return [name or f"column {index}" for index, name in enumerate(header, start=1)]


def _twice(names: Sequence[str]) -> str | None:
    """The first name that occurs again, if any."""
    return next((name[:60] for name, count in Counter(names).items() if count > 1), None)


def load_xlsx(data: bytes, *, source: str) -> list[Row]:
    """Rows of the first sheet of an Excel workbook; an empty cell is an empty text.

    Raises:
        JudgeError: not a workbook; damaged; openpyxl not installed; more than ``CELLS``.
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
            warnings.simplefilter("ignore")  # about styles and validation, which are not read
            sheet = openpyxl.load_workbook(io.BytesIO(data), read_only=True, data_only=True).worksheets[0]
            sheet.reset_dimensions()  # the size that the file states may be wrong
            lines = list(_filled(sheet.iter_rows(values_only=True), source))
    except JudgeError:
        raise
    except Exception as error:  # openpyxl raises whatever the XML library or its own parsing meets
        what = f"Excel file cannot be read ({error})"
        raise JudgeError(what, where=source, mend="save it again, or as CSV") from error
    if not lines:
        raise JudgeError("the first sheet is empty", where=source, mend="put the table on the first sheet")
    width = max(len(line) for line in lines)
    CELLS.refuse(width * len(lines), source, instead=_SAVE_CSV)
    filled = [["" if cell is None else cell for cell in (*line, *[None] * (width - len(line)))] for line in lines]
    header = header_of(filled[0], source)
    return [dict(zip(header, line, strict=True)) for line in filled[1:]]


def _filled(lines: Iterable[Sequence[object]], source: str) -> Iterator[Sequence[object]]:
    """The lines in which something stands.

    Raises:
        JudgeError: more than ``CELLS``, empty ones too.
    """
    cells, most = 0, CELLS.value()
    for line in lines:
        cells += max(1, len(line))
        if cells > most:
            CELLS.refuse(cells, source, instead=_SAVE_CSV)
        if any(cell is not None for cell in line):
            yield line


def _check_archive(archive: zipfile.ZipFile, source: str) -> None:
    if "xl/workbook.xml" not in archive.namelist():
        raise JudgeError("is a zip archive, not a table", where=source, mend="unpack it and give the file inside")
    refuse_large(sum(entry.file_size for entry in archive.infolist()), source, packed=True)
    tags = 0
    for entry in archive.infolist():
        if entry.filename.endswith((".xml", ".rels")):
            with archive.open(entry) as file:
                while part := file.read(2**20):
                    tags += part.count(b"<")
                    # Also those of texts that no cell has.
                    CELLS.refuse(tags / _TAGS, source, instead=_SAVE_CSV)
