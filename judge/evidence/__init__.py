"""From a corpus to evidence: captions joined, masked, aligned, resampled for refits, and counted."""

from judge.evidence.builder import (
    MINIMUM_IMAGES,
    PEOPLE,
    Aligning,
    EvidenceBuilder,
    Joined,
    Row,
    Truth,
    check_names,
    join_names,
    mend_without_words,
    mention_table,
)
from judge.evidence.preparation import DEFAULT_TEXT, Preparation, TextOptions
from judge.evidence.sides import Aligner, Evidence, MaskedCaption, Resample, ResampleKind, Sides, Slot

__all__ = [
    "DEFAULT_TEXT",
    "MINIMUM_IMAGES",
    "PEOPLE",
    "Aligner",
    "Aligning",
    "Evidence",
    "EvidenceBuilder",
    "Joined",
    "MaskedCaption",
    "Preparation",
    "Resample",
    "ResampleKind",
    "Row",
    "Sides",
    "Slot",
    "TextOptions",
    "Truth",
    "check_names",
    "join_names",
    "mend_without_words",
    "mention_table",
]
