"""The captions of one side from a file of any known format: read, cleaned, and grouped by image."""

import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self, get_args

import numpy as np

from judge.corpus.columns import columns_for
from judge.corpus.files import Document, Given, read_document
from judge.corpus.labels import LabelOptions, Rule
from judge.corpus.layouts import Request, find_captions
from judge.corpus.records import cell_text, image_id, kind_of
from judge.errors import JudgeError, in_python, nearest
from judge.text.cleaning import clean
from judge.types import Captions, Side
from judge.utils.files import is_encodable
from judge.utils.reading import CHARACTERS

SERVER_REFUSED = "The server refused to caption the image"
"""Begins the caption of an image that a server refuses to describe."""
_CANNOT = r"(?:unfortunately,? )?(?:i|we) (?:can(?:not|['’]?t| not)|won['’]t|will not)"
_IMAGE = r"\b(?:images?|pictures?|photos?|photographs?|captions?|descriptions?)\b"
#: How captioners refuse, matched without case at the start of a caption. Patterns are long enough to spare captions
#: such as "I can't believe ...", "I can't help but feel ...", "I'm sorry for the old man ...".
REFUSALS: tuple[str, ...] = (
    r"(?:i['’]m|i am|we are) (?:very |so |really )?sorry\s*(?:[,.;:!]|but\b|i\b|$)",
    r"sorry,? (?:but )?(?:i|we) (?:can|am|are|could|do|don|won|will)",
    r"(?:i|we) apologi[sz]e\b|my apologies\b",
    _CANNOT + r" (?:assist\b|comply\b|help (?:you|with)\b|fulfil|provide\b|engage\b)",
    _CANNOT + r" (?:see|view|open|access|describe|caption|analy[sz]e|process|generate|create)\b.{0,40}?" + _IMAGE,
    _CANNOT + r" (?:identify|recogni[sz]e) (?:who|(?:(?:the|any|real|th[ie]se?) )*(?:people|persons?|individuals?))\b",
    r"(?:unfortunately,? )?(?:i['’]m|i am) (?:unable|not able) to\b",
    r"as an? (?:ai|artificial intelligence|(?:large |vision[- ])*language model)\b",
    # Workers of COCO wrote the first of these where an image did not load.
    r"there(?: is|['’]s) no (?:image|picture|photo)\b.{0,30}\b(?:attached|provided?|describe|caption|review(?:ed)?)\b",
    r"no image (?:was |has been |is )?(?:attached|provided|uploaded)",
    r"please (?:provide|upload|share|attach) (?:the|an?|your) (?:image|picture|photo)",
    r"failed to obtain answer",  # VLMEvalKit, where a model gave none.
    SERVER_REFUSED,
    r"(?:很)?抱歉[,，]?\s*(?:但)?我|对不起[,，]?\s*(?:但)?我|作为(?:一个|一名)?(?:人工智能|AI|语言模型)",
)
# A description after a refusal: behind a mark or "but", what "the image shows", or a clause about neither the image nor
# the request ("but a clearer photo is needed").
_ABOUT = "image|photo|picture|caption|description|request|content|material|nudity|guideline|link|file|error|problem"
_PEOPLE = "person|people|individuals?|subjects?|figures?|(?:wo)?m[ae]n|boys?|girls?|child(?:ren)?|couple|group"
_SHOWS = "shows?|depicts?|features?|captures?|contains?|displays?|portrays?|includes?|presents?|illustrates?"
_DESCRIBED = re.compile(
    r"(?s)(?:[.!?:;,—–]|\s(?:but|though|yet)\b)\W*(?:(?:but|however|though|still|yet|instead|that said)\b\W*)*"
    r"(?:(?:what )?i (?:can |do )?(?:see|tell|say|describe|note|observe|share)\b[^.,;\n]{0,30}?(?:that|\bis|:)?\s+)?"
    r"(?:(?:in|from|based on) (?:the|this) \w+,\s*)?"
    rf"(?:(?:it|(?:the|this|your) (?:\w+ )?{_IMAGE}) (?:(?:appears|seems) to )?(?:{_SHOWS})(?: that)? "
    r"|it(?:['’]s| is| looks like| appears to be| seems to be) (?=(?:an?|two|the)\b)"
    rf"|(?=(?:an?|one|two|three|four|five|several|some|there (?:is|are)|s?he|they|the (?:\w+ )?(?:{_PEOPLE})) ))"
    rf"(?!(?:[\w'’-]+ ){{0,3}}?(?:(?:{_ABOUT})s?|no|not|nothing|polic(?:y|ies))\b(?! of\b))(?P<text>\w.*)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How to read a file of captions.

    Attributes:
        split: keep this split only (of Karpathy's file, or of any table with a column ``split``), or several separated
            by commas ("train,restval"); None for all.
        refusals: regular expressions of captions that refuse to describe; () to keep such captions.
        columns: columns of a table that are not recognised by name: ``{"image_id": "img", "caption": "text"}``; for
            one side "human.caption" or "captions.caption", for a captioner its name, "mine.caption". Of other tables
            of :meth:`judge.Corpus.read`: "labels.image_id", "labels.gender" (of the attribute of this name),
            "labels.scene", "objects.image_id" and "objects.object".
        several: take several records of an image as several captions, on the generated side too.
        where: keep the records of a table whose columns hold these texts (``{"version": "new"}``).
        alone: whether generated captions without such splits or columns are refused, as human ones are, instead of
            being read whole: no human captions decide which images count.
        chosen_human: keep only these records of human captions ("record 1" is the first); None for all.
        labels: how :meth:`judge.Corpus.read` reads a table of labels.
        command: whether a command reads, so that messages name its options in place of Python's parameters.
    """

    split: str | None = None
    refusals: Sequence[str] = REFUSALS
    columns: Mapping[str, str] | None = None
    several: bool = False
    where: Mapping[str, str] = field(default_factory=dict)
    chosen_human: frozenset[str] | None = None
    alone: bool = False
    labels: LabelOptions = field(default_factory=LabelOptions)
    command: bool = False

    @classmethod
    def of(cls, **keywords: Any) -> Self:
        """From keywords that :func:`judge.evaluate` has too: all of :data:`KEYWORDS`."""
        if unknown := [name for name in keywords if name not in KEYWORDS]:
            raise JudgeError(f"unknown keyword '{unknown[0]}'", mend=nearest(unknown[0], [*KEYWORDS]))
        given = {name: value for name, value in keywords.items() if value is not None}
        for name in ("label_values", "columns", "where"):
            if not isinstance(given.get(name, {}), Mapping):
                raise JudgeError("is no mapping", where=name, mend="give {name: value}")
        if (rule := given.get("label_rule", "one")) not in get_args(Rule):
            raise JudgeError(f"unknown value '{rule}'", where="label_rule", mend=nearest(str(rule), [*get_args(Rule)]))
        for name in {"refusals", "label_drop"} & given.keys():
            given[name] = _each(given[name])
        if any(not isinstance(of, str) for of in given.get("refusals", ())):
            raise JudgeError("holds something else than text", where="refusals", mend="give regular expressions")
        given |= {"where": {column: cell_text(of) for column, of in given["where"].items()}} if "where" in given else {}
        given |= {"split": ",".join(given["split"])} if isinstance(given.get("split"), list | tuple) else {}
        labels: dict[str, Any] = {OF_LABELS[name]: of for name, of in given.items() if name in OF_LABELS}
        each = {name: _each(of) for name, of in labels.pop("spellings", {}).items()}
        files = {name: value for name, value in given.items() if name not in OF_LABELS}
        return cls(**files, labels=LabelOptions(**labels, spellings=each, where=given.get("where", {})))


def _each(value: object) -> list[Any]:
    """A value, or each of several; those of numpy as Python has them."""
    several = value if isinstance(value, list | tuple | set | frozenset | np.ndarray) else [value]
    return [of.item() if isinstance(of, np.generic) else of for of in several]


# Keyword of ``evaluate`` -> field of :class:`LabelOptions`.
OF_LABELS = {"label_values": "spellings", "label_drop": "drop", "label_rule": "rule"}
KEYWORDS = (*OF_LABELS, "split", "refusals", "columns", "several", "where")
"""Keywords that say how captions and labels are read, of :func:`judge.evaluate` and :meth:`judge.Corpus.read`."""
DEFAULT_OPTIONS = ReadOptions()


def read_captions(
    path: Given, options: ReadOptions = DEFAULT_OPTIONS, *, side: Side, name: str | None = None
) -> Captions:
    """Read the captions of one side from a file, shards, the folder of a data set, or a table in memory.

    Captions are cleaned (:func:`judge.text.cleaning.clean`), and changes are counted; of a refusal that goes on to
    describe the image, the description is kept. Captions of white space alone and refusals are then counted and left
    out; an image without any other caption is absent.

    ``side``: whose captions, if a file holds both sides; ``name``: the captioner, by default the file's stem.

    Raises:
        JudgeError: the file cannot be read; a record without image id or caption; a caption that is no text or is
            longer than ``CHARACTERS``; two results for a generated image, unless ``options.several``; no caption left.
    """
    if name is None:
        name = "human" if side == "human" else Path(path).stem if isinstance(path, str | os.PathLike) else "captioner"
    with in_python(unless=isinstance(path, str | os.PathLike)):
        document = read_document(path, memory=f"captions of {name} in memory", value="caption")
        return parse_captions(document, options, side=side, name=name)


def refuses(caption: str) -> bool:
    """Whether a caption refuses to describe, by :data:`REFUSALS`, and describes nothing after that."""
    return bool(_compile(REFUSALS).match(caption) and not _DESCRIBED.search(caption))


def parse_captions(document: Document, options: ReadOptions, *, side: Side, name: str) -> Captions:
    """The captions in a document that is already in memory; as :func:`read_captions`."""
    source, refusal = document.source, _compile(options.refusals)
    request = Request(
        side,
        source,
        splits=[split.strip() for split in options.split.split(",")] if options.split else (),
        columns=columns_for(options.columns or {}, side, name),
        where=options.where,
        needed=options.alone or side == "human",
    )
    found = find_captions(document.value, request)
    id_field, caption_field = found.fields
    unique = side == "generated" and not (found.several or options.several)
    by_image: dict[str, list[str]] = {}
    first, suffixes = dict[str, str](), dict[str, str]()
    left_out: dict[str, list[str]] = {"empty": [], "refused": []}
    cleaned = Counter[str]()
    for entry in found.entries:
        if side == "human" and options.chosen_human is not None and entry.at not in options.chosen_human:
            continue
        where = f"{source}, {entry.at}, field '{id_field}'"
        image = image_id(entry.image, where, suffixes)
        if unique and first.setdefault(image, entry.at) != entry.at:
            what = f"duplicate results for image '{image}' ({first[image]} has one)"
            mend = "keep one record per image, or allow several captions with --several"
            raise JudgeError(what, where=where, mend=mend)
        caption, changes = clean(_checked(entry.value, f"{source}, {entry.at}, field '{caption_field}'"))
        if refusal.match(caption) and (described := _DESCRIBED.search(caption)):
            caption, changes = described["text"], (*changes, "disclaimers")
        cleaned.update(changes)
        if not caption.strip():
            left_out["empty"].append(image)
        elif refusal.match(caption):
            left_out["refused"].append(image)
        else:
            by_image.setdefault(image, []).append(caption)
    empty, refused = map(len, left_out.values())
    if not by_image:
        what = f"no caption is left ({empty} empty, {refused} refusals)"
        raise JudgeError(what, where=source, mend="give captions that describe")
    return Captions(
        name,
        {image: tuple(captions) for image, captions in by_image.items()},
        source,
        empty,
        refused,
        silent=frozenset({*left_out["empty"], *left_out["refused"]} - by_image.keys()),
        fields=found.fields,
        columns=found.columns,
        notes=found.notes,
        cleaned=dict(cleaned.most_common()),
    )


def _checked(caption: object, where: str) -> str:
    mend = "give the record a text, or remove it"
    if not isinstance(caption, str):
        raise JudgeError(f"caption is {kind_of(caption)}", where=where, mend=mend)
    CHARACTERS.refuse(len(caption), where, instead=mend)
    if not is_encodable(caption):
        raise JudgeError("caption is not valid Unicode (half of a surrogate pair)", where=where, mend=mend)
    return caption


def _compile(patterns: Sequence[str]) -> re.Pattern[str]:
    for pattern in patterns:
        try:
            re.compile(pattern)
        except re.error as error:
            what = f"refusal pattern '{pattern}' is no regular expression ({error})"
            raise JudgeError(what, mend="escape it, or leave it out") from error
    # Models like to open with a quotation mark or Markdown. Without patterns nothing matches.
    return re.compile(rf"[\s\"'“”*_#>]*(?:{'|'.join(f'(?:{one})' for one in patterns or ['(?!)'])})", re.IGNORECASE)
