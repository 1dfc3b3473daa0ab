"""Which class each image has, and which words would tell it."""

from __future__ import annotations

from judge.config import LabelSettings
from judge.corpus.labels import read_labels
from judge.lexicon import Lexicon, load_lexicon, shipped_lexicons
from judge.types import Labels


def choose_lexicon(config: LabelSettings) -> Lexicon | None:
    """The lexicon named, or the shipped one of the attribute; None where the attribute has no words to hide."""
    if config.lexicon == "none":
        return None
    if config.lexicon is None:
        return load_lexicon(config.attribute) if config.attribute in shipped_lexicons() else None
    return load_lexicon(config.lexicon)


def labels_of(config: LabelSettings, lexicon: Lexicon | None) -> Labels | None:
    """The labels that ``config`` names, if it names any."""
    if config.labels is None:
        return None
    return read_labels(
        config.labels,
        attribute=config.attribute,
        lexicon=lexicon,
        id_column=config.id_column,
        label_column=config.label_column,
        spellings=config.label_values,
    )
