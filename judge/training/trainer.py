"""Fit and predict for any :class:`~judge.judges.Network`, on Hugging Face Accelerate.

The loop knows nothing of text or images: a network collates samples and returns logits, the target picks the
loss, Accelerate places tensors, sets precision and, where one judge is trained on several processes, averages
gradients. A member's result is a function of its samples, recipe and seed alone: initial weights, order
and dropout come from that seed, so it does not matter what trained before it, beside it, or where.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import torch
from accelerate import Accelerator
from accelerate.utils import DistributedDataParallelKwargs
from torch import Tensor, nn

from judge.errors import JudgeError
from judge.judges import Network, Recipe, Sharing
from judge.training.checkpoint import Checkpoint, History, is_sound, read_history
from judge.training.feeding import Fed, Feed, Piece, cut_up, workers_watched
from judge.training.launch import gather, is_sharded, shard, uses_fsdp
from judge.training.losses import Truth, is_of_vocabulary, make_optimiser, sums_of, to_probabilities, weighted_loss
from judge.training.member import derive_seed
from judge.training.memory import OutOfMemory, halving, most_that_fit, watched
from judge.training.steps import Steps
from judge.training.telling import Reporter
from judge.types import FloatArray, Sample, Target

EVALUATION_BATCH = 256
# Of judges that leave their micro-batch to the device, where memory is not tried out.
_USUAL = 8


@dataclass(frozen=True, slots=True)
class _Task:
    """One training: what is trained, on what."""

    network: Network
    feed: Feed
    target: Target
    recipe: Recipe
    seed: int = 0
    validation: Feed | None = None

    @property
    def samples(self) -> Sequence[Sample]:
        return self.feed.samples

    @property
    def module(self) -> nn.Module:
        return cast(nn.Module, self.network)

    @property
    def normalises(self) -> bool:
        """Whether a sample's loss depends on the samples beside it."""
        layers = self.module.train().modules()  # Frozen parts may stay as they are.
        return any(isinstance(layer, nn.modules.batchnorm._BatchNorm) and layer.training for layer in layers)


class Trainer:
    """Trains one network at a time.

    Args:
        accelerator: from :func:`~judge.training.launch.make_accelerator`.
        sharing: "members": this process trains alone, other processes train other members;
            "data": all processes train this one, each on its share of every batch.
        checkpoint: file that makes an interrupted training resumable from an epoch's end; None for none.
        seconds: at least this long between two writes of it.
        workers: processes that collate batches ahead; 0 for this one.
        on_epoch: told (epochs done, mean training loss) after each epoch.
        reporter: told of steps and epochs, too.

    Attributes:
        where: what is trained, in messages.
    """

    def __init__(
        self,
        accelerator: Accelerator,
        *,
        sharing: Sharing = "members",
        checkpoint: Path | None = None,
        seconds: float = 60.0,
        workers: int = 0,
        on_epoch: Callable[[int, float], None] | None = None,
        reporter: Reporter | None = None,
    ) -> None:
        self.accelerator = accelerator
        self.parallel = sharing == "data" and accelerator.num_processes > 1
        self.sharded = self.parallel and uses_fsdp()
        self.rank = accelerator.process_index if self.parallel else 0
        self.world = accelerator.num_processes if self.parallel else 1
        self.checkpoint, self.seconds = checkpoint, seconds
        self.workers, self.on_epoch, self.reporter, self.where = workers, on_epoch, reporter, "training"
        self.micro_batch: int | None = None
        self.asked: int | None = None

    def fit(
        self,
        network: Network,
        samples: Sequence[Sample],
        *,
        target: Target,
        recipe: Recipe,
        seed: int,
        validation: Sequence[Sample] = (),
    ) -> History:
        """Train ``network`` in place.

        Batch normalisation is of what passes at once: a network that has any is trained on whole batches, by one
        process, and as many samples as fit are then the whole batch.

        Raises:
            JudgeError: the loss became NaN or infinite; ``keep="best"`` without validation samples; batches cut up
                under batch normalisation; memory ran out (the number of samples that would fit is said).
        """
        module = cast(nn.Module, network)
        if not any(parameter.requires_grad for parameter in module.parameters()):
            module.to(self.accelerator.device)
            return History()  # A judge that is asked as it is.
        if recipe.keep == "best" and not validation:
            raise JudgeError("nothing to choose the best epoch by", where="recipe", mend="give validation samples")
        asked = self._feed(network, validation, target) if recipe.keep == "best" else None
        task = _Task(network, self._feed(network, samples, target, stay=True), target, recipe, seed, asked)
        if task.normalises:
            self._refuse_pieces(recipe)
            self.micro_batch = None
        else:
            size = self._micro_batch(recipe)
            self.micro_batch = self._fitting(task) if size == "auto" else size
        try:
            with workers_watched():
                history = watched(lambda: self._train(task))
        except OutOfMemory:
            self._let_go(module)
            raise self._too_large(task) from None
        self._let_go(module)
        return history

    def _micro_batch(self, recipe: Recipe) -> int | Literal["auto"] | None:
        """What a recipe leaves to the device is tried out on a GPU, unless weights are in shards."""
        tries = self.accelerator.device.type != "cpu" and not self.sharded
        return ("auto" if tries else _USUAL) if recipe.micro_batch == "usual" else recipe.micro_batch

    def _refuse_pieces(self, recipe: Recipe) -> None:
        """Of a network that normalises batches: whatever would cut them up."""
        if self.parallel:
            what, mend = "batch normalisation is of one process's samples", "leave --sharing out, or take members"
            raise JudgeError(what, where="--sharing data", mend=mend)
        if recipe.micro_batch not in {None, "auto", "usual"}:
            what, mend = "batch normalisation is of whole batches", "leave it out, or take a smaller --batch-size"
            raise JudgeError(what, where=f"--micro-batch {recipe.micro_batch}", mend=mend)

    def _train(self, task: _Task) -> History:
        module, recipe, seed = task.module, task.recipe, task.seed
        model, optimiser, scaled = self._prepare(task)
        writes = self.checkpoint if self.rank == 0 else None
        scaler = self.accelerator.scaler
        state = Checkpoint(writes, read_from=self._begun(), seconds=self.seconds, scaler=scaler, agree=self._agree)
        first = state.load(module, optimiser, seed=seed)
        each = len(cut_up(range(len(task.samples)), recipe.batch_size))
        steps = Steps(self.accelerator, module, scaled, recipe=recipe, total=recipe.epochs * each)
        steps.begin(optimiser, first * each)
        if first:
            self._tell("goes on", epoch=first + 1)
        for epoch in range(first, recipe.epochs):
            if recipe.patience and state.history.waited >= recipe.patience:
                break
            torch.manual_seed(derive_seed(seed, epoch, self.rank))
            module.train()
            loss = self._epoch(model, steps, task, seed=derive_seed(seed, epoch, 0))
            if not np.isfinite(loss):
                raise diverged(task.network, loss, epoch, where=self.where)
            state.history.training.append(loss)
            if recipe.keep == "best":
                state.keep_best(module, self._mean_loss(task))
            state.save(module, optimiser, seed=seed)
            self._tell("epoch", epoch=epoch + 1, loss=loss, validation=state.history.last_validation)
            if self.on_epoch:
                self.on_epoch(epoch + 1, loss)
        state.restore_best(module)
        return state.history

    def _let_go(self, module: nn.Module) -> None:
        """Free gradients and Adam's moments: Accelerate holds on to the optimiser, of a GPU most of the memory."""
        module.zero_grad(set_to_none=True)
        if self.accelerator.device.type != "cpu":
            self.accelerator.free_memory()

    def _prepare(self, task: _Task) -> tuple[nn.Module, torch.optim.Optimizer, Any]:
        """The model that training calls, its optimiser, and the optimiser as Accelerate wraps it."""
        module = task.module
        if not self.parallel:
            module.to(self.accelerator.device)
            optimiser = make_optimiser(module, task.recipe)
            return module, optimiser, self.accelerator.prepare_optimizer(optimiser)
        if self.sharded:
            # A sharded judge need not fit into one device; the optimiser is of the shards.
            shard(self.accelerator, module)
            optimiser = make_optimiser(module, task.recipe)
            return module, optimiser, self.accelerator.prepare_optimizer(optimiser)
        module.to(self.accelerator.device)
        # Captioners may bring along weights that no answer passes through.
        has_idle, vary = getattr(task.network, "has_idle_weights", False), _passes_vary(module)
        # Gradients are kept once, where they are summed up: what fits was tried without a second copy.
        self.accelerator.ddp_handler = DistributedDataParallelKwargs(
            find_unused_parameters=has_idle and vary, gradient_as_bucket_view=True
        )
        # Of all weights: checkpoints tell its moments by their places, which are the same on one process.
        optimiser = make_optimiser(module, task.recipe)
        idle = self._find_idle(task) if has_idle and not vary else []
        for weight in idle:
            weight.requires_grad = False
        model, scaled = self.accelerator.prepare(module, optimiser)
        for weight in idle:  # They are part of what a judge's file holds.
            weight.requires_grad = True
        return model, optimiser, scaled

    def _find_idle(self, task: _Task) -> list[nn.Parameter]:
        """Weights that no answer passes through: DistributedDataParallel would wait for their gradients."""
        module = task.module.eval()
        self._backward(module, task, task.feed.of([0]), scale=1.0)
        idle = [weight for weight in module.parameters() if weight.requires_grad and weight.grad is None]
        module.zero_grad(set_to_none=True)
        return idle

    def _epoch(self, model: nn.Module, steps: Steps, task: _Task, *, seed: int) -> float:
        """One pass; returns the mean loss."""
        # A batch's gradient is that of its weighted mean loss, however many processes and micro-batches it is cut
        # into: each piece adds its weighted sum over the whole batch's weight.
        batches = cut_up(np.random.default_rng(seed).permutation(len(task.samples)).tolist(), task.recipe.batch_size)
        cut = [self._pieces(batch, self.micro_batch) for batch in batches]
        fed = task.feed(chain.from_iterable(cut))
        # Where the loss is computed, and read once an epoch: reading waits for the device.
        total = torch.zeros((), dtype=sums_of(task.feed.device), device=task.feed.device)
        for batch, pieces in zip(batches, cut, strict=True):
            scale = self.world / sum(task.samples[place].weight for place in batch)
            steps.zero_grad()
            for i, _ in enumerate(pieces):
                with self.accelerator.no_sync(model) if i + 1 < len(pieces) else nullcontext():
                    total += self._backward(model, task, next(fed), scale=scale).to(total.dtype) * len(batch)
            steps.step()
            if self.reporter and self.rank == 0:
                self.reporter.step(steps.done)
        if self.parallel:
            total = self.accelerator.reduce(total, reduction="mean")
        return float(total) / len(task.samples)

    def _backward(self, model: nn.Module, task: _Task, fed: Fed, *, scale: float) -> Tensor:
        """Add the gradients of a piece; its loss, on the device."""
        with self.accelerator.autocast():
            logits = model(fed.batch)
        loss = weighted_loss(logits.float(), fed.truth, whole=is_of_vocabulary(task.network)) * scale
        self.accelerator.backward(loss)
        return loss.detach()

    def _pieces(self, batch: Piece, size: int | None) -> list[Piece]:
        """This process's share of a batch, cut up for forward passes; as many in every process."""
        # One with less to do joins in with a sample of weight 0: the others wait for its gradients, or its shards.
        mine, most = batch[self.rank :: self.world], -(-len(batch) // self.world)
        step = size or max(1, most)
        return [mine[start : start + step] or [~batch[0]] for start in range(0, most, step)]

    def _feed(self, network: Network, samples: Sequence[Sample], target: Target, *, stay: bool = False) -> Feed:
        return Feed(network, samples, target, self.accelerator.device, workers=self.workers, stay=stay)

    def _fitting(self, task: _Task) -> int:
        """The samples of a forward pass for which memory suffices in every process: a share of a batch, or a half..."""
        if self.sharded:
            mend = "give --micro-batch a number"
            raise JudgeError("what fits is not tried out on sharded judges", where="--micro-batch auto", mend=mend)
        found = self._most(task, -(-min(task.recipe.batch_size, len(task.samples)) // self.world))
        found = min(gather(found)) if self.parallel else found
        if not found:
            raise _hopeless(self.where, "--tuning lora or frozen, or --precision bf16")
        return found

    def _most(self, task: _Task, most: int) -> int:
        """The most samples, halved from ``most`` on, of which a training step fits into memory; 0 if not even one."""
        module = task.module.to(self.accelerator.device).train()
        longest = sorted(range(len(task.samples)), key=lambda place: len(task.samples[place].words), reverse=True)
        step = partial(self._backward, module, task, scale=1.0)
        return most_that_fit(module, lambda size: step(task.feed.of(longest[:size])), most)

    def _too_large(self, task: _Task) -> JudgeError:
        """What to say when memory has run out."""
        share = -(-min(task.recipe.batch_size, len(task.samples)) // self.world)
        tried = min(self.micro_batch or share, share)
        # Of a judge that all train together, no process can try alone.
        found = tried // 2 if self.parallel else self._most(task, tried // 2)
        if not found:
            return _hopeless(self.where, "--tuning lora or frozen, or --precision bf16")
        mend = f"--micro-batch {found} {'may' if self.parallel else 'would'} fit, and adds up to the same batches"
        mend = f"--batch-size {found} would fit" if task.normalises else f"{mend}; or auto"
        return JudgeError(f"memory does not hold {tried} samples a forward pass", where=self.where, mend=mend)

    def predict(self, network: Network, samples: Sequence[Sample], *, target: Target, recipe: Recipe) -> FloatArray:
        """Probabilities [N, A] float64 in (0, 1): :func:`~judge.training.losses.to_probabilities`.

        A captioner that answers out of its whole vocabulary gives log-probabilities: rows then sum to less than 1.

        Raises:
            JudgeError: memory ran out.
        """
        module = cast(nn.Module, network)
        if not is_sharded(module):
            module.to(self.accelerator.device)
        size = self._micro_batch(recipe)
        if self.micro_batch is None and size != "auto":
            self.micro_batch = size
        try:
            with workers_watched():
                logits = watched(lambda: self._logits(network, self._feed(network, samples, target)))
        except OutOfMemory:
            raise _hopeless("predicting", "or --precision bf16") from None
        return to_probabilities(logits, target, whole=is_of_vocabulary(network))

    def _logits(self, network: Network, feed: Feed) -> Tensor:
        """Logits [N, A] float64 on the CPU; each process computes a share, all get the whole."""
        samples = range(len(feed.samples))

        def answer(size: int) -> Tensor:
            return torch.cat([network(fed.batch) for fed in feed(self._pieces(samples, size))]).cpu().double()

        cast(nn.Module, network).eval()
        size = self.micro_batch or EVALUATION_BATCH
        with torch.no_grad(), self.accelerator.autocast():
            if self.sharded:
                rows = answer(size)  # Shards come together pass by pass: all processes need as many.
            else:
                # Nothing is kept for a backward pass. On CPUs that would move the last digits, and save no time.
                size = size if self.accelerator.device.type == "cpu" else self.asked or EVALUATION_BATCH
                most = min(size, len(samples))
                rows, fitting = halving(answer, most)
                self.asked = fitting if fitting < most else self.asked
        if not self.parallel:
            return rows
        whole = torch.empty(len(samples), rows.shape[-1], dtype=torch.float64)
        for rank, part in enumerate(gather(rows)):
            places = range(rank, len(samples), self.world)
            whole[rank :: self.world] = part[: len(places)]  # An idle process's answers go unused.
        return whole

    def _mean_loss(self, task: _Task) -> float:
        """Over the validation samples."""
        assert task.validation is not None
        logits, samples = self._logits(task.network, task.validation), task.validation.samples
        loss = weighted_loss(logits, Truth.of(samples, task.target), whole=is_of_vocabulary(task.network))
        return float(loss) / sum(sample.weight for sample in samples)

    def _tell(self, event: str, **facts: Any) -> None:
        """Of a judge that all processes train, one tells."""
        if self.reporter and self.rank == 0:
            self.reporter.event(event, **facts)

    def _begun(self) -> Path | None:
        """The file to go on from: of processes that train together the same, though disks may be their own."""
        if not self.parallel or self.checkpoint is None:
            return self.checkpoint
        own = read_history(self.checkpoint) if is_sound(self.checkpoint) else None
        return self.checkpoint if all(other == own for other in gather(own)) else None

    def _agree(self, due: bool) -> bool:
        """Shards are put together by all processes: the writing one decides when."""
        return bool(gather(due)[0]) if self.sharded else due


def _passes_vary(module: nn.Module) -> bool:
    """Whether weights take part in some passes alone: layers left out by chance, experts asked by some words."""
    return any(getattr(part, "layerdrop", 0.0) or "expert" in name for name, part in module.named_modules())


def diverged(network: Network, loss: float, epoch: int, *, where: str) -> JudgeError:
    """What to say of a loss that is no finite number, of an epoch from 0: of features that are none it is the fault."""
    search = getattr(getattr(network, "features", None), "not_finite", None)
    if path := search and search():
        mend = "remove it: it is computed anew"
        return JudgeError("features are no finite numbers", where=str(path), mend=mend)
    mend = "lower --learning-rate, or --precision no"
    return JudgeError(f"loss is {loss} in epoch {epoch + 1}", where=where, mend=mend)


def _hopeless(where: str, otherwise: str) -> JudgeError:
    what, mend = "memory does not hold a single sample a forward pass", f"take a smaller judge, {otherwise}"
    return JudgeError(what, where=where, mend=mend)
