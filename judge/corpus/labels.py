"""The class of each image: read from a table, derived from human captions, and compared with them."""

from __future__ import annotations

import math
import os
import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Literal, NamedTuple, Self

import numpy as np

from judge.corpus.columns import chosen_column, columns_of_table, find_column, id_column
from judge.corpus.files import Document, Given, read_document
from judge.corpus.records import (
    MISSING,
    Entry,
    Row,
    chosen_rows,
    image_id,
    kind_of,
    mapping_entries,
    records,
    row_entries,
)
from judge.errors import JudgeError, in_python, nearest
from judge.text.lexicon import Lexicon, named_lexicons
from judge.types import Labels

# Values that mean "no class", as ``means_no_class`` compares them. "Other" and "mixed" are not among them: in published
# tables they are classes of race.
_NO_CLASS = {
    "", "both", "unsure", "notsure", "uncertain", "unknown", "unk", "unclear", "undetermined", "indeterminate",
    "unidentified", "ambiguous", "neutral", "cannottell", "canttell", "cannotsay", "cantsay", "cannotdetermine",
    "cannotbedetermined", "dontknow", "notknown", "notclear", "notvisible", "unspecified", "notspecified", "unlabeled",
    "unlabelled", "undefined", "missing", "na", "nan", "none", "null", "notapplicable", "notavailable", "idontknow",
    "donotknow", "prefernottosay", "unabletotell", "unabletodetermine", "nolabel", "noconsensus", "undecided",
    "unidentifiable", "genderneutral", "noanswer", "noclass", "notclassifiable", "unclassified",
}  # fmt: skip
# Labels of so many images, of which such a share repeats what human captions name, are called derived.
_MANY, _REPEATED = 100, 0.995
_CODE = re.compile(r"[-+]?[0-9]+(?:\.[0-9]+)?")
_SHAPES = "give a table, a list of records or {image: label}"
Rule = Literal["one", "majority"]


@dataclass(frozen=True, slots=True)
class LabelOptions:
    """How a table of labels is read.

    Attributes:
        rule: how several labels of an image become one: "one", they must be the same; "majority", the most frequent
            one counts. A value that means "no class" is a vote like any other: male, male, unsure, both is male. An
            image without a most frequent value is left out and counted.
        where: keep the records of a table whose columns hold these texts; a table without such a column is read whole.
        drop: further values that mean "no class", compared without case.
        alone: whether the file has labels of this attribute only; else a column "label" could be of any.
        id_column: the column of image ids, if it is not recognised by name.
        label_column: the column of labels, likewise.
        scene_column: the column of the scenes of counterfactual images (``Labels.scenes``); None for none.
        spellings: class -> further spellings in this table (``{"male": ["0"]}``); they win over "Both" and the like.
    """

    rule: Rule = "one"
    where: Mapping[str, str] = field(default_factory=dict)
    drop: tuple[str, ...] = ()
    alone: bool = True
    id_column: str | None = None
    label_column: str | None = None
    scene_column: str | None = None
    spellings: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def with_columns(self, columns: Mapping[str, str], attribute: str, attributes: Collection[str] = ()) -> Self:
        """With the columns that ``columns`` names, as of :class:`judge.corpus.captions.ReadOptions`.

        ``columns``: role -> column: "labels.image_id", "labels.scene", and "labels.gender" of the attribute "gender".
        ``attributes``: others, whose columns may be named too.
        """
        found = columns_of_table(columns, "labels", {"image_id", "scene", attribute, *attributes})
        scene = None if "scene" in {attribute, *attributes} else found.get("scene")
        return replace(
            self,
            id_column=found.get("image_id", self.id_column),
            label_column=found.get(attribute, self.label_column),
            scene_column=scene or self.scene_column,
        )


DEFAULT_OPTIONS = LabelOptions()


class _Label(NamedTuple):
    """A record: its image, its class (None for no class), its value, and its place."""

    image: str
    name: str | None
    value: str
    at: str

    @property
    def vote(self) -> tuple[str | None, str]:
        """All spellings of a class are one candidate; "unsure" and "both", which name none, are two."""
        return self.name, self.name or self.value.lower()


def read_labels(
    path: Given, *, attribute: str = "gender", lexicon: Lexicon | None = None, options: LabelOptions = DEFAULT_OPTIONS
) -> Labels:
    """Read one class per image from a table or from ``{image: label}``, in any format of :func:`read_document`.

    ``attribute`` names the column: "bb_gender", "gender", "gender_label", "perceived_gender", "label" or "class". With
    a ``lexicon``, values are its class names or their spellings ("Female", "F", "woman"), compared without case.
    Without one (skin tone, emotion), the classes are the values as first spelled. Empty values, "Both", "Unsure" and
    the like mean "no class" and leave the image out. If ``options.spellings`` names all classes (of the lexicon;
    without one two or more), every other value means "no class" too. Numbers are refused unless they are spellings:
    published tables disagree on whether 0 is male.

    Raises:
        JudgeError: columns absent or ambiguous; a missing or odd image id; a number or an unknown value for a label;
            one image with two labels, unless they vote; no image left. Few images of a class are no error here.
    """
    with in_python(unless=isinstance(path, str | os.PathLike)):
        document = read_document(path, memory="labels in memory")
        source = document.source
        labels = list(_labels(document, attribute, lexicon, options))
        found, votes = _most_frequent(labels) if options.rule == "majority" else (_agreed(labels, source), {})
        by_image = {image: label.name for image, label in found.items() if label.name is not None}
        ignored = Counter(label.value for label in found.values() if label.name is None)
        if not by_image:
            values = ", ".join(f"'{value}' {count}x" for value, count in ignored.most_common(5))
            what = f"no image has a label of {attribute} ({values or str(votes.get('ties', 0)) + ' ties'})"
            mend = "check the column, or name the classes: --label-value CLASS=VALUE"
            raise JudgeError(what, where=source, mend=mend)
        _refuse_absent(options, {label.value.lower() for label in labels}, source)
        classes = lexicon.classes if lexicon else {label.name for label in labels if label.name is not None}
        return Labels(
            attribute,
            tuple(sorted(classes)),
            by_image,
            source,
            ignored=dict(ignored),
            rule=options.rule,
            votes=votes,
            scenes=_scenes(document, options, by_image) if options.scene_column else {},
        )


def _scenes(document: Document, options: LabelOptions, images: Collection[str]) -> dict[str, str]:
    value, source = document
    column, found = options.scene_column or "", dict[str, str]()
    if isinstance(value, dict):
        raise JudgeError(f"has no column '{column}'", where=source, mend="give a table, with a row for each image")
    rows = records(value, source=source, shapes=_SHAPES)
    for entry in _column_entries(rows, chosen_column(rows, column, source=source), options, source):
        where = f"{source}, {entry.at}, field '{column}'"
        name, scene = image_id(entry.image, f"{source}, {entry.at}"), _text(entry.value, where)
        if name in images and found.setdefault(name, scene) != scene:
            raise JudgeError(f"image '{name}' has two scenes", where=where, mend="keep one of them")
        if name in images and not scene:
            raise JudgeError(f"image '{name}' has no scene", where=where, mend="name it, or leave out the record")
    return found


def choose_own(
    path: str | os.PathLike[str],
    labels: Labels,
    *,
    lexicon: Lexicon | None = None,
    options: LabelOptions = DEFAULT_OPTIONS,
) -> tuple[frozenset[str], Labels]:
    """The records ("record 1") of a table of labelled captions whose label is their image's, at least one.

    ``lexicon`` and ``options`` are as for :func:`read_labels`, except for the rule. Returned too: ``labels``, with the
    number of these records and of the others among its votes.
    """
    document = read_document(path)
    if isinstance(document.value, dict):
        what, mend = "has no column of labels", "give a table with a label for each caption, or leave it out"
        raise JudgeError(what, where=f"--own-captions with {document.source}", mend=mend)
    if not lexicon:
        options = replace(options, spellings={**dict.fromkeys(labels.classes, ()), **options.spellings})
    known = [label for label in _labels(document, labels.attribute, lexicon, options) if label.image in labels.by_image]
    chosen = frozenset(label.at for label in known if labels.by_image[label.image] == label.name)
    if not chosen:
        what = f"no caption has the {labels.attribute} of its image"
        raise JudgeError(what, where=document.source, mend="check the columns, or leave out --own-captions")
    votes = {**labels.votes, "own captions": len(chosen), "other captions": len(known) - len(chosen)}
    return chosen, replace(labels, votes=votes)


def label_columns(attribute: str, *, alone: bool) -> tuple[tuple[str, ...], ...]:
    """Possible names of the column of labels; earlier names win."""
    name = attribute.lower()
    unnamed = (("label", "class"), ("cls",)) if alone else ()
    # Zhao et al.'s table also has a column "skin", which lists everybody's; the image's class is "bb_skin".
    return (f"bb_{name}",), (name,), (f"{name}_label", f"perceived_{name}"), *unnamed


def _labels(document: Document, attribute: str, lexicon: Lexicon | None, options: LabelOptions) -> Iterator[_Label]:
    source = document.source
    column, entries = _entries(document, attribute, options)
    spelled = _spellings(lexicon, options, source)
    # Whether the user has named all classes, so that any other value means no class.
    closed = options.spellings.keys() >= lexicon.classes.keys() if lexicon else len(options.spellings) > 1
    suffixes: dict[str, str] = {}
    for entry in entries:
        where = f"{source}, {entry.at}"
        image = image_id(entry.image, where, suffixes)
        where += f", field '{column}'" if column else ""
        value = _text(entry.value, where)
        if (key := value.lower()) not in spelled:
            no_class = closed or means_no_class(value)
            spelled[key] = None if no_class else _new_class(value, lexicon, where)
        yield _Label(image, spelled[key], value, entry.at)


def _entries(document: Document, attribute: str, options: LabelOptions) -> tuple[str, Sequence[Entry]]:
    """The column of labels ("" for a file without columns), and the records."""
    value, source = document
    if isinstance(value, dict):
        if not options.alone:
            what = f"{{image: label}} holds one attribute, and there are others beside {attribute}"
            raise JudgeError(what, where=source, mend=f"give a table, or a file of each: --labels {attribute}=FILE")
        # If only a few values are lists or objects, each of them is a fault of its own.
        if 2 * sum(isinstance(held, dict | list) for held in value.values()) >= len(value):
            raise JudgeError("JSON of the wrong shape (an object)", where=source, mend=_SHAPES)
        return "", mapping_entries(value)
    rows = records(value, source=source, shapes=_SHAPES)
    name, what = attribute.lower(), f"{attribute} labels"
    option = f"--column labels.{attribute}"
    if attribute not in named_lexicons() and (meant := get_close_matches(name, named_lexicons(), n=1)):
        option = f"--attribute {meant[0]}, if that is meant, else with {option}"
    tiers = label_columns(attribute, alone=options.alone)
    column = find_column(rows, tiers, options.label_column, what=what, source=source, option=option)
    return column, _column_entries(rows, column, options, source)


def _column_entries(rows: Sequence[Row], column: str, options: LabelOptions, source: str) -> Sequence[Entry]:
    image = id_column(rows, options.id_column, source=source, option="--column labels.image_id")
    return row_entries(chosen_rows(rows, options.where, source=source, needed=False), image, column)


def _text(value: object, where: str) -> str:
    """The label as a text; whole numbers lose their ".0", since pandas writes 1 as 1.0 beside an empty cell."""
    if value is None or value is MISSING or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, np.generic):
        value = value.item()
    if not isinstance(value, str | int | float):
        raise JudgeError(f"label is {kind_of(value)}", where=where, mend="write the name of the class")
    text = str(value).strip()
    return text.removesuffix(".0") if _CODE.fullmatch(text) else text


def _spellings(lexicon: Lexicon | None, options: LabelOptions, source: str) -> dict[str, str | None]:
    """Value in lower case -> its class, or None for no class, from the lexicon and the user's spellings."""
    spelled: dict[str, str | None] = {_text(value, source).lower(): None for value in options.drop}
    given: list[tuple[str, str]] = []
    if lexicon is not None:
        known = [(word, name) for name in lexicon.classes for word in (name, *lexicon.spellings.get(name, ()))]
        given += [(word, name) for word, name in known if word.lower() not in spelled]
    for name, words in options.spellings.items():
        if lexicon is not None and name not in lexicon.classes:
            mend = nearest(name, sorted(lexicon.classes))
            raise JudgeError(f"'{name}' is no class of {lexicon.name}", where=source, mend=mend)
        given += [(name, name), *((_text(word, source), name) for word in words)]
    for word, name in given:
        if (before := spelled.setdefault(word.lower(), name)) != name:
            what = f"'{word}' is given as a spelling of '{before or 'no class'}' and of '{name}'"
            raise JudgeError(what, where=source, mend="keep one of the two")
    return spelled


def _new_class(value: str, lexicon: Lexicon | None, where: str) -> str:
    """A value that nobody has spelled, as a class; neither a number nor any value beside a lexicon's can be one."""
    known, short = sorted(lexicon.classes) if lexicon else [], value[:60]
    if _CODE.fullmatch(value) or value in {"True", "False"}:
        number = "the number " if _CODE.fullmatch(value) else ""
        what = f"label is {number}{short}, and published tables disagree on what numbers mean"
        mend = f"look up what the table's numbers mean, and name the class of each: --label-value CLASS={short}"
        raise JudgeError(what, where=where, mend=mend + (f" (CLASS: {' or '.join(known)})" if known else ""))
    if known:
        mend = f"known classes: {', '.join(known)}; correct it, or name its class: --label-value CLASS={short}"
        raise JudgeError(f"unknown label '{short}'", where=where, mend=f"{mend}, or drop it: --label-drop {short}")
    return value


def means_no_class(value: str) -> bool:
    """Whether a value means "no class" ("Unsure", "n/a", "?"), compared without case, punctuation and white space."""
    letters = unicodedata.normalize("NFKC", value).casefold()
    return "".join(one for one in letters if unicodedata.category(one)[0] not in "PZ" and one not in "<>|") in _NO_CLASS


def _refuse_absent(options: LabelOptions, values: Collection[str], source: str) -> None:
    """If none of a class's spellings occurs, one is misspelt or the table is wrong; likewise a value to drop."""
    given = [(f"a spelling of '{name[:60]}'", words) for name, words in options.spellings.items()]
    for role, words in [*given, *(("a value to drop", [value]) for value in options.drop)]:
        if words and not any(_text(word, "").lower() in values for word in words):
            what = f"no label '{_text(words[0], source)[:60]}', which is given as {role}"
            raise JudgeError(what, where=source, mend=f"labels there: {', '.join(sorted(values)[:8])}")


def _agreed(labels: Iterable[_Label], source: str) -> dict[str, _Label]:
    """Image -> its first record, whose class all of its records have."""
    first: dict[str, _Label] = {}
    for label in labels:
        before = first.setdefault(label.image, label)
        if before.name != label.name:
            here, there = (of.name or of.value or "empty" for of in (label, before))
            what = f"image '{label.image}' is '{here}' here and '{there}' in {before.at}"
            mend = "keep one of the two, or have them vote with --label-rule majority"
            raise JudgeError(what, where=f"{source}, {label.at}", mend=mend)
    return first


def _most_frequent(labels: Collection[_Label]) -> tuple[dict[str, _Label], dict[str, int]]:
    """Image -> a record of its most frequent value, if there is one; and :attr:`judge.types.Labels.votes`."""
    by_image: dict[str, list[_Label]] = {}
    for label in labels:
        by_image.setdefault(label.image, []).append(label)
    found: dict[str, _Label] = {}
    unanimous = 0
    for image, of in by_image.items():
        (vote, most), *others = Counter(label.vote for label in of).most_common(2)
        if not others or others[0][1] < most:
            found[image] = next(label for label in of if label.vote == vote)
            unanimous += found[image].name is not None and not others
    decided = sum(label.name is not None for label in found.values()) - unanimous
    ties = len(by_image) - len(found)
    return found, {"labels": len(labels), "unanimous": unanimous, "decided": decided, "ties": ties}


def derive_labels(
    mentions: Mapping[str, Sequence[frozenset[str]]], *, attribute: str, classes: Iterable[str], least: int = 1
) -> Labels:
    """Labels derived from human captions: class k if captions mention k and none mentions another class.

    ``mentions``: image id -> for each of its human captions, the classes that it names. At least ``least`` captions
    must mention the class; images with fewer are counted in ``ignored``, as are those that name no class or several.

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
    some = "one of its human captions mentions" if least == 1 else f"{least} of its human captions mention"
    rule = f"derived: an image has class k of {attribute} when at least {some} a word of k and none mentions a word of"
    return Labels(attribute, ordered, labels, f"{rule} another class", derived=True, ignored=dict(ignored))


def compare_labels(labels: Labels, mentions: Mapping[str, Sequence[frozenset[str]]]) -> Labels:
    """``labels`` with their ``agreement`` with what human captions name, by ``mentions`` as of :func:`derive_labels`.

    "images" whose captions name exactly one class; the share of these that "agree", and Cohen's "kappa" (1960; None if
    either side knows one class alone); "repeats", the share of all labelled images that have the class which their
    captions name most often. Labels of 100 images or more that repeat 99.5% count as ``derived``.
    """
    compared = sorted(labels.by_image.keys() & mentions.keys())
    named = {image: Counter(name for one in mentions[image] for name in one) for image in compared}
    pairs = [(labels.by_image[image], *named[image]) for image in compared if len(named[image]) == 1]
    repeated = sum(0 < named[image][labels.by_image[image]] == max(named[image].values()) for image in compared)
    repeats = repeated / max(1, len(compared))
    agreed, total = sum(label == name for label, name in pairs), len(pairs)
    first, second = (Counter(pair[part] for pair in pairs) for part in (0, 1))
    expected = sum(first[name] * second[name] for name in first)
    kappa = (agreed * total - expected) / (total**2 - expected) if min(len(first), len(second)) > 1 else None
    agreement = {"images": total, "agree": agreed / max(1, total), "kappa": kappa, "repeats": repeats}
    return replace(labels, agreement=agreement, derived=len(compared) >= _MANY and repeats >= _REPEATED)
