"""The layer that judges answer with."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class OutputLayer(nn.Linear):
    """A linear layer that computes in float32, whatever the precision of the layers before it.

    A logit in bf16 has 8 significant bits: captions that differ would have the same probability.
    """

    def forward(self, x: Tensor) -> Tensor:
        """[..., D] -> [..., A] float32."""
        bias = None if self.bias is None else self.bias.float()
        with torch.autocast(x.device.type, enabled=False):
            return nn.functional.linear(x.float(), self.weight.float(), bias)
