"""Loss and probabilities of logits, by target; and the optimiser."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from judge.judges import Network, Recipe
from judge.types import FloatArray, Sample, Target

# Log-odds are cut off here, as those of ``linear`` are: from 37 on a float64 probability is 1, and the loss of the
# opposite infinite.
MOST_LOG_ODDS = 36.0
# A log-probability below that of the least normal float64 would become 0.
_LEAST_LOG = math.log(np.finfo(np.float64).tiny)


def is_of_vocabulary(network: Network) -> bool:
    """Whether what it returns are log-probabilities already, of answers among all words."""
    return getattr(network, "answering", "restricted") == "vocabulary"


class Truth(NamedTuple):
    """What samples are asked, and what they count.

    Attributes:
        answers: of an attribute the class [B] int64; of tasks [B, A] float32, 1 where an image shows one.
        weights: [B], float64; float32 on a device.
    """

    answers: Tensor
    weights: Tensor

    @classmethod
    def of(cls, samples: Sequence[Sample], target: Target, weights: Sequence[float] | None = None) -> Truth:
        """Of ``samples``, on the CPU; ``weights`` in place of their own."""
        counts = [sample.weight for sample in samples] if weights is None else weights
        if target.kind == "attribute":
            answers = torch.tensor([sample.answers[0] for sample in samples])
        else:
            answers = torch.zeros(len(samples), len(target.classes))
            for row, sample in zip(answers, samples, strict=True):
                row[list(sample.answers)] = 1.0
        return cls(answers, torch.tensor(counts, dtype=torch.float64))


def sums_of(device: torch.device) -> torch.dtype:
    """The type in which losses are added up: float64, where a device has it."""
    return torch.float32 if device.type == "mps" else torch.float64


def weighted_loss(logits: Tensor, truth: Truth, *, whole: bool = False) -> Tensor:
    """Weighted sum over samples of :func:`sample_losses`."""
    return (truth.weights.to(logits.dtype) * sample_losses(logits, truth.answers, whole=whole)).sum()


def sample_losses(logits: Tensor, answers: Tensor, *, whole: bool = False) -> Tensor:
    """Of each sample the cross-entropy, or the binary cross-entropy averaged over the target's classes; [B].

    Args:
        logits: [B, A].
        answers: as in :class:`Truth`, of the same samples, on the same device.
        whole: whether the logits are log-probabilities, of which the true answer's is the loss.
    """
    if answers.dim() == 1:
        measure = nn.functional.nll_loss if whole else nn.functional.cross_entropy
        return measure(logits, answers, reduction="none")
    shown = answers.to(logits.dtype)
    return nn.functional.binary_cross_entropy_with_logits(logits, shown, reduction="none").mean(dim=1)


def to_probabilities(logits: Tensor, target: Target, *, whole: bool = False) -> FloatArray:
    """Probabilities [N, A] of float64 logits [N, A], all in (0, 1), so that every loss is finite; NaN stays NaN.

    Tasks: sigmoid, the log-odds cut off at +-36. An attribute: softmax, each class's log-odds against the most probable
    one cut off at -36, so that none is below exp(-36) / A; rows sum to 1.

    ``whole``: the logits are log-probabilities of answers among all words, often far below -36 and yet to be told
    apart: they stay as they are from log(2.2e-308) = -708 up to -exp(-36).
    """
    if whole:
        found = logits.clamp(_LEAST_LOG, -math.exp(-MOST_LOG_ODDS)).exp()
    elif target.kind == "attribute":
        found = (logits - logits.amax(dim=-1, keepdim=True)).clamp(min=-MOST_LOG_ODDS).softmax(dim=-1)
    else:
        found = logits.clamp(-MOST_LOG_ODDS, MOST_LOG_ODDS).sigmoid()
    probabilities: FloatArray = found.numpy()
    return probabilities


def make_optimiser(module: nn.Module, recipe: Recipe) -> torch.optim.Optimizer:
    """Adam, over the weights that are trained."""
    parameters = [parameter for parameter in module.parameters() if parameter.requires_grad]
    # Fused: one pass over each tensor. Six times faster than the default on CPU for an LSTM's few large ones.
    return torch.optim.Adam(parameters, lr=recipe.learning_rate, fused=True)
