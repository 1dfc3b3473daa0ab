"""Judges: models that guess an attribute (or tasks) from evidence in which it is hidden.

A judge is one file here. It offers ``BLUEPRINTS``: name -> :class:`Blueprint`. A blueprint makes either a
whole :class:`Judge` (numpy in, numpy out, as ``linear``), or a :class:`Network` that the one trainer
(``judge.training``) fits: a text classifier, a classifier on image and text, or a captioner whose
logits are the log-probabilities of the answers after the prompt.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self

from judge.errors import JudgeError, nearest
from judge.types import Predictions, Sample, Target

if TYPE_CHECKING:
    from torch import Tensor

Batch = Mapping[str, Any]
Sharing = Literal["members", "data"]


class Judge(Protocol):
    """All that ``measure.py`` knows of a judge: numpy in, numpy out."""

    def fit(self, samples: Sequence[Sample], *, seed: int, validation: Sequence[Sample] = ()) -> Self:
        """Learn from ``samples``; a function of them, their weights and ``seed`` alone."""
        ...

    def predict(self, samples: Sequence[Sample]) -> Predictions:
        """Probabilities [N, A], rows in the order of ``samples``."""
        ...


class Network(Protocol):
    """What a torch judge's file writes; it is a ``torch.nn.Module`` too."""

    def collate(self, samples: Sequence[Sample]) -> Batch:
        """Tensors for these samples, on the CPU, any keys; the trainer moves them."""
        ...

    def __call__(self, batch: Batch) -> Tensor:
        """Logits over the target's classes, [B, A]."""
        ...


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a network is trained. The target picks the loss.

    Attributes:
        epochs: passes over the training samples.
        learning_rate: of Adam.
        batch_size: samples an optimiser step, over all processes.
        micro_batch: samples a forward pass, per process; None for the whole share of a batch. Gradients add up
            to exactly those of the batch.
        keep: "last" epoch's weights, or those of the epoch with the "best" validation loss.
        sharing: how several processes are used by default: whole "members" (many small judges) or one
            judge on all of them, "data"-parallel (large ones).
    """

    epochs: int
    learning_rate: float
    batch_size: int = 64
    micro_batch: int | None = None
    keep: Literal["last", "best"] = "last"
    sharing: Sharing = "members"


@dataclass(frozen=True, slots=True)
class Blueprint:
    """What a judge's file offers under one name.

    Attributes:
        name: as users type it, and as every row of a table says.
        reference: paper and place, or what it stands in for.
        judge: makes a whole judge for a target; or
        network: makes an untrained network for a target and its training samples (vocabulary), with
        recipe: how to train it. The global torch generator is seeded before ``network`` is called.
    """

    name: str
    reference: str
    judge: Callable[[Target], Judge] | None = None
    network: Callable[[Target, Sequence[Sample]], Network] | None = None
    recipe: Recipe | None = None


# The one registry: name -> the file that offers it. Files load on first use, torch with them.
FILES: dict[str, str] = {"linear": "linear", "lstm": "recurrent"}


def find_judge(name: str) -> Blueprint:
    """The blueprint called ``name``.

    Raises:
        JudgeError: no such judge (the nearest name is suggested), or its extra is not installed.
    """
    key = name.strip().lower()
    if key not in FILES:
        raise JudgeError(f"unknown judge '{name}'", where="--judge", mend=nearest(key, list(FILES)))
    try:
        module = import_module(f"judge.judges.{FILES[key]}")
    except ModuleNotFoundError as error:
        raise JudgeError(
            f"judge '{key}' needs the package '{error.name}'", where="--judge", mend="pip install 'caption-judge[all]'"
        ) from error
    blueprint: Blueprint = module.BLUEPRINTS[key]
    return blueprint
