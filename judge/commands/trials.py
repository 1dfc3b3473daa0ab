"""The trials of ``judge calibrate``: measured on all cores, kept as they come, shown with the time left."""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from judge.calibration.doses import NOTHING
from judge.calibration.trials import WHOLE, Trial, write_scenes
from judge.commands.evaluate import RunConfig, run
from judge.config import make_config
from judge.report.notes import left_out_of
from judge.statistics.summary import Summary
from judge.types import Progress
from judge.utils.files import read_json_lines, write_whole
from judge.utils.launch import is_main_process, launched
from judge.utils.outputs import ResumableFolder
from judge.utils.parallel import threads, unordered

TRIALS = "trials.jsonl"
COUNTED = "counted"
_SCENES = "scenes"
# A network's seconds for one of a linear judge, before any is known: it only matters until the first trial is done.
_SLOWER = 50.0
# Of the rows that are kept: those of another format are measured again.
_FORMAT = 2
Row = dict[str, Any]
Kind = tuple[object, ...]
Measured = tuple[str, list[Row]]


@dataclass(frozen=True)
class Work:
    """A trial and what measures it: metrics that share their judges. ``digest``: of all else that decides its numbers.

    ``masks``: see :mod:`judge.calibration.response`. ``store``: what the trials of a draw share while they last.
    """

    trial: Trial
    metrics: tuple[str, ...]
    judge: str
    settings: Mapping[str, Any]
    digest: str
    store: Path
    masks: str = ""

    @cached_property
    def key(self) -> str:
        """A digest of all that its numbers depend on."""
        trial = self.trial
        assert trial.corpus.labels is not None
        captions = [side.by_image for side in (trial.corpus.human, *trial.corpus.generated)]
        which = [_FORMAT, trial.change, trial.dose, trial.draw, trial.world and trial.world.seed]
        text = json.dumps([*which, self.metrics, self.judge, self.masks, self.digest])
        tasks = trial.corpus.tasks.by_image if trial.corpus.tasks else {}
        text += json.dumps([captions, trial.corpus.labels.by_image, tasks], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def captions(self) -> int:
        """How many both sides have."""
        return sum(side.total for side in (self.trial.corpus.human, *self.trial.corpus.generated))

    @property
    def kind(self) -> Kind:
        """Trials of a kind take as long for a caption: without a dose, judges of people's are trained too."""
        return self.judge, self.metrics, self.masks, self.trial.draw == WHOLE, self.trial.change == NOTHING


class _Clock:
    """What is done and what there is in all, in seconds of one core.

    Judges differ a hundredfold: of each kind of trial a caption takes what it took so far.
    """

    def __init__(self, work: Sequence[Work]) -> None:
        self.all, self.done, self.seconds = Counter[Kind](), Counter[Kind](), dict[Kind, float]()
        self.guess = {one.kind: 1.0 if one.judge in {COUNTED, "linear"} else _SLOWER for one in work}
        for one in work:
            self.all[one.kind] += one.captions

    def add(self, work: Work, seconds: float) -> None:
        """A trial is done."""
        self.done[work.kind] += work.captions
        self.seconds[work.kind] = self.seconds.get(work.kind, 0.0) + seconds

    def told(self) -> tuple[int, int]:
        """Seconds done, and in all."""
        weights = sum(self.guess[kind] * captions for kind, captions in self.done.items())
        scale = sum(self.seconds.values()) / weights if weights else 1e-3
        total = 0.0
        for kind, captions in self.all.items():
            known = self.done[kind]
            total += captions * (self.seconds[kind] / known if known else scale * self.guess[kind])
        return round(sum(self.seconds.values())), max(1, round(total))


def measure_trials(
    work: Sequence[Work], folder: ResumableFolder, *, workers: int | None, progress: Progress | None
) -> list[Row]:
    """A row for each trial and metric, in the order of ``work``; what a killed command has measured is taken over."""
    path, clock = folder.store / TRIALS, _Clock(work)
    known = {line["key"]: line["rows"] for line in read_json_lines(path)}
    if is_main_process():
        with folder.writing():  # A kill may have cut the last line.
            write_whole(path, b"".join(_line(key, of) for key, of in known.items()))
    missing = {one.key: one for one in work if one.key not in known}
    waiting = Counter(one.store for one in missing.values())

    def tell() -> None:
        if progress:
            progress("seconds of work", *clock.told())

    for one in work:
        if one.key in known:
            clock.add(one, known[one.key][0]["seconds"])
    tell()
    for key, rows in _measured(_mixed(list(missing.values())), workers):
        known[key] = rows
        store = missing[key].store
        waiting[store] -= 1
        clock.add(missing[key], rows[0]["seconds"])
        if is_main_process():
            with folder.writing(), path.open("ab") as file:
                file.write(_line(key, rows))
            if not waiting[store]:
                shutil.rmtree(store, ignore_errors=True)
        tell()
    return [row for one in work for row in known[one.key]]


def _line(key: str, rows: list[Row]) -> bytes:
    return json.dumps({"key": key, "rows": rows}).encode() + b"\n"


def _mixed(work: Sequence[Work]) -> list[Work]:
    """Trials on drawn scenes evenly among the others: how long they take is known early."""
    parts = [[one for one in work if bool(one.masks) == drawn] for drawn in (False, True)]
    placed = [((place + 0.5) / len(part), one) for part in parts for place, one in enumerate(part)]
    return [one for _, one in sorted(placed, key=lambda entry: entry[0])]


def _measured(work: Sequence[Work], workers: int | None) -> Iterator[Measured]:
    """On the cores of this machine; under a launch all processes share the judges of one trial after the other."""
    if launched():
        yield from map(measure_trial, work)
        return
    from joblib import delayed

    yield from unordered((delayed(measure_trial)(one) for one in work), workers or -1)


def measure_trial(work: Work) -> tuple[str, list[Row]]:
    """The key of a trial, and a row for each metric."""
    trial = work.trial
    (captioner,) = trial.corpus.generated
    inputs: dict[str, Any] = {"captions": {captioner.name: "in memory"}, "metrics": work.metrics}
    if work.judge != COUNTED:
        inputs["judge"] = [work.judge]
        work.store.mkdir(parents=True, exist_ok=True)
    began = time.perf_counter()
    measured = partial(run, corpus=trial.corpus, store=work.store, examples=False)
    if trial.world is None:
        found = measured(make_config({**work.settings, **inputs}, RunConfig))
    else:
        config = make_config({**work.settings, **inputs, **_pictures(work)}, RunConfig)
        with threads(1):  # Features of pictures too are the same on any number of cores.
            found = measured(config)
    seconds = time.perf_counter() - began
    left_out = sum(number for entry in found.run["captioners"].values() for number in left_out_of(entry).values())
    (entry,) = found.run["captioners"].values()
    images = ", ".join(f"{number:,} {name}" for name, number in entry["images"].items())
    known = {"left_out": left_out, "images": images, "seconds": seconds}
    return work.key, [_row(work, row) | {"void": found.void.get(row.key, ""), **known} for row in found.summaries]


def _pictures(work: Work) -> dict[str, Any]:
    """Settings of a trial on drawn scenes: its pictures, and what is made of them, once for all trials of the draw."""
    from judge.training.launch import in_main_process

    world, folder = work.trial.world, work.store / _SCENES
    assert world is not None
    in_main_process(lambda: write_scenes(world, folder))
    return {
        "images": folder / "images",
        "instances": folder / "instances.json",
        "features": work.store / "features",
        "cache": work.store / "detections",
    }


def _row(work: Work, row: Summary) -> Row:
    return {
        "change": work.trial.change,
        "dose": work.trial.dose,
        "draw": work.trial.draw,
        "metric": row.metric.name,
        "judge": row.judge,
        "masks": work.masks,
        "value": row.amplification,
        "error": row.standard_error,
        "low": row.interval.low if row.interval else None,
        "high": row.interval.high if row.interval else None,
        "p": row.p_value,
        "basis": row.basis,
    }
