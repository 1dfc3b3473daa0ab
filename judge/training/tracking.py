"""Losses of trainings in the trackers that Accelerate knows: TensorBoard, Weights & Biases and others."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from judge.errors import JudgeError, nearest
from judge.training.options import Hear

PROJECT = "caption-judge"


@contextmanager
def tracking(
    names: Sequence[str], folder: Path, settings: Mapping[str, Any]
) -> Iterator[tuple[Hear, Callable[[], None]]]:
    """Pass on losses, one curve a judge, to Accelerate's trackers; in a launch those of the main process's judges.

    What is given is who hears, and what starts the trackers, which make files: called before anything is heard.

    Args:
        names: of trackers ("tensorboard", "wandb", ...), as of Accelerate's ``log_with``.
        folder: for what trackers write.
        settings: of the run; those that are numbers, texts or booleans are kept beside the curves.

    Raises:
        JudgeError: a tracker that is unknown, not installed, or cannot start.
    """
    from accelerate import Accelerator
    from accelerate.utils import LoggerType

    from judge.training.launch import make_accelerator

    where = f"--log-with {','.join(names)}"
    cpu = make_accelerator().device.type == "cpu"
    known = [str(name) for name in LoggerType]
    if strange := [name for name in names if name not in known]:
        raise JudgeError(f"unknown tracker '{strange[0]}'", where="--log-with", mend=nearest(strange[0], known))
    with warnings.catch_warnings(action="ignore"):  # What is not installed is refused below.
        accelerator = Accelerator(cpu=cpu, log_with=list(names), project_dir=str(folder))
    if missing := sorted({*names} - {"all", *map(str, accelerator.log_with)}):
        raise JudgeError(f"'{missing[0]}' is not installed", where=where, mend=f"install it: pip install {missing[0]}")

    def start() -> None:
        kept = {name: value for name, value in settings.items() if isinstance(value, bool | int | float | str)}
        try:
            accelerator.init_trackers(PROJECT, config=kept)
        except Exception as error:  # Each tracker has errors of its own.
            what, mend = f"cannot start ({str(error).splitlines()[0]})", "leave it out"
            raise JudgeError(what, where=where, mend=mend) from error

    def hear(event: str, facts: Mapping[str, Any]) -> None:
        if event != "epoch":
            return
        whose = "/".join(str(value) for name, value in facts.items() if name not in {"epoch", "loss", "validation"})
        whose = re.sub(r"[^\w\-. :/]", "-", whose)  # Not every tracker takes all signs.
        losses = {"loss": facts["loss"], "validation loss": facts["validation"]}
        values = {f"{name}/{whose}": value for name, value in losses.items() if value is not None}
        for tracker in accelerator.trackers:
            if tracker.name == "tensorboard":
                tracker.log(values, step=facts["epoch"])
            else:  # Their steps may only rise, and every judge begins with epoch 1.
                tracker.log({**values, f"epoch/{whose}": facts["epoch"]})

    try:
        yield hear, start
    finally:
        for tracker in accelerator.trackers:
            tracker.finish()
