"""``judge calibrate``: how metrics answer to known doses of bias, and to none, on a user's own captions."""

from __future__ import annotations

import hashlib
import json
import shutil
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from judge.calibration.inject import Source, check
from judge.calibration.response import NOTHING, Calibration, calibrate
from judge.calibration.trials import WHOLE, Design, Trial, draw_trials, large_sample
from judge.commands.evaluate import read_corpus, run
from judge.commands.labels import choose_lexicon
from judge.config import CalibrateConfig, RunConfig, make_config
from judge.corpus import Corpus
from judge.errors import JudgeError
from judge.evidence import EvidenceBuilder
from judge.metrics import find_metric, spell_out
from judge.report.calibration import calibration_json, draw_calibration
from judge.statistics.summary import Summary
from judge.text.lexicon import Lexicons, load_lexicon
from judge.types import Labels, Progress
from judge.utils.files import ResumableFolder
from judge.utils.launch import is_main_process, launched

RESULTS = "calibration.json"
_TRIALS = "trials.jsonl"
COUNTED = "counted"
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Work:
    """A trial and what measures it: metrics that share their judges."""

    trial: Trial
    metrics: tuple[str, ...]
    judge: str
    settings: Mapping[str, Any]
    store: Path

    @property
    def key(self) -> str:
        """What tells it from others of the same command."""
        trial = self.trial
        return json.dumps([trial.change, trial.dose, trial.draw, self.metrics, self.judge])

    @property
    def captions(self) -> int:
        """How many both sides have: what a trial costs, about."""
        return sum(side.total for side in (self.trial.corpus.human, *self.trial.corpus.generated))


def calibrate_metrics(config: CalibrateConfig, *, progress: Progress | None = None) -> list[Calibration]:
    """Measure people's captions against people's captions, with and without known doses of bias.

    Writes ``calibration.json``, ``calibration.png``, ``calibration.svg``, ``trials.parquet`` and ``calibrate.yaml`` to
    ``config.out``. A killed command goes on from the trials that are done.

    Raises:
        JudgeError: anything that the user can mend; nothing is left behind.
    """
    assert config.out is not None
    folder = ResumableFolder(config.out, marker=RESULTS, what="calibration", overwrite=config.overwrite)
    folder.check()
    folder.keep(config.inputs())
    corpus, labels, source = _read(config)
    design = Design(config.changes, config.doses, config.draws, config.nulls, config.sample, config.seed)
    for change in design.changes:
        check(source, change, max(design.doses))
    corpus = replace(corpus, labels=labels)
    with folder.working():
        work = list(_lay_out(config, corpus, labels, source, design, folder.partial))
        folder.begin()
        rows = _measure(work, config, folder, progress)
        found = calibrate(*_tables(rows))
        if is_main_process():
            _finish(found, rows, config, folder)
    return found


def _read(config: CalibrateConfig) -> tuple[Corpus, Labels, Source]:
    """People's captions, labels (derived where none are given), and what changes are made of."""
    attribute = choose_lexicon(config)
    if attribute is None:
        mend = "give --lexicon: changes are made of the words for people"
        raise JudgeError("no words of it are known", where=f"attribute '{config.attribute}'", mend=mend)
    words = Lexicons(attribute, load_lexicon(config.tasks))
    corpus = read_corpus(config, words)
    labels = EvidenceBuilder(corpus, words).truth.labels
    assert words.tasks is not None
    return corpus, labels, Source(corpus.human, labels, attribute, words.tasks)


def _lay_out(
    config: CalibrateConfig, corpus: Corpus, labels: Labels, source: Source, design: Design, folder: Path
) -> Iterator[_Work]:
    """All trials, those of a draw together; draws in random order, so that the time left can be told."""
    names = RunConfig.model_fields.keys() - {"human", "captions", "models", "labels", "metrics", "judge", "out"}
    settings = {name: value for name, value in config.model_dump().items() if name in names}
    settings |= {"human": config.human, "labels": config.labels, "chance": 0, "workers": None if launched() else 1}
    groups = _groups(config)
    trials: dict[int, list[Trial]] = {}
    for trial in draw_trials(corpus, labels, source, design):
        trials.setdefault(trial.draw, []).append(trial)
    order = np.random.default_rng(design.seed).permutation(len(trials)).tolist()
    whole = {reduced: list(large_sample(corpus, labels, source, design, reduced=reduced)) for reduced in (False, True)}
    for draw in [WHOLE, *order]:
        for metrics, judge in groups:
            for trial in trials[draw] if draw >= 0 else whole[judge != COUNTED]:
                yield _Work(trial, metrics, judge, settings, folder / "members" / str(draw))


def _groups(config: CalibrateConfig) -> list[tuple[tuple[str, ...], str]]:
    """(metrics, judge): metrics that share their judges, by judge; all counted ones."""
    rows = [find_metric(name) for name in spell_out(config.metrics)]
    counted = tuple(row.name for row in rows if row.counted)
    shared: dict[tuple[object, ...], list[str]] = {}
    for row in rows:
        if not row.counted:
            shared.setdefault(row.training, []).append(row.name)
    judged = [(tuple(of), judge) for judge in config.judge for of in shared.values()]
    return judged + ([(counted, COUNTED)] if counted else [])


def _measure(
    work: Sequence[_Work], config: CalibrateConfig, folder: ResumableFolder, progress: Progress | None
) -> list[Row]:
    """A row for each trial and metric, in the order of ``work``; what a killed command has measured is taken over."""
    path, settings = folder.partial / _TRIALS, _digest(config, work)
    known = {line["key"]: line["rows"] for line in _lines(path) if line["settings"] == settings}
    missing = {one.key: one for one in work if one.key not in known}
    waiting = Counter(one.store for one in missing.values())
    total = sum(one.captions for one in work)
    done = total - sum(one.captions for one in missing.values())
    for key, rows in _measured(list(missing.values()), config):
        known[key] = rows
        store = missing[key].store
        waiting[store] -= 1
        done += missing[key].captions
        if is_main_process():
            with folder.writing(), path.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"settings": settings, "key": key, "rows": rows}) + "\n")
            if not waiting[store]:
                shutil.rmtree(store, ignore_errors=True)
        if progress:
            progress("captions of trials", done, total)
    return [row for one in work for row in known[one.key]]


def _digest(config: CalibrateConfig, work: Sequence[_Work]) -> str:
    """Of all that trials depend on."""
    settings = config.model_dump(mode="json", exclude={"out", "workers"})
    corpora = {id(one.trial.corpus): one.trial.corpus for one in work}.values()
    captions = [[side.by_image for side in (of.human, *of.generated)] for of in corpora]
    labels = [of.labels.by_image for of in corpora if of.labels]
    return hashlib.sha256(json.dumps([settings, captions, labels], sort_keys=True).encode()).hexdigest()


def _lines(path: Path) -> list[Row]:
    """Of a file to which lines were added, of which a kill may have cut the last."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    return [json.loads(line) for line in text.rpartition("\n")[0].splitlines()]


def _measured(work: Sequence[_Work], config: CalibrateConfig) -> Iterator[tuple[str, list[Row]]]:
    """On the cores of this machine; under a launch all processes share the judges of one trial after the other."""
    if launched():
        yield from map(_trial, work)
        return
    from joblib import Parallel, delayed

    pool = Parallel(n_jobs=config.workers or -1, return_as="generator_unordered", pre_dispatch="2*n_jobs")
    with warnings.catch_warnings():
        # See judge.training.members: said from a thread, which would die of a warning that is an error.
        warnings.filterwarnings("ignore", "A worker stopped while some jobs were given to the executor", UserWarning)
        yield from pool(delayed(_trial)(one) for one in work)


def _trial(work: _Work) -> tuple[str, list[Row]]:
    """Measure one corpus."""
    trial = work.trial
    (captioner,) = trial.corpus.generated
    judged = {} if work.judge == COUNTED else {"judge": [work.judge]}
    several = {"human": work.settings["human"], "captions": {captioner.name: "in memory"}, "metrics": work.metrics}
    config = make_config({**work.settings, **several, **judged}, RunConfig)
    began = time.perf_counter()
    if work.judge != COUNTED:
        work.store.mkdir(parents=True, exist_ok=True)
    found = run(config, corpus=trial.corpus, store=work.store)
    seconds = time.perf_counter() - began
    return work.key, [_row(trial, row, seconds) for row in found.summaries]


def _row(trial: Trial, row: Summary, seconds: float) -> Row:
    return {
        "change": trial.change,
        "dose": trial.dose,
        "draw": trial.draw,
        "metric": row.metric.name,
        "judge": row.judge,
        "value": row.amplification,
        "error": row.standard_error,
        "low": row.interval.low if row.interval else None,
        "high": row.interval.high if row.interval else None,
        "p": row.p_value,
        "seconds": seconds,
    }


def _tables(rows: Sequence[Row]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Trials, and what each dose is worth: its value on the large sample less that of no dose, plus the neutral one."""
    table = pd.DataFrame(rows)
    numbers = ["dose", "value", "error", "low", "high", "p", "seconds"]
    table[numbers] = table[numbers].astype(float)
    whole = table[table["draw"] == WHOLE]
    start = whole[whole["change"] == NOTHING].set_index(["metric", "judge"])["value"]
    worth = whole[whole["change"] != NOTHING].copy()
    of = pd.MultiIndex.from_frame(worth[["metric", "judge"]])
    neutral = worth["metric"].map(lambda name: find_metric(name).neutral)
    worth["value"] = worth["value"] - start.reindex(of).to_numpy() + neutral
    return table[table["draw"] != WHOLE].reset_index(drop=True), worth.reset_index(drop=True)


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
        shutil.rmtree(folder.partial / "members", ignore_errors=True)
        (folder.partial / _TRIALS).unlink()
    folder.publish()
