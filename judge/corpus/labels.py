"""Which class of the attribute each image has: read from a table, or derived from what people said."""

from __future__ import annotations

import math
import os
import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from judge.corpus.columns import find_column, wanted_columns
from judge.corpus.columns import id_column as column_of_ids
from judge.corpus.entries import MISSING, Entry, chosen_rows, image_id, mapping_entries, records, row_entries
from judge.corpus.files import Document, read_document, table_in_memory
from judge.corpus.ids import kind_of
from judge.errors import JudgeError, nearest
from judge.text.lexicon import Lexicon, shipped_lexicons
from judge.types import Labels

if TYPE_CHECKING:
    import pandas as pd

# Values that say "no class", as ``says_no_class`` compares them. "Other" and "mixed" are not among them: in published
# tables they are classes of race.
_NO_CLASS = {
    "", "both", "unsure", "notsure", "uncertain", "unknown", "unk", "unclear", "undetermined", "indeterminate",
    "unidentified", "ambiguous", "neutral", "cannottell", "canttell", "cannotsay", "cantsay", "cannotdetermine",
    "cannotbedetermined", "dontknow", "notknown", "notclear", "notvisible", "unspecified", "notspecified", "unlabeled",
    "unlabelled", "undefined", "missing", "na", "nan", "none", "null", "notapplicable", "notavailable", "idontknow",
    "donotknow", "prefernottosay", "unabletotell", "unabletodetermine", "nolabel", "noconsensus", "undecided",
    "unidentifiable", "genderneutral", "noanswer", "noclass", "notclassifiable", "unclassified",
}  # fmt: skip
# The images, and the share of them, from which labels that repeat what human captions name are called derived.
_MANY, _REPEATED = 100, 0.995
_CODE = re.compile(r"[-+]?[0-9]+(?:\.[0-9]+)?")
_SHAPES = "give a table, a list of records or {image: label}"
Rule = Literal["one", "majority"]
LabelTable: TypeAlias = "Mapping[Any, object] | Sequence[Mapping[str, object]] | pd.Series | pd.DataFrame"
"""Labels in memory: image -> class, records, or a table of pandas; the index of a series holds the images."""


@dataclass(frozen=True, slots=True)
class LabelOptions:
    """How a table of labels is read.

    Attributes:
        rule: of an image with several labels: "one", it is an error if they differ; "majority", its class is the most
            frequent one. A value that says "no class" is a vote like any other. An image of which no class is the most
            frequent value is left out and counted.
        where: keep the records of a table whose columns hold these texts; a table without such a column is taken whole.
        drop: further values that say that an image has no class, compared without case.
        alone: whether the file has no labels of another attribute: a column "label" or "class" could be of either.
    """

    rule: Rule = "one"
    where: Mapping[str, str] = field(default_factory=dict)
    drop: tuple[str, ...] = ()
    alone: bool = True


DEFAULT_OPTIONS = LabelOptions()


class _Said(NamedTuple):
    """A record: its image, its class (None where it says that there is none), what it says, and which it is."""

    image: str
    label: str | None
    value: str
    at: str


@dataclass(frozen=True, slots=True)
class _Meanings:
    """What the values of a table mean; where the user has named all classes (``closed``), others mean no class."""

    #: Value in lower case -> its class, or None for no class. Without a lexicon it grows as values are met.
    spelled: dict[str, str | None]
    lexicon: Lexicon | None
    closed: bool

    def class_of(self, value: str, where: str) -> str | None:
        """The class of ``value``; None where it says that there is none.

        Raises:
            JudgeError: a number or an unknown value.
        """
        key = value.lower()
        if key not in self.spelled:
            shown, known = value[:60], sorted(self.lexicon.classes) if self.lexicon else []
            if self.closed or says_no_class(value):
                return None
            if _CODE.fullmatch(value):
                what = f"label is the number {shown}, and published tables disagree on what numbers mean"
                of = f" (CLASS: {' or '.join(known)})" if known else ""
                mend = f"look up what the table's numbers mean, and say it of each: --label-value CLASS={shown}{of}"
                raise JudgeError(what, where=where, mend=mend)
            if known:
                mend = f"known classes: {', '.join(known)}; mend it, or say which it is: --label-value CLASS={shown}"
                mend += f", or that it is none: --label-drop {shown}"
                raise JudgeError(f"unknown label '{shown}'", where=where, mend=mend)
            self.spelled[key] = value
        return self.spelled[key]


def says_no_class(value: str) -> bool:
    """Whether a value means "no class" ("Unsure", "n/a", "?"), compared without case, punctuation and white space."""
    letters = unicodedata.normalize("NFKC", value).casefold()
    return "".join(one for one in letters if unicodedata.category(one)[0] not in "PZ" and one not in "<>|") in _NO_CLASS


def read_labels(
    path: str | os.PathLike[str] | LabelTable,
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
    the like mean "no class": they leave the image out (:func:`says_no_class`). Where ``spellings`` names all classes
    (of the lexicon; without one two or more), every other value means "no class" too. Numbers are refused unless
    ``spellings`` says which class they mean: published tables disagree on whether 0 is male.

    Args:
        path: CSV, TSV, JSON, JSON lines, Parquet, Excel, one of LIC's pickles, or a table in memory.
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
    if isinstance(path, str | os.PathLike):
        document = read_document(path, wanted=wanted_columns(*tiers, chosen=(id_column, label_column, *options.where)))
    else:
        document = table_in_memory(path, "labels in memory")
    meanings = _meanings(spellings or {}, lexicon, options.drop, document.source)
    column, entries = _entries(document, attribute, tiers, (id_column, label_column), options)
    said = list(_said(entries, meanings, document.source, column))
    found, votes = _voted(said) if options.rule == "majority" else (_agreed(said, document.source), {})
    labels = {image: one.label for image, one in found.items() if one.label is not None}
    ignored = Counter(one.value for one in found.values() if one.label is None)
    if not labels:
        values = ", ".join(f"'{value}' {count}x" for value, count in ignored.most_common(5))
        values = values or f"{votes.get('ties', 0)} ties"
        what = f"no image has a label of {attribute} ({values})"
        mend = "check the column, or name the classes: --label-value CLASS=VALUE"
        raise JudgeError(what, where=document.source, mend=mend)
    _refuse_unmet(spellings or {}, options.drop, {one.value.lower() for one in said}, document.source)
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
    meant = {**({} if lexicon else known), **(spellings or {})}
    meanings = _meanings(meant, lexicon, options.drop, document.source)
    if isinstance(document.value, dict):
        what, mend = "has no column of labels", "give a table with a label for each caption, or leave it out"
        raise JudgeError(what, where=f"--own-captions with {document.source}", mend=mend)
    tiers = label_columns(labels.attribute, alone=options.alone)
    column, entries = _entries(document, labels.attribute, tiers, columns, options)
    kept, others = set(), 0
    for one in _said(entries, meanings, document.source, column):
        if one.label is not None and labels.by_image.get(one.image) == one.label:
            kept.add(one.at)
        elif one.image in labels.by_image:
            others += 1
    if not kept:
        what = f"no caption has the {labels.attribute} of its image"
        raise JudgeError(what, where=document.source, mend="check the columns, or leave out --own-captions")
    votes = {**labels.votes, "own captions": len(kept), "other captions": others}
    return frozenset(kept), replace(labels, votes=votes)


def _said(entries: Iterable[Entry], meanings: _Meanings, source: str, column: str) -> Iterator[_Said]:
    for entry in entries:
        image, where = image_id(entry.image, f"{source}, {entry.at}"), f"{source}, {entry.at}"
        where += f", field '{column}'" if column else ""
        value = _text(entry.value, where)
        yield _Said(image, meanings.class_of(value, where), value, entry.at)


def _agreed(said: Iterable[_Said], source: str) -> dict[str, _Said]:
    """Image -> its first record, whose class all of its records have."""
    first: dict[str, _Said] = {}
    for one in said:
        before = first.setdefault(one.image, one)
        if before.label != one.label:
            here, there = (of.label or of.value or "empty" for of in (one, before))
            what = f"image '{one.image}' is '{here}' here and '{there}' in {before.at}"
            mend = "keep one of the two, or have them vote with --label-rule majority"
            raise JudgeError(what, where=f"{source}, {one.at}", mend=mend)
    return first


def _voted(said: Collection[_Said]) -> tuple[dict[str, _Said], dict[str, int]]:
    """Image -> a record of its most frequent class, where one is; and :attr:`judge.types.Labels.votes`."""
    by_image: dict[str, list[_Said]] = {}
    for one in said:
        by_image.setdefault(one.image, []).append(one)
    found: dict[str, _Said] = {}
    unanimous = 0
    for image, of in by_image.items():
        (label, most), *others = Counter(one.label for one in of).most_common(2)
        if not others or others[0][1] < most:
            found[image] = next(one for one in of if one.label == label)
            unanimous += label is not None and not others
    decided = sum(one.label is not None for one in found.values()) - unanimous
    ties = len(by_image) - len(found)
    return found, {"labels": len(said), "unanimous": unanimous, "decided": decided, "ties": ties}


def derive_labels(
    mentions: Mapping[str, Sequence[frozenset[str]]], *, attribute: str, classes: Iterable[str], least: int = 1
) -> Labels:
    """Labels out of human captions: class k where captions mention k and no caption mentions another class.

    Args:
        mentions: image id -> for each of its human captions, the classes that it names.
        attribute: its name.
        classes: all classes of the attribute.
        least: how many captions of the image must mention the class.

    Returns:
        Labels with ``derived`` set; ``ignored`` counts the images that name no class, those that name several, and
        those of which fewer than ``least`` captions name one.

    Source: the rule that made ``gender.csv`` of the shared COCO captions; with the lexicon "gender" it gives the
    same 3,597 labels.
    """
    ordered = tuple(sorted(classes))
    labels: dict[str, str] = {}
    ignored: Counter[str] = Counter()
    for image, captions in mentions.items():
        named = Counter(name for caption in captions for name in caption if name in ordered)
        if len(named) != 1:
            ignored["several classes named" if named else "no class named"] += 1
        elif named.total() < least:
            ignored[f"a class named by fewer than {least} captions"] += 1
        else:
            labels[image] = next(iter(named))
    some, mention = ("one", "mentions") if least == 1 else (str(least), "mention")
    rule = (
        f"derived: an image has class k of {attribute} when at least {some} of its human captions {mention} a word of "
        "k and none mentions a word of another class"
    )
    return Labels(attribute, ordered, labels, source=rule, derived=True, ignored=dict(ignored))


def compare_labels(labels: Labels, mentions: Mapping[str, Sequence[frozenset[str]]]) -> Labels:
    """Given labels beside what human captions name; ``derived`` where they only repeat it, whichever rule made them.

    Args:
        labels: that were given.
        mentions: as of :func:`derive_labels`.

    Returns:
        ``labels`` with their ``agreement``: "images" whose captions name exactly one class; the share of these that
        "agree", and Cohen's "kappa" (None where chance alone agrees in all); "repeats", the share of all labelled
        images that have the class which their captions name most often. From 99.5% of 100 images on they are derived.
    """
    compared = sorted(labels.by_image.keys() & mentions.keys())
    named = {image: Counter(name for one in mentions[image] for name in one) for image in compared}
    pairs = [(labels.by_image[image], *named[image]) for image in compared if len(named[image]) == 1]
    repeated = sum(0 < named[image][labels.by_image[image]] == max(named[image].values()) for image in compared)
    repeats = repeated / max(1, len(compared))
    agree = sum(label == name for label, name in pairs) / max(1, len(pairs))
    agreement = {"images": len(pairs), "agree": agree, "kappa": _kappa(pairs), "repeats": repeats}
    return replace(labels, agreement=agreement, derived=len(compared) >= _MANY and repeats >= _REPEATED)


def _kappa(pairs: Sequence[tuple[str, ...]]) -> float | None:
    """Cohen's kappa (1960) of two classifications of the same images; None where one of them knows one class alone."""
    first, second = (Counter(pair[part] for pair in pairs) for part in (0, 1))
    total, agreed = len(pairs), sum(one == other for one, other in pairs)
    chance = sum(first[name] * second[name] for name in first)
    return (agreed * total - chance) / (total**2 - chance) if min(len(first), len(second)) > 1 else None


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


def _meanings(
    extra: Mapping[str, Sequence[str]], lexicon: Lexicon | None, drop: Iterable[str], source: str
) -> _Meanings:
    """What values mean by the lexicon, by what the user says of classes (``extra``), and by what the user drops."""
    spelled: dict[str, str | None] = {_text(value, source).lower(): None for value in drop}
    given: list[tuple[str, str]] = []
    if lexicon is not None:
        known = [(word, name) for name in lexicon.classes for word in (name, *lexicon.spellings.get(name, ()))]
        given += [(word, name) for word, name in known if word.lower() not in spelled]
    for name, words in extra.items():
        if lexicon is not None and name not in lexicon.classes:
            mend = nearest(name, sorted(lexicon.classes))
            raise JudgeError(f"'{name}' is no class of {lexicon.name}", where=source, mend=mend)
        given += [(name, name), *((_text(word, source), name) for word in words)]
    for word, name in given:
        if (before := spelled.setdefault(word.lower(), name)) != name:
            what = f"'{word}' is given as a spelling of '{before or 'no class'}' and of '{name}'"
            raise JudgeError(what, where=source, mend="keep one of the two")
    closed = len(extra) > 1 if lexicon is None else extra.keys() >= lexicon.classes.keys()
    return _Meanings(spelled, lexicon, closed)


def _refuse_unmet(spellings: Mapping[str, Sequence[str]], drop: Iterable[str], met: Set[str], source: str) -> None:
    """Of a class whose spellings all are absent one is misspelt, or the table is another; so of a value to drop."""
    given = [(f"a spelling of '{name[:60]}'", words) for name, words in spellings.items()]
    for role, words in [*given, *(("a value to drop", [value]) for value in drop)]:
        if words and not any(_text(word, "").lower() in met for word in words):
            what = f"no label '{words[0][:60]}', which is given as {role}"
            raise JudgeError(what, where=source, mend=f"labels there: {', '.join(sorted(met)[:8])}")
