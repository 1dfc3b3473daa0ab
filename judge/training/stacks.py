"""Fit and ask the judges of members as one program, as many at a time as memory holds."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, cast

from judge.training.fit_members import (
    answers_file,
    build_judge,
    checkpoint_beside,
    facts_of,
    keep_weights,
    store_answers,
    validated,
)
from judge.training.member import Member
from judge.training.options import Hear, TrainingSetup
from judge.types import Predictions
from judge.utils.files import writing
from judge.utils.parallel import threads

if TYPE_CHECKING:
    from judge.training.loop import NetworkJudge


def fit_stacked(
    members: Sequence[Member], kept: Sequence[Predictions | None], setup: TrainingSetup, hear: Hear
) -> list[Predictions | None]:
    """Train the members that are not ``kept`` yet, as one program for each number of steps, and store their answers.

    Args:
        members: of one judge that can be stacked, and one target.
        kept: the answers of those that are finished.
        setup: how.
        hear: called with the events of trainings.

    Returns:
        The answers of all.

    Raises:
        JudgeError: memory does not hold one; NaN.
    """
    from judge.training.batches import cut_up, run_fitting

    recipe, found = setup.recipe_of(members[0].judge), list(kept)
    assert recipe is not None
    alike: dict[int, list[int]] = {}
    for place, member in enumerate(members):
        learnt = len(member.places(member.split.train))
        alike.setdefault(len(cut_up(range(learnt), recipe.batch_size)), []).append(place)

    def train(size: int) -> None:
        for places in alike.values():
            for some in (places[start : start + size] for start in range(0, len(places), size)):
                left = [place for place in some if found[place] is None]
                # Companions change the last digits: a training under way goes on with those that it began with.
                begun = _under_way([members[at] for at in some], setup)
                stack = some if left and begun and begun.exists() else left
                if not stack:
                    continue
                answers = _fit_or_forget([members[at] for at in stack], setup, hear)
                for place, own in zip(stack, answers, strict=True):
                    found[place] = own

    where = f"training judge '{members[0].judge.name}'"
    run_fitting(train, len(members), where=where, mend="take a smaller --batch-size, or --no-stack")
    return found


def _fit_or_forget(members: Sequence[Member], setup: TrainingSetup, hear: Hear) -> Sequence[Predictions]:
    """As :func:`_fit_stack`; if memory runs out, its checkpoint goes: fewer are trained, under another name."""
    try:
        return _fit_stack(members, setup, hear)
    except RuntimeError:
        _forget(members, setup)
        raise


def _fit_stack(members: Sequence[Member], setup: TrainingSetup, hear: Hear) -> Sequence[Predictions]:
    """Train some judges as one program, ask and store them."""
    from judge.training.ensemble import Ensemble

    path = _under_way(members, setup)

    def tell(done: int, losses: Sequence[float]) -> None:
        for member, loss in zip(members, losses, strict=True):
            if not member.is_refit:
                hear("epoch", {**facts_of(member), "epoch": done, "loss": loss, "validation": None})

    with threads(1):
        judges = [cast("NetworkJudge", build_judge(member, setup)) for member in members]
        stack = Ensemble(judges, [member.training() for member in members], [member.stream for member in members])
        stack.fit(checkpoint=path, on_epoch=tell)
        found = stack.predict([member.test() for member in members])
        if members[0].validates:
            asked = stack.predict([member.validation() for member in members])
            found = [validated(*each) for each in zip(members, found, asked, strict=True)]
    if path:
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()  # Even empty it says who were trained together, until all are stored.
    for member, judge, own in zip(members, judges, found, strict=True):
        keep_weights(judge, member, setup, own, training="stacked")
        store_answers([member], setup, [own])
    _forget(members, setup)
    return found


def _forget(members: Sequence[Member], setup: TrainingSetup) -> None:
    if path := _under_way(members, setup):
        with suppress(OSError):
            path.unlink()


def _under_way(members: Sequence[Member], setup: TrainingSetup) -> Path | None:
    """File of the training of these members as one program, if there is to be one."""
    name = blake2b("".join(member.key for member in members).encode(), digest_size=16).hexdigest()
    path = answers_file(f"stack-{name}", setup)
    return path and checkpoint_beside(path)
