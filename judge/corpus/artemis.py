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

from judge.corpus.entries import image_id, records
from judge.corpus.files import read_document
from judge.corpus.paintings import PAINTING, join_painting
from judge.errors import JudgeError

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
        JudgeError: the file cannot be read; no columns of anchors; a painting without a name; no pair.
    """
    document = read_document(path)
    rows = records(document.value, source=document.source)
    if missing := [name for name in (PAINTING, *_ANCHOR, "emotion") if name not in rows[0]]:
        mend = "give ArtEmis v2's Contrastive.csv, or the table of both versions"
        raise JudgeError(f"no column '{missing[0]}'", where=document.source, mend=mend)
    pairs = []
    for number, row in enumerate(rows, start=1):
        anchor = [str(row.get(name, "")).strip() for name in _ANCHOR]
        if not {name.lower() for name in anchor} & _NONE:
            where = f"{document.source}, record {number}"
            image, beside = image_id(row.get(PAINTING), where), image_id(join_painting(*anchor), where)
            pairs.append(Pair(image, beside, str(row.get("emotion", "")).strip()))
    if not pairs:
        raise JudgeError("no utterance has an anchor", where=document.source, mend="give the table of v2")
    return tuple(pairs)
