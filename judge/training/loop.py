"""The training loop: fit and predict for any :class:`~judge.judges.Network`, on Hugging Face Accelerate.

:meth:`NetworkJudge._train` is the whole training, from top to bottom; the functions below it are its steps. It knows
nothing of text or images: a network collates samples and returns logits, the target picks the loss, and Accelerate
places tensors, sets the precision and, if several processes train one judge, averages gradients. The result depends on
samples, recipe and seed alone: initial weights, order and dropout come from that seed, so it does not matter what is
trained before it, beside it, or where.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeVar, cast

import numpy as np
import torch
from accelerate import Accelerator
from accelerate.utils import DistributedDataParallelKwargs, send_to_device
from accelerate.utils.memory import clear_device_cache, should_reduce_batch_size
from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import DataLoader

from judge.errors import JudgeError
from judge.judges import NOTHING, PROMPTED, Batch, Blueprint, Materials, Network, Recipe, Sharing
from judge.training.checkpoint import Checkpoint, History, load_weights, read_history
from judge.training.launch import gather, is_sharded, shard, uses_fsdp
from judge.training.member import DIVERGED, derive_seed
from judge.types import FloatArray, Predictions, Sample, Target

T = TypeVar("T")
# Log odds are clipped here, like those of ``linear``: beyond 37 a float64 probability is 1, and the loss of the
# other class is infinite.
MOST_LOG_ODDS = 36.0
# A log probability below that of the least normal float64 would become 0.
_LEAST_LOG = math.log(np.finfo(np.float64).tiny)
EVALUATION_BATCH = 256
_USUAL = 8  # Samples of a micro-batch "usual".
_SMALLER = "take a smaller judge, --tuning lora or frozen, or --training precision=bf16"


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
    """Places of the samples of one forward pass. One that does not count has weight 0: the others wait for it."""

    places: Sequence[int]
    counts: bool = True


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
        among_words: whether outputs are log probabilities among all words, see :func:`to_probabilities`.
    """

    network: Network

    def __init__(
        self, blueprint: Blueprint, target: Target, recipe: Recipe, trainer: Trainer, materials: Materials = NOTHING
    ) -> None:
        self.blueprint, self.target, self.recipe, self.trainer = blueprint, target, recipe, trainer
        self.materials = materials
        self.among_words = materials.answering == "vocabulary" and blueprint.reads >= PROMPTED
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
        wrapped, state = accelerator.prepare_optimizer(optimiser), self._open_checkpoint()
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
            kind = torch.float32 if accelerator.device.type == "mps" else torch.float64
            total = torch.zeros((), dtype=kind, device=accelerator.device)
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
                        loss = self._loss(logits.float(), truth) * scale
                        accelerator.backward(loss)
                    total = total + loss.detach().to(kind) * len(batch)
                if recipe.clip is not None:
                    accelerator.clip_grad_norm_(optimiser.param_groups[0]["params"], recipe.clip)
                wrapped.step()
                if schedule:
                    schedule.step()
                wrapped.zero_grad()
                trainer.on_step(1)

            mean = float(accelerator.reduce(total, reduction="mean") if trainer.parallel else total) / len(samples)
            if not np.isfinite(mean):
                raise JudgeError(f"loss is {mean} in epoch {epoch + 1}", where=self.where, mend=DIVERGED)
            state.history.training.append(mean)
            if recipe.keep == "best":
                held_out = self._loss(self._logits(validation), Truth.of(validation, self.target))
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
            first, *others = gather(read_history(path))  # Machines may have disks of their own.
            path = path if all(other == first for other in others) else None
        return Checkpoint(
            trainer.checkpoint if trainer.rank == 0 else None,
            read_from=path,
            seconds=trainer.seconds,
            scaler=trainer.accelerator.scaler,
            sharded=trainer.sharded,
        )

    def _loss(self, logits: Tensor, truth: Truth) -> Tensor:
        return weighted_loss(logits, truth, among_words=self.among_words)

    def _load(self, samples: Sequence[Sample], cut: Sequence[MicroBatch]) -> Iterator[tuple[Batch, Truth]]:
        device, workers = self.trainer.accelerator.device, self.trainer.workers
        return load_batches(self.network, samples, self.target, cut, device=device, workers=workers)

    def predict(self, samples: Sequence[Sample]) -> Predictions:
        """Probabilities [N, A] in (0, 1), rows in the order of ``samples``."""
        if not is_sharded(self.module):
            self.module.to(self.trainer.accelerator.device)
        self.micro_batch = self.micro_batch or self.trainer.choose_micro_batch(self.recipe)
        with report_lack_of_memory("predicting", _SMALLER, alone=not self.trainer.parallel):
            found = to_probabilities(self._logits(samples), self.target, among_words=self.among_words)
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
            # Without gradients more samples fit into a GPU. On CPUs they save no time and change the last digits.
            on_cpu = trainer.accelerator.device.type == "cpu"
            size = (on_cpu and self.micro_batch) or EVALUATION_BATCH
            rows = run_fitting(partial(self._pass, samples), min(size, len(samples)), where="predicting", mend=_SMALLER)
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


def weighted_loss(logits: Tensor, truth: Truth, *, among_words: bool = False) -> Tensor:
    """The weighted sum of the losses of samples, from logits [B, A].

    The loss of a sample is its cross-entropy, or its binary cross-entropy averaged over the tasks. ``among_words``: the
    logits are log probabilities among all words.
    """
    if truth.answers.dim() == 1:
        measure = nn.functional.nll_loss if among_words else nn.functional.cross_entropy
        losses = measure(logits, truth.answers, reduction="none")
    else:
        shown = truth.answers.to(logits.dtype)
        losses = nn.functional.binary_cross_entropy_with_logits(logits, shown, reduction="none").mean(dim=1)
    return (truth.weights.to(logits.dtype) * losses).sum()


def to_probabilities(logits: Tensor, target: Target, *, among_words: bool = False) -> FloatArray:
    """Probabilities [N, A] of float64 logits [N, A], all in (0, 1), so that every loss is finite; NaN stays NaN.

    Tasks: sigmoid of log odds clipped at +-36. An attribute: softmax of log odds against the most probable class,
    clipped at -36, so that no probability is below exp(-36) / A; rows sum to 1.

    ``among_words``: the logits are log probabilities of answers among all words. These are often far below -36 and must
    stay distinct: they are clipped to [log(2.2e-308) = -708, -exp(-36)] alone.
    """
    if among_words:
        found = logits.clamp(_LEAST_LOG, -math.exp(-MOST_LOG_ODDS)).exp()
    elif target.kind == "attribute":
        found = (logits - logits.amax(dim=-1, keepdim=True)).clamp(min=-MOST_LOG_ODDS).softmax(dim=-1)
    else:
        found = logits.clamp(-MOST_LOG_ODDS, MOST_LOG_ODDS).sigmoid()
    return cast(FloatArray, found.numpy())


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
        if step < rising:
            return (step + 1) / rising
        return max(0.0, (total - step) / max(1, total - rising)) if recipe.decay else 1.0

    for group in optimiser.param_groups:
        group["lr"] = group["initial_lr"] = recipe.learning_rate
    return LambdaLR(optimiser, share, last_epoch=done - 1)
