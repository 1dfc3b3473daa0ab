"""A pretend accelerator for machines without one: it refuses what a real one would refuse, and counts waits.

Tensors on it hold CPU numbers and say that they are on the device "lazy", which nothing else uses ("meta" is where
transformers builds its models). Operands left on the host are refused, as by CUDA; copies from the host and waits for
the device are counted by line of source. It does not see what kernels do below torch's operations, nor pinned memory.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from accelerate.state import AcceleratorState, PartialState
from torch import Tensor
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

DEVICE = torch.device("lazy")
HOST = torch.device("cpu")
aten = torch.ops.aten
Lines = Counter[str]
# The host must learn a number, or a size, before it can go on.
_WAITS = {
    aten._local_scalar_dense.default,  # item(), bool(), float()
    aten.equal.default,
    aten.nonzero.default,
    aten.masked_select.default,
    aten._unique2.default,
    aten.unique_consecutive.default,
    aten.unique_dim.default,
    aten.bincount.default,
}
_INDEXING = {aten.index.Tensor, aten.index_put.default, aten.index_put_.default, aten._index_put_impl_.default}
# Operands that these want on the host, by their names.
_ON_HOST = {
    aten._pack_padded_sequence.default: {"lengths"},
    aten._pack_padded_sequence_backward.default: {"batch_sizes"},
    aten.lstm.data: {"batch_sizes"},
    aten.rnn_tanh.data: {"batch_sizes"},
}
# Files whose lines are not reported: this one, torch's, Accelerate's, and code without a file.
_PASSED_OVER = rf"^{re.escape(__file__)}$|site-packages/(torch|accelerate)/|^<"


class OnDevice(Tensor):
    """A tensor on the pretend device; ``held`` are its numbers, on the CPU."""

    held: Tensor

    @staticmethod
    def __new__(cls, held: Tensor) -> OnDevice:
        placed = {"strides": held.stride(), "storage_offset": held.storage_offset()}
        made: OnDevice = torch.Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]
            cls, held.shape, dtype=held.dtype, device=DEVICE, **placed
        )
        made.held = held
        return made

    def __repr__(self, **_: Any) -> str:
        # Torch's would copy the numbers to the CPU; transformers formats tensors into messages that nobody reads.
        return f"OnDevice({self.held!r})"

    # With these ``Module.to`` moves weights in place, so that those that modules share stay shared.
    def __tensor_flatten__(self) -> tuple[list[str], None]:
        return ["held"], None

    @staticmethod
    def __tensor_unflatten__(inner: Mapping[str, Tensor], *_: Any) -> OnDevice:
        return OnDevice(inner["held"])

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise RuntimeError(f"{func} on a tensor of the pretend device, which is switched off")


def held(tree: Any) -> Any:
    """``tree`` with the numbers of all tensors of the device; torch's pytree would take ten times as long."""
    if isinstance(tree, OnDevice):
        return tree.held
    if type(tree) in {tuple, list}:
        return type(tree)(map(held, tree))
    return {name: held(of) for name, of in tree.items()} if type(tree) is dict else tree


def tensors_of(tree: Any) -> Iterator[Tensor]:
    """All tensors among operands."""
    if isinstance(tree, Tensor):
        yield tree
    elif isinstance(tree, (tuple, list, dict)):
        for part in tree.values() if isinstance(tree, dict) else tree:
            yield from tensors_of(part)


class Pretend(TorchDispatchMode):
    """Runs operations of the pretend device and counts what a real one would do.

    Attributes:
        copies: to the device, by line of source; without pinned memory they wait for the device too.
        waits: of the host for the device, by line and kind.
        steps: (copies, waits) of each optimiser step so far.
    """

    def __init__(self) -> None:
        super().__init__()
        self.copies, self.waits = Lines(), Lines()
        self.steps: list[tuple[Lines, Lines]] = []
        self._before = Lines(), Lines()

    def end_step(self, *_: Any) -> None:
        """Take down an optimiser's step."""
        self.steps.append((self.copies - self._before[0], self.waits - self._before[1]))
        self._before = Lines(self.copies), Lines(self.waits)

    def wait(self, kind: str) -> None:
        """Take down a wait."""
        self.waits[f"{_line()} {kind}"] += 1

    def copy(self, tensor: Tensor) -> None:
        """Take down a copy to the device; nothing is copied of an empty tensor."""
        if tensor.numel():
            self.copies[_line()] += 1

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        tensors = [*tensors_of((args, kwargs))]
        there = any(isinstance(tensor, OnDevice) for tensor in tensors)
        asked = kwargs.get("device")
        stays = there if asked is None else torch.device(asked) == DEVICE
        if there or stays:
            stays = self._take_down(func, args, kwargs, stays=stays)
        if asked is not None and torch.device(asked) == DEVICE:
            kwargs = {**kwargs, "device": HOST}
        found = func(*held(args), **held(kwargs))
        return _results(func, tensors, found, stays=stays)

    def _take_down(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], *, stays: bool) -> bool:
        """Count what ``func`` would cost; whether its results are on the device.

        Raises:
            RuntimeError: an operand was left on the host.
        """
        if func is aten._to_copy.default:
            if stays and not isinstance(args[0], OnDevice):
                self.copy(args[0])
            elif not stays:
                self.wait("to the host")
            return stays
        if func is aten.copy_.default:
            if not isinstance(args[1], OnDevice):
                self.copy(args[1])
            elif not isinstance(args[0], OnDevice):
                self.wait("to the host")
            return stays
        if func in _INDEXING and isinstance(args[0], OnDevice):
            self._index(func, args)
        elif func in _WAITS or (func is aten.repeat_interleave.Tensor and kwargs.get("output_size") is None):
            self.wait(func.overloadpacket.__name__)
        _refuse_mixed(func, args, kwargs)
        return stays and func is not aten._local_scalar_dense.default

    def _index(self, func: Any, args: Sequence[Any]) -> None:
        indices = [index for index in args[1] if index is not None]
        # A number put where one mask says so is a fill, without a look at the mask.
        fills = func is not aten.index.Tensor and len(indices) == 1 and not args[2].dim()
        for index in indices:
            if not isinstance(index, OnDevice):
                self.copy(index)
            elif index.dtype in {torch.bool, torch.uint8} and not fills:
                self.wait("mask as index")


def _refuse_mixed(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    named = {argument.name: value for argument, value in zip(func._schema.arguments, args, strict=False)} | {**kwargs}
    allowed = _ON_HOST.get(func, set())
    if func in _INDEXING and isinstance(args[0], OnDevice):
        allowed = {"indices"}
    for name, value in named.items():
        for tensor in tensors_of(value):
            # Numbers may stay on the host, as everywhere in torch.
            if not isinstance(tensor, OnDevice) and tensor.dim() and name not in allowed:
                what = f"'{name}' {[*tensor.shape]} of {func} is on the host, and others are on the device: {_line()}"
                raise RuntimeError(what)


def _results(func: Any, tensors: Sequence[Tensor], found: Any, *, stays: bool) -> Any:
    """``found`` on the device if it ``stays`` there; an operation in place returns the tensors that it was given."""
    if stays and func is aten._pack_padded_sequence.default:
        return OnDevice(found[0]), found[1]  # Batch sizes are for the host.
    given = {id(held(tensor)): tensor for tensor in tensors} if func._schema.is_mutable else {}
    for tensor in given.values():
        if tensor.shape != held(tensor).shape:
            raise RuntimeError(f"{func} changes a tensor's shape in place, which the pretend device cannot do")

    def placed(tensor: Tensor) -> Tensor:
        tensor = given.get(id(tensor), tensor)
        return OnDevice(tensor) if stays and not isinstance(tensor, OnDevice) else tensor

    return placed(found) if isinstance(found, Tensor) else tree_map_only(Tensor, placed, found)


def _line() -> str:
    """The innermost line of neither torch, Accelerate nor this file; of gradients, the line that asked for all."""
    frame = sys._getframe(1)
    while frame.f_back and re.search(_PASSED_OVER, frame.f_code.co_filename):
        frame = frame.f_back
    path = frame.f_code.co_filename.rpartition("site-packages/")[2]
    line = f"{path.removeprefix(f'{Path(__file__).parents[1]}/')}:{frame.f_lineno}"
    return line if torch._C._current_graph_task_id() < 0 else f"gradients of {line}"  # type: ignore[attr-defined]


class _FromPython(TorchFunctionMode):
    """Conversions between Python numbers and tensors, which torch does below its operations."""

    def __init__(self, device: Pretend) -> None:
        super().__init__()
        self.device = device

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in {torch.tensor, torch.as_tensor} and args and not isinstance(args[0], Tensor):
            numbers = tree_map_only(OnDevice, lambda tensor: tensor.item(), args[0])
            made: Tensor = func(numbers, *args[1:], **{**kwargs, "device": None})
            return made.to(kwargs.get("device") or HOST)
        if func in {Tensor.__getitem__, Tensor.__setitem__} and isinstance(args[0], OnDevice):
            chosen = args[1] if isinstance(args[1], tuple) else (args[1],)
            moved = (_moved(index) if isinstance(index, list) else index for index in chosen)
            args = (args[0], tuple(moved), *args[2:])
        if func is Tensor.tolist and isinstance(args[0], OnDevice):
            self.device.wait("tolist")
            return args[0].held.tolist()
        return func(*args, **kwargs)


def _moved(index: list[Any]) -> Tensor:
    return torch.tensor(index, dtype=None if index else torch.int64).to(DEVICE)


@contextmanager
def pretend_device() -> Iterator[Pretend]:
    """Within, Accelerate's device is the pretend one. Tensors on it are of no use afterwards."""
    device = Pretend()
    with ExitStack() as stack:
        for state in (PartialState._shared_state, AcceleratorState._shared_state):
            stack.enter_context(mock.patch.dict(state))
        PartialState(cpu=True)
        PartialState._shared_state["device"] = DEVICE
        AcceleratorState._shared_state.clear()
        # Adam's one pass over a tensor exists there, too.
        fused = "torch.optim.optimizer._get_fused_kernels_supported_devices"
        stack.enter_context(mock.patch(fused, return_value=[DEVICE.type]))
        stack.callback(register_optimizer_step_post_hook(device.end_step).remove)
        stack.enter_context(_FromPython(device))
        stack.enter_context(device)
        yield device
