"""Memory: how many samples fit, by trying, after which everything is as before; what is freed kept for what follows."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import torch
from accelerate.utils.memory import clear_device_cache, should_reduce_batch_size
from torch import nn

T = TypeVar("T")
# What drivers and libraries say that allocate for themselves; Accelerate knows torch's own.
_SAID = "CUDA error: out of memory", "CUBLAS_STATUS_ALLOC_FAILED"
_TRIM, _LARGE_APART = -1, -4  # glibc's M_TRIM_THRESHOLD and M_MMAP_MAX.


class OutOfMemory(Exception):  # noqa: N818 - a condition, not yet a fault
    """Memory ran out. It keeps no tensor alive; torch's own error keeps those of the step that failed."""


def watched(work: Callable[[], T]) -> T:
    """Run ``work``; torch's several errors for lack of memory, on GPUs and CPUs, become one.

    Raises:
        OutOfMemory: memory ran out.
    """
    try:
        return work()
    except RuntimeError as error:
        if not should_reduce_batch_size(error) and not any(said in str(error) for said in _SAID):
            raise
    # Out here the error is gone, and the frames with it.
    raise OutOfMemory


def halving(work: Callable[[int], T], size: int) -> tuple[T, int]:
    """What ``work`` makes of so many samples a pass, halved from ``size`` on until they fit; and how many did.

    Raises:
        OutOfMemory: memory does not hold a single one.
    """
    while True:
        try:
            return watched(lambda tried=size: work(tried)), size  # type: ignore[misc]  # a lambda's default
        except OutOfMemory:
            clear_device_cache(garbage_collection=True)
            if size == 1:
                raise
            size //= 2


def most_that_fit(module: nn.Module, step: Callable[[int], object], most: int) -> int:
    """The most samples, halved from ``most`` on, of which a training step fits into memory; 0 if not even one.

    Args:
        module: is trained, by Adam, for whose moments room is left.
        step: adds the gradients of so many samples.
        most: to begin with.
    """
    while most and not _fits(module, step, most):
        most //= 2
    return most


def _fits(module: nn.Module, step: Callable[[int], object], size: int) -> bool:
    kept = {name: buffer.clone() for name, buffer in module.named_buffers()}
    module.zero_grad(set_to_none=True)
    try:
        # The module's GPUs alone: torch would otherwise start all that it sees, in every process.
        used = {weight.device for weight in module.parameters() if weight.device.type in {"cuda", "xpu"}}
        with torch.random.fork_rng(devices=used):
            watched(lambda: _try(module, step, size))
        fits = True
    except OutOfMemory:
        fits = False
    module.zero_grad(set_to_none=True)
    clear_device_cache(garbage_collection=True)
    for name, buffer in module.named_buffers():
        buffer.copy_(kept[name])
    return fits


def _try(module: nn.Module, step: Callable[[int], object], size: int) -> None:
    trained = [weight for weight in module.parameters() if weight.requires_grad]
    moments = [torch.zeros_like(weight) for weight in trained for _ in range(2)]
    step(size)
    del moments


@contextmanager
def kept_memory() -> Iterator[None]:
    """Memory that is freed stays with this process until the end of the block, where the C library is glibc.

    Otherwise each tensor of tens of megabytes is new pages from the system, which fills them with zeros, at every step.
    Afterwards the thresholds are fixed ones.
    """
    library = ctypes.CDLL(None)
    if not hasattr(library, "mallopt") or not hasattr(library, "malloc_trim"):  # Not glibc.
        yield
        return
    library.mallopt(_LARGE_APART, 0)
    library.mallopt(_TRIM, -1)  # Never.
    try:
        yield
    finally:
        library.mallopt(_LARGE_APART, 1 << 16)
        library.mallopt(_TRIM, 1 << 26)
        library.malloc_trim(0)
