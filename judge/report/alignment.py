"""What alignments did, as people and programs read it: a table, CSV, JSON, and the delta curve as a picture."""

from __future__ import annotations

import io
import json
import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from operator import methodcaller
from typing import TYPE_CHECKING, Any, NamedTuple

import pandas as pd

from judge.report.table import COUNT, NUMBER, Column, Table, names
from judge.text.alignment import AlignmentReport, Substitution
from judge.text.vectors import Vectors
from judge.utils.cells import table_csv

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_SHARES = (
    *("words_kept", "words_substituted", "words_unknown", "tokens_kept", "tokens_substituted", "tokens_unknown"),
    "lacking_substituted",
)
# Of the curve's lines: colour and dashes; thick for tokens.
_STYLES = {"substituted": ("#1f4e79", "-"), "unknown": ("#b03a2e", "--")}
_WIDTHS = {"tokens": 2.0, "words": 1.0}


@dataclass(frozen=True, slots=True)
class Alignment:
    """What became of people's captions beside one captioner.

    Attributes:
        captioner: its name.
        images: that have captions on both sides (and a label, where labels are given).
        captions: of people, aligned.
        dropped: reason -> images left out.
        reports: "constant" and "contextual" -> shares.
        meteor: the same -> METEOR of aligned against original captions, in [0, 1]; NaN where it was not taken.
        curve: (delta, shares), delta rising.
        substitutions: at the delta of the run.
    """

    captioner: str
    images: int
    captions: int
    dropped: Mapping[str, int]
    reports: Mapping[str, AlignmentReport]
    meteor: Mapping[str, float]
    curve: Sequence[tuple[float, AlignmentReport]]
    substitutions: Sequence[Substitution]


class AlignmentRow(NamedTuple):
    """A kind of alignment of one captioner."""

    entry: Alignment
    how: str

    def share(self, name: str) -> float | None:
        """A field of the report."""
        found: float | None = getattr(self.entry.reports[self.how], name)
        return found


_HEADINGS = (
    *("words kept", "words exchanged", "words unknown", "tokens kept", "tokens exchanged", "tokens unknown"),
    "of lacking",
)


def alignment_table(found: Sequence[Alignment]) -> Table[AlignmentRow]:
    """The table of ``judge align``: a row per captioner and kind of alignment. Fractions."""
    columns: list[Column[AlignmentRow]] = [
        names("captioner", lambda row: row.entry.captioner),
        names("alignment", lambda row: row.how),
        *(
            Column(heading, methodcaller("share", name), NUMBER)
            for heading, name in zip(_HEADINGS, _SHARES, strict=True)
        ),
        Column("METEOR", lambda row: row.entry.meteor[row.how], NUMBER),
        Column("images", lambda row: row.entry.images, COUNT),
    ]
    return Table(tuple(columns), tuple(AlignmentRow(entry, how) for entry in found for how in entry.reports))


def substitutions_csv(found: Sequence[Alignment]) -> str:
    """A row per captioner and word: captioner, word, substitute, distance (cosine), tokens (occurrences)."""
    columns = ["captioner", "word", "substitute", "distance", "tokens"]
    return _csv(
        [{"captioner": entry.captioner} | asdict(row) for entry in found for row in entry.substitutions], columns
    )


def curve_csv(found: Sequence[Alignment]) -> str:
    """A row per captioner and delta: shares of words and of tokens kept, substituted, unknown; and of lacking ones."""
    rows = [
        asdict(report) | {"captioner": entry.captioner, "delta": f"{delta:g}"}
        for entry in found
        for delta, report in entry.curve
    ]
    return _csv(rows, ["captioner", "delta", *_SHARES])


def _csv(rows: Sequence[Mapping[str, object]], columns: list[str]) -> str:
    return table_csv(pd.DataFrame(rows, columns=columns), float_format="%.6f")


def alignment_json(found: Sequence[Alignment], vectors: Vectors, delta: float) -> str:
    """``{"vectors": {...}, "delta": ..., "results": [...]}``: fractions, absent values null, never NaN."""
    results: list[dict[str, Any]] = []
    for entry in found:
        facts = {"captioner": entry.captioner, "images": entry.images, "captions": entry.captions}
        meteor = {how: None if math.isnan(value) else value for how, value in entry.meteor.items()}
        reports = {how: {**asdict(report), "meteor": meteor[how]} for how, report in entry.reports.items()}
        results.append({**facts, "dropped": dict(entry.dropped), **reports})
    space = {
        "source": vectors.source,
        "words": len(vectors.rows),
        "dimension": vectors.matrix.shape[1],
        "words_without": vectors.missing,
    }
    summary = {"vectors": space, "delta": delta, "results": results}
    return json.dumps(summary, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def curve_png(found: Sequence[Alignment], delta: float) -> bytes:
    """:func:`draw_curves` as a PNG."""
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        # A name in a script that the font lacks is drawn as boxes.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        draw_curves(found, delta).savefig(buffer, format="png", dpi=150)
    return buffer.getvalue()


def draw_curves(found: Sequence[Alignment], delta: float) -> Figure:
    """Shares of words and tokens over delta, a panel per captioner; the delta of the run is dotted."""
    from matplotlib.figure import Figure

    columns = min(2, len(found))
    height = math.ceil(len(found) / columns)
    figure = Figure(figsize=(max(6, 4.5 * columns), 0.8 + 3 * height), layout="constrained")
    panels = list(figure.subplots(height, columns, sharex=True, sharey=True, squeeze=False).flat)
    for place, panel in enumerate(panels):
        panel.set_visible(place < len(found))
        panel.tick_params(labelbottom=place >= len(found) - columns)
    for panel, entry in zip(panels, found, strict=False):
        _draw(panel, entry, delta)
    figure.supxlabel("threshold of cosine distance (delta)", fontsize=10)
    figure.supylabel("share of people's words, of tokens", fontsize=10)
    lines, names = panels[0].get_legend_handles_labels()
    figure.legend(lines, names, loc="outside upper center", ncols=len(names), frameon=False, fontsize=8)
    return figure


def _draw(panel: Axes, entry: Alignment, delta: float) -> None:
    deltas = [at for at, _ in entry.curve]
    shares = [asdict(report) for _, report in entry.curve]
    for name, (colour, line) in _STYLES.items():
        for what, width in _WIDTHS.items():
            values = [row[f"{what}_{name}"] for row in shares]
            panel.plot(deltas, values, color=colour, linestyle=line, linewidth=width, label=f"{what} {name}")
    panel.axvline(delta, color="#999999", linewidth=0.8, linestyle=":")
    panel.set_title(entry.captioner, fontsize=9, parse_math=False)
    panel.set_ylim(0, 1)
    panel.grid(alpha=0.3)
