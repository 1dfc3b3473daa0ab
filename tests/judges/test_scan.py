"""The fast LSTM is nn.LSTM: same states, same gradients, for any lengths."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence

from judge.judges.scan import _dropout, final_states


def run(encoder: nn.LSTM, features: torch.Tensor, lengths: torch.Tensor, *, fast: bool) -> list[torch.Tensor]:
    """Final states, and the gradients of a function of them: of every parameter and of the features."""
    features = features.clone().requires_grad_()
    packed = pack_padded_sequence(features, lengths, batch_first=True, enforce_sorted=False)
    if fast:
        states = final_states(encoder, packed)
    else:
        _, (state, _) = encoder(packed)
        states = torch.cat([state[-2], state[-1]], dim=1)
    loss = (states.sin() * torch.arange(states.numel()).view_as(states).cos()).sum()
    return [states.detach(), *torch.autograd.grad(loss, [*encoder.parameters(), features])]


@given(st.lists(st.integers(1, 9), min_size=1, max_size=7), st.integers(1, 3), st.integers(0, 99))
@settings(max_examples=40, deadline=None)
def test_equals_pytorch(lengths: list[int], layers: int, seed: int) -> None:
    torch.manual_seed(seed)
    encoder = nn.LSTM(3, 5, num_layers=layers, bidirectional=True, batch_first=True).double()
    features = torch.randn(len(lengths), max(lengths), 3, dtype=torch.float64)
    sizes = torch.tensor(lengths)
    for mine, theirs in zip(
        run(encoder, features, sizes, fast=True), run(encoder, features, sizes, fast=False), strict=True
    ):
        assert torch.allclose(mine, theirs, atol=1e-12)


def test_dropout_acts_between_layers_in_training_only() -> None:
    torch.manual_seed(0)
    encoder = nn.LSTM(3, 5, num_layers=2, bidirectional=True, batch_first=True, dropout=0.5)
    packed = pack_padded_sequence(
        torch.randn(4, 6, 3), torch.tensor([6, 2, 3, 1]), batch_first=True, enforce_sorted=False
    )
    first, second = final_states(encoder, packed), final_states(encoder, packed)
    assert not torch.equal(first, second)
    encoder.eval()
    assert torch.equal(final_states(encoder, packed), final_states(encoder, packed))


def test_bf16_products_are_as_near_as_pytorchs() -> None:
    """Of states and gradients: bf16 has 8 significant bits, float32 between the products keeps them."""
    torch.manual_seed(0)
    encoder = nn.LSTM(20, 48, num_layers=2, bidirectional=True, batch_first=True)
    features, lengths = torch.randn(9, 12, 20), torch.randint(1, 13, (9,))
    exact = run(encoder, features, lengths, fast=True)
    with torch.autocast("cpu", torch.bfloat16):
        mine, theirs = (run(encoder, features, lengths, fast=fast) for fast in (True, False))
    for right, rough, torchs in zip(exact, mine, theirs, strict=True):
        error = (rough.float() - right).norm() / right.norm()
        assert 0 < error < 0.02
        assert error < 1.5 * (torchs.float() - right).norm() / right.norm()


@pytest.mark.parametrize("rate", [0.5, 0.25, 0.3])
def test_dropout_of_bf16_keeps_its_share_and_the_mean(rate: float) -> None:
    torch.manual_seed(0)
    features = torch.ones(401, 255, dtype=torch.bfloat16, requires_grad=True)
    dropped = _dropout(features, rate)
    kept = dropped != 0
    assert float(kept.double().mean()) == pytest.approx(1 - rate, abs=0.005)
    assert dropped[kept].unique().item() == pytest.approx(1 / (1 - rate), rel=2**-8)
    (gradient,) = torch.autograd.grad(dropped.sum(), features)
    assert torch.equal(gradient, dropped)
