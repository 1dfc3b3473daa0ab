"""The report page: one self-contained HTML file, made with Jinja2 from the sections of a report and its examples.

All data (captions, names, labels) are text: templates escape them, and the page's own Content-Security-Policy
allows no request, and no script but the one that sorts the examples. Figures are SVG images, which run no script.
"""

import base64
import hashlib
import io
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib import resources
from importlib.metadata import version
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np

from judge.attribution.people import AGAINST, FOR
from judge.errors import JudgeError, some
from judge.judges.names import find_judge
from judge.measure import Result
from judge.measure.examples import CARD, CHOSEN
from judge.metrics import find_metric
from judge.report.notes import summary_lines
from judge.report.plots import save, style
from judge.report.sections import SECTIONS, Section
from judge.report.table import grouped, how_many, span
from judge.report.verdicts import difference_verdicts, verdict_notes, verdicts
from judge.statistics.summary import name_row
from judge.text.alignment import UNKNOWN, is_special
from judge.types import FloatArray

_POSITIVE = (
    "Positive amplification (of ratios: above 1): the attribute and what else is said go together more closely in the "
    "generated captions than in human captions of the same images."
)
_ABOVE_CHANCE = (
    "Amplification: how much better than by chance judges guess the attribute from captions in which it is masked."
)
_WHAT = {
    "adds": "adds {amount} to the value",
    "takes away": "takes {amount} from the value",
    "random": "drawn at random, {verb} {amount}",
}
_HIDDEN = (
    "People in images are hidden, as far as the run's masks know them; images in which no person was found are left "
    "out."
)
_SHADING = (
    "Shading: what a word adds to the log-odds of the true class (in conditional leakage: to its probability; orange, "
    "underlined), or takes away (blue, dotted)."
)
_PLACES = (
    "On images: what a place adds to the log-odds of the true class (orange), or takes away (blue), whatever the "
    "caption says."
)
_OPAQUE, _FINE = 0.8, 4
"""Opacity of the strongest place of a map; pixels of a place along a side."""
# Below a map the image is grey, so that its own colours are not taken for the map's.
_GREY = "background-blend-mode:normal,luminosity,normal"
_MOST_WORDS = 3
"""Words that a sentence on an example names."""
_WHO = {"human": "a person wrote", "generated": "the captioner wrote"}


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

    ``settings``: name of a run (or "") and its run.yaml. ``pictures``: image id -> JPEG, people hidden. ``names``:
    whether ids of images are shown, which may be names of files. ``figures``: folder, which must exist, for the same
    figures as SVG and PNG files.
    """
    shown = example_cards(result, pictures, names=names) if examples else None
    versions = result.run.get("versions") or {"caption-judge": result.run["version"]}
    return _render(
        "report.html",
        shown["css"] if shown else "",
        title="Bias amplification report",
        version=result.run["version"],
        lead=_lead(result),
        verdicts=verdicts(result),
        differences=list(difference_verdicts(result)),
        verdict_notes=verdict_notes(result),
        protocol=summary_lines(result)[0],
        sections=list(_sections(result, figures)),
        examples=shown,
        first_examples=_first_cards(shown["cards"]) if shown else [],
        settings=settings,
        versions=", ".join(f"{name} {number}" for name, number in versions.items()),
        citations=citations(result),
    )


def make_plain_page(
    sections: Iterable[Section],
    *,
    title: str,
    lead: str,
    links: Iterable[tuple[str, str]] = (),
    command: str = "",
    settings: str = "",
    figures: Path | None = None,
) -> str:
    """A page of sections of no result, without examples, as HTML.

    ``links``: name and relative address of other pages. ``command`` repeats the work with ``settings``, which is YAML;
    both are "" for neither. ``figures``: as of :func:`make_page`.
    """
    about: dict[str, Any] = {"title": title, "lead": lead, "links": list(links)}
    about |= {"command": command, "settings": settings, "sections": list(_sections(None, figures, sections))}
    return _render("plain.html", version=version("caption-judge"), **about)


def _render(template: str, css: str = "", **values: Any) -> str:
    """A page of one of our templates, whose policy allows our own script alone; ``css``: more rules."""
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    files = resources.files("judge.report") / "templates"
    own, script = ((files / name).read_text(encoding="utf-8") for name in ("report.css", "report.js"))
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    loader = PackageLoader("judge.report")
    templates = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    templates.filters["whole_intervals"] = lambda cell: re.sub(r", (?=[^\[]*\])", ",\xa0", cell)
    # Safe: files of this package, and images as base64.
    safe = {"css": Markup(own + css), "script": Markup(script), "script_hash": f"sha256-{digest}"}  # noqa: S704
    return templates.get_template(template).render(**safe, **values)


def _lead(result: Result) -> str:
    run = result.run
    images = span(sum(entry["images"].values()) for entry in run["captioners"].values())
    metrics = len({row.metric for row in result.summaries})
    line = f"{how_many(len(run['captioners']), 'captioner')}, {how_many(metrics, 'metric')}, {images} images. "
    line += f"Attribute: {run['attribute']}, as perceived."
    valued = {row.metric.amplification for row in result.summaries if row.amplification is not None}
    meaning = _ABOVE_CHANCE if valued == {"one_side"} else _POSITIVE
    return f"{line} {meaning}" if valued else line


def _sections(result: Any, folder: Path | None, sections: Iterable[Section] = SECTIONS) -> Iterator[dict[str, Any]]:
    """The sections that have content, as the template shows them."""
    taken: set[str] = set()
    for section in sections:
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
        tables = [[one for one in section.tables(result, verbose) if one.rows] for verbose in (False, True)]
        brief = [one.shown() for one in tables[0]]
        content = {
            "figures": figures,
            "tables": tables[0],
            "whole": [one for one in tables[1] if one.shown() not in brief],
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


class Word(NamedTuple):
    """A word as judges read it, or what hides a word of the attribute or of a task, or one that the captioner lacks."""

    text: str
    hidden: bool
    unknown: bool
    value: float | None  # What it adds to the log-odds of the true class; None where that is not known.
    share: float | None  # How strongly it is shaded, in [-1, 1]; None for not at all.


def example_cards(result: Result, pictures: Mapping[str, bytes], *, names: bool) -> dict[str, Any] | None:
    """The examples of a result, as the template of the page reads them; None where it has none.

    The entry "cards" has one for each image of a row: "contribution" to the row's value; "difference": mean probability
    of the truth from the captioner's captions less that from human ones, 0 where no judge answered; "picture": CSS
    class of the image, "" where it is not shown. ``names``: whether ids of images are shown.
    """
    table = result.examples
    if not len(table):
        return None
    table = table.assign(places=table["places"].fillna("") if "places" in table else "")  # Earlier runs have none.
    images = [image for image in table["image_id"].unique() if image in pictures]
    known = {image: f"pic{number}" for number, image in enumerate(images)}
    largest = {metric: _strong(texts.unique()) for metric, texts in table.groupby("metric", observed=True)["words"]}
    # A rule for each image, so that one that several rows show is there once.
    rules = [
        f".{name}{{--image:{_url(pictures[image], 'jpeg')};background-image:var(--image)}}"
        for image, name in known.items()
    ]
    cards, maps = [], 0
    for _, rows in table.groupby(CARD, sort=False, observed=True):
        card = _card(rows.to_dict("records"), largest[rows["metric"].iloc[0]])
        card["picture"] = known.get(card["image_id"], "")
        added = _read_places(rows["places"].iloc[0])
        if card["picture"] and added.size:
            maps += 1
            card["picture"] += f" map{maps}"
            drawn, white = (_url(layer, "png") for layer in _draw_places(added))
            rules.append(f".map{maps}{{background-image:{drawn},var(--image),{white};{_GREY}}}")
        cards.append(card if names else card | {"image_id": ""})
    return {
        "cards": cards,
        "captioners": list(dict.fromkeys(card["captioner"] for card in cards)),
        "rows": list(dict.fromkeys(card["title"] for card in cards)),
        "classes": sorted({card["class_"] for card in cards}),
        "tasks": sorted({task for card in cards for task in card["tasks"]}),
        "note": " ".join(
            note for note, holds in [(_HIDDEN, known), (_SHADING, table["words"].any()), (_PLACES, maps)] if holds
        ),
        "css": "".join(rules),
    }


def _url(data: bytes, kind: str) -> str:
    return f"url(data:image/{kind};base64,{base64.b64encode(data).decode()})"


def _read_places(text: str) -> FloatArray:
    """The map of an image (:mod:`judge.measure.places`), [g, k]; [0, 0] without one."""
    rows, columns, *values = map(float, text.split() or ["0", "0"])
    return np.reshape(np.array(values), (int(rows), int(columns)))


def _draw_places(added: FloatArray) -> tuple[bytes, bytes]:
    """A map as a transparent PNG, and a white one of the same size."""
    from matplotlib import image

    strength = np.clip(added / (np.quantile(np.abs(added), 0.98) or 1), -1, 1)
    colours = np.where(strength[..., None] > 0, FOR, AGAINST) / 255
    shown = np.concatenate([colours, _OPAQUE * np.abs(strength)[..., None]], axis=-1)
    buffers = io.BytesIO(), io.BytesIO()
    for buffer, layer in zip(buffers, (shown, np.ones_like(shown)), strict=True):
        image.imsave(buffer, layer.repeat(_FINE, axis=0).repeat(_FINE, axis=1), format="png")
    return buffers[0].getvalue(), buffers[1].getvalue()


def _strong(texts: Iterable[str]) -> float:
    """The contribution of a word that has the strongest shade: few words of a metric exceed it."""
    sizes = [abs(float(value)) for text in texts for value in text.split()]
    return float(np.quantile(sizes, 0.98, method="lower")) if sizes else 0.0


def _first_cards(cards: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Of each captioner three cards: those that tell most beyond what is known, where that was measured.

    Otherwise, by its first row, the image that adds most, that which takes most away, and one at random.
    """
    found = list[Mapping[str, Any]]()
    for every in grouped((card["captioner"], card) for card in cards).values():
        first = next((card["title"] for card in every if card["given"]), every[0]["title"])
        own = [card for card in every if card["title"] == first]
        kinds = {card["chosen"]: card for card in reversed(own)}
        most = [card for card in own if card["chosen"] == "adds"][: len(CHOSEN)]
        found += most if own[0]["given"] else [kinds[kind] for kind in CHOSEN if kind in kinds]
    return found


def _reading(human: Sequence[Mapping[str, Any]], generated: Sequence[Mapping[str, Any]], *, given: bool) -> str:
    """A sentence on what the judge guessed from the captioner's words, and from which; "" where no judge answered."""
    if not generated:
        return ""
    found = generated[0]
    source = "what is known and the captioner's words" if given else "the captioner's words"
    line = f"From {source} the judge gives {found['answer']} a probability of {found['probability']:.2f}"
    if human:
        mean = fmean(of["probability"] for of in human)
        line += f", {'with' if given else 'from'} people's words {'instead ' * given}{mean:.2f}"
    valued = [word for word in found["read"] if word.value and not word.hidden]
    valued = sorted(valued, key=lambda word: -abs(word.value))[:_MOST_WORDS]
    signs = {"for": 1, "against": -1}
    parts = {what: [f"“{of.text}”" for of in valued if of.value * sign > 0] for what, sign in signs.items()}
    said = [f"{some(words)} speak{'s' * (len(words) == 1)} {what} it" for what, words in parts.items() if words]
    return f"{line}: {' and '.join(said)}." if said else f"{line}."


def _card(rows: Sequence[Mapping[Any, Any]], largest: float) -> dict[str, Any]:
    """The captions of an image; human ones first."""
    first = rows[0]
    value, given = float(first["contribution"]), bool(find_metric(first["metric"]).given)
    captions = [_caption(row, largest) for row in rows]
    answered = [of for of in captions if of["probability"] is not None]
    human, generated = ([of for of in answered if of["side"] == side] for side in _WHO)
    means = [fmean(of["probability"] for of in side) for side in (human, generated) if side]
    # Two significant digits, without an exponent: 0.0045.
    amount = f"{abs(value):.{max(0, 1 - math.floor(math.log10(abs(value)))) if value else 1}f}"
    return {
        "captioner": str(first["captioner"]),
        "title": name_row(find_metric(first["metric"]), str(first["judge"])),
        "what": _WHAT[first["chosen"]].format(verb="takes away" if value < 0 else "adds", amount=amount),
        "chosen": first["chosen"],
        "given": given,
        "contribution": value,
        "difference": means[1] - means[0] if len(means) == 2 else 0.0,
        "class_": str(first["class"]),
        "tasks": [name for name in str(first["tasks"]).split("|") if name],
        "image_id": str(first["image_id"]),
        "captions": captions,
        "reading": _reading(human, generated, given=given),
    }


def _caption(row: Mapping[Any, Any], largest: float) -> dict[str, Any]:
    return {
        "side": row["side"],
        "who": _WHO[row["side"]],
        "text": str(row["caption"]),
        "read": list(_words(str(row["read"]).split(), list(map(float, str(row["words"]).split())), largest)),
        "probability": None if math.isnan(row["probability"]) else float(row["probability"]),
        "answer": "its tasks" if find_metric(row["metric"]).target == "tasks" else str(row["class"]),
    }


def _words(words: Sequence[str], amounts: Sequence[float], largest: float) -> Iterator[Word]:
    """Words as judges read them, shaded by what they add; ``largest`` has the strongest shade."""
    for place, word in enumerate(words):
        value = amounts[place] if len(amounts) == len(words) else None
        share = max(-1.0, min(1.0, value / largest)) if value and largest else None
        yield Word(word, is_special(word), word == UNKNOWN, value, share)
