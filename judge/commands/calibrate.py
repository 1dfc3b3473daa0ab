"""``judge calibrate``: how metrics answer to known doses of bias, and to none, on a user's own captions."""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from judge.calibration.inject import check
from judge.calibration.response import NOTHING, Calibration, Key, calibrate
from judge.calibration.source import Source
from judge.calibration.trials import WHOLE, Design, Trial, all_images, draw_trials
from judge.commands.evaluate import read_corpus, run
from judge.commands.labels import choose_lexicon
from judge.config import CalibrateConfig, RunConfig, make_config
from judge.corpus import Corpus
from judge.errors import JudgeError, require
from judge.evidence import EvidenceBuilder
from judge.metrics import find_metric, spell_out
from judge.report.calibration import calibration_json, draw_calibration, title
from judge.statistics.summary import Summary
from judge.text.lexicon import Lexicons, load_lexicon
from judge.types import Progress
from judge.utils.files import ResumableFolder, fingerprint_of, write_whole
from judge.utils.launch import is_main_process, launched
from judge.utils.parallel import unordered

RESULTS = "calibration.json"
_TRIALS = "trials.jsonl"
COUNTED = "counted"
Row = dict[str, Any]


@dataclass(frozen=True)
class _Work:
    """A trial and what measures it: metrics that share their judges. ``digest``: of the settings and lexicons."""

    trial: Trial
    metrics: tuple[str, ...]
    judge: str
    settings: Mapping[str, Any]
    digest: str
    store: Path

    @cached_property
    def key(self) -> str:
        """A digest of all that its numbers depend on."""
        trial = self.trial
        assert trial.corpus.labels is not None
        captions = [side.by_image for side in (trial.corpus.human, *trial.corpus.generated)]
        text = json.dumps([trial.change, trial.dose, trial.draw, self.metrics, self.judge, self.digest])
        tasks = trial.corpus.tasks.by_image if trial.corpus.tasks else {}
        text += json.dumps([captions, trial.corpus.labels.by_image, tasks], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

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
    require("quality", "matplotlib")
    if len(config.attributes) > 1:
        # A dose moves captions from one class to another: of one attribute, or there would be as many kinds of bias.
        what = f"doses are of one attribute, not of {config.attribute_name}"
        raise JudgeError(what, where="--attribute", mend="calibrate each attribute alone")
    folder = ResumableFolder(config.out, marker=RESULTS, what="calibration", overwrite=config.overwrite)
    folder.check()
    folder.keep(config.inputs())
    corpus, words, source = _read(config)
    for change in config.changes:
        check(source, change, max(config.doses))
    work = list(_lay_out(config, corpus, words, source, folder.partial))
    if launched():
        from judge.training.processes import in_main_process

        in_main_process(folder.begin)
    else:
        folder.begin()
    try:
        rows = _measure(work, folder, workers=config.workers, progress=progress)
    except JudgeError:
        if not _lines(folder.partial / _TRIALS):  # What has been measured is kept, for the command to go on from.
            folder.discard()
        raise
    found = calibrate(*_tables(rows))
    if is_main_process():
        _finish(found, rows, config, folder)
    return found


def _read(config: CalibrateConfig) -> tuple[Corpus, Lexicons, Source]:
    """People's captions with labels and tasks, words, and what changes are made of.

    Labels and tasks that are not given are taken from all captions: those of one side alone would favour it.
    """
    words = Lexicons(choose_lexicon(config), load_lexicon(config.tasks))
    corpus = read_corpus(config)
    builder = EvidenceBuilder(corpus, words)
    labels = builder.truth.labels
    assert words.tasks is not None
    source = Source(corpus.human, labels, words.attribute, words.tasks)
    tasks = corpus.tasks
    if tasks is None and any(find_metric(name).reads_tasks for name in spell_out(config.metrics)):
        tasks, _ = builder.find_tasks(list(source.captions))
    return replace(corpus, labels=labels, tasks=tasks), words, source


def _lay_out(config: CalibrateConfig, corpus: Corpus, words: Lexicons, source: Source, folder: Path) -> Iterator[_Work]:
    """All trials, those of a draw together; draws in random order, so that the time left can be told."""
    settings = {name: getattr(config, name) for name in RunConfig.model_fields.keys() - _OF_THE_COMMAND}
    settings |= {"chance": 0, "level": 0.95, "workers": None if launched() else 1}
    digest = _digest(settings, words)
    images = config.sample or min(900, max(200, len(source.captions) // 3))
    design = Design(config.changes, config.doses, config.draws, config.nulls, images, config.seed)
    labels = source.labels
    groups = _groups(config)
    trials: dict[int, list[Trial]] = {}
    for trial in draw_trials(corpus, labels, source, design):
        trials.setdefault(trial.draw, []).append(trial)
    order = np.random.default_rng(design.seed).permutation(len(trials)).tolist()
    for reduced in sorted({judge != COUNTED for _, judge in groups}):
        whole = list(all_images(corpus, labels, source, design, reduced=reduced))
        for metrics, judge in groups:
            if reduced == (judge != COUNTED):
                yield from (
                    _Work(trial, metrics, judge, settings, digest, folder / "members" / "all") for trial in whole
                )
    for draw in order:
        for metrics, judge in groups:
            store = folder / "members" / str(draw)
            yield from (_Work(trial, metrics, judge, settings, digest, store) for trial in trials[draw])


# Settings that say which trials there are, or where things are.
_OF_THE_COMMAND = {"captions", "models", "metrics", "judge", "out", "overwrite", "verbose", "quality", "human_scores"}


def _digest(settings: Mapping[str, Any], words: Lexicons) -> str:
    """Of what every trial depends on, its captions apart."""
    of_words = [
        [lexicon.token, {name: sorted(of) for name, of in lexicon.classes.items()}, sorted(lexicon.hidden_only)]
        for lexicon in (words.attribute, words.tasks)
        if lexicon
    ]
    files = fingerprint_of(str(settings["vectors"]).removeprefix("hf:"))
    vectors = Path(settings["vectors"])
    if vectors.is_file():
        files = ((vectors.name, vectors.stat().st_size, vectors.stat().st_mtime_ns),)
    kept = {name: value for name, value in settings.items() if name != "workers"}
    return json.dumps([kept, of_words, files], sort_keys=True, default=str)


def _groups(config: CalibrateConfig) -> list[tuple[tuple[str, ...], str]]:
    """(metrics, judge): metrics that share their judges, by judge; all counted ones."""
    rows = [find_metric(name) for name in spell_out(config.metrics)]
    for row in rows:
        if row.amplification == "one_side" or row.uses_images:
            what = "needs images, which doses leave alone" if row.uses_images else "has one side, so no amplification"
            raise JudgeError(f"{row.title} {what}", where="--metrics", mend=f"leave '{row.name}' out")
    counted = tuple(row.name for row in rows if row.counted)
    shared: dict[tuple[object, ...], list[str]] = {}
    for row in rows:
        if not row.counted:
            shared.setdefault(row.training, []).append(row.name)
    judged = [(tuple(of), judge) for judge in config.judge for of in shared.values()]
    return judged + ([(counted, COUNTED)] if counted else [])


def _measure(
    work: Sequence[_Work], folder: ResumableFolder, *, workers: int | None, progress: Progress | None
) -> list[Row]:
    """A row for each trial and metric, in the order of ``work``; what a killed command has measured is taken over."""
    path = folder.partial / _TRIALS
    known = {line["key"]: line["rows"] for line in _lines(path)}
    if is_main_process():
        with folder.writing():  # A kill may have cut the last line.
            lines = (json.dumps({"key": key, "rows": of}) + "\n" for key, of in known.items())
            write_whole(path, "".join(lines).encode())
    missing = {one.key: one for one in work if one.key not in known}
    waiting = Counter(one.store for one in missing.values())
    total = sum(one.captions for one in work)
    done = total - sum(one.captions for one in missing.values())
    for key, rows in _measured(list(missing.values()), workers):
        known[key] = rows
        store = missing[key].store
        waiting[store] -= 1
        done += missing[key].captions
        if is_main_process():
            with folder.writing(), path.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"key": key, "rows": rows}) + "\n")
            if not waiting[store]:
                shutil.rmtree(store, ignore_errors=True)
        if progress:
            progress("captions of trials", done, total)
    return [row for one in work for row in known[one.key]]


def _lines(path: Path) -> list[Row]:
    """Of a file to which lines were added, of which a kill may have cut the last."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    return [json.loads(line) for line in text.rpartition("\n")[0].splitlines()]


def _measured(work: Sequence[_Work], workers: int | None) -> Iterator[tuple[str, list[Row]]]:
    """On the cores of this machine; under a launch all processes share the judges of one trial after the other."""
    if launched():
        yield from map(_trial, work)
        return
    from joblib import delayed

    yield from unordered((delayed(_trial)(one) for one in work), workers or -1)


def _trial(work: _Work) -> tuple[str, list[Row]]:
    """Measure one corpus."""
    trial = work.trial
    (captioner,) = trial.corpus.generated
    judged = {} if work.judge == COUNTED else {"judge": [work.judge]}
    inputs = {"human": work.settings["human"], "captions": {captioner.name: "in memory"}, "metrics": work.metrics}
    config = make_config({**work.settings, **inputs, **judged}, RunConfig)
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


def _tables(rows: Sequence[Row]) -> tuple[pd.DataFrame, dict[Key, float]]:
    """Trials, and what each dose is worth: its value on all images less that without any."""
    table = pd.DataFrame(rows)
    numbers = ["dose", "value", "error", "low", "high", "p", "seconds"]
    table[numbers] = table[numbers].astype(float)
    whole = {
        (row["change"], row["dose"], row["metric"], row["judge"]): row["value"] for row in rows if row["draw"] == WHOLE
    }
    worth = {}
    for (change, dose, *who), value in whole.items():
        start = whole.get((NOTHING, 0.0, *who))
        if change != NOTHING and value is not None and start is not None:
            worth[change, dose, *who] = value - start
    return table[table["draw"] != WHOLE].reset_index(drop=True), worth


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
        folder.log("finished", seconds={title(row): round(row.seconds, 2) for row in found})
    folder.publish()
