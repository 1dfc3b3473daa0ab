"""Fit and predict for K small networks of one blueprint as one program, which is what keeps a GPU busy.

Each of them has the start, order, batches, weights and loss that :class:`~judge.training.loop.Trainer` gives it, and
dropout that is a function of its own seed, the epoch and the step. Companions change a result by rounding alone.
What a step reads is on the device, and an epoch's order is copied there before it begins: no step waits for the host.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn

from judge.judges import Network
from judge.judges.stacked import StackedBatch
from judge.training.batches import cut_up
from judge.training.checkpoint import Checkpoint, History
from judge.training.loop import EVALUATION_BATCH, NetworkJudge, diverged
from judge.training.losses import Truth, make_optimiser, sample_losses, sums_of, to_probabilities
from judge.training.member import derive_seed
from judge.types import IntArray, Predictions, Sample, Target

# Names the stream of dropout's keys, beside seed and epoch.
_DROPOUT = 0xD20B


class Ensemble:
    """Judges that train, and answer, together.

    Args:
        judges: of one blueprint that can be stacked, target, recipe and device.
        samples: what each learns from, in equally many batches.
        seeds: each one's, as in :meth:`~judge.training.loop.NetworkJudge.fit`.
    """

    def __init__(
        self, judges: Sequence[NetworkJudge], samples: Sequence[Sequence[Sample]], seeds: Sequence[int]
    ) -> None:
        first = judges[0]
        assert first.blueprint.stacked is not None
        assert first.recipe.keep == "last"
        self.judges, self.samples, self.seeds = judges, samples, seeds
        self.target, self.recipe, self.accelerator = first.target, first.recipe, first.trainer.accelerator
        self.device: torch.device = self.accelerator.device
        for judge, own, seed in zip(judges, samples, seeds, strict=True):
            judge.network = judge.make(own, seed)
        self.stacked = first.blueprint.stacked([judge.network for judge in judges])
        self.module = cast(nn.Module, self.stacked).to(self.device)
        # Mean losses by epoch and judge; a buffer, for checkpoints to hold it.
        self.module.register_buffer(
            "losses", torch.zeros(self.recipe.epochs, len(judges), dtype=sums_of(self.device), device=self.device)
        )

    def fit(
        self,
        *,
        checkpoint: Path | None = None,
        seconds: float = 60.0,
        on_epoch: Callable[[int, Sequence[float]], None] | None = None,
    ) -> None:
        """Train, and give each judge its network and history.

        Args:
            checkpoint: file that makes an interrupted training resumable from an epoch's end; None for none.
            seconds: at least this long between two writes of it.
            on_epoch: told the epochs done, and each judge's mean loss, after each.

        Raises:
            JudgeError: a loss became NaN or infinite.
        """
        captions = _Captions([judge.network for judge in self.judges], self.samples, self.target, self.device)
        optimiser, seed = make_optimiser(self.module, self.recipe), derive_seed(*self.seeds)
        state = Checkpoint(checkpoint, read_from=checkpoint, seconds=seconds)
        for epoch in range(state.load(self.module, optimiser, seed=seed), self.recipe.epochs):
            self.module.train()
            losses = self._epoch(optimiser, captions, epoch)
            if not np.isfinite(losses).all():
                first = self.judges[0]
                raise diverged(float(np.sum(losses)), epoch, where=first.trainer.where)
            state.history.training.append(float(np.mean(losses)))
            state.save(self.module, optimiser, seed=seed)
            if on_epoch:
                on_epoch(epoch + 1, losses)
        self.stacked.unstack()
        for judge, losses in zip(self.judges, self._losses.t().tolist(), strict=True):
            judge.history = History(training=losses)

    @property
    def _losses(self) -> Tensor:
        return self.module.get_buffer("losses")

    def _epoch(self, optimiser: torch.optim.Optimizer, captions: _Captions, epoch: int) -> list[float]:
        """One pass; each judge's mean loss."""
        orders = [
            np.random.default_rng(derive_seed(seed, epoch, 0)).permutation(len(own)).tolist()
            for seed, own in zip(self.seeds, self.samples, strict=True)
        ]
        batches = [cut_up(order, self.recipe.batch_size) for order in orders]
        keys = self._draw_keys(epoch, len(batches[0])).to(self.device)
        # As in the trainer: a batch's mean loss counts as often as it has samples.
        shares = torch.tensor([[len(batch) / sum(map(len, own)) for batch in own] for own in batches])
        shares = shares.t().to(self.device, self._losses.dtype)
        total = torch.zeros_like(self._losses[epoch])
        for step, (batch, rows) in enumerate(captions.batches(batches, self.recipe.batch_size + 1, keys)):
            optimiser.zero_grad()
            losses = self._means(batch, captions.truth(rows))
            self.accelerator.backward(losses.sum())
            optimiser.step()
            total += losses.detach().to(total.dtype) * shares[step]
        self._losses[epoch] = total
        return cast("list[float]", total.tolist())

    def _means(self, batch: StackedBatch, truth: Truth) -> Tensor:
        """Each judge's weighted mean loss, [K]; of samples that fill a batch up the weight is 0."""
        with self.accelerator.autocast():
            logits = self.stacked(batch)
        losses = sample_losses(logits.float().flatten(0, 1), truth.answers.flatten(0, 1))
        return (losses.view_as(truth.weights) * truth.weights).sum(dim=1) / truth.weights.sum(dim=1)

    def _draw_keys(self, epoch: int, steps: int) -> Tensor:
        """What dropout draws by: [steps, places of dropout, K, 2], of each judge by its own stream."""
        shape = steps, self.stacked.drops, 2
        streams = [np.random.default_rng(derive_seed(seed, epoch, _DROPOUT)) for seed in self.seeds]
        drawn = [stream.integers(-(2**31), 2**31, size=shape, dtype=np.int32) for stream in streams]
        return torch.from_numpy(np.stack(drawn, axis=2))

    def predict(self, samples: Sequence[Sequence[Sample]]) -> list[Predictions]:
        """What each judge answers to samples of its own: probabilities [N, A], rows in their order."""
        captions = _Captions([judge.network for judge in self.judges], samples, self.target, self.device)
        pieces = [_cut(len(own)) for own in samples]
        logits = torch.zeros(len(samples), captions.most + 1, len(self.target.classes), device=self.device)
        self.module.eval()
        with torch.no_grad(), self.accelerator.autocast():
            for batch, rows in captions.batches(pieces, EVALUATION_BATCH):
                logits[captions.members, rows] = self.stacked(batch).float()
        answers = logits.cpu().double()
        return [
            Predictions(to_probabilities(found[: len(own)], self.target), self.target)
            for found, own in zip(answers, samples, strict=True)
        ]


def _cut(samples: int) -> list[list[int]]:
    return [list(range(start, min(start + EVALUATION_BATCH, samples))) for start in range(0, samples, EVALUATION_BATCH)]


class _Captions:
    """The captions of K judges on a device, each numbered by its own vocabulary, answers and weights beside.

    Behind each judge's samples stands one of weight 0, which fills up batches that are smaller than others'.
    """

    def __init__(
        self, networks: Sequence[Network], samples: Sequence[Sequence[Sample]], target: Target, device: torch.device
    ) -> None:
        found = [network.collate(own) for network, own in zip(networks, samples, strict=True)]
        self.most = max(map(len, samples))
        steps = max(batch["tokens"].shape[1] for batch in found)
        tokens = torch.zeros(len(found), self.most + 1, steps, dtype=torch.int64)
        self.lengths = np.ones((len(found), self.most + 1), dtype=np.int64)
        truths = [Truth.of(own, target) for own in samples]
        answers = torch.zeros(len(found), self.most + 1, *truths[0].answers.shape[1:], dtype=truths[0].answers.dtype)
        weights = torch.zeros(len(found), self.most + 1)
        for place, (batch, truth) in enumerate(zip(found, truths, strict=True)):
            count, longest = batch["tokens"].shape
            tokens[place, :count, :longest] = batch["tokens"]
            self.lengths[place, :count] = batch["host_lengths"]
            answers[place, :count], weights[place, :count] = truth
        self.device = device
        self.tokens, self.answers, self.weights = (each.to(device) for each in (tokens, answers, weights))
        self.of = torch.from_numpy(self.lengths).to(device)
        self.members = torch.arange(len(found), device=device)[:, None]

    def truth(self, rows: Tensor) -> Truth:
        """Answers and weights of the samples at ``rows`` [K, B]."""
        return Truth(self.answers[self.members, rows], self.weights[self.members, rows])

    def batches(
        self, pieces: Sequence[Sequence[Sequence[int]]], stride: int, keys: Tensor | None = None
    ) -> Iterator[tuple[StackedBatch, Tensor]]:
        """Batches and the samples in them, [K, B].

        Args:
            pieces: of each judge, places of samples, batch by batch; one that has fewer is filled up.
            stride: the most samples of any batch.
            keys: of dropout, by batch.
        """
        places = self._fill_up(pieces)
        lengths = self.lengths[np.arange(len(places))[:, None, None], places]
        order = np.argsort(-lengths, axis=2, kind="stable")
        places, lengths = (np.take_along_axis(each, order, axis=2) for each in (places, lengths))
        # [steps, T, B]: whether any judge has a caption so long.
        there = (lengths[:, :, None] > np.arange(lengths.max())[:, None]).any(axis=0)
        sizes = there.sum(axis=2)
        step, time, place = np.nonzero(there)
        ends = np.searchsorted(step, np.arange(len(sizes)), side="right").tolist()
        slots = torch.from_numpy(time * stride + place).to(self.device)
        starts = torch.from_numpy(np.cumsum(sizes, axis=1) - sizes).to(self.device)
        rows = torch.from_numpy(places).to(self.device)
        for index, (start, stop) in enumerate(zip([0, *ends], ends, strict=False)):
            batch = self._batch(rows[:, index], slots[start:stop], starts[index], stride)
            counts = sizes[index][sizes[index] > 0].tolist()
            own = None if keys is None else keys[index]
            yield StackedBatch(batch[0], slots[start:stop], batch[1], batch[2], counts, own), rows[:, index]

    def _fill_up(self, pieces: Sequence[Sequence[Sequence[int]]]) -> IntArray:
        """[K, steps, B]: places, and that of the sample without weight where there are no more."""
        widest = max(len(piece) for own in pieces for piece in own)
        whole = np.full((len(pieces), max(map(len, pieces)), widest), self.most, dtype=np.int64)
        for judge, own in enumerate(pieces):
            for step, piece in enumerate(own):
                whole[judge, step, : len(piece)] = piece
        return whole

    def _batch(self, rows: Tensor, slots: Tensor, starts: Tensor, stride: int) -> tuple[Tensor, Tensor, Tensor]:
        """Word ids, rows of the captions read backwards, and last rows."""
        time = torch.div(slots, stride, rounding_mode="floor")
        place = slots - time * stride
        lengths = self.of[self.members, rows]
        tokens = self.tokens[self.members, rows[:, place], time]
        # Of rows after a caption's end, which no result is made of: its first.
        mirrored = (lengths[:, place] - 1 - time).clamp(min=0)
        return tokens, starts[mirrored] + place, starts[lengths - 1] + torch.arange(rows.shape[1], device=self.device)
