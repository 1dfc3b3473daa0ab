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
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

from judge.errors import JudgeError
from judge.judges import find_judge
from judge.measure import Result
from judge.report.examples import Examples, example_cards
from judge.report.notes import summary_lines
from judge.report.plots import save
from judge.report.sections import EVERYTHING, SECTIONS
from judge.report.table import Table, how_many
from judge.report.warnings import verdict_notes, verdicts

_POSITIVE = (
    "Positive amplification (of ratios: above 1): the attribute and what else is said go together more closely in the "
    "generated captions than in human captions of the same images."
)


@dataclass(frozen=True, slots=True)
class Contents:
    """The contents of a page.

    Attributes:
        result: the numbers.
        settings: name of a run (or "") and its run.yaml.
        examples: whether images and captions are shown.
        names: whether ids of images are shown, which may be names of files.
        pictures: image id -> JPEG; people are hidden in them.
    """

    result: Result
    settings: Sequence[tuple[str, str]]
    examples: bool = True
    names: bool = False
    pictures: Mapping[str, bytes] = field(default_factory=dict)


def make_page(contents: Contents, figures: Path | None = None) -> str:
    """The page, as HTML.

    Args:
        contents: of the page.
        figures: folder for the same figures as SVG and PNG files; it must exist. None for none.

    Raises:
        JudgeError: a figure cannot be written.
    """
    result = contents.result
    examples = example_cards(result, contents.pictures, names=contents.names) if contents.examples else None
    versions = result.run.get("versions") or {"caption-judge": result.run["version"]}
    values = {
        "title": "Bias amplification report",
        "version": result.run["version"],
        "lead": _lead(result),
        "verdicts": verdicts(result),
        "verdict_notes": verdict_notes(result),
        "protocol": summary_lines(result)[0],
        "sections": list(_sections(result, figures)),
        "examples": examples and _examples(examples),
        "settings": contents.settings,
        "versions": ", ".join(f"{name} {number}" for name, number in versions.items()),
        "citations": citations(result),
    }
    return _render(values, style=_image_css(examples, contents.pictures) if examples else "")


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
        for drawing in section.figures(result):
            if folder:
                drawing.write(folder / _file_name(drawing.name, taken))
            data = base64.b64encode(save(drawing.draw(), "svg")).decode()
            figures.append({"title": drawing.title, "text": drawing.text, "note": drawing.note, "data": data})
        content = {
            "figures": figures,
            "tables": [_cells(table) for table in section.tables(result, EVERYTHING) if table.rows],
            "warnings": list(section.warnings(result)),
            "lines": list(section.lines(result)),
            "folded": list(section.folded(result)),
        }
        if any(content.values()):
            yield content | {"name": section.name, "heading": section.heading, "intro": section.intro}


def _cells(table: Table[Any]) -> dict[str, Any]:
    columns = table.shown()
    rows = list(zip(*(cells for _, cells in columns), strict=True))
    return {"title": table.title, "columns": columns, "rows": rows, "notes": table.notes}


def _file_name(name: str, taken: set[str]) -> str:
    """File name of a figure, without suffix, for any names of captioners and judges; ``taken``: those used already."""
    # In bytes: file systems count them, and a letter may have four.
    plain = re.sub(r"[^\w.-]+", "-", name).strip(".").encode()[:100].decode(errors="ignore")
    found, number = plain, 1
    while found.lower() in taken:
        number += 1
        found = f"{plain}-{number}"
    taken.add(found.lower())
    return found


def _examples(examples: Examples) -> dict[str, Any]:
    """The examples as the template shows them."""
    notes = []
    if examples.pictures:
        notes.append(
            "People in images are hidden, as far as the run's masks know them; images in which no person was found are "
            "left out."
        )
    if examples.shaded:
        notes.append(
            "Shading: what a word adds to the log-odds of the true class (orange, underlined), or takes away (blue, "
            "dotted)."
        )
    return {
        "cards": examples.cards,
        "captioners": examples.values("captioner"),
        "rows": examples.values("title"),
        "classes": sorted(examples.values("class_")),
        "tasks": sorted({task for card in examples.cards for task in card["tasks"]}),
        "alt": "the image, people hidden",
        "note": " ".join(notes),
    }


def _image_css(examples: Examples, pictures: Mapping[str, bytes]) -> str:
    """A rule for each image, so that one that several rows show is there once."""
    data = {name: base64.b64encode(pictures[image]).decode() for image, name in examples.pictures.items()}
    return "".join(f".{name}{{background-image:url(data:image/jpeg;base64,{text})}}" for name, text in data.items())


def _render(values: Mapping[str, Any], *, style: str) -> str:
    """The template, with ``style`` added to its own; the page's policy allows its own script alone."""
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    files = resources.files("judge.report") / "templates"
    css, script = ((files / name).read_text(encoding="utf-8") for name in ("report.css", "report.js"))
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    loader = PackageLoader("judge.report")
    templates = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    # Safe: files of this package, and images as base64.
    own = {"css": Markup(css + style), "script": Markup(script), "script_hash": f"sha256-{digest}"}  # noqa: S704
    return templates.get_template("report.html").render({**values, **own})


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
