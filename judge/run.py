"""One run from files to a folder of results: what ``judge evaluate``, YAML and Python all call."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from judge.config import RunConfig, make_config
from judge.corpus import Corpus
from judge.corpus.labels import read_labels
from judge.corpus.reading import ReadOptions
from judge.evidence import TextOptions
from judge.lexicon import Lexicon, load_lexicon, shipped_lexicons
from judge.measure import Plan, Report, Result, measure
from judge.report.directory import RunDirectory
from judge.training.members import Workshop, is_main_process


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
        given = {"human": corpus.human.source or "human", "captions": {c.name: c.source for c in corpus.generated}}
        labels = {"labels": corpus.labels.source} if corpus.labels else {}
        settings = {**given, **labels, **settings}
    return run(make_config(settings), corpus=corpus, report=report)


def run(config: RunConfig, *, corpus: Corpus | None = None, report: Report | None = None) -> Result:
    """Read, measure, and write the run's folder (where ``config.out`` names one).

    Raises:
        JudgeError: anything that the user can mend; nothing is left behind.
    """
    directory = RunDirectory(config.out, overwrite=config.overwrite) if config.out else None
    if directory:
        directory.check()
    lexicon = choose_lexicon(config)
    corpus = corpus or read_corpus(config, lexicon)
    plan, workshop = make_plan(config), make_workshop(config)
    if directory is None:
        return measure(corpus, plan, lexicon=lexicon, workshop=workshop, report=report)
    with directory.working() as store:
        result = measure(corpus, plan, lexicon=lexicon, workshop=replace(workshop, store=store), report=report)
        if is_main_process():
            directory.finish(config.to_yaml(), result)
    return result


def choose_lexicon(config: RunConfig) -> Lexicon | None:
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
    labels = None
    if config.labels is not None:
        labels = read_labels(
            config.labels,
            attribute=config.attribute,
            lexicon=lexicon,
            id_column=config.id_column,
            label_column=config.label_column,
            spellings=config.label_values,
        )
    return Corpus.read(human=config.human, captions=config.captions, labels=labels, options=options)


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
