"""Measure the trials of ``judge calibrate`` on all cores; each result is written as soon as it is there."""

import hashlib
import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from judge.calibration.trials import Trial
from judge.commands.evaluate import RunConfig, run
from judge.config import make_config
from judge.report.notes import left_out_of
from judge.types import Progress
from judge.utils.files import read_json_lines, write_whole
from judge.utils.launch import is_main_process, launched
from judge.utils.outputs import OutputFolder
from judge.utils.parallel import unordered

TRIALS = "trials.jsonl"
COUNTED = "counted"
Row = dict[str, Any]


@dataclass(frozen=True)
class Job:
    """A trial and what measures it: metrics that share their judges (or :data:`COUNTED` ones), and a run's settings.

    ``digest``: a checksum of all else that decides its numbers; ``store``: a folder that the trials of a draw share.
    """

    trial: Trial
    metrics: tuple[str, ...]
    judge: str
    settings: Mapping[str, Any]
    digest: str
    store: Path

    @cached_property
    def key(self) -> str:
        """A digest of everything that its numbers depend on."""
        trial = self.trial
        parts = [
            (trial.change, trial.dose, trial.draw),
            (self.metrics, self.judge, self.digest),
            [side.by_image for side in (trial.corpus.human, *trial.corpus.generated)],
            trial.corpus.labels and trial.corpus.labels.by_image,
            trial.corpus.tasks and trial.corpus.tasks.by_image,
        ]
        return hashlib.sha256(json.dumps(parts, sort_keys=True, default=sorted).encode()).hexdigest()


def measure_trials(
    jobs: Sequence[Job], folder: OutputFolder, *, workers: int | None, progress: Progress | None
) -> list[Row]:
    """A row for each trial and metric, in the order of ``jobs``; trials that a killed command finished are read."""
    path = folder.store / TRIALS
    known = {line["key"]: line["rows"] for line in read_json_lines(path)}
    if is_main_process():
        with folder.writing():  # A kill may have cut the last line.
            write_whole(path, b"".join(_line(key, rows) for key, rows in known.items()))
    missing = {job.key: job for job in jobs if job.key not in known}
    if launched():  # All processes share the judges of one trial after the other.
        found: Iterable[tuple[str, list[Row]]] = map(measure_trial, missing.values())
    else:
        from joblib import delayed

        found = unordered((delayed(measure_trial)(job) for job in missing.values()), workers or -1)
    for done, (key, rows) in enumerate(found, len(jobs) - len(missing)):
        if progress:
            progress("trials", done, len(jobs))
        known[key] = rows
        if is_main_process():
            with folder.writing(), path.open("ab") as file:
                file.write(_line(key, rows))
    if progress:
        progress("trials", len(jobs), len(jobs))
    return [row for job in jobs for row in known[job.key]]


def _line(key: str, rows: list[Row]) -> bytes:
    return json.dumps({"key": key, "rows": rows}).encode() + b"\n"


def measure_trial(job: Job) -> tuple[str, list[Row]]:
    """The key of a trial, and a row for each metric."""
    trial = job.trial
    (captioner,) = trial.corpus.generated
    settings = {**job.settings, "captions": {captioner.name: "in memory"}, "metrics": job.metrics}
    if job.judge != COUNTED:
        settings["judge"] = [job.judge]
        job.store.mkdir(parents=True, exist_ok=True)
    began = time.perf_counter()
    found = run(make_config(settings, RunConfig), corpus=trial.corpus, store=job.store, examples=False)
    (entry,), seconds = found.run["captioners"].values(), time.perf_counter() - began
    rows = [
        {
            "metric": row.metric.name,
            "judge": row.judge,
            "value": row.amplification,
            "error": row.standard_error,
            "low": row.interval and row.interval.low,
            "high": row.interval and row.interval.high,
            "p": row.p_value,
            "basis": row.basis,
            "void": found.void.get(row.key, ""),
            "change": trial.change,
            "dose": trial.dose,
            "draw": trial.draw,
            "left_out": sum(left_out_of(entry).values()),
            "images": ", ".join(f"{number:,} {name}" for name, number in entry["images"].items()),
            "seconds": seconds,
        }
        for row in found.summaries
    ]
    return job.key, rows
