"""From a corpus to evidence: joined, masked, drawn anew for refits, aligned; and counts of what captions name."""

from judge.evidence.builder import (
    DEFAULT_TEXT,
    MINIMUM_IMAGES,
    PEOPLE,
    Aligning,
    EvidenceBuilder,
    Joined,
    Row,
    TextOptions,
    Truth,
    check_names,
    join_names,
    mention_table,
)
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
    "Resample",
    "ResampleKind",
    "Row",
    "Sides",
    "Slot",
    "TextOptions",
    "Truth",
    "check_names",
    "join_names",
    "mention_table",
]
