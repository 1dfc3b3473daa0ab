"""``judge calibrate``: how metrics of captions respond to known doses of bias, and to none."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import pandas as pd

from judge.calibration.doses import CHANGES, DoseSource, check_change, check_dose
from judge.calibration.response import Calibration, calibrate
from judge.calibration.trials import Design, caption_trials
from judge.commands.console import say, show_progress
from judge.commands.evaluate import RunConfig
from judge.commands.setup import choose_lexicon, read_corpus, with_precision
from judge.commands.trials import COUNTED, Job, measure_trials
from judge.commands.unread import log_unread
from judge.config import OutputSettings, make_config, shared_settings
from judge.config.judges import JudgedSettings
from judge.config.values import RESAMPLES, RESULTS, Names, Share, list_or_text, names
from judge.errors import JudgeError
from judge.evidence import EvidenceBuilder
from judge.judges.names import DEFAULT_JUDGE
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


class CalibrateConfig(OutputSettings, JudgedSettings):
    """Options of ``judge calibrate``; it reads the file of ``judge evaluate`` too."""

    command = "judge calibrate"
    launched = True
    panel = "Calibration"
    shares = RunConfig.model_fields.keys()

    metrics: Names = option(
        ("lic", "leakage"), "comma-separated: lic, leakage, u, dbac, dpac; counted: ba, ba-objects, dba, multi, dpa, "
        "ratio, error", essential=True, min_length=1, validate_default=True,
    )  # fmt: skip
    judge: Names = option(
        (DEFAULT_JUDGE,), "comma-separated: words+embedding, embedding, linear (words), lstm, bert-ft, sentence:NAME "
        "...", "words+embedding", essential=True, min_length=1, validate_default=True,
    )  # fmt: skip
    changes: Annotated[tuple[str, ...], list_or_text(names)] = option(
        (*CHANGES,), "comma-separated: A->T, T->A; without bias: vocabulary, silence, brevity", essential=True,
        min_length=1,
    )  # fmt: skip
    doses: Annotated[tuple[Share, ...], list_or_text(names)] = option(
        (0.1, 0.2, 0.4, 0.8), "comma-separated sizes of each change, from 0 to 1", essential=True, min_length=1
    )
    draws: int = option(5, "draws of images for each dose", essential=True, ge=2)
    nulls: int = option(60, "draws of images in which nothing is amplified", essential=True, ge=2)
    sample: int | None = option(None, "images in a draw", "a third of all, 200 at least and 900 at most", ge=20)
    folds: int = option(5, "folds of crossfit", ge=2, le=10_000)
    resamples: int = option(2000, RESAMPLES, panel="Statistics", ge=100)
    refits: int = option(
        0, "refits of each judge for tests and intervals; 0: from folds", panel="Statistics", ge=0, le=1000
    )
    out: Path = option(..., RESULTS, "runs/calibration", essential=True)


_NUMBERS = ["dose", "value", "error", "low", "high", "p", "seconds"]
Group = tuple[tuple[str, ...], str]
"""(metrics, judge): metrics that share their judges, by judge; all counted ones."""


def calibrate_metrics(config: CalibrateConfig, *, progress: Progress | None = None) -> list[Calibration]:
    """Measure captions without any amplification, and with known doses of bias; write the results to ``config.out``."""
    config = with_precision(config)
    if len(config.attributes) > 1:
        # A dose moves captions from one class to another, so that products of attributes would need many doses.
        what = f"doses are of one attribute, not of {config.attribute_name}"
        raise JudgeError(what, where="--attribute", mend="calibrate each attribute alone")
    folder = OutputFolder(config.out, what="calibration", command=config.command, overwrite=config.overwrite)
    in_main_process(lambda: folder.check(config.inputs()))
    for change in config.changes:
        check_change(change)
    jobs = list(_caption_jobs(config, _groups(config), folder.store))
    log_unread(config)
    in_main_process(folder.begin)
    with folder.working():
        rows = measure_trials(jobs, folder, workers=config.workers, progress=progress)
        found = calibrate(pd.DataFrame(rows).astype(dict.fromkeys(_NUMBERS, float)))  # Absent numbers are NaN.
        if is_main_process():
            with folder.writing():
                folder.write({"calibration.json": calibration_json(found), "calibrate.yaml": config.to_yaml()})
                folder.write({f"calibration.{kind}": draw_calibration(found, kind) for kind in ("png", "svg")})
                # Without seconds: the same trials give the same file.
                pd.DataFrame(rows).drop(columns="seconds").to_parquet(folder.partial / "trials.parquet", index=False)
                folder.log("finished", seconds={title(row): round(row.seconds, 2) for row in found})
            folder.publish()
    return found


def _groups(config: CalibrateConfig) -> list[Group]:
    """The metrics by judge. Metrics that doses of bias in captions do not reach are refused."""
    rows = [find_metric(name) for name in spell_out(config.metrics)]
    if seeing := [row for row in rows if row.uses_images]:
        what = f"{seeing[0].title} uses images, and doses change captions and leave images alone"
        mend = "measure judges of images on drawn scenes, with scripts/bench_scenes.py of the repository"
        raise JudgeError(what, where="--metrics", mend=mend)
    if known := [row for row in rows if "people" in row.given]:
        what = f"{known[0].title} needs three human captions of an image, and a trial has one on each side"
        mend = "use --given objects (and --objects), or scripts/bench_trust.py of the repository"
        raise JudgeError(what, where="--metrics", mend=mend)
    if one_sided := [row for row in rows if row.amplification == "one_side"]:
        others = ",".join(row.name for row in rows if row not in one_sided)
        mend = f"calibrate the others: --metrics {others}" if others else "choose metrics that compare two sides"
        what = f"{one_sided[0].title} has one side, so no amplification"
        raise JudgeError(what, where="--metrics", mend=mend)
    shared: dict[tuple[object, ...], list[str]] = {}
    for row in rows:
        if not row.counted:
            shared.setdefault(row.training, []).append(row.name)
    groups = [(tuple(of), judge) for of in shared.values() for judge in choose_judges(find_metric(of[0]), config.judge)]
    counted = tuple(row.name for row in rows if row.counted)
    return [*groups, (counted, COUNTED)] if counted else groups


def _caption_jobs(config: CalibrateConfig, groups: Sequence[Group], store: Path) -> Iterator[Job]:
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
    # A trial's own run, without the settings that say which trials there are, or where.
    given = shared_settings(config, RunConfig)
    settings = {name: value for name, value in given.items() if name not in {"metrics", "judge", "out", "overwrite"}}
    settings |= {"chance": 0, "level": 0.95, "workers": None if launched() else 1}
    lexicons = [lexicon for lexicon in (words.attribute, words.tasks) if lexicon]
    entries = [{name: sorted(listed) for name, listed in lexicon.classes.items()} for lexicon in lexicons]
    digest = _digest(settings, entries, [sorted(lexicon.hidden_only) for lexicon in lexicons])
    images = config.sample or min(900, max(200, len(source.captions) // 3))
    design = Design(config.changes, config.doses, config.draws, config.nulls, images, config.seed)
    for trial in caption_trials(corpus, source, design):
        for metrics, judge in groups:
            yield Job(trial, metrics, judge, settings, digest, store / str(trial.draw))


def _digest(settings: Mapping[str, Any], *parts: object) -> str:
    """A digest of what all trials depend on: settings, the files that they name, and ``parts``."""
    vectors = settings["vectors"]
    files = [content_of(vectors)] if vectors and Path(vectors).exists() else []
    files += [content_of(settings["reader"], where="--reader")] if settings["reader"] else []
    known = {name: value for name, value in settings.items() if name != "workers"}
    return json.dumps([known, files, *parts], sort_keys=True, default=str)


def command(config: CalibrateConfig) -> None:
    """Measure metrics on data whose amplification is known: your own human captions, changed by known doses.

    Human captions are compared with other human captions of the same images, with nothing amplified, and with doses of
    stereotypes (A->T, T->A) or of changes that are no bias. Leaves a table, a figure of response curves and
    calibration.json in --out.
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
