"""The report page: one self-contained HTML file, made with Jinja2 from tables, figures and examples.

Whatever data says (captions, names, labels) is text: templates escape it, and the page's own Content-Security-Policy
allows no request, and no script but the one that sorts the examples.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from judge.measure import Result
from judge.report.attributed import Attributed
from judge.report.breakdown import breakdown_tables
from judge.report.card_examples import Examples, example_cards
from judge.report.caveats import warnings
from judge.report.citations import citations
from judge.report.consistency import pair_table, people_table, variation_table
from judge.report.facts import fact_tables
from judge.report.figures import GENERATED, HUMAN, INK, PALE, drawings
from judge.report.notes import class_notes, difference_notes, footnotes, summary_lines
from judge.report.plots import GREY, NOTE, NOTE_HEIGHT, NOTE_ID, SEVERAL, as_svg, change_tags, note_of, write_figure
from judge.report.quality import quality_table
from judge.report.table import Table, how_many
from judge.report.tables import difference_table, result_table
from judge.report.templating import render_page, trusted
from judge.report.verdicts import verdict_notes, verdicts
from judge.statistics.consistency import measure_consistency

if TYPE_CHECKING:
    from markupsafe import Markup

# What every reader of such numbers must know.
LIMITS = (
    "A small amplification is no proof of fairness: judges find only what they can learn, about what was labelled.",
    "Labels are perceived classes. They leave out many people, and say nothing about anyone's identity.",
    "Compare captioners under one judge, metric and protocol on the same images, never with a paper's table.",
    "Never use a judge to infer an attribute of a person.",
)
_POSITIVE = (
    "Positive amplification (of ratios: above 1): the attribute and what else is said go together more closely in the "
    "captioner's captions than in people's for the same images."
)
_CHARTS = (
    (
        "sides",
        "Human and generated side",
        "What people's captions score, and what the captioner's do: the amplification is between them.",
    ),
    ("quality", "Amplification against caption quality", "Captioners that describe better may amplify more, or less."),
    ("judges", "Do judges agree?", "The same captioners by different judges."),
    (
        "directions",
        "Directions",
        "A->T: what captions say of people of a class. T->A: whom captions name, given what images show.",
    ),
    ("tasks", "Tasks and words", "What the amplification comes from."),
    ("facts", "Classes, coverage, alignment, and what was left out", "What the numbers rest on."),
)
# Colours of figures -> those of the page, which has light and dark ones.
_COLOURS = {
    "#000000": "ink", INK: "ink", NOTE: "muted", GREY: "grey", PALE: "pale", HUMAN: "human", GENERATED: "gen",
    **dict(zip(SEVERAL, ("human", "gen", "green", "pink", "sky", "amber"), strict=True)),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Contents:
    """What goes into a page.

    Attributes:
        result: the numbers.
        settings: name of a run (or "") and its run.yaml.
        title: heading of the page.
        examples: whether images and captions are shown.
        names: whether ids of images are shown, which may be names of files.
        pictures: image id -> JPEG; people are hidden in them unless ``people``.
        people: whether pictures show people.
        attributed: what ``judge attribute`` left; None for nothing.
    """

    result: Result
    settings: Sequence[tuple[str, str]]
    title: str = "Bias amplification report"
    examples: bool = True
    names: bool = False
    pictures: Mapping[str, bytes] = field(default_factory=dict)
    people: bool = False
    attributed: Attributed | None = None


def make_page(contents: Contents, figures: Path | None = None) -> str:
    """The page, as HTML.

    Args:
        contents: what goes into it.
        figures: folder for the same figures as SVG and PNG files; it must be there. None for none.

    Raises:
        JudgeError: a figure cannot be written.
    """
    examples = example_cards(contents.result, contents.pictures, names=contents.names) if contents.examples else None
    return render_page("report", _values(contents, examples, figures), style=_picture_css(examples, contents.pictures))


def _values(contents: Contents, examples: Examples | None, figures: Path | None) -> dict[str, Any]:
    """What the template reads."""
    result = contents.result
    drawn = _drawn(result, figures)
    tables = _tables(result)
    return {
        "title": contents.title,
        "version": result.run["version"],
        "lead": _lead(result),
        "sections": list(_sections(drawn, tables, examples, attributed=contents.attributed is not None)),
        "verdicts": verdicts(result),
        "verdict_notes": verdict_notes(result),
        "figures": drawn,
        "measured": [*summary_lines(result), *class_notes(result.run["labels"])],
        "warnings": warnings(result),
        "limits": LIMITS,
        "tables": tables["all"],
        "footnotes": footnotes(result),
        "charts": _CHARTS,
        "kind_tables": tables,
        "examples": examples and _shown(examples, contents),
        "attributed": contents.attributed and _attributed(contents.attributed, contents),
        "examples_wanted": contents.examples,
        "settings": contents.settings,
        "versions": ", ".join(f"{name} {number}" for name, number in result.run.get("versions", {}).items())
        or f"caption-judge {result.run['version']}",
        "citations": citations(result),
    }


def _lead(result: Result) -> str:
    run = result.run
    counts = sorted({sum(entry["images"].values()) for entry in run["captioners"].values()})
    images = f"{counts[0]:,}" if len(counts) == 1 else f"{counts[0]:,} to {counts[-1]:,}"
    captioners, metrics = len(run["captioners"]), len({row.metric for row in result.summaries})
    line = (
        f"{how_many(captioners, 'captioner')}, {how_many(metrics, 'metric')}, {images} images. Attribute: "
        f"{run['attribute']}, as perceived."
    )
    return f"{line} {_POSITIVE}" if any(row.amplification is not None for row in result.summaries) else line


def _sections(
    drawn: Mapping[str, list[Any]], tables: Mapping[str, list[Any]], examples: Examples | None, *, attributed: bool
) -> Iterator[tuple[str, str]]:
    yield "verdict", "Verdict"
    if drawn["forest"]:
        yield "amplification", "Amplification"
    yield "measured", "What was measured"
    yield "limits", "Limits"
    yield "table", "All numbers"
    yield from ((name, heading) for name, heading, _ in _CHARTS if drawn[name] or tables[name])
    if examples:
        yield "examples", "Examples"
    if attributed:
        yield "attribution", "What answers come from"
    yield from (("settings", "Settings"), ("references", "References"))


def _tables(result: Result) -> dict[str, list[dict[str, Any]]]:
    """Kind of figure, or "all" -> the tables that stand there."""
    consistency = measure_consistency(result.summaries, result.run.get("human_scores"))
    found = result.differences()
    compared = difference_table(found)
    if found:
        compared = replace(compared, title="Differences between captioners", notes=tuple(difference_notes(found)))
    every: dict[str, Sequence[Table[Any]]] = {
        "all": [result_table(result, verbose=True), compared],
        "sides": [],
        "directions": [],
        "quality": [quality_table(result.quality, verbose=True)] if result.quality else [],
        "judges": [pair_table(consistency), variation_table(consistency), people_table(consistency)],
        "tasks": list(breakdown_tables(result.breakdown)) if result.breakdown else [],
        "facts": list(fact_tables(result)),
    }
    return {kind: [_as_cells(table) for table in tables if table.rows] for kind, tables in every.items()}


def _as_cells(table: Table[Any]) -> dict[str, Any]:
    columns = table.shown()
    rows = list(zip(*(cells for _, cells in columns), strict=True))
    return {"title": table.title, "columns": columns, "rows": rows, "notes": table.notes}


def _drawn(result: Result, folder: Path | None) -> dict[str, list[dict[str, Any]]]:
    """Kind -> its figures as the template shows them."""
    found: dict[str, list[dict[str, Any]]] = {kind: [] for kind in ("forest", *(chart[0] for chart in _CHARTS))}
    taken: set[str] = set()
    for drawing in drawings(result):
        figure = drawing.draw()
        svg = write_figure(figure, folder / _file_name(drawing.name, taken)) if folder else as_svg(figure)
        label = {"title": drawing.title, "text": drawing.text}
        found[drawing.kind].append({**label, "svg": inline(svg, drawing.title), "note": note_of(figure)})
    return found


def _file_name(name: str, taken: set[str]) -> str:
    """Of a figure, without suffix: captioners and judges may be called anything; ``taken`` are those before."""
    # In bytes: file systems count them, and a letter may have four.
    plain = re.sub(r"[^\w.-]+", "-", name).strip(".").encode()[:100].decode(errors="ignore")
    found, number = plain, 1
    while found.lower() in taken:
        number += 1
        found = f"{plain}-{number}"
    taken.add(found.lower())
    return found


def inline(svg: str, title: str) -> Markup:
    """A figure of matplotlib's as part of a page: in the page's colours, without ids of its own that could clash."""
    from markupsafe import escape

    body = svg[svg.index("<svg") :]
    size = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', body)
    assert size
    width, height = map(float, size.groups())
    inner = body[body.index(">") + 1 :]
    # The page has the note as text of its own: readable at any width.
    inner, noted = re.subn(rf'<g id="{NOTE_ID}">.*?</g>', "", inner, flags=re.DOTALL)
    height -= 72 * NOTE_HEIGHT * noted
    inner = re.sub(r"<metadata>.*?</metadata>", "", inner, flags=re.DOTALL)
    inner = re.sub(
        r'<g id="(?:figure|axes|patch|matplotlib|xtick|ytick|text|line2d|legend|LineCollection)[^"]*">', "<g>", inner
    )
    # Colours stand in style attributes alone: what is written in a caption or a name is left as it is.
    inner = change_tags(inner, lambda tag: re.sub(r'style="[^"]*"', lambda found: _coloured(found[0]), tag))
    return trusted(
        f'<svg class="chart" role="img" aria-label="{escape(title)}" viewBox="0 0 {width:g} {height:g}">{inner}'
    )


def _coloured(style: str) -> str:
    style = re.sub(r"fill: #ffffff", "fill: none", style)
    return re.sub(
        r"#[0-9a-f]{6}", lambda found: f"var(--{_COLOURS[found[0]]})" if found[0] in _COLOURS else found[0], style
    )


def _shown(examples: Examples, contents: Contents) -> dict[str, Any]:
    label = "the picture" if contents.people else "the picture, people hidden"
    notes = []
    if any(card.picture for card in examples.cards):
        notes.append(
            "Pictures show people, as was asked for."
            if contents.people
            else "People in pictures are hidden, as far as the run's masks know them; pictures in which no person was "
            "found are left out."
        )
    if examples.shaded:
        notes.append(
            "Shading: what a word adds to the log-odds of the true class (orange, underlined), or takes away (blue, "
            "dotted)."
        )
    found = {name: getattr(examples, name) for name in ("cards", "captioners", "rows", "classes", "tasks")}
    return found | {"picture_label": label, "note": " ".join(notes)}


def _attributed(found: Attributed, contents: Contents) -> dict[str, Any]:
    """As the template shows it; maps that show people only where pictures may."""
    shown = found.maps if contents.examples and (contents.people or not found.people) else ()
    return {
        "table": _as_cells(found.table) if found.table.rows else None,
        "captions": found.captions,
        "maps": [base64.b64encode(data).decode() for data in shown],
        "alt": f"A picture{'' if found.people else ', people hidden'}, and what the model looked at in it",
    }


def _picture_css(examples: Examples | None, pictures: Mapping[str, bytes]) -> str:
    """A rule for each picture, so that one that several rows show is there once."""
    if examples is None:
        return ""
    data = {name: base64.b64encode(pictures[image]).decode() for image, name in examples.pictures.items()}
    return "".join(f".{name}{{background-image:url(data:image/jpeg;base64,{text})}}" for name, text in data.items())
