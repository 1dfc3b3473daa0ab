"""Do maps depend on what was learnt? With weights randomised they must change (Adebayo et al., NeurIPS 2018)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from judge.types import FloatArray


@contextmanager
def randomised(network: nn.Module, *, seed: int = 0) -> Iterator[None]:
    """Each weight tensor's numbers in random order while this lasts: all that was learnt is gone, scales are not.

    Args:
        network: whose weights; frozen backbones are networks of their own.
        seed: of the order.
    """
    generator = torch.Generator().manual_seed(seed)
    weights = list(network.parameters())
    before = [weight.detach().clone() for weight in weights]
    try:
        with torch.no_grad():
            for weight in weights:
                order = torch.randperm(weight.numel(), generator=generator).to(weight.device)
                weight.copy_(weight.flatten()[order].view_as(weight))
        yield
    finally:
        with torch.no_grad():
            for weight, kept in zip(weights, before, strict=True):
                weight.copy_(kept)


def similarity(first: FloatArray, second: FloatArray) -> float | None:
    """Spearman's rank correlation of two maps of one size, in [-1, 1]; None where one is the same everywhere."""
    from judge.statistics.correlation import correlate

    return correlate(first.ravel().tolist(), second.ravel().tolist()).spearman
