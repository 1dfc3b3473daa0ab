"""Shaded captions: on a terminal, in a pipe, and the colours themselves."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from judge.report.shading import AGAINST, FOR, mixed, print_shaded, shaded, shades


def test_strengths_are_shares_of_the_largest() -> None:
    assert shades(["a", "b", "c"], [0.5, -2.0, 0.0]) == [("a", 0.25), ("b", -1.0), ("c", 0.0)]
    assert shades(["a"], [0.0]) == [("a", 0.0)]
    assert shades([], []) == []


@pytest.mark.parametrize("terminal", [True, False])
def test_numbers_stand_beside_colours(terminal: bool) -> None:
    """In a pipe they are all there is; what contributes next to nothing has neither."""
    text = io.StringIO()
    system = "truecolor" if terminal else None
    console = Console(file=text, force_terminal=terminal, color_system=system, width=40, highlight=False)
    words, amounts = ("a", "surfboard", "[b]", "of"), (-0.2, 0.812, 0.001, 0.0)
    print_shaded("heading", words, amounts, console)
    found = text.getvalue()
    assert shaded(words, amounts).plain == "a(-0.2) surfboard(+0.81) [b] of"
    if terminal:
        assert f"48;2;{';'.join(map(str, FOR))}m" in found
    else:
        assert found == "heading\n  a(-0.2) surfboard(+0.81) [b] of\n"


def contrast(background: tuple[int, int, int], black: bool) -> float:
    """WCAG 2: of text in black or white."""
    parts = [part / 255 for part in background]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return (luminance + 0.05) / 0.05 if black else 1.05 / (luminance + 0.05)


def test_text_is_readable_on_every_shade() -> None:
    assert (mixed(1.0), mixed(-1.0), mixed(0.0)) == (FOR, AGAINST, (255, 255, 255))
    for step in range(-20, 21):
        if abs(strength := step / 20) >= 0.1:
            style = str(shaded(["x", "y"], [strength, 1.0]).spans[0].style)
            assert contrast(mixed(strength), style.startswith("black")) >= 4.5, strength
