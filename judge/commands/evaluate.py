"""``judge evaluate``: one run from files to a folder of results; YAML and Python call the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from judge.commands import setup as from_settings
from judge.commands.caption import add_captions, models_to_caption
from judge.commands.console import say, show_progress
from judge.commands.images import RunImages, described_images
from judge.commands.unread import unread
from judge.config import make_config, values
from judge.config.inputs import HumanSettings, ShownSettings
from judge.config.judges import ScoredSettings
from judge.config.values import MaskMode
from judge.corpus import Corpus, is_table
from judge.corpus.attributes import parts_of
from judge.corpus.captions import KEYWORDS
from judge.corpus.files import Given
from judge.corpus.scores import read_human_scores, read_image_scores
from judge.corpus.splits import Protocol
from judge.errors import JudgeError, in_python, nearest, require
from judge.judges.names import HUGGING_FACE, SELF, find_judge, name_self, split_reference
from judge.judges.prompts import make_prompt
from judge.measure import Plan, measure
from judge.measure.jobs import choose_judges, lay_out
from judge.metrics import find_metric, spell_out
from judge.quality import ImageScores
from judge.report.directory import REPORT, RunDirectory, metrics_json
from judge.report.gate import GATE, read_condition
from judge.report.result import Result, result_of
from judge.report.sections import print_result
from judge.text.alignment import UNKNOWN
from judge.text.combined import AND
from judge.text.lexicon import Lexicon, spell
from judge.training.launch import in_main_process
from judge.training.scorer import find_saved
from judge.types import Captions, Doubt, Progress
from judge.utils.files import LOG, append, from_home
from judge.utils.launch import is_main_process
from judge.utils.options import option
from judge.utils.plugins import origin


class RunConfig(ScoredSettings, ShownSettings):
    """Options of ``judge evaluate``."""

    command = "judge evaluate"
    panel = "Output"

    breakdown: bool = option(False, "compute what tasks, images and words contribute to each metric", panel="Metrics")
    rewarded_by: dict[str, str] = option(
        {}, "judge that rewarded a captioner: its name, a file or hf://NAME; rows of such judges have no verdict",
        repeated="CAPTIONER=JUDGE", panel="Judges",
    )  # fmt: skip
    verbose: bool = option(False, "print all columns, tables, notes and warnings", exclude=True)
    format: Literal["table", "json"] = option("table", "what to print; json: metrics.json alone", exclude=True)
    fail_if: Annotated[tuple[str, ...], values.list_or_text(tuple)] = option(
        (), "exit with code 3 if a captioner meets this, e.g. 'lic > 0.05' (the lower end of the interval, of < the "
        "upper end); or of lic.value, lic.p", repeated="CONDITION",
    )  # fmt: skip


PathLike = str | Path


def evaluate(  # noqa: PLR0913 - the essential options of the command
    corpus: Corpus | None = None,
    *,
    attribute: str | Sequence[str] | None = None,
    human: Given | Sequence[PathLike] | None = None,
    captions: PathLike | Sequence[PathLike] | Mapping[str, Given] | None = None,
    labels: Given | None = None,
    models: str | Sequence[str] | Mapping[str, str] | None = None,
    images: PathLike | None = None,
    instances: PathLike | Sequence[PathLike] | None = None,
    detector: str | None = None,
    weights: str | Mapping[str, str] | None = None,
    mask: MaskMode | None = None,
    given: str | Sequence[str] | None = None,
    metrics: str | Sequence[str] | None = None,
    judge: str | Sequence[str] | None = None,
    lexicon: PathLike | Lexicon | Mapping[str, Any] | None = None,
    quality: bool | None = None,
    baseline: str | None = None,
    protocol: Protocol | None = None,
    seeds: int | None = None,
    refits: int | None = None,
    quick: bool | None = None,
    checkpoints: PathLike | None = None,
    out: PathLike | None = None,
    overwrite: bool | None = None,
    progress: Progress | None = None,
    **settings: Any,
) -> Result:
    """Measure bias amplification, as ``judge evaluate`` does.

    Every option of the command is a keyword of the same meaning (``--training epochs=3`` is ``epochs=3``); essential
    ones are named here, and None stands for their defaults. ``judge evaluate --help-all`` lists all.

    Args:
        corpus: captions and labels already read, in place of ``human``, ``captions`` and ``labels``.
        attribute: protected attribute, by default "gender"; several: the classes are their products.
        human: files of human captions, or a table in memory; see :meth:`judge.Corpus.read`.
        captions: files of captioners' captions, or name -> file or table in memory.
        labels: the class of each image, a file or a table in memory; by default derived from the human captions.
        models: checkpoints of captioners, or name -> checkpoint; those without ``captions`` caption ``images``.
        images: folder of images, for judges that use them.
        instances: files of the instances in these images (ground truth).
        detector: what finds people: "gt", "yolo", "maskrcnn", or "hf:NAME" (a Hugging Face model).
        weights: weights of the detector.
        mask: how much of each person is hidden.
        given: what conditional leakage knows of each image: "people" (by default), "objects", "image", or several.
        metrics: names of metrics, by default conditional leakage and LIC.
        judge: names of judges, by default "words+embedding".
        lexicon: the words to hide: a name, a file, {class: [words]} or a :class:`judge.Lexicon`; for several
            attributes {attribute: one of these}.
        quality: whether captions are scored too (BLEU, CIDEr, ...).
        baseline: captioner that the others are compared with, by default all pairs.
        protocol: "crossfit" or "paper".
        seeds: repetitions.
        refits: refits of each judge for tests and intervals.
        quick: a first look, with fewer folds, refits and draws.
        checkpoints: folder of trained judges to reuse and to add to.
        out: folder for the results; by default nothing is written.
        overwrite: replace earlier results in ``out``.
        progress: called with (what, units done, units in all).
        settings: any other option, e.g. ``folds=5``.

    Returns:
        The result; ``.table()`` is a pandas frame, ``.plot()`` a figure, ``.save(folder)`` writes all of it.

    Example:
        >>> from judge import evaluate
        >>> evaluate(human="human.json", captions="mine.json", metrics="lic", folds=5, refits=0)
        Result(mine: LIC (words+embedding))
    """
    named = locals()
    settings |= {name: named[name] for name in RunConfig.model_fields.keys() & named if named[name] is not None}
    if settings.keys() & {"fail_if", "format"}:
        raise JudgeError("'fail_if' and 'format' are of the command alone", mend="use the result that is returned")
    with in_python():
        if corpus is None and _in_memory(human, captions, labels, attribute or "gender"):
            corpus = _read_memory(settings)
        if corpus is not None:
            settings = _with_sources(corpus, settings)
        return run(make_config(with_text(settings), RunConfig, where=""), corpus=corpus, progress=progress)


def _read_memory(settings: dict[str, Any]) -> Corpus:
    """The corpus of tables in memory; the settings that say how to read it are taken out of ``settings``."""
    read = {name: settings.pop(name, None) for name in ("human", "captions", "labels", "objects", *KEYWORDS)}
    if read["captions"] is None:  # The captions that models will write may be the only ones.
        if not settings.get("models"):
            raise JudgeError("there are no captions", where="captions", mend="give captions={'mine': captions}")
        read["captions"] = {}
    attribute = None if read["labels"] is None else settings.get("attribute")
    lexicon = with_text(settings).get("lexicon")
    return Corpus.read(**read, attribute=attribute, lexicon=lexicon if isinstance(lexicon, str) else None)


def with_text(settings: Mapping[str, Any]) -> dict[str, Any]:
    """``settings``, with words in memory as text."""
    if "lexicon" not in settings:
        return dict(settings)
    names = settings.get("attribute", "gender")
    return {**settings, "lexicon": _spelled(settings["lexicon"], [names] if isinstance(names, str) else names)}


def _spelled(lexicon: Any, names: Sequence[str]) -> Any:
    """The setting ``lexicon`` with words in memory as text; ``names``: the attributes."""
    if isinstance(lexicon, Mapping) and {*lexicon} <= {*names} and (lexicon or len(names) > 1):
        return {name: _spelled(of, [name]) for name, of in lexicon.items()}
    return spell(lexicon, AND.join(names)) if isinstance(lexicon, Lexicon | Mapping) else str(lexicon)


def _in_memory(human: Any, captions: Any, labels: Any, attribute: str | Sequence[str]) -> bool:
    """Return whether captions or labels are tables; labels may also be attribute -> file."""
    names = {attribute} if isinstance(attribute, str) else {*attribute}
    by_attribute = isinstance(labels, Mapping) and {*labels} <= names
    if isinstance(captions, Mapping) and any(map(is_table, captions.values())):
        return True
    given = [human, None if isinstance(captions, Mapping) else captions, None if by_attribute else labels]
    return any(is_table(one, several=True) for one in given if one is not None)


# Settings that say how files are read.
_READING = {*HumanSettings.model_fields, "captions", "several", "refusals"}
_READING -= {"attribute", "lexicon", "label_least", "contractions", "text"}


def _with_sources(corpus: Corpus, settings: Mapping[str, Any]) -> dict[str, Any]:
    """``settings`` with the sources of a corpus made in Python, for ``run.yaml``; those that do not fit are refused."""
    if keys := sorted(settings.keys() & _READING):
        mend = "give it to Corpus.read, read_labels or read_tasks, whose results evaluate takes"
        raise JudgeError(f"'{keys[0]}' is for files, and captions are in memory", mend=mend)
    labels = {part.attribute: part for part in parts_of(corpus.labels)}
    known = list(labels)
    named = settings.get("attribute", known)
    named = [named] if isinstance(named, str) else list(named)
    # Labels of some of several attributes are enough: those of others may be derived.
    if known and named != known and (len(named) == 1 or not {*known} < {*named}):
        what = f"labels are of '{AND.join(known)}', not of '{AND.join(named)}'"
        mend = f"read the labels of '{named[0]}': Corpus.read(..., labels=..., attribute='{named[0]}')"
        if len(named) > 1:
            mend = "read the labels of each with read_labels, and give multiply_labels of them to Corpus.read"
        raise JudgeError(what, mend=mend)
    captions = {side.name: side.source or "in memory" for side in corpus.generated}
    found: dict[str, Any] = {"captions": captions}
    if not corpus.alone:
        found["human"] = corpus.human.source or "in memory"
    if labels:
        rule = "majority" if any(part.rule == "majority" for part in labels.values()) else "one"
        sources = {name: part.source or "in memory" for name, part in labels.items()}
        found |= {"labels": sources, "attribute": known, "label_rule": rule}
    return {**found, **settings}


def run(
    config: RunConfig,
    *,
    corpus: Corpus | None = None,
    progress: Progress | None = None,
    store: Path | None = None,
    examples: bool = True,
) -> Result:
    """Read, measure, and write the run's folder, if ``config.out`` names one.

    ``corpus``: captions and labels already read; ``store``: where answers of judges are kept and found, without their
    weights; ``examples``: whether the result has any.
    """
    config = from_settings.with_precision(config)
    directory = RunDirectory(config.out, overwrite=config.overwrite) if config.out else None
    if directory:
        in_main_process(lambda: directory.check(config.inputs()))
    models = models_to_caption(config, corpus)
    lexicons = from_settings.choose_lexicons(config)
    corpus = from_settings.complete_labels(corpus, {}, config) if corpus else from_settings.read_corpus(config)
    names = list(dict.fromkeys([*(captions.name for captions in corpus.generated), *config.models]))
    scores = _read_human_scores(config, names)
    rewards = _read_rewards(config, names)
    notes = [*corpus.notes, *map(Doubt, unread(config))]
    plan = replace(
        from_settings.make_plan(config), examples=examples, image_scores=_read_image_scores(config, corpus, names)
    )
    if config.checkpoints:
        from_settings.open_checkpoints(config.checkpoints)
    if directory:
        store = config.checkpoints or directory.store
    log = partial(append, directory.partial / LOG) if directory else None
    setup = from_settings.make_setup(config)
    setup = replace(setup, store=store or setup.store, log=log)
    images = RunImages(config, config.judge, progress)
    with directory.working() if directory else nullcontext():
        if models:
            # First all checks that could fail after hours of captioning.
            require("vision", "torch", "transformers", "PIL", "cv2", "pycocotools")
            human, plain = corpus.human.by_image, images.plain
            described = corpus.labels.by_image if corpus.alone and corpus.labels else human
            whose = "labels" if corpus.alone else "human captions"
            asked = described_images(plain.names, described, whose=whose, where=f"--images {plain.folder}")
            captions = {image: human.get(image, (name,))[:1] for image, name in asked.items()}
            placeholders = [Captions(name, captions, source=name) for name in models]
            lay_out(replace(corpus, generated=(*corpus.generated, *placeholders)), plan, lexicons)
            if uses_images(plan.metrics):
                images.hidden([])
            images.free()  # The captioner needs the memory.
            plain = replace(plain, names=asked)
            corpus = add_captions(config, corpus, models, plain, directory=directory, progress=progress)
        measured = measure(
            corpus,
            plan,
            lexicons=lexicons,
            setup=setup,
            open_images=images.hidden if config.images else None,
            progress=progress,
            # Captions are written into a folder that has been begun.
            ready=directory.begin if directory and not models else None,
        )
        about = describe_images(config, plan, lexicons.attribute) | images.masks | scores
        about |= {"input_notes": [*notes, *images.notes]}
        about["captioners"] = {name: of | rewards.get(name, {}) for name, of in measured.run["captioners"].items()}
        measured = replace(measured, run={**measured.run, **about})
        pictures = images.of_examples(measured.examples) if is_main_process() else {}
        result = result_of(measured, config.to_yaml(), pictures)
        if directory and is_main_process():
            directory.finish(result.settings, result, pictures)
    return result


def _read_human_scores(config: RunConfig, captioners: Sequence[str]) -> dict[str, Any]:
    if config.human_scores is None:
        return {}
    scores = read_human_scores(config.human_scores, captioners=captioners)
    return {"human_scores": {name: scores[name] for name in captioners}}


def _check_captioner(name: str, captioners: list[str], where: str) -> None:
    if name not in captioners:
        raise JudgeError(f"no captioner is called '{name}'", where=where, mend=nearest(name, captioners))


def _read_image_scores(config: RunConfig, corpus: Corpus, captioners: list[str]) -> Mapping[str, ImageScores]:
    """Captioner -> its scores image by image; refuses those of no image that the captioner describes."""
    described, found = {captions.name: captions.by_image for captions in corpus.generated}, {}
    for captioner, path in config.quality_scores.items():
        where = f"--quality-scores {captioner}={path}"
        _check_captioner(captioner, captioners, where)
        found[captioner] = read_image_scores(path)
        images = {image for of in found[captioner].values() for image in of}
        if captioner in described and images.isdisjoint(described[captioner]):
            what = f"scores none of the images that {captioner} describes"
            raise JudgeError(what, where=where, mend="check that they name images alike")
    return found


def _read_rewards(config: RunConfig, captioners: list[str]) -> dict[str, dict[str, str]]:
    """Captioner -> {"rewarded_by": the kind of judge that rewarded it}."""
    found = {}
    for captioner, judge in config.rewarded_by.items():
        _check_captioner(captioner, captioners, where := f"--rewarded-by {captioner}={judge}")
        is_saved = judge.startswith("hf://") or from_home(judge).exists()
        kind = find_saved(judge, where=where).judge if is_saved else find_judge(judge).name
        found[captioner] = {"rewarded_by": kind.partition(":")[0]}
    return found


def describe_images(config: RunConfig, plan: Plan, lexicon: Lexicon | None) -> dict[str, Any]:
    """Settings that the numbers of judges that see images depend on, for ``metrics.json`` and the notes."""
    if not uses_images(plan.metrics):
        return {}
    names = ["mask", "image_features"]
    rows = [row for row in map(find_metric, spell_out(plan.metrics)) if row.uses_images]
    judges = dict.fromkeys(judge for row in rows if not row.given for judge in choose_judges(row, config.judge))
    read = {option for judge in judges for option in find_judge(judge).options}
    if any(row.given for row in rows) or any(find_judge(judge).backbone for judge in judges):
        names += ["backbone", "backbone_weights", "image_size", "reader"]
    if any(judge.startswith((HUGGING_FACE, SELF)) for judge in config.judge):
        names += ["tuning", "dtype", "attn_implementation"]
    if config.mask != "none":
        names += ["detector", "hide", "category", "fill", "dilation", "foreground"]
    prompt = make_prompt(" and ".join(config.attributes), config.template, config.answers)
    settings = {name: value for name, value in config.model_dump(mode="json").items() if name in names}
    # What Hugging Face captioners that read captions read for our tokens.
    words: dict[str, dict[str, str]] = {}
    captioners = {**config.captions, **config.models}
    for name in {name_self(judge, name, plan.models): None for judge in config.judge for name in captioners}:
        if name.startswith(HUGGING_FACE) and "caption" not in find_judge(name).blanked:
            from judge.judges.huggingface import read_for

            reference = split_reference(name)[1]
            with suppress(JudgeError):  # Where answers come from a store, the checkpoint may be gone.
                words[HUGGING_FACE + reference] = read_for(reference, [*([lexicon.token] if lexicon else []), UNKNOWN])
    prompted = {"template": prompt.template, "answers": dict(prompt.answers), "answer_softmax": config.answer_softmax}
    prompted = {name: value for name, value in prompted.items() if name in read}
    plugin = {"plugin": owner} if (owner := origin("detectors", settings.get("detector", ""))) else {}
    return {"sight": settings | prompted | plugin | ({"read_for": words} if words else {})}


def uses_images(metrics: Sequence[str]) -> bool:
    """Whether any of these metrics asks a judge that sees images."""
    return any(find_metric(name).uses_images for name in spell_out(metrics))


def command(config: RunConfig) -> int:
    """Measure how much captioners amplify the bias of human captions.

    Prints a table and leaves in --out: report.html (a page to look at), run.yaml (settings), metrics.json, log.jsonl,
    scores.parquet (judges' answers), counts.parquet (counts of captions), replicates.parquet (values on parts of the
    data, for intervals and tests) and examples.parquet.
    """
    as_json, conditions = config.format == "json", [read_condition(text, config.metrics) for text in config.fail_if]
    if is_main_process():
        say(notes=from_settings.precision_notes(config), err=as_json)
    with show_progress() as progress:
        result = run(config, progress=progress)
    met = [line for condition in conditions for line in condition(result)]
    if is_main_process():
        if as_json:
            typer.echo(metrics_json(result), nl=False)
        else:
            print_result(result, folder=config.out, verbose=config.verbose)
        assert config.out, "the command has a default"
        say("", f"The results are in {config.out}; look at {config.out / REPORT}", err=as_json)
        say(*(f"judge: {line}" for line in met), err=True)
    return GATE if met else 0
