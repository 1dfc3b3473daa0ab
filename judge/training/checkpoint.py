"""What survives a kill: the state of a training, and the predictions of members that are done.

Safetensors throughout, written beside and renamed: a file is there whole or not at all. Nothing is unpickled.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from judge.files import write_whole
from judge.types import FloatArray

if TYPE_CHECKING:
    import torch


class Checkpoint:
    """The resumable state of one training: weights, Adam's moments, epoch, and the best weights so far.

    No generator state is kept: every epoch draws from a stream of its own, named by seed and epoch, so that a
    resumed training is the uninterrupted one bit for bit (on one device).

    Args:
        write_to: the file; None to keep nothing on disk (or in processes that must not write).
        read_from: the file to resume from; may be absent.
        seconds: at least this long between two writes.
    """

    def __init__(self, write_to: Path | None, *, read_from: Path | None = None, seconds: float = 0.0) -> None:
        self.write_to, self.read_from, self.seconds = write_to, read_from, seconds
        self.written = time.monotonic()
        self.best_loss = math.inf
        self.best: dict[str, torch.Tensor] = {}

    def keep_best(self, module: torch.nn.Module, loss: float) -> None:
        """Remember the weights if ``loss`` is the least so far (the earliest of equals)."""
        if loss < self.best_loss:
            self.best_loss = loss
            self.best = {name: tensor.detach().clone() for name, tensor in _trained(module).items()}

    def restore_best(self, module: torch.nn.Module) -> None:
        """Put the remembered weights back, where any were remembered."""
        if self.best:
            module.load_state_dict(self.best, strict=False)

    def save(self, module: torch.nn.Module, optimiser: torch.optim.Optimizer, *, epoch: int, seed: int) -> None:
        """Write the state after ``epoch`` epochs."""
        if self.write_to is None or time.monotonic() - self.written < self.seconds:
            return
        from safetensors.torch import save

        tensors = {f"model/{name}": tensor for name, tensor in _trained(module).items()}
        for index, slots in optimiser.state_dict()["state"].items():
            tensors |= {f"optimiser/{index}/{slot}": tensor for slot, tensor in slots.items()}
        tensors |= {f"best/{name}": tensor for name, tensor in self.best.items()}
        meta = {"epoch": str(epoch), "seed": str(seed), "best_loss": repr(self.best_loss)}
        self.write_to.parent.mkdir(parents=True, exist_ok=True)
        write_whole(self.write_to, save({name: t.detach().cpu().contiguous() for name, t in tensors.items()}, meta))
        self.written = time.monotonic()

    def load(self, module: torch.nn.Module, optimiser: torch.optim.Optimizer, *, seed: int) -> int:
        """Resume into ``module`` and ``optimiser``; the number of epochs already done, 0 without a file."""
        if self.read_from is None or not self.read_from.exists():
            return 0
        from safetensors import safe_open

        model: dict[str, torch.Tensor] = {}
        slots: dict[int, dict[str, torch.Tensor]] = {}
        with safe_open(self.read_from, framework="pt") as file:
            meta = file.metadata()
            if meta["seed"] != str(seed):
                return 0
            for key in file.keys():  # noqa: SIM118 - a safetensors handle is not a mapping
                part, _, name = key.partition("/")
                if part == "model":
                    model[name] = file.get_tensor(key)
                elif part == "best":
                    self.best[name] = file.get_tensor(key)
                else:
                    index, _, slot = name.partition("/")
                    slots.setdefault(int(index), {})[slot] = file.get_tensor(key)
        module.load_state_dict(model, strict=False)
        optimiser.load_state_dict({"state": slots, "param_groups": optimiser.state_dict()["param_groups"]})
        self.best_loss = float(meta["best_loss"])
        return int(meta["epoch"])


def _trained(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    """The state that training changes: no frozen weights; of tied ones (one storage, two names) the first name."""
    frozen = {name for name, parameter in module.named_parameters() if not parameter.requires_grad}
    found: dict[str, torch.Tensor] = {}
    places: set[tuple[int, ...]] = set()
    for name, tensor in module.state_dict().items():
        place = (tensor.data_ptr(), *tensor.shape, *tensor.stride())
        if name not in frozen and (tensor.numel() == 0 or place not in places):
            found[name] = tensor
            places.add(place)
    return found


def save_predictions(path: Path, probabilities: FloatArray, notes: Mapping[str, float]) -> None:
    """A finished member: its probabilities [N, A] and what its judge chose."""
    from safetensors.numpy import save

    write_whole(path, save({"probabilities": np.ascontiguousarray(probabilities)}, {"notes": json.dumps(dict(notes))}))


def load_predictions(path: Path) -> tuple[FloatArray, dict[str, float]] | None:
    """What :func:`save_predictions` wrote, or None where there is none."""
    if not path.exists():
        return None
    from safetensors import safe_open

    with safe_open(path, framework="np") as file:
        probabilities: FloatArray = file.get_tensor("probabilities")
        notes: dict[str, Any] = json.loads(file.metadata()["notes"])
    return probabilities, notes
