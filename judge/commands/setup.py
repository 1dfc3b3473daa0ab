"""From the settings of commands to lexicons, labels, the corpus, the plan, and the training."""

from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, TypeVar

from judge.config import read_settings
from judge.config.inputs import MASKING, LabelSettings, ReadingSettings, WordSettings
from judge.config.judges import JudgedSettings, RunSettings
from judge.config.values import listed
from judge.corpus import Corpus
from judge.corpus.attributes import multiply_labels, parts_of
from judge.corpus.captions import ReadOptions
from judge.corpus.columns import columns_for, detect
from judge.corpus.labels import LabelOptions, choose_own, label_columns, read_labels
from judge.errors import JudgeError, nearest
from judge.evidence import Aligning, EvidenceBuilder, TextOptions
from judge.evidence.counts import Vocabulary
from judge.judges import Materials
from judge.judges.names import HUGGING_FACE, READING, SELF
from judge.judges.prompts import make_prompt
from judge.measure import Plan
from judge.metrics import find_metric, spell_out
from judge.text.combined import load_tasks, multiply_lexicons
from judge.text.lexicon import WITHOUT_WORDS, Lexicon, Lexicons, load_lexicon, named_lexicons
from judge.training.member import TrainingSetup
from judge.types import Labels
from judge.utils.files import check_writable, writing
from judge.utils.launch import computes_on, launch_precision

S = TypeVar("S", bound=JudgedSettings)
T = TypeVar("T")


def choose_lexicon(config: WordSettings) -> Lexicon | None:
    """The lexicon named, or the attribute's own (of several all words); None where no words are to be hidden."""
    found = {name: _lexicon_of(config, name) for name in config.attributes}
    return multiply_lexicons(found) if len(found) > 1 else found[config.attributes[0]]


def _lexicon_of(config: WordSettings, attribute: str) -> Lexicon | None:
    named = _of(config.lexicon, attribute) or (attribute if attribute in named_lexicons() else "none")
    return None if named == "none" else load_lexicon(named)


def _of(setting: T | dict[str, T] | None, attribute: str) -> T | None:
    """The value of a setting for one attribute."""
    return setting.get(attribute) if isinstance(setting, dict) else setting


def choose_lexicons(config: JudgedSettings) -> Lexicons:
    """The lexicons of a run: of the attribute, and of tasks where a metric reads them."""
    return Lexicons(choose_lexicon(config), load_tasks(config.tasks) if reads_tasks(config) else None)


def reads_tasks(config: JudgedSettings) -> bool:
    """Whether a metric or the breakdown of a run reads what captions say beside the attribute."""
    return getattr(config, "breakdown", False) or any(find_metric(m).reads_tasks for m in spell_out(config.metrics))


def labels_of(config: LabelSettings) -> Labels | None:
    """The labels that ``config`` names, if it names any; for several attributes those of their product."""
    found = read_given(config)
    missing = [name for name in config.attributes if name not in found]
    if found and missing:
        mend = f"give --labels {missing[0]}=FILE"
        raise JudgeError(f"there are labels of {', '.join(found)}, and none of {missing[0]}", mend=mend)
    return multiply_labels(list(found.values())) if len(found) > 1 else next(iter(found.values()), None)


def read_given(config: LabelSettings) -> dict[str, Labels]:
    """Attribute -> its labels, for those whose file ``config`` names."""
    files = {name: path for name in config.attributes if (path := _of(config.labels, name)) is not None}
    found = {}
    for name, path in files.items():
        alone = list(files.values()).count(path) == 1
        options = _label_options(config, name, rule=config.label_rule, alone=alone)
        found[name] = read_labels(path, attribute=name, lexicon=_lexicon_of(config, name), options=options)
    return found


def _label_options(config: LabelSettings, attribute: str, **others: Any) -> LabelOptions:
    spellings = config.label_values if len(config.attributes) == 1 else config.label_values.get(attribute, {})
    options = LabelOptions(
        where=config.where,
        drop=_of(config.label_drop, attribute) or (),
        spellings=spellings,  # type: ignore[arg-type]  # nested where attributes are several
        **others,
    )
    return options.with_columns(config.columns, attribute, config.attributes)


def reading_options(config: ReadingSettings, **others: Any) -> ReadOptions:
    """How the files of captions are read."""
    return ReadOptions(config.split, columns=config.columns, where=config.where, **others)


def read_corpus(config: RunSettings) -> Corpus:
    """Read the files that ``config`` names."""
    options = reading_options(config, several=config.several, command=True)
    if config.refusals is not None:
        options = replace(options, refusals=config.refusals)
    given = read_given(config)
    labels = given.get(config.attribute) if isinstance(config.attribute, str) else None
    if config.own_captions:
        options, labels = _keep_own(config, options, labels)
    human = listed(config.human) if config.human else None
    corpus = Corpus.read(human=human, captions=config.captions, labels=labels, objects=config.objects, options=options)
    source, columns = corpus.human.source, corpus.human.columns
    notes = tuple(
        f"{source} has a column {found[0]}, which is not used: add --labels {source} to use it"
        for name in config.attributes
        if name not in given and (found := detect(columns, label_columns(name, alone=False)))
    )
    return complete_labels(replace(corpus, notes=corpus.notes + notes), given, config)


def _keep_own(config: RunSettings, options: ReadOptions, labels: Labels | None) -> tuple[ReadOptions, Labels]:
    """``options`` that leave out human captions whose own label is not their image's, and labels that note it."""
    where = "--own-captions"
    if config.human is None or labels is None or not isinstance(config.attribute, str):
        raise JudgeError("needs labels of one attribute", where=where, mend="give --labels, or leave it out")
    if isinstance(config.human, tuple):
        raise JudgeError("needs one file of human captions", where=where, mend="put them into one file")
    id_column = columns_for(config.columns, "human", "human").get("image_id")
    of_labels = replace(_label_options(config, config.attribute), id_column=id_column)
    kept, labels = choose_own(config.human, labels, lexicon=_lexicon_of(config, config.attribute), options=of_labels)
    return replace(options, chosen_human=kept), labels


def complete_labels(corpus: Corpus, given: Mapping[str, Labels], config: RunSettings) -> Corpus:
    """``corpus`` with labels of all attributes, if they are several: its own, those ``given``, and others derived."""
    own = {part.attribute: part for part in parts_of(corpus.labels)}
    known = {**given, **own}
    for name in config.attributes:
        if name not in known and _lexicon_of(config, name) is None:
            what = f"no labels of {name}, and no lexicon to derive them from"
            meant = nearest(name, named_lexicons())
            meant = f"{meant} Else give" if meant.endswith("?") else "give"
            mend = f"{meant} --labels {name}=FILE or --lexicon {name}=FILE"
            raise JudgeError(what, where="--attribute", mend=mend)
    check_hidden(config, known.values())
    if len(config.attributes) == 1 or tuple(own) == config.attributes:
        return corpus
    options, unlabelled = TextOptions(config.contractions, config.text), replace(corpus, labels=None)
    for name in config.attributes:
        if name not in known:
            words = Lexicons(_lexicon_of(config, name))
            derived = EvidenceBuilder(unlabelled, words, options=options, least=config.label_least).truth.labels
            known[name] = replace(derived, attribute=name)
    return replace(corpus, labels=multiply_labels([known[name] for name in config.attributes]))


def check_hidden(config: WordSettings, labels: Iterable[Labels]) -> None:
    """Refuse labels of an attribute whose words captions may hold and no lexicon has, unless the lexicon is "none"."""
    for of in labels:
        name, given = of.attribute, _of(config.lexicon, of.attribute)
        if name in WITHOUT_WORDS or given or name in named_lexicons():
            continue
        mend = "give its words with --lexicon FILE, or --lexicon none if captions do not name it"
        for other in map(load_lexicon, named_lexicons()):
            spelled = {word for one in other.classes for word in (one, *other.spellings.get(one, ()))}
            if {one.lower() for one in of.classes} <= spelled:
                mend = f"measure {other.name}: --attribute {other.name} --column labels.{other.name}={name}; or {mend}"
                break
        raise JudgeError(f"no lexicon has words of {name}, so nothing would be hidden", where=name, mend=mend)


def settings_beside(path: Path) -> Path:
    """The file of settings beside a file of captions: ``mine.json`` -> ``mine.caption.yaml``."""
    return path.with_name(f"{path.stem}.caption.yaml")


def known_models(config: RunSettings) -> dict[str, str]:
    """Captioner -> the checkpoint that wrote its captions: as given, else from the settings beside the captions."""
    beside = {name: settings_beside(path) for name, path in config.captions.items()}
    found = {name: read_settings(path).get("model") for name, path in beside.items() if path.is_file()}
    return {name: str(model) for name, model in found.items() if model} | config.models


def _alike(config: RunSettings, kind: Any, *others: str) -> dict[str, Any]:
    """The settings that a dataclass has fields of, of the same name and meaning; ``others`` mean something else."""
    names = {field.name for field in fields(kind)} & type(config).model_fields.keys()
    return {name: getattr(config, name) for name in names - {*others}}


def make_plan(config: RunSettings) -> Plan:
    """The settings that decide the numbers."""
    return Plan(
        **_alike(config, Plan, "text", "models", "vocabulary"),
        judges=config.judge,
        first_seed=config.seed,
        text=TextOptions(config.contractions, config.text),
        models=known_models(config),
        aligning=Aligning(config.alignment, config.vectors, config.delta),
        vocabulary=Vocabulary(config.vocabulary, config.least),
    )


def make_setup(config: RunSettings) -> TrainingSetup:
    """The settings that say how judges are trained."""
    return TrainingSetup(
        **_alike(config, TrainingSetup),
        features=config.features,
        recipe=config.recipe(),
        store=config.checkpoints,
        keeps_weights=config.checkpoints is not None,
        mixed_precision=config.precision,
        loaders=config.dataloader_workers,
        materials=Materials(
            **_alike(config, Materials, "images"),
            prompt=make_prompt(" and ".join(config.attributes), config.template, config.answers),
            answering=config.answer_softmax,
            attention=config.attn_implementation,
        ),
        masking=config.model_dump(mode="json", include=MASKING) if config.images else {},
    )


def with_precision(config: S) -> S:
    """The settings with the launch's precision, which decides numbers and is saved with the run."""
    found = config.precision or launch_precision()
    return config.model_copy(update={"precision": found}) if found != "no" else config


def precision_notes(config: RunSettings) -> list[str]:
    """A note where judges of transformers will compute in float32 on a GPU: exact, and slow."""
    tuned = any(name.startswith((HUGGING_FACE, SELF)) and READING not in name for name in config.judge)
    if config.precision or not tuned or launch_precision() != "no" or computes_on() == "cpu":
        return []
    what = "judges of transformers compute in float32 on this GPU, without TF32: exact, and slow"
    other = "--training precision=bf16 is faster and differs in about the third digit"
    return [f"{what}. {other}; --training precision=no omits this note"]


def open_checkpoints(folder: Path) -> set[str]:
    """Make the folder of trained judges; return the names of those that it holds."""
    if folder.exists() and not folder.is_dir():
        raise JudgeError("is a file", where=f"--checkpoints {folder}", mend="name a folder")
    with writing(f"--checkpoints {folder}"):
        folder.mkdir(parents=True, exist_ok=True)
        check_writable(folder)
        return {path.stem for path in folder.glob("*.safetensors") if path.stat().st_size}
