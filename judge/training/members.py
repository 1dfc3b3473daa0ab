"""Many judges, shared out: among the processes of a launch, or among the cores of one machine.

A member is one judge to train: what it learns from, what it is scored on, its seed. It is trained whole and on one
thread wherever it lands, so that any number of processes and workers gives the same numbers.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from judge.corpus.splits import Split
from judge.errors import JudgeError
from judge.judges import Blueprint, Judge, Recipe, Sharing, find_judge
from judge.training.checkpoint import load_predictions, save_predictions
from judge.types import IntArray, Predictions, Sample, Target

Finished = tuple[int, Predictions]
Report = Callable[[int, int], None]
"""Told (units of work done by this process, units it has to do)."""


@dataclass(frozen=True, slots=True)
class Member:
    """One judge to train.

    Attributes:
        judge: name in the registry.
        target: what it guesses.
        samples: the evidence of one side and caption index; shared by all members that split it.
        split: which images it learns from and is scored on.
        seed: the run's seed number. The training seed also takes caption index and fold, but neither side nor
            captioner: identical evidence makes identical judges.
    """

    judge: str
    target: Target
    samples: tuple[Sample, ...]
    split: Split
    seed: int

    def training(self) -> list[Sample]:
        """What it learns from, weighted by class."""
        return [replace(sample, weight=self._weight(sample)) for sample in self._of(self.split.train)]

    def validation(self) -> list[Sample]:
        """What chooses its epoch, weighted by class; often empty."""
        return [replace(sample, weight=self._weight(sample)) for sample in self._of(self.split.validation)]

    def test(self) -> list[Sample]:
        """What it is scored on, in the order of ``samples``."""
        return self._of(self.split.test)

    def _of(self, images: Sequence[str]) -> list[Sample]:
        wanted = set(images)
        return [sample for sample in self.samples if sample.image_id in wanted]

    def _weight(self, sample: Sample) -> float:
        if self.target.kind == "tasks":
            return 1.0
        return self.split.weights[self.target.classes[sample.answers[0]]]

    @property
    def stream(self) -> int:
        """The training seed."""
        numbers = (self.seed, self.samples[0].index, self.split.fold)
        return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0] >> np.uint64(1))


@dataclass(frozen=True, slots=True)
class Workshop:
    """How members are trained.

    Attributes:
        recipe: overrides of the blueprints' recipes, field -> value, e.g. {"epochs": 2}.
        sharing: how several processes are used; None for each judge's own default.
        mixed_precision: Accelerate's ("no", "bf16", "fp16"); None for its own setting.
        workers: members trained at a time on this machine; None for one a core. A launch of several
            processes, or a GPU, has one a process.
        store: folder of finished members and of trainings under way; None to keep none.
    """

    recipe: dict[str, Any] = field(default_factory=dict)
    sharing: Sharing | None = None
    mixed_precision: str | None = None
    workers: int | None = None
    store: Path | None = None

    def recipe_of(self, blueprint: Blueprint) -> Recipe | None:
        """The judge's recipe with the overrides in place; None for judges that train themselves."""
        return replace(blueprint.recipe, **self.recipe) if blueprint.recipe else None

    def units(self, member: Member) -> int:
        """Units of work of a member, for progress: its epochs, or 1."""
        recipe = self.recipe_of(find_judge(member.judge))
        return recipe.epochs if recipe else 1


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
    shared = {id(member.samples): member.samples for member in members}
    evidence = {name: _evidence_digest(samples) for name, samples in shared.items()}
    keys = [_key(member, workshop, evidence[id(member.samples)]) for member in members]
    first = {key: position for position, key in reversed(list(enumerate(keys)))}
    jobs = [_Job(position, members[position], key) for key, position in sorted(first.items(), key=lambda item: item[1])]
    share = _share(jobs, workshop) if launched() else jobs
    with _progress(len(members), sum(workshop.units(job.member) for job in share), report) as units:
        done = dict(_launched(share, workshop, units) if launched() else _local(jobs, workshop, units))
    return [done[first[key]] for key in keys]


_RANKS = ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK")


def launched() -> bool:
    """Whether ``accelerate launch``, torchrun or mpirun started this process."""
    return "ACCELERATE_MIXED_PRECISION" in os.environ or any(name in os.environ for name in _RANKS)


def is_main_process() -> bool:
    """Whether this process writes the files and talks to the user."""
    return next((os.environ[name] for name in _RANKS if name in os.environ), "0") == "0"


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
        for finished in pool(delayed(_work)(batch, workshop, units) for batch in batches):
            yield from finished


def _share(jobs: Sequence[_Job], workshop: Workshop) -> list[_Job]:
    """This process's jobs in a launch: those that all processes do together, then its part of the whole ones."""
    from judge.training.trainer import make_accelerator

    accelerator = make_accelerator(mixed_precision=workshop.mixed_precision)
    together = [job for job in jobs if _sharing(job.member, workshop) == "data"]
    whole = [job for job in jobs if _sharing(job.member, workshop) == "members"]
    return together + whole[accelerator.process_index :: accelerator.num_processes]


def _launched(share: Sequence[_Job], workshop: Workshop, units: Path) -> list[Finished]:
    """Do the share of this process; everybody's results, in every process."""
    from judge.training.trainer import gather

    mine: list[Finished] = []
    failure: JudgeError | None = None
    try:
        mine = _work(share, workshop, units)
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
    alone = _sharing(member, workshop) == "members"
    counter = np.memmap(units, dtype=np.int64, mode="r+")
    path = workshop.store / f"{job.key}.safetensors" if workshop.store else None
    kept = load_predictions(path) if path else None
    if kept is not None:
        found = Predictions(kept[0], member.target, kept[1])
    else:
        with _threads(1 if alone else None):
            judge = _build(blueprint, member.target, workshop, path, on_epoch=partial(_tick, counter, job.position))
            judge.fit(member.training(), seed=member.stream, validation=member.validation())
            found = judge.predict(member.test())
        if not np.isfinite(found.probabilities).all():
            mend = "lower --learning-rate, or use --precision no"
            raise JudgeError(f"judge '{member.judge}' predicts NaN", where=f"seed {member.seed}", mend=mend)
        if path and (alone or is_main_process()):
            path.parent.mkdir(parents=True, exist_ok=True)
            save_predictions(path, found.probabilities, found.notes)
            _under_way(path).unlink(missing_ok=True)
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
    from judge.training.trainer import NetworkJudge, Trainer, make_accelerator

    trainer = Trainer(
        make_accelerator(mixed_precision=workshop.mixed_precision),
        sharing=workshop.sharing or recipe.sharing,
        checkpoint=_under_way(path) if path else None,
        on_epoch=on_epoch,
    )
    return NetworkJudge(blueprint, target, recipe, trainer)


def _under_way(path: Path) -> Path:
    return path.with_suffix(".training.safetensors")


def _sharing(member: Member, workshop: Workshop) -> Sharing:
    """A judge that trains itself is always whole; a network as asked, or as its recipe says."""
    recipe = workshop.recipe_of(find_judge(member.judge))
    return "members" if recipe is None else workshop.sharing or recipe.sharing


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
    """One a core; one where networks train on a GPU, which they would only fight for."""
    if any(find_judge(job.member.judge).network is not None for job in jobs):
        import torch

        if torch.accelerator.is_available():
            return 1
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _key(member: Member, workshop: Workshop, evidence: str) -> str:
    """A name for the member's result: everything that decides it, hashed. Equal names, equal numbers."""
    recipe = workshop.recipe_of(find_judge(member.judge))
    packages = [version(name) for name in ("caption-judge", "scikit-learn" if recipe is None else "torch")]
    setting = (packages, member.judge, member.target, recipe, member.stream, recipe and _place(member, workshop))
    return hashlib.blake2b(repr((setting, member.split, evidence)).encode(), digest_size=16).hexdigest()


def _place(member: Member, workshop: Workshop) -> tuple[str, ...]:
    """Precision, device and, where processes train one judge together, their number."""
    import torch

    precision = workshop.mixed_precision or os.environ.get("ACCELERATE_MIXED_PRECISION", "no")
    device = str(torch.accelerator.current_accelerator()) if torch.accelerator.is_available() else "cpu"
    together = _sharing(member, workshop) == "data"
    return precision, device, os.environ.get("WORLD_SIZE", "1") if together else "whole"


def _evidence_digest(samples: tuple[Sample, ...]) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for sample in samples:
        digest.update(repr((sample.image_id, sample.words, sample.answers, sample.image)).encode())
    return digest.hexdigest()


@contextmanager
def _progress(members: int, total: int, report: Report | None) -> Iterator[Path]:
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
