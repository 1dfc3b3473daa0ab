"""Tables as LaTeX: whatever a name holds, it is text."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge.report.latex import escape, latex
from judge.report.table import SIGNED, Column, Table, names, write_p
from judge.types import Interval

# From LaTeX's manuals: what each character has to be written as, in text and in the old fonts.
ESCAPES = {
    "a_b": r"a\_b",
    "R&D": r"R\&D",
    "100%": r"100\%",
    r"a\b": r"a\textbackslash{}b",
    "$x$": r"\$x\$",
    "#1": r"\#1",
    "~/runs": r"\textasciitilde{}/runs",
    "x^2": r"x\textasciicircum{}2",
    "{}": r"\{\}",
    "T->A": r"T-\textgreater{}A",
    "a|b": r"a\textbar{}b",
    'a "b"': "a ''b''",
    "--refits": r"-{}-refits",
    "---": "-{}-{}-",
    ",,": ",{},",
    "e\u0301t\u00e9": "\u00e9t\u00e9",
    "a\u2192b": r"a$\rightarrow$b",
    "one\ntwo": "one two",
    "bell\x07": "bell",
    "\\input{/etc/passwd}": r"\textbackslash{}input\{/etc/passwd\}",
    "\u5973": "\u5973",
}


@pytest.mark.parametrize("text", ESCAPES)
def test_every_special_character_is_escaped(text: str) -> None:
    assert escape(text) == ESCAPES[text]


@given(st.text(max_size=30))
def test_no_text_is_a_command(text: str) -> None:
    """Without the commands that escape, and mathematics of a sign, none of LaTeX's characters is left."""
    left = re.sub(r"\\[#$%&_{}]|\\(text|dots)[a-z]*\{\}|\$(-|\\[a-z]+)\$|\{\}", "", escape(text))
    assert not set(left.replace("~", "")) & set("\\{}$&#^_%\n\r")


ROWS = (("[x]_y", 0.5, Interval(-0.25, 0.75), 0.0001), ("*", -0.125, None, 0.5))
TABLE: Table[tuple[str, float, Interval | None, float]] = Table(
    (
        names("captioner", lambda row: row[0]),
        Column("amplification", lambda row: row[1], SIGNED),
        Column("95% interval", lambda row: row[2], SIGNED),
        Column("p", lambda row: row[3], write_p),
        Column("verdict", lambda row: "cannot tell" if row[3] > 0.1 else "amplifies"),
    ),
    ROWS,
    title="50% & more",
    notes=("A note_1.",),
)


def test_a_table_by_hand() -> None:
    assert latex(TABLE, caption="10 images.", label="tab:x") == (
        r"""\begin{table}
  \centering
  \caption{50\% \& more. 10 images.}
  \label{tab:x}
  \begin{tabular}{lrrrl}
    \toprule
    captioner & amplification & 95\% interval & p & verdict \\
    \midrule
    {}[x]\_y & +0.500 & [$-$0.250, +0.750] & \textless{}0.001 & amplifies \\
    {}* & $-$0.125 & -- & 0.500 & cannot tell \\
    \bottomrule
  \end{tabular}
  \par\smallskip{\footnotesize A note\_1.}
\end{table}
"""
    )
