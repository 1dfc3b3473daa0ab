"""Train many judges, shared out among the processes of a launch, or among the cores of one machine.

A member is trained whole and on one thread wherever it lands, so that any number of processes and workers gives the
same numbers; up to rounding where several train as one program. Large judges apart (``Recipe.sharing`` is "data"):
all processes and threads train one together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar, cast

from judge.evidence import Slot
from judge.training.fitting import fit_jointly, fit_member
from judge.training.launch import gather, raise_together
from judge.training.member import Member
from judge.training.setup import TrainingSetup, name_members
from judge.training.store import load_batch, store_batch
from judge.training.telling import Reporter, listening
from judge.types import Predictions, Progress
from judge.utils.launch import computes_on, launched, promised
from judge.utils.parallel import unordered, usable_cores

# Refits of the same captions that travel to a worker together.
_TOGETHER = 4
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
        from judge.training.launch import make_accelerator

        make_accelerator(mixed_precision=setup.mixed_precision)
        # Names may hold what is local to a machine, such as times of files: the main process's count everywhere.
        keys = gather(keys)[0]
    alike: dict[str, Alike] = {}
    for member, key in zip(members, keys, strict=True):
        alike.setdefault(key, []).append(replace(member, key=key))
    shared, own = _share(list(_batches(list(alike.values()), setup)), setup)
    total = sum(setup.units(same[0]) for batch in (*shared, *own) for same in batch)
    told = partial(progress, "training judges") if progress else None
    with listening(total, told, setup.hear) as folder:
        work = partial(_work, folder=folder, then=then)
        parts = _launched(shared, own, setup, work) if launched() else _local(own, setup, work)
        done = {key: iter(results) for part in parts for key, results in part.items()}
    return [next(done[key]) for key in keys]


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
    names = dict.fromkeys(batch[0][0].judge.name for batch in batches)
    yield from chain.from_iterable(unordered(travelling, workers, what=f"training {', '.join(names)}"))


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
    from judge.training.launch import make_accelerator

    accelerator = make_accelerator(mixed_precision=setup.mixed_precision)
    shared = [batch for batch in batches if setup.sharing_of(batch[0][0].judge) == "data"]
    whole = [batch for batch in batches if setup.sharing_of(batch[0][0].judge) == "members"]
    return shared, whole[accelerator.process_index :: accelerator.num_processes]


def _launched(
    shared: Sequence[Batch], own: Sequence[Batch], setup: TrainingSetup, work: Callable[..., Done]
) -> list[Done]:
    """Everybody's results, in every process."""
    mine = [work(batch, setup) for batch in shared]
    with raise_together():
        mine += [work(batch, setup) for batch in own]
    return list(chain.from_iterable(gather(mine)))


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
    shares = promised() if launched() else cores
    for stack in stacks.values():
        size = min(_MOST_STACKED, -(-len(stack) // shares))
        yield from (stack[start : start + size] for start in range(0, len(stack), size))


def _work(batch: Batch, setup: TrainingSetup, folder: Path, then: Then[R]) -> dict[str, list[R]]:
    """Train, or take from the store, the judges of one batch."""
    firsts = [same[0] for same in batch]
    found = kept = load_batch(firsts, setup)
    if setup.sharing_of(firsts[0].judge) == "data":
        # Machines may have disks of their own: all processes train it, or none does.
        found = kept = gather(kept)[0]
    reporters = [Reporter.of(folder, member) for member in firsts]
    if any(answers is None for answers in kept):
        if setup.stacks(firsts[0].judge):
            from judge.training.stacked import fit_stacked

            found = kept = fit_stacked(firsts, kept, setup, reporters)
        elif firsts[0].judge.joint is None:
            found = [fit_member(firsts[0], setup, reporters[0])]
        else:  # They choose together: all are trained.
            found = list(fit_jointly(firsts, setup))
    answered = cast("list[Predictions]", found)
    if new := [place for place, answers in enumerate(kept) if answers is None]:
        store_batch([firsts[place] for place in new], setup, [answered[place] for place in new])
    results = {}
    for same, reporter, predictions in zip(batch, reporters, answered, strict=True):
        reporter.reach(setup.units(same[0]))
        results[same[0].key] = [then(member, predictions) for member in same]
    for member in chain.from_iterable(batch):
        if isinstance(member.samples, Slot) and member.is_refit:
            member.samples.evidence.release()  # Of hundreds of refits that would be too much to keep.
    return results


def _default_workers(batches: Sequence[Batch]) -> int:
    """One a core; one where networks train on a GPU, which they would only fight for, or are large."""
    recipes = [batch[0][0].judge.recipe for batch in batches]
    if any(recipe is not None and recipe.sharing == "data" for recipe in recipes):
        return 1
    return 1 if any(recipes) and computes_on() != "cpu" else usable_cores()
