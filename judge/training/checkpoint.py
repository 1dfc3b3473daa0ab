"""Checkpoints: the state of a training under way, weights, and predictions of finished members.

Safetensors throughout, written beside and renamed: a file is there whole or not at all. Nothing is unpickled.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from judge.errors import JudgeError
from judge.types import FloatArray
from judge.utils.files import as_mendable, beside, warn_damaged, writing
from judge.utils.reading import NotRegularError, regular

if TYPE_CHECKING:
    import torch


@dataclass
class History:
    """How a training went, epoch by epoch.

    Attributes:
        training: mean loss over the training samples, while they were learnt from.
        validation: over the validation samples, after each epoch; empty where no epoch was chosen.
    """

    training: list[float] = field(default_factory=list)
    validation: list[float] = field(default_factory=list)

    @property
    def best(self) -> int | None:
        """The epoch of least validation loss, the earliest of equals, from 1; None where none was chosen."""
        return self.validation.index(min(self.validation)) + 1 if self.validation else None

    @property
    def waited(self) -> int:
        """Epochs since the best one; 0 where none was chosen."""
        return len(self.validation) - (self.best or 0)

    @property
    def last_validation(self) -> float | None:
        """After the last epoch."""
        return self.validation[-1] if self.validation else None


class Checkpoint:
    """The resumable state of one training: weights, Adam's moments, history, and the best weights so far.

    No generator state is kept: every epoch draws from a stream of its own, named by seed and epoch, so that a
    resumed training is the uninterrupted one bit for bit (on one device).

    Args:
        write_to: the file; None to keep nothing on disk (or in processes that must not write).
        read_from: the file to resume from; may be absent.
        seconds: at least this long between two writes.
        scaler: of the losses of fp16, whose scale goes on too; None in other precisions.
        agree: what all processes take for whether a write is due; for weights that lie in shards among them, which
            they put together for the one that writes.
    """

    def __init__(
        self,
        write_to: Path | None,
        *,
        read_from: Path | None = None,
        seconds: float = 0.0,
        scaler: torch.amp.GradScaler | None = None,
        agree: Callable[[bool], bool] = bool,
    ) -> None:
        self.write_to, self.read_from, self.seconds, self.agree = write_to, read_from, seconds, agree
        self.scaler = scaler
        self.written = time.monotonic()
        self.history = History()
        self.best: dict[str, torch.Tensor] = {}

    def keep_best(self, module: torch.nn.Module, loss: float) -> None:
        """Remember the weights if the validation ``loss`` is the least so far (the earliest of equals)."""
        if loss < min(self.history.validation, default=math.inf):
            self.best = {name: _kept(tensor.detach()) for name, tensor in _trained(module).items()}
        self.history.validation.append(loss)

    def restore_best(self, module: torch.nn.Module) -> None:
        """Put the remembered weights back, where any were remembered."""
        if self.best:
            _load(module, self.best)

    def save(self, module: torch.nn.Module, optimiser: torch.optim.Optimizer, *, seed: int) -> None:
        """Write the state after an epoch."""
        if not self.agree(self.write_to is not None and time.monotonic() - self.written >= self.seconds):
            return
        tensors = {f"model/{name}": tensor for name, tensor in _trained(module).items()}
        for index, slots in optimiser.state_dict()["state"].items():
            tensors |= {f"optimiser/{index}/{slot}": tensor for slot, tensor in slots.items()}
        tensors |= {f"best/{name}": tensor for name, tensor in self.best.items()}
        notes = {"seed": str(seed), "history": json.dumps(asdict(self.history))}
        if self.scaler is not None:
            notes["scaler"] = json.dumps(self.scaler.state_dict())
        _write(self.write_to, tensors, notes)
        self.written = time.monotonic()

    def load(self, module: torch.nn.Module, optimiser: torch.optim.Optimizer, *, seed: int) -> int:
        """Resume into ``module`` and ``optimiser``; the number of epochs already done, 0 without a whole file."""
        kept = _read(self.read_from) if self.read_from else None
        if kept is None or kept[1].get("seed") != str(seed) or "history" not in kept[1]:
            return 0
        tensors, meta = kept
        model, best, slots = _parts(tensors)
        weights = [weight for group in optimiser.param_groups for weight in group["params"]]
        if not _fit(model, best, slots, module, weights):
            assert self.read_from is not None
            warn_damaged(self.read_from, "of another network")
            return 0
        self.best = best
        _load(module, model)
        state = {
            index: {slot: _laid_out(tensor, weights[index]) for slot, tensor in found.items()}
            for index, found in slots.items()
        }
        optimiser.load_state_dict({"state": state, "param_groups": optimiser.state_dict()["param_groups"]})
        if self.scaler is not None and "scaler" in meta:
            self.scaler.load_state_dict(json.loads(meta["scaler"]))
        self.history = History(**json.loads(meta["history"]))
        return len(self.history.training)


Tensors = dict[str, "torch.Tensor"]


def _parts(tensors: Mapping[str, torch.Tensor]) -> tuple[Tensors, Tensors, dict[int, Tensors]]:
    """What :meth:`Checkpoint.save` wrote: weights, the best so far, and what the optimiser has of each weight."""
    model, best, slots = Tensors(), Tensors(), dict[int, Tensors]()
    for key, tensor in tensors.items():
        part, _, name = key.partition("/")
        if part == "optimiser":
            index, _, slot = name.partition("/")
            slots.setdefault(int(index), {})[slot] = tensor
        else:
            (model if part == "model" else best)[name] = tensor
    return model, best, slots


def _fit(
    model: Tensors, best: Tensors, slots: Mapping[int, Tensors], module: torch.nn.Module, weights: Sequence[Any]
) -> bool:
    """Whether what was read is this network's, and its optimiser's: a file may be of another version of its code."""
    own = _shapes(_trained(module))
    if _shapes(model) != own or (best and _shapes(best) != own) or slots.keys() - set(range(len(weights))):
        return False
    return all(
        tensor.dim() == 0 or tensor.shape == weights[index].shape for index in slots for tensor in slots[index].values()
    )


def _shapes(tensors: Mapping[str, Any]) -> dict[str, Any]:
    return {name: tensor.shape for name, tensor in tensors.items()}


def save_weights(path: Path | None, module: torch.nn.Module, meta: Mapping[str, str]) -> None:
    """The weights of a trained judge, of frozen ones none; ``path`` None in processes that must not write."""
    _write(path, _trained(module), meta)


def load_weights(path: Path, module: torch.nn.Module) -> None:
    """What :func:`save_weights` wrote, into a network made of the same samples.

    Raises:
        JudgeError: no file there, or a damaged one; weights of another network.
    """
    kept = _given(path)
    if kept is None:
        raise JudgeError("there are no weights, or not all of them", where=str(path), mend="train the judge again")
    if _shapes(_trained(module)) != _shapes(kept[0]):
        what = "its weights do not fit the judge that it names, or what that started from"
        raise JudgeError(what, where=str(path), mend="use what the judge was trained with, or train it again")
    _load(module, kept[0])


def read_history(path: Path) -> History | None:
    """How the training went whose weights :func:`save_weights` wrote; None without a whole file.

    Raises:
        OSError: it is there, and cannot be read.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(regular(path), framework="np") as file:
            return History(**json.loads((file.metadata() or {})["history"]))
    except (FileNotFoundError, SafetensorError, KeyError, ValueError, TypeError, RecursionError):
        return None


def _read(path: Path, framework: str = "pt") -> tuple[dict[str, Any], dict[str, str]] | None:
    """Tensors and notes of a kept file; None for one that is absent or damaged: its judge is trained anew.

    Raises:
        JudgeError: it cannot be read.
    """
    return _given(path, framework) if is_sound(path) else None


def is_sound(path: Path) -> bool:
    """Whether a file of safetensors is there, and whole; warn of one that is damaged.

    Raises:
        JudgeError: it cannot be read at the moment.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(regular(path), framework="np"):
            return True
    except FileNotFoundError:
        return False
    except (SafetensorError, NotRegularError, IsADirectoryError):
        warn_damaged(path)
        return False
    except OSError as error:
        raise as_mendable(error, str(path)) or error from error


def _given(path: Path, framework: str = "pt") -> tuple[dict[str, Any], dict[str, str]] | None:
    """Tensors and notes of a file that a user may have given, and that was checked where its notes were read."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(regular(path), framework=framework) as file:
            # A safetensors handle is not a mapping.
            return {name: file.get_tensor(name) for name in file.keys()}, file.metadata() or {}  # noqa: SIM118
    except (FileNotFoundError, NotRegularError, SafetensorError):
        return None


def _write(path: Path | None, tensors: Mapping[str, torch.Tensor], meta: Mapping[str, str]) -> None:
    from safetensors.torch import save_file

    whole = {}
    for name, tensor in tensors.items():
        # All processes put shards together, also those that write nothing: these keep nothing either.
        together = _whole(tensor.detach())
        if path is not None:
            whole[name] = together.cpu().contiguous()
    if path is not None:
        _write_file(path, whole, meta, save_file)


def _write_file(path: Path, tensors: dict[str, Any], meta: Mapping[str, str], save: Callable[..., None]) -> None:
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with beside(path) as file:
            save(tensors, file, dict(meta))
            _sort_metadata(file)


def _sort_metadata(written: Path) -> None:
    """Sort the metadata of a file of safetensors, which writes them in any order: equal tensors make equal files."""
    with written.open("rb+") as file:
        size = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(size))
        header["__metadata__"] = dict(sorted(header.get("__metadata__", {}).items()))
        file.seek(8)
        file.write(json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode().ljust(size))


def _kept(tensor: torch.Tensor) -> torch.Tensor:
    """A copy in the computer's memory; of a shard where it is."""
    return tensor.clone() if hasattr(tensor, "full_tensor") else tensor.to("cpu", copy=True)


def _load(module: torch.nn.Module, tensors: Mapping[str, torch.Tensor]) -> None:
    own = module.state_dict()
    module.load_state_dict({name: _laid_out(tensor, own[name]) for name, tensor in tensors.items()}, strict=False)


def _whole(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor of which each process may hold a shard (FSDP)."""
    whole: torch.Tensor = tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor
    return whole


def _laid_out(tensor: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """``tensor`` in shards, where ``like`` is and ``tensor`` is not; scalars are in every process."""
    if not hasattr(like, "full_tensor") or hasattr(tensor, "full_tensor") or tensor.dim() == 0:
        return tensor
    from torch.distributed.tensor import distribute_tensor

    placed: Any = like
    return distribute_tensor(tensor.to(placed.device), placed.device_mesh, placed.placements)


def _trained(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    """The state that training changes: no frozen weights; of tied ones (one weight, two names) the first name."""
    kept = {name for name, parameter in module.named_parameters() if parameter.requires_grad}
    kept |= {name for name, _ in module.named_buffers()}
    return {name: tensor for name, tensor in module.state_dict().items() if name in kept}


def save_tensors(path: Path, tensors: Mapping[str, Any], meta: Mapping[str, str]) -> None:
    """Numpy arrays, without torch."""
    from safetensors.numpy import save_file

    _write_file(path, {name: np.ascontiguousarray(values) for name, values in tensors.items()}, meta, save_file)


def load_tensors(path: Path) -> dict[str, Any] | None:
    """The numpy arrays of a file that a user gave; None where there is none, or no whole one."""
    kept = _given(path, "np")
    return kept and kept[0]


def load_kept(path: Path) -> tuple[dict[str, Any], dict[str, str]] | None:
    """The numpy arrays and notes of a kept file, or None where there is none, or no whole one, which is told."""
    return _read(path, "np")


def save_predictions(path: Path, probabilities: FloatArray, notes: Mapping[str, float]) -> None:
    """A finished member: its probabilities [N, A] and what its judge chose."""
    save_tensors(path, {"probabilities": probabilities}, {"notes": json.dumps(notes)})


def load_predictions(path: Path) -> tuple[FloatArray, dict[str, float]] | None:
    """What :func:`save_predictions` wrote, or None where there is none, or no whole one, which is told."""
    kept = load_kept(path)
    return kept and (kept[0]["probabilities"], json.loads(kept[1]["notes"]))
