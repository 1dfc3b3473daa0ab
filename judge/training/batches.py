"""Batches of samples on a device: torch's DataLoader collates ahead, in other processes if that is faster."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

import torch
from accelerate.utils import find_executable_batch_size, send_to_device
from torch.utils.data import DataLoader, Dataset

from judge.errors import JudgeError
from judge.judges import Batch, Network
from judge.training.losses import Truth
from judge.types import Sample, Target

T = TypeVar("T")


class MicroBatch(NamedTuple):
    """The samples of one forward pass.

    Attributes:
        places: where they stand among all samples.
        counts: False for a pass that only keeps step with other processes: its samples have weight 0.
    """

    places: Sequence[int]
    counts: bool = True


class _Collated(Dataset[Any]):
    """Micro-batch -> tensors for the network and the loss, on the CPU; an error is returned."""

    def __init__(self, network: Network, samples: Sequence[Sample], target: Target) -> None:
        self.network, self.samples, self.target = network, samples, target

    def __getitem__(self, micro_batch: MicroBatch) -> tuple[Batch, Truth] | JudgeError:
        samples = [self.samples[place] for place in micro_batch.places]
        answers, weights = Truth.of(samples, self.target)
        try:
            return self.network.collate(samples), Truth(answers, weights.float() * micro_batch.counts)
        except JudgeError as error:  # Raised in a worker, it would lose its parts.
            return error


def load_batches(
    network: Network,
    samples: Sequence[Sample],
    target: Target,
    micro_batches: Sequence[MicroBatch],
    *,
    device: torch.device,
    workers: int = 0,
) -> Iterator[tuple[Batch, Truth]]:
    """Micro-batches of ``samples`` on a device, in order, as ``network`` collates them.

    ``workers``: processes that collate ahead; 0 for this one.

    Raises:
        JudgeError: an image that cannot be used.
    """
    loader = DataLoader(
        _Collated(network, samples, target),
        sampler=micro_batches,
        batch_size=None,
        collate_fn=_identity,
        num_workers=workers,
        multiprocessing_context="fork" if workers else None,
        pin_memory=device.type == "cuda",  # Such memory is copied while the GPU computes.
        generator=torch.Generator(),  # Its own: dropout draws from the global one.
    )
    for found in loader:
        if isinstance(found, JudgeError):
            raise found
        yield send_to_device(found, device, non_blocking=True)


@contextmanager
def report_killed_workers() -> Iterator[None]:
    """Report a killed DataLoader worker in one line; torch raises its error wherever the process is at that moment.

    Raises:
        JudgeError: instead of that error.
    """
    try:
        yield
    except RuntimeError as error:
        if not str(error).startswith("DataLoader worker"):
            raise
        what = "a process that prepares batches was ended: memory, or shared memory, has run out"
        mend = "take fewer, or 0; a container may need a larger --shm-size"
        raise JudgeError(what, where="--dataloader-workers", mend=mend) from error


def _identity(found: Any) -> Any:
    return found


def cut_up(order: Sequence[int], size: int) -> list[Sequence[int]]:
    """Cut the samples of an epoch into batches of ``size``; a last batch of one sample joins the batch before."""
    starts = list(range(0, len(order), size))
    if len(starts) > 1 and len(order) - starts[-1] == 1:
        starts.pop()  # Batch normalisation cannot take a batch of one.
    return [order[start:stop] for start, stop in zip(starts, [*starts[1:], len(order)], strict=True)]


def run_fitting(work: Callable[[int], T], most: int, *, where: str, mend: str) -> T:
    """Run ``work`` on as many samples at a time as memory holds: ``most``, or a half, a quarter ...

    Args:
        work: takes the number of samples; run again from its beginning with fewer.
        most: the number to begin with.
        where: what is done, for messages.
        mend: what to do if memory does not hold a single sample.

    Raises:
        JudgeError: memory does not hold a single sample.
    """
    sizes = iter([most >> halvings for halvings in range(1, most.bit_length() + 1)])

    def attempt(batch_size: int) -> T:
        return work(batch_size)

    attempts = find_executable_batch_size(attempt, starting_batch_size=most, reduce_batch_size_fn=lambda: next(sizes))
    try:
        found: T = attempts()
    except RuntimeError as error:
        if "reached zero" not in str(error):
            raise
        gc.collect()
        what = "memory does not hold a single sample a forward pass"
        raise JudgeError(what, where=where, mend=mend) from None
    return found
