"""Batches of samples on a device (torch's DataLoader collates ahead), their losses, probabilities and the optimiser."""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, Self, TypeVar, cast

import numpy as np
import torch
from accelerate.utils import send_to_device
from accelerate.utils.memory import clear_device_cache, should_reduce_batch_size
from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import DataLoader

from judge.errors import JudgeError
from judge.judges import Batch, Network, Recipe
from judge.types import FloatArray, Sample, Target

T = TypeVar("T")
# Log odds are clipped here, like those of ``linear``: beyond 37 a float64 probability is 1, and the loss of the
# other class is infinite.
MOST_LOG_ODDS = 36.0
# A log probability below that of the least normal float64 would become 0.
_LEAST_LOG = math.log(np.finfo(np.float64).tiny)


class Truth(NamedTuple):
    """True answers of samples, and their weights, [B] float64 (float32 on a device).

    Answers are the class of an attribute, [B] int64; for tasks [B, A] float32, 1 where an image shows one.
    """

    answers: Tensor
    weights: Tensor

    @classmethod
    def of(cls, samples: Sequence[Sample], target: Target) -> Self:
        """The answers and weights of ``samples``, on the CPU."""
        if target.kind == "attribute":
            answers = torch.tensor([sample.answers[0] for sample in samples])
        else:
            answers = torch.zeros(len(samples), len(target.classes))
            for row, sample in zip(answers, samples, strict=True):
                row[list(sample.answers)] = 1.0
        return cls(answers, torch.tensor([sample.weight for sample in samples], dtype=torch.float64))


class MicroBatch(NamedTuple):
    """Places of the samples of one forward pass.

    A process without samples of its own takes one that does not count: it has weight 0, and keeps step with the others.
    """

    places: Sequence[int]
    counts: bool = True


def load_batches(
    network: Network,
    samples: Sequence[Sample],
    target: Target,
    micro_batches: Sequence[MicroBatch],
    *,
    device: torch.device,
    workers: int = 0,
) -> Iterator[tuple[Batch, Truth]]:
    """Micro-batches of ``samples`` on a device, in order; ``workers``: processes that collate ahead, 0 for this one."""

    def collate(micro_batch: Any) -> tuple[Batch, Truth] | JudgeError:
        own = [samples[place] for place in micro_batch.places]
        answers, weights = Truth.of(own, target)
        try:
            return network.collate(own), Truth(answers, weights.float() * micro_batch.counts)
        except JudgeError as error:  # Raised in a worker, it would lose its parts.
            return error

    loader: DataLoader[Any] = DataLoader(
        cast(Any, micro_batches),
        batch_size=None,
        collate_fn=collate,
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
def report_lack_of_memory(where: str, mend: str, *, alone: bool) -> Iterator[None]:
    """Report in one line that memory ran out, in this process or in a DataLoader worker that was killed.

    Torch raises the error of a killed worker wherever the process is at that moment. Not ``alone``: others wait for
    this process in the middle of a step, and torch's error ends it, so that the launcher ends the others.
    """
    try:
        yield
    except RuntimeError as error:
        if str(error).startswith("DataLoader worker"):
            what = "a process that prepares batches was ended: memory, or shared memory, has run out"
            mend = "take fewer, or 0; a container may need a larger --shm-size"
            raise JudgeError(what, where="--training dataloader_workers", mend=mend) from error
        if alone and should_reduce_batch_size(error):
            raise JudgeError("memory has run out", where=where, mend=mend) from error
        raise


def cut_up(order: Sequence[int], size: int) -> list[Sequence[int]]:
    """Cut the samples of an epoch into batches of ``size``; a last batch of one sample joins the batch before."""
    starts = list(range(0, len(order), size))
    if len(starts) > 1 and len(order) - starts[-1] == 1:
        starts.pop()  # Batch normalisation cannot take a batch of one.
    return [order[start:stop] for start, stop in zip(starts, [*starts[1:], len(order)], strict=True)]


def run_fitting(work: Callable[[int], T], most: int, *, where: str, mend: str) -> T:
    """Run ``work`` on as many samples at a time as memory holds: ``most``, or a half, a quarter and so on."""
    size = most
    while size:
        try:
            return work(size)
        except RuntimeError as error:
            if not should_reduce_batch_size(error):
                raise
        # Not before the first attempt: collecting takes as long as a prediction.
        clear_device_cache(garbage_collection=True)
        size //= 2
    raise JudgeError("memory does not hold a single sample a forward pass", where=where, mend=mend)


def weighted_loss(logits: Tensor, truth: Truth, *, whole: bool = False) -> Tensor:
    """The weighted sum of the losses of samples, from logits [B, A].

    The loss of a sample is its cross-entropy, or its binary cross-entropy averaged over the tasks. ``whole``: the
    logits are log probabilities among all words.
    """
    if truth.answers.dim() == 1:
        measure = nn.functional.nll_loss if whole else nn.functional.cross_entropy
        losses = measure(logits, truth.answers, reduction="none")
    else:
        shown = truth.answers.to(logits.dtype)
        losses = nn.functional.binary_cross_entropy_with_logits(logits, shown, reduction="none").mean(dim=1)
    return (truth.weights.to(logits.dtype) * losses).sum()


def to_probabilities(logits: Tensor, target: Target, *, whole: bool = False) -> FloatArray:
    """Probabilities [N, A] of float64 logits [N, A], all in (0, 1), so that every loss is finite; NaN stays NaN.

    Tasks: sigmoid of log odds clipped at +-36. An attribute: softmax of log odds against the most probable class,
    clipped at -36, so that no probability is below exp(-36) / A; rows sum to 1.

    ``whole``: the logits are log probabilities of answers among all words. These are often far below -36 and must stay
    distinct: they are clipped to [log(2.2e-308) = -708, -exp(-36)] alone.
    """
    if whole:
        found = logits.clamp(_LEAST_LOG, -math.exp(-MOST_LOG_ODDS)).exp()
    elif target.kind == "attribute":
        found = (logits - logits.amax(dim=-1, keepdim=True)).clamp(min=-MOST_LOG_ODDS).softmax(dim=-1)
    else:
        found = logits.clamp(-MOST_LOG_ODDS, MOST_LOG_ODDS).sigmoid()
    probabilities: FloatArray = found.numpy()
    return probabilities


def make_optimiser(module: nn.Module, recipe: Recipe) -> torch.optim.Optimizer:
    """Adam over the trainable weights."""
    parameters = [parameter for parameter in module.parameters() if parameter.requires_grad]
    # Fused: one pass over each tensor. Six times faster than the default on CPU for an LSTM's few large ones.
    return torch.optim.Adam(parameters, lr=recipe.learning_rate, fused=True)


def make_schedule(optimiser: torch.optim.Optimizer, recipe: Recipe, *, total: int, done: int) -> LambdaLR | None:
    """The linear rise (``warmup``) and fall (``decay``) of the learning rate after ``done`` steps; None for neither."""
    if not (recipe.warmup or recipe.decay):
        return None
    rising = round(recipe.warmup * total)

    def share(step: int) -> float:
        """Share of the learning rate in [0, 1] at a step counted from 0."""
        if step < rising:
            return (step + 1) / rising
        return max(0.0, (total - step) / max(1, total - rising)) if recipe.decay else 1.0

    for group in optimiser.param_groups:
        group["lr"] = group["initial_lr"] = recipe.learning_rate
    return LambdaLR(optimiser, share, last_epoch=done - 1)
