"""Tables as text: whatever the width of the page, no number is cut."""

from __future__ import annotations

import re
from io import StringIO
from operator import itemgetter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from judge.report.attribution import AGAINST, FOR, print_shaded, shaded
from judge.report.render import escape, latex, markdown, print_table
from judge.report.table import NUMBER, SIGNED, TEXT, Column, Table, names, table_of, write_p
from judge.types import Interval

CELLS = st.lists(st.text("ab[]1-/é", min_size=1, max_size=12), min_size=3, max_size=3)


def printed(table: Table[Any], monkeypatch: pytest.MonkeyPatch, width: int | None) -> list[str]:
    """The lines on a terminal of this width; None: in a pipe."""
    out = StringIO()
    monkeypatch.setattr(out, "isatty", lambda: width is not None)
    monkeypatch.setattr("sys.stdout", out)
    print_table(table, Console(width=width or 100, file=out, color_system=None))
    return re.sub("\x1b.*?m", "", out.getvalue()).splitlines()


@settings(deadline=None, max_examples=50)
@given(st.integers(40, 90), st.lists(CELLS, min_size=1, max_size=9))
def test_no_number_is_cut_whatever_the_width(width: int, cells: list[list[str]]) -> None:
    """Numbers are whole, and in the line of their row; names may be broken, and begin every part of a wide table."""
    numbers = [(f"{place}{heading}", TEXT) for place, (heading, *_) in enumerate(cells)]
    rows = [(name, *(of[row] for of in cells)) for row, name in ((1, "nic"), (2, "captioner-of-" + "x" * 60))]
    with pytest.MonkeyPatch.context() as patch:
        lines = printed(table_of(["name"], numbers, rows), patch, width)
    assert max(map(len, lines)) <= width
    found: list[list[str]] = [[], [], []]
    for part in "\n".join(lines).split("\n\n"):
        heads, first, second, *rest = part.splitlines()
        assert (heads.split()[0], first.split()[0]) == ("name", "nic")
        assert "".join(line.split()[0] for line in (second, *rest)) == rows[1][0]
        for cells_of, line in zip(found, (heads, first, second), strict=True):
            cells_of.extend(line.split()[1:])
    assert found == [[heading for heading, _ in numbers], *(list(row[1:]) for row in rows)]


def test_intervals_and_headings_are_wrapped_at_spaces(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [("nic", Interval(-0.1, 0.2), -0.5)]
    table = table_of(["captioner"], [("95% interval", SIGNED), ("p (Holm)", SIGNED)], rows)
    lines = [line.rstrip() for line in printed(table, monkeypatch, 28)]
    assert lines == [
        "                95%       p",
        "captioner  interval  (Holm)",
        "nic        [-0.100,  -0.500",
        "            +0.200]",
    ]


NUMBERS: Table[tuple[str, float | None, Interval | None, float | None]] = Table(
    (
        names("a|b", lambda row: row[0]),
        Column("value", lambda row: row[1], SIGNED),
        Column("score", lambda row: row[1], NUMBER),
        Column("interval", lambda row: row[2], SIGNED),
        Column("p", lambda row: row[3], write_p),
        Column("empty", lambda _: None, NUMBER, optional=True),
    ),
    (("x|y", 0.00012, Interval(-0.1, 0.25), 0.0004), ("z", float("nan"), None, 0.5)),
    title="Title",
    notes=("A note.",),
    digits=lambda row: 5 if row[0] == "x|y" else 3,
)


def test_p_is_never_rounded_to_the_other_side_of_the_limit() -> None:
    """0.05 is not significant, and all that is less is; three digits elsewhere."""
    values = [0.0005, 0.00099, 0.001, 0.0494, 0.0496, 0.04996, 0.05 - 1e-12, 0.05, 0.0504, 0.1296, 1.0]
    assert [*map(write_p, values)] == [
        *("<0.001", "<0.001", "0.001", "0.049", "<0.050", "<0.050", "<0.050", "0.050", "0.050", "0.130", "1.000")
    ]


def test_markdown() -> None:
    assert markdown(NUMBERS) == (
        "**Title**\n\n"
        "| a\\|b | value | score | interval | p |\n"
        "| --- | ---: | ---: | ---: | ---: |\n"
        "| x\\|y | +0.00012 | 0.000 | [-0.10000, +0.25000] | <0.001 |\n"
        "| z | - | - | - | 0.500 |\n\n"
        "A note.\n"
    )


def test_a_pipe_has_a_line_for_each_row(monkeypatch: pytest.MonkeyPatch) -> None:
    headings = [f"{place}" * 30 for place in range(9)]
    table = table_of(["name"], [(name, TEXT) for name in headings], [("[/b]", *"123456789")])
    lines = printed(table, monkeypatch, None)
    assert [line.split() for line in lines] == [["name", *headings], ["[/b]", *"123456789"]]


# From LaTeX's manuals: what each character has to be written as, in text and in the old fonts.
ESCAPES = {
    "a_b": r"a\_b",
    "R&D 100%": r"R\&D 100\%",
    r"a\b $x$ #1": r"a\textbackslash{}b \$x\$ \#1",
    "~/x^2 {}": r"\textasciitilde{}/x\textasciicircum{}2 \{\}",
    "T->A": r"T-\textgreater{}A",
    'a|b "c"': r"a\textbar{}b ''c''",
    "--refits": r"-{}-refits",
    "a\u2192b": r"a$\rightarrow$b",
    "one\ntwo": "one two",
    "\\input{/etc/passwd}": r"\textbackslash{}input\{/etc/passwd\}",
}


def test_every_special_character_is_escaped() -> None:
    assert {text: escape(text) for text in ESCAPES} == ESCAPES


@settings(max_examples=50)
@given(st.text(max_size=30))
def test_no_text_is_a_command(text: str) -> None:
    """Without the commands that escape, and mathematics of a sign, none of LaTeX's characters is left."""
    left = re.sub(r"\\[#$%&_{}]|\\(text|dots|dag)[a-z]*\{\}|\$\\[a-z]+\$|\{\}", "", escape(text))
    assert not set(left) & set("\\{}$&#^_%~\n\r")


def test_a_latex_table_by_hand() -> None:
    rows = ("[x]_y", Interval(-0.25, 0.75), -0.5, "amplifies"), ("z", None, 0.5, "cannot tell")
    numbers = [("95% interval", SIGNED), ("value", SIGNED), ("verdict", TEXT)]
    table = table_of(["captioner"], numbers, rows, "50% & more", ["A note_1."])
    assert latex(table, caption="10 images.", label="tab:x") == (
        r"""\begin{table}
\centering
\caption{50\% \& more. 10 images. A note\_1.}
\label{tab:x}
\begin{tabular}{lrrl}
\toprule
captioner & 95\% interval & value & verdict \\
\midrule
{}[x]\_y & [$-$0.250, +0.750] & $-$0.500 & amplifies \\
z & -- & +0.500 & cannot tell \\
\bottomrule
\end{tabular}
\end{table}
"""
    )


def test_the_best_values_are_bold() -> None:
    """Values without a merit do not count, the best of a single value is no news, and braces of headings stay."""
    columns: list[Column[tuple[str, float | None, float]]] = [
        names("captioner", itemgetter(0)),
        Column("A->T {x}", itemgetter(1), SIGNED, merit=lambda value: value and -abs(value)),
        Column("alone", lambda row: row[1] if row[0] == "b" else None, NUMBER, merit=lambda value: value),
        Column("CIDEr", itemgetter(2), NUMBER, merit=float),
    ]
    table = Table(tuple(columns), (("a", -0.2, 1.0), ("b", 0.1, 1.0), ("c", None, 0.5)))
    assert [table.best(column) for column in columns] == [{*()}, {1}, {*()}, {0, 1}]
    rows = latex(table, caption="", label="tab:x").splitlines()
    assert rows[5:-3] == [
        r"captioner & A-\textgreater{}T \{x\} & alone & CIDEr \\",
        r"\midrule",
        r"a & $-$0.200 & -- & \textbf{1.000} \\",
        r"b & \textbf{+0.100} & 0.100 & \textbf{1.000} \\",
        "c & -- & -- & 0.500 \\\\",
    ]
    assert "| b | **+0.100** | 0.100 | **1.000** |" in markdown(table)


@pytest.mark.parametrize("terminal", [True, False])
def test_numbers_stand_beside_colours(terminal: bool) -> None:
    """Of shaded captions a pipe shows numbers alone; words with hardly any contribution have neither."""
    text = StringIO()
    system = "truecolor" if terminal else None
    console = Console(file=text, force_terminal=terminal, color_system=system, width=40, highlight=False)
    words, amounts = ("a", "surfboard", "[b]", "of"), (-0.812, 0.812, 0.001, 0.0)
    print_shaded("heading", words, amounts, console)
    found = text.getvalue()
    assert shaded(words, amounts).plain == "a(-0.81) surfboard(+0.81) [b] of"
    if terminal:
        assert all(f"48;2;{';'.join(map(str, colour))}m" in found for colour in (FOR, AGAINST))
    else:
        assert found == "heading\n  a(-0.81) surfboard(+0.81) [b] of\n"
