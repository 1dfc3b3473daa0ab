"""Train many judges, shared out among the processes of a launch, or among the cores of one machine.

Each judge is trained on one thread, so that any number of processes and workers gives the same numbers. Large judges
(``Recipe.sharing`` "data") are the exception: all processes and threads train one of them together, unless each GPU has
a judge of its own to train.
"""

import logging
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from itertools import chain
from pathlib import Path
from tempfile import mkstemp
from threading import Event, Lock, Thread
from typing import Any, TypeVar, cast

from judge.evidence import Slot
from judge.training.fit_members import are_stored, fit_jointly, fit_member, load_answers, store_answers
from judge.training.identity import explain_again, identify
from judge.training.launch import gather, make_accelerator, raise_together, uses_fsdp
from judge.training.member import Member, TrainingSetup
from judge.types import Predictions, Progress
from judge.utils.identity import key_of
from judge.utils.launch import computes_on, is_main_process, launched, promised
from judge.utils.parallel import give_back, unordered, usable_cores

# At most so many batches of joint judges are sent to a worker together, so that the captions they share are sent once;
# each worker has at least so many such groups, so that all workers end at about the same time.
TOGETHER, _GROUPS = 4, 2
_logger = logging.getLogger("judge")
R = TypeVar("R")
Then = Callable[[Member, Predictions], R]
"""Makes the result of a member from its predictions, in the worker: results are small."""
Equal = list[Member]
"""Members with equal evidence, split and seed: one judge."""
Batch = list[Equal]
"""Judges that are trained together: one, or all of a captioner, if they are trained jointly."""
Finished = tuple[dict[str, list[R]], int]
"""The results of a batch, by key, and the number of judges trained."""


def prepare_members(
    members: Sequence[Member], setup: TrainingSetup, progress: Progress | None = None
) -> tuple[list[Member], TrainingSetup]:
    """The members with their keys, and a setup with the features that they need and the sharing that suits them."""
    # Processes that train one judge wait for each other at every step: if there are enough judges, each process of a
    # launch on GPUs trains whole ones, unless weights are sharded.
    large = sum(setup.sharing_of(member.judge) == "data" for member in members)
    if not setup.sharing and 1 < promised() <= large and not uses_fsdp() and computes_on() != "cpu":
        setup = replace(setup, sharing="members")
    judges = {member.judge.name: member.judge for member in members}.values()
    if not setup.precomputed and any("image" in judge.modalities or judge.reader for judge in judges):
        from judge.training.features import precompute

        found = precompute(members, setup.materials, setup.features, progress)
        setup = replace(setup, precomputed=found)
    each = zip(members, identify(members, setup), strict=True)
    return [replace(one, key=key_of(of), ingredients={} if one.is_refit else of) for one, of in each], setup


def train_members(
    members: Sequence[Member], setup: TrainingSetup, *, then: Then[R], progress: Progress | None = None
) -> list[R]:
    """Train and score every member, and return the results in their order, in every process of a launch.

    Args:
        members: named by :func:`prepare_members` or not. Two with the same evidence, split and seed are trained once.
        setup: how.
        then: makes the result of a member from its predictions on its ``test()`` samples; a function at the top of a
            module, or a partial of one, as it is sent to other processes.
        progress: called when a judge of this process is finished, and by another thread, every second, with the steps
            that networks have been trained.
    """
    if not members:
        return []
    if not members[0].key:
        members, setup = prepare_members(members, setup, progress)
    if launched():
        accelerator = make_accelerator(mixed_precision=setup.mixed_precision)
        # Keys may depend on the machine, e.g. on times of files: those of the main process count everywhere.
        keys = gather([member.key for member in members])[0]
        members = [replace(member, key=key) for member, key in zip(members, keys, strict=True)]
    if setup.store and is_main_process():
        for reason in explain_again(members, setup.store):
            _logger.warning(reason)
    equal: dict[str, Equal] = {}
    for member in members:
        equal.setdefault(member.key, []).append(member)
    batches = list(_batches(list(equal.values())))
    if launched():  # All processes train the first ones together, and then each of them its share of the others.
        first = [batch for batch in batches if setup.sharing_of(batch[0][0].judge) == "data"]
        rest = [batch for batch in batches if setup.sharing_of(batch[0][0].judge) == "members"]
        second = rest[accelerator.process_index :: accelerator.num_processes]
    else:  # Networks, which may share a GPU, after the others.
        first = [batch for batch in batches if not batch[0][0].judge.recipe]
        second = [batch for batch in batches if batch[0][0].judge.recipe]
    found: dict[str, list[R]] = {}
    with _shown([*first, *second], setup, progress) as (counted, show):
        # An error in a shared training ends this process, and its launcher the others, which wait for it.
        for part, ending in ((first, nullcontext()), (second, raise_together())):
            with ending:
                for results, trained in _in_workers(part, counted, then):
                    found |= results
                    show(trained)
    each = {key: iter(results) for part in gather(found) for key, results in part.items()}
    return [next(each[member.key]) for member in members]


@contextmanager
def _shown(
    batches: Sequence[Batch], setup: TrainingSetup, progress: Progress | None
) -> Iterator[tuple[TrainingSetup, Callable[[int], None]]]:
    """Show progress: judges that are trained, and steps of networks; nothing of judges whose answers are stored.

    Yields a setup that counts steps, and what to call with the number of judges when a batch is finished.
    """
    if progress is None:
        yield setup, lambda _: None
        return
    left = [batch for batch in batches if not are_stored([same[0] for same in batch], setup)]
    total, expected = sum(map(len, left)), sum(setup.steps_of(same[0]) for same in chain.from_iterable(left))
    stored = sum(map(len, batches)) - total
    more = f"{stored:,} stored" if stored else ""
    handle, name = mkstemp(prefix="judge-steps-")
    done, over, lock = 0, Event(), Lock()

    def show(trained: int = 0) -> None:
        nonlocal done
        with lock:
            done = min(done + trained, total)
            # Training may end early, and captions may be missing.
            steps = expected if done == total else min(os.fstat(handle).st_size, expected)
            if not total:
                progress("reading judges", 0, 0)
            elif steps:
                known = "; ".join(filter(None, (f"{done} of {total}", more)))
                progress(f"training judges ({known}), steps", steps, expected)
            else:
                progress(f"training judges ({more})" if more else "training judges", done, total)

    def watch() -> None:
        while not over.wait(1):
            with suppress(Exception):  # The caller's function failed; the main thread calls it too.
                show()

    thread = Thread(target=watch, daemon=True)
    try:
        show()
        thread.start()
        yield replace(setup, steps=Path(name)), show
    finally:
        over.set()
        if thread.ident:
            thread.join()
        os.close(handle)
        Path(name).unlink()


def _in_workers(batches: Sequence[Batch], setup: TrainingSetup, then: Then[R]) -> Iterator[Finished[R]]:
    """Train batches, several at a time in processes of their own; in a launch one by one in this process."""
    from joblib import delayed

    # By default one a core; one in all for networks on a GPU, where they would compete, and for large ones.
    recipes = [recipe for batch in batches if (recipe := batch[0][0].judge.recipe)]
    alone = recipes and (computes_on() != "cpu" or any(recipe.sharing == "data" for recipe in recipes))
    workers = min(setup.workers or (1 if alone else usable_cores()), max(1, len(batches)))
    if launched() or workers <= 1:
        yield from (_work(batch, setup, then) for batch in batches)
        return
    joint = all(batch[0][0].judge.joint for batch in batches)
    together = min(TOGETHER, max(1, len(batches) // (_GROUPS * workers))) if joint else "auto"
    calls = (delayed(_work)(batch, _for_worker(batch[0][0], setup), then) for batch in batches)
    names = dict.fromkeys(batch[0][0].judge.name for batch in batches)
    what = f"training {', '.join(names)}"
    yield from unordered(calls, workers, what=what, together=together)


def _for_worker(member: Member, setup: TrainingSetup) -> TrainingSetup:
    """The part of a setup that a worker needs: features of its judge; masks, if its judge reads images itself."""
    judge, features = member.judge, dict[str, Any]()
    if setup.precomputed:
        features = {name: of for name, of in setup.precomputed.features.items() if name == judge.name}
        setup = replace(setup, precomputed=replace(setup.precomputed, features=features))
    if "image" in judge.modalities and not (judge.backbone or features):
        return setup
    return replace(setup, materials=replace(setup.materials, images=None))


def _batches(judges: Sequence[Equal]) -> Iterator[Batch]:
    """Networks one by one; judges trained jointly, for one captioner's evidence and draw of folds, together."""
    joint: dict[tuple[str, int, bool, int | None], Batch] = {}
    for same in judges:
        member = same[0]
        if member.judge.joint is None:
            yield [same]
        else:
            evidence = member.samples.evidence if isinstance(member.samples, Slot) else member.samples
            seed = None if member.is_refit else member.seed  # The answers of a refit are in one file.
            joint.setdefault((member.judge.name, id(evidence), member.validates, seed), []).append(same)
    yield from joint.values()


def _work(batch: Batch, setup: TrainingSetup, then: Then[R]) -> Finished[R]:
    """Train the judges of one batch, or load their answers."""
    members = [same[0] for same in batch]
    trained = 0 if are_stored(members, setup) else len(batch)
    found = load_answers(members, setup)
    if setup.sharing_of(members[0].judge) == "data":
        # Machines may have disks of their own: all processes train it, or none does.
        found = gather(found)[0]
    if new := [place for place, answers in enumerate(found) if answers is None]:
        # Judges that choose together are all trained.
        fitted = fit_jointly(members, setup) if members[0].judge.joint else [fit_member(members[0], setup)]
        store_answers([members[place] for place in new], setup, [fitted[place] for place in new])
        found = [*fitted]
    results = {
        same[0].key: [then(member, predictions) for member in same]
        for same, predictions in zip(batch, cast("list[Predictions]", found), strict=True)
    }
    for member in chain.from_iterable(batch):
        if isinstance(member.samples, Slot) and member.is_refit:
            member.samples.evidence.release()  # The evidence of hundreds of refits would not fit into memory.
    give_back()
    return results, trained
