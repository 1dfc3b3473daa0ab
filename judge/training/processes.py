"""The processes of a launch: how they meet, share work out, and end together.

Alone, nothing here imports torch.
"""

from __future__ import annotations

import atexit
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from itertools import count
from typing import Any, TypeVar, cast

from judge.errors import JudgeError
from judge.utils.launch import is_main_process, launched, shared_store

_FAULT = "judge/fault"  # A key of the processes' store.
_SLOWEST = timedelta(days=7)  # Processes that train whole judges meet when the slowest is done.
_meeting: dict[Any, Any] = {}
_blocks = count()  # Numbers the blocks of ``together``, which all processes enter in the same order.
S = TypeVar("S")
T = TypeVar("T")


def gather(item: T) -> list[T]:
    """``item`` of every process of the launch, in rank order, in every process; however long that takes."""
    if shared_store() is None:
        return [item]
    import torch

    world = torch.distributed.group.WORLD
    if world not in _meeting:
        _meeting.clear()
        atexit.unregister(_leave)
        atexit.register(_leave)
        _meeting[world] = torch.distributed.new_group(backend="gloo", timeout=_SLOWEST)
    found: list[T | None] = [None] * torch.distributed.get_world_size()
    torch.distributed.all_gather_object(found, item, group=_meeting[world])
    return cast(list[T], found)


def end_launch() -> None:
    """Leave the other processes, once all is done; nothing where there are none."""
    if shared_store() is not None:
        from judge.training.accelerator import make_accelerator

        _meeting.clear()
        make_accelerator().end_training()


def _leave() -> None:
    """Leave the others before the interpreter goes: threads of Gloo's that are left behind may abort the process."""
    import torch

    if torch.distributed.is_initialized():
        # NCCL's own group is left to the launcher: its end may wait for processes that are gone.
        over = [None] if torch.distributed.get_backend() == "gloo" else list(_meeting.values())
        for group in over:
            torch.distributed.destroy_process_group(group)
    _meeting.clear()


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
    from accelerate.utils import broadcast_object_list

    from judge.training.accelerator import make_accelerator

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
    from judge.training.accelerator import make_accelerator

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
