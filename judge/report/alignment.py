"""Results of ``judge align``: a table, CSV, JSON, and the curve over delta as a figure."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd

from judge.report.plots import GREY, look, new_figure, save
from judge.report.table import COUNT, NUMBER, Table, json_text, table_of
from judge.text.alignment import AlignmentReport, Substitution
from judge.text.vectors import Vectors
from judge.utils.cells import table_csv

# Shares of an alignment, and their headings.
_SHARES = {
    "words_kept": "words kept",
    "words_substituted": "words exchanged",
    "words_unknown": "words unknown",
    "tokens_kept": "tokens kept",
    "tokens_substituted": "tokens exchanged",
    "tokens_unknown": "tokens unknown",
    "lacking_substituted": "of lacking",
}


@dataclass(frozen=True, slots=True)
class Alignment:
    """How the human captions were aligned to one captioner; ``images`` have captions on both sides.

    ``dropped``: reason -> images left out. ``curve``: (delta, shares), delta rising. ``reports``, ``meteor``:
    "constant" and "contextual" -> shares, and METEOR of masked and aligned captions against the captions as written,
    the mean, in [0, 1]; NaN without NLTK.
    """

    captioner: str
    images: int
    captions: int
    dropped: Mapping[str, int]
    reports: Mapping[str, AlignmentReport]
    meteor: Mapping[str, float]
    curve: Sequence[tuple[float, AlignmentReport]]
    substitutions: Sequence[Substitution]


def alignment_table(found: Sequence[Alignment]) -> Table[tuple[Any, ...]]:
    """The table of ``judge align``: a row per captioner and kind of alignment. Fractions."""
    rows = [
        (entry.captioner, how, *(getattr(report, share) for share in _SHARES), entry.meteor[how], entry.images)
        for entry in found
        for how, report in entry.reports.items()
    ]
    numbers = [(heading, NUMBER) for heading in (*_SHARES.values(), "METEOR")] + [("images", COUNT)]
    return table_of(["captioner", "alignment"], numbers, rows)


def substitutions_csv(found: Sequence[Alignment]) -> str:
    """A row per captioner and word: captioner, word, substitute, distance (cosine), tokens (occurrences)."""
    rows = [{"captioner": entry.captioner} | asdict(row) for entry in found for row in entry.substitutions]
    return _csv(rows, ["word", "substitute", "distance", "tokens"])


def curve_csv(found: Sequence[Alignment]) -> str:
    """A row per captioner and delta: shares of words and of tokens kept, substituted, unknown; and of lacking ones."""
    curves = ((entry.captioner, delta, report) for entry in found for delta, report in entry.curve)
    rows = [asdict(report) | {"captioner": name, "delta": f"{delta:g}"} for name, delta, report in curves]
    return _csv(rows, ["delta", *_SHARES])


def _csv(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> str:
    return table_csv(pd.DataFrame(rows, columns=["captioner", *columns]), float_format="%.6f")


def alignment_json(found: Sequence[Alignment], vectors: Vectors, delta: float) -> str:
    """``{"vectors": {...}, "delta": ..., "results": [...]}``: fractions, absent values null, never NaN."""
    results = []
    for entry in found:
        facts = {"captioner": entry.captioner, "images": entry.images, "captions": entry.captions}
        reports = {how: asdict(report) | {"meteor": entry.meteor[how]} for how, report in entry.reports.items()}
        results.append({**facts, "dropped": entry.dropped, **reports})
    space = {
        "source": vectors.source,
        "words": len(vectors.rows),
        "dimension": vectors.matrix.shape[1],
        "words_without": vectors.missing,
    }
    return json_text({"vectors": space, "delta": delta, "results": results})


def curve_png(found: Sequence[Alignment], delta: float) -> bytes:
    """Share of words in place of "<unk>" among all substitutions over delta, as a PNG; a line per captioner.

    That is Figure 1 of DPAC's and of DBAC's appendix. A captioner that uses all human words has no line.
    """
    figure = new_figure(6, 3.6)
    axes = figure.subplots()
    for number, entry in enumerate(found):
        deltas, shares = zip(*((at, report.lacking_substituted) for at, report in entry.curve), strict=True)
        percent = 100 * np.array(shares, dtype=np.float64)
        axes.plot(deltas, percent, linewidth=1.2, markersize=3, label=entry.captioner, **look(number))
    axes.axvline(delta, color=GREY, linewidth=0.8, linestyle=":")
    axes.set(ylim=(0, 100), xlabel="threshold of cosine distance (delta)", ylabel="contextual substitutions, % of all")
    axes.grid(alpha=0.3)
    figure.legend(loc="outside right upper", frameon=False, fontsize=8)
    return save(figure, "png")
