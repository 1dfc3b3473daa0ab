"""Train many judges, shared out among the processes of a launch, or among the cores of one machine.

A member is trained whole and on one thread wherever it lands, so that any number of processes and workers gives the
same numbers; up to rounding where several train as one program. Large judges apart (``Recipe.sharing`` is "data"):
all processes and threads train one together.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from hashlib import blake2b
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

from judge.errors import JudgeError
from judge.evidence import Slot
from judge.judges import Blueprint, Explanation, Features, Judge
from judge.metrics.scores import VALIDATION_LOSS, Judged
from judge.training.checkpoint import load_predictions, save_predictions
from judge.training.member import Member, assign
from judge.training.saved import describe_member
from judge.training.setup import TrainingSetup, name_members
from judge.training.telling import Reporter, listening
from judge.types import Predictions, Progress
from judge.utils.launch import is_main_process, launched
from judge.utils.parallel import unordered

if TYPE_CHECKING:
    from accelerate import Accelerator

    from judge.training.trainer import NetworkJudge

# Refits of the same captions that travel to a worker together.
_TOGETHER = 4
_MOST_LOADERS = 8
# Judges of one program: more would not be faster, and are kept together when they are all done.
_MOST_STACKED = 64
R = TypeVar("R")
Then = Callable[[Member, Predictions], R]
"""What is made of a member's predictions where they are: what comes back from workers, and is kept, is small."""
Alike = list[Member]
"""One judge to train, and all members that it is: the same evidence, whosever captions they are."""
Batch = list[Alike]
"""Judges that are trained together: one, all of one captioner's that are trained jointly, or one program's."""
Done = dict[str, list[Any]]
"""Key -> the results of the members that have it."""


def train_members(
    members: Sequence[Member], setup: TrainingSetup, *, then: Then[R], progress: Progress | None = None
) -> list[R]:
    """Train and score every member, in this process and its companions.

    Args:
        members: in any order; two with the same evidence, split and seed are trained once.
        setup: how.
        then: makes the result of a member out of its predictions on its ``test()`` samples; a function at the top of a
            module, or a partial of one, as it travels to other processes.
        progress: told of this process's work, about twice a second.

    Returns:
        The results, in the order of ``members``; in every process.

    Raises:
        JudgeError: NaN loss; a launch that promised several processes and gave one.
    """
    if not members:
        return []
    setup = setup.precompute(members, progress)
    keys = name_members(members, setup)
    if launched():
        from judge.training.processes import gather, make_accelerator

        make_accelerator(mixed_precision=setup.mixed_precision)
        # Names may hold what is local to a machine, such as times of files: the main process's count everywhere.
        keys = gather(keys)[0]
    alike: dict[str, Alike] = {}
    for member, key in zip(members, keys, strict=True):
        alike.setdefault(key, []).append(replace(member, key=key))
    together, own = _share(list(_batches(list(alike.values()), setup)), setup)
    total = sum(setup.units(same[0]) for batch in (*together, *own) for same in batch)
    told = partial(progress, "training judges") if progress else None
    with listening(total, told, setup.hear) as folder:
        work = partial(_work, folder=folder, then=then)
        parts = _launched(together, own, setup, work) if launched() else _local(own, setup, work)
        done = {key: iter(results) for part in parts for key, results in part.items()}
    return [next(done[key]) for key in keys]


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


def _local(batches: Sequence[Batch], setup: TrainingSetup, work: Callable[..., Done]) -> Iterator[Done]:
    """Batches on the cores of this machine; networks, which may have a GPU to themselves, apart from others."""
    alone, networks = ([b for b in batches if bool(b[0][0].judge.recipe) == trained] for trained in (False, True))
    yield from _in_workers(alone, setup, work)
    yield from _in_workers(networks, setup, work)


def _in_workers(batches: Sequence[Batch], setup: TrainingSetup, work: Callable[..., Done]) -> Iterator[Done]:
    """Batches in worker processes of joblib's."""
    from joblib import delayed

    workers = min(setup.workers or _default_workers(batches), max(1, len(batches)))

    def needed(task: list[Batch]) -> TrainingSetup:
        return _setup_for_worker(task[0][0][0], replace(setup, hear=None)) if workers > 1 else setup

    travelling = (delayed(_each)(work, task, needed(task)) for task in _tasks(batches))
    yield from chain.from_iterable(unordered(travelling, workers))


def _each(work: Callable[..., Done], batches: Sequence[Batch], setup: TrainingSetup) -> list[Done]:
    return [work(batch, setup) for batch in batches]


def _tasks(batches: Sequence[Batch]) -> Iterator[list[Batch]]:
    """What travels to a worker at a time: some refits of the same captions together, which then travel once."""
    waiting: dict[int, list[Batch]] = {}
    for batch in batches:
        member, samples = batch[0][0], batch[0][0].samples
        if not (isinstance(samples, Slot) and member.is_refit and member.judge.joint):
            yield [batch]
            continue
        group = waiting.setdefault(id(samples.evidence.sides), [])
        group.append(batch)
        if len(group) == _TOGETHER:
            yield waiting.pop(id(samples.evidence.sides))
    yield from waiting.values()


def _setup_for_worker(member: Member, setup: TrainingSetup) -> TrainingSetup:
    """The part of a setup that a worker needs: features of its samples; masks, if its judge reads pictures itself."""
    judge = member.judge
    if setup.precomputed and setup.precomputed.features:
        own = setup.precomputed.features.get(judge.name)
        # A refit's samples are not made before it gets there.
        narrow = own if own is None or member.is_refit else own.narrowed(member.samples)
        features = {judge.name: narrow} if narrow else {}
        setup = replace(setup, precomputed=replace(setup.precomputed, features=features))
    kept = setup.precomputed is not None and judge.name in setup.precomputed.features
    if judge.backbone is None and "image" in judge.modalities and not kept:
        return setup
    return replace(setup, materials=replace(setup.materials, pictures=None))


def _share(batches: Sequence[Batch], setup: TrainingSetup) -> tuple[list[Batch], list[Batch]]:
    """Batches that all processes of a launch train together, and this process's part of the others."""
    if not launched():
        return [], list(batches)
    from judge.training.processes import make_accelerator

    accelerator = make_accelerator(mixed_precision=setup.mixed_precision)
    together = [batch for batch in batches if setup.sharing_of(batch[0][0].judge) == "data"]
    whole = [batch for batch in batches if setup.sharing_of(batch[0][0].judge) == "members"]
    return together, whole[accelerator.process_index :: accelerator.num_processes]


def _launched(
    together: Sequence[Batch], own: Sequence[Batch], setup: TrainingSetup, work: Callable[..., Done]
) -> list[Done]:
    """Everybody's results, in every process."""
    from judge.training.processes import fail_together, gather

    with fail_together():
        mine = [work(batch, setup) for batch in together]
    failure: JudgeError | None = None
    try:
        mine += [work(batch, setup) for batch in own]
    except JudgeError as error:  # The other processes wait in gather: tell them before giving up.
        failure = error
    everybody = gather((mine, failure))
    for _, raised in everybody:
        if raised is not None:
            raise raised
    return [done for part, _ in everybody for done in part]


def _batches(judges: Sequence[Alike], setup: TrainingSetup) -> Iterator[Batch]:
    """Networks one by one, or as one program; those trained jointly, for one captioner's evidence, together."""
    joint: dict[tuple[str, int, bool], Batch] = {}
    stacks: dict[tuple[object, ...], Batch] = {}
    for same in judges:
        member = same[0]
        if setup.stacks(member.judge):
            key = member.judge.name, member.target, len(member.split.train), member.validates
            stacks.setdefault(key, []).append(same)
        elif member.judge.joint is None:
            yield [same]
        else:
            evidence = member.samples.evidence if isinstance(member.samples, Slot) else member.samples
            joint.setdefault((member.judge.name, id(evidence), member.validates), []).append(same)
    yield from joint.values()
    # Every process, or core, is to have some.
    cores = setup.workers or _default_workers([[same] for same in judges])
    shares = int(os.environ.get("WORLD_SIZE", "1")) if launched() else cores
    for stack in stacks.values():
        size = min(_MOST_STACKED, -(-len(stack) // shares))
        yield from (stack[start : start + size] for start in range(0, len(stack), size))


def _work(batch: Batch, setup: TrainingSetup, folder: Path, then: Then[R]) -> dict[str, list[R]]:
    """Train, or take from the store, the judges of one batch."""
    firsts = [same[0] for same in batch]
    kept = [_load(member, setup) for member in firsts]
    joint = firsts[0].judge.joint
    reporters = [Reporter.of(folder, member) for member in firsts]
    if setup.stacks(firsts[0].judge):
        kept = _stacked(firsts, kept, setup, reporters)
    # Judges trained jointly choose together: all are trained.
    found = [_train(firsts[0], setup, reporters[0])] if joint is None and kept[0] is None else kept
    if joint is not None and any(answers is None for answers in kept):
        with threads(1):
            found = _asked(firsts, joint(firsts[0].target, assign(firsts)))
    results = {}
    for same, reporter, before, predictions in zip(batch, reporters, kept, found, strict=True):
        assert predictions is not None
        if before is None:
            _store(same[0], setup, predictions)
        reporter.reach(setup.units(same[0]))
        results[same[0].key] = [then(member, predictions) for member in same]
    for member in chain.from_iterable(batch):
        if isinstance(member.samples, Slot) and member.is_refit:
            member.samples.evidence.release()  # Of hundreds of refits that would be too much to keep.
    return results


def _load(member: Member, setup: TrainingSetup) -> Predictions | None:
    path = setup.file_of(member.key)
    kept = load_predictions(path) if path else None
    return kept and Predictions(kept[0], member.target, kept[1])


def _store(member: Member, setup: TrainingSetup, found: Predictions) -> None:
    """Refuse what is no number, and keep the rest."""
    path = setup.file_of(member.key)
    if not np.isfinite(found.probabilities).all():
        mend = "lower --learning-rate, or use --precision no"
        raise JudgeError(f"judge '{member.judge.name}' predicts NaN", where=f"seed {member.seed}", mend=mend)
    if path and (setup.sharing_of(member.judge) == "members" or is_main_process()):
        save_predictions(path, found.probabilities, found.notes)
        with suppress(OSError):  # None was written, or it may not go: it does no harm.
            _under_way(path).unlink()


def _asked(members: Sequence[Member], answers: Sequence[Predictions]) -> list[Predictions]:
    """Answers of judges trained jointly about test samples; those about validation samples become their loss."""
    found = []
    for member, predictions in zip(members, answers, strict=True):
        tests = len(member.places(member.split.test))
        rest = replace(predictions, probabilities=predictions.probabilities[tests:])
        test = replace(predictions, probabilities=predictions.probabilities[:tests])
        found.append(_validated(member, test, rest) if member.validates else test)
    return found


def _validated(member: Member, test: Predictions, validation: Predictions) -> Predictions:
    samples = member.validation()
    loss = np.average(Judged.of(samples, validation).loss, weights=[sample.weight for sample in samples])
    return replace(test, notes={**test.notes, VALIDATION_LOSS: float(loss)})


def _train(member: Member, setup: TrainingSetup, reporter: Reporter) -> Predictions:
    """Train one judge, by itself or with all processes, and ask it."""
    path, alone = setup.file_of(member.key), setup.sharing_of(member.judge) == "members"
    with threads(1 if alone else None), _kept_memory(member.judge):
        judge = _build(member, setup, path, reporter)
        judge.fit(member.training(), seed=member.stream, validation=member.validation())
        found = tested = judge.predict(member.test())
        if member.validates:
            found = _validated(member, found, judge.predict(member.validation()))
        # Judges that train themselves do so again in seconds, and have no safe file.
        if path and setup.keeps_weights and not member.is_refit and member.judge.network is not None:
            about = describe_member(member, setup.masking, setup.sharing_of(member.judge), tested)
            cast("NetworkJudge", judge).save(weights_beside(path) if alone or is_main_process() else None, about)
    return found


def _stacked(
    members: Sequence[Member], kept: Sequence[Predictions | None], setup: TrainingSetup, reporters: Sequence[Reporter]
) -> list[Predictions | None]:
    """``kept``, and what the others answer: trained as one program for each number of steps, and stored at once."""
    from judge.training.ensemble import count_steps
    from judge.training.memory import OutOfMemory, halving

    recipe, found = setup.recipe_of(members[0].judge), list(kept)
    assert recipe is not None
    alike: dict[int, list[int]] = {}
    for place in (place for place, answers in enumerate(kept) if answers is None):
        learnt = len(members[place].places(members[place].split.train))
        alike.setdefault(count_steps(learnt, recipe.batch_size), []).append(place)

    def train(size: int) -> None:
        for steps, places in alike.items():
            left = [place for place in places if found[place] is None]
            for some in (left[start : start + size] for start in range(0, len(left), size)):
                told = [(reporters[at], steps) for at in some]
                answers = _train_stacked([members[at] for at in some], setup, told)
                for place, own in zip(some, answers, strict=True):
                    found[place] = own

    try:
        halving(train, len(members))
    except OutOfMemory:
        what, mend = "memory does not hold a single judge", "take a smaller --batch-size, or --no-stack"
        raise JudgeError(what, where="training", mend=mend) from None
    return found


def _train_stacked(
    members: Sequence[Member], setup: TrainingSetup, told: Sequence[tuple[Reporter, int]]
) -> Sequence[Predictions]:
    """Train some judges as one program, ask and store them; ``told``: who tells of each, and its steps an epoch."""
    from judge.training.ensemble import Ensemble

    name = blake2b("".join(member.key for member in members).encode(), digest_size=16).hexdigest()
    path = setup.file_of(f"stack-{name}")

    def tell(done: int, losses: Sequence[float]) -> None:
        for (reporter, steps), loss in zip(told, losses, strict=True):
            reporter.reach(done * steps)
            reporter.event("epoch", epoch=done, loss=loss, validation=None)

    with threads(1):
        judges = [cast("NetworkJudge", _build(member, setup, None, None)) for member in members]
        stack = Ensemble(judges, [member.training() for member in members], [member.stream for member in members])
        stack.fit(checkpoint=_under_way(path) if path else None, on_epoch=tell)
        found = stack.predict([member.test() for member in members])
        if members[0].validates:
            asked = stack.predict([member.validation() for member in members])
            found = [_validated(*each) for each in zip(members, found, asked, strict=True)]
    for member, judge, own in zip(members, judges, found, strict=True):
        answers = setup.file_of(member.key)
        if answers and setup.keeps_weights and not member.is_refit:
            about = describe_member(member, setup.masking, "members", own)
            judge.save(weights_beside(answers), about, training="stacked")
        _store(member, setup, own)
    if path:
        with suppress(OSError):
            _under_way(path).unlink()
    return found


def _build(member: Member, setup: TrainingSetup, path: Path | None, reporter: Reporter | None) -> Judge:
    blueprint, recipe = member.judge, setup.recipe_of(member.judge)
    if blueprint.judge is not None:
        return blueprint.judge(member.target)
    assert recipe is not None
    from judge.training.feature_store import FeatureStore
    from judge.training.processes import make_accelerator
    from judge.training.trainer import NetworkJudge, Trainer

    accelerator = make_accelerator(mixed_precision=setup.mixed_precision)
    trainer = Trainer(
        accelerator,
        sharing=setup.sharing or recipe.sharing,
        checkpoint=_under_way(path) if path else None,
        workers=_loaders(blueprint, setup, accelerator),
        reporter=reporter,
    )
    features: Features | None = setup.precomputed.features.get(blueprint.name) if setup.precomputed else None
    if isinstance(features, FeatureStore) and blueprint.pixels is None:
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
    slow = judge.pixels is not None and accelerator.device.type != "cpu"
    return min(_MOST_LOADERS, usable_cores() // int(os.environ.get("LOCAL_WORLD_SIZE", "1"))) if slow else 0


def weights_beside(path: Path) -> Path:
    """The file of weights that goes with a file of answers."""
    return path.with_suffix(".weights.safetensors")


def _under_way(path: Path) -> Path:
    return path.with_suffix(".training.safetensors")


def _kept_memory(judge: Blueprint) -> AbstractContextManager[None]:
    """Memory that is freed, kept for the next step, of judges that are networks."""
    if judge.network is None:
        return nullcontext()
    from judge.training.memory import kept_memory

    return kept_memory()


def by_main_process(work: Callable[[], R]) -> R:
    """What ``work`` returns, in every process: the main one does it, the others wait. Alone, torch is not imported.

    Raises:
        JudgeError: what ``work`` raised; in all processes.
    """
    if not launched():
        return work()
    from judge.training.processes import in_main_process

    return in_main_process(work)


@contextmanager
def threads(limit: int | None) -> Iterator[None]:
    """Arithmetic on ``limit`` threads: sums in another order would change the last digits."""
    from threadpoolctl import threadpool_limits

    torch = sys.modules.get("torch")
    before = torch.get_num_threads() if torch else 0
    with threadpool_limits(limits=limit):
        if torch and limit:
            torch.set_num_threads(limit)
        try:
            yield
        finally:
            if torch and limit:
                torch.set_num_threads(before)


def _default_workers(batches: Sequence[Batch]) -> int:
    """One a core; one where networks train on a GPU, which they would only fight for, or are large."""
    recipes = [batch[0][0].judge.recipe for batch in batches]
    if any(recipe is not None and recipe.sharing == "data" for recipe in recipes):
        return 1
    if any(recipes):
        import torch

        if torch.accelerator.is_available():
            return 1
    return usable_cores()


def usable_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
