"""Recurrent judges trained together as one program: a GPU computes many of them in the time of a few.

Every weight is that of K networks, side by side, and every product is K products at once. Each network keeps its own
start, order, batches, weights, loss and dropout, as :class:`~judge.training.loop.Trainer` has them, so companions
change a result by rounding alone. No step waits for the host: an epoch's order is on the device before it begins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor, nn

from judge.judges import Network
from judge.judges.encoders import OutputLayer, Parts, without_autocast
from judge.training.batches import Truth, cut_up, make_optimiser, run_fitting, sample_losses, sums_of
from judge.training.checkpoint import Checkpoint, History
from judge.training.fit_members import answer, answers_file, build_judge, checkpoint_beside, log_epoch, store_answers
from judge.training.loop import NetworkJudge, diverged
from judge.training.member import Member, TrainingSetup, derive_seed
from judge.types import IntArray, Predictions, Sample, Target
from judge.utils.identity import digest_of
from judge.utils.parallel import threads

# Names the random stream of dropout, beside seed and epoch.
_DROPOUT = 0xD20B
# Factors of the hash as int32 has them; products wrap around.
_FACTORS: list[int] = np.array([0x9E3779B9, 0x85EBCA6B, 0xC2B2AE35], np.uint32).view(np.int32).tolist()


class StackedNetwork(nn.Module):
    """Embedding -> LSTM or RNN -> linear layers, K times, of networks of one shape except for the vocabulary.

    ``stride`` is more than the largest batch has samples; dropout numbers elements by it.
    """

    def __init__(self, networks: Sequence[Any], stride: int) -> None:
        super().__init__()
        each: list[Parts] = [network.parts() for network in networks]
        self.parts, self.stride = each[0], stride  # For shapes and rates only: in a tuple they are no submodules.
        self.sources: dict[str, list[Tensor]] = {}
        self._stack("embedding", [part.embedding.weight for part in each])
        encoder, kinds = self.parts.encoder, ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        for name in (f"{kind}_l{layer}" for layer in range(encoder.num_layers) for kind in kinds):
            ways = [name, f"{name}_reverse"][: 1 + encoder.bidirectional]
            self._stack(name, [getattr(part.encoder, way) for part in each for way in ways])
        for place, layer in enumerate(self.parts.head):
            for name, _ in layer.named_parameters():
                self._stack(f"head_{place}_{name}", [getattr(part.head[place], name) for part in each])
        # After the embedding, between and after the encoder's layers, and in the head.
        self.drops = 1 + encoder.num_layers + sum(isinstance(layer, nn.Dropout) for layer in self.parts.head)

    def _stack(self, name: str, sources: list[Tensor]) -> None:
        """One weight of all networks (of both directions in turns); embeddings are padded to the largest vocabulary."""
        whole = sources[0].detach().new_zeros(len(sources), max(map(len, sources)), *sources[0].shape[1:])
        for place, source in zip(whole, sources, strict=True):
            place[: len(source)] = source.detach()
        self.register_parameter(name, nn.Parameter(whole))
        self.sources[name] = sources

    @torch.no_grad()
    def unstack(self) -> None:
        """Copy the weights back into the networks."""
        for name, sources in self.sources.items():
            for source, row in zip(sources, self.get_parameter(name).cpu(), strict=True):
                source.copy_(row[: len(source)])

    def forward(self, tokens: Tensor, lengths: Tensor, keys: Tensor, packed: Packed) -> Tensor:
        """Logits [K, B, A] of ``tokens`` [K, B, T], padded on the right.

        ``lengths``: [K, B], at least 1; each network's captions from the longest to the shortest. ``keys``: two numbers
        each for dropout, [places of dropout, K, 2] int32.
        """
        encoder, dropout = self.parts.encoder, _Dropout(keys)
        going, time, caption, starts = packed
        rows, ends = time * self.stride + caption, lengths[:, caption]
        table = self.get_parameter("embedding")
        offsets = torch.arange(len(table), device=tokens.device)[:, None] * table.shape[1]
        words = nn.functional.embedding(tokens[:, caption, time] + offsets, table.flatten(0, 1))
        states, there = dropout(words, rows, self.parts.dropout), time < ends
        backwards = starts[torch.where(there, ends - 1 - time, time)] + caption
        for layer in range(encoder.num_layers):
            ways = [states, _reorder(states, backwards)][: 1 + encoder.bidirectional]
            found, last = self._layer(layer, torch.stack(ways, dim=1), there, going)
            final = torch.cat(list(last), dim=2)
            if layer + 1 < encoder.num_layers:
                states = torch.cat([found[0], *(_reorder(way, backwards) for way in found[1:])], dim=2)
                states = dropout(states, rows, encoder.dropout)
        rows = torch.arange(final.shape[1], device=tokens.device)
        states = dropout(final, rows, self.parts.dropout)
        for place, part in enumerate(self.parts.head):
            if isinstance(part, nn.Linear):
                weight, bias = (self.get_parameter(f"head_{place}_{name}") for name in ("weight", "bias"))
                with without_autocast(states.device.type) if isinstance(part, OutputLayer) else nullcontext():
                    states = torch.baddbmm(bias[:, None], states.to(bias.dtype), weight.transpose(1, 2))
            else:
                states = dropout(states, rows, part.p) if isinstance(part, nn.Dropout) else part(states)
        return states

    def _layer(
        self, layer: int, inputs: Tensor, there: Tensor, going: list[int]
    ) -> tuple[Sequence[Tensor], Sequence[Tensor]]:
        """[K, ways, P, I] -> states of each direction, [K, P, H], and those at the captions' ends, [K, B, H]."""
        members, ways = inputs.shape[:2]
        weight, recurrent, *biases = (
            self.get_parameter(f"{name}_l{layer}") for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        )
        gates = torch.baddbmm(sum(biases)[:, None], inputs.flatten(0, 1), weight.transpose(1, 2)).float()  # type: ignore[index]
        ons = torch.split(there.repeat_interleave(ways, dim=0)[..., None], going, dim=1)
        hidden = cell = gates.new_zeros(len(gates), going[0], recurrent.shape[2])
        found = []
        # Taken apart at once: the gradient of a slice would be as large as the whole, at each step.
        for gate, on in zip(torch.split(gates, going, dim=1), ons, strict=True):
            last, ended = hidden[:, : gate.shape[1]], hidden[:, gate.shape[1] :]
            summed = gate + torch.bmm(last, recurrent.transpose(1, 2))
            if isinstance(self.parts.encoder, nn.LSTM):
                enter, forget, new, leave = summed.chunk(4, dim=2)
                cell = cell[:, : gate.shape[1]]
                cell = torch.where(on, forget.sigmoid() * cell + enter.sigmoid() * new.tanh(), cell)
                last = torch.where(on, leave.sigmoid() * cell.tanh(), last)
            else:
                last = torch.where(on, summed.tanh(), last)
            found.append(last)
            hidden = torch.cat([last, ended], dim=1)
        each, ends = (of.view(members, ways, *of.shape[1:]).unbind(1) for of in (torch.cat(found, dim=1), hidden))
        return each, ends


def _reorder(states: Tensor, order: Tensor) -> Tensor:
    """[K, P, D], its times in another order, [K, P]."""
    return states.gather(1, order[..., None].expand_as(states))


class Packed(NamedTuple):
    """Places of words, as in a packed sequence: the captions of each time stand side by side, P in all.

    Attributes:
        going: how many captions stand at each time: those that have not ended in some network. [T]
        time: of each place. [P]
        caption: of each place. [P]
        starts: first place of each time. [T]
    """

    going: list[int]
    time: Tensor
    caption: Tensor
    starts: Tensor

    @classmethod
    def of_batches(cls, lengths: IntArray, device: torch.device) -> Iterator[Packed]:
        """The layouts of batches, copied to the device at once; ``lengths``: [batches, B], descending."""
        goings, parts = [], []
        for own in lengths:
            going = (own > np.arange(own[0])[:, None]).sum(axis=1)
            time, starts = np.repeat(np.arange(len(going)), going), np.cumsum(going) - going
            goings.append(going.tolist())
            parts += [time, np.arange(len(time)) - starts[time], starts]
        placed = torch.split(torch.from_numpy(np.concatenate(parts)).to(device), [len(part) for part in parts])
        for place, going in enumerate(goings):
            yield cls(going, *placed[3 * place : 3 * place + 3])


class _Dropout:
    """Dropout as a function of a network's own numbers, whatever its companions.

    An element is dropped by a hash of two keys, drawn for each network, step and place of dropout, and of its number.
    """

    def __init__(self, keys: Tensor) -> None:
        self.keys = iter(keys)

    def __call__(self, states: Tensor, rows: Tensor, rate: float) -> Tensor:
        """[K, ..., D] with a share of ``rate`` set to 0 and the rest scaled up; ``rows`` [...] numbers the rows."""
        keep = draw_kept(next(self.keys), rows.flatten(), states.shape[-1], rate).view_as(states)
        return torch.where(keep, states, 0.0) * (1 / (1 - rate))


def draw_kept(keys: Tensor, rows: Tensor, width: int, rate: float) -> Tensor:
    """Which elements are kept, [K, R, D] bool: the hash of MurmurHash3, with a second key between its rounds.

    ``keys``: [K, 2] int32; ``rows``: number of each row, [R]; ``width``: D; ``rate``: share of elements to drop.
    """
    element = rows.to(torch.int32)[:, None] * width + torch.arange(width, device=rows.device, dtype=torch.int32)
    found = element * _FACTORS[0] + keys[:, :1, None]
    found ^= (found >> 16) & 0xFFFF
    found *= _FACTORS[1]
    found ^= keys[:, 1:, None]
    found ^= (found >> 13) & 0x7FFFF
    found *= _FACTORS[2]
    found ^= (found >> 16) & 0xFFFF
    return found >= round(rate * 2**32) - 2**31


class _Captions:
    """The captions of K judges on a device, numbered by each judge's vocabulary, with answers and weights.

    Behind each judge's samples stands one of weight 0, which fills up batches that are smaller than others'.
    """

    def __init__(
        self, networks: Sequence[Network], samples: Sequence[Sequence[Sample]], target: Target, device: torch.device
    ) -> None:
        found = [network.collate(own) for network, own in zip(networks, samples, strict=True)]
        self.most, self.device = max(map(len, samples)), device
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
        self.tokens, self.answers, self.weights = (each.to(device) for each in (tokens, answers, weights))
        self.on_device = torch.from_numpy(self.lengths).to(device)
        self.members = torch.arange(len(found), device=device)[:, None]

    def batches(self, pieces: Sequence[Sequence[Sequence[int]]]) -> Iterator[tuple[Tensor, Tensor, Tensor, Packed]]:
        """Tokens [K, B, T], lengths [K, B], places of samples [K, B] and layout of each batch.

        ``pieces``: each judge's places of samples, batch by batch, equally many; smaller ones are filled up. Captions
        of a judge are sorted by length, so that few long ones cost little.
        """
        widest = max(len(piece) for own in pieces for piece in own)
        places = np.full((len(pieces), len(pieces[0]), widest), self.most, dtype=np.int64)
        for judge, own in enumerate(pieces):
            for step, piece in enumerate(own):
                places[judge, step, : len(piece)] = piece
        judges = np.arange(len(places))[:, None, None]
        order = np.argsort(-self.lengths[judges, places], axis=2, kind="stable")
        places = np.take_along_axis(places, order, axis=2)
        longest = self.lengths[judges, places].max(axis=0)  # [batches, B], descending
        layouts = Packed.of_batches(longest, self.device)
        for rows, packed in zip(torch.from_numpy(places).to(self.device).unbind(1), layouts, strict=True):
            yield self.tokens[self.members, rows], self.on_device[self.members, rows], rows, packed


class Ensemble:
    """Judges that are trained together: of one blueprint, target, recipe and device, with equally many batches."""

    def __init__(
        self, judges: Sequence[NetworkJudge], samples: Sequence[Sequence[Sample]], seeds: Sequence[int]
    ) -> None:
        first = judges[0]
        assert first.recipe.keep == "last"
        self.judges, self.samples, self.seeds = judges, samples, seeds
        self.target, self.recipe, self.accelerator = first.target, first.recipe, first.trainer.accelerator
        self.device: torch.device = self.accelerator.device
        for judge, own, seed in zip(judges, samples, seeds, strict=True):
            judge.network = judge.make(own, seed)
        networks = [judge.network for judge in judges]
        self.stacked = StackedNetwork(networks, self.recipe.batch_size + 1).to(self.device)
        # Mean losses by epoch and judge; in a buffer, so that checkpoints hold them.
        losses = torch.zeros(self.recipe.epochs, len(judges), dtype=sums_of(self.device), device=self.device)
        self.stacked.register_buffer("losses", losses)

    def fit(
        self,
        *,
        checkpoint: Path | None = None,
        seconds: float = 60.0,
        on_epoch: Callable[[int, Sequence[float]], None] | None = None,
    ) -> None:
        """Train, and give each judge its network and history; losses that are not finite are refused.

        ``checkpoint`` makes an interrupted training resumable from an epoch's end; ``seconds`` lie between two writes
        of it at least. ``on_epoch`` is called with the number of epochs done and each judge's mean loss.
        """
        captions = _Captions([judge.network for judge in self.judges], self.samples, self.target, self.device)
        optimiser, seed = make_optimiser(self.stacked, self.recipe), derive_seed(*self.seeds)
        state = Checkpoint(checkpoint, read_from=checkpoint, seconds=seconds)
        for epoch in range(state.load(self.stacked, optimiser, seed=seed), self.recipe.epochs):
            losses = self._epoch(optimiser, captions, epoch)
            if not np.isfinite(losses).all():
                raise diverged(float(np.sum(losses)), epoch, where=self.judges[0].where)
            state.history.training.append(float(np.mean(losses)))
            state.save(self.stacked, optimiser, seed=seed)
            if on_epoch:
                on_epoch(epoch + 1, losses)
        self.stacked.unstack()
        for judge, own in zip(self.judges, self.stacked.get_buffer("losses").t().tolist(), strict=True):
            judge.history = History(training=own)

    def _epoch(self, optimiser: torch.optim.Optimizer, captions: _Captions, epoch: int) -> list[float]:
        """One pass; each judge's mean loss."""
        orders = [
            np.random.default_rng(derive_seed(seed, epoch, 0)).permutation(len(own)).tolist()
            for seed, own in zip(self.seeds, self.samples, strict=True)
        ]
        batches = [cut_up(order, self.recipe.batch_size) for order in orders]
        keys = self._draw_keys(epoch, len(batches[0])).to(self.device)
        total = self.stacked.get_buffer("losses")[epoch].zero_()
        # As in the trainer: a batch's mean loss counts as often as the batch has samples.
        shares = torch.tensor([[len(batch) / sum(map(len, own)) for batch in own] for own in batches])
        shares = shares.t().to(self.device, total.dtype)
        for step, (tokens, lengths, rows, packed) in enumerate(captions.batches(batches)):
            optimiser.zero_grad()
            with self.accelerator.autocast():
                logits = self.stacked(tokens, lengths, keys[step], packed)
            answers, weights = captions.answers[captions.members, rows], captions.weights[captions.members, rows]
            losses = sample_losses(logits.float().flatten(0, 1), answers.flatten(0, 1)).view_as(weights)
            means = (losses * weights).sum(dim=1) / weights.sum(dim=1)
            self.accelerator.backward(means.sum())
            optimiser.step()
            total += means.detach().to(total.dtype) * shares[step]
        return cast("list[float]", total.tolist())

    def _draw_keys(self, epoch: int, steps: int) -> Tensor:
        """Keys of dropout, [steps, places of dropout, K, 2], from each judge's own random stream."""
        shape = steps, self.stacked.drops, 2
        streams = [np.random.default_rng(derive_seed(seed, epoch, _DROPOUT)) for seed in self.seeds]
        drawn = [stream.integers(-(2**31), 2**31, size=shape, dtype=np.int32) for stream in streams]
        return torch.from_numpy(np.stack(drawn, axis=2))


def fit_stacked(
    members: Sequence[Member], stored: Sequence[Predictions | None], setup: TrainingSetup
) -> list[Predictions | None]:
    """Train members of one judge and target without ``stored`` predictions, as many at a time as memory holds.

    Stores their predictions, and returns those of all. Raises JudgeError if memory does not hold one, and for NaN.
    """
    recipe, found = setup.recipe_of(members[0].judge), list(stored)
    assert recipe is not None
    by_steps: dict[int, list[int]] = {}
    for place, member in enumerate(members):
        samples = len(member.places(member.split.train))
        by_steps.setdefault(len(cut_up(range(samples), recipe.batch_size)), []).append(place)

    def train(size: int) -> None:
        for places in by_steps.values():
            for start in range(0, len(places), size):
                left = [place for place in places[start : start + size] if found[place] is None]
                answers = _fit_some([members[at] for at in left], setup) if left else ()
                for place, own in zip(left, answers, strict=True):
                    found[place] = own

    where = f"training judge '{members[0].judge.name}'"
    run_fitting(train, len(members), where=where, mend="take a smaller --batch-size, or --no-stack")
    return found


def _fit_some(members: Sequence[Member], setup: TrainingSetup) -> Sequence[Predictions]:
    """Train some members together, predict with them, and store what they predict."""
    file = answers_file(f"stack-{digest_of(*(member.key for member in members))}", setup)
    checkpoint = file and checkpoint_beside(file)

    def report(done: int, losses: Sequence[float]) -> None:
        setup.count(sum(map(setup.steps_of, members)) // stack.recipe.epochs)
        for member, loss in zip(members, losses, strict=True):
            log_epoch(member, setup, done, loss)

    with threads(1):
        judges = [cast("NetworkJudge", build_judge(member, setup)) for member in members]
        stack = Ensemble(judges, [member.training() for member in members], [member.stream for member in members])
        stack.fit(checkpoint=checkpoint, on_epoch=report)
        pairs = zip(members, judges, strict=True)
        found = [answer(member, judge, setup, training="stacked") for member, judge in pairs]
    store_answers(members, setup, found)
    if checkpoint:
        with suppress(OSError):
            checkpoint.unlink()
    return found
