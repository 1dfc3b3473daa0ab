"""Fit and ask judges: one member's, and those of a captioner's members that are trained jointly."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np

from judge.judges import NOTHING, Blueprint, Explanation, Features, Judge, SelfTrained
from judge.metrics.scores import VALIDATION_LOSS, Judged
from judge.training.checkpoint import save_tensors
from judge.training.member import Member, assign
from judge.training.saved import Saved, describe_member
from judge.training.setup import TrainingSetup
from judge.training.store import under_way
from judge.training.telling import Reporter
from judge.types import Predictions
from judge.utils.launch import is_main_process
from judge.utils.parallel import threads, usable_cores

if TYPE_CHECKING:
    from accelerate import Accelerator

    from judge.training.network_judge import NetworkJudge

_MOST_LOADERS = 8


def explain(members: Sequence[Member]) -> Explanation:
    """Train once more judges of the same captions, by what the run's own chose, and take them apart.

    Args:
        members: of one captioner, side and caption index; ``settings`` hold what was chosen.

    Returns:
        Their predictions are the run's own, to the last digit, with the validation loss where there is one.
    """
    found = members[0].judge.explain
    assert found is not None
    with threads(1):
        explanation = found(members[0].target, assign(members))
    return replace(explanation, predictions=_asked(members, explanation.predictions))


def fit_member(member: Member, setup: TrainingSetup, reporter: Reporter) -> Predictions:
    """Train one judge, by itself or with all processes, and ask it."""
    path, alone = setup.file_of(member.key), setup.sharing_of(member.judge) == "members"
    with threads(1 if alone else None), _kept_memory(member.judge):
        judge = build_judge(member, setup, checkpoint=path and under_way(path), reporter=reporter)
        judge.fit(member.training(), seed=member.stream, validation=member.validation())
        found = judge.predict(member.test())
        if member.validates:
            found = validated(member, found, judge.predict(member.validation()))
        keep_weights(judge, member, setup, found)
    return found


def keep_weights(judge: Judge, member: Member, setup: TrainingSetup, found: Predictions, **notes: str) -> None:
    """Keep a trained judge, if that was asked for; all processes that trained it call this.

    Args:
        judge: of ``member``.
        member: refits are not kept.
        setup: whether, and where.
        found: its answers about its test samples.
        notes: stand in the file too.
    """
    path, sharing = setup.weights_of(member), setup.sharing_of(member.judge)
    if not path:
        return
    about = describe_member(member, setup.masking, sharing, found)
    if member.judge.network is None:
        own = cast("SelfTrained", judge)
        saved = Saved(path, member.judge.name, member.target, None, NOTHING, vocabulary=own.vocabulary, **about)
        save_tensors(path, own.tensors(), saved.notes() | notes)
        return
    writes = sharing == "members" or is_main_process()
    cast("NetworkJudge", judge).save(path if writes else None, about, **notes)


def fit_jointly(members: Sequence[Member], setup: TrainingSetup | None = None) -> list[Predictions]:
    """Train, ask and, if ``setup`` says so, keep judges that are trained jointly: a captioner's members.

    Returns:
        The answers about each one's test samples, with the validation loss where there is one.
    """
    joint = members[0].judge.joint
    assert joint is not None
    judges: dict[int, Judge] = {}
    keeps = setup is not None and any(setup.weights_of(member) for member in members)
    with threads(1):
        given = members[0].target, assign(members)
        found = _asked(members, joint(*given, judges.__setitem__) if keeps else joint(*given))
    for place, judge in judges.items():
        assert setup is not None
        keep_weights(judge, members[place], setup, found[place])
    return found


def _asked(members: Sequence[Member], answers: Sequence[Predictions]) -> list[Predictions]:
    """Answers of judges trained jointly about test samples; those about validation samples become their loss."""
    found = []
    for member, predictions in zip(members, answers, strict=True):
        tests = len(member.places(member.split.test))
        rest = replace(predictions, probabilities=predictions.probabilities[tests:])
        test = replace(predictions, probabilities=predictions.probabilities[:tests])
        found.append(validated(member, test, rest) if member.validates else test)
    return found


def validated(member: Member, test: Predictions, validation: Predictions) -> Predictions:
    """Answers about a member's test samples, with the mean loss of those about its validation samples."""
    samples = member.validation()
    loss = np.average(Judged.of(samples, validation).loss, weights=[sample.weight for sample in samples])
    return replace(test, notes={**test.notes, VALIDATION_LOSS: float(loss)})


def build_judge(
    member: Member, setup: TrainingSetup, *, checkpoint: Path | None = None, reporter: Reporter | None = None
) -> Judge:
    """A member's judge, not trained yet.

    Args:
        member: which.
        setup: how it is to be trained.
        checkpoint: file that makes its training resumable; None for none.
        reporter: is told of its steps and epochs.

    Raises:
        JudgeError: a launch that promised several processes and gave one.
    """
    blueprint, recipe = member.judge, setup.recipe_of(member.judge)
    if blueprint.judge is not None:
        return blueprint.judge(member.target)
    assert recipe is not None
    from judge.training.feature_store import FeatureStore
    from judge.training.launch import make_accelerator
    from judge.training.network_judge import NetworkJudge
    from judge.training.trainer import Trainer

    accelerator = make_accelerator(mixed_precision=setup.mixed_precision)
    trainer = Trainer(
        accelerator,
        sharing=setup.sharing or recipe.sharing,
        checkpoint=checkpoint,
        workers=_loaders(blueprint, setup, accelerator),
        reporter=reporter,
    )
    features: Features | None = setup.precomputed.features.get(blueprint.name) if setup.precomputed else None
    if isinstance(features, FeatureStore):
        features = features.resident(accelerator.device) or features
    return NetworkJudge(blueprint, member.target, recipe, trainer, replace(setup.materials, features=features))


def _loaders(judge: Blueprint, setup: TrainingSetup, accelerator: Accelerator) -> int:
    """Processes that collate ahead for a judge; by itself none on CPUs, which judges fill, nor for what is words alone.

    They are forked, which is safe on Linux alone.
    """
    if sys.platform != "linux":
        return 0
    if setup.loaders is not None:
        return setup.loaders
    slow = "image" in judge.modalities and not judge.backbone and accelerator.device.type != "cpu"
    return min(_MOST_LOADERS, usable_cores() // int(os.environ.get("LOCAL_WORLD_SIZE", "1"))) if slow else 0


def _kept_memory(judge: Blueprint) -> AbstractContextManager[None]:
    """Memory that is freed, kept for the next step, of judges that are networks."""
    if judge.network is None:
        return nullcontext()
    from judge.training.memory import kept_memory

    return kept_memory()
