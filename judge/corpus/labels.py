"""Which class of the attribute each image has: read from a table, or derived from what people said."""

from __future__ import annotations

import math
import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from judge.corpus.columns import find_column, wanted_columns
from judge.corpus.columns import id_column as column_of_ids
from judge.corpus.entries import MISSING, Entry, image_id, mapping_entries, records, row_entries
from judge.corpus.files import Document, read_document
from judge.corpus.ids import kind_of
from judge.errors import JudgeError, nearest
from judge.text.lexicon import Lexicon
from judge.types import Labels

#: Values that say "no class" (compared without case); counted in ``Labels.ignored``.
IGNORED = frozenset({"", "both", "unsure", "unknown", "nan", "n/a", "na", "none", "null"})

_CODE = re.compile(r"[-+]?[0-9]+(?:\.[0-9]+)?")
_SHAPES = "give a table, a list of records or {image: label}"


def read_labels(
    path: str | os.PathLike[str],
    *,
    attribute: str = "gender",
    lexicon: Lexicon | None = None,
    id_column: str | None = None,
    label_column: str | None = None,
    spellings: Mapping[str, Sequence[str]] | None = None,
    alone: bool = True,
) -> Labels:
    """Read one class per image from a table or from ``{image: label}``, in any format of :func:`read_document`.

    With a lexicon, values are its class names or their spellings ("Female", "F", "woman"), compared without case.
    Without one (skin tone, emotion), the classes are the values as first spelled. Empty values, "Both", "Unsure" and
    the like leave the image out. Numbers are refused unless ``spellings`` says which class they mean: published
    tables disagree on whether 0 is male.

    Args:
        path: CSV, TSV, JSON, JSON lines, Parquet, Excel, or one of LIC's pickles.
        attribute: names the column: "gender", "bb_gender", "gender_label", "perceived_gender", "label" or "class".
        lexicon: the attribute's classes; its words are not used.
        id_column: the column of image ids, where its name does not tell.
        label_column: the column of labels, likewise.
        spellings: class -> further spellings in this table (``{"male": ["0"]}``); they win over "Both" and the like.
        alone: whether the file has no labels of another attribute: a column "label" or "class" could be of either.

    Raises:
        JudgeError: columns absent or ambiguous; a missing or odd image id; a number or an unknown value for a label;
            one image with two labels; no image left. Few images of a class are no error here.
    """
    tiers = _tiers(attribute, alone=alone)
    document = read_document(path, wanted=wanted_columns(*tiers, chosen=(id_column, label_column)))
    spelled = _spellings(spellings or {}, lexicon, document.source)
    labels: dict[str, str] = {}
    first: dict[str, str] = {}
    ignored: Counter[str] = Counter()
    for entry in _entries(document, attribute, (id_column, label_column), alone=alone):
        where = f"{document.source}, {entry.at}"
        image, value = image_id(entry.image, where), _text(entry.value, where)
        label = _label(value, spelled, lexicon, where)
        if label is None:
            ignored[value] += 1
        elif labels.setdefault(image, label) != label:
            what = f"image '{image}' is '{label}' here and '{labels[image]}' in {first[image]}"
            raise JudgeError(what, where=where, mend="keep one of the two")
        else:
            first.setdefault(image, entry.at)
    if not labels:
        values = ", ".join(f"'{value}' {count}x" for value, count in ignored.most_common(5))
        what = f"no image has a label of {attribute} ({values})"
        raise JudgeError(what, where=document.source, mend="check the column")
    classes = sorted(lexicon.classes if lexicon is not None else set(labels.values()))
    return Labels(attribute, tuple(classes), labels, source=document.source, ignored=dict(ignored))


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
    document: Document, attribute: str, columns: tuple[str | None, str | None], *, alone: bool
) -> Sequence[Entry]:
    (image, label), value, source = columns, document.value, document.source
    if isinstance(value, dict):
        if not alone:
            what = f"{{image: label}} says one attribute, and {attribute} is not the only one"
            raise JudgeError(what, where=source, mend=f"give a table, or a file of each: --labels {attribute}=FILE")
        if not value or any(isinstance(label, dict | list) for label in value.values()):
            raise JudgeError("JSON of the wrong shape (an object)", where=source, mend=_SHAPES)
        return mapping_entries(value)
    rows = records(value, source=source, shapes=_SHAPES)
    image = column_of_ids(rows, image, source=source, option="--id-column")
    name, what = attribute.lower(), f"{attribute} labels"
    tiers = _tiers(attribute, alone=alone)
    option = "--label-column" if alone else f"--label-column {name}"
    return row_entries(rows, image, find_column(rows, tiers, label, what=what, source=source, option=option))


def _tiers(attribute: str, *, alone: bool) -> tuple[tuple[str, ...], ...]:
    """What the column of labels may be called; earlier names win."""
    name = attribute.lower()
    unnamed = (("label", "class"), ("cls",)) if alone else ()
    return (name,), (f"bb_{name}", f"{name}_label", f"perceived_{name}"), *unnamed


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


def _label(value: str, spelled: dict[str, str], lexicon: Lexicon | None, where: str) -> str | None:
    """The class of ``value``; None where it says that there is none."""
    key = value.lower()
    if key not in spelled:
        if key in IGNORED:
            return None
        if _CODE.fullmatch(value):
            name, number = max(spelled.values(), default="NAME")[:60], value[:60]
            what = f"label is the number {number}, and published tables disagree on what numbers mean"
            raise JudgeError(what, where=where, mend=f"say which class it is, as in --label-value {name}={number}")
        if lexicon is not None:
            known = sorted(lexicon.classes)
            mend = f"known classes: {', '.join(known)}; tell what it means with --label-value {known[0]}={value[:60]}"
            raise JudgeError(f"unknown label '{value[:60]}'", where=where, mend=mend)
        spelled[key] = value
    return spelled[key]
