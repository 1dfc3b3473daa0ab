"""Reading the captions of one side from a file of any known format."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from judge.corpus.coco import Choice, Found, find_captions
from judge.corpus.columns import CAPTIONS, columns_for, wanted_columns
from judge.corpus.entries import MISSING, image_id
from judge.corpus.files import read_document
from judge.corpus.ids import kind_of
from judge.corpus.tables import Row
from judge.corpus.visual_genome import COCO_IDS, IMAGE_DATA, is_regions, with_coco_ids
from judge.errors import JudgeError
from judge.text.cleaning import clean
from judge.types import Captions, Side
from judge.utils.files import is_encodable
from judge.utils.reading import CHARACTERS

_CANNOT = r"(?:unfortunately,? )?(?:i|we) (?:can(?:not|['’]?t| not)|won['’]t|will not)"
_PICTURE = r"\b(?:images?|pictures?|photos?|photographs?|captions?|descriptions?)\b"
#: How captioners refuse, matched without case at the start of a caption. Patterns reach far enough to leave
#: true captions alone: "I can't believe ...", "I can't help but feel ...", "I'm sorry for the old man ...".
REFUSALS: tuple[str, ...] = (
    r"(?:i['’]m|i am|we are) (?:very |so |really )?sorry\s*(?:[,.;:!]|but\b|i\b|$)",
    r"sorry,? (?:but )?(?:i|we) (?:can|am|are|could|do|don|won|will)",
    r"(?:i|we) apologi[sz]e\b|my apologies\b",
    _CANNOT + r" (?:assist\b|comply\b|help (?:you|with)\b|fulfil|provide\b|engage\b)",
    _CANNOT + r" (?:see|view|open|access|describe|caption|analy[sz]e|process|generate|create)\b.{0,40}?" + _PICTURE,
    _CANNOT + r" (?:identify|recogni[sz]e) (?:the |any |real )*(?:people|persons|individuals)\b",
    r"(?:unfortunately,? )?(?:i['’]m|i am) (?:unable|not able) to\b",
    r"as an? (?:ai|artificial intelligence|(?:large |vision[- ])*language model)\b",
    # Workers of COCO wrote the first of these where a picture did not load.
    r"there(?: is|['’]s) no (?:image|picture|photo)\b.{0,30}\b(?:attached|provided?|describe|caption|review(?:ed)?)\b",
    r"no image (?:was |has been |is )?(?:attached|provided|uploaded)",
    r"please (?:provide|upload|share|attach) (?:the|an?|your) (?:image|picture|photo)",
    r"failed to obtain answer",  # what VLMEvalKit writes where a model gave none
    r"(?:很)?抱歉[,，]?\s*(?:但)?我|对不起[,，]?\s*(?:但)?我|作为(?:一个|一名)?(?:人工智能|AI|语言模型)",
)


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How to read a file of captions.

    Attributes:
        split: keep this split only (Karpathy's "test", "val", ...; any table with a column ``split``), or several
            with commas between them ("train,restval"); None for all.
        refusals: patterns of captions that refuse to describe; () to keep them all.
        columns: the columns of a table, where their names do not tell: ``{"image_id": "img", "caption": "text"}``; of
            one side ``{"human.caption": "utterance", "captions.caption": "text"}``, of one captioner ``mine.caption``.
        several: take several records of an image as several captions, on the generated side too.
        where: keep the records of a table whose columns hold these texts (``{"version": "new"}``); a table of generated
            captions without such a column is taken whole.
        alone: no people's captions beside them decide which images count: generated captions, too, are refused where
            they have no such splits or columns.
        of_people: keep these records alone of people's captions, "record 1" the first; None for all.
    """

    split: str | None = None
    refusals: Sequence[str] = REFUSALS
    columns: Mapping[str, str] | None = None
    several: bool = False
    where: Mapping[str, str] = field(default_factory=dict)
    of_people: frozenset[str] | None = None
    alone: bool = False


DEFAULT_OPTIONS = ReadOptions()


def read_captions(
    path: str | os.PathLike[str], options: ReadOptions = DEFAULT_OPTIONS, *, side: Side, name: str | None = None
) -> Captions:
    """Read the captions of one side; the format is recognised by the content, not by the file's name.

    COCO captions and results JSON, Karpathy's dataset, ``{image: caption}``, ``{image: [captions]}``, JSON lines,
    CSV, TSV, Parquet, Excel, LIC's pickles, lmms-eval's samples, VLMEvalKit's answers, Visual Genome's regions (see
    :func:`judge.corpus.coco.find_captions`), in a file, in WebDataset shards or in a folder of `datasets`. Where a file
    holds both sides, ``side`` picks.

    Visual Genome has numbers of its own. With ``columns={"image_id": "coco_id"}`` its images that are COCO's too are
    read, under COCO's numbers, which ``image_data.json`` in the same folder tells.

    Captions are cleaned (see :mod:`judge.text.cleaning`), and what that changes is counted; clean ones stay as written.
    Then those of white space alone, and those that match a refusal, are counted and left out; an image with no other
    caption is absent.

    Args:
        path: the file, within :func:`judge.utils.reading.file_limit`; or shards, or a folder of a data set.
        options: see :class:`ReadOptions`.
        side: whose captions; a generated image in two records is an error unless ``options.several``.
        name: the captioner; by default the file's stem, or "human".

    Raises:
        JudgeError: the file cannot be read; a record without image id or caption; a caption that is no text or is
            longer than ``CHARACTERS``; duplicate results; no caption left.
    """
    if name is None:
        name = "human" if side == "human" else Path(path).stem
    columns = columns_for(options.columns or {}, side, name)
    document = read_document(path, wanted=wanted_columns(*CAPTIONS[side], chosen=(*columns.values(), *options.where)))
    value = document.value
    if columns.get("image_id") == COCO_IDS and is_regions(value):
        data = Path(path).with_name(IMAGE_DATA)
        value = with_coco_ids(cast("list[Row]", value), source=document.source, data=data)
    return parse_captions(value, options, side=side, name=name, source=document.source)


def parse_captions(value: object, options: ReadOptions, *, side: Side, name: str, source: str) -> Captions:
    """The captions in a document that has been parsed already; as :func:`read_captions`."""
    needed = options.alone or side == "human"
    choice = Choice(options.split, columns_for(options.columns or {}, side, name), options.where, needed)
    found = find_captions(value, choice, side=side, source=source)
    return _collect(found, options, side=side, name=name, source=source)


def _collect(found: Found, options: ReadOptions, *, side: Side, name: str, source: str) -> Captions:
    refused = _compile(options.refusals)
    unique = side == "generated" and not (found.several or options.several)
    longest = CHARACTERS.value()
    by_image: dict[str, list[str]] = {}
    first: dict[str, str] = {}
    empty = refusals = 0
    cleaned = Counter[str]()
    silent: set[str] = set()
    chosen = options.of_people if side == "human" else None
    for entry in found.entries:
        if chosen is not None and entry.at not in chosen:
            continue
        where = f"{source}, {entry.at}, field '{found.id_field}'"
        image = image_id(entry.image, where)
        if unique and first.setdefault(image, entry.at) != entry.at:
            what = f"duplicate results for image '{image}' ({first[image]} has one)"
            mend = "keep one record per image, or allow several captions with --several"
            raise JudgeError(what, where=where, mend=mend)
        caption = _caption(entry.value, f"{source}, {entry.at}, field '{found.caption_field}'", longest)
        caption, changes = clean(caption)
        cleaned.update(changes)
        if not caption.strip():
            empty += 1
            silent.add(image)
        elif refused.match(caption):
            refusals += 1
            silent.add(image)
        else:
            by_image.setdefault(image, []).append(caption)
    if not by_image:
        what = f"no caption is left ({empty} empty, {refusals} refusals)"
        raise JudgeError(what, where=source, mend="give captions that describe")
    kept = {image: tuple(captions) for image, captions in by_image.items()}
    gone, fields = frozenset(silent - kept.keys()), (found.id_field, found.caption_field)
    return Captions(
        name,
        kept,
        source,
        empty,
        refusals,
        silent=gone,
        fields=fields,
        columns=tuple(found.columns),
        notes=tuple(found.notes),
        cleaned=dict(cleaned.most_common()),
    )


def _caption(caption: object, where: str, longest: float) -> str:
    mend = "give the record a text, or remove it"
    if not isinstance(caption, str):
        fault = "is missing" if caption is MISSING else f"is {kind_of(caption)}"
    elif len(caption) > longest:
        fault, mend = CHARACTERS.fault(), CHARACTERS.raise_it(mend)
    elif not is_encodable(caption):
        fault = "is not valid Unicode (half of a surrogate pair)"
    else:
        return caption
    raise JudgeError(f"caption {fault}", where=where, mend=mend)


def _compile(patterns: Sequence[str]) -> re.Pattern[str]:
    for pattern in patterns:
        try:
            re.compile(pattern)
        except re.error as error:
            what = f"refusal pattern '{pattern}' is no regular expression ({error})"
            raise JudgeError(what, mend="escape it, or leave it out") from error
    # Models like to open with a quotation mark or Markdown. Without patterns nothing matches.
    patterns = patterns or ["(?!)"]
    return re.compile(r"[\s\"'“”*_#>]*(?:" + "|".join(f"(?:{pattern})" for pattern in patterns) + ")", re.IGNORECASE)
