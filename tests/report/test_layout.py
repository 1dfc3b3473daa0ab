"""Tables that are wider than the terminal are printed in parts, and no number is cut."""

from __future__ import annotations

from io import StringIO

from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.markup import escape

from judge.report.layout import fold, start_table, width_of

CELLS = st.text("ab[]1-/é", min_size=1, max_size=12)


NAMES = ("metric", "first", "second")


@given(st.integers(40, 90), st.integers(1, 3), st.lists(st.tuples(CELLS, CELLS, CELLS), min_size=1, max_size=9))
def test_every_cell_is_printed_whole(width: int, names: int, columns: list[tuple[str, str, str]]) -> None:
    table = start_table(*NAMES[:names])
    for heading, *_ in columns:
        table.add_column(escape(heading), justify="right", no_wrap=True)
    for number in (1, 2):
        table.add_row(*("LIC", "nic", "plus")[:names], *(escape(column[number]) for column in columns))
    parts = list(fold(table, width))
    assert all(width_of(part) <= width for part in parts)
    assert sum(len(part.columns) - names for part in parts) == len(columns)
    for part in parts:
        assert tuple(column.header for column in part.columns[:names]) == NAMES[:names]
        console = Console(width=width, file=StringIO(), highlight=False)
        console.print(part)
        lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
        cells = [[str(cell).replace("\\", "") for cell in (of.header, *of.cells)] for of in part.columns]
        assert len(lines) == 3
        for number, line in enumerate(lines):
            assert line.split() == [of[number] for of in cells]
