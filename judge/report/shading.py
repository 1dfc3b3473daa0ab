"""Captions whose words are shaded by what they contribute: orange speaks for the class, blue against it.

Colours of Okabe and Ito, told apart by the colour-blind; a number with its sign stands behind each word that counts.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from judge.errors import printable

FOR, AGAINST = (230, 159, 0), (0, 114, 178)
# Of the strongest word's: weaker ones have no number, so that captions stay readable.
LEAST = 0.1


def shades(words: Sequence[str], contributions: Sequence[float]) -> list[tuple[str, float]]:
    """Each word with its strength in [-1, 1]: its contribution over the caption's largest by size; 0 where all are."""
    largest = max(map(abs, contributions), default=0.0)
    return [(w, float(c) / largest if largest else 0.0) for w, c in zip(words, contributions, strict=True)]


def shaded(words: Sequence[str], contributions: Sequence[float]) -> Text:
    """The caption for a terminal; where that has no colours the numbers alone are left."""
    line = Text()
    for (word, strength), amount in zip(shades(words, contributions), contributions, strict=True):
        line.append(" " if line else "")
        line.append(printable(word), style=_style(strength))
        if abs(strength) >= LEAST:
            line.append(f"({amount:+.2g})", style="dim")
    return line


def print_shaded(heading: str, words: Sequence[str], contributions: Sequence[float], console: Console) -> None:
    """Print a heading, and below it the caption, as long as the line needs."""
    console.print(Text(printable(heading)), soft_wrap=True)
    console.print(Text("  ").append(shaded(words, contributions)), soft_wrap=True)


def mixed(strength: float) -> tuple[int, int, int]:
    """The background of a strength in [-1, 1], between white (0) and the colour of its sign; red, green, blue."""
    full = FOR if strength > 0 else AGAINST
    red, green, blue = (round(255 + abs(strength) * (part - 255)) for part in full)
    return red, green, blue


def ink(background: tuple[int, int, int]) -> str:
    """Black or white, whichever is easier to read on a background (contrast of WCAG 2, at least 4.5)."""
    parts = [part / 255 for part in background]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return "black" if (luminance + 0.05) ** 2 > 1.05 * 0.05 else "white"


def _style(strength: float) -> str:
    if abs(strength) < LEAST:
        return ""
    background = mixed(strength)
    return f"{ink(background)} on rgb({','.join(map(str, background))})"
