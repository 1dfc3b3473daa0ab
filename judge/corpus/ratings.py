"""Rating sheets that come back: whose answers, to which items; faults in one line."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from judge.corpus.columns import columns_of
from judge.corpus.files import read_document
from judge.corpus.rating_sheet import ITEM, RATER, Item, Question, Sheet, plain
from judge.corpus.records import Row, records
from judge.errors import JudgeError, nearest
from judge.types import IntArray
from judge.utils.cells import unguard

_NAME = re.compile(r"(s[0-9a-f]{8})-[0-9]+")


@dataclass(frozen=True, slots=True)
class Ratings:
    """The answers of several raters to one sheet.

    Attributes:
        sheet: what was rated.
        answers: question -> item -> rater -> answer; of what was not answered there is none.
        raters: in order of appearance.
    """

    sheet: Sheet
    answers: Mapping[str, Mapping[str, Mapping[str, str]]]
    raters: tuple[str, ...]

    def votes(self, question: Question) -> IntArray:
        """How many raters gave each answer to each item, [items, choices], as the sheet has both."""
        found = self.answers[question.name]
        counted = (Counter(found.get(item.name, {}).values()) for item in self.sheet.items)
        rows = [[votes[choice] for choice in question.choices] for votes in counted]
        return np.array(rows, dtype=np.int64).reshape(len(rows), len(question.choices))

    def majority(self, question: Question) -> dict[str, str | None]:
        """Item -> the answer that more raters gave than any other, None for a tie; items without answers are absent."""
        found: dict[str, str | None] = {}
        for item, votes in zip(self.sheet.items, self.votes(question).tolist(), strict=True):
            best = [choice for choice, count in zip(question.choices, votes, strict=True) if count == max(votes)]
            if max(votes):
                found[item.name] = best[0] if len(best) == 1 else None
        return found


def read_ratings(paths: Sequence[str | os.PathLike[str]], sheet: Sheet) -> Ratings:
    """Read sheets that raters filled in: tables of the sheet's columns, in any order, recognised by content.

    The rater is the cell of the column ``rater``, or the file's name where that is empty. An empty answer is none: a
    rater may leave items out, or send several files that do not overlap.

    Raises:
        JudgeError: a file that cannot be read; columns absent; an item of another sheet, or of none; a caption that is
            not the item's; an answer that was not to choose from, or to a question that was not asked; an item rated
            twice by one rater; a file without any answer.
    """
    items = {item.name: item for item in sheet.items}
    answers: dict[str, dict[str, dict[str, str]]] = {question.name: {} for question in sheet.questions}
    raters: dict[str, None] = {}
    for path in paths:
        source, rows = _rows(path, sheet)
        given = 0
        for number, row in enumerate(rows, 1):
            where = f"{source}, record {number}"
            item = _item(row, items, sheet, where)
            rater = row[RATER] or Path(path).stem
            for question, answer in _answered(row, sheet.questions, where):
                of_item = answers[question].setdefault(item.name, {})
                if rater in of_item:
                    what = f"'{rater}' rated item '{item.name}' twice"
                    raise JudgeError(what, where=where, mend="keep one of the two, or name two raters")
                of_item[rater] = answer
                raters[rater] = None
                given += 1
        if not given:
            raise JudgeError("holds no answer", where=source, mend="fill it in, or leave it out")
    return Ratings(sheet, answers, tuple(raters))


def _rows(path: str | os.PathLike[str], sheet: Sheet) -> tuple[str, list[dict[str, str]]]:
    """The file's name, and its rows: column of the sheet -> cell; those of absent columns are empty."""
    document = read_document(path)
    rows = records(document.value, source=document.source, shapes="give the CSV file that the rating page saves")
    columns = {unguard(name.strip()).casefold(): name for name in columns_of(rows)}
    needed = [ITEM, *(question.name for question in sheet.questions)]
    if missing := [name for name in needed if name.casefold() not in columns]:
        names = ", ".join(f"'{name[:40]}'" for name in list(columns.values())[:20])
        what = f"no column '{missing[0]}' among {names}"
        raise JudgeError(what, where=document.source, mend="give a sheet that was filled in, with all of its columns")
    return document.source, [{name: _cell(row, columns.get(name.casefold())) for name in sheet.columns} for row in rows]


def _cell(row: Row, column: str | None) -> str:
    value = "" if column is None else row.get(column)
    return "" if value is None else unguard(str(value).strip())


def _item(row: Mapping[str, str], items: Mapping[str, Item], sheet: Sheet, where: str) -> Item:
    name = row[ITEM]
    if name not in items:
        found = _NAME.fullmatch(name)
        if found and found[1] != sheet.name:
            what = f"item '{name}' is of another sheet ({found[1]}); these captions make {sheet.name}"
            mend = "give the captions, --sample and --seed that its sheet was made with (its anonymous.yaml has them)"
            raise JudgeError(what, where=where, mend=mend)
        raise JudgeError(f"no item '{name}' on this sheet", where=where, mend="leave the column 'item' as it was")
    text = plain(row[sheet.heading]) if sheet.heading else ""
    # Rows that were sorted without their captions give every answer to another caption.
    if text and text != items[name].text:
        what = f"the {sheet.heading} is not that of item '{name}'"
        raise JudgeError(what, where=where, mend="sort whole rows, and leave the texts as they were")
    return items[name]


def _answered(row: Mapping[str, str], questions: Sequence[Question], where: str) -> Iterator[tuple[str, str]]:
    """Name of each question that has an answer, and the answer as the sheet spells it."""
    given: dict[str, str] = {}
    for question in questions:
        cell = row[question.name]
        if not cell:
            continue
        spelt = {choice.casefold(): choice for choice in question.choices}
        if cell.casefold() not in spelt:
            what = f"unknown answer '{cell[:60]}'"
            mend = nearest(cell, list(question.choices))
            raise JudgeError(what, where=f"{where}, field '{question.name}'", mend=mend)
        if question.after and given.get(question.after[0]) != question.after[1]:
            what = f"answered, though '{question.after[0]}' is not '{question.after[1]}'"
            raise JudgeError(what, where=f"{where}, field '{question.name}'", mend="empty one, or mend the other")
        given[question.name] = spelt[cell.casefold()]
        yield question.name, given[question.name]
