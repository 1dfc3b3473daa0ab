"""From the settings of commands that train judges to the corpus, the plan, and the training."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any, TypeVar

from judge.commands.caption import known_models
from judge.commands.labels import complete_labels, keep_own, read_given, unused
from judge.config.inputs import MASKING
from judge.config.judges import RunSettings, TrainingSettings
from judge.config.values import listed
from judge.corpus import Corpus
from judge.corpus.captions import ReadOptions
from judge.corpus.tasks import read_tasks
from judge.errors import JudgeError
from judge.evidence import Aligning, TextOptions
from judge.evidence.counts import Vocabulary
from judge.judges import Materials
from judge.judges.prompts import make_prompt
from judge.measure import Plan
from judge.training.member import TrainingSetup
from judge.utils.files import check_writable, writing
from judge.utils.launch import launch_precision

S = TypeVar("S", bound=TrainingSettings)


def read_corpus(config: RunSettings) -> Corpus:
    """Read the files that ``config`` names."""
    options = ReadOptions(split=config.split, columns=config.columns, several=config.several, where=config.where)
    if config.refusals is not None:
        options = replace(options, refusals=config.refusals)
    given, objects = read_given(config), None
    if config.objects:
        objects = read_tasks(config.objects, id_column=config.object_id_column, task_column=config.object_column)
    labels = given.get(config.attribute) if isinstance(config.attribute, str) else None
    if config.own_captions:
        options, labels = keep_own(config, options, labels)
    corpus = Corpus.read(
        human=listed(config.human), captions=config.captions, labels=labels, objects=objects, options=options
    )
    corpus = replace(corpus, notes=(*corpus.notes, *unused(corpus, given, config)))
    return complete_labels(corpus, given, config)


def make_plan(config: RunSettings) -> Plan:
    """The settings that decide the numbers; those of a plan's own names are taken over as they are."""
    names = {field.name for field in fields(Plan)} & type(config).model_fields.keys()
    parts: dict[str, Any] = {name: getattr(config, name) for name in names - {"text", "models", "vocabulary"}}
    return Plan(
        **parts,
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
        recipe=config.recipe(),
        store=config.checkpoints,
        keeps_weights=config.checkpoints is not None,
        sharing=config.sharing,
        mixed_precision=config.precision,
        workers=config.workers,
        stack=config.stack,
        loaders=config.dataloader_workers,
        materials=Materials(
            prompt=make_prompt(" and ".join(config.attributes), config.template, config.answers),
            answering=config.answer_softmax,
            backbone=config.backbone,
            backbone_weights=config.backbone_weights,
            image_size=config.image_size,
            tuning=config.tuning,
            dtype=config.dtype,
            checkpointing=config.checkpointing,
            attention=config.attn_implementation,
            reader=config.reader,
        ),
        features=config.features,
        masking=config.model_dump(mode="json", include=MASKING) if config.images else {},
    )


def with_precision(config: S) -> S:
    """The settings with the launch's precision, which decides numbers and is saved with the run."""
    found = config.precision or launch_precision()
    return config.model_copy(update={"precision": found}) if found != "no" else config


def open_checkpoints(folder: Path) -> set[str]:
    """Make the folder of trained judges.

    Returns:
        The names of those that it holds.
    """
    if folder.exists() and not folder.is_dir():
        raise JudgeError("is a file", where=f"--checkpoints {folder}", mend="name a folder")
    with writing(f"--checkpoints {folder}"):
        folder.mkdir(parents=True, exist_ok=True)
        check_writable(folder)
        return {path.stem for path in folder.glob("*.safetensors") if path.stat().st_size}
