"""Many judges, shared out: among the processes of a launch, or among the cores of one machine.

A member is trained whole and on one thread wherever it lands, so that any number of processes and workers gives the
same numbers. Large judges apart (``Recipe.sharing`` is "data"): all processes and threads train one together.
"""

from __future__ import annotations

import os
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from judge.errors import JudgeError
from judge.evidence import Slot
from judge.judges import Blueprint, Judge, find_judge
from judge.metrics.scores import VALIDATION_LOSS, Judged
from judge.training.checkpoint import load_predictions, save_predictions
from judge.training.setup import Member, TrainingSetup, assign, is_main_process, launched, name_members
from judge.types import IntArray, Predictions, Progress, Target

# Refits of the same captions that travel to a worker together.
_TOGETHER = 4
R = TypeVar("R")
Then = Callable[[Member, Predictions], R]
"""What is made of a member's predictions where they are: what comes back from workers, and is kept, is small."""


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
    setup = setup.precompute(members, progress)
    alike: dict[str, list[tuple[int, Member]]] = {}
    for position, key in enumerate(name_members(members, setup)):
        alike.setdefault(key, []).append((position, members[position]))
    jobs = [_Job(key, tuple(of)) for key, of in alike.items()]
    batches = list(_batches(jobs))
    share = _share(batches, setup) if launched() else batches
    tell = partial(progress, "training judges") if progress else None
    total = sum(setup.units(job.member) for batch in share for job in batch)
    with _progress(len(members), total, tell) as units:
        work = partial(_work, units=units, then=then)
        done = dict(_launched(share, setup, work) if launched() else _local(batches, setup, work))
    return [done[position] for position in range(len(members))]


@dataclass(frozen=True, slots=True)
class _Job:
    """A judge to train, and all members that it is, with their positions: the same evidence, whoever said it."""

    key: str
    alike: tuple[tuple[int, Member], ...]

    @property
    def member(self) -> Member:
        return self.alike[0][1]

    @property
    def position(self) -> int:
        return self.alike[0][0]


Batch = list[_Job]
Work = Callable[..., list[tuple[int, Any]]]


def _local(batches: Sequence[Batch], setup: TrainingSetup, work: Work) -> Iterator[tuple[int, Any]]:
    """Batches on the cores of this machine, in worker processes of joblib's."""
    from joblib import Parallel, delayed

    jobs = [job for batch in batches for job in batch]
    workers = min(setup.workers or _default_workers(jobs), max(1, len(batches)))
    pool = Parallel(n_jobs=workers, return_as="generator_unordered", pre_dispatch="2*n_jobs", max_nbytes=None)
    with warnings.catch_warnings():
        # loky renews a worker that has grown by 300 MB (importing torch does) and says so from its manager's thread.
        # Where warnings are errors, that thread would die of it and this one wait for ever.
        warnings.filterwarnings("ignore", "A worker stopped while some jobs were given to the executor", UserWarning)
        travelling = (delayed(_each)(work, task, _luggage(task[0][0], setup)) for task in _tasks(batches))
        for finished in pool(travelling):
            yield from finished


def _each(work: Work, batches: Sequence[Batch], setup: TrainingSetup) -> list[tuple[int, Any]]:
    return [finished for batch in batches for finished in work(batch, setup)]


def _tasks(batches: Sequence[Batch]) -> Iterator[list[Batch]]:
    """What travels to a worker at a time: some refits of the same captions together, which then travel once."""
    waiting: dict[int, list[Batch]] = {}
    for batch in batches:
        member, samples = batch[0].member, batch[0].member.samples
        if not (isinstance(samples, Slot) and member.is_refit and find_judge(member.judge).joint):
            yield [batch]
            continue
        group = waiting.setdefault(id(samples.evidence.sides), [])
        group.append(batch)
        if len(group) == _TOGETHER:
            yield waiting.pop(id(samples.evidence.sides))
    yield from waiting.values()


def _luggage(job: _Job, setup: TrainingSetup) -> TrainingSetup:
    """What of a setup travels to a worker.

    Features of its own samples alone, and masks of all pictures only for a judge that reads pictures itself.
    """
    blueprint = find_judge(job.member.judge)
    if setup.precomputed and setup.precomputed.features:
        own = setup.precomputed.features.get(blueprint.name)
        # What a refit sees is not made before it gets there.
        narrow = own if own is None or job.member.is_refit else own.narrowed(job.member.samples)
        features = {blueprint.name: narrow} if narrow else {}
        setup = replace(setup, precomputed=replace(setup.precomputed, features=features))
    if blueprint.backbone is None and "image" in blueprint.modalities:
        return setup
    return replace(setup, materials=replace(setup.materials, pictures=None))


def _share(batches: Sequence[Batch], setup: TrainingSetup) -> list[Batch]:
    """This process's batches in a launch: those that all processes do together, then its part of the whole ones."""
    from judge.training.processes import make_accelerator

    accelerator = make_accelerator(mixed_precision=setup.mixed_precision)
    together = [batch for batch in batches if setup.sharing_of(batch[0].member) == "data"]
    whole = [batch for batch in batches if setup.sharing_of(batch[0].member) == "members"]
    return together + whole[accelerator.process_index :: accelerator.num_processes]


def _launched(share: Sequence[Batch], setup: TrainingSetup, work: Work) -> list[tuple[int, Any]]:
    """Do the share of this process; everybody's results, in every process."""
    from judge.training.processes import gather, in_company

    together = [batch for batch in share if setup.sharing_of(batch[0].member) == "data"]
    with in_company():
        mine = [finished for batch in together for finished in work(batch, setup)]
    failure: JudgeError | None = None
    try:
        mine += [finished for batch in share[len(together) :] for finished in work(batch, setup)]
    except JudgeError as error:  # The other processes wait in gather: tell them before giving up.
        failure = error
    everybody = gather((mine, failure))
    for _, raised in everybody:
        if raised is not None:
            raise raised
    return [finished for part, _ in everybody for finished in part]


def _batches(jobs: Sequence[_Job]) -> Iterator[Batch]:
    """Networks one by one; those trained jointly, for one captioner's evidence, together."""
    crews: dict[tuple[str, int, bool], Batch] = {}
    for job in jobs:
        member = job.member
        if find_judge(member.judge).joint is None:
            yield [job]
        else:
            evidence = member.samples.evidence if isinstance(member.samples, Slot) else member.samples
            crews.setdefault((member.judge, id(evidence), member.validates), []).append(job)
    yield from crews.values()


def _work(batch: Batch, setup: TrainingSetup, units: Path, then: Then[R]) -> list[tuple[int, R]]:
    """Train, or take from the store, the judges of one batch."""
    counter = np.memmap(units, dtype=np.int64, mode="r+")
    kept = [_load(job, setup) for job in batch]
    joint = find_judge(batch[0].member.judge).joint
    # Judges trained jointly choose together: all are trained.
    found = [_train(batch[0], setup, counter)] if joint is None and kept[0] is None else kept
    if joint is not None and any(answers is None for answers in kept):
        with _threads(1):
            found = _asked(batch, joint(batch[0].member.target, assign([job.member for job in batch])))
    results = []
    for job, before, predictions in zip(batch, kept, found, strict=True):
        assert predictions is not None
        if before is None:
            _store(job, setup, predictions)
        counter[job.position] = setup.units(job.member)
        results += [(position, then(member, predictions)) for position, member in job.alike]
    for member in (member for job in batch for _, member in job.alike):
        if isinstance(member.samples, Slot) and member.is_refit:
            member.samples.evidence.release()  # Of hundreds of refits that would be too much to keep.
    return results


def _load(job: _Job, setup: TrainingSetup) -> Predictions | None:
    path = setup.file_of(job.key)
    kept = load_predictions(path) if path else None
    return kept and Predictions(kept[0], job.member.target, kept[1])


def _store(job: _Job, setup: TrainingSetup, found: Predictions) -> None:
    """Refuse what is no number, and keep the rest."""
    member, path = job.member, setup.file_of(job.key)
    if not np.isfinite(found.probabilities).all():
        mend = "lower --learning-rate, or use --precision no"
        raise JudgeError(f"judge '{member.judge}' predicts NaN", where=f"seed {member.seed}", mend=mend)
    if path and (setup.sharing_of(member) == "members" or is_main_process()):
        save_predictions(path, found.probabilities, found.notes)
        with suppress(OSError):  # None was written, or it may not go: it does no harm.
            _under_way(path).unlink()


def _asked(batch: Batch, answers: Sequence[Predictions]) -> list[Predictions]:
    """Judges trained jointly's answers about test samples; what they say of validation samples becomes their loss."""
    found = []
    for job, predictions in zip(batch, answers, strict=True):
        tests = len(job.member.places(job.member.split.test))
        rest = replace(predictions, probabilities=predictions.probabilities[tests:])
        test = replace(predictions, probabilities=predictions.probabilities[:tests])
        found.append(_validated(job.member, test, rest) if job.member.validates else test)
    return found


def _validated(member: Member, test: Predictions, validation: Predictions) -> Predictions:
    samples = member.validation()
    loss = np.average(Judged.of(samples, validation).loss, weights=[sample.weight for sample in samples])
    return replace(test, notes={**test.notes, VALIDATION_LOSS: float(loss)})


def _train(job: _Job, setup: TrainingSetup, counter: IntArray) -> Predictions:
    """Train one judge, by itself or with all processes, and ask it."""
    member, blueprint, path = job.member, find_judge(job.member.judge), setup.file_of(job.key)
    alone = setup.sharing_of(member) == "members"
    with _threads(1 if alone else None):
        judge = _build(blueprint, member.target, setup, path, on_epoch=partial(_tick, counter, job.position))
        judge.fit(member.training(), seed=member.stream, validation=member.validation())
        found = judge.predict(member.test())
        if member.validates:
            found = _validated(member, found, judge.predict(member.validation()))
        if path and setup.keeps_weights and not member.is_refit:
            _keep(judge, path if alone or is_main_process() else None)
    return found


def _tick(counter: IntArray, position: int, done: int, loss: float) -> None:
    counter[position] = done


def _build(
    blueprint: Blueprint,
    target: Target,
    setup: TrainingSetup,
    path: Path | None,
    *,
    on_epoch: Callable[[int, float], None],
) -> Judge:
    recipe = setup.recipe_of(blueprint)
    if blueprint.judge is not None or recipe is None:
        assert blueprint.judge is not None
        return blueprint.judge(target)
    from judge.training.processes import make_accelerator
    from judge.training.trainer import NetworkJudge, Trainer

    trainer = Trainer(
        make_accelerator(mixed_precision=setup.mixed_precision),
        sharing=setup.sharing or recipe.sharing,
        checkpoint=_under_way(path) if path else None,
        on_epoch=on_epoch,
    )
    features = setup.precomputed.features.get(blueprint.name) if setup.precomputed else None
    return NetworkJudge(blueprint, target, recipe, trainer, replace(setup.materials, features=features))


def _keep(judge: Judge, path: Path | None) -> None:
    """Keep a network's weights; judges that train themselves do so again in seconds, and have no safe file."""
    from judge.training.trainer import NetworkJudge

    if isinstance(judge, NetworkJudge):
        judge.save(weights_beside(path) if path else None)


def weights_beside(path: Path) -> Path:
    """The file of weights that goes with a file of answers."""
    return path.with_suffix(".weights.safetensors")


def _under_way(path: Path) -> Path:
    return path.with_suffix(".training.safetensors")


@contextmanager
def _threads(limit: int | None) -> Iterator[None]:
    """Arithmetic on ``limit`` threads: sums in another order would change the last digits."""
    import sys

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


def _default_workers(jobs: Sequence[_Job]) -> int:
    """One a core; one where networks train on a GPU, which they would only fight for, or are large."""
    recipes = [find_judge(job.member.judge).recipe for job in jobs]
    if any(recipe is not None and recipe.sharing == "data" for recipe in recipes):
        return 1
    if any(recipes):
        import torch

        if torch.accelerator.is_available():
            return 1
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def _progress(members: int, total: int, progress: Callable[[int, int], None] | None) -> Iterator[Path]:
    """A file of counters, one a member, that workers write and a thread reads out to ``report``."""
    with tempfile.TemporaryDirectory(prefix="judge-") as folder:
        path = Path(folder) / "units"
        np.zeros(max(1, members), dtype=np.int64).tofile(path)
        stop = threading.Event()

        def tell() -> None:
            while progress and not stop.wait(0.5):
                progress(int(np.fromfile(path, dtype=np.int64).sum()), total)

        thread = threading.Thread(target=tell, daemon=True)
        thread.start()
        try:
            yield path
        finally:
            stop.set()
            thread.join()
            if progress:
                progress(int(np.fromfile(path, dtype=np.int64).sum()), total)
