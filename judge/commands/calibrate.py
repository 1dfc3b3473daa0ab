"""``judge calibrate``: how metrics answer to known doses of bias, and to none.

Metrics of captions are measured on a user's own captions; those that use images on drawn scenes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from judge.calibration.doses import NOTHING, DoseSource, check_change, check_dose
from judge.calibration.response import Calibration, Key, calibrate
from judge.calibration.trials import PIXELS, WHOLE, Design, caption_trials, scene_trials, true_rise, whole_trials
from judge.calibration.world import CLASSES
from judge.commands.console import say, show_progress
from judge.commands.demo import QUICK
from judge.commands.evaluate import make_setup, read_corpus, with_precision
from judge.commands.labels import choose_lexicon
from judge.commands.pictures import load_detector
from judge.commands.trials import COUNTED, Job, Row, measure_trials
from judge.commands.unread import tell_unread
from judge.config import CalibrateConfig, RunConfig, make_config
from judge.corpus import Corpus
from judge.errors import JudgeError, require
from judge.evidence import EvidenceBuilder
from judge.judges import SELF, find_judge
from judge.masking.instances import PERSON
from judge.measure.jobs import choose_judges
from judge.metrics import find_metric, spell_out
from judge.report.calibration import calibration_json, draw_calibration, title
from judge.text.combined import load_tasks
from judge.text.lexicon import Lexicons
from judge.training.launch import in_main_process
from judge.types import Progress
from judge.utils.files import fingerprint_of
from judge.utils.launch import is_main_process, launched
from judge.utils.outputs import ResumableFolder

RESULTS = "calibration.json"
Group = tuple[tuple[str, ...], str]
"""(metrics, judge): metrics that share their judges, by judge; all counted ones."""


def calibrate_metrics(config: CalibrateConfig, *, progress: Progress | None = None) -> list[Calibration]:
    """Measure captions without any amplification, and with known doses of bias.

    Writes ``calibration.json``, ``calibration.png``, ``calibration.svg``, ``trials.parquet`` and ``calibrate.yaml`` to
    ``config.out``. A command that was killed, or met an error, goes on from the trials that are done.

    Raises:
        JudgeError: anything that the user can mend.
    """
    config = with_precision(config)
    if len(config.attributes) > 1:
        # A dose moves captions from one class to another: of one attribute, or there would be as many kinds of bias.
        what = f"doses are of one attribute, not of {config.attribute_name}"
        raise JudgeError(what, where="--attribute", mend="calibrate each attribute alone")
    folder = ResumableFolder(config.out, what="calibration", command=config.command, overwrite=config.overwrite)
    in_main_process(lambda: folder.check(config.inputs()))
    for change in config.changes:
        check_change(change)
    read, seen = _groups(config)
    # What is quickly refused first.
    on_scenes = _of_scenes(config, seen, folder.store) if seen else []
    work = [*(_of_captions(config, read, folder.store) if read else ()), *on_scenes]
    tell_unread(config)
    in_main_process(folder.begin)
    with folder.working():
        rows = measure_trials(work, folder, workers=config.workers, progress=progress)
        found = calibrate(*_tables(rows, config))
        if is_main_process():
            _finish(found, rows, config, folder)
    return found


def _groups(config: CalibrateConfig) -> tuple[list[Group], list[Group]]:
    """What is measured on captions, and what on drawn scenes."""
    rows = [find_metric(name) for name in spell_out(config.metrics)]
    for row in rows:
        if row.amplification == "one_side":
            what = f"{row.title} has one side, so no amplification"
            others = ",".join(other.name for other in rows if other.amplification != "one_side")
            mend = f"calibrate the others: --metrics {others}" if others else "choose metrics that compare two sides"
            raise JudgeError(what, where="--metrics", mend=mend)
    shared: dict[tuple[object, ...], list[str]] = {}
    for row in rows:
        if not row.counted:
            shared.setdefault(row.training, []).append(row.name)
    read, seen = list[Group](), list[Group]()
    for names in shared.values():
        row = find_metric(names[0])
        side = seen if row.uses_images else read
        side += [(tuple(names), judge) for judge in choose_judges(row, config.judge)]
    counted = tuple(row.name for row in rows if row.counted)
    return [*read, *([(counted, COUNTED)] if counted else [])], seen


def _of_captions(config: CalibrateConfig, groups: Sequence[Group], store: Path) -> Iterator[Job]:
    """Trials on the captions that are given."""
    corpus, words, source = _read(config)
    for change in config.changes:
        check_dose(source, change, max(config.doses))
    settings = _settings(config)
    lexicons = [lexicon for lexicon in (words.attribute, words.tasks) if lexicon]
    entries = [{name: sorted(of) for name, of in lexicon.classes.items()} for lexicon in lexicons]
    digest = _digest(settings, entries, [sorted(lexicon.hidden_only) for lexicon in lexicons])
    images = config.sample or min(900, max(200, len(source.captions) // 3))
    design = Design(config.changes, config.doses, config.draws, config.nulls, images, config.seed)
    trials = list(caption_trials(corpus, source.labels, source, design))
    for metrics, judge in groups:
        whole = whole_trials(corpus, source.labels, source, design, reduced=judge != COUNTED)
        yield from (Job(trial, metrics, judge, settings, digest, store / "all") for trial in whole)
    for trial in trials:
        for metrics, judge in groups:
            yield Job(trial, metrics, judge, settings, digest, store / str(trial.draw))


def _read(config: CalibrateConfig) -> tuple[Corpus, Lexicons, DoseSource]:
    """People's captions with labels and tasks, words, and what changes are made of.

    Labels and tasks that are not given are taken from all captions: those of one side alone would favour it.
    """
    words = Lexicons(choose_lexicon(config), load_tasks(config.tasks))
    given = {name: getattr(config, name) for name in RunConfig.model_fields if getattr(config, name) is not None}
    corpus = read_corpus(make_config(given, RunConfig, where=config.command))
    builder = EvidenceBuilder(corpus, words, least=config.label_least)
    labels = builder.truth.labels
    assert words.tasks is not None
    source = DoseSource(corpus.human, labels, words.attribute, words.tasks)
    tasks = corpus.tasks
    if tasks is None and any(find_metric(name).reads_tasks for name in spell_out(config.metrics)):
        tasks, _ = builder.find_tasks(list(source.captions))
    return replace(corpus, labels=labels, tasks=tasks), words, source


def _of_scenes(config: CalibrateConfig, groups: Sequence[Group], store: Path) -> list[Job]:
    """Trials on drawn scenes: first those that train the judges of human captions for all doses of a draw.

    Raises:
        JudgeError: a detector, a judge or its backbone cannot be used.
    """
    require("images", "cv2", "PIL", "pycocotools")
    settings = _settings(config) | _ABOUT_SCENES
    settings |= {name: value for name, value in QUICK.items() if name in _HASTE and getattr(config, name) is None}
    detectors = {"none": ""}
    if config.mask != "none":
        detectors = {
            name: "" if name == "gt" else load_detector(name, config, (PERSON,))[0].key for name in config.detectors
        }
    _check_judges(make_config({**settings, "captions": {"x": "in memory"}}, RunConfig), groups)
    design = Design(config.changes, config.doses, config.scene_draws, config.scene_nulls, config.scenes, config.seed)
    jobs = []
    for trial in scene_trials(design):
        for masks, key in detectors.items():
            own = settings if masks == "none" else settings | {"detector": masks}
            digest, of_draw = _digest(own, key, PIXELS), store / f"scenes-{trial.draw}"
            jobs += [Job(trial, metrics, judge, own, digest, of_draw, masks) for metrics, judge in groups]
    return sorted(jobs, key=lambda job: job.trial.change != NOTHING or job.trial.draw >= design.draws)


def _check_judges(config: RunConfig, groups: Sequence[Group]) -> None:
    """Make the judges' backbones once before the work: weights may be missing, the prompt may be wrong."""
    materials = make_setup(config).materials
    assert materials.prompt is not None
    materials.prompt.check(CLASSES)
    materials.prompt.words(CLASSES)
    for _, name in groups:
        if name.startswith(SELF):
            what = "simulated captioners have no checkpoint that could judge itself"
            raise JudgeError(what, where=f"--judge {name}", mend="leave it out")
        judge = find_judge(name)
        if judge.backbone:
            judge.backbone(materials)


def _settings(config: CalibrateConfig) -> dict[str, Any]:
    """Of the run that measures a trial."""
    settings = {name: getattr(config, name) for name in RunConfig.model_fields.keys() - _OF_THE_COMMAND}
    return settings | {"chance": 0, "level": 0.95, "workers": None if launched() else 1}


# Settings that say which trials there are, or where things are.
_OF_THE_COMMAND = {
    *("captions", "models", "metrics", "judge", "out", "overwrite", "verbose", "quality", "human_scores", "breakdown"),
}
# What users say of their own captions is not true of scenes; people alone are hidden in them.
_ABOUT_SCENES = {
    "human": Path("drawn scenes"),
    "attribute": "gender",
    "lexicon": None,
    "labels": None,
    "objects": None,
    "hide": PERSON,
    "category": None,
    "foreground": "all",
}
# Settings of the demo's judges, where none are given.
_HASTE = {"backbone", "image_size", "epochs", "learning_rate", "batch_size"}


def _digest(settings: Mapping[str, Any], *parts: object) -> str:
    """Of everything that all trials depend on: settings, the files that they name, and ``parts``."""
    files = []
    for name in ("vectors", "backbone_weights", "reader"):
        path = Path(str(settings[name] or "").removeprefix("hf:"))
        files.append(path.stat().st_mtime_ns if path.is_file() else fingerprint_of(str(path)))
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


def _finish(
    found: Sequence[Calibration], rows: Sequence[Row], config: CalibrateConfig, folder: ResumableFolder
) -> None:
    """Write the results and give the folder its name."""
    with folder.writing():
        (folder.partial / RESULTS).write_text(calibration_json(found), encoding="utf-8")
        (folder.partial / "calibrate.yaml").write_text(config.to_yaml(), encoding="utf-8")
        for kind in ("png", "svg"):
            (folder.partial / f"calibration.{kind}").write_bytes(draw_calibration(found, kind))
        # Without seconds: the same trials give the same file.
        pd.DataFrame(rows).drop(columns="seconds").to_parquet(folder.partial / "trials.parquet", index=False)
        folder.log("finished", seconds={title(row): round(row.seconds, 2) for row in found})
    folder.publish()


def command(config: CalibrateConfig) -> None:
    """Measure metrics on data whose amplification is known: your own human captions, changed by known doses.

    People's captions are measured against other people's, with nothing amplified, and with doses of stereotypes (A->T,
    T->A) or of changes that are no bias. Metrics that use images are measured on drawn scenes, whose simulated
    captioners have such doses: a trial takes 90 seconds of one core or more, and each detector has trials of its own.
    Leaves a table, a figure of response curves and calibration.json in --out.
    """
    from judge.report.calibration import calibration_tables, verdict
    from judge.report.render import open_console, print_table, print_text
    from judge.utils.launch import is_main_process

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
