"""The processes of a launch, by Accelerate: how they start, meet, and end together."""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from itertools import count
from typing import Any, TypeVar, cast

import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState, PartialState
from accelerate.utils import DistributedType, InitProcessGroupKwargs, broadcast_object_list

from judge.errors import JudgeError
from judge.training.sharding import is_asked_for
from judge.utils.launch import is_main_process, launched, shared_store

_FAULT = "judge/fault"  # A key of the processes' store.
# Gradients are added up again and again: who waits longer waits for a process that is gone. Processes that train whole
# judges meet when the slowest is done.
_SUMS, _MEETINGS = timedelta(minutes=30), timedelta(days=7)
_meeting: dict[Any, Any] = {}
_blocks = count()  # Numbers the blocks of ``together``, which all processes enter in the same order.
S = TypeVar("S")
T = TypeVar("T")


def make_accelerator(*, mixed_precision: str | None = None) -> Accelerator:
    """Accelerate's view of this process: device, precision, companions.

    Without an accelerator device ``cpu=True`` is passed on, since Accelerate otherwise starts processes that each
    believe that they are alone. ``mixed_precision`` None leaves it to Accelerate's own setting.

    Raises:
        JudgeError: the launcher promised several processes and this one sees no other; the launch is DeepSpeed's.
    """
    if os.environ.get("ACCELERATE_USE_DEEPSPEED", "false").lower() == "true":
        mend = "use scripts/configs/fsdp.yaml, which shards weights likewise"
        raise JudgeError("DeepSpeed is not supported", where="accelerate launch", mend=mend)
    cpu = not torch.accelerator.is_available()
    # Accelerate keeps the first precision of a process for all later ones; each run must have its own.
    AcceleratorState._reset_state()
    if torch.cuda.is_available():
        _repeat_exactly()
    kind = PartialState(cpu, timeout=_SUMS).distributed_type
    if kind == DistributedType.MULTI_CPU and is_asked_for():
        # PyTorch shards weights on CPUs too, Accelerate where it believes in GPUs.
        PartialState._shared_state["distributed_type"] = DistributedType.MULTI_GPU
    accelerator = Accelerator(
        cpu=cpu,
        mixed_precision=mixed_precision,
        kwargs_handlers=[InitProcessGroupKwargs(timeout=_SUMS)],
    )
    # Accelerate has put "FSDP" there, and would not find its plugin the next time.
    PartialState._shared_state["distributed_type"] = kind
    promised = max(int(os.environ.get(name, "1")) for name in ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE"))
    # accelerate launch with MULTI_CPU starts one process for any --num_processes, and leaves this trace.
    silent = "ACCELERATE_MIXED_PRECISION" in os.environ and "MASTER_ADDR" in os.environ and "RANK" not in os.environ
    if accelerator.num_processes == 1 and (promised > 1 or silent):
        what = f"{promised if promised > 1 else 'several'} processes were asked for, and this one is alone"
        mend = "use the project's accelerate_config.yaml ('distributed_type: MULTI_GPU', on CPUs too), "
        mend += "or ask for --num_processes 1 (and unset MASTER_ADDR, if it is your site that sets it)"
        raise JudgeError(what, where="accelerate launch", mend=mend)
    atexit.unregister(_leave)
    atexit.register(_leave)
    return accelerator


def _repeat_exactly() -> None:
    """One kind of GPU gives the same numbers from a seed: no TF32 in float32, no algorithm that adds up by chance."""
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = False
    torch.use_deterministic_algorithms(mode=True, warn_only=True)
    # Nothing of ours reads what it has not written.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]  # a property


def _leave() -> None:
    """Leave the others before the interpreter goes: threads of Gloo's that are left behind may abort the process."""
    if torch.distributed.is_initialized() and torch.distributed.get_backend() == "gloo":
        torch.distributed.destroy_process_group()


def gather(item: T) -> list[T]:
    """``item`` of every process of the launch, in rank order, in every process; however long that takes."""
    if not torch.distributed.is_initialized():
        return [item]
    world = torch.distributed.group.WORLD
    if world not in _meeting:
        _meeting.clear()
        _meeting[world] = torch.distributed.new_group(backend="gloo", timeout=_MEETINGS)
    found: list[T | None] = [None] * torch.distributed.get_world_size()
    torch.distributed.all_gather_object(found, item, group=_meeting[world])
    return cast(list[T], found)


def end_launch() -> None:
    """Leave the other processes, once all is done; nothing where there are none."""
    if shared_store() is not None:
        make_accelerator().end_training()


@contextmanager
def together() -> Iterator[Callable[[], bool]]:
    """A meeting at the end; an error of one process is raised in all, so that none waits for one that has ended.

    Gives a function that tells whether another process has met an error: long work stops early by asking it.

    Raises:
        JudgeError: of the first process that met one, by rank.
    """
    if not launched():
        yield lambda: False
        return
    store, key = shared_store(), f"judge/meeting/{next(_blocks)}"
    fault: JudgeError | None = None
    try:
        yield lambda: store is not None and bool(store.check([key]))
    except JudgeError as error:
        fault = error
        if store is not None:
            store.set(key, "")
    for met in gather(fault):
        if met is not None:
            raise met


def in_main_process(work: Callable[[], T]) -> T:
    """What ``work`` returns, in every process: the main one does it, the others wait.

    Raises:
        JudgeError: what ``work`` raised; in all processes.
    """
    if not launched():
        return work()
    make_accelerator()
    with together():
        found = work() if is_main_process() else None
    return cast(T, broadcast_object_list([found])[0])


def share_out(items: Sequence[S], work: Callable[[Sequence[S]], Iterable[T]]) -> list[T]:
    """What ``work`` makes of ``items``, in their order, in every process; each does a share of neighbouring items.

    Args:
        items: the same in every process.
        work: gives a result for each item, in order. It is broken off where another process has met an error.

    Raises:
        JudgeError: what ``work`` raised; in all processes.
    """
    if not launched():
        return list(work(items))
    found: list[T] = []
    with make_accelerator().split_between_processes(list(items)) as share, together() as failed:
        for result in work(share):
            found.append(result)
            if failed():
                break
    return [result for part in gather(found) for result in part]


@contextmanager
def fail_together() -> Iterator[None]:
    """End all processes that train one judge if one of them fails: the others wait for it in a collective operation.

    They cannot be told there: this process ends, and its launcher ends the others.

    Raises:
        JudgeError: where the fault was met.
        SystemExit: where a sum failed since another process met one.
    """
    try:
        yield
    except JudgeError:
        if (store := shared_store()) is not None:
            store.set(_FAULT, "")
        raise
    except RuntimeError:  # Gloo's sums fail when a process is gone; NCCL's wait until the launcher ends them.
        if (store := shared_store()) is not None and store.check([_FAULT]):
            raise SystemExit(2) from None
        raise
