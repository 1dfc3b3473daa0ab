"""Tables as LaTeX, with booktabs; any text is escaped."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import Any

from judge.report.table import Table

PREAMBLE = r"""% Needs \usepackage{booktabs}. Names in other scripts than Latin need lualatex or xelatex."""
# Characters that LaTeX reads as commands, or that its old fonts print as something else.
_ESCAPED = {
    **{character: f"\\{character}" for character in "#$%&_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': "''",
    "`": r"\textasciigrave{}",
    "\u00a0": "~",
    "\u2212": "$-$",
    "\u2192": r"$\rightarrow$",
    "\u2264": r"$\leq$",
    "\u2265": r"$\geq$",
    "\u00d7": r"$\times$",
    "\u2026": r"\dots{}",
}
# Two of these in a row are drawn as one other character ("--" as a dash).
_JOINED = "-,'?!"
_DIGITS = set("0123456789+-.,%[]*<>/ einfa")
# From so many columns on a table is set in small type.
_WIDE = 7


def latex(table: Table[Any], *, caption: str = "", label: str = "") -> str:
    """A table as a LaTeX float: numbers aligned right, its notes below it.

    Args:
        table: to write.
        caption: what is known beside it, after its title.
        label: for references; "" for none.
    """
    shown = table.shown()
    # Verdicts are aligned right on a terminal; in print text stands left.
    columns = "".join("l" if column.align == "left" or not _numeric(cells) else "r" for column, cells in shown)
    head = [escape(column.heading) for column, _ in shown]
    rows = zip(*(map(_cell, cells) for _, cells in shown), strict=True)
    above = " ".join(part for part in (f"{table.title}." if table.title else "", caption) if part)
    lines = [
        r"\begin{table}",
        r"  \centering",
        *([rf"  \caption{{{escape(above)}}}"] if above else []),
        *([rf"  \label{{{label}}}"] if label else []),
        *([r"  \footnotesize\setlength{\tabcolsep}{3pt}"] if len(shown) >= _WIDE else []),
        rf"  \begin{{tabular}}{{{columns}}}",
        r"    \toprule",
        f"    {_row(head)}",
        r"    \midrule",
        *(f"    {_row(row)}" for row in rows),
        r"    \bottomrule",
        r"  \end{tabular}",
        *(rf"  \par\smallskip{{\footnotesize {escape(note)}}}" for note in table.notes),
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def escape(text: str) -> str:
    """Any text as LaTeX prints it; lines become one, characters that do not print are left out."""
    found: list[str] = []
    before = ""
    for character in map(_printable, unicodedata.normalize("NFC", text)):
        written = _ESCAPED.get(character, character)
        found.append(f"{{}}{written}" if character and character in _JOINED and character == before else written)
        before = character
    return "".join(found).strip()


def _printable(character: str) -> str:
    """The character, a space for a line break, nothing for one that does not print."""
    if character.isspace() and character != "\u00a0":
        return " "
    return "" if unicodedata.category(character) in {"Cc", "Cf", "Cs", "Co", "Cn"} else character


def _cell(text: str) -> str:
    """A cell; the minus of a number is one, not a hyphen."""
    written = escape(text)
    if _numeric([text]):
        return written.replace("-", "$-$") if text != "-" else "--"
    return written


def _numeric(cells: Sequence[str]) -> bool:
    """Whether cells hold numbers, intervals, pairs or shares, as far as they hold anything."""
    held = [cell for cell in cells if cell != "-"]
    return all(not set(cell) - _DIGITS and any(map(str.isdigit, cell)) for cell in held)


def _row(cells: Sequence[str]) -> str:
    """``[`` or ``*`` at the beginning would belong to the end of the row above."""
    first, *others = cells
    return " & ".join([f"{{}}{first}" if first.startswith(("[", "*")) else first, *others]) + r" \\"
