"""ArtEmis: how its tables name paintings, and the contrastive pairs of its second version.

Columns, as released: v1 (``artemis_dataset_release_v0.csv``) ``art_style, painting, emotion, utterance, repetition``;
v2 (``Contrastive.csv``) these and ``anchor_art_style, anchor_painting``; the two together (``combined_artemis.csv``)
also ``version`` ("new" for the contrastive part, "old"); preprocessed tables also ``split``. An utterance a row, with
the emotion of whoever wrote it. Neural speakers: ``art_style, painting, grounding_emotion, caption``, or, where they
were given a table of files, ``image_file, grounding_emotion, caption``.

Source: Achlioptas et al., CVPR 2021 (v1); Mohamed et al., CVPR 2022 (v2), and the code that they published.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from judge.corpus.entries import image_id, place_of, records
from judge.corpus.files import read_document
from judge.corpus.ids import kind_of
from judge.corpus.paintings import PAINTING, join_painting
from judge.corpus.tables import Row
from judge.errors import JudgeError, nearest
from judge.text.lexicon import load_lexicon

_ANCHOR = "anchor_art_style", "anchor_painting"
# What the scripts of v2 leave where a row of v1 has no anchor.
_NONE = frozenset({"", "nan"})


@dataclass(frozen=True, slots=True)
class Pair:
    """A contrastive utterance's two paintings, as canonical ids.

    Attributes:
        image_id: the painting that the utterance is about.
        anchor: the similar painting of v1 beside which it was chosen, for an emotion of the other kind.
        emotion: of the utterance.
    """

    image_id: str
    anchor: str
    emotion: str


def read_pairs(path: str | os.PathLike[str]) -> tuple[Pair, ...]:
    """The contrastive pairs of ArtEmis v2, one for each utterance that has an anchor, in file order.

    Args:
        path: ``Contrastive.csv``, or the table of both versions, whose rows of v1 have no anchor and are passed over.

    Raises:
        JudgeError: the file cannot be read; no columns of anchors; a painting without a name, or an anchor with half of
            one; an emotion that is none of ArtEmis's nine; no pair.
    """
    document = read_document(path)
    rows = records(document.value, source=document.source)
    if missing := [name for name in (PAINTING, *_ANCHOR, "emotion") if name not in rows[0]]:
        mend = "give ArtEmis v2's Contrastive.csv, or the table of both versions"
        raise JudgeError(f"no column '{missing[0]}'", where=document.source, mend=mend)
    pairs = []
    for number, row in enumerate(rows, start=1):
        where = f"{document.source}, {place_of(row, number)}"
        if anchor := _anchor(row, where):
            pairs.append(Pair(image_id(row.get(PAINTING), where), anchor, _emotion(row.get("emotion"), where)))
    if not pairs:
        raise JudgeError("no utterance has an anchor", where=document.source, mend="give the table of v2")
    return tuple(pairs)


def _anchor(row: Row, where: str) -> str | None:
    """The id of the anchor; None for a row of v1, both of whose cells are empty."""
    cells = {name: row.get(name) for name in _ANCHOR}
    empty = [name for name, cell in cells.items() if cell is None or str(cell).strip().lower() in _NONE]
    if len(empty) == len(cells):
        return None
    if empty:
        mend = "name style and painting of the anchor, or empty both"
        raise JudgeError("is empty, and the rest of the anchor is not", where=f"{where}, field '{empty[0]}'", mend=mend)
    return image_id(join_painting(*cells.values()), where)


def _emotion(value: object, where: str) -> str:
    """One of the nine, spelled without regard to case, as :func:`judge.corpus.labels.read_labels` takes them."""
    lexicon, where = load_lexicon("emotion"), f"{where}, field 'emotion'"
    if not isinstance(value, str):
        raise JudgeError(f"emotion is {kind_of(value)}", where=where, mend="write its name")
    name = value.strip().lower()
    for known in lexicon.classes:
        if name == known or name in lexicon.spellings.get(known, ()):
            return known
    what = f"unknown emotion '{name[:60]}'" if name else "emotion is empty"
    raise JudgeError(what, where=where, mend=nearest(name, sorted(lexicon.classes)))
