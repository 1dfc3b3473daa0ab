"""Loss and probabilities of logits, by target; and the optimiser."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR

from judge.judges import Recipe
from judge.types import FloatArray, Sample, Target

# Log odds are clipped here, like those of ``linear``: beyond 37 a float64 probability is 1, and the loss of the
# other class is infinite.
MOST_LOG_ODDS = 36.0
# A log probability below that of the least normal float64 would become 0.
_LEAST_LOG = math.log(np.finfo(np.float64).tiny)


class Truth(NamedTuple):
    """True answers of samples, and their weights.

    Attributes:
        answers: the class of an attribute, [B] int64; for tasks [B, A] float32, 1 where an image shows one.
        weights: [B], float64; float32 on a device.
    """

    answers: Tensor
    weights: Tensor

    @classmethod
    def of(cls, samples: Sequence[Sample], target: Target) -> Truth:
        """Of ``samples``, on the CPU."""
        if target.kind == "attribute":
            answers = torch.tensor([sample.answers[0] for sample in samples])
        else:
            answers = torch.zeros(len(samples), len(target.classes))
            for row, sample in zip(answers, samples, strict=True):
                row[list(sample.answers)] = 1.0
        return cls(answers, torch.tensor([sample.weight for sample in samples], dtype=torch.float64))


def sums_of(device: torch.device) -> torch.dtype:
    """The type in which losses are summed: float64, unless the device has none."""
    return torch.float32 if device.type == "mps" else torch.float64


def weighted_loss(logits: Tensor, truth: Truth, *, whole: bool = False) -> Tensor:
    """Weighted sum over samples of :func:`sample_losses`."""
    return (truth.weights.to(logits.dtype) * sample_losses(logits, truth.answers, whole=whole)).sum()


def sample_losses(logits: Tensor, answers: Tensor, *, whole: bool = False) -> Tensor:
    """Cross-entropy of each sample, or its binary cross-entropy averaged over the target's classes; [B].

    Args:
        logits: [B, A].
        answers: as in :class:`Truth`, of the same samples, on the same device.
        whole: whether the logits are log probabilities among all words; the loss is then that of the true answer.
    """
    if answers.dim() == 1:
        measure = nn.functional.nll_loss if whole else nn.functional.cross_entropy
        return measure(logits, answers, reduction="none")
    shown = answers.to(logits.dtype)
    return nn.functional.binary_cross_entropy_with_logits(logits, shown, reduction="none").mean(dim=1)


def to_probabilities(logits: Tensor, target: Target, *, whole: bool = False) -> FloatArray:
    """Probabilities [N, A] of float64 logits [N, A], all in (0, 1), so that every loss is finite; NaN stays NaN.

    Tasks: sigmoid of log odds clipped at +-36. An attribute: softmax of log odds against the most probable class,
    clipped at -36, so that no probability is below exp(-36) / A; rows sum to 1.

    ``whole``: the logits are log probabilities of answers among all words. These are often far below -36 and must stay
    distinct: they are clipped to [log(2.2e-308) = -708, -exp(-36)] alone.
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
    """Adam over the trainable weights."""
    parameters = [parameter for parameter in module.parameters() if parameter.requires_grad]
    # Fused: one pass over each tensor. Six times faster than the default on CPU for an LSTM's few large ones.
    return torch.optim.Adam(parameters, lr=recipe.learning_rate, fused=True)


def make_schedule(optimiser: torch.optim.Optimizer, recipe: Recipe, *, total: int, done: int) -> LambdaLR | None:
    """The learning rate's linear rise (``warmup``) and fall (``decay``); None if it is constant.

    Args:
        optimiser: as :func:`make_optimiser` made it.
        recipe: of the training.
        total: steps of the whole training.
        done: steps that are done.
    """
    if not (recipe.warmup or recipe.decay):
        return None
    rising = round(recipe.warmup * total)

    def share(step: int) -> float:
        """Share of the learning rate in [0, 1] at a step counted from 0."""
        if step < rising:
            return (step + 1) / rising
        return max(0.0, (total - step) / (total - rising)) if recipe.decay else 1.0

    for group in optimiser.param_groups:
        group["lr"] = group["initial_lr"] = recipe.learning_rate
    return LambdaLR(optimiser, share, last_epoch=done - 1)
