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

import numpy as np

from judge.errors import JudgeError
from judge.judges import Blueprint, Judge, find_judge
from judge.training.checkpoint import load_predictions, save_predictions
from judge.training.workshop import Member, Workshop, is_main_process, launched, name_members
from judge.types import IntArray, Predictions, Report, Target

Finished = tuple[int, Predictions]


def train_members(members: Sequence[Member], workshop: Workshop, *, report: Report | None = None) -> list[Predictions]:
    """Train and score every member, in this process and its companions.

    Args:
        members: in any order; two with the same evidence, split and seed are trained once.
        workshop: how.
        report: told of this process's work, about twice a second.

    Returns:
        Predictions on each member's ``test()`` samples, in the order of ``members``; in every process.

    Raises:
        JudgeError: NaN loss; a launch that promised several processes and gave one.
    """
    workshop = workshop.look(members, report)
    keys = name_members(members, workshop)
    first = {key: position for position, key in reversed(list(enumerate(keys)))}
    jobs = [_Job(position, members[position], key) for key, position in sorted(first.items(), key=lambda item: item[1])]
    share = _share(jobs, workshop) if launched() else jobs
    tell = partial(report, "training judges") if report else None
    with _progress(len(members), sum(workshop.units(job.member) for job in share), tell) as units:
        done = dict(_launched(share, workshop, units) if launched() else _local(jobs, workshop, units))
    return [done[first[key]] for key in keys]


@dataclass(frozen=True, slots=True)
class _Job:
    position: int
    member: Member
    key: str


def _local(jobs: Sequence[_Job], workshop: Workshop, units: Path) -> Iterator[Finished]:
    """Jobs on the cores of this machine, in worker processes of joblib's."""
    from joblib import Parallel, delayed

    batches = list(_batches(jobs))
    workers = min(workshop.workers or _default_workers(jobs), max(1, len(batches)))
    pool = Parallel(n_jobs=workers, return_as="generator_unordered", pre_dispatch="2*n_jobs", max_nbytes=None)
    with warnings.catch_warnings():
        # loky renews a worker that has grown by 300 MB (importing torch does) and says so from its manager's thread.
        # Where warnings are errors, that thread would die of it and this one wait for ever.
        warnings.filterwarnings("ignore", "A worker stopped while some jobs were given to the executor", UserWarning)
        for finished in pool(delayed(_work)(batch, _luggage(batch[0], workshop), units) for batch in batches):
            yield from finished


def _luggage(job: _Job, workshop: Workshop) -> Workshop:
    """What of a workshop travels to a worker.

    Features of its own samples alone, and masks of all pictures only for a judge that reads pictures itself.
    """
    blueprint = find_judge(job.member.judge)
    if workshop.sights and workshop.sights.features:
        own = workshop.sights.features.get(blueprint.name)
        features = {blueprint.name: own.narrowed(job.member.samples)} if own else {}
        workshop = replace(workshop, sights=replace(workshop.sights, features=features))
    if blueprint.backbone is None and "image" in blueprint.senses:
        return workshop
    return replace(workshop, materials=replace(workshop.materials, pictures=None))


def _share(jobs: Sequence[_Job], workshop: Workshop) -> list[_Job]:
    """This process's jobs in a launch: those that all processes do together, then its part of the whole ones."""
    from judge.training.processes import make_accelerator

    accelerator = make_accelerator(mixed_precision=workshop.mixed_precision)
    together = [job for job in jobs if workshop.sharing_of(job.member) == "data"]
    whole = [job for job in jobs if workshop.sharing_of(job.member) == "members"]
    return together + whole[accelerator.process_index :: accelerator.num_processes]


def _launched(share: Sequence[_Job], workshop: Workshop, units: Path) -> list[Finished]:
    """Do the share of this process; everybody's results, in every process."""
    from judge.training.processes import gather, in_company

    together = [job for job in share if workshop.sharing_of(job.member) == "data"]
    with in_company():
        mine = _work(together, workshop, units)
    failure: JudgeError | None = None
    try:
        mine += _work(share[len(together) :], workshop, units)
    except JudgeError as error:  # The other processes wait in gather: tell them before giving up.
        failure = error
    everybody = gather((mine, failure))
    for _, raised in everybody:
        if raised is not None:
            raise raised
    return [finished for part, _ in everybody for finished in part]


def _batches(jobs: Sequence[_Job]) -> Iterator[list[_Job]]:
    """Networks one by one; quick judges together with those of the same evidence, which then travels once."""
    together: dict[tuple[str, int], list[_Job]] = {}
    for job in jobs:
        if find_judge(job.member.judge).network is not None:
            yield [job]
        else:
            together.setdefault((job.member.judge, id(job.member.samples)), []).append(job)
    yield from together.values()


def _work(jobs: Sequence[_Job], workshop: Workshop, units: Path) -> list[Finished]:
    """Train, or take from the store, one job after the other."""
    return [(job.position, _train(job, workshop, units)) for job in jobs]


def _train(job: _Job, workshop: Workshop, units: Path) -> Predictions:
    member, blueprint = job.member, find_judge(job.member.judge)
    alone = workshop.sharing_of(member) == "members"
    counter = np.memmap(units, dtype=np.int64, mode="r+")
    path = workshop.file_of(job.key)
    kept = load_predictions(path) if path else None
    if kept is not None:
        found = Predictions(kept[0], member.target, kept[1])
    else:
        with _threads(1 if alone else None):
            judge = _build(blueprint, member.target, workshop, path, on_epoch=partial(_tick, counter, job.position))
            judge.fit(member.training(), seed=member.stream, validation=member.validation())
            found = judge.predict(member.test())
            if path and workshop.keeps_weights:
                _keep(judge, path if alone or is_main_process() else None)
        if not np.isfinite(found.probabilities).all():
            mend = "lower --learning-rate, or use --precision no"
            raise JudgeError(f"judge '{member.judge}' predicts NaN", where=f"seed {member.seed}", mend=mend)
        if path and (alone or is_main_process()):
            save_predictions(path, found.probabilities, found.notes)
            with suppress(OSError):  # None was written, or it may not go: it does no harm.
                _under_way(path).unlink()
    counter[job.position] = workshop.units(member)
    return found


def _tick(counter: IntArray, position: int, done: int, loss: float) -> None:
    counter[position] = done


def _build(
    blueprint: Blueprint,
    target: Target,
    workshop: Workshop,
    path: Path | None,
    *,
    on_epoch: Callable[[int, float], None],
) -> Judge:
    recipe = workshop.recipe_of(blueprint)
    if blueprint.judge is not None or recipe is None:
        assert blueprint.judge is not None
        return blueprint.judge(target)
    from judge.training.processes import make_accelerator
    from judge.training.trainer import NetworkJudge, Trainer

    trainer = Trainer(
        make_accelerator(mixed_precision=workshop.mixed_precision),
        sharing=workshop.sharing or recipe.sharing,
        checkpoint=_under_way(path) if path else None,
        on_epoch=on_epoch,
    )
    features = workshop.sights.features.get(blueprint.name) if workshop.sights else None
    return NetworkJudge(blueprint, target, recipe, trainer, replace(workshop.materials, features=features))


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
def _progress(members: int, total: int, report: Callable[[int, int], None] | None) -> Iterator[Path]:
    """A file of counters, one a member, that workers write and a thread reads out to ``report``."""
    with tempfile.TemporaryDirectory(prefix="judge-") as folder:
        path = Path(folder) / "units"
        np.zeros(max(1, members), dtype=np.int64).tofile(path)
        stop = threading.Event()

        def tell() -> None:
            while report and not stop.wait(0.5):
                report(int(np.fromfile(path, dtype=np.int64).sum()), total)

        thread = threading.Thread(target=tell, daemon=True)
        thread.start()
        try:
            yield path
        finally:
            stop.set()
            thread.join()
            if report:
                report(int(np.fromfile(path, dtype=np.int64).sum()), total)
