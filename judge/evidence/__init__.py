"""From a corpus to what judges see, and to what captions say: joined, masked, drawn anew for refits, aligned."""

from judge.evidence.builder import (
    DEFAULT_TEXT,
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
    resolve_labels,
)
from judge.evidence.sides import Aligner, Evidence, Resample, ResampleKind, Sides, Slot, Told

__all__ = [
    "DEFAULT_TEXT",
    "PEOPLE",
    "Aligner",
    "Aligning",
    "Evidence",
    "EvidenceBuilder",
    "Joined",
    "Resample",
    "ResampleKind",
    "Row",
    "Sides",
    "Slot",
    "TextOptions",
    "Told",
    "Truth",
    "check_names",
    "join_names",
    "mention_table",
    "resolve_labels",
]
