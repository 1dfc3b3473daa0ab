"""Labels and lexicons that settings name."""

from __future__ import annotations

from judge.config import LabelSettings, RunSettings
from judge.corpus.labels import read_labels
from judge.metrics import find_metric, spell_out
from judge.text.lexicon import Lexicon, Lexicons, load_lexicon, shipped_lexicons
from judge.types import Labels


def choose_lexicon(config: LabelSettings) -> Lexicon | None:
    """The lexicon named, or the shipped one of the attribute; None where the attribute has no words to hide."""
    if config.lexicon == "none":
        return None
    if config.lexicon is None:
        return load_lexicon(config.attribute) if config.attribute in shipped_lexicons() else None
    return load_lexicon(config.lexicon)


def choose_lexicons(config: RunSettings) -> Lexicons:
    """The lexicons of a run: of the attribute, and of tasks where a metric asks for them."""
    asked = config.breakdown or any(row.reads_tasks for row in map(find_metric, spell_out(config.metrics)))
    return Lexicons(choose_lexicon(config), load_lexicon(config.tasks) if asked else None)


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
