"""Checkpoints of trainings: the weights of a judge, and the state from which an interrupted training resumes."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from judge.errors import JudgeError
from judge.training.launch import gather
from judge.utils.files import warn_damaged
from judge.utils.tensors import DamagedTensorsError, read_notes, read_sound, read_tensors, write_tensors

if TYPE_CHECKING:
    import torch

Tensors = dict[str, "torch.Tensor"]


@dataclass
class History:
    """Mean losses over the training samples, during each epoch, and over the validation samples after it, if any."""

    training: list[float] = field(default_factory=list)
    validation: list[float] = field(default_factory=list)

    @property
    def best(self) -> int | None:
        """The first epoch with the least validation loss, counted from 1; None if none is finite, or chosen."""
        finite = [loss for loss in self.validation if math.isfinite(loss)]
        return self.validation.index(min(finite)) + 1 if finite else None

    @property
    def waited(self) -> int:
        """Epochs since the best one; 0 if no epoch is chosen."""
        return len(self.validation) - (self.best or 0)


@dataclass
class Checkpoint:
    """State of one training: weights, moments of Adam, history, and the best weights so far.

    It holds no random state: every epoch draws from its own stream, seeded by seed and epoch, so that a resumed
    training equals the uninterrupted one bit for bit (on one device).

    Attributes:
        write_to: the file; None in processes that must not write.
        read_from: the file to resume from; it may be absent.
        seconds: least time between two writes, from ``written`` on.
        scaler: of the losses in fp16; None in other precisions.
        sharded: whether all processes gather the weights for the writing one, which decides whether a write is due.
    """

    write_to: Path | None
    read_from: Path | None = None
    seconds: float = 0.0
    scaler: torch.amp.GradScaler | None = None
    sharded: bool = False
    written: float = field(default_factory=time.monotonic)
    history: History = field(default_factory=History)
    best: Tensors = field(default_factory=dict)

    def keep_best(self, module: torch.nn.Module, loss: float) -> None:
        """Remember the weights if their validation ``loss`` is less than all before."""
        self.history.validation.append(loss)
        if self.history.best == len(self.history.validation):
            for name, tensor in _trained(module).items():  # On the CPU; shards stay where they are.
                unsharded = not hasattr(tensor, "full_tensor")
                self.best[name] = tensor.detach().to("cpu", copy=True) if unsharded else tensor.detach().clone()

    def restore_best(self, module: torch.nn.Module) -> None:
        """Load the remembered weights, if there are any."""
        if self.best:
            _load(module, self.best)

    def save(self, module: torch.nn.Module, optimiser: torch.optim.Optimizer, *, seed: int) -> None:
        """Write the state after an epoch, if a write is due."""
        due = self.write_to is not None and time.monotonic() - self.written >= self.seconds
        if not (gather(due)[0] if self.sharded else due):
            return
        from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict

        tensors = {f"model/{name}": tensor for name, tensor in _trained(module).items()}
        state: dict[str, Any] = get_optimizer_state_dict(module, optimiser)
        for name, slots in state["state"].items():
            tensors |= {f"optimiser/{name}/{slot}": tensor for slot, tensor in slots.items()}
        tensors |= {f"best/{name}": tensor for name, tensor in self.best.items()}
        scaler = None if self.scaler is None else self.scaler.state_dict()
        notes = {"seed": seed, "history": asdict(self.history), "scaler": scaler}
        _write(self.write_to, tensors, notes)
        self.written = time.monotonic()

    def load(self, module: torch.nn.Module, optimiser: torch.optim.Optimizer, *, seed: int) -> int:
        """Resume into ``module`` and ``optimiser``; returns the epochs that are done, 0 without a usable file."""
        found = read_sound(self.read_from, partial(read_tensors, framework="pt")) if self.read_from else None
        if found is None or found[1].get("seed") != seed:
            return 0
        parts: dict[str, Tensors] = {"model": {}, "best": {}, "optimiser": {}}
        for key, tensor in found[0].items():
            part, _, name = key.partition("/")
            parts[part][name] = tensor
        moments: dict[str, Tensors] = {}
        for key, tensor in parts["optimiser"].items():
            name, _, slot = key.rpartition("/")
            moments.setdefault(name, {})[slot] = tensor
        # Another version of its code wrote them; earlier versions numbered the optimiser's weights.
        if _shapes(parts["model"]) != _shapes(_trained(module)) or not moments.keys() <= parts["model"].keys():
            assert self.read_from is not None
            warn_damaged(self.read_from, "of another network")
            return 0
        from torch.distributed.checkpoint import state_dict

        self.best = parts["best"]
        _load(module, parts["model"])
        state: dict[str, Any] = state_dict.get_optimizer_state_dict(module, optimiser) | {"state": moments}
        options = state_dict.StateDictOptions(full_state_dict=True, strict=False)  # Every process takes its shards.
        state_dict.set_optimizer_state_dict(module, optimiser, state, options=options)
        if self.scaler is not None and found[1]["scaler"]:
            self.scaler.load_state_dict(found[1]["scaler"])
        self.history = History(**found[1]["history"])
        return len(self.history.training)


def _shapes(tensors: Mapping[str, Any]) -> dict[str, Any]:
    return {name: tensor.shape for name, tensor in tensors.items()}


def save_weights(path: Path | None, module: torch.nn.Module, notes: Mapping[str, Any]) -> None:
    """Write the weights of a trained judge, without frozen ones; ``path`` None in processes that must not write."""
    _write(path, _trained(module), notes)


def load_weights(path: Path, module: torch.nn.Module) -> None:
    """Load what :func:`save_weights` wrote; an absent or damaged file and weights of another network are refused."""
    try:
        tensors = read_tensors(path, "pt")[0]
    except (FileNotFoundError, DamagedTensorsError) as error:
        what, mend = "there are no weights, or they are damaged", "train the judge again"
        raise JudgeError(what, where=str(path), mend=mend) from error
    if _shapes(_trained(module)) != _shapes(tensors):
        what = "its weights do not fit the judge that it names, or the network that this judge started from"
        raise JudgeError(what, where=str(path), mend="use what the judge was trained with, or train it again")
    _load(module, tensors)


def read_history(path: Path) -> History | None:
    """The history of a training, from its weights or its checkpoint; None if the file is absent or damaged."""
    try:
        return History(**read_notes(path)["history"])
    except (FileNotFoundError, DamagedTensorsError, KeyError, TypeError):
        return None


def _write(path: Path | None, tensors: Mapping[str, torch.Tensor], notes: Mapping[str, Any]) -> None:
    found = {}
    for name, tensor in tensors.items():
        # All processes gather sharded weights, also those that write nothing: these keep nothing.
        gathered = tensor.detach()
        gathered = gathered.full_tensor() if hasattr(gathered, "full_tensor") else gathered
        if path is not None:
            found[name] = gathered.cpu().contiguous()
    if path is not None:
        write_tensors(path, found, notes)


def _load(module: torch.nn.Module, tensors: Mapping[str, torch.Tensor]) -> None:
    """Load weights, whole or this process's shards; torch's own function refuses offloaded shards beside buffers."""
    own: Mapping[str, Any] = module.state_dict()
    state = dict(tensors)
    for name, tensor in tensors.items():
        if hasattr(like := own[name], "full_tensor") and not hasattr(tensor, "full_tensor"):
            from torch.distributed.tensor import distribute_tensor

            state[name] = distribute_tensor(tensor.to(like.device), like.device_mesh, like.placements)
    module.load_state_dict(state, strict=False)


def _trained(module: torch.nn.Module) -> Tensors:
    """The state that training changes: no frozen weights; of tied ones (one weight, two names) the first name."""
    names = {name for name, parameter in module.named_parameters() if parameter.requires_grad}
    names |= {name for name, _ in module.named_buffers()}
    return {name: tensor for name, tensor in module.state_dict().items() if name in names}
