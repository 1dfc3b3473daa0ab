"""All tables of a result as one text, to paste: Markdown and LaTeX."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from judge.errors import printable
from judge.measure import Result
from judge.report.caveats import warnings
from judge.report.latex import PREAMBLE, escape, latex
from judge.report.notes import footnotes, summary_lines
from judge.report.render import markdown
from judge.report.result import tables_of
from judge.report.table import Table


def markdown_report(result: Result, *, title: str = "Bias amplification") -> str:
    """Every table, then warnings and notes.

    Args:
        result: of a run, or of several that were joined.
        title: the heading.
    """
    tables = "\n".join(markdown(_titled(table)) for table in tables_of(result))
    told = [f"**NOTE:** {plain(line)}" for line in warnings(result)] + list(map(plain, footnotes(result)))
    return f"# {title}\n\n{tables}\n## Notes\n\n" + "".join(f"- {line}\n" for line in told)


def latex_report(result: Result) -> str:
    """Every table as a float; the caption of the first says of how many images, and what its intervals are of."""
    floats = []
    for number, table in enumerate(map(_titled, tables_of(result, verbose=False))):
        name = re.sub(r"[^a-z]+", "-", table.title.lower()).strip("-")
        floats.append(latex(table, caption="" if number else caption_of(result), label=f"tab:{name}"))
    remarks = "".join(f"% {escape(line)}\n" for line in [*warnings(result), *footnotes(result)])
    return "\n".join([PREAMBLE + "\n", *floats]) + "\n% What must be known to read the tables:\n" + remarks


def _titled(table: Table[Any]) -> Table[Any]:
    """With the title that the tables without one have on a page of their own."""
    headings = {column.heading for column in table.columns}
    title = "Differences between captioners" if "difference" in headings else "Amplification"
    return table if table.title else replace(table, title=title)


def caption_of(result: Result) -> str:
    """Of the main table: the attribute, how many images, protocol, and what intervals and p are of."""
    return " ".join([f"Of {result.run['attribute']}, {images_of(result)}.", *_known(result)])


def images_of(result: Result) -> str:
    """How many images were scored: "3,597 images", "158 to 160 images"."""
    counts = sorted({row.images for row in result.summaries})
    return f"{counts[0]:,} to {counts[-1]:,} images" if len(counts) > 1 else f"{counts[0]:,} images"


def _known(result: Result) -> Iterator[str]:
    level = f"{100 * result.run['level']:g}%"
    bases = {row.basis for row in result.summaries}
    for line in summary_lines(result):
        yield line.replace("Intervals", f"{level} intervals", 1) if line.startswith("Intervals") else line
    if "these judges" in bases:
        yield f"*: {level} intervals over images alone, for the judges as they were trained."


def plain(line: str) -> str:
    """Text, of which Markdown makes nothing else."""
    return re.sub(r"([*_`<>\\\[\]])", r"\\\1", printable(line))
