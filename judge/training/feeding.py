"""From samples to batches on a device: torch's DataLoader collates ahead, in other processes where that pays."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import torch
from accelerate.utils import send_to_device
from torch.utils.data import DataLoader, Dataset

from judge.errors import JudgeError
from judge.judges import Batch, Network
from judge.training.losses import Truth
from judge.types import Sample, Target
from judge.utils.parallel import end_with

Piece = Sequence[int]
"""Places of the samples of a forward pass; of one that takes part with weight 0 the place's complement, ``~place``."""


@dataclass(frozen=True, slots=True)
class Fed:
    """A piece on its device.

    Attributes:
        batch: as the network collated it.
        truth: its samples' answers and weights.
    """

    batch: Batch
    truth: Truth


class _Collated(Dataset[Any]):
    """Piece -> what the network and the loss make of it, on the CPU; a fault is passed on as what is found."""

    def __init__(self, network: Network, samples: Sequence[Sample], target: Target) -> None:
        self.network, self.samples, self.target = network, samples, target

    def __getitem__(self, piece: Piece) -> tuple[Batch, Truth] | JudgeError:
        samples = [self.samples[max(place, ~place)] for place in piece]
        weights = [sample.weight if place >= 0 else 0.0 for sample, place in zip(samples, piece, strict=True)]
        truth = Truth.of(samples, self.target, weights)
        try:
            return self.network.collate(samples), truth._replace(weights=truth.weights.float())
        except JudgeError as error:  # Raised in a worker it would lose what it says.
            return error


class Feed:
    """Batches of some samples on a device, in the order in which their places are asked for.

    Args:
        network: collates.
        samples: of which batches are made.
        target: what is guessed.
        device: where batches go; pinned memory is copied to GPUs while they compute.
        workers: processes that collate ahead; 0 for this one.
        stay: whether they stay from pass to pass; of what is read now and then they would hold memory in vain.
    """

    def __init__(
        self,
        network: Network,
        samples: Sequence[Sample],
        target: Target,
        device: torch.device,
        *,
        workers: int = 0,
        stay: bool = False,
    ) -> None:
        self.samples, self.device, self.workers, self.stay = samples, device, workers, stay
        self.target = target
        self._collated = _Collated(network, samples, target)
        self._asked: list[Piece] = []
        self._gather = getattr(getattr(network, "features", None), "gather", None)

    def __call__(self, pieces: Iterable[Piece]) -> Iterator[Fed]:
        """The pieces, one by one.

        Raises:
            JudgeError: a picture at fault.
        """
        self._asked[:] = pieces
        yield from map(self._send, self._loader)

    def of(self, piece: Piece) -> Fed:
        """One piece, collated by this process."""
        return self._send(self._collated[piece])

    @cached_property
    def _loader(self) -> DataLoader[Any]:
        return DataLoader(
            self._collated,
            sampler=self._asked,
            batch_size=None,
            collate_fn=_as_it_is,
            num_workers=self.workers,
            multiprocessing_context="fork" if self.workers else None,
            worker_init_fn=partial(_begin, os.getpid()),
            persistent_workers=self.stay and self.workers > 0,
            pin_memory=self.device.type == "cuda",
            # Its own: of the global one dropout draws.
            generator=torch.Generator(),
        )

    def _send(self, found: tuple[Batch, Truth] | JudgeError) -> Fed:
        if isinstance(found, JudgeError):
            raise found
        batch, truth = send_to_device(found, self.device, non_blocking=True)
        return Fed(self._gather(batch) if self._gather else batch, truth)


@contextmanager
def workers_watched() -> Iterator[None]:
    """A process that collates ahead and is ended is told in one line; torch raises its error wherever it is just then.

    Raises:
        JudgeError: in place of that error.
    """
    try:
        yield
    except RuntimeError as error:
        if not str(error).startswith("DataLoader worker"):
            raise
        what = "a process that prepares batches was ended: memory, or what processes share of it, has run out"
        mend = "take fewer, or 0; a container may need a larger --shm-size"
        raise JudgeError(what, where="--dataloader-workers", mend=mend) from error


def cut_up(order: Piece, size: int) -> list[Piece]:
    """Places in the order of an epoch, in batches of ``size``; one that were left over joins the batch before."""
    starts = list(range(0, len(order), size))
    if len(starts) > 1 and len(order) - starts[-1] == 1:
        starts.pop()  # Batch normalisation cannot stand a batch of one.
    return [order[start:stop] for start, stop in zip(starts, [*starts[1:], len(order)], strict=True)]


def _begin(parent: int, worker: int) -> None:
    """In a process that collates: torch's own look whether the parent lives comes after all batches that wait."""
    end_with(parent)


def _as_it_is(found: Any) -> Any:
    return found
