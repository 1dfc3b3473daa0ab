"""What a run keeps of its members while it goes on: answers, weights, and the state of trainings under way."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path

import numpy as np

from judge.errors import JudgeError
from judge.training.checkpoint import is_sound, load_kept, load_predictions, save_predictions, save_tensors
from judge.training.member import Member
from judge.training.setup import WEIGHTS, TrainingSetup
from judge.types import Predictions
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
    _check_numbers(member, found)
    path = setup.file_of(member.key)
    if path and (setup.sharing_of(member.judge) == "members" or is_main_process()):
        save_predictions(path, found.probabilities, found.notes)
        with suppress(OSError):  # None was written, or it may not go: it does no harm.
            under_way(path).unlink()


def load_batch(members: Sequence[Member], setup: TrainingSetup) -> list[Predictions | None]:
    """What the judges of members that are trained together answered, as far as it is kept."""
    path = _file_of_refits(members, setup)
    if path is None:
        return [load_answers(member, setup) for member in members]
    tensors, meta = load_kept(path) or ({}, {})
    notes = json.loads(meta["notes"]) if tensors else {}
    return [Predictions(tensors[one.key], one.target, notes[one.key]) if tensors else None for one in members]


def store_batch(members: Sequence[Member], setup: TrainingSetup, found: Sequence[Predictions]) -> None:
    """Keep what the judges of members that were trained together answered; as :func:`store_answers`."""
    path = _file_of_refits(members, setup)
    if path is None:
        for member, answers in zip(members, found, strict=True):
            store_answers(member, setup, answers)
        return
    for member, answers in zip(members, found, strict=True):
        _check_numbers(member, answers)
    keys = [member.key for member in members]
    notes = {key: answers.notes for key, answers in zip(keys, found, strict=True)}
    tensors = {key: answers.probabilities for key, answers in zip(keys, found, strict=True)}
    save_tensors(path, tensors, {"notes": json.dumps(notes)})


def _file_of_refits(members: Sequence[Member], setup: TrainingSetup) -> Path | None:
    """One file for all answers of refits that are trained jointly: a file each takes longer than the training."""
    if not (members[0].is_refit and members[0].judge.joint):
        return None
    return setup.file_of(blake2b("".join(member.key for member in members).encode(), digest_size=16).hexdigest())


def _check_numbers(member: Member, found: Predictions) -> None:
    if not np.isfinite(found.probabilities).all():
        mend = "lower --learning-rate, or use --precision no"
        raise JudgeError(f"judge '{member.judge.name}' predicts NaN", where=f"seed {member.seed}", mend=mend)


def weights_beside(path: Path) -> Path:
    """The file of weights that goes with a file of answers."""
    return path.with_suffix(WEIGHTS)


def under_way(path: Path) -> Path:
    """The file of a training under way that goes with it."""
    return path.with_suffix(".training.safetensors")
