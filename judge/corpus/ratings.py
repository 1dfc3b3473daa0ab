"""Rating sheets: captions as a CSV file that people fill in, and the ratings that come back.

Raters see neither captioner nor image id: captions are shuffled and numbered, and the key maps each number back. The
question is AnonymousBench's (Abdelrahman et al., AAAI 2024, section 5.5.1): can the class be guessed from the caption?
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from judge.corpus.columns import columns_of
from judge.corpus.files import read_document
from judge.corpus.records import records
from judge.errors import JudgeError, nearest
from judge.types import Captions, IntArray
from judge.utils.cells import rows_csv, unguard

CANNOT_TELL = "cannot tell"
ITEM, CAPTION, RATER = "item", "caption", "rater"
_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f]")


@dataclass(frozen=True, slots=True)
class Item:
    """A caption of an image, to be rated.

    Attributes:
        name: the sheet's name and a number, "s1f0c22ab-0007".
        text: the caption.
        image: image id; raters do not see it.
        captioners: captioner -> how many of its captions of the image are this text; raters do not see it.
    """

    name: str
    text: str
    image: str
    captioners: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Sheet:
    """Captions in the order in which they are rated.

    Attributes:
        name: a hash of items and answers.
        attribute: the column of the answers.
        answers: the classes, and :data:`CANNOT_TELL`.
        items: what is rated.
    """

    name: str
    attribute: str
    answers: tuple[str, ...]
    items: tuple[Item, ...]


def rating_sheet(captioners: Sequence[Captions], attribute: str, classes: Sequence[str], *, seed: int = 0) -> Sheet:
    """A sheet of captions; a text that an image has several times, by whichever captioner, is one item.

    Args:
        captioners: whose captions; their order does not matter.
        attribute: what raters guess.
        classes: its classes.
        seed: of the shuffle.
    """
    found: dict[tuple[str, str], Counter[str]] = {}
    for captions in captioners:
        for image, texts in captions.by_image.items():
            for text in texts:
                found.setdefault((image, _plain(text)), Counter())[captions.name] += 1
    order = np.random.default_rng(seed).permutation(len(found))
    keys, answers = sorted(found), (*classes, CANNOT_TELL)
    shuffled = [(*keys[place], dict(sorted(found[keys[place]].items()))) for place in order]
    content = json.dumps([shuffled, attribute, answers]).encode()
    name = "s" + hashlib.blake2b(content, digest_size=4).hexdigest()
    items = (Item(f"{name}-{number:04}", text, image, of) for number, (image, text, of) in enumerate(shuffled, 1))
    return Sheet(name, attribute, answers, tuple(items))


def _plain(text: str) -> str:
    """A text on one line, without control characters."""
    return _CONTROLS.sub("", " ".join(text.split()))


def sheet_csv(sheet: Sheet) -> str:
    """The sheet to fill in, a row for each item; guarded as :func:`~judge.utils.cells.guard` says."""
    rows = ([item.name, item.text, "", ""] for item in sheet.items)
    return rows_csv([ITEM, CAPTION, sheet.attribute, RATER], rows)


def key_csv(sheet: Sheet) -> str:
    """What each item is, a row for each captioner of it: item, image_id, captioner, captions (of this text)."""
    rows = ([item.name, item.image, *of] for item in sheet.items for of in item.captioners.items())
    return rows_csv([ITEM, "image_id", "captioner", "captions"], rows)


@dataclass(frozen=True, slots=True)
class Ratings:
    """The answers of several raters to one sheet.

    Attributes:
        sheet: what was rated.
        answers: item -> rater -> answer.
    """

    sheet: Sheet
    answers: Mapping[str, Mapping[str, str]]

    @property
    def raters(self) -> Counter[str]:
        """Rater -> items answered."""
        return Counter(rater for of in self.answers.values() for rater in of)

    def votes(self) -> IntArray:
        """How many raters gave each answer to each item, [items, answers], as the sheet has both."""
        given = [Counter(self.answers.get(item.name, {}).values()) for item in self.sheet.items]
        return np.array([[of[answer] for answer in self.sheet.answers] for of in given], dtype=np.int64)

    def majority(self) -> dict[str, str | None]:
        """Item -> the answer that more raters gave than any other, None for a tie; items without answers are absent."""
        found: dict[str, str | None] = {}
        for item, answers in self.answers.items():
            (first, most), *others = Counter(answers.values()).most_common(2)
            found[item] = None if others and others[0][1] == most else first
        return found


def read_ratings(paths: Sequence[str | os.PathLike[str]], sheet: Sheet) -> Ratings:
    """Read sheets that raters filled in: tables with the sheet's columns, in any order, recognised by content.

    The rater is the cell of the column ``rater``, or the file's name where that is empty. A rater may leave items out,
    or send several files that do not overlap.

    Raises:
        JudgeError: a file that cannot be read; a column is missing; an item of another sheet; a caption that is not the
            item's; an unknown answer; an item rated twice by one rater; a file without any answer.
    """
    items = {item.name: item for item in sheet.items}
    answers: dict[str, dict[str, str]] = {}
    for path in paths:
        document = read_document(path)
        rows = records(document.value, source=document.source, shapes="give a rating.csv that was filled in")
        columns = {unguard(name.strip()).casefold(): name for name in columns_of(rows)}
        for name in (ITEM, sheet.attribute):
            if name.casefold() not in columns:
                what = f"no column '{name}' among {', '.join(columns)[:200]}"
                raise JudgeError(what, where=document.source, mend="give a sheet that was filled in, with all columns")
        given = 0
        for number, row in enumerate(rows, 1):
            item, text, answer, rater = (
                unguard(str(row.get(columns.get(name.casefold(), "")) or "").strip())
                for name in (ITEM, CAPTION, sheet.attribute, RATER)
            )
            where = f"{document.source}, record {number}"
            _check_item(item, text, items, sheet, where)
            if not answer:
                continue
            spelled = {of.casefold(): of for of in sheet.answers}
            if answer.casefold() not in spelled:
                mend = nearest(answer, list(sheet.answers))
                raise JudgeError(f"unknown answer '{answer[:60]}'", where=where, mend=mend)
            rater = rater or Path(path).stem
            if rater in answers.setdefault(item, {}):
                what = f"'{rater}' rated item '{item}' twice"
                raise JudgeError(what, where=where, mend="keep one of the two, or name two raters")
            answers[item][rater] = spelled[answer.casefold()]
            given += 1
        if not given:
            raise JudgeError("holds no answer", where=document.source, mend="fill it in, or leave it out")
    return Ratings(sheet, answers)


def _check_item(item: str, text: str, items: Mapping[str, Item], sheet: Sheet, where: str) -> None:
    if item not in items:
        name, dash, _ = item.partition("-")
        if dash and name != sheet.name:
            what = f"item '{item[:60]}' is of another sheet; these captions make {sheet.name}"
            mend = "give the captions, --sample and --seed that its sheet was made with (its anonymous.yaml has them)"
            raise JudgeError(what, where=where, mend=mend)
        raise JudgeError(f"no item '{item[:60]}' on this sheet", where=where, mend="leave the column 'item' as it was")
    # Rows that were sorted without their captions would give every answer to another caption.
    if text and text != items[item].text:
        what = f"the caption is not that of item '{item}'"
        raise JudgeError(what, where=where, mend="sort whole rows, and leave the captions as they were")
