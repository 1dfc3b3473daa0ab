"""The training loop: fit and predict for any :class:`~judge.judges.Network`, on Hugging Face Accelerate.

The loop knows nothing of text or images: a network collates samples and returns logits, the target picks the loss,
and Accelerate places tensors, sets the precision and, if several processes train one judge, averages gradients.
The result depends on samples, recipe and seed alone: initial weights, order and dropout come from that seed, so it does
not matter what is trained before it, beside it, or where.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Self, cast

import numpy as np
import torch
from accelerate import Accelerator
from accelerate.utils import DistributedDataParallelKwargs
from torch import Tensor, nn

from judge.errors import JudgeError
from judge.judges import NOTHING, PROMPTED, Batch, Blueprint, Materials, Network, Recipe, Sharing
from judge.training.batches import (
    MicroBatch,
    Truth,
    cut_up,
    load_batches,
    make_optimiser,
    make_schedule,
    report_lack_of_memory,
    run_fitting,
    sums_of,
    to_probabilities,
    weighted_loss,
)
from judge.training.checkpoint import Checkpoint, History, load_weights, read_history
from judge.training.launch import gather, is_sharded, shard, uses_fsdp
from judge.training.member import derive_seed
from judge.types import Predictions, Sample, Target

EVALUATION_BATCH = 256
_USUAL = 8  # Samples of a micro-batch "usual".
_SMALLER = "take a smaller judge, --tuning lora or frozen, or --precision bf16"


@dataclass
class Trainer:
    """Where networks are trained, and by which processes.

    Attributes:
        sharing: "members": this process trains alone, other processes train other members;
            "data": all processes train one judge, each on its share of every batch.
        checkpoint: file that makes an interrupted training resumable from the end of an epoch; None for none.
        seconds: least time between two writes of it.
        workers: processes that collate batches ahead; 0 for this one.
        on_epoch: called after each epoch with the number of epochs done, and the history so far.
        on_step: called after each step, and before the first one with the number of those that a checkpoint has.
    """

    accelerator: Accelerator
    sharing: Sharing = "members"
    checkpoint: Path | None = None
    seconds: float = 60.0
    workers: int = 0
    on_epoch: Callable[[int, History], None] | None = None
    on_step: Callable[[int], None] = lambda _: None

    def __post_init__(self) -> None:
        self.parallel = self.sharing == "data" and self.accelerator.num_processes > 1
        self.sharded = self.parallel and uses_fsdp()
        self.rank = self.accelerator.process_index if self.parallel else 0
        self.world = self.accelerator.num_processes if self.parallel else 1

    def choose_micro_batch(self, recipe: Recipe, *, normalises: bool = False) -> int | None:
        """The samples of a forward pass; None for the whole share of a batch.

        Batches are not cut where a sample's loss depends on the samples beside it (``normalises``).

        Raises:
            JudgeError: batches would be cut that must not be.
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
        return _USUAL if size == "usual" else size

    def cut(self, batch: Sequence[int], size: int | None) -> list[MicroBatch]:
        """This process's share of a batch, cut into micro-batches of ``size``; as many in every process."""
        own, most = batch[self.rank :: self.world], -(-len(batch) // self.world)
        parts = [own[start : start + (size or most)] for start in range(0, most, size or max(1, most))]
        # A process without samples takes part: others wait for its gradients, or its shards.
        return [MicroBatch(part) if part else MicroBatch(batch[:1], counts=False) for part in parts]


class NetworkJudge:
    """A :class:`~judge.judges.Judge` made of a blueprint's network and a trainer.

    Attributes:
        micro_batch: samples of a forward pass; None for whole batches.
    """

    network: Network

    def __init__(
        self, blueprint: Blueprint, target: Target, recipe: Recipe, trainer: Trainer, materials: Materials = NOTHING
    ) -> None:
        self.blueprint, self.target, self.recipe, self.trainer = blueprint, target, recipe, trainer
        self.materials = materials
        # Its outputs are log probabilities among all words, see :mod:`judge.training.batches`.
        self.whole = materials.answering == "vocabulary" and blueprint.reads >= PROMPTED
        self.where = f"training judge '{blueprint.name}'"
        self.history = History()
        self.micro_batch: int | None = None

    @property
    def module(self) -> nn.Module:
        """The network, for torch."""
        return cast(nn.Module, self.network)

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
            JudgeError: the loss became NaN or infinite; ``keep="best"`` without validation samples; batches cut up
                under batch normalisation; memory ran out.
        """
        trainer = self.trainer
        self.network = self.make(samples, seed, empty=trainer.sharded and trainer.rank > 0)
        if not any(weight.requires_grad for weight in self.module.parameters()):
            return self  # A zero-shot judge.
        if self.recipe.keep == "best" and not validation:
            raise JudgeError("nothing to choose the best epoch by", where="recipe", mend="give validation samples")
        # Frozen parts may stay in evaluation.
        layers = [layer for layer in self.module.train().modules() if layer.training]
        normalises = any(isinstance(layer, nn.modules.batchnorm._BatchNorm) for layer in layers)
        self.micro_batch = trainer.choose_micro_batch(self.recipe, normalises=normalises)
        mend = f"take a smaller --micro-batch or --batch-size, or {_SMALLER}"
        with report_lack_of_memory(self.where, mend, alone=not trainer.parallel):
            self._train(samples, validation, seed)
        return self

    def _train(self, samples: Sequence[Sample], validation: Sequence[Sample], seed: int) -> None:
        module, recipe, trainer = self.module, self.recipe, self.trainer
        accelerator = trainer.accelerator
        model, optimiser = self._place()
        wrapped = accelerator.prepare_optimizer(optimiser)
        batches_a_pass = len(cut_up(range(len(samples)), recipe.batch_size))
        read_from = trainer.checkpoint
        if trainer.parallel and read_from is not None:
            # Processes that train together may have different files, on disks of their own: then none is resumed.
            losses = read_history(read_from)
            read_from = read_from if all(other == losses for other in gather(losses)) else None
        state = Checkpoint(
            trainer.checkpoint if trainer.rank == 0 else None,
            read_from=read_from,
            seconds=trainer.seconds,
            scaler=accelerator.scaler,
            # All processes gather shards for the main one, which decides whether a write is due.
            agree=(lambda due: bool(gather(due)[0])) if trainer.sharded else bool,
        )
        first = state.load(module, optimiser, seed=seed)
        total = recipe.epochs * batches_a_pass
        schedule = make_schedule(optimiser, recipe, total=total, done=first * batches_a_pass)
        trainer.on_step(first * batches_a_pass)

        def step() -> None:
            if recipe.clip is not None:
                trained = [weight for weight in module.parameters() if weight.requires_grad]
                accelerator.clip_grad_norm_(trained, recipe.clip)
            wrapped.step()
            if schedule:
                schedule.step()
            wrapped.zero_grad()
            trainer.on_step(1)

        for epoch in range(first, recipe.epochs):
            if recipe.patience and state.history.waited >= recipe.patience:
                break
            torch.manual_seed(derive_seed(seed, epoch, trainer.rank))
            module.train()
            order = np.random.default_rng(derive_seed(seed, epoch, 0)).permutation(len(samples)).tolist()
            loss = self._train_epoch(model, samples, cut_up(order, recipe.batch_size), step)
            if not np.isfinite(loss):
                raise diverged(loss, epoch, where=self.where)
            state.history.training.append(loss)
            if recipe.keep == "best":
                logits = self._logits(validation)
                held_out = weighted_loss(logits, Truth.of(validation, self.target), whole=self.whole)
                state.keep_best(module, float(held_out) / sum(sample.weight for sample in validation))
            state.save(module, optimiser, seed=seed)
            if trainer.on_epoch:
                trainer.on_epoch(epoch + 1, state.history)
        state.restore_best(module)
        module.zero_grad(set_to_none=True)
        if accelerator.device.type != "cpu":
            accelerator.free_memory()  # Accelerate keeps the optimiser.
        self.history = state.history

    def _place(self) -> tuple[nn.Module, torch.optim.Optimizer]:
        """The model that training calls, on its device and with the other processes; and its optimiser."""
        trainer, accelerator, module = self.trainer, self.trainer.accelerator, self.module
        if trainer.sharded:
            # A sharded judge need not fit into one device; the optimiser is of the shards.
            shard(accelerator, module)
        else:
            module.to(accelerator.device)
        optimiser = make_optimiser(module, self.recipe)
        if trainer.sharded or not trainer.parallel:
            return module, optimiser
        # Captioners may have weights that no answer passes through.
        handler = DistributedDataParallelKwargs(find_unused_parameters=True, gradient_as_bucket_view=True)
        accelerator.ddp_handler = handler
        return accelerator.prepare(module), optimiser

    def _train_epoch(
        self, model: nn.Module, samples: Sequence[Sample], chosen: Sequence[Sequence[int]], step: Callable[[], None]
    ) -> float:
        """One pass over the batches; returns the mean loss.

        The gradient of a batch is that of its weighted mean loss, however many processes and micro-batches it is cut
        into: each micro-batch adds its weighted sum over the weight of the whole batch.
        """
        trainer, accelerator = self.trainer, self.trainer.accelerator
        # On the device, and read once an epoch: reading waits for the device.
        total = torch.zeros((), dtype=sums_of(accelerator.device), device=accelerator.device)
        cut = [trainer.cut(batch, self.micro_batch) for batch in chosen]
        loaded = self._load(samples, list(chain.from_iterable(cut)))
        for batch, parts in zip(chosen, cut, strict=True):
            scale = trainer.world / sum(samples[place].weight for place in batch)
            for number in range(len(parts)):
                inputs, truth = next(loaded)
                # Shards are summed at every pass: until the last one, each process would hold a whole gradient.
                sums = trainer.sharded or number + 1 == len(parts)
                with nullcontext() if sums else accelerator.no_sync(model):
                    with accelerator.autocast():
                        logits = model(inputs)
                    loss = weighted_loss(logits.float(), truth, whole=self.whole) * scale
                    accelerator.backward(loss)
                total = total + loss.detach().to(total.dtype) * len(batch)
            step()
        if trainer.parallel:
            total = accelerator.reduce(total, reduction="mean")
        return float(total) / len(samples)

    def _load(self, samples: Sequence[Sample], cut: Sequence[MicroBatch]) -> Iterator[tuple[Batch, Truth]]:
        device, workers = self.trainer.accelerator.device, self.trainer.workers
        return load_batches(self.network, samples, self.target, cut, device=device, workers=workers)

    def predict(self, samples: Sequence[Sample]) -> Predictions:
        """Probabilities [N, A] in (0, 1), rows in the order of ``samples``."""
        if not is_sharded(self.module):
            self.module.to(self.trainer.accelerator.device)
        self.micro_batch = self.micro_batch or self.trainer.choose_micro_batch(self.recipe)
        with report_lack_of_memory("predicting", _SMALLER, alone=not self.trainer.parallel):
            found = to_probabilities(self._logits(samples), self.target, whole=self.whole)
        best = self.history.best
        return Predictions(found, self.target, {} if best is None else {"epoch": best})

    def _logits(self, samples: Sequence[Sample]) -> Tensor:
        """Logits [N, A] float64 on the CPU; each process computes a share, and all get the whole."""
        trainer, accelerator = self.trainer, self.trainer.accelerator
        # Without gradients more samples fit into a GPU. On CPUs that would change the last digits, and save no time.
        size = self.micro_batch or EVALUATION_BATCH
        if not trainer.sharded and accelerator.device.type != "cpu":
            size = EVALUATION_BATCH

        def compute(size: int) -> Tensor:
            loaded = self._load(samples, trainer.cut(range(len(samples)), size))
            return torch.cat([self.network(batch) for batch, _ in loaded]).cpu().double()

        self.module.eval()
        with torch.no_grad(), accelerator.autocast():
            if trainer.sharded:
                rows = compute(size)  # Shards are gathered pass by pass: all processes need as many.
            else:
                rows = run_fitting(compute, min(size, len(samples)), where="predicting", mend=_SMALLER)
        if not trainer.parallel:
            return rows
        found = torch.empty(len(samples), rows.shape[-1], dtype=torch.float64)
        for rank, part in enumerate(gather(rows)):
            places = range(rank, len(samples), trainer.world)
            found[rank :: trainer.world] = part[: len(places)]  # Without rows that do not count.
        return found

    def restore(self, samples: Sequence[Sample], path: Path, *, seed: int) -> Self:
        """Load the weights of a judge that was fitted to these samples with this seed."""
        self.network = self.make(samples, seed)
        load_weights(path, self.module)
        return self


def diverged(loss: float, epoch: int, *, where: str) -> JudgeError:
    """The error of a loss that is not finite; epochs count from 0."""
    mend = "lower --learning-rate, or use --precision no"
    return JudgeError(f"loss is {loss} in epoch {epoch + 1}", where=where, mend=mend)
