"""Tables as text: on a terminal, as Markdown and as LaTeX."""

import re
import sys
from collections.abc import Sequence
from itertools import takewhile
from textwrap import wrap
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from judge.errors import printable
from judge.report.table import ABSENT, Column, Table

# Width of text in a pipe or a file; of names, which are broken where a word is longer; between two columns.
PAGE, _NAMES, _GAP = 100, 24, 2
# Characters that end a cell, or begin code or HTML, in Markdown.
_MARKED = re.compile(r"[\\|`]|<(?=[a-zA-Z/!?])")
_LATEX = str.maketrans({
    **{character: f"\\{character}" for character in "#$%&_{}"},
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "|": r"\textbar{}",
    "<": r"\textless{}", ">": r"\textgreater{}", '"': "''", "`": r"\textasciigrave{}",
    "\u2192": r"$\rightarrow$", "\u2264": r"$\leq$", "\u2265": r"$\geq$", "\u00d7": r"$\times$", "\u2026": r"\dots{}",
    "\u2020": r"\dag{}",
})  # fmt: skip
# Characters of numbers, intervals, pairs and shares.
_DIGITS = set("0123456789+-.,%[]*<>/ einfa")
# From so many columns on a LaTeX table is set in small type.
_WIDE = 7


def print_table(table: Table[Any], console: Console | None = None) -> None:
    """Print a table and its notes; in a pipe each row is a line.

    On a terminal cells are wrapped at spaces; a table that is still too wide becomes several, with the names of rows.
    """
    console = console or open_console()
    if table.title:
        console.print(Text(printable(table.title), style="bold"))
    page = console.width if sys.stdout.isatty() else sys.maxsize
    shown, quiet = table.shown(), [table.quiet(row) for row in table.rows]
    names = list(takewhile(lambda of: of[0].align == "left", shown))
    part = names
    for of in shown[len(names) :]:
        if len(part) > len(names) and sum(_least(*one) + 1 for one in [*part, of]) > page + 1:
            _print_part(part, console, page, quiet)
            console.print()
            part = names
        part = [*part, of]
    _print_part(part, console, page, quiet)
    for note in table.notes:
        print_text(note, console)


def _least(column: Column[Any], cells: Sequence[str]) -> int:
    """The width of the longest word of a column; of names at most ``_NAMES``."""
    longest = max(cell_len(word) for text in (printable(column.heading), *cells) for word in [*text.split(), ""])
    return min(longest, _NAMES) if column.align == "left" else longest


def _print_part(
    part: Sequence[tuple[Column[Any], list[str]]], console: Console, page: int, quiet: Sequence[bool]
) -> None:
    columns = [[printable(column.heading), *cells] for column, cells in part]
    widths, least = [max(map(cell_len, texts)) for texts in columns], [_least(*of) for of in part]
    spaces = len(part) - 1
    gap = _GAP if sum(least) + _GAP * spaces <= page else 1
    # Columns with the most room are narrowed first, so that few are wrapped.
    for place in sorted(range(len(part)), key=lambda place: least[place] - widths[place]):
        widths[place] = max(least[place], widths[place] - max(0, sum(widths) + gap * spaces - page))
    found = RichTable(box=None, pad_edge=False, padding=(0, gap, 0, 0), header_style="bold")
    wrapped = []
    for (column, _), texts, width in zip(part, columns, widths, strict=True):
        heading, *cells = (Text("\n").join(Text(text).wrap(console, width, overflow="fold")) for text in texts)
        found.add_column(heading, justify=column.align)
        wrapped.append(cells)
    for row, grey in zip(zip(*wrapped, strict=True), quiet, strict=True):
        found.add_row(*row, style="dim" if grey else None)
    Console(width=sum(widths) + gap * spaces, highlight=False).print(found, crop=False)


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
    texts = [[_MARKED.sub(r"\\\g<0>", cell) for cell in cells] for _, cells in shown]
    for (column, _), cells in zip(shown, texts, strict=True):
        for place in table.best(column):
            cells[place] = f"**{cells[place]}**"
    rows = [[_MARKED.sub(r"\\\g<0>", heading) for heading in headings], rule, *map(list, zip(*texts, strict=True))]
    lines = [" | ".join(["", *row, ""]).strip() for row in rows]
    return "\n\n".join([*([f"**{table.title}**"] if table.title else []), "\n".join(lines), *table.notes]) + "\n"


def latex(table: Table[Any], *, caption: str, label: str) -> str:
    """A table as a LaTeX float with booktabs; its title and notes are part of the caption."""
    shown = table.shown()
    # Text is aligned left in print, although a terminal may align it right.
    numbers = [column.align != "left" and all(map(_is_number, cells)) for column, cells in shown]
    printed = [list(map(_latex_cell, cells)) for _, cells in shown]
    for (column, _), cells in zip(shown, printed, strict=True):
        for place in table.best(column):
            cells[place] = rf"\textbf{{{cells[place]}}}"
    # "[" or "*" at the beginning of a row would belong to the end of the row above.
    printed[0] = [re.sub(r"^(?=[\[*])", "{}", cell) for cell in printed[0]]
    caption = escape(" ".join(filter(None, [f"{table.title}." if table.title else "", caption, *table.notes])))
    lines = [
        r"\begin{table}",
        r"\centering",
        *([rf"\caption{{{caption}}}"] if caption else []),
        *([r"\footnotesize\setlength{\tabcolsep}{3pt}"] if len(shown) >= _WIDE else []),
        rf"\label{{{label}}}",
        rf"\begin{{tabular}}{{{''.join('r' if number else 'l' for number in numbers)}}}",
        r"\toprule",
        " & ".join(escape(column.heading) for column, _ in shown) + r" \\",
        r"\midrule",
        *(" & ".join(row) + r" \\" for row in zip(*printed, strict=True)),
        *(r"\bottomrule", r"\end{tabular}", r"\end{table}", ""),
    ]
    return "\n".join(lines)


def escape(text: str) -> str:
    """Any text as LaTeX prints it, in one line."""
    # Two hyphens in a row would become a dash.
    return re.sub("-(?=-)", "-{}", printable(" ".join(text.split())).translate(_LATEX))


def _is_number(cell: str) -> bool:
    cell = re.sub(r"^\((.*)\)$", r"\1", cell).rstrip("*\u2020")  # The marks of a paper's table.
    return cell == ABSENT or (not set(cell) - _DIGITS and any(map(str.isdigit, cell)))


def _latex_cell(cell: str) -> str:
    if cell == ABSENT:
        return "--"
    return escape(cell).replace("-", "$-$") if _is_number(cell) else escape(cell)
