"""``judge train``: train the judges of a run, for ``judge evaluate`` to score."""

import json
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator

from judge.commands import setup as from_settings
from judge.commands.caption import models_to_caption
from judge.commands.console import say, show_progress
from judge.commands.evaluate import RunConfig
from judge.commands.images import RunImages
from judge.commands.unread import unread
from judge.config.inputs import ShownSettings
from judge.config.judges import RunSettings
from judge.errors import FAULTS, JudgeError
from judge.masking.measured import describe_masks
from judge.measure import Job, train
from judge.measure.description import describe_labels
from judge.report.notes import class_notes
from judge.training.checkpoint import History, read_history
from judge.training.run_members import weights_beside, weights_file
from judge.types import Progress
from judge.utils.files import LOG, append, with_way_on, write_whole, writing
from judge.utils.hub import first_line
from judge.utils.launch import is_main_process
from judge.utils.options import option
from judge.utils.outputs import Lock
from judge.utils.reading import read_bytes

JUDGES = Path("checkpoints/judges")


class TrainConfig(RunSettings, ShownSettings):
    """Options of ``judge train``; it reads the file of ``judge evaluate`` too."""

    command = "judge train"
    shares = RunConfig.model_fields.keys()

    # Files that judge evaluate wrote have `checkpoints: null`.
    checkpoints: Annotated[Path, BeforeValidator(lambda value: JUDGES if value is None else value)] = option(
        JUDGES, "folder for the trained judges", essential=True, panel="Output"
    )


INDEX = "judges.json"
_OWN = {"captioner", "judge", "side", "answers"}
_MOVE = "move it elsewhere; the judges beside it are whole"
_PATIENCE = 20  # Seconds to wait for another command that adds to the file.


def train_judges(config: TrainConfig, *, progress: Progress | None = None) -> tuple[Sequence[Job], list[str]]:
    """Train every judge that ``judge evaluate`` would into ``config.checkpoints``; also return lines to print."""
    started = time.monotonic()
    config = from_settings.with_precision(config)
    images = RunImages(config, config.judge, progress)
    lexicons = from_settings.choose_lexicons(config)
    corpus = from_settings.read_corpus(config)
    if missing := models_to_caption(config, corpus):
        name, model = next(iter(missing.items()))
        mend = f"write them first: judge caption --model {model} --images DIR --out {name}.json"
        raise JudgeError(f"captioner '{name}' has no captions", where=f"--model {model}", mend=mend)
    folder = config.checkpoints
    new = not folder.exists()
    before = from_settings.open_checkpoints(folder)
    _read_index(folder / INDEX)
    plan, setup = from_settings.make_plan(config), from_settings.make_setup(config)
    try:
        work = train(
            corpus,
            plan,
            lexicons=lexicons,
            setup=replace(setup, log=partial(append, folder / LOG)),
            open_images=images.hidden if config.images else None,
            progress=progress,
        )
    except JudgeError as error:
        if from_settings.open_checkpoints(folder) == before:
            if new:
                with suppress(OSError):  # It holds something, such as a log.
                    folder.rmdir()
            raise
        raise with_way_on(error, config.command, f"--checkpoints {folder}") from error
    if is_main_process():
        _write_index(folder, work.jobs)
    files = {job.member.key for job in work.jobs}
    masks = [describe_masks(images.masks["masks"]), *images.notes] if images.masks else []
    notes = [*class_notes(describe_labels(work.truth.labels)), *corpus.notes, *unread(config), *masks]
    unkept = dict.fromkeys(job.judge for job in work.jobs if weights_file(job.member, setup) is None)
    notes += [f"judge '{name}' keeps its answers but no weights: judge predict cannot load it" for name in unkept]
    reused = f" ({len(files & before)} were there)" if files & before else ""
    about = f"{len(files)} judges{reused}, {time.monotonic() - started:.0f} s; they are in {folder}"
    return work.jobs, [about, f"{folder / INDEX} says whose judge each file is", *(f"NOTE: {note}" for note in notes)]


def _write_index(folder: Path, judges: Sequence[Job]) -> None:
    path, rows = folder / INDEX, list[dict[str, Any]]()
    for job in judges:
        member, answers = job.member, f"{job.member.key}.safetensors"
        weights = weights_beside(folder / answers)
        history = read_history(weights)
        row = {
            "captioner": job.evidence.captioner,
            "metrics": [metric.name for metric in job.metrics],
            "judge": job.judge,
            **{name: getattr(member, name) for name in ("side", "index", "seed")},
            "fold": member.split.fold,
            "answers": answers,
            "weights": weights.name if history else None,
            "best_epoch": (history or History()).best,
            "losses": asdict(history or History()),
        }
        rows.append(row)
    with writing(path, _MOVE), Lock(path, f"--checkpoints {folder}").holding(_PATIENCE):
        rows += [row for row in _read_index(path) if row not in rows]
        write_whole(path, (json.dumps(rows, indent=1) + "\n").encode())


def _read_index(path: Path) -> list[dict[str, Any]]:
    try:
        rows = json.loads(read_bytes(path))
    except FileNotFoundError:
        return []
    except (OSError, *FAULTS) as error:
        raise JudgeError(f"cannot be added to ({first_line(error)})", where=str(path), mend=_MOVE) from error
    if not (isinstance(rows, list) and all(isinstance(row, dict) and row.keys() >= _OWN for row in rows)):
        raise JudgeError("cannot be added to (it is no list of judges)", where=str(path), mend=_MOVE)
    return rows


def command(config: TrainConfig) -> None:
    """Train the judges of a run, on one or many processes; judge evaluate then scores them.

    Takes the settings file and the options of judge evaluate. Leaves each judge's answers and weights, and
    judges.json, in --checkpoints. Judges that are there already are reused; a killed run goes on where it was.
    """
    if is_main_process():
        say(notes=from_settings.precision_notes(config))
    with show_progress() as progress:
        _, lines = train_judges(config, progress=progress)
    if is_main_process():
        say(*lines)
        say(f"Score them with judge evaluate, the same file and options, and --checkpoints {config.checkpoints}")
