"""Shaded captions of ``judge attribute`` on a terminal."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from judge.report.attribution import AGAINST, FOR, print_shaded, shaded


@pytest.mark.parametrize("terminal", [True, False])
def test_numbers_stand_beside_colours(terminal: bool) -> None:
    """A pipe shows numbers alone; words with hardly any contribution have neither."""
    text = io.StringIO()
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
