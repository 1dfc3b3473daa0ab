"""Human judgements: rating sheets, and scores of captioners that metrics are compared with.

A rating sheet is a CSV file of captions that people fill in. Raters see neither captioner nor image id: captions are
shuffled and numbered, and the key maps each number back. The question is AnonymousBench's (Abdelrahman et al., AAAI
2024, section 5.5.1): can the class be guessed from the caption?
"""

import hashlib
import json
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from judge.corpus.columns import chosen_column, columns_of
from judge.corpus.files import read_document
from judge.corpus.records import MISSING, kind_of, mapping_entries, number_of, records, row_entries
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

    ``name``: a hash of items and answers. ``attribute``: the column of the answers, which are the classes and
    :data:`CANNOT_TELL`.
    """

    name: str
    attribute: str
    answers: tuple[str, ...]
    items: tuple[Item, ...]


def rating_sheet(captioners: Sequence[Captions], attribute: str, classes: Sequence[str], *, seed: int = 0) -> Sheet:
    """A sheet of captions, on which raters guess the class of ``attribute``; the captioners' order does not matter.

    A text that an image has several times, by whichever captioner, is one item. ``seed``: the seed of the shuffle.
    """
    found: dict[tuple[str, str], Counter[str]] = {}
    for captions in captioners:
        for image, texts in captions.by_image.items():
            for text in texts:
                plain = _CONTROLS.sub("", " ".join(text.split()))  # On one line.
                found.setdefault((image, plain), Counter())[captions.name] += 1
    order = np.random.default_rng(seed).permutation(len(found))
    keys, answers = sorted(found), (*classes, CANNOT_TELL)
    shuffled = [(*keys[place], dict(sorted(found[keys[place]].items()))) for place in order]
    content = json.dumps([shuffled, attribute, answers]).encode()
    name = "s" + hashlib.blake2b(content, digest_size=4).hexdigest()
    items = (Item(f"{name}-{number:04}", text, image, of) for number, (image, text, of) in enumerate(shuffled, 1))
    return Sheet(name, attribute, answers, tuple(items))


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
    """The answers of several raters to one sheet: item -> rater -> answer."""

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

    The rater is the cell of the column ``rater``, or the file's name if that is empty. A rater may leave items out,
    or send several files that do not overlap.

    Raises:
        JudgeError: a file that cannot be read; a column is missing; an item of another sheet; a caption that is not the
            item's; an unknown answer; an item rated twice by one rater; a file without any answer.
    """
    texts = {item.name: item.text for item in sheet.items}
    spelled = {answer.casefold(): answer for answer in sheet.answers}
    answers: dict[str, dict[str, str]] = {}
    for path in paths:
        source, given = os.fspath(path), 0
        for number, (item, text, answer, rater) in enumerate(_cells(path, sheet), start=1):
            where = f"{source}, record {number}"
            if item not in texts:
                what, mend = f"no item '{item[:60]}' on this sheet", "leave the column 'item' as it was"
                if "-" in item and item.partition("-")[0] != sheet.name:
                    what = f"item '{item[:60]}' is of another sheet; these captions make {sheet.name}"
                    mend = "give the captions, --sample and --seed of its sheet (anonymous.yaml beside it has them)"
                raise JudgeError(what, where=where, mend=mend)
            # Rows that were sorted without their captions would give every answer to another caption.
            if text and text != texts[item]:
                mend = "sort whole rows, and leave the captions as they were"
                raise JudgeError(f"the caption is not that of item '{item}'", where=where, mend=mend)
            if not answer:
                continue
            if answer.casefold() not in spelled:
                mend = nearest(answer, list(sheet.answers))
                raise JudgeError(f"unknown answer '{answer[:60]}'", where=where, mend=mend)
            if rater in answers.setdefault(item, {}):
                mend = "keep one of the two, or name two raters"
                raise JudgeError(f"'{rater}' rated item '{item}' twice", where=where, mend=mend)
            answers[item][rater] = spelled[answer.casefold()]
            given += 1
        if not given:
            raise JudgeError("holds no answer", where=source, mend="fill it in, or leave it out")
    return Ratings(sheet, answers)


def _cells(path: str | os.PathLike[str], sheet: Sheet) -> Iterator[list[str]]:
    """Item, caption, answer and rater of each row; "" for an empty cell, the file's name for the rater."""
    document = read_document(path)
    rows = records(document.value, source=document.source, shapes="give a rating.csv that was filled in")
    columns = {unguard(name.strip()).casefold(): name for name in columns_of(rows)}
    names = [ITEM, CAPTION, sheet.attribute, RATER]
    if absent := [name for name in (ITEM, sheet.attribute) if name.casefold() not in columns]:
        what = f"no column '{absent[0]}' among {', '.join(columns)[:200]}"
        raise JudgeError(what, where=document.source, mend="give a sheet that was filled in, with all columns")
    for row in rows:
        cells = [unguard(str(row.get(columns.get(name.casefold(), "")) or "").strip()) for name in names]
        yield [*cells[:-1], cells[-1] or Path(path).stem]


def read_human_scores(path: str | os.PathLike[str], *, captioners: Sequence[str]) -> dict[str, float]:
    """Captioner -> human score, for the captioners of a run and others in the file.

    The file holds ``{captioner: score}``, or a table with columns "captioner" and "score". ImageCaptioner2's Table 5
    compares metrics with such scores (Abdelrahman et al., AAAI 2024).

    Raises:
        JudgeError: a file that cannot be read; columns absent; a score that is no number; a captioner with two, or
            without any.
    """
    value, source = read_document(path)
    if isinstance(value, dict):
        entries = mapping_entries(value)
    else:
        rows = records(value, source=source, shapes="write {captioner: score}")
        spelled = {column.strip().lower(): column for column in columns_of(rows)}
        columns = [chosen_column(rows, spelled.get(one, one), source=source) for one in ("captioner", "score")]
        entries = row_entries(enumerate(rows, 1), *columns)
    scores: dict[str, float] = {}
    for captioner, score, at in entries:
        where = f"{source}, {at}"
        # Programs write a name of digits as a number.
        if not isinstance(captioner, str | int | float) or not str(captioner).strip():
            raise JudgeError("names no captioner", where=where, mend="write its name")
        name = str(captioner)
        name = name if name in captioners else unguard(name)  # Our own tables guard names that look like formulas.
        if name in scores:
            raise JudgeError(f"captioner '{name}' has two scores", where=where, mend="keep one of them")
        scores[name] = _number(score, where)
    if missing := [name for name in captioners if name not in scores]:
        known = ", ".join(scores) or "none"
        raise JudgeError(f"no score of captioner '{missing[0]}' (there are: {known})", where=source, mend="add it")
    return scores


def _number(value: object, where: str) -> float:
    if (number := number_of(value)) is not None:
        return number
    shown = f"'{value}'" if isinstance(value, str) else "that is missing" if value is MISSING else kind_of(value)
    raise JudgeError(f"score {shown} is no number", where=where, mend="write it like 0.35")
