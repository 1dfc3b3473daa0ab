"""From a corpus to evidence: captions joined, masked, aligned, resampled for refits, and counted."""

from judge.evidence.builder import Aligning, EvidenceBuilder, Truth, mention_table
from judge.evidence.joined import MINIMUM_IMAGES, PEOPLE, Joined
from judge.evidence.masked import MaskedCaption
from judge.evidence.preparation import Preparation, TextOptions
from judge.evidence.resample import Resample, ResampleKind
from judge.evidence.samples import Cell, Evidence, Slot
from judge.evidence.sides import Sides
from judge.text.alignment import Aligner

__all__ = [
    "MINIMUM_IMAGES", "PEOPLE", "Aligner", "Aligning", "Cell", "Evidence", "EvidenceBuilder", "Joined",
    "MaskedCaption", "Preparation", "Resample", "ResampleKind", "Sides", "Slot", "TextOptions", "Truth",
    "mention_table",
]  # fmt: skip
