"""The layer that judges answer with."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor, nn


class OutputLayer(nn.Linear):
    """A linear layer that computes in float32, whatever the precision of the layers before it.

    A logit in bf16 has 8 significant bits: captions that differ would have the same probability.
    """

    def forward(self, x: Tensor) -> Tensor:
        """[..., D] -> [..., A] float32."""
        bias = None if self.bias is None else self.bias.float()
        with without_autocast(x.device.type):
            return nn.functional.linear(x.float(), self.weight.float(), bias)


def without_autocast(kind: str) -> AbstractContextManager[object]:
    """Products on devices of this kind are of their operands' type."""
    return torch.autocast(kind, enabled=False) if torch.amp.is_autocast_available(kind) else nullcontext()
