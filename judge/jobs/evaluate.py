"""One run from files to a folder of results: what ``judge evaluate``, YAML and Python all call."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from judge.config import LabelSettings, RunConfig, make_config
from judge.corpus import Corpus
from judge.corpus.labels import read_labels
from judge.corpus.reading import ReadOptions
from judge.errors import JudgeError
from judge.evidence import TextOptions
from judge.lexicon import Lexicon, load_lexicon, shipped_lexicons
from judge.measure import Plan, Result, measure
from judge.report.directory import RunDirectory
from judge.training.members import Workshop, is_main_process
from judge.types import Labels, Report


def evaluate(corpus: Corpus | None = None, *, report: Report | None = None, **settings: Any) -> Result:
    """Measure bias amplification; the keys are those of the YAML file (:class:`~judge.config.RunConfig`).

    Args:
        corpus: captions and labels already read; else ``human=``, ``captions=`` (a path, a list of paths or
            a mapping name -> path) and ``labels=`` are read.
        report: told of progress: (what, units done, units in all).
        settings: e.g. ``metrics=["lic"], judge="lstm", protocol="paper", seeds=3, out="runs/mine"``.

    Returns:
        The result; ``.table()`` is a pandas frame. Files are written where ``out`` is given.

    Raises:
        JudgeError: anything that the user can mend.

    Example:
        >>> from judge import evaluate
        >>> result = evaluate(human="human.json", captions="mine.json")  # doctest: +SKIP
    """
    if corpus is not None:
        settings = _of_corpus(corpus) | _beside_corpus(corpus, settings)
    return run(make_config(settings, RunConfig), corpus=corpus, report=report)


_READING = {"human", "captions", "labels", "columns", "id_column", "label_column", "label_values", "split", "several"}


def _beside_corpus(corpus: Corpus, settings: dict[str, Any]) -> dict[str, Any]:
    """``settings``, if none of them says how to read what has been read already."""
    for key in settings:
        if key in _READING | {"refusals"}:
            raise JudgeError(f"'{key}' is for files, and a corpus is given", mend=f"give {key} to Corpus.read")
    of_labels = corpus.labels.attribute if corpus.labels else None
    if of_labels and settings.get("attribute", of_labels) != of_labels:
        raise JudgeError(f"labels are of '{of_labels}', not of '{settings['attribute']}'", mend="leave 'attribute' out")
    return settings


def _of_corpus(corpus: Corpus) -> dict[str, Any]:
    """What ``run.yaml`` says of a corpus that Python made: its sources, for the record."""
    found: dict[str, Any] = {
        "human": corpus.human.source or "in memory",
        "captions": {captions.name: captions.source or "in memory" for captions in corpus.generated},
    }
    if corpus.labels:
        found |= {"labels": corpus.labels.source or "in memory", "attribute": corpus.labels.attribute}
    return found


def run(config: RunConfig, *, corpus: Corpus | None = None, report: Report | None = None) -> Result:
    """Read, measure, and write the run's folder (where ``config.out`` names one).

    Raises:
        JudgeError: anything that the user can mend; nothing is left behind.
    """
    directory = RunDirectory(config.out, overwrite=config.overwrite) if config.out else None
    if directory:
        directory.check()
        directory.keep(config.inputs())
    lexicon = choose_lexicon(config)
    corpus = corpus or read_corpus(config, lexicon)
    plan, workshop = make_plan(config), make_workshop(config)
    if directory is None:
        return measure(corpus, plan, lexicon=lexicon, workshop=workshop, report=report)
    workshop = replace(workshop, store=directory.store)
    with directory.working():
        result = measure(corpus, plan, lexicon=lexicon, workshop=workshop, report=report, ready=directory.begin)
        if is_main_process():
            directory.finish(config.to_yaml(), result)
    return result


def choose_lexicon(config: LabelSettings) -> Lexicon | None:
    """The lexicon named, or the shipped one of the attribute; None where the attribute has no words to hide."""
    if config.lexicon == "none":
        return None
    if config.lexicon is None:
        return load_lexicon(config.attribute) if config.attribute in shipped_lexicons() else None
    return load_lexicon(config.lexicon)


def read_corpus(config: RunConfig, lexicon: Lexicon | None) -> Corpus:
    """The files that ``config`` names, as a corpus."""
    options = ReadOptions(split=config.split, columns=config.columns, several=config.several)
    if config.refusals is not None:
        options = replace(options, refusals=config.refusals)
    labels = labels_of(config, lexicon)
    return Corpus.read(human=config.human, captions=config.captions, labels=labels, options=options)


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


def make_plan(config: RunConfig) -> Plan:
    """The part of ``config`` that decides the numbers."""
    return Plan(
        metrics=config.metrics,
        judges=config.judge,
        protocol=config.protocol,
        seeds=config.seeds,
        folds=config.folds,
        first_seed=config.seed,
        text=TextOptions(config.contractions, config.text),
        resamples=config.resamples,
        level=config.level,
    )


def make_workshop(config: RunConfig) -> Workshop:
    """The part of ``config`` that says how judges are trained."""
    return Workshop(
        recipe=config.recipe(),
        sharing=config.sharing,
        mixed_precision=config.precision,
        workers=config.workers,
    )
