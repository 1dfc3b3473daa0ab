"""Sheets that people fill in: items to rate, questions about each, and the CSV file that goes out and comes back.

Raters see neither captioner nor image id: items are shuffled and numbered, and the key says what each is. One kind of
sheet serves captions (:func:`caption_sheet`) and pictures (:func:`picture_sheet`), with the two sets of questions that
AnonymousBench asks (Abdelrahman et al., AAAI 2024, section 5.5.1).
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from judge.types import Captions
from judge.utils.cells import rows_csv

CANNOT_TELL = "cannot tell"
ITEM, RATER = "item", "rater"
# Of no use to raters, and some are no part of any text file.
_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f]")


@dataclass(frozen=True, slots=True)
class Question:
    """What raters are asked about each item.

    Attributes:
        name: its column, such as "gender".
        text: the question.
        choices: the answers, two or more, all different.
        after: (name of an earlier question, its answer): asked where that was answered so; None for always.
    """

    name: str
    text: str
    choices: tuple[str, ...]
    after: tuple[str, str] | None = None

    def __post_init__(self) -> None:
        folded = {choice.casefold() for choice in self.choices}
        if len(folded) < 2 or len(folded) != len(self.choices):
            raise ValueError(f"choices {self.choices}")


@dataclass(frozen=True, slots=True)
class Item:
    """What is rated.

    Attributes:
        name: the sheet's id and a number, "s1f0c22ab-0007".
        text: a caption, or the name of a picture; "" for none.
        image: image id; raters do not see it.
        picture: JPEG, shown to raters; empty for none.
        captioners: whose caption of the image it is -> how many of its captions are this text; raters do not see it.
    """

    name: str
    text: str
    image: str
    picture: bytes = b""
    captioners: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Sheet:
    """Items in the order in which they are shown, and the questions about each.

    Attributes:
        name: id of the sheet: a hash of its items and of the answers allowed.
        items: what is rated.
        questions: what is asked about each.
        heading: the column of the items' texts, "caption"; "" for none.
    """

    name: str
    items: tuple[Item, ...]
    questions: tuple[Question, ...]
    heading: str = "caption"

    @property
    def columns(self) -> list[str]:
        """Those of the file."""
        texts = [self.heading] if self.heading else []
        return [ITEM, *texts, *(question.name for question in self.questions), RATER]


def caption_questions(attribute: str, classes: Sequence[str]) -> tuple[Question, ...]:
    """What AnonymousBench asks about a caption: can its class be guessed?"""
    text = f"Can you guess anyone's {attribute} from the caption alone?"
    return (Question(attribute, text, (*classes, CANNOT_TELL)),)


def picture_questions(attributes: Sequence[str] = ("gender", "race")) -> tuple[Question, ...]:
    """What AnonymousBench asks about a picture, before it is kept: is there a human, and anonymous?"""
    verb, named = ("is" if len(attributes) == 1 else "are"), " and ".join(attributes)
    human = Question("human", "Do you recognise a human in the picture?", ("yes", "no"))
    text = f"If yes, {verb} the {named} of the human anonymous, so that nobody can tell?"
    return human, Question("anonymous", text, ("yes", "no"), after=("human", "yes"))


def caption_sheet(captioners: Sequence[Captions], questions: Sequence[Question], *, seed: int = 0) -> Sheet:
    """A sheet of captions. A text that an image has several times, by whomever, is one item.

    Args:
        captioners: whose captions; their order does not matter.
        questions: about each.
        seed: of the shuffle.
    """
    found: dict[tuple[str, str], Counter[str]] = {}
    for captions in captioners:
        for image, texts in captions.by_image.items():
            for text in texts:
                found.setdefault((image, plain(text)), Counter())[captions.name] += 1
    items = [
        Item("", text, image, captioners=dict(sorted(found[image, text].items()))) for image, text in sorted(found)
    ]
    return _sheet(items, questions, "caption", seed)


def picture_sheet(pictures: Mapping[str, bytes], questions: Sequence[Question], *, seed: int = 0) -> Sheet:
    """A sheet of pictures, image id -> JPEG; their ids are not shown."""
    items = [Item("", "", image, picture) for image, picture in sorted(pictures.items())]
    return _sheet(items, questions, "", seed)


def plain(text: str) -> str:
    """A text as a sheet has it: one line, spaces squeezed, no control characters."""
    return _CONTROLS.sub("", " ".join(text.split()))


def _sheet(items: Sequence[Item], questions: Sequence[Question], heading: str, seed: int) -> Sheet:
    order = np.random.default_rng(seed).permutation(len(items))
    shuffled = [items[place] for place in order]
    told = [(one.image, one.text, sorted(one.captioners.items()), _digest(one.picture)) for one in shuffled]
    asked = [(question.name, question.choices, question.after) for question in questions]
    name = "s" + _digest(json.dumps([told, asked]).encode())
    width = max(4, len(str(len(items))))
    named = (
        Item(f"{name}-{number:0{width}}", one.text, one.image, one.picture, one.captioners)
        for number, one in enumerate(shuffled, 1)
    )
    return Sheet(name, tuple(named), tuple(questions), heading)


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=4).hexdigest()


def sheet_csv(sheet: Sheet) -> str:
    """The sheet as a table to fill in, a row per item; see :func:`~judge.utils.cells.guard` for what it may compute."""
    texts = [[one.text] if sheet.heading else [] for one in sheet.items]
    empty = [""] * (len(sheet.questions) + 1)
    return rows_csv(sheet.columns, ([one.name, *text, *empty] for one, text in zip(sheet.items, texts, strict=True)))


def key_csv(sheet: Sheet) -> str:
    """What each item is, a row per captioner of it: item, image_id, captioner, captions (how many it stands for)."""
    rows = [
        [one.name, one.image, captioner, str(count)]
        for one in sheet.items
        for captioner, count in (one.captioners or {"": 1}).items()
    ]
    return rows_csv([ITEM, "image_id", "captioner", "captions"], rows)
