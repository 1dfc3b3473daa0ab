"""Examples as a page shows them: a card for every image that was chosen for a row of the table."""

from __future__ import annotations

import base64
import math
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any, NamedTuple

from judge.measure import Result
from judge.measure.examples import CARD
from judge.metrics import find_metric
from judge.statistics.summary import name_row
from judge.text.alignment import UNKNOWN, is_special

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
    "Shading: what a word adds to the log-odds of the true class (orange, underlined), or takes away (blue, dotted)."
)
_WHO = {"human": "a person wrote", "generated": "the captioner wrote"}


class Word(NamedTuple):
    """A word as judges read it.

    Attributes:
        text: the word, or what hides it.
        hidden: whether it hides a word of the attribute, or of a task.
        unknown: whether it stands for a word that the captioner lacks.
        value: what it adds to the log-odds of the true class; None where that is not known.
        share: how strongly it is shaded, in [-1, 1]; None for not at all.
    """

    text: str
    hidden: bool
    unknown: bool
    value: float | None
    share: float | None


def example_cards(result: Result, pictures: Mapping[str, bytes], *, names: bool) -> dict[str, Any] | None:
    """The examples of a result, as the template of the page reads them; None where it has none.

    The entry "cards" has one for each image of a row: "contribution" to the row's value; "difference": mean probability
    of the truth from the captioner's captions less that from human ones, 0 where no judge answered; "picture": CSS
    class of the image, "" where it is not shown. Other entries: values to filter by, a note, and the images as CSS.

    Args:
        result: with examples.
        pictures: image id -> JPEG, of some images; people are hidden in them.
        names: whether ids of images are shown.
    """
    table = result.examples
    if not len(table):
        return None
    images = [image for image in table["image_id"].unique() if image in pictures]
    known = {image: f"pic{number}" for number, image in enumerate(images)}
    # The contribution of a word that few words of the page exceed has the strongest shade.
    sizes = sorted(abs(float(value)) for text in table["words"].unique() for value in text.split())
    largest = sizes[int(0.98 * (len(sizes) - 1))] if sizes else 0.0
    cards = []
    for _, rows in table.groupby(CARD, sort=False, observed=True):
        card = _card(rows.to_dict("records"), largest)
        card["picture"] = known.get(card["image_id"], "")
        cards.append(card if names else card | {"image_id": ""})
    # A rule for each image, so that one that several rows show is there once.
    data = {name: base64.b64encode(pictures[image]).decode() for image, name in known.items()}
    rules = [f".{name}{{background-image:url(data:image/jpeg;base64,{text})}}" for name, text in data.items()]
    return {
        "cards": cards,
        "captioners": list(dict.fromkeys(card["captioner"] for card in cards)),
        "rows": list(dict.fromkeys(card["title"] for card in cards)),
        "classes": sorted({card["class_"] for card in cards}),
        "tasks": sorted({task for card in cards for task in card["tasks"]}),
        "note": " ".join([*([_HIDDEN] if known else []), *([_SHADING] if table["words"].any() else [])]),
        "css": "".join(rules),
    }


def _card(rows: Sequence[Mapping[Any, Any]], largest: float) -> dict[str, Any]:
    """The captions of an image; human ones first."""
    first = rows[0]
    value = float(first["contribution"])
    sides = [[row["probability"] for row in rows if row["side"] == side] for side in _WHO]
    known = [[probability for probability in side if not math.isnan(probability)] for side in sides]
    # Two significant digits, without an exponent: 0.0045.
    amount = f"{abs(value):.{max(0, 1 - math.floor(math.log10(abs(value)))) if value else 1}f}"
    return {
        "captioner": str(first["captioner"]),
        "title": name_row(find_metric(first["metric"]), str(first["judge"])),
        "what": _WHAT[first["chosen"]].format(verb="takes away" if value < 0 else "adds", amount=amount),
        "chosen": first["chosen"],
        "contribution": value,
        "difference": fmean(known[1]) - fmean(known[0]) if all(known) else 0.0,
        "class_": str(first["class"]),
        "tasks": [name for name in str(first["tasks"]).split("|") if name],
        "image_id": str(first["image_id"]),
        "captions": [_caption(row, largest) for row in rows],
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
