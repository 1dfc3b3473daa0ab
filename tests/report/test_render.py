"""Tables as text: whatever the width of the page, no number is cut."""

from __future__ import annotations

import re
from io import StringIO

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from judge.report.render import escape, fold, latex, markdown, print_table, width_of
from judge.report.table import NUMBER, SIGNED, TEXT, Column, Table, names, table_of, write_p
from judge.types import Interval

CELLS = st.text("ab[]1-/é", min_size=1, max_size=12)
NAMES = ("metric", "first", "second")
Row = dict[str, str]


def column(heading: str, *, left: bool = False) -> Column[Row]:
    return Column(heading, lambda row: row[heading], align="left" if left else "right")


def printed(table: Table[Row], width: int) -> list[list[str]]:
    """The lines of each part."""
    found = []
    for part in fold(table, width):
        file = StringIO()
        Console(width=width, file=file, highlight=False).print(part)
        found.append(file.getvalue().splitlines())
    return found


@settings(deadline=None)
@given(st.integers(50, 90), st.integers(1, 3), st.lists(st.tuples(CELLS, CELLS, CELLS), min_size=1, max_size=9))
def test_every_cell_is_printed_whole(width: int, known: int, cells: list[tuple[str, str, str]]) -> None:
    """And every part begins with what its rows are about."""
    headings = [f"{place}{heading}" for place, (heading, *_) in enumerate(cells)]
    columns = [column(name, left=True) for name in NAMES[:known]] + [column(name) for name in headings]
    known_cells = dict(zip(NAMES, ("LIC", "nic", "plus"), strict=True))
    rows = [known_cells | {name: of[row] for name, of in zip(headings, cells, strict=True)} for row in (1, 2)]
    parts = printed(Table(tuple(columns), tuple(rows)), width)
    about = [["LIC", "nic", "plus"][:known]] * 2
    found: list[list[str]] = [[], [], []]
    for part in parts:
        assert all(len(line.rstrip()) <= width for line in part)
        heads, *lines = (line.split() for line in part)
        grouped = len(lines) == 3  # The first column stands above the rows that share its value.
        left = known - grouped
        assert heads[:left] == list(NAMES[grouped:known])
        if grouped:
            assert lines.pop(0) == ["LIC"]
        assert [line[:left] for line in lines] == [of[grouped:] for of in about]
        for place, line in enumerate((heads, *lines)):
            found[place] += line[left:]
    assert found == [headings, *([row[name] for name in headings] for row in rows)]


def test_rows_of_one_name_stand_below_it_where_the_page_is_narrow() -> None:
    rows = [{"captioner": name, "metric": metric, "value": "1"} for name in ("a" * 9, "b") for metric in ("LIC", "BA")]
    table = Table((column("captioner", left=True), column("metric", left=True), column("value")), tuple(rows))
    (wide,), (narrow,) = ([[line.rstrip() for line in part] for part in printed(table, width)] for width in (40, 20))
    assert wide[1:3] == ["aaaaaaaaa  LIC         1", "aaaaaaaaa  BA          1"]
    assert narrow == ["metric     value", "aaaaaaaaa", "  LIC          1", "  BA           1", "b", *narrow[2:4]]
    # Long names are wrapped before numbers are cut.
    rows = ({"captioner": "captioner-of-" + "x" * 60, "value": "+0.123456"},)
    (lines,) = printed(Table((column("captioner", left=True), column("value")), rows), 40)
    assert lines[1].endswith("+0.123456")
    assert "".join(line.split()[0] for line in lines[1:]) == rows[0]["captioner"]


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


def test_markdown() -> None:
    assert markdown(NUMBERS) == (
        "**Title**\n\n"
        "| a\\|b | value | score | interval | p |\n"
        "| --- | ---: | ---: | ---: | ---: |\n"
        "| x\\|y | +0.00012 | 0.000 | [-0.10000, +0.25000] | <0.001 |\n"
        "| z | - | - | - | 0.500 |\n\n"
        "A note.\n"
    )


def test_a_pipe_has_the_whole_table(capsys: pytest.CaptureFixture[str]) -> None:
    rows = ({"name": "[/b]", **{f"{place}" * 30: "1" for place in range(9)}},)
    table = Table((column("name", left=True), *(column(f"{place}" * 30) for place in range(9))), rows)
    print_table(table)
    heads, line = capsys.readouterr().out.splitlines()
    assert len(heads.split()) == len(line.split()) == 10
    assert line.split()[0] == "[/b]"
    (part,) = fold(table, 100, parts=False)
    assert width_of(part) > 280


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


@pytest.mark.parametrize("text", ESCAPES)
def test_every_special_character_is_escaped(text: str) -> None:
    assert escape(text) == ESCAPES[text]


@given(st.text(max_size=30))
def test_no_text_is_a_command(text: str) -> None:
    """Without the commands that escape, and mathematics of a sign, none of LaTeX's characters is left."""
    left = re.sub(r"\\[#$%&_{}]|\\(text|dots)[a-z]*\{\}|\$\\[a-z]+\$|\{\}", "", escape(text))
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
