"""``judge predict``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from judge.cli.shared import say, show_progress

if TYPE_CHECKING:
    from judge.config import PredictConfig


def predict(config: PredictConfig) -> None:
    """Ask a judge that judge train left about captions it never saw: the probability of each class.

    Captions and pictures are masked as in its training. Leaves a CSV file: a row per caption, as the judge read it.
    """
    from judge.commands.predict import predict as run_predict

    with show_progress() as progress:
        found = run_predict(config, progress=progress)
    say(f"judge '{found.judge}': {found.captions} captions of {found.images} images; the answers are in {config.out}")
    for line in found.notes:
        say(f"NOTE: {line}")
