"""Examples as a page shows them: a card for every image that was chosen for a row of the table."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, NamedTuple

import pandas as pd

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
    value: float | None = None
    share: float | None = None


@dataclass(frozen=True, slots=True)
class ExampleCaption:
    """A caption of a card: its side and author, as written and as read, and the judge's answer."""

    side: str
    who: str
    text: str
    read: tuple[Word, ...]
    probability: float | None
    answer: str


@dataclass(frozen=True, slots=True)
class ExampleCard:
    """An image of a row of the table.

    Attributes:
        captioner, title: the row.
        what: what the image adds, in words.
        chosen: why it is shown.
        contribution: to the row's value.
        difference: mean probability of the truth from the captioner's captions less that from human ones; 0 where no
            judge answered.
        class_, tasks: of the image.
        image_id: where ids are shown.
        picture: the CSS class of the image itself; "" where it is not shown.
        captions: human captions, then the captioner's.
    """

    captioner: str
    title: str
    what: str
    chosen: str
    contribution: float
    difference: float
    class_: str
    tasks: tuple[str, ...]
    image_id: str
    picture: str
    captions: tuple[ExampleCaption, ...]


@dataclass(frozen=True, slots=True)
class Examples:
    """All cards, what they can be filtered by, and image id -> the CSS class of the image."""

    cards: tuple[ExampleCard, ...]
    pictures: Mapping[str, str]
    captioners: tuple[str, ...]
    rows: tuple[str, ...]
    classes: tuple[str, ...]
    tasks: tuple[str, ...]
    shaded: bool


def example_cards(result: Result, pictures: Mapping[str, bytes], *, names: bool) -> Examples | None:
    """The cards of a result; None where it has no examples.

    Args:
        result: with examples.
        pictures: image id -> JPEG, of some images.
        names: whether ids of images are shown.
    """
    table = result.examples
    if not len(table):
        return None
    known = {
        image: f"pic{number}" for number, image in enumerate(i for i in table["image_id"].unique() if i in pictures)
    }
    cards = tuple(_cards(table, known, names=names))
    return Examples(
        cards,
        known,
        captioners=tuple(dict.fromkeys(card.captioner for card in cards)),
        rows=tuple(dict.fromkeys(card.title for card in cards)),
        classes=tuple(sorted({card.class_ for card in cards})),
        tasks=tuple(sorted({task for card in cards for task in card.tasks})),
        shaded=bool(table["words"].any()),
    )


def _cards(table: pd.DataFrame, pictures: Mapping[str, str], *, names: bool) -> Iterator[ExampleCard]:
    # The contribution of a word that few words of the page exceed has the strongest shade.
    sizes = sorted(abs(float(value)) for text in table["words"].unique() for value in text.split())
    largest = sizes[int(0.98 * (len(sizes) - 1))] if sizes else 0.0
    shown: dict[tuple[Any, ...], list[Mapping[Any, Any]]] = {}
    for row in table.to_dict("records"):
        shown.setdefault(tuple(row[name] for name in CARD), []).append(row)
    for key, rows in shown.items():
        captioner, metric, judge, chosen, _ = map(str, key)
        first, image = rows[0], str(rows[0]["image_id"])
        value = float(first["contribution"])
        sides = [
            [row["probability"] for row in rows if row["side"] == side and not math.isnan(row["probability"])]
            for side in _WHO
        ]
        yield ExampleCard(
            captioner,
            name_row(find_metric(metric), judge),
            _WHAT[chosen].format(verb="takes away" if value < 0 else "adds", amount=_amount(abs(value))),
            chosen,
            value,
            fmean(sides[1]) - fmean(sides[0]) if all(sides) else 0.0,
            str(first["class"]),
            tuple(name for name in str(first["tasks"]).split("|") if name),
            image if names else "",
            pictures.get(image, ""),
            tuple(_caption(row, largest) for row in rows),
        )


def _amount(size: float) -> str:
    """Two significant digits, without an exponent: 0.0045."""
    digits = 1 - math.floor(math.log10(size)) if size else 1
    return f"{size:.{max(0, digits)}f}"


def words_of(words: Sequence[str], amounts: Sequence[float], largest: float) -> Iterator[Word]:
    """Words as judges read them, shaded by what they add.

    Args:
        words: of a caption.
        amounts: what each adds; another number of them where that is not known.
        largest: the amount that is shaded most.
    """
    for place, word in enumerate(words):
        value = amounts[place] if len(amounts) == len(words) else None
        share = max(-1.0, min(1.0, value / largest)) if value and largest else None
        yield Word(word, is_special(word), word == UNKNOWN, value, share)


def _caption(row: Mapping[Any, Any], largest: float) -> ExampleCaption:
    read, amounts = str(row["read"]).split(), list(map(float, str(row["words"]).split()))
    words = tuple(words_of(read, amounts, largest))
    probability = None if math.isnan(row["probability"]) else float(row["probability"])
    answer = "its tasks" if find_metric(row["metric"]).target == "tasks" else str(row["class"])
    return ExampleCaption(row["side"], _WHO[row["side"]], str(row["caption"]), words, probability, answer)
