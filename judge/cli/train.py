"""``judge train``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from judge.cli.shared import say, show_progress

if TYPE_CHECKING:
    from judge.config import TrainConfig


def train(config: TrainConfig) -> None:
    """Train the judges of a run, on one or many processes; judge evaluate then scores them.

    Takes the settings file and the options of judge evaluate. Leaves each judge's answers and weights, and
    judges.json, in --checkpoints. Judges that are there already are reused; a killed run goes on where it was.
    """
    from judge.commands.train import INDEX, train_judges
    from judge.utils.launch import is_main_process

    with show_progress() as progress:
        found = train_judges(config, progress=progress)
    if is_main_process():
        before = f" ({found.taken_over} were there)" if found.taken_over else ""
        say(f"{found.files} judges{before}, {found.seconds:.0f} s; they are in {config.checkpoints}")
        say(f"{config.checkpoints / INDEX} says whose judge each file is")
        for line in found.notes:
            say(f"NOTE: {line}")
        say(f"Score them with judge evaluate, the same file and options, and --checkpoints {config.checkpoints}")
