"""Fit the judges of members, and store and load their answers and weights."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from judge.errors import JudgeError
from judge.judges import NOTHING, Explanation, Judge
from judge.metrics.scores import VALIDATION_LOSS, Judged
from judge.training.identity import describe
from judge.training.judge_file import LEARNT, Saved, describe_features, describe_member, save_network
from judge.training.member import Member, TrainingSetup, assign
from judge.types import Predictions
from judge.utils.identity import digest_of
from judge.utils.launch import is_main_process
from judge.utils.parallel import threads, usable_cores
from judge.utils.tensors import read_notes, read_sound, read_tensors, write_tensors

if TYPE_CHECKING:
    from judge.training.checkpoint import History
    from judge.training.loop import NetworkJudge

_MOST_LOADERS = 8
_logger = logging.getLogger("judge")
# In place of the suffix of a member's answers: its weights, and the checkpoint of its unfinished training.
_WEIGHTS, _TRAINING = ".weights.safetensors", ".training.safetensors"


def answers_file(key: str, setup: TrainingSetup) -> Path | None:
    """File of the answers of the member with this key; None if none are stored."""
    return setup.store / f"{key}.safetensors" if setup.store else None


def weights_beside(answers: Path) -> Path:
    """File of the weights that belong to a file of answers."""
    return answers.with_suffix(_WEIGHTS)


def weights_file(member: Member, setup: TrainingSetup) -> Path | None:
    """File of the weights of a named member; None if they are not stored."""
    answers = answers_file(member.key, setup)
    judge, from_file = member.judge, setup.materials.image_features  # Nobody has such vectors of other images.
    kept = setup.keeps_weights and judge.keeps_weights and not (judge.reads_vectors and from_file)
    return weights_beside(answers) if answers and kept and not member.is_refit else None


def are_stored(members: Sequence[Member], setup: TrainingSetup) -> bool:
    """Whether files of the answers and weights of members that are trained together are there, sound or not."""
    if setup.store is None:
        return False
    files = [*_files(members, setup), *(weights_file(member, setup) for member in members)]
    return all(path is None or path.exists() for path in files)


def load_answers(members: Sequence[Member], setup: TrainingSetup) -> list[Predictions | None]:
    """The answers of members that are trained together; None for a member whose answers or weights are not stored."""
    files = _files(members, setup)
    found = {path: read_sound(path, read_tensors) for path in dict.fromkeys(files) if path}
    answers: list[Predictions | None] = []
    for member, path in zip(members, files, strict=True):
        stored, weights = path and found[path], weights_file(member, setup)
        if not stored or member.key not in stored[0] or (weights and read_sound(weights, read_notes) is None):
            answers.append(None)
        else:
            answers.append(Predictions(stored[0][member.key], member.target, stored[1][member.key]))
    return answers


def store_answers(members: Sequence[Member], setup: TrainingSetup, found: Sequence[Predictions]) -> None:
    """Store the answers of members that were trained together, if the run stores any; NaN is refused."""
    tensors, notes = dict[Path, dict[str, Any]](), dict[Path, dict[str, Any]]()
    for member, path, answers in zip(members, _files(members, setup), found, strict=True):
        if not np.isfinite(answers.probabilities).all():
            mend = "lower --training learning_rate=X, or use --training precision=no"
            raise JudgeError(f"judge '{member.judge.name}' predicts NaN", where=f"seed {member.seed}", mend=mend)
        if path and (setup.sharing_of(member.judge) == "members" or is_main_process()):
            tensors.setdefault(path, {})[member.key] = answers.probabilities
            about = {} if member.is_refit else {"identity": describe(member)}
            notes[path] = notes.get(path, {}) | {member.key: dict(answers.notes)} | about
    for path, by_key in tensors.items():
        write_tensors(path, by_key, notes[path])
        with suppress(OSError):
            path.with_suffix(_TRAINING).unlink()


def _files(members: Sequence[Member], setup: TrainingSetup) -> list[Path | None]:
    """The file of each member's answers; refits that are trained jointly share one, as many files would be slow."""
    keys = [member.key for member in members]
    if members[0].is_refit and members[0].judge.joint:
        keys = [digest_of(*keys)] * len(members)
    return [answers_file(key, setup) for key in keys]


def fit_member(member: Member, setup: TrainingSetup) -> Predictions:
    """Train one judge, by itself or with all processes, and return its answers about the test samples."""
    with threads(1 if setup.sharing_of(member.judge) == "members" else None):
        judge = build_judge(member, setup)
        judge.fit(member.training(), seed=member.stream, validation=member.validation())
        found = judge.predict(member.test())
        if member.validates:
            found = _validated(member, found, judge.predict(member.validation()))
        _store_weights(judge, member, setup, found)
        return found


def fit_jointly(members: Sequence[Member], setup: TrainingSetup) -> list[Predictions]:
    """Train judges that are trained jointly, those of one captioner; returns the answers of each."""
    joint = members[0].judge.joint
    assert joint is not None
    judges: dict[int, Judge] = {}
    keeps = any(weights_file(member, setup) for member in members)
    with threads(1):
        images = setup.precomputed.features.get(members[0].judge.name) if setup.precomputed else None
        answers = joint(members[0].target, assign(members), judges.__setitem__ if keeps else None, images)
        found = _split_answers(members, answers)
    for place, judge in judges.items():
        _store_weights(judge, members[place], setup, found[place])
    return found


def explain(members: Sequence[Member]) -> Explanation:
    """Train judges of one captioner, side and caption index again, and return the contribution of each term.

    With the ``settings`` that the run chose, predictions are equal to those of the run, to the last digit.
    """
    found = members[0].judge.explain
    assert found is not None
    with threads(1):
        explanation = found(members[0].target, assign(members))
    return replace(explanation, predictions=_split_answers(members, explanation.predictions))


def _split_answers(members: Sequence[Member], answers: Sequence[Predictions]) -> list[Predictions]:
    """Answers about the test samples, with the loss of those about the validation samples, which follow them."""
    found = []
    for member, predictions in zip(members, answers, strict=True):
        tests = len(member.places(member.split.test))
        rest = replace(predictions, probabilities=predictions.probabilities[tests:])
        test = replace(predictions, probabilities=predictions.probabilities[:tests])
        found.append(_validated(member, test, rest) if member.validates else test)
    return found


def _validated(member: Member, test: Predictions, validation: Predictions) -> Predictions:
    """Answers about a member's test samples, with the mean loss of its answers about the validation samples."""
    samples = member.validation()
    loss = np.average(Judged.of(samples, validation).loss, weights=[sample.weight for sample in samples])
    return replace(test, notes={**test.notes, VALIDATION_LOSS: float(loss)})


def _store_weights(judge: Judge, member: Member, setup: TrainingSetup, found: Predictions) -> None:
    """Write the file of a trained judge if it is to be stored; all processes that trained it call this."""
    path, sharing = weights_file(member, setup), setup.sharing_of(member.judge)
    if not path:
        return
    about = describe_member(member, setup.masking, sharing, found)
    if member.judge.network is None:
        trained: Any = judge
        features = trained.images.features if member.judge.reads_vectors else None
        about |= {"vocabulary": trained.vocabulary, "features": describe_features(features)}
        materials = setup.materials if features else NOTHING
        saved = Saved(path, member.judge.name, member.target, None, materials, **about)
        learnt = {f"{LEARNT}{name}": array for name, array in features.learnt.items()} if features else {}
        write_tensors(path, trained.tensors() | learnt, saved.notes())
    else:
        writes = sharing == "members" or is_main_process()
        save_network(cast("NetworkJudge", judge), path if writes else None, about)


def build_judge(member: Member, setup: TrainingSetup) -> Judge:
    """The untrained judge of a member; its training is resumed from the checkpoint beside its answers, if any."""
    blueprint, recipe = member.judge, setup.recipe_of(member.judge)
    if blueprint.judge is not None:
        return blueprint.judge(member.target)
    assert recipe is not None
    from judge.training.launch import make_accelerator
    from judge.training.loop import NetworkJudge, Trainer

    accelerator = make_accelerator(mixed_precision=setup.mixed_precision)
    answers, loaders = answers_file(member.key, setup), setup.loaders
    features = setup.precomputed.features.get(blueprint.name) if setup.precomputed else None
    if sys.platform != "linux":
        loaders = 0  # They are forked, which is safe on Linux alone.
    elif loaders is None:
        # Some where images are read for a GPU. CPUs are busy; to fork takes longer than to copy stored features.
        slow = "image" in blueprint.modalities and not features and accelerator.device.type != "cpu"
        loaders = min(_MOST_LOADERS, usable_cores() // int(os.environ.get("LOCAL_WORLD_SIZE", "1"))) if slow else 0
    trainer = Trainer(
        accelerator,
        setup.sharing or recipe.sharing,
        answers and answers.with_suffix(_TRAINING),
        workers=loaders,
        on_epoch=partial(_log_epoch, member, setup),
        on_step=setup.count,
    )
    return NetworkJudge(blueprint, member.target, recipe, trainer, replace(setup.materials, features=features))


def _log_epoch(member: Member, setup: TrainingSetup, epoch: int, history: History) -> None:
    """Log an epoch, but none of a refit: there are hundreds. No training ends because it cannot be logged."""
    if setup.log is None or member.is_refit:
        return
    evidence = getattr(member.samples, "evidence", None)
    whose = {"captioner": evidence.captioner} if evidence else {}
    names = {"side": member.side, "index": member.index, "seed": member.seed, "fold": member.split.fold}
    losses = {"loss": history.training[-1], "validation": history.validation[-1] if history.validation else None}
    try:
        setup.log("epoch", judge=member.judge.name, **whose, **names, epoch=epoch, **losses)
    except FileNotFoundError:
        pass  # The main process has failed, said so, and removed the folder; this process is about to end.
    except OSError as error:
        _logger.warning("events of trainings cannot be logged (%s)", str(error).partition("\n")[0])
