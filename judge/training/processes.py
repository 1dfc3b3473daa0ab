"""The processes of a launch, by Accelerate: how they start, meet, and end together."""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import TypeVar, cast

import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from accelerate.utils import InitProcessGroupKwargs, gather_object

from judge.errors import JudgeError
from judge.utils.launch import is_main_process, launched

_PATIENCE = timedelta(seconds=5)  # For the main process to meet a fault that all meet.
T = TypeVar("T")


def make_accelerator(*, mixed_precision: str | None = None) -> Accelerator:
    """Accelerate's view of this process: device, precision, companions.

    Without an accelerator device ``cpu=True`` is passed on, since Accelerate otherwise starts processes that each
    believe that they are alone. ``mixed_precision`` None leaves it to Accelerate's own setting.

    Raises:
        JudgeError: the launcher promised several processes and this one sees no other.
    """
    # Accelerate keeps the first precision of a process for all later ones; each run must have its own.
    AcceleratorState._reset_state()
    accelerator = Accelerator(
        cpu=not torch.accelerator.is_available(),
        mixed_precision=mixed_precision,
        # Processes that train whole judges meet only when the slowest is done.
        kwargs_handlers=[InitProcessGroupKwargs(timeout=timedelta(days=7))],
    )
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


def _leave() -> None:
    """Leave the others before the interpreter goes: threads of Gloo's that are left behind may abort the process."""
    if torch.distributed.is_initialized() and torch.distributed.get_backend() == "gloo":
        torch.distributed.destroy_process_group()


def gather(item: T) -> list[T]:
    """``item`` of every process of the launch, in rank order, in every process."""
    found: list[T] = gather_object([item])
    return found


def in_main_process(work: Callable[[], T]) -> T:
    """What ``work`` returns, in every process: the main one does it, the others wait.

    Raises:
        JudgeError: what ``work`` raised; in all processes.
    """
    if not launched():
        return work()
    make_accelerator()
    found: T | None = None
    fault: JudgeError | None = None
    if is_main_process():
        try:
            found = work()
        except JudgeError as error:  # The others wait in gather: tell them before giving up.
            fault = error
    main, fault = gather((found, fault))[0]
    if fault is not None:
        raise fault
    return cast(T, main)


@contextmanager
def fail_together() -> Iterator[None]:
    """End all processes that train one judge if one of them fails: the others wait for it in a collective operation.

    They cannot be told there: this process ends, and its launcher ends the others. The main process says what was
    wrong; where it has not met the fault, the one that has.

    Raises:
        JudgeError: in the main process, if it has met a fault.
        SystemExit: elsewhere, and where a sum failed since another process met one.
    """
    try:
        yield
    except JudgeError as error:
        if not torch.distributed.is_initialized():
            raise
        store = torch.distributed.distributed_c10d._get_default_store()
        if torch.distributed.get_rank() == 0:
            store.set("judge/main", "")
            raise
        store.set("judge/fault", "")
        with suppress(RuntimeError):
            store.wait(["judge/main"], _PATIENCE)
            raise SystemExit(2) from None
        sys.stderr.write(f"judge: {error}\n")
        raise SystemExit(2) from None
    except RuntimeError:  # Gloo's sums fail when a process is gone; NCCL's wait until the launcher ends them.
        if torch.distributed.is_initialized():
            store = torch.distributed.distributed_c10d._get_default_store()
            if store.check(["judge/fault"]) or store.check(["judge/main"]):
                raise SystemExit(2) from None
        raise
