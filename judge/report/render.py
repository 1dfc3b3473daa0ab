"""Tables as text: on a terminal, as Markdown and as LaTeX."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from itertools import groupby
from textwrap import wrap
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from judge.errors import printable
from judge.report.table import ABSENT, Table

# Width of output into a pipe or a file; of names, which are wrapped where they are longer; between two columns.
PAGE, _NAMES, _GAP = 100, 24, 2
# Characters that end a cell, or begin code or HTML, in Markdown.
_MARKED = re.compile(r"[\\|`]|<(?=[a-zA-Z/!?])")
_LATEX = str.maketrans({
    **{character: f"\\{character}" for character in "#$%&_{}"},
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "|": r"\textbar{}",
    "<": r"\textless{}", ">": r"\textgreater{}", '"': "''", "`": r"\textasciigrave{}",
    "\u2192": r"$\rightarrow$", "\u2264": r"$\leq$", "\u2265": r"$\geq$", "\u00d7": r"$\times$", "\u2026": r"\dots{}",
})  # fmt: skip
# Characters of numbers, intervals, pairs and shares.
_DIGITS = set("0123456789+-.,%[]*<>/ einfa")
# From so many columns on a LaTeX table is set in small type.
_WIDE = 7


def print_table(table: Table[Any], console: Console | None = None) -> None:
    """Print a table and its notes; on a terminal that is too narrow in parts, so that no number is ever cut."""
    console = console or open_console()
    if table.title:
        console.print(Text(printable(table.title), style="bold"))
    terminal = sys.stdout.isatty()
    for number, part in enumerate(fold(table, console.width, parts=terminal)):
        if number:
            console.print()
        # In a pipe a table is as wide as its numbers need.
        page = console.width if terminal else max(width_of(part, wrapped=True), min(width_of(part), PAGE))
        Console(width=page, highlight=False).print(part)
    for note in table.notes:
        print_text(note, console)


def print_text(line: str, console: Console, *, bold: bool = False) -> None:
    """Print a line of text, wrapped at the width of the console."""
    lines = wrap(printable(line), console.width, break_long_words=False, break_on_hyphens=False) or [""]
    console.print(Text("\n".join(lines)), style="bold" if bold else "", soft_wrap=True)


def open_console() -> Console:
    """Standard output: as wide as the terminal, or a page wide."""
    return Console(width=None if sys.stdout.isatty() else PAGE, highlight=False)


def markdown(table: Table[Any]) -> str:
    """A table as Markdown (GitHub's): headings, rows; title before and notes after it as paragraphs."""
    shown = table.shown()
    rule = ["---" if column.align == "left" else "---:" for column, _ in shown]
    headings = [column.heading for column, _ in shown]
    rows = [headings, rule, *map(list, zip(*(cells for _, cells in shown), strict=True))]
    lines = [" | ".join(["", *(_MARKED.sub(r"\\\g<0>", cell) for cell in row), ""]).strip() for row in rows]
    return "\n\n".join([*([f"**{table.title}**"] if table.title else []), "\n".join(lines), *table.notes]) + "\n"


def latex(table: Table[Any], *, caption: str = "", label: str = "") -> str:
    """A table as a LaTeX float with booktabs; its title and notes are part of the caption.

    Args:
        table: to write.
        caption: what else is known of it.
        label: for references; "" for none.
    """
    import pandas as pd

    shown = table.shown()
    # Text is aligned left in print, although a terminal may align it right.
    numbers = [column.align != "left" and all(map(_is_number, cells)) for column, cells in shown]
    frame = pd.DataFrame({place: list(map(_latex_cell, cells)) for place, (_, cells) in enumerate(shown)})
    # "[" or "*" at the beginning of a row would belong to the end of the row above.
    frame[0] = frame[0].str.replace(r"^(?=[\[*])", "{}", regex=True)
    style = frame.style.hide(axis="index").relabel_index(
        [escape(column.heading) for column, _ in shown], axis="columns"
    )
    if len(shown) >= _WIDE:
        style.set_table_styles([{"selector": "footnotesize", "props": r":\setlength{\tabcolsep}{3pt}"}])
    texts = [f"{table.title}." if table.title else "", caption, *table.notes]
    return style.to_latex(
        hrules=True,
        column_format="".join("r" if number else "l" for number in numbers),
        position_float="centering",
        caption=escape(" ".join(filter(None, texts))) or None,
        label=label or None,
    )


def escape(text: str) -> str:
    """Any text as LaTeX prints it, in one line."""
    # Two hyphens in a row would become a dash.
    return re.sub("-(?=-)", "-{}", printable(" ".join(text.split())).translate(_LATEX))


def _is_number(cell: str) -> bool:
    return cell == ABSENT or (not set(cell) - _DIGITS and any(map(str.isdigit, cell)))


def _latex_cell(cell: str) -> str:
    if cell == ABSENT:
        return "--"
    return escape(cell).replace("-", "$-$") if _is_number(cell) else escape(cell)


def fold(table: Table[Any], width: int, *, parts: bool = True) -> Iterator[RichTable]:
    """The table for a page of this width.

    Where it is too wide, the first column becomes a line above the rows that share its value. Where that is not
    enough, it is cut into several tables (if ``parts`` are allowed): each begins with the columns that say what a row
    is about, which are wrapped where they are long, as all text.
    """
    columns = [[column.heading, *cells] for column, cells in table.shown()]
    left = [column.align == "left" for column, _ in table.shown()]
    names = left.index(False) if False in left else len(left)
    if names > 1 and _width(columns) > width:
        columns, left, names = _grouped(columns), left[1:], names - 1
    widths = [_width([column]) for column in columns]
    widths[names:] = [min(width, _NAMES) if text else width for width, text in zip(widths, left, strict=True)][names:]
    room = width - min(sum(widths[:names]), _NAMES)
    cut: list[list[int]] = [[]]
    used = 0
    for place in range(names, len(columns)):
        if parts and cut[-1] and used + widths[place] - _GAP > room:
            cut.append([])
            used = 0
        cut[-1].append(place)
        used += widths[place]
    for part in cut:
        yield _rich(columns, left, [*range(names), *part])


def width_of(table: RichTable, *, wrapped: bool = False) -> int:
    """Width of the whole table; with ``wrapped`` text as narrow as it may be."""
    widths = [_width([[str(cell) for cell in (column.header, *column.cells)]]) for column in table.columns]
    may_wrap = [wrapped and not column.no_wrap for column in table.columns]
    return sum(min(width, _NAMES) if may else width for width, may in zip(widths, may_wrap, strict=True))


def _width(columns: Sequence[Sequence[str]]) -> int:
    """Width of columns with the space between them, and after the last one."""
    return sum(max(map(cell_len, column)) + _GAP for column in columns)


def _grouped(columns: Sequence[Sequence[str]]) -> list[list[str]]:
    """Without the first column: each run of equal values in it becomes a row of its own above its rows."""
    heads, *rows = zip(*columns, strict=True)
    found = [list(heads[1:])]
    for name, group in groupby(rows, key=lambda row: row[0]):
        found.append([name, *[""] * (len(heads) - 2)])
        found += [[f"  {row[1]}", *row[2:]] for row in group]
    return [list(column) for column in zip(*found, strict=True)]


def _rich(columns: Sequence[Sequence[str]], left: Sequence[bool], places: Sequence[int]) -> RichTable:
    table = RichTable(box=None, pad_edge=False, header_style="bold")
    for place in places:
        heading = Text(printable(columns[place][0]))
        justify = "left" if left[place] else "right"
        table.add_column(heading, justify=justify, no_wrap=not left[place], overflow="fold")  # type: ignore[arg-type]
    for row in zip(*(columns[place][1:] for place in places), strict=True):
        table.add_row(*map(Text, row))
    return table
