"""What attributions explain: log-odds, as :mod:`judge.measure.words` has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from judge.types import Target

if TYPE_CHECKING:
    from torch import Tensor


def log_odds(scores: Tensor, target: Target) -> Tensor:
    """Natural log-odds of each answer among the target's, [N, A].

    Of a class log p less the mean log p of the others (of two classes log p / (1 - p)); of a task log p / (1 - p).

    Args:
        scores: logits or log-probabilities, [N, A].
        target: of classes, of which one is true (softmax), or of tasks, each of which may be (sigmoid).
    """
    if target.kind == "tasks":
        return scores
    classes = scores.shape[1]
    return (scores - scores.mean(dim=1, keepdim=True)) * (classes / (classes - 1))
