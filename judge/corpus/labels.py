"""Which class of the attribute each image has: read from a table, or derived from what people said."""

from __future__ import annotations

import math
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Literal, NamedTuple

from judge.corpus.columns import find_column, wanted_columns
from judge.corpus.columns import id_column as column_of_ids
from judge.corpus.entries import MISSING, Entry, chosen_rows, image_id, mapping_entries, records, row_entries
from judge.corpus.files import Document, read_document
from judge.corpus.ids import kind_of
from judge.errors import JudgeError, nearest
from judge.text.lexicon import Lexicon, shipped_lexicons
from judge.types import Labels

#: Values that say "no class" (compared without case); counted in ``Labels.ignored``.
IGNORED = frozenset({"", "both", "unsure", "unknown", "nan", "n/a", "na", "none", "null"})

_CODE = re.compile(r"[-+]?[0-9]+(?:\.[0-9]+)?")
_SHAPES = "give a table, a list of records or {image: label}"
Rule = Literal["one", "majority"]


@dataclass(frozen=True, slots=True)
class LabelOptions:
    """How a table of labels is read.

    Attributes:
        rule: of an image with several labels: "one", it is an error if they differ; "majority", its class is the most
            frequent one. An image without one, because two classes are the most frequent, is left out and counted.
        where: keep the records of a table whose columns hold these texts; a table without such a column is taken whole.
        alone: whether the file has no labels of another attribute: a column "label" or "class" could be of either.
    """

    rule: Rule = "one"
    where: Mapping[str, str] = field(default_factory=dict)
    alone: bool = True


DEFAULT_OPTIONS = LabelOptions()


class _Said(NamedTuple):
    """A record: its image, its class (None where it says that there is none), what it says, and which it is."""

    image: str
    label: str | None
    value: str
    at: str


def read_labels(
    path: str | os.PathLike[str],
    *,
    attribute: str = "gender",
    lexicon: Lexicon | None = None,
    id_column: str | None = None,
    label_column: str | None = None,
    spellings: Mapping[str, Sequence[str]] | None = None,
    options: LabelOptions = DEFAULT_OPTIONS,
) -> Labels:
    """Read one class per image from a table or from ``{image: label}``, in any format of :func:`read_document`.

    With a lexicon, values are its class names or their spellings ("Female", "F", "woman"), compared without case.
    Without one (skin tone, emotion), the classes are the values as first spelled. Empty values, "Both", "Unsure" and
    the like leave the image out. Numbers are refused unless ``spellings`` says which class they mean: published
    tables disagree on whether 0 is male.

    Args:
        path: CSV, TSV, JSON, JSON lines, Parquet, Excel, or one of LIC's pickles.
        attribute: names the column: "bb_gender", "gender", "gender_label", "perceived_gender", "label" or "class".
        lexicon: the attribute's classes; its words are not used.
        id_column: the column of image ids, where its name does not tell.
        label_column: the column of labels, likewise.
        spellings: class -> further spellings in this table (``{"male": ["0"]}``); they win over "Both" and the like.
        options: see :class:`LabelOptions`.

    Raises:
        JudgeError: columns absent or ambiguous; a missing or odd image id; a number or an unknown value for a label;
            one image with two labels, unless they vote; no image left. Few images of a class are no error here.
    """
    tiers = label_columns(attribute, alone=options.alone)
    document = read_document(path, wanted=wanted_columns(*tiers, chosen=(id_column, label_column, *options.where)))
    spelled = _spellings(spellings or {}, lexicon, document.source)
    column, entries = _entries(document, attribute, tiers, (id_column, label_column), options)
    ignored: Counter[str] = Counter()
    said = []
    for one in _said(entries, spelled, lexicon, document.source, column):
        if one.label is None:
            ignored[one.value] += 1
        else:
            said.append(one)
    votes: dict[str, int] = {}
    if options.rule == "one":
        labels = _agreed(said, document.source)
    else:
        labels, votes = _voted(said)
    if not labels:
        values = ", ".join(f"'{value}' {count}x" for value, count in ignored.most_common(5))
        values = values or f"{votes.get('ties', 0)} ties"
        what = f"no image has a label of {attribute} ({values})"
        raise JudgeError(what, where=document.source, mend="check the column")
    _refuse_unmet(spellings or {}, {one.value.lower() for one in said} | {value.lower() for value in ignored}, path)
    classes = sorted(lexicon.classes if lexicon is not None else {one.label for one in said if one.label is not None})
    return Labels(
        attribute, tuple(classes), labels, document.source, ignored=dict(ignored), rule=options.rule, votes=votes
    )


def choose_own(
    path: str | os.PathLike[str],
    labels: Labels,
    *,
    lexicon: Lexicon | None = None,
    columns: tuple[str | None, str | None] = (None, None),
    spellings: Mapping[str, Sequence[str]] | None = None,
    options: LabelOptions = DEFAULT_OPTIONS,
) -> tuple[frozenset[str], Labels]:
    """Of a table of captions with a label each: which records ("record 1") have the label of their image.

    Args:
        path: the table.
        labels: of the images.
        lexicon: as for :func:`read_labels`.
        columns: of image ids and of labels, where their names do not tell.
        spellings: as for :func:`read_labels`.
        options: likewise; whatever its rule.

    Returns:
        The records, and ``labels`` with their number and that of the others among its votes.

    Raises:
        JudgeError: as :func:`read_labels`; no record is left.
    """
    document = read_document(path)
    known = dict.fromkeys(labels.classes, ())
    spelled = _spellings({**({} if lexicon else known), **(spellings or {})}, lexicon, document.source)
    if isinstance(document.value, dict):
        what, mend = "has no column of labels", "give a table with a label for each caption, or leave it out"
        raise JudgeError(what, where=f"--own-captions with {document.source}", mend=mend)
    tiers = label_columns(labels.attribute, alone=options.alone)
    column, entries = _entries(document, labels.attribute, tiers, columns, options)
    kept, others = set(), 0
    for one in _said(entries, spelled, lexicon, document.source, column):
        if one.label is not None and labels.by_image.get(one.image) == one.label:
            kept.add(one.at)
        elif one.image in labels.by_image:
            others += 1
    if not kept:
        what = f"no caption has the {labels.attribute} of its image"
        raise JudgeError(what, where=document.source, mend="check the columns, or leave out --own-captions")
    votes = {**labels.votes, "own captions": len(kept), "other captions": others}
    return frozenset(kept), replace(labels, votes=votes)


def _said(
    entries: Iterable[Entry], spelled: dict[str, str], lexicon: Lexicon | None, source: str, column: str
) -> Iterator[_Said]:
    for entry in entries:
        image, where = image_id(entry.image, f"{source}, {entry.at}"), f"{source}, {entry.at}"
        where += f", field '{column}'" if column else ""
        value = _text(entry.value, where)
        yield _Said(image, _label(value, spelled, lexicon, where), value, entry.at)


def _agreed(said: Iterable[_Said], source: str) -> dict[str, str]:
    """Image -> the label that all of its records say."""
    first: dict[str, _Said] = {}
    for one in said:
        before = first.setdefault(one.image, one)
        if before.label != one.label:
            what = f"image '{one.image}' is '{one.label}' here and '{before.label}' in {before.at}"
            mend = "keep one of the two, or have them vote with --label-rule majority"
            raise JudgeError(what, where=f"{source}, {one.at}", mend=mend)
    return {image: one.label for image, one in first.items() if one.label is not None}


def _voted(said: Iterable[_Said]) -> tuple[dict[str, str], dict[str, int]]:
    """Image -> its most frequent label, where one is; and how the labels agree (:attr:`judge.types.Labels.votes`)."""
    by_image: dict[str, Counter[str]] = {}
    for one in said:
        if one.label is not None:
            by_image.setdefault(one.image, Counter())[one.label] += 1
    labels: dict[str, str] = {}
    unanimous = 0
    for image, counts in by_image.items():
        (label, most), *others = counts.most_common(2)
        if not others or others[0][1] < most:
            labels[image] = label
            unanimous += not others
    votes = {"labels": sum(counts.total() for counts in by_image.values()), "unanimous": unanimous}
    return labels, votes | {"decided": len(labels) - unanimous, "ties": len(by_image) - len(labels)}


def derive_labels(
    mentions: Mapping[str, Sequence[frozenset[str]]], *, attribute: str, classes: Iterable[str]
) -> Labels:
    """Labels out of human captions: class k where a caption mentions k and no caption mentions another class.

    Args:
        mentions: image id -> for each of its human captions, the classes that it names.
        attribute: its name.
        classes: all classes of the attribute.

    Returns:
        Labels with ``derived`` set; ``ignored`` counts the images that name no class and those that name several.

    Source: the rule that made ``gender.csv`` of the shared COCO captions; with the lexicon "gender" it gives the
    same 3,597 labels.
    """
    ordered = tuple(sorted(classes))
    labels: dict[str, str] = {}
    ignored: Counter[str] = Counter()
    for image, captions in mentions.items():
        named = frozenset[str]().union(*captions) & frozenset(ordered)
        if len(named) == 1:
            labels[image] = next(iter(named))
        else:
            ignored["several classes named" if named else "no class named"] += 1
    rule = (
        f"derived: an image has class k of {attribute} when at least one of its human captions mentions a word of k "
        "and none mentions a word of another class"
    )
    return Labels(attribute, ordered, labels, source=rule, derived=True, ignored=dict(ignored))


def _entries(
    document: Document,
    attribute: str,
    tiers: Sequence[Sequence[str]],
    columns: tuple[str | None, str | None],
    options: LabelOptions,
) -> tuple[str, Sequence[Entry]]:
    """The column of labels ("" where the file has no columns), and the records."""
    (image, label), value, source, alone = columns, document.value, document.source, options.alone
    if isinstance(value, dict):
        if not alone:
            what = f"{{image: label}} says one attribute, and {attribute} is not the only one"
            raise JudgeError(what, where=source, mend=f"give a table, or a file of each: --labels {attribute}=FILE")
        if 2 * sum(isinstance(label, dict | list) for label in value.values()) >= len(value):  # Of a few each is told.
            raise JudgeError("JSON of the wrong shape (an object)", where=source, mend=_SHAPES)
        return "", mapping_entries(value)
    rows = records(value, source=source, shapes=_SHAPES)
    image = column_of_ids(rows, image, source=source, option="--id-column")
    name, what = attribute.lower(), f"{attribute} labels"
    option = "--label-column" if alone else f"--label-column {name}"
    if attribute not in shipped_lexicons() and (meant := get_close_matches(name, shipped_lexicons(), n=1)):
        option = f"--attribute {meant[0]}, if that is meant, else with {option}"
    kept = chosen_rows(rows, options.where, source=source, needed=False)
    column = find_column(rows, tiers, label, what=what, source=source, option=option)
    return column, row_entries(rows, image, column, numbered=kept)


def label_columns(attribute: str, *, alone: bool) -> tuple[tuple[str, ...], ...]:
    """What the column of labels may be called; earlier names win."""
    name = attribute.lower()
    unnamed = (("label", "class"), ("cls",)) if alone else ()
    # Zhao et al.'s table has a column "skin" too, a list of all people's; the image's class is "bb_skin".
    return (f"bb_{name}",), (name,), (f"{name}_label", f"perceived_{name}"), *unnamed


def _text(value: object, where: str) -> str:
    """The label as a text; whole numbers lose their ".0", since pandas writes 1 as 1.0 beside an empty cell."""
    if value is None or value is MISSING or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise JudgeError(f"label is {kind_of(value)}", where=where, mend="write the name of the class")
    text = str(value).strip()
    return text.removesuffix(".0") if _CODE.fullmatch(text) else text


def _spellings(extra: Mapping[str, Sequence[str]], lexicon: Lexicon | None, source: str) -> dict[str, str]:
    """Spelling in lower case -> class. Without a lexicon, it grows as values are met."""
    given: list[tuple[str, str]] = []
    if lexicon is not None:
        for name in lexicon.classes:
            given += [(name, name), *((word, name) for word in lexicon.spellings.get(name, ()))]
    for name, words in extra.items():
        if lexicon is not None and name not in lexicon.classes:
            mend = nearest(name, sorted(lexicon.classes))
            raise JudgeError(f"'{name}' is no class of {lexicon.name}", where=source, mend=mend)
        given += [(name, name), *((_text(word, source), name) for word in words)]
    spelled: dict[str, str] = {}
    for word, name in given:
        if spelled.setdefault(word.lower(), name) != name:
            what = f"'{word}' is given as a spelling of '{spelled[word.lower()]}' and of '{name}'"
            raise JudgeError(what, where=source, mend="keep one of the two")
    return spelled


def _refuse_unmet(spellings: Mapping[str, Sequence[str]], met: Set[str], path: str | os.PathLike[str]) -> None:
    """Of a class whose spellings all are absent one is misspelt, or the table is another."""
    for name, words in spellings.items():
        if words and not any(_text(word, "").lower() in met for word in words):
            what = f"no label '{words[0][:60]}', which is given as a spelling of '{name[:60]}'"
            mend = f"labels there: {', '.join(sorted(met)[:8])}"
            raise JudgeError(what, where=os.fspath(path), mend=mend)


def _label(value: str, spelled: dict[str, str], lexicon: Lexicon | None, where: str) -> str | None:
    """The class of ``value``; None where it says that there is none."""
    key = value.lower()
    if key not in spelled:
        if key in IGNORED:
            return None
        if _CODE.fullmatch(value):
            what = f"label is the number {value[:60]}, and published tables disagree on what numbers mean"
            of = f" (CLASS: {' or '.join(sorted(lexicon.classes))})" if lexicon else ""
            mend = f"look up what the table's numbers mean, and say it of each: --label-value CLASS={value[:60]}{of}"
            raise JudgeError(what, where=where, mend=mend)
        if lexicon is not None:
            known = ", ".join(sorted(lexicon.classes))
            mend = f"known classes: {known}; mend it, or say which it is: --label-value CLASS={value[:60]}"
            raise JudgeError(f"unknown label '{value[:60]}'", where=where, mend=mend)
        spelled[key] = value
    return spelled[key]
