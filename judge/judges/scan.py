"""An ``nn.LSTM`` on a CPU at about the speed of its matrix products.

PyTorch's packed LSTM adds up the weight gradient step by step and fills buffers with zeros on the way; a third of
its time on a CPU goes there. Here the same network, with the same parameters, is computed with one product
for all steps wherever the recurrence allows: inputs before the scan, weight gradients after it. Equal to
``nn.LSTM`` up to rounding (tests), and measured against it in ``scripts/bench_lic.py``.
"""

from __future__ import annotations

from itertools import accumulate
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
    if packed.data.device.type != "cpu" or torch.is_autocast_enabled("cpu"):
        _, (state, _) = encoder(packed)
        return torch.cat([state[-2], state[-1]], dim=1)
    sizes = packed.batch_sizes.tolist()
    backwards, last = _indices(sizes)
    features = packed.data
    for layer in range(encoder.num_layers):
        forth = _direction(encoder, f"l{layer}", features, sizes)
        back = _direction(encoder, f"l{layer}_reverse", features[backwards], sizes)
        if layer + 1 < encoder.num_layers:
            features = nn.functional.dropout(torch.cat([forth, back[backwards]], 1), encoder.dropout, encoder.training)
    states = torch.cat([forth[last], back[last]], dim=1)
    return states if packed.unsorted_indices is None else states[packed.unsorted_indices]


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
    states: Tensor = _Scan.apply(inputs, getattr(encoder, f"weight_hh_{suffix}"), sizes)
    return states


class _Scan(torch.autograd.Function):
    """(input products [N, 4H], recurrent weight [4H, H], rows a step) -> states [N, H]; gates i, f, g, o."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, weight: Tensor, sizes: list[int]) -> Tensor:
        hidden = weight.shape[1]
        gates = inputs.clone()
        cells, tanhs, states = (inputs.new_empty(len(inputs), hidden) for _ in range(3))
        recurrent = weight.t()
        start = before = 0
        for size in sizes:
            now, past = slice(start, start + size), slice(before, before + size)
            gate = gates[now]
            if start:
                gate.addmm_(states[past], recurrent)
            gate[:, : 2 * hidden].sigmoid_()
            gate[:, 2 * hidden : 3 * hidden].tanh_()
            gate[:, 3 * hidden :].sigmoid_()
            i, f, g, o = gate.view(-1, 4, hidden).unbind(1)
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
        # What precedes each row: zeros for the first step, then the rows of the step before.
        past_states, past_cells = torch.zeros_like(states), torch.zeros_like(cells)
        for step in range(1, len(sizes)):
            now, past = slice(starts[step], starts[step + 1]), slice(starts[step - 1], starts[step - 1] + sizes[step])
            past_states[now], past_cells[now] = states[past], cells[past]
        i, f, g, o = gates.view(-1, 4, hidden).unbind(1)
        # d gate before its nonlinearity / d cell (for o: / d state), for all steps at once.
        slopes = torch.cat([g * i * (1 - i), past_cells * f * (1 - f), i * (1 - g * g), tanhs * o * (1 - o)], dim=1)
        cell_slope = o * (1 - tanhs * tanhs)
        inner = torch.empty_like(gates)
        outer = gradient.clone()
        carried: Tensor | None = None
        for step in reversed(range(len(sizes))):
            now = slice(starts[step], starts[step + 1])
            state = outer[now]
            cell = state * cell_slope[now]
            if carried is not None:
                cell[: len(carried)] += carried
            slope, into = slopes[now].view(-1, 4, hidden), inner[now].view(-1, 4, hidden)
            torch.mul(slope[:, :3], cell[:, None], out=into[:, :3])
            torch.mul(slope[:, 3], state, out=into[:, 3])
            if step:
                past = slice(starts[step - 1], starts[step - 1] + sizes[step])
                outer[past].addmm_(inner[now], weight)
                carried = cell.mul_(f[now])
        return inner, inner.t() @ past_states, None
