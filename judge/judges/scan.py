"""An ``nn.LSTM`` on a CPU at about the speed of its matrix products.

PyTorch's packed LSTM adds up the weight gradient step by step and fills buffers with zeros on the way; a third of
its time on a CPU goes there. Here the same network, with the same parameters, is computed with one product
for all steps wherever the recurrence allows: inputs before the scan, weight gradients after it. Equal to
``nn.LSTM`` up to rounding (tests), and measured against it in ``scripts/bench_lic.py``.

Under autocast products are bf16, as are states and what products are added to; gates, cells and their gradients stay
float32.
"""

from __future__ import annotations

from itertools import accumulate, pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.utils.rnn import PackedSequence


def final_states(encoder: nn.LSTM, packed: PackedSequence) -> Tensor:
    """The last layer's final forward and backward states, [B, 2H], in the order of the batch before packing.

    Args:
        encoder: bidirectional; its dropout acts between the layers while it trains.
        packed: features [N, I] of the batch's real tokens.
    """
    if packed.data.device.type != "cpu":
        _, (state, _) = encoder(packed)
        return torch.cat([state[-2], state[-1]], dim=1)
    sizes = packed.batch_sizes.tolist()
    backwards, last = _indices(sizes)
    features = packed.data
    for layer in range(encoder.num_layers):
        forth = _direction(encoder, f"l{layer}", features, sizes)
        back = _direction(encoder, f"l{layer}_reverse", features.index_select(0, backwards), sizes)
        if layer + 1 < encoder.num_layers:
            features = torch.cat([forth, back.index_select(0, backwards)], 1)
            if encoder.training:
                features = _dropout(features, encoder.dropout)
    states = torch.cat([forth.index_select(0, last), back.index_select(0, last)], dim=1)
    return states if packed.unsorted_indices is None else states.index_select(0, packed.unsorted_indices)


def _dropout(features: Tensor, rate: float) -> Tensor:
    """Of bf16 by one random byte a feature where ``rate`` is so many 256ths: torch takes eight for float32's sake."""
    if features.dtype != torch.bfloat16 or rate == 1 or not (256 * rate).is_integer():
        return nn.functional.dropout(features, rate)
    drawn = torch.empty(-(-features.numel() // 8), dtype=torch.int64).random_(-(2**63), None)
    # In place: of comparisons that make booleans torch has slow ones.
    kept = drawn.view(torch.uint8)[: features.numel()].view_as(features).ge_(round(256 * rate))
    return features * kept.to(features.dtype).div_(1 - rate)


def _indices(sizes: list[int]) -> tuple[Tensor, Tensor]:
    """For packed rows: the row of the same sequence read backwards, [N], and each sequence's last row, [B]."""
    starts = torch.tensor([0, *accumulate(sizes)])
    steps = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))
    rows = torch.arange(len(steps)) - starts[steps]
    lengths = torch.bincount(rows, minlength=sizes[0])
    return starts[lengths[rows] - 1 - steps] + rows, starts[lengths - 1] + torch.arange(sizes[0])


def _direction(encoder: nn.LSTM, suffix: str, features: Tensor, sizes: list[int]) -> Tensor:
    """States of one layer in one direction, [N, H]."""
    bias = getattr(encoder, f"bias_ih_{suffix}") + getattr(encoder, f"bias_hh_{suffix}")
    inputs = torch.addmm(bias, features, getattr(encoder, f"weight_ih_{suffix}").t())
    weight = getattr(encoder, f"weight_hh_{suffix}")
    scan = _HalfScan if inputs.dtype == torch.bfloat16 else _Scan
    states: Tensor = scan.apply(inputs, weight.to(inputs.dtype), sizes)
    return states


class _Scan(torch.autograd.Function):
    """(input products [N, 4H], recurrent weight [4H, H], rows a step) -> states [N, H]; gates i, f, g, o.

    Overwrites the input products.
    """

    @staticmethod
    def forward(ctx: Any, gates: Tensor, weight: Tensor, sizes: list[int]) -> Tensor:
        hidden = weight.shape[1]
        cells, tanhs, states = (gates.new_empty(len(gates), hidden) for _ in range(3))
        recurrent = weight.t()
        start = before = 0
        for size in sizes:
            now, past = slice(start, start + size), slice(before, before + size)
            gate = gates[now]
            if start:
                gate.addmm_(states[past], recurrent)
            gate[:, : 2 * hidden].sigmoid_()
            i, f, g, o = gate.view(-1, 4, hidden).unbind(1)
            g.tanh_()
            o.sigmoid_()
            cell = torch.mul(i, g, out=cells[now])
            if start:
                cell.addcmul_(f, cells[past])
            torch.mul(o, torch.tanh(cell, out=tanhs[now]), out=states[now])
            before, start = start, start + size
        ctx.save_for_backward(gates, cells, tanhs, states, weight)
        ctx.sizes = sizes
        return states

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        gates, cells, tanhs, states, weight = ctx.saved_tensors
        sizes: list[int] = ctx.sizes
        starts = [0, *accumulate(sizes)]
        hidden = weight.shape[1]
        past_states, past_cells = _of_step_before(states, sizes), _of_step_before(cells, sizes)
        i, f, g, o = gates.view(-1, 4, hidden).unbind(1)
        # d gate before its nonlinearity / d cell (for o: / d state), for all steps at once.
        slopes = torch.empty_like(gates)
        of_i, of_f, of_g, of_o = slopes.view(-1, 4, hidden).unbind(1)
        torch.mul(g * i, 1 - i, out=of_i)
        torch.mul(past_cells.mul_(f), 1 - f, out=of_f)
        torch.mul(i, 1 - g * g, out=of_g)
        torch.mul(tanhs * o, 1 - o, out=of_o)
        cell_slope = o * (1 - tanhs * tanhs)
        outer = gradient.clone()
        carried: Tensor | None = None
        for step in reversed(range(len(sizes))):
            now = slice(starts[step], starts[step + 1])
            state = outer[now]
            cell = state * cell_slope[now]
            if carried is not None:
                cell[: len(carried)] += carried
            slope = slopes[now].view(-1, 4, hidden)
            slope[:, :3].mul_(cell[:, None])
            slope[:, 3].mul_(state)
            if step:
                past = slice(starts[step - 1], starts[step - 1] + sizes[step])
                outer[past].addmm_(slopes[now], weight)
                carried = cell.mul_(f[now])
        return slopes, slopes.t() @ past_states, None


class _HalfScan(torch.autograd.Function):
    """As :class:`_Scan`, of bf16; what lies between products is float32.

    Products are so fast here that memory counts: all of a step is computed while it is in the processor's cache.
    tanh(x) is 2 sigmoid(2x) - 1, which takes less than half its time; the last bits are lost in the products anyway.
    """

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, weight: Tensor, sizes: list[int]) -> Tensor:
        hidden = weight.shape[1]
        gates = inputs.new_empty(inputs.shape, dtype=torch.float32)
        cells, tanhs = (gates.new_empty(len(gates), hidden) for _ in range(2))
        states, minus_one = inputs.new_empty(len(inputs), hidden), gates.new_tensor(-1.0)
        inputs[:, 2 * hidden : 3 * hidden] *= 2
        recurrent = weight.clone()
        recurrent[2 * hidden : 3 * hidden] *= 2
        start = before = 0
        for size in sizes:
            now, past = slice(start, start + size), slice(before, before + size)
            gate = gates[now]
            gate.copy_(inputs[now].addmm_(states[past], recurrent.t()) if start else inputs[now])
            i, f, g, o = gate.sigmoid_().view(-1, 4, hidden).unbind(1)
            torch.add(minus_one, g, alpha=2, out=g)
            cell = torch.mul(i, g, out=cells[now])
            if start:
                cell.addcmul_(f, cells[past])
            tanh = torch.add(cell, cell, out=tanhs[now]).sigmoid_()
            torch.mul(o, torch.add(minus_one, tanh, alpha=2, out=tanh), out=states[now])
            before, start = start, start + size
        ctx.save_for_backward(gates, cells, tanhs, states, weight)
        ctx.sizes = sizes
        return states

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        gates, cells, tanhs, states, weight = ctx.saved_tensors
        sizes: list[int] = ctx.sizes
        starts = [0, *accumulate(sizes)]
        hidden, one = weight.shape[1], gates.new_tensor(1.0)
        outer, inner = gradient.clone(), states.new_empty(gates.shape)
        carried: Tensor | None = None
        for step in reversed(range(len(sizes))):
            now = slice(starts[step], starts[step + 1])
            gate, tanh, state = gates[now], tanhs[now], outer[now].float()
            i, f, g, o = gate.view(-1, 4, hidden).unbind(1)
            cell = torch.addcmul(o, o, tanh * tanh, value=-1).mul_(state)
            if carried is not None:
                cell[: len(carried)] += carried
            slope = torch.addcmul(gate, gate, gate, value=-1)
            of_i, of_f, of_g, of_o = slope.view(-1, 4, hidden).unbind(1)
            of_i *= g
            torch.addcmul(one, g, g, value=-1, out=of_g).mul_(i)
            of_o.mul_(tanh).mul_(state)
            if step:
                past = slice(starts[step - 1], starts[step - 1] + sizes[step])
                of_f *= cells[past]
            else:
                of_f.zero_()
            slope.view(-1, 4, hidden)[:, :3].mul_(cell[:, None])
            inner[now] = slope
            if step:
                outer[past].addmm_(inner[now], weight)
                carried = cell.mul_(f)
        return inner, inner.t() @ _of_step_before(states, sizes), None


def _of_step_before(rows: Tensor, sizes: list[int]) -> Tensor:
    """What precedes each row: zeros for the first step, then the rows of the step before."""
    found, start = torch.empty_like(rows), sizes[0]
    found[:start] = 0.0
    for before, size in pairwise(sizes):
        found[start : start + size] = rows[start - before : start - before + size]
        start += size
    return found
