"""Launches of several processes: whether this is one, and which process is the main one."""

import os
import sys
import time
from typing import Any

from judge.errors import JudgeError

_RANKS = ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK")
_PATIENCE = 5.0  # Seconds for the main process to meet a fault that all meet.


def launched() -> bool:
    """Whether ``accelerate launch``, torchrun or mpirun started this process."""
    return "ACCELERATE_MIXED_PRECISION" in os.environ or any(name in os.environ for name in _RANKS)


def is_main_process() -> bool:
    """Whether this process writes the files and talks to the user."""
    return _rank() == 0


def _rank() -> int:
    return int(next((os.environ[name] for name in _RANKS if name in os.environ), "0"))


def promised() -> int:
    """The number of processes that the launch should have."""
    return max(int(os.environ.get(name, "1")) for name in ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE"))


def launch_precision() -> str:
    """The mixed precision that Accelerate takes where a command names none: that of its launch, else "no"."""
    return os.environ.get("ACCELERATE_MIXED_PRECISION", "no").lower()


def computes_on() -> str:
    """The type of the device that Accelerate takes: "cpu" also where a launch asks for that beside a GPU."""
    import torch
    from accelerate.utils import parse_flag_from_env

    here = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    return "cpu" if here is None or parse_flag_from_env("ACCELERATE_USE_CPU") else here.type


def check_launch(*, shared: bool) -> None:
    """Refuse processes that do not share their work: each would do all of it, and write the same files."""
    tasks = os.environ.get("SLURM_STEP_NUM_TASKS", "1")
    if not shared and promised() > 1:
        what = "this command runs in one process"
        raise JudgeError(what, where="accelerate launch", mend="give it without a launcher")
    if tasks.isdigit() and int(tasks) > 1 and "RANK" not in os.environ:
        what = f"srun started {tasks} processes that do not know of each other"
        mend = "let srun start one task a machine, accelerate launch (or torchrun) with one process a GPU"
        if os.environ.get("SLURM_PROCID", "0") != "0":
            raise SystemExit(2)
        raise JudgeError(what, where="srun", mend=mend)


def shared_store() -> Any:
    """The key-value store of the processes that have met; None before they have."""
    torch = sys.modules.get("torch")
    if torch is None or not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return None
    return torch.distributed.distributed_c10d._get_default_store()


def await_main_process() -> None:
    """Let the main process report a fault that all meet: a launcher ends all as soon as one has ended."""
    if not is_main_process():
        time.sleep(_PATIENCE + 0.2 * min(_rank(), 50))


def lost_process(error: BaseException) -> JudgeError | None:
    """The message for an ``error`` of torch that another process caused by ending; None for any other error."""
    said = type(error).__name__.startswith("Dist") or "gloo" in str(error).lower()
    if not (launched() and isinstance(error, RuntimeError) and said):
        return None
    mend = "see its message; if there is none, memory may have run out on its machine. Give the same command again"
    return JudgeError("another process of the launch has ended", where="accelerate launch", mend=mend)
