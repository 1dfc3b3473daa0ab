"""The training loop: fit and predict for any :class:`~judge.judges.Network`, on Hugging Face Accelerate.

The loop knows nothing of text or images: a network collates samples and returns logits, the target picks the loss,
and Accelerate places tensors, sets the precision and, if several processes train one judge, averages gradients.
The result depends on samples, recipe and seed alone: initial weights, order and dropout come from that seed, so it does
not matter what is trained before it, beside it, or where.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Literal, Self, cast

import numpy as np
import torch
from accelerate import Accelerator
from accelerate.utils import DistributedDataParallelKwargs
from torch import Tensor, nn
from torch.optim import Optimizer

from judge.errors import JudgeError
from judge.judges import NOTHING, PROMPTED, Blueprint, Materials, Network, Recipe, Sharing
from judge.training.batches import Batches, MicroBatch, cut_up, report_killed_workers, run_fitting
from judge.training.checkpoint import Checkpoint, History, load_weights, read_history
from judge.training.launch import gather, is_sharded, shard, uses_fsdp
from judge.training.losses import (
    Truth,
    make_optimiser,
    make_schedule,
    sums_of,
    to_probabilities,
    weighted_loss,
)
from judge.training.member import derive_seed
from judge.types import FloatArray, Predictions, Sample, Target

EVALUATION_BATCH = 256
_USUAL = 8  # Samples of a micro-batch "usual" where "auto" is not.
_SMALLER = "take a smaller judge, --tuning lora or frozen, or --precision bf16"
OnEpoch = Callable[[int, History], None]
"""Called after each epoch with the number of epochs done, and the history so far."""


class Trainer:
    """Trains one network at a time.

    Args:
        accelerator: from :func:`~judge.training.launch.make_accelerator`.
        sharing: "members": this process trains alone, other processes train other members;
            "data": all processes train this one, each on its share of every batch.
        checkpoint: file that makes an interrupted training resumable from the end of an epoch; None for none.
        seconds: least time between two writes of it.
        workers: processes that collate batches ahead; 0 for this one.
        on_epoch: called after each epoch.

    Attributes:
        where: what is trained, in messages.
        micro_batch: samples of a forward pass of the last training; None for whole batches.
    """

    def __init__(
        self,
        accelerator: Accelerator,
        *,
        sharing: Sharing = "members",
        checkpoint: Path | None = None,
        seconds: float = 60.0,
        workers: int = 0,
        on_epoch: OnEpoch | None = None,
    ) -> None:
        self.accelerator = accelerator
        self.parallel = sharing == "data" and accelerator.num_processes > 1
        self.sharded = self.parallel and uses_fsdp()
        self.rank = accelerator.process_index if self.parallel else 0
        self.world = accelerator.num_processes if self.parallel else 1
        self.checkpoint, self.seconds = checkpoint, seconds
        self.workers, self.on_epoch, self.where = workers, on_epoch, "training"
        self.micro_batch: int | None = None

    def choose_micro_batch(self, recipe: Recipe, *, normalises: bool = False) -> int | Literal["auto"] | None:
        """The samples of a forward pass; "auto" for as many as memory holds, None for the whole share of a batch.

        Args:
            recipe: of the training.
            normalises: whether a sample's loss depends on the samples beside it: batches are then not cut.

        Raises:
            JudgeError: "auto" with several processes for one judge; batches would be cut that must not be.
        """
        size = recipe.micro_batch
        if normalises:
            if self.parallel:
                what, mend = "batch normalisation is of one process's samples", "leave --sharing out, or take members"
                raise JudgeError(what, where="--sharing data", mend=mend)
            if isinstance(size, int):
                what, mend = "batch normalisation is of whole batches", "leave it out, or take a smaller --batch-size"
                raise JudgeError(what, where=f"--micro-batch {size}", mend=mend)
            return None
        if size == "auto" and self.parallel:
            what = "processes that train one judge cannot try what fits into memory"
            raise JudgeError(what, where="--micro-batch auto", mend="give --micro-batch a number")
        if size == "usual":
            return "auto" if self.accelerator.device.type != "cpu" and not self.parallel else _USUAL
        return size

    def fit(
        self,
        network: Network,
        samples: Sequence[Sample],
        *,
        target: Target,
        recipe: Recipe,
        seed: int,
        validation: Sequence[Sample] = (),
        whole: bool = False,
    ) -> History:
        """Train ``network`` in place, ``self.micro_batch`` samples a forward pass.

        ``whole``: its outputs are log probabilities among all words, see :mod:`judge.training.losses`.

        Raises:
            JudgeError: the loss became NaN or infinite; ``keep="best"`` without validation samples.
        """
        module = cast(nn.Module, network)
        if recipe.keep == "best" and not validation:
            raise JudgeError("nothing to choose the best epoch by", where="recipe", mend="give validation samples")
        model, optimiser, wrapped = self._prepare(module, recipe)
        device, batches_a_pass = self.accelerator.device, len(cut_up(range(len(samples)), recipe.batch_size))
        batches = Batches(network, samples, target, device, workers=self.workers)
        state = Checkpoint(
            self.checkpoint if self.rank == 0 else None,
            read_from=self._find_checkpoint(),
            seconds=self.seconds,
            scaler=self.accelerator.scaler,
            agree=self._agree,
        )
        first = state.load(module, optimiser, seed=seed)
        total = recipe.epochs * batches_a_pass
        schedule = make_schedule(optimiser, recipe, total=total, done=first * batches_a_pass)

        def step() -> None:
            if recipe.clip is not None:
                trained = [weight for weight in module.parameters() if weight.requires_grad]
                self.accelerator.clip_grad_norm_(trained, recipe.clip)
            wrapped.step()
            if schedule:
                schedule.step()
            wrapped.zero_grad()

        for epoch in range(first, recipe.epochs):
            if recipe.patience and state.history.waited >= recipe.patience:
                break
            torch.manual_seed(derive_seed(seed, epoch, self.rank))
            module.train()
            order = np.random.default_rng(derive_seed(seed, epoch, 0)).permutation(len(samples)).tolist()
            loss = self._train_epoch(model, batches, cut_up(order, recipe.batch_size), step, whole=whole)
            if not np.isfinite(loss):
                raise diverged(loss, epoch, where=self.where)
            state.history.training.append(loss)
            if recipe.keep == "best":
                logits = self._logits(network, validation, target)
                held_out = weighted_loss(logits, Truth.of(validation, target), whole=whole)
                state.keep_best(module, float(held_out) / sum(sample.weight for sample in validation))
            state.save(module, optimiser, seed=seed)
            if self.on_epoch:
                self.on_epoch(epoch + 1, state.history)
        state.restore_best(module)
        module.zero_grad(set_to_none=True)
        if device.type != "cpu":
            self.accelerator.free_memory()  # Of the optimiser, which Accelerate keeps.
        return state.history

    def _prepare(self, module: nn.Module, recipe: Recipe) -> tuple[nn.Module, Optimizer, Optimizer]:
        """The model that training calls, its optimiser, and the optimiser as Accelerate wraps it."""
        if self.sharded:
            # A sharded judge need not fit into one device; the optimiser is of the shards.
            shard(self.accelerator, module)
        else:
            module.to(self.accelerator.device)
        optimiser = make_optimiser(module, recipe)
        if not self.parallel or self.sharded:
            return module, optimiser, self.accelerator.prepare_optimizer(optimiser)
        # Captioners may have weights that no answer passes through.
        self.accelerator.ddp_handler = DistributedDataParallelKwargs(
            find_unused_parameters=True, gradient_as_bucket_view=True
        )
        model, wrapped = self.accelerator.prepare(module, optimiser)
        return model, optimiser, wrapped

    def _train_epoch(
        self,
        model: nn.Module,
        batches: Batches,
        chosen: Sequence[Sequence[int]],
        step: Callable[[], None],
        *,
        whole: bool,
    ) -> float:
        """One pass over the batches; returns the mean loss.

        The gradient of a batch is that of its weighted mean loss, however many processes and micro-batches it is cut
        into: each micro-batch adds its weighted sum over the weight of the whole batch.
        """
        cut = [self._cut(batch, self.micro_batch) for batch in chosen]
        loaded = batches.load(list(chain.from_iterable(cut)))
        # On the device, and read once an epoch: reading waits for the device.
        total = torch.zeros((), dtype=sums_of(batches.device), device=batches.device)
        for places, micro_batches in zip(chosen, cut, strict=True):
            scale = self.world / sum(batches.samples[place].weight for place in places)
            for number in range(len(micro_batches)):
                batch, truth = next(loaded)
                last = number + 1 == len(micro_batches)
                with nullcontext() if last else self.accelerator.no_sync(model):
                    with self.accelerator.autocast():
                        logits = model(batch)
                    loss = weighted_loss(logits.float(), truth, whole=whole) * scale
                    self.accelerator.backward(loss)
                total += loss.detach().to(total.dtype) * len(places)
            step()
        if self.parallel:
            total = self.accelerator.reduce(total, reduction="mean")
        return float(total) / len(batches.samples)

    def _cut(self, batch: Sequence[int], size: int | None) -> list[MicroBatch]:
        """This process's share of a batch, cut into micro-batches; as many in every process."""
        own, most = batch[self.rank :: self.world], -(-len(batch) // self.world)
        parts = [own[start : start + (size or most)] for start in range(0, most, size or max(1, most))]
        # A process without samples takes part: others wait for its gradients, or its shards.
        return [MicroBatch(part) if part else MicroBatch(batch[:1], counts=False) for part in parts]

    def predict(
        self, network: Network, samples: Sequence[Sample], *, target: Target, recipe: Recipe, whole: bool = False
    ) -> FloatArray:
        """Probabilities [N, A] float64 in (0, 1), see :func:`~judge.training.losses.to_probabilities`.

        ``whole``: as for :meth:`fit`; rows then sum to less than 1.

        Raises:
            JudgeError: memory ran out.
        """
        module = cast(nn.Module, network)
        if not is_sharded(module):
            module.to(self.accelerator.device)
        size = self.choose_micro_batch(recipe)
        if self.micro_batch is None and size != "auto":
            self.micro_batch = size
        return to_probabilities(self._logits(network, samples, target), target, whole=whole)

    def _logits(self, network: Network, samples: Sequence[Sample], target: Target) -> Tensor:
        """Logits [N, A] float64 on the CPU; each process computes a share, and all get the whole."""
        batches = Batches(network, samples, target, self.accelerator.device, workers=self.workers)
        # Without gradients more samples fit into a GPU. On CPUs that would change the last digits, and save no time.
        size = self.micro_batch or EVALUATION_BATCH
        if not self.sharded and batches.device.type != "cpu":
            size = EVALUATION_BATCH

        def compute(size: int) -> Tensor:
            loaded = batches.load(self._cut(range(len(samples)), size))
            return torch.cat([network(batch) for batch, _ in loaded]).cpu().double()

        cast(nn.Module, network).eval()
        with torch.no_grad(), self.accelerator.autocast():
            if self.sharded:
                rows = compute(size)  # Shards are gathered pass by pass: all processes need as many.
            else:
                rows = run_fitting(compute, min(size, len(samples)), where="predicting", mend=_SMALLER)
        if not self.parallel:
            return rows
        found = torch.empty(len(samples), rows.shape[-1], dtype=torch.float64)
        for rank, part in enumerate(gather(rows)):
            places = range(rank, len(samples), self.world)
            found[rank :: self.world] = part[: len(places)]  # Without rows that do not count.
        return found

    def _find_checkpoint(self) -> Path | None:
        """The file to resume from; None if processes that train together have different ones, on disks of their own."""
        if not self.parallel or self.checkpoint is None:
            return self.checkpoint
        own = read_history(self.checkpoint)
        return self.checkpoint if all(other == own for other in gather(own)) else None

    def _agree(self, due: bool) -> bool:
        """Whether a write is due: all processes gather shards for the main one, which decides."""
        return bool(gather(due)[0]) if self.sharded else due


class NetworkJudge:
    """A :class:`~judge.judges.Judge` made of a blueprint's network and a trainer.

    Args:
        blueprint: makes the network.
        target: what it guesses.
        recipe: how it is trained.
        trainer: trains it.
        materials: what its network is given beside samples.
    """

    network: Network

    def __init__(
        self, blueprint: Blueprint, target: Target, recipe: Recipe, trainer: Trainer, materials: Materials = NOTHING
    ) -> None:
        self.blueprint, self.target, self.recipe, self.trainer = blueprint, target, recipe, trainer
        self.materials = materials
        self.whole = materials.answering == "vocabulary" and blueprint.reads >= PROMPTED
        trainer.where = f"training judge '{blueprint.name}'"
        self.history = History()

    def make(self, samples: Sequence[Sample], seed: int, *, empty: bool = False) -> Network:
        """The network as it is before training; ``empty`` if another process sends its weights."""
        assert self.blueprint.network is not None
        # The seed of dropout in the first epoch, too: another number would change every published figure of a network.
        torch.manual_seed(derive_seed(seed, 0, 0))
        return self.blueprint.network(self.target, samples, replace(self.materials, empty=empty))

    def fit(self, samples: Sequence[Sample], *, seed: int, validation: Sequence[Sample] = ()) -> Self:
        """Make the network from ``samples`` and train it.

        Batch normalisation is of the samples that pass at once: a network that has any is trained on whole batches,
        by one process.

        Raises:
            JudgeError: as :meth:`Trainer.fit`; batches cut up under batch normalisation; memory ran out.
        """
        trainer, share = self.trainer, min(self.recipe.batch_size, len(samples))

        def attempt(size: int | None) -> History:
            trainer.micro_batch = size
            return trainer.fit(
                self.network,
                samples,
                target=self.target,
                recipe=self.recipe,
                seed=seed,
                validation=validation,
                whole=self.whole,
            )

        def attempt_or_restart(size: int) -> History:
            if size < share:
                del self.network
                trainer.accelerator.free_memory()  # It holds the optimiser of the attempt before.
                self.network = self.make(samples, seed)
            return attempt(size)

        self.network = self.make(samples, seed, empty=trainer.sharded and trainer.rank > 0)
        if not any(weight.requires_grad for weight in cast(nn.Module, self.network).parameters()):
            return self  # A zero-shot judge.
        size = trainer.choose_micro_batch(self.recipe, normalises=_normalises(self.network))
        with report_killed_workers():
            if size == "auto":
                self.history = run_fitting(attempt_or_restart, share, where=trainer.where, mend=_SMALLER)
            else:
                self.history = attempt(size)
        return self

    def predict(self, samples: Sequence[Sample]) -> Predictions:
        """Probabilities [N, A], rows in the order of ``samples``."""
        with report_killed_workers():
            found = self.trainer.predict(
                self.network, samples, target=self.target, recipe=self.recipe, whole=self.whole
            )
        best = self.history.best
        return Predictions(found, self.target, {} if best is None else {"epoch": best})

    def restore(self, samples: Sequence[Sample], path: Path, *, seed: int) -> Self:
        """Load the weights of a judge that was fitted to these samples with this seed."""
        self.network = self.make(samples, seed)
        load_weights(path, cast(nn.Module, self.network))
        return self


def _normalises(network: Network) -> bool:
    """Whether a sample's loss depends on the samples beside it; frozen parts may stay in evaluation."""
    layers = cast(nn.Module, network).train().modules()
    return any(isinstance(layer, nn.modules.batchnorm._BatchNorm) and layer.training for layer in layers)


def diverged(loss: float, epoch: int, *, where: str) -> JudgeError:
    """The error of a loss that is not finite; epochs count from 0."""
    mend = "lower --learning-rate, or use --precision no"
    return JudgeError(f"loss is {loss} in epoch {epoch + 1}", where=where, mend=mend)
