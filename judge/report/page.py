"""The report page: one self-contained HTML file, made with Jinja2 from the sections of a report and its examples.

All data (captions, names, labels) are text: templates escape them, and the page's own Content-Security-Policy
allows no request, and no script but the one that sorts the examples. Figures are SVG images, which run no script.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from importlib import resources
from pathlib import Path
from typing import Any

from judge.errors import JudgeError
from judge.judges import find_judge
from judge.measure import Result
from judge.report.examples import example_cards
from judge.report.notes import summary_lines
from judge.report.plots import save, style
from judge.report.sections import SECTIONS
from judge.report.table import how_many
from judge.report.warnings import verdict_notes, verdicts

_POSITIVE = (
    "Positive amplification (of ratios: above 1): the attribute and what else is said go together more closely in the "
    "generated captions than in human captions of the same images."
)


def make_page(
    result: Result,
    settings: Sequence[tuple[str, str]],
    pictures: Mapping[str, bytes],
    *,
    examples: bool = True,
    names: bool = False,
    figures: Path | None = None,
) -> str:
    """The page, as HTML.

    Args:
        result: the numbers.
        settings: name of a run (or "") and its run.yaml.
        pictures: image id -> JPEG; people are hidden in them.
        examples: whether images and captions are shown.
        names: whether ids of images are shown, which may be names of files.
        figures: folder for the same figures as SVG and PNG files; it must exist. None for none.

    Raises:
        JudgeError: a figure cannot be written.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    files = resources.files("judge.report") / "templates"
    css, script = ((files / name).read_text(encoding="utf-8") for name in ("report.css", "report.js"))
    # The policy of the page allows this script alone.
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    shown = example_cards(result, pictures, names=names) if examples else None
    versions = result.run.get("versions") or {"caption-judge": result.run["version"]}
    loader = PackageLoader("judge.report")
    templates = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    return templates.get_template("report.html").render(
        title="Bias amplification report",
        version=result.run["version"],
        lead=_lead(result),
        verdicts=verdicts(result),
        verdict_notes=verdict_notes(result),
        protocol=summary_lines(result)[0],
        sections=list(_sections(result, figures)),
        examples=shown,
        settings=settings,
        versions=", ".join(f"{name} {number}" for name, number in versions.items()),
        citations=citations(result),
        # Safe: files of this package, and images as base64.
        css=Markup(css + (shown["css"] if shown else "")),  # noqa: S704
        script=Markup(script),  # noqa: S704
        script_hash=f"sha256-{digest}",
    )


def _lead(result: Result) -> str:
    run = result.run
    counts = sorted({sum(entry["images"].values()) for entry in run["captioners"].values()})
    images = f"{counts[0]:,}" if len(counts) == 1 else f"{counts[0]:,} to {counts[-1]:,}"
    captioners, metrics = len(run["captioners"]), len({row.metric for row in result.summaries})
    line = f"{how_many(captioners, 'captioner')}, {how_many(metrics, 'metric')}, {images} images. "
    line += f"Attribute: {run['attribute']}, as perceived."
    return f"{line} {_POSITIVE}" if any(row.amplification is not None for row in result.summaries) else line


def _sections(result: Result, folder: Path | None) -> Iterator[dict[str, Any]]:
    """The sections that have content, as the template shows them."""
    taken: set[str] = set()
    for section in SECTIONS:
        figures = []
        with style():
            drawings = list(section.figures(result))
        for drawing in drawings:
            data = base64.b64encode(save(drawing.figure, "svg")).decode()
            figures.append({"title": drawing.title, "text": drawing.text, "note": drawing.note, "data": data})
            if folder:
                # Letters of all file systems, in names of metrics and judges.
                name = re.sub(r"[^a-zA-Z0-9_.-]+", "-", drawing.name)[:100]
                while name.lower() in taken:
                    name += "-"
                taken.add(name.lower())
                drawing.write(folder / name)
        content = {
            "figures": figures,
            "tables": [table for table in section.tables(result, True) if table.rows],
            "warnings": list(section.warnings(result)),
            "lines": list(section.lines(result)),
            "folded": list(section.folded(result)),
        }
        if any(content.values()):
            yield content | {"name": section.name, "heading": section.heading, "intro": section.intro}


def bibliography() -> dict[str, str]:
    """Key -> its BibTeX entry, of every paper that a metric, a judge or a default comes from."""
    text = (resources.files("judge") / "references.bib").read_text(encoding="utf-8")
    entries = re.split(r"^(?=@)", text, flags=re.MULTILINE)
    return {found[1]: entry.strip() for entry in entries if (found := re.match(r"@\w+\{([^,\s]+),", entry))}


def citations(result: Result) -> list[str]:
    """BibTeX entries of the metrics and judges of a result, in the order of the table."""
    texts = []
    for row in result.summaries:
        texts.append(row.metric.reference)
        with suppress(JudgeError):  # The name of a captioner that judges itself, or of a checkpoint that is gone.
            texts.append(find_judge(row.judge).reference)
    known = bibliography()
    keys = dict.fromkeys(key for text in texts for key in re.findall(r"[\w-]+", text) if key in known)
    return [known[key] for key in keys]
