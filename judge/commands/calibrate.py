"""``judge calibrate``: how metrics respond to known doses of bias, and to none.

Metrics of captions are measured on a user's own captions; those that use images on drawn scenes.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import pandas as pd

from judge.calibration.doses import CHANGES, NOTHING, DoseSource, check_change, check_dose
from judge.calibration.response import Calibration, Key, calibrate
from judge.calibration.trials import (
    PIXELS,
    SIMULATED,
    WHOLE,
    Design,
    caption_trials,
    scene_trials,
    true_rise,
    whole_trials,
)
from judge.calibration.world import CLASSES
from judge.commands.console import say, show_progress
from judge.commands.demo import QUICK
from judge.commands.evaluate import RunConfig
from judge.commands.images import load_detector
from judge.commands.setup import choose_lexicon, make_setup, read_corpus, with_precision
from judge.commands.trials import COUNTED, Job, Row, measure_trials
from judge.commands.unread import log_unread
from judge.config import OutputSettings, make_config, shared_settings
from judge.config.inputs import NetworkSettings
from judge.config.judges import JudgedSettings
from judge.config.values import HUMAN, MASK, RESAMPLES, RESULTS, Files, MaskMode, Names, Share, list_or_text, names
from judge.errors import JudgeError, require
from judge.evidence import EvidenceBuilder
from judge.judges import DEFAULT_JUDGE, SELF, find_judge
from judge.masking.instances import PERSON
from judge.measure.jobs import choose_judges
from judge.metrics import find_metric, spell_out
from judge.report.calibration import calibration_json, calibration_tables, draw_calibration, title, verdict
from judge.report.render import open_console, print_table, print_text
from judge.text.combined import load_tasks
from judge.text.lexicon import Lexicons
from judge.text.tokens import SEGMENTED
from judge.training.launch import in_main_process
from judge.types import Progress
from judge.utils.identity import content_of
from judge.utils.launch import is_main_process, launched
from judge.utils.options import option
from judge.utils.outputs import OutputFolder


class CalibrateConfig(OutputSettings, NetworkSettings, JudgedSettings):
    """Options of ``judge calibrate``; it reads the file of ``judge evaluate`` too."""

    command = "judge calibrate"
    launched = True
    panel = "Calibration"
    shares = RunConfig.model_fields.keys()

    human: Files | None = option(None, f"{HUMAN}; for metrics of captions", repeated="PATH", essential=True)
    metrics: Names = option(
        ("lic", "leakage"),
        "comma-separated: lic, leakage, u, dbac, dpac; counted: ba, ba-objects, dba, multi, dpa, ratio, error; on "
        "drawn scenes, as doses leave your images alone: imagecaptioner2, imagecaptioner2-ratio, vl-lic",
        essential=True, min_length=1, validate_default=True,
    )  # fmt: skip
    judge: Names = option(
        (DEFAULT_JUDGE,),
        "comma-separated: words+embedding, embedding, linear (words), lstm, bert-ft, sentence:NAME ...; of images: "
        "sat, sat-512, grit, vl-lic, vl-lic-lstm, hf:NAME",
        "words+embedding; for images the metric's own", essential=True, min_length=1, validate_default=True,
    )  # fmt: skip
    changes: Annotated[tuple[str, ...], list_or_text(names)] = option(
        (*CHANGES,),
        "comma-separated: A->T, T->A; without bias: vocabulary, silence, brevity, repetition, verbosity, paraphrase "
        "(the last three not on drawn scenes)", essential=True, min_length=1,
    )  # fmt: skip
    doses: Annotated[tuple[Share, ...], list_or_text(names)] = option(
        (0.1, 0.2, 0.4, 0.8), "comma-separated sizes of each change, from 0 to 1", essential=True, min_length=1
    )
    draws: int = option(5, "draws of images for each dose", essential=True, ge=2)
    nulls: int = option(60, "draws of images in which nothing is amplified", essential=True, ge=2)
    sample: int | None = option(None, "images in a draw", "a third of all, 200 at least and 900 at most", ge=20)
    scenes: int = option(1200, "drawn scenes in a draw, for metrics that use images; of few nothing is found", ge=20)
    scene_draws: int = option(2, "draws of scenes for each dose", ge=2)
    scene_nulls: int = option(6, "draws of scenes in which nothing is amplified", ge=2)
    mask: MaskMode = option("segment", MASK, panel="Images")
    detectors: Names = option(
        ("gt",), "what finds people in scenes, comma-separated: gt, yolo, maskrcnn, hf:X", essential=True, min_length=1
    )
    backbone: str | None = option(None, "timm name of the image backbone", "resnet18")
    backbone_weights: str = option("random", "backbone weights: pretrained (from timm), random, or a file")
    image_size: int | None = option(None, "image side in pixels, for the backbone", "160, as scenes are drawn", ge=32)
    epochs: int | None = option(None, "training epochs", "the judge's own; on scenes 12", ge=1)
    batch_size: int | None = option(None, "samples per step", "the judge's own; on scenes 32", ge=1)
    learning_rate: float | None = option(None, "learning rate", "the judge's own; on scenes 0.001", gt=0)
    folds: int = option(5, "folds of crossfit", ge=2, le=10_000)
    resamples: int = option(2000, RESAMPLES, panel="Statistics", ge=100)
    refits: int = option(
        0, "refits of each judge for tests and intervals; 0: from folds", panel="Statistics", ge=0, le=1000
    )
    out: Path = option(..., RESULTS, "runs/calibration", essential=True)


Group = tuple[tuple[str, ...], str]
"""(metrics, judge): metrics that share their judges, by judge; all counted ones."""


def calibrate_metrics(config: CalibrateConfig, *, progress: Progress | None = None) -> list[Calibration]:
    """Measure captions without any amplification, and with known doses of bias; write the results to ``config.out``.

    A command that was killed, or met an error, goes on from the trials that are done.
    """
    config = with_precision(config)
    if len(config.attributes) > 1:
        # A dose moves captions from one class to another, so that products of attributes would need many doses.
        what = f"doses are of one attribute, not of {config.attribute_name}"
        raise JudgeError(what, where="--attribute", mend="calibrate each attribute alone")
    folder = OutputFolder(config.out, what="calibration", command=config.command, overwrite=config.overwrite)
    in_main_process(lambda: folder.check(config.inputs()))
    for change in config.changes:
        check_change(change)
    of_captions, of_images = _groups(config)
    # Scenes first, as their faults are found quickly.
    on_scenes = _scene_jobs(config, of_images, folder.store) if of_images else []
    jobs = [*(_caption_jobs(config, of_captions, folder.store) if of_captions else ()), *on_scenes]
    log_unread(config)
    in_main_process(folder.begin)
    with folder.working():
        rows = measure_trials(jobs, folder, workers=config.workers, progress=progress)
        found = calibrate(*_tables(rows, config))
        if is_main_process():
            with folder.writing():
                (folder.partial / "calibration.json").write_text(calibration_json(found), encoding="utf-8")
                (folder.partial / "calibrate.yaml").write_text(config.to_yaml(), encoding="utf-8")
                for kind in ("png", "svg"):
                    (folder.partial / f"calibration.{kind}").write_bytes(draw_calibration(found, kind))
                # Without seconds: the same trials give the same file.
                pd.DataFrame(rows).drop(columns="seconds").to_parquet(folder.partial / "trials.parquet", index=False)
                folder.log("finished", seconds={title(row): round(row.seconds, 2) for row in found})
            folder.publish()
    return found


def _groups(config: CalibrateConfig) -> tuple[list[Group], list[Group]]:
    """What is measured on captions, and what on drawn scenes."""
    rows = [find_metric(name) for name in spell_out(config.metrics)]
    one_sided = [row for row in rows if row.amplification == "one_side"]
    if one_sided:
        others = ",".join(row.name for row in rows if row not in one_sided)
        mend = f"calibrate the others: --metrics {others}" if others else "choose metrics that compare two sides"
        what = f"{one_sided[0].title} has one side, so no amplification"
        raise JudgeError(what, where="--metrics", mend=mend)
    shared: dict[tuple[object, ...], list[str]] = {}
    for row in rows:
        if not row.counted:
            shared.setdefault(row.training, []).append(row.name)
    of_captions, of_images = list[Group](), list[Group]()
    for names_of in shared.values():
        row = find_metric(names_of[0])
        groups = of_images if row.uses_images else of_captions
        groups += [(tuple(names_of), judge) for judge in choose_judges(row, config.judge)]
    counted = tuple(row.name for row in rows if row.counted)
    return [*of_captions, *([(counted, COUNTED)] if counted else [])], of_images


def _caption_jobs(config: CalibrateConfig, groups: Sequence[Group], store: Path) -> Iterator[Job]:
    """Trials on the captions that are given."""
    words = Lexicons(choose_lexicon(config), load_tasks(config.tasks))
    if words.attribute and words.attribute.language in SEGMENTED:
        raise JudgeError("doses change words between spaces", where="--lexicon", mend="give captions with spaces")
    if config.human is None:
        raise JudgeError("'human' is missing", where=config.command, mend="give --human, or 'human:' in the YAML file")
    given = {name: value for name, value in shared_settings(config, RunConfig).items() if value is not None}
    corpus = read_corpus(make_config(given, RunConfig, where=config.command))
    builder = EvidenceBuilder(corpus, words, least=config.label_least)
    labels, tasks = builder.truth.labels, corpus.tasks
    assert words.tasks is not None
    source = DoseSource(corpus.human, labels, words.attribute, words.tasks)
    if tasks is None and any(find_metric(name).reads_tasks for name in spell_out(config.metrics)):
        tasks, _ = builder.find_tasks(list(source.captions))
    corpus = replace(corpus, labels=labels, tasks=tasks)
    for change in config.changes:
        check_dose(source, change, max(config.doses))
    settings = _settings(config)
    lexicons = [lexicon for lexicon in (words.attribute, words.tasks) if lexicon]
    entries = [{name: sorted(listed) for name, listed in lexicon.classes.items()} for lexicon in lexicons]
    digest = _digest(settings, entries, [sorted(lexicon.hidden_only) for lexicon in lexicons])
    images = config.sample or min(900, max(200, len(source.captions) // 3))
    design = Design(config.changes, config.doses, config.draws, config.nulls, images, config.seed)
    trials = list(caption_trials(corpus, source, design))
    for metrics, judge in groups:
        whole = whole_trials(corpus, source, design, reduced=judge != COUNTED)
        yield from (Job(trial, metrics, judge, settings, digest, store / "all") for trial in whole)
    for trial in trials:
        for metrics, judge in groups:
            yield Job(trial, metrics, judge, settings, digest, store / str(trial.draw))


def _scene_jobs(config: CalibrateConfig, groups: Sequence[Group], store: Path) -> list[Job]:
    """Trials on drawn scenes; first those that train the judges of human captions for all doses of a draw."""
    require("images", "cv2", "PIL", "pycocotools")
    settings = _settings(config) | {
        # What users say of their own captions is not true of scenes; people alone are hidden in them.
        "human": Path("drawn scenes"),
        "attribute": "gender",
        "hide": PERSON,
        "foreground": "all",
        **dict.fromkeys(("lexicon", "labels", "objects", "category")),
    }
    # The demo's settings, where none are given.
    quick = {"backbone", "image_size", "epochs", "learning_rate", "batch_size"}
    settings |= {name: value for name, value in QUICK.items() if name in quick and getattr(config, name) is None}
    names_of = config.detectors if config.mask != "none" else ("none",)
    detectors = {
        name: "" if name in {"gt", "none"} else load_detector(name, config, (PERSON,))[0].key for name in names_of
    }
    # The judges' backbones are made once before the work: weights may be missing, the prompt may be wrong.
    materials = make_setup(make_config({**settings, "captions": {"x": "in memory"}}, RunConfig)).materials
    assert materials.prompt is not None
    materials.prompt.check(CLASSES)
    for _, name in groups:
        if name.startswith(SELF):
            what = "simulated captioners have no checkpoint that could judge itself"
            raise JudgeError(what, where=f"--judge {name}", mend="leave it out")
        if backbone := find_judge(name).backbone:
            backbone(materials)
    changes = [name for name in config.changes if name in SIMULATED]
    if not changes:
        what = f"drawn scenes have no {' or '.join(config.changes)}"
        raise JudgeError(what, where="--changes", mend=f"name one of {', '.join(SIMULATED)}")
    design = Design(changes, config.doses, config.scene_draws, config.scene_nulls, config.scenes, config.seed)
    jobs = []
    for trial in scene_trials(design):
        for masks, key in detectors.items():
            own = settings if masks == "none" else settings | {"detector": masks}
            digest, of_draw = _digest(own, key, PIXELS), store / f"scenes-{trial.draw}"
            jobs += [Job(trial, metrics, judge, own, digest, of_draw, masks) for metrics, judge in groups]
    return sorted(jobs, key=lambda job: job.trial.change != NOTHING or job.trial.draw >= design.draws)


def _settings(config: CalibrateConfig) -> dict[str, Any]:
    """The settings of the run that measures a trial, without those that say which trials there are, or where."""
    given = shared_settings(config, RunConfig)
    settings = {name: value for name, value in given.items() if name not in {"metrics", "judge", "out", "overwrite"}}
    return settings | {"chance": 0, "level": 0.95, "typical": False, "workers": None if launched() else 1}


def _digest(settings: Mapping[str, Any], *parts: object) -> str:
    """A digest of what all trials depend on: settings, the files that they name, and ``parts``."""
    paths = [str(settings[name]) for name in ("vectors", "backbone_weights") if settings[name]]
    files = [content_of(path) for path in paths if Path(path).exists()]
    files += [content_of(settings["reader"], where="--reader")] if settings["reader"] else []
    known = {name: value for name, value in settings.items() if name != "workers"}
    return json.dumps([known, files, *parts], sort_keys=True, default=str)


def _tables(rows: Sequence[Row], config: CalibrateConfig) -> tuple[pd.DataFrame, dict[Key, float]]:
    """Trials, and what each dose is worth: in closed form, or its value on all images less that without any."""
    table = pd.DataFrame(rows)
    numbers = ["dose", "value", "error", "low", "high", "p", "seconds"]
    table[numbers] = table[numbers].astype(float)
    whole = {_key(row): row["value"] for row in rows if row["draw"] == WHOLE}
    worth = {}
    for key, value in whole.items():
        start = whole.get((NOTHING, 0.0, *key[2:]))
        if key[0] != NOTHING and value is not None and start is not None:
            worth[key] = value - start
    # Where other things than people are hidden, or people are not, what an optimal judge sees is not known.
    if config.mask == "segment":
        for change, dose, metric, judge, masks in {_key(row): None for row in rows if row["masks"] and row["dose"]}:
            rise = true_rise(find_metric(metric), change, dose, blanked=find_judge(judge).blanked)
            worth[change, dose, metric, judge, masks] = rise
    return table[table["draw"] != WHOLE].reset_index(drop=True), worth


def _key(row: Row) -> Key:
    return row["change"], row["dose"], row["metric"], row["judge"], row["masks"]


def command(config: CalibrateConfig) -> None:
    """Measure metrics on data whose amplification is known: your own human captions, changed by known doses.

    Human captions are compared with other human captions of the same images, with nothing amplified, and with doses of
    stereotypes (A->T, T->A) or of changes that are no bias. Metrics that use images are measured on drawn scenes, whose
    simulated captioners have such doses: a trial takes 90 seconds of one core or more, and each detector has its own.
    Leaves a table, a figure of response curves and calibration.json in --out.
    """
    # A trial of a large judge takes minutes.
    with show_progress(period=3600) as progress:
        found = calibrate_metrics(config, progress=progress)
    if is_main_process():
        for table in calibration_tables(found):
            print_table(table)
            say("")
        for row in found:
            print_text(verdict(row), open_console())
        say(f"Everything is in {config.out}")
