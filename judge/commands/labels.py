"""Labels and lexicons that settings name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TypeVar

from judge.config.inputs import HumanSettings, LabelSettings, WordSettings
from judge.config.judges import JudgedSettings
from judge.corpus import Corpus
from judge.corpus.attributes import multiply_labels, parts_of
from judge.corpus.captions import ReadOptions
from judge.corpus.columns import columns_for, detect
from judge.corpus.labels import LabelOptions, choose_own, label_columns, read_labels
from judge.errors import JudgeError, nearest
from judge.evidence import EvidenceBuilder, TextOptions
from judge.metrics import find_metric, spell_out
from judge.text.combined import load_tasks, multiply_lexicons
from judge.text.lexicon import Lexicon, Lexicons, load_lexicon, shipped_lexicons
from judge.types import Labels

T = TypeVar("T")


def choose_lexicon(config: WordSettings) -> Lexicon | None:
    """The lexicon named, or the shipped one of the attribute; None where the attribute has no words to hide.

    For several attributes the words of all.
    """
    found = {name: _lexicon_of(config, name) for name in config.attributes}
    return multiply_lexicons(found) if len(found) > 1 else found[config.attributes[0]]


def _lexicon_of(config: WordSettings, attribute: str) -> Lexicon | None:
    named = _of(config.lexicon, attribute) or (attribute if attribute in shipped_lexicons() else "none")
    return None if named == "none" else load_lexicon(named)


def _of(setting: T | dict[str, T] | None, attribute: str) -> T | None:
    """The value of a setting for one attribute."""
    return setting.get(attribute) if isinstance(setting, dict) else setting


def choose_lexicons(config: JudgedSettings) -> Lexicons:
    """The lexicons of a run: of the attribute, and of tasks where a metric reads them."""
    return Lexicons(choose_lexicon(config), load_tasks(config.tasks) if reads_tasks(config) else None)


def reads_tasks(config: JudgedSettings) -> bool:
    """Whether a metric or the breakdown of a run reads what captions say beside the attribute."""
    return getattr(config, "breakdown", False) or any(
        row.reads_tasks for row in map(find_metric, spell_out(config.metrics))
    )


def labels_of(config: LabelSettings) -> Labels | None:
    """The labels that ``config`` names, if it names any; for several attributes those of their product."""
    found = read_given(config)
    missing = [name for name in config.attributes if name not in found]
    if found and missing:
        mend = f"give --labels {missing[0]}=FILE"
        raise JudgeError(f"there are labels of {', '.join(found)}, and none of {missing[0]}", mend=mend)
    if len(found) > 1:
        return multiply_labels(list(found.values()))
    return next(iter(found.values()), None)


def read_given(config: LabelSettings) -> dict[str, Labels]:
    """Attribute -> its labels, for those whose file ``config`` names."""
    files = {name: path for name in config.attributes if (path := _of(config.labels, name)) is not None}
    values = config.label_values if len(config.attributes) > 1 else {config.attributes[0]: config.label_values}
    return {
        name: read_labels(
            path,
            attribute=name,
            lexicon=_lexicon_of(config, name),
            options=LabelOptions(
                config.label_rule,
                config.where,
                drop=_of(config.label_drop, name) or (),
                alone=list(files.values()).count(path) == 1,
                id_column=config.id_column,
                label_column=_of(config.label_column, name),
                spellings=values.get(name) or {},  # type: ignore[arg-type]  # nested where attributes are several
            ),
        )
        for name, path in files.items()
    }


def unused(corpus: Corpus, given: Mapping[str, Labels], config: LabelSettings) -> Iterator[str]:
    """Notes on columns of labels in the table of human captions that are not used."""
    human = corpus.human
    for name in config.attributes:
        if name not in given and (found := detect(human.columns, label_columns(name, alone=False))):
            yield f"{human.source} has a column {found[0]}, which is not used: add --labels {human.source} to use it"


def keep_own(config: HumanSettings, options: ReadOptions, labels: Labels | None) -> tuple[ReadOptions, Labels]:
    """``options`` that leave out human captions whose own label is not their image's, and labels that note it."""
    where = "--own-captions"
    if config.human is None or labels is None or not isinstance(config.attribute, str):
        raise JudgeError("needs labels of one attribute", where=where, mend="give --labels, or leave it out")
    if isinstance(config.human, tuple):
        raise JudgeError("needs one file of human captions", where=where, mend="put them into one file")
    kept, labels = choose_own(
        config.human,
        labels,
        lexicon=_lexicon_of(config, config.attribute),
        options=LabelOptions(
            where=config.where,
            drop=_of(config.label_drop, config.attribute) or (),
            id_column=columns_for(config.columns, "human", "human").get("image_id"),
            label_column=_of(config.label_column, config.attribute),
            spellings=config.label_values,  # type: ignore[arg-type]  # of one attribute not nested
        ),
    )
    return replace(options, chosen_human=kept), labels


def complete_labels(corpus: Corpus, given: Mapping[str, Labels], config: HumanSettings) -> Corpus:
    """``corpus`` with labels of all attributes, if they are several: its own, those ``given``, and others derived.

    (Labels of a single attribute are derived from human captions where evidence is made.)
    """
    own = {part.attribute: part for part in parts_of(corpus.labels)}
    known = {**given, **own}
    for name in config.attributes:
        if name not in known and _lexicon_of(config, name) is None:
            what = f"no labels of {name}, and no lexicon to derive them from"
            meant = nearest(name, shipped_lexicons())
            meant = f"{meant} Else give" if meant.endswith("?") else "give"
            mend = f"{meant} --labels {name}=FILE or --lexicon {name}=FILE"
            raise JudgeError(what, where="--attribute", mend=mend)
    if len(config.attributes) == 1 or tuple(own) == config.attributes:
        return corpus
    parts = [known[name] if name in known else _derive(corpus, name, config) for name in config.attributes]
    return replace(corpus, labels=multiply_labels(parts))


def _derive(corpus: Corpus, attribute: str, config: HumanSettings) -> Labels:
    options = TextOptions(config.contractions, config.text)
    words = Lexicons(_lexicon_of(config, attribute))
    alone = EvidenceBuilder(replace(corpus, labels=None), words, options=options, least=config.label_least)
    return replace(alone.truth.labels, attribute=attribute)
