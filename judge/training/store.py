"""What a run keeps of its members while it goes on: answers, weights, and the state of trainings under way."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import numpy as np

from judge.errors import JudgeError
from judge.training.checkpoint import load_predictions, save_predictions
from judge.training.member import Member
from judge.training.setup import WEIGHTS, TrainingSetup
from judge.types import Predictions
from judge.utils.kept import is_sound
from judge.utils.launch import is_main_process


def load_answers(member: Member, setup: TrainingSetup) -> Predictions | None:
    """What a member's judge answered, if it is kept; of one that trains itself, only beside what it learnt."""
    path, weights = setup.file_of(member.key), setup.weights_of(member)
    if weights and member.judge.restore and not weights.is_file():
        return None  # Older versions kept none, and it trains again in seconds.
    kept = load_predictions(path) if path else None
    if kept and weights and weights.exists() and not is_sound(weights):
        return None
    return kept and Predictions(kept[0], member.target, kept[1])


def store_answers(member: Member, setup: TrainingSetup, found: Predictions) -> None:
    """Keep what a member's judge answered, where anything is to be kept.

    Raises:
        JudgeError: NaN; nothing is kept.
    """
    path = setup.file_of(member.key)
    if not np.isfinite(found.probabilities).all():
        mend = "lower --learning-rate, or use --precision no"
        raise JudgeError(f"judge '{member.judge.name}' predicts NaN", where=f"seed {member.seed}", mend=mend)
    if path and (setup.sharing_of(member.judge) == "members" or is_main_process()):
        save_predictions(path, found.probabilities, found.notes)
        with suppress(OSError):  # None was written, or it may not go: it does no harm.
            under_way(path).unlink()


def weights_beside(path: Path) -> Path:
    """The file of weights that goes with a file of answers."""
    return path.with_suffix(WEIGHTS)


def under_way(path: Path) -> Path:
    """The file of a training under way that goes with it."""
    return path.with_suffix(".training.safetensors")
