"""Fit and predict for any :class:`~judge.judges.Network`, on Hugging Face Accelerate.

The loop knows nothing of text or images: a network collates samples and returns logits, the target picks the
loss, Accelerate places tensors, sets precision and, where one judge is trained on several processes, averages
gradients. A member's result is a function of its samples, recipe and seed alone: initial weights, order
and dropout come from that seed, so it does not matter what trained before it, beside it, or where.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from datetime import timedelta
from pathlib import Path
from typing import Any, Self, TypeVar, cast

import numpy as np
import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from accelerate.utils import InitProcessGroupKwargs, gather_object, send_to_device
from torch import Tensor, nn

from judge.errors import JudgeError
from judge.judges import Blueprint, Network, Recipe, Sharing
from judge.training.checkpoint import Checkpoint
from judge.types import FloatArray, Predictions, Sample, Target

EVALUATION_BATCH = 256
T = TypeVar("T")


def make_accelerator(*, mixed_precision: str | None = None) -> Accelerator:
    """Accelerate's view of this process: device, precision, companions.

    Without an accelerator device ``cpu=True`` is passed on, since Accelerate otherwise starts processes that each
    believe that they are alone. ``mixed_precision`` None leaves it to Accelerate's own setting.

    Raises:
        JudgeError: the launcher promised several processes and this one sees no other.
    """
    # Accelerate keeps the first precision of a process for all later ones; each run must have its own.
    AcceleratorState._reset_state()
    accelerator = Accelerator(
        cpu=not torch.accelerator.is_available(),
        mixed_precision=mixed_precision,
        # Processes that train whole judges meet only when the slowest is done.
        kwargs_handlers=[InitProcessGroupKwargs(timeout=timedelta(days=7))],
    )
    promised = max(int(os.environ.get(name, "1")) for name in ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE"))
    # accelerate launch with MULTI_CPU starts one process for any --num_processes, and leaves this trace.
    silent = "ACCELERATE_MIXED_PRECISION" in os.environ and "MASTER_ADDR" in os.environ and "RANK" not in os.environ
    if accelerator.num_processes == 1 and (promised > 1 or silent):
        raise JudgeError(
            f"{promised if promised > 1 else 'several'} processes were asked for, and this one is alone",
            where="accelerate launch",
            mend="use the project's accelerate_config.yaml ('distributed_type: MULTI_GPU', on CPUs too), "
            "or ask for --num_processes 1 (and unset MASTER_ADDR, if it is your site that sets it)",
        )
    return accelerator


def gather(item: T) -> list[T]:
    """``item`` of every process of the launch, in rank order, in every process."""
    found: list[T] = gather_object([item])
    return found


class Trainer:
    """Trains one network at a time.

    Args:
        accelerator: from :func:`make_accelerator`.
        sharing: "members": this process trains alone, other processes train other members;
            "data": all processes train this one, each on its share of every batch.
        checkpoint: file that makes an interrupted training resumable from an epoch's end; None for none.
        seconds: at least this long between two writes of it.
        on_epoch: told (epochs done, mean training loss) after each epoch.
    """

    def __init__(
        self,
        accelerator: Accelerator,
        *,
        sharing: Sharing = "members",
        checkpoint: Path | None = None,
        seconds: float = 60.0,
        on_epoch: Callable[[int, float], None] | None = None,
    ) -> None:
        self.accelerator = accelerator
        self.parallel = sharing == "data" and accelerator.num_processes > 1
        self.rank = accelerator.process_index if self.parallel else 0
        self.world = accelerator.num_processes if self.parallel else 1
        self.checkpoint, self.seconds = checkpoint, seconds
        self.on_epoch = on_epoch

    def fit(
        self,
        network: Network,
        samples: Sequence[Sample],
        *,
        target: Target,
        recipe: Recipe,
        seed: int,
        validation: Sequence[Sample] = (),
    ) -> None:
        """Train ``network`` in place.

        Raises:
            JudgeError: the loss became NaN or infinite; ``keep="best"`` without validation samples.
        """
        if recipe.keep == "best" and not validation:
            raise JudgeError("nothing to choose the best epoch by", where="recipe", mend="give validation samples")
        module = cast(nn.Module, network)
        module.to(self.accelerator.device)
        model = self.accelerator.prepare_model(module) if self.parallel else module
        optimiser = _optimiser(module, recipe)
        scaled = self.accelerator.prepare_optimizer(optimiser)
        writes = self.checkpoint if self.rank == 0 else None
        state = Checkpoint(writes, read_from=self.checkpoint, seconds=self.seconds)
        first = state.load(module, optimiser, seed=seed)
        for epoch in range(first, recipe.epochs):
            torch.manual_seed(_stream(seed, epoch, self.rank))
            module.train()
            loss = self._epoch(model, scaled, samples, target=target, recipe=recipe, seed=_stream(seed, epoch))
            if not np.isfinite(loss):
                raise JudgeError(
                    f"loss is {loss} in epoch {epoch + 1}",
                    where="training",
                    mend="lower --learning-rate, or --precision no",
                )
            if recipe.keep == "best":
                state.keep_best(module, self._mean_loss(network, validation, target=target, recipe=recipe))
            state.save(module, optimiser, epoch=epoch + 1, seed=seed)
            if self.on_epoch:
                self.on_epoch(epoch + 1, loss)
        state.restore_best(module)

    def _epoch(
        self, model: nn.Module, optimiser: Any, samples: Sequence[Sample], *, target: Target, recipe: Recipe, seed: int
    ) -> float:
        """One pass; returns the mean loss.

        Every batch's gradient is that of the batch's weighted mean loss, however many processes and micro-batches
        it is cut into: each piece adds its weighted sum over the whole batch's weight.
        """
        order = np.random.default_rng(seed).permutation(len(samples))
        network = cast(Network, self.accelerator.unwrap_model(model))
        total = torch.zeros((), dtype=torch.float64)
        starts = list(range(0, len(order), recipe.batch_size))
        if len(starts) > 1 and len(order) - starts[-1] == 1:
            starts.pop()  # Batch normalisation cannot stand a batch of one: it joins the batch before.
        for start, stop in zip(starts, [*starts[1:], len(order)], strict=True):
            batch = [samples[i] for i in order[start:stop]]
            # An idle process joins in with a sample of weight 0: the others wait for its gradients.
            mine = batch[self.rank :: self.world] or [batch[0]]
            scale = self.world / sum(sample.weight for sample in batch) if self.rank < len(batch) else 0.0
            pieces = list(_pieces(mine, recipe.micro_batch))
            optimiser.zero_grad()
            for i, piece in enumerate(pieces):
                context = self.accelerator.no_sync(model) if i + 1 < len(pieces) else nullcontext()
                with context:
                    with self.accelerator.autocast():
                        logits = model(self._to_device(network.collate(piece)))
                    loss = _loss(logits.float(), piece, target) * scale
                    self.accelerator.backward(loss)
                total += loss.detach().double().cpu() * len(batch)
            optimiser.step()
        if self.parallel:
            total = self.accelerator.reduce(total.to(self.accelerator.device), reduction="mean")
        return float(total) / len(samples)

    def predict(self, network: Network, samples: Sequence[Sample], *, target: Target, recipe: Recipe) -> FloatArray:
        """Probabilities [N, A] float64: softmax for one class of an attribute, sigmoid for tasks."""
        logits = self._logits(network, samples, recipe=recipe)
        found = logits.softmax(dim=-1) if target.kind == "attribute" else logits.sigmoid()
        return found.numpy()

    def _logits(self, network: Network, samples: Sequence[Sample], *, recipe: Recipe) -> Tensor:
        """Logits [N, A] float64 on the CPU; each process computes a share, all get the whole."""
        cast(nn.Module, network).eval()
        share = samples[self.rank :: self.world]
        with torch.no_grad(), self.accelerator.autocast():
            rows = [
                network(self._to_device(network.collate(piece))).double().cpu()
                for piece in _pieces(share, recipe.micro_batch or EVALUATION_BATCH)
            ]
        if not self.parallel:
            return torch.cat(rows)
        shares = gather(torch.cat(rows) if rows else torch.empty(0))
        whole = torch.empty(len(samples), shares[0].shape[-1], dtype=torch.float64)
        for rank, part in enumerate(shares):
            if len(part):
                whole[rank :: self.world] = part
        return whole

    def _mean_loss(self, network: Network, samples: Sequence[Sample], *, target: Target, recipe: Recipe) -> float:
        logits = self._logits(network, samples, recipe=recipe)
        return float(_loss(logits, samples, target)) / sum(sample.weight for sample in samples)

    def _to_device(self, batch: Any) -> Any:
        return send_to_device(batch, self.accelerator.device)


class NetworkJudge:
    """A :class:`~judge.judges.Judge` made of a blueprint's network and the trainer."""

    def __init__(self, blueprint: Blueprint, target: Target, recipe: Recipe, trainer: Trainer) -> None:
        assert blueprint.network is not None
        self.blueprint, self.target, self.recipe, self.trainer = blueprint, target, recipe, trainer

    def fit(self, samples: Sequence[Sample], *, seed: int, validation: Sequence[Sample] = ()) -> Self:
        """Build the network from ``samples`` and train it; see :meth:`Trainer.fit`."""
        assert self.blueprint.network is not None
        torch.manual_seed(_stream(seed))
        self.network = self.blueprint.network(self.target, samples)
        self.trainer.fit(
            self.network, samples, target=self.target, recipe=self.recipe, seed=seed, validation=validation
        )
        return self

    def predict(self, samples: Sequence[Sample]) -> Predictions:
        """Probabilities [N, A], rows in the order of ``samples``."""
        found = self.trainer.predict(self.network, samples, target=self.target, recipe=self.recipe)
        return Predictions(found, self.target)


def _loss(logits: Tensor, samples: Sequence[Sample], target: Target) -> Tensor:
    """Weighted sum over samples: cross-entropy, or binary cross-entropy averaged over the target's classes."""
    weights = torch.tensor([sample.weight for sample in samples], dtype=logits.dtype, device=logits.device)
    if target.kind == "attribute":
        answers = torch.tensor([sample.answers[0] for sample in samples], device=logits.device)
        losses = nn.functional.cross_entropy(logits, answers, reduction="none")
    else:
        truth = torch.zeros_like(logits)
        for row, sample in enumerate(samples):
            truth[row, list(sample.answers)] = 1.0
        losses = nn.functional.binary_cross_entropy_with_logits(logits, truth, reduction="none").mean(dim=1)
    return (weights * losses).sum()


def _optimiser(module: nn.Module, recipe: Recipe) -> torch.optim.Optimizer:
    parameters = [parameter for parameter in module.parameters() if parameter.requires_grad]
    # Fused: one pass over each tensor. Six times faster than the default on CPU for an LSTM's few large ones.
    return torch.optim.Adam(parameters, lr=recipe.learning_rate, fused=True)


def _stream(*numbers: int) -> int:
    """One seed from several numbers; streams of different numbers do not overlap."""
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0] >> np.uint64(1))


def _pieces(samples: Sequence[Sample], size: int | None) -> Iterator[Sequence[Sample]]:
    step = size or max(1, len(samples))
    for start in range(0, len(samples), step):
        yield samples[start : start + step]
