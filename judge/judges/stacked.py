"""K recurrent judges of one shape as one network: what a GPU computes in the time of a few of them.

Every weight is that of K networks, side by side, and every product is K (or, of two directions, 2K) products at once.
None of the K is changed by its companions but in rounding: products, losses and dropout are each one's own.

A step's captions are laid out without padding, as ``pack_padded_sequence`` lays out those of one network: by time, then
by place in the batch, longest first. All K share the layout, so that of each network some rows are empty; what is
computed there comes after a caption's end, enters no result and has no gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from judge.judges.output import OutputLayer, without_autocast


class Parts(NamedTuple):
    """What a recurrent judge is made of, in the order in which it computes; dropout after embedding and encoder."""

    embedding: nn.Embedding
    encoder: nn.LSTM | nn.RNN
    dropout: float
    head: Sequence[nn.Module]


@dataclass(frozen=True, slots=True)
class StackedBatch:
    """A batch of each of K networks, B captions or fewer, in P rows.

    Attributes:
        tokens: word ids, [K, P].
        slots: what each row is: time x the most captions of any batch + place in the batch, [P]; dropout draws by it.
        reverse: the row of the same caption read backwards, [K, P].
        last: each caption's last row, [K, B].
        sizes: rows of each time, falling; on the host.
        keys: two numbers each that dropout draws by, [places of dropout, K, 2] int32; None for no dropout.
    """

    tokens: Tensor
    slots: Tensor
    reverse: Tensor
    last: Tensor
    sizes: Sequence[int]
    keys: Tensor | None = None


class StackedRecurrent(nn.Module):
    """Embedding -> LSTM or RNN -> linear layers, K times; vocabularies may differ.

    Args:
        networks: separately made, of one shape but for the vocabulary.
        parts: takes one apart.
    """

    embedding: nn.Parameter

    def __init__(self, networks: Sequence[nn.Module], parts: Callable[[nn.Module], Parts]) -> None:
        super().__init__()
        each = [parts(network) for network in networks]
        self.parts = each[0]  # For shapes and rates alone; in a tuple they are no submodules.
        self.sources: dict[str, list[Tensor]] = {}
        self._stack("embedding", [part.embedding.weight for part in each])
        encoder, kinds = self.parts.encoder, ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        for name in (f"{kind}_l{layer}" for layer in range(encoder.num_layers) for kind in kinds):
            ways = [name, f"{name}_reverse"][: 1 + encoder.bidirectional]
            self._stack(name, [getattr(part.encoder, way) for part in each for way in ways])
        for place, layer in enumerate(self.parts.head):
            for name, _ in layer.named_parameters():
                self._stack(f"head_{place}_{name}", [getattr(part.head[place], name) for part in each])
        # Of the embedding, between and after the layers of the encoder, in the head.
        self.drops = 1 + encoder.num_layers + sum(isinstance(layer, nn.Dropout) for layer in self.parts.head)

    def _stack(self, name: str, sources: list[Tensor]) -> None:
        """One weight of all networks, of two directions in turns; embeddings padded to the largest vocabulary."""
        rows = [weight.detach() for weight in sources]
        whole = rows[0].new_zeros(len(rows), max(map(len, rows)), *rows[0].shape[1:])
        for place, row in zip(whole, rows, strict=True):
            place[: len(row)] = row
        self.register_parameter(name, nn.Parameter(whole))
        self.sources[name] = sources

    @torch.no_grad()
    def unstack(self) -> None:
        """Give the networks that this was made of the weights that it has now."""
        for name, sources in self.sources.items():
            for source, row in zip(sources, self.get_parameter(name).cpu(), strict=True):
                source.copy_(row[: len(source)])

    def forward(self, batch: StackedBatch) -> Tensor:
        """Logits [K, B, A]."""
        members = len(self.embedding)
        dropout = _Dropout(batch.keys)
        offsets = torch.arange(members, device=batch.tokens.device)[:, None] * self.embedding.shape[1]
        states = nn.functional.embedding(batch.tokens + offsets, self.embedding.flatten(0, 1))
        states = dropout(states, batch.slots, self.parts.dropout)
        encoder = self.parts.encoder
        for layer in range(encoder.num_layers):
            forth, *back = self._layer(layer, states, batch)
            if layer + 1 < encoder.num_layers:
                states = torch.cat([forth, *(_rows(way, batch.reverse) for way in back)], dim=2)
                states = dropout(states, batch.slots, encoder.dropout)
        final = torch.cat([_rows(way, batch.last) for way in (forth, *back)], dim=2)
        return self._answer(final, dropout)

    def _layer(self, layer: int, features: Tensor, batch: StackedBatch) -> Sequence[Tensor]:
        """[K, P, I] -> states [K, P, H] of each direction, the rows of the second in the order in which it reads."""
        bias = self.get_parameter(f"bias_ih_l{layer}") + self.get_parameter(f"bias_hh_l{layer}")
        weight, recurrent = (self.get_parameter(f"weight_{kind}_l{layer}") for kind in ("ih", "hh"))
        ways = len(weight) // len(features)
        if ways == 2:
            features = torch.stack([features, _rows(features, batch.reverse)], dim=1).flatten(0, 1)
        inputs = torch.baddbmm(bias[:, None], features, weight.transpose(1, 2)).float()
        scan = _LSTMScan if isinstance(self.parts.encoder, nn.LSTM) else _RNNScan
        states: Tensor = scan.apply(inputs, recurrent, batch.sizes, _precision(inputs))
        return states.view(-1, ways, *states.shape[1:]).unbind(1)

    def _answer(self, states: Tensor, dropout: _Dropout) -> Tensor:
        """The head, of [K, B, D]."""
        places = torch.arange(states.shape[1], device=states.device, dtype=torch.int32)
        states = dropout(states, places, self.parts.dropout)
        for place, layer in enumerate(self.parts.head):
            if isinstance(layer, nn.Linear):
                weight, bias = (self.get_parameter(f"head_{place}_{name}") for name in ("weight", "bias"))
                with without_autocast(states.device.type) if isinstance(layer, OutputLayer) else nullcontext():
                    states = torch.baddbmm(bias[:, None], states.to(bias.dtype), weight.transpose(1, 2))
            else:
                states = dropout(states, places, layer.p) if isinstance(layer, nn.Dropout) else layer(states)
        return states


def _precision(tensor: Tensor) -> torch.dtype:
    """What products are to be computed in."""
    kind = tensor.device.type
    if torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind):
        return torch.get_autocast_dtype(kind)
    return tensor.dtype


def _rows(states: Tensor, places: Tensor) -> Tensor:
    """Of each network's rows [K, P, D] those at its ``places`` [K, R]: [K, R, D]."""
    starts = torch.arange(len(states), device=states.device)[:, None] * states.shape[1]
    return states.flatten(0, 1).index_select(0, (places + starts).flatten()).view(*places.shape, -1)


class _Dropout:
    """Dropout as a function of a network's own numbers: which companions it has does not matter.

    An element is dropped by a hash of two numbers, drawn for each network, step and place of dropout, and of which
    element of its batch it is: at what time, in which place, which feature.
    """

    def __init__(self, keys: Tensor | None) -> None:
        self.keys = None if keys is None else iter(keys)

    def __call__(self, states: Tensor, rows: Tensor, rate: float) -> Tensor:
        """[K, R, D] -> the same with a share of ``rate`` at 0, the rest larger; ``rows`` says what each row is, [R]."""
        if self.keys is None:
            return states
        keep = draw_kept(next(self.keys), rows, states.shape[2], rate)
        return torch.where(keep, states, 0.0) * (1 / (1 - rate))


def draw_kept(keys: Tensor, rows: Tensor, width: int, rate: float) -> Tensor:
    """Which elements are kept, [K, R, D] bool: the hash of MurmurHash3, with a second key between its rounds.

    Args:
        keys: [K, 2] int32.
        rows: what each row is, [R].
        width: D.
        rate: share of elements to drop.
    """
    element = rows.to(torch.int32)[:, None] * width + torch.arange(width, device=rows.device, dtype=torch.int32)
    found = element * _signed(0x9E3779B9) + keys[:, :1, None]
    found ^= (found >> 16) & 0xFFFF
    found *= _signed(0x85EBCA6B)
    found ^= keys[:, 1:, None]
    found ^= (found >> 13) & 0x7FFFF
    found *= _signed(0xC2B2AE35)
    found ^= (found >> 16) & 0xFFFF
    return found >= round(rate * 2**32) - 2**31


def _signed(number: int) -> int:
    """Of 32 bits, as int32 has it; sums and products wrap around."""
    return number - 2**32 if number >= 2**31 else number


def _times(sizes: Sequence[int]) -> list[tuple[slice, slice]]:
    """Of each time its rows, and those of the time before whose captions go on."""
    starts = [0, 0, *accumulate(sizes)]
    return [
        (slice(now, now + size), slice(before, before + size))
        for before, now, size in zip(starts, starts[1:], sizes, strict=False)
    ]


def _add_product(to: Tensor, states: Tensor, weight: Tensor) -> None:
    """Add [N, B, H] x [N, H, G], computed as precisely as ``weight`` is, to [N, B, G]."""
    if weight.dtype == to.dtype:
        to.baddbmm_(states, weight)
    else:
        to += torch.bmm(states.to(weight.dtype), weight)


def _weight_gradient(inner: Tensor, past: Tensor, kind: torch.dtype) -> Tensor:
    """Of the recurrent weight [N, G, H]: one product for all times."""
    return torch.bmm(inner.transpose(1, 2).to(kind), past.to(kind)).to(inner.dtype)


class _LSTMScan(torch.autograd.Function):
    """``judge.judges.scan`` for N scans at once.

    (input products [N, P, 4H], recurrent weight [N, 4H, H], rows a time, type of products) -> states [N, P, H];
    gates i, f, g, o.
    """

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, weight: Tensor, sizes: Sequence[int], kind: torch.dtype) -> Tensor:
        hidden = weight.shape[2]
        gates = inputs.clone()
        cells, tanhs, states = (inputs.new_empty(*inputs.shape[:2], hidden) for _ in range(3))
        recurrent = weight.to(kind).transpose(1, 2)
        for now, past in _times(sizes):
            gate, cell = gates[:, now], cells[:, now]
            if now.start:
                _add_product(gate, states[:, past], recurrent)
            gate[..., : 2 * hidden].sigmoid_()
            gate[..., 2 * hidden : 3 * hidden].tanh_()
            gate[..., 3 * hidden :].sigmoid_()
            i, f, g, o = gate.chunk(4, dim=2)
            torch.mul(i, g, out=cell)
            if now.start:
                cell.addcmul_(f, cells[:, past])
            torch.mul(o, torch.tanh(cell, out=tanhs[:, now]), out=states[:, now])
        ctx.save_for_backward(gates, cells, tanhs, states, weight)
        ctx.sizes, ctx.kind = sizes, kind
        return states

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None, None]:
        gates, cells, tanhs, states, weight = ctx.saved_tensors
        times, hidden, weight = _times(ctx.sizes), weight.shape[2], weight.to(ctx.kind)
        past_states, past_cells = torch.zeros_like(states), torch.zeros_like(cells)
        for now, past in times[1:]:
            past_states[:, now], past_cells[:, now] = states[:, past], cells[:, past]
        i, f, g, o = gates.chunk(4, dim=2)
        # d gate before its nonlinearity / d cell (for o: / d state), for all times at once.
        slopes = torch.cat([g * i * (1 - i), past_cells * f * (1 - f), i * (1 - g * g), tanhs * o * (1 - o)], dim=2)
        del past_cells
        cell_slope = o * (1 - tanhs * tanhs)
        outer = gradient.clone()
        carried: Tensor | None = None
        for now, past in reversed(times):
            state, inner = outer[:, now], slopes[:, now]
            cell = state * cell_slope[:, now]
            if carried is not None:
                cell[:, : carried.shape[1]] += carried
            inner[..., : 3 * hidden].view(*cell.shape[:2], 3, hidden).mul_(cell[:, :, None])
            inner[..., 3 * hidden :].mul_(state)
            if now.start:
                _add_product(outer[:, past], inner, weight)
                carried = cell.mul_(f[:, now])
        return slopes, _weight_gradient(slopes, past_states, ctx.kind), None, None


class _RNNScan(torch.autograd.Function):
    """Likewise of plain (tanh) RNNs: (input products [N, P, H], recurrent weight [N, H, H], ...) -> states."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, weight: Tensor, sizes: Sequence[int], kind: torch.dtype) -> Tensor:
        states = inputs.clone()
        recurrent = weight.to(kind).transpose(1, 2)
        for now, past in _times(sizes):
            if now.start:
                _add_product(states[:, now], states[:, past], recurrent)
            states[:, now].tanh_()
        ctx.save_for_backward(states, weight)
        ctx.sizes, ctx.kind = sizes, kind
        return states

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None, None]:
        states, weight = ctx.saved_tensors
        times, weight = _times(ctx.sizes), weight.to(ctx.kind)
        past_states, inner = torch.zeros_like(states), gradient.clone()
        for now, past in times[1:]:
            past_states[:, now] = states[:, past]
        slopes = 1 - states * states
        for now, past in reversed(times):
            inner[:, now] *= slopes[:, now]
            if now.start:
                _add_product(inner[:, past], inner[:, now], weight)
        return inner, _weight_gradient(inner, past_states, ctx.kind), None, None
