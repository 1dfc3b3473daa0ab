"""The training loop: fit and predict for any :class:`~judge.judges.Network`, on Hugging Face Accelerate.

``NetworkJudge._train`` is the whole training, from top to bottom. It knows nothing of text or images: a network
collates samples and returns logits, the target picks the loss, and Accelerate places tensors, sets the precision and,
if several processes train one judge, averages gradients. The result depends on samples, recipe and seed alone: initial
weights, order and dropout come from that seed, so it does not matter what is trained before it, beside it, or where.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
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
    to_probabilities,
    weighted_loss,
)
from judge.training.checkpoint import Checkpoint, History, load_weights, read_history
from judge.training.launch import gather, is_sharded, shard, uses_fsdp
from judge.training.member import derive_seed
from judge.types import Predictions, Sample, Target

EVALUATION_BATCH = 256
_USUAL = 8  # Samples of a micro-batch "usual".
_SMALLER = "take a smaller judge, --tuning lora or frozen, or --training precision=bf16"


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

        Raises:
            JudgeError: batches would be cut whose samples are normalised together (``normalises``).
        """
        if not normalises:
            return _USUAL if recipe.micro_batch == "usual" else recipe.micro_batch
        if self.parallel:
            what, mend = "batch normalisation is of one process's samples", "leave it out, or take members"
            raise JudgeError(what, where="--training sharing=data", mend=mend)
        if isinstance(recipe.micro_batch, int):
            what, mend = "batch normalisation is of whole batches", "leave it out, or take a smaller batch_size"
            raise JudgeError(what, where=f"--training micro_batch={recipe.micro_batch}", mend=mend)
        return None

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
        whole: whether outputs are log probabilities among all words, see :mod:`judge.training.batches`.
    """

    network: Network

    def __init__(
        self, blueprint: Blueprint, target: Target, recipe: Recipe, trainer: Trainer, materials: Materials = NOTHING
    ) -> None:
        self.blueprint, self.target, self.recipe, self.trainer = blueprint, target, recipe, trainer
        self.materials = materials
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
        mend = f"take a smaller --training {'batch_size' if normalises else 'micro_batch'}=N, or {_SMALLER}"
        with report_lack_of_memory(self.where, mend, alone=not trainer.parallel):
            self._train(samples, validation, seed)
        return self

    def _train(self, samples: Sequence[Sample], validation: Sequence[Sample], seed: int) -> None:
        """Every epoch, batch and micro-batch of the training; the weights of the chosen epoch are left."""
        module, recipe, trainer, accelerator = self.module, self.recipe, self.trainer, self.trainer.accelerator
        model, optimiser = self._place()
        wrapped = accelerator.prepare_optimizer(optimiser)
        state = self._open_checkpoint()
        first = state.load(module, optimiser, seed=seed)
        steps = len(cut_up(range(len(samples)), recipe.batch_size))
        schedule = make_schedule(optimiser, recipe, total=recipe.epochs * steps, done=first * steps)
        trainer.on_step(first * steps)

        for epoch in range(first, recipe.epochs):
            if recipe.patience and state.history.waited >= recipe.patience:
                break
            # Each epoch has random numbers of its own, so that a resumed training equals an uninterrupted one.
            torch.manual_seed(derive_seed(seed, epoch, trainer.rank))
            order = np.random.default_rng(derive_seed(seed, epoch, 0)).permutation(len(samples)).tolist()
            batches = cut_up(order, recipe.batch_size)
            cut = [trainer.cut(batch, self.micro_batch) for batch in batches]
            loaded = self._load(samples, list(chain.from_iterable(cut)))
            # Summed on the device (MPS has no float64), and read once an epoch: reading waits for the device.
            total = torch.zeros(
                (),
                dtype=torch.float32 if accelerator.device.type == "mps" else torch.float64,
                device=accelerator.device,
            )
            module.train()

            for batch, micro_batches in zip(batches, cut, strict=True):
                # The gradient is that of the batch's weighted mean loss, whatever the micro-batches and processes are.
                scale = trainer.world / sum(samples[place].weight for place in batch)
                for number in range(len(micro_batches)):
                    inputs, truth = next(loaded)
                    # Shards are summed at every pass: until the last one, each process would hold a whole gradient.
                    sums = trainer.sharded or number + 1 == len(micro_batches)
                    with nullcontext() if sums else accelerator.no_sync(model):
                        with accelerator.autocast():
                            logits = model(inputs)
                        loss = weighted_loss(logits.float(), truth, whole=self.whole) * scale
                        accelerator.backward(loss)
                    total = total + loss.detach().to(total.dtype) * len(batch)
                if recipe.clip is not None:
                    accelerator.clip_grad_norm_(optimiser.param_groups[0]["params"], recipe.clip)
                wrapped.step()
                if schedule:
                    schedule.step()
                wrapped.zero_grad()
                trainer.on_step(1)

            mean = float(accelerator.reduce(total, reduction="mean") if trainer.parallel else total) / len(samples)
            if not np.isfinite(mean):
                mend = "lower --training learning_rate=X, or use --training precision=no"
                raise JudgeError(f"loss is {mean} in epoch {epoch + 1}", where=self.where, mend=mend)
            state.history.training.append(mean)
            if recipe.keep == "best":
                held_out = weighted_loss(self._logits(validation), Truth.of(validation, self.target), whole=self.whole)
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

    def _open_checkpoint(self) -> Checkpoint:
        """The state of the training; processes that train together resume if all have the same file, or none does."""
        trainer = self.trainer
        path = trainer.checkpoint
        if trainer.parallel and path is not None:
            histories = gather(read_history(path))  # Machines may have disks of their own.
            path = path if all(other == histories[0] for other in histories) else None
        return Checkpoint(
            trainer.checkpoint if trainer.rank == 0 else None,
            read_from=path,
            seconds=trainer.seconds,
            scaler=trainer.accelerator.scaler,
            sharded=trainer.sharded,
        )

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

    @torch.no_grad()
    def _logits(self, samples: Sequence[Sample]) -> Tensor:
        """Logits [N, A] float64 on the CPU; each process computes a share, and all get the whole."""
        trainer = self.trainer
        self.module.eval()
        if trainer.sharded:  # Shards are gathered pass by pass: all processes need as many.
            rows = self._pass(samples, self.micro_batch or EVALUATION_BATCH)
        else:
            # Without gradients more samples fit into a GPU. On CPUs that would change the last digits, and save no
            # time.
            on_cpu = trainer.accelerator.device.type == "cpu"
            size = (on_cpu and self.micro_batch) or EVALUATION_BATCH
            work = partial(self._pass, samples)
            rows = run_fitting(work, min(size, len(samples)), where="predicting", mend=_SMALLER)
        if not trainer.parallel:
            return rows
        found = torch.empty(len(samples), rows.shape[-1], dtype=torch.float64)
        for rank, part in enumerate(gather(rows)):
            places = range(rank, len(samples), trainer.world)
            found[rank :: trainer.world] = part[: len(places)]  # Without rows that do not count.
        return found

    def _pass(self, samples: Sequence[Sample], size: int) -> Tensor:
        """Logits of this process's share of ``samples``, ``size`` at a time."""
        loaded = self._load(samples, self.trainer.cut(range(len(samples)), size))
        with self.trainer.accelerator.autocast():
            return torch.cat([self.network(batch) for batch, _ in loaded]).cpu().double()

    def restore(self, samples: Sequence[Sample], path: Path, *, seed: int) -> Self:
        """Load the weights of a judge that was fitted to these samples with this seed."""
        self.network = self.make(samples, seed)
        load_weights(path, self.module)
        return self
