"""Accelerate's view of this process: its device, the processes launched with it, and the precision of products."""

from __future__ import annotations

import os
from datetime import timedelta

import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState, PartialState
from accelerate.utils import DistributedType, InitProcessGroupKwargs

from judge.errors import JudgeError
from judge.training.sharding import is_asked_for
from judge.utils.launch import computes_on, launch_precision, promised

_SHARDS = "use scripts/configs/fsdp.yaml, which shards weights"
# What a launch may ask for and judges do not have: variable, the value that does not ask, what it is, what to do.
_REFUSED = (
    ("ACCELERATE_USE_DEEPSPEED", "false", "DeepSpeed is", _SHARDS),
    ("ACCELERATE_USE_MEGATRON_LM", "false", "Megatron-LM is", _SHARDS),
    ("ACCELERATE_USE_PARALLELISM_CONFIG", "false", "parallelism other than of data is", _SHARDS),
    ("ACCELERATE_DYNAMO_BACKEND", "no", "torch.compile is", "leave --dynamo_backend out"),
    (
        *("ACCELERATE_GRADIENT_ACCUMULATION_STEPS", "1", "gradient accumulation by the launch is"),
        "leave it out: --batch-size N takes larger batches, and --micro-batch N cuts them up",
    ),
)
# Gradients are added up again and again: who waits longer waits for a process that is gone.
_GRADIENTS = timedelta(minutes=30)


def make_accelerator(*, mixed_precision: str | None = None) -> Accelerator:
    """Accelerate's view of this process: device, precision, companions.

    Without an accelerator device ``cpu=True`` is passed on, since Accelerate otherwise starts processes that each
    believe that they are alone. ``mixed_precision`` None leaves it to Accelerate's own setting.

    Raises:
        JudgeError: the launcher promised several processes and this one sees no other; the launch asks for what judges
            do not have, or is FSDP's and in fp16.
    """
    precision = mixed_precision or launch_precision()
    for variable, absent, what, mend in _REFUSED:
        if os.environ.get(variable, absent).lower() != absent:
            raise JudgeError(f"{what} not supported", where=f"accelerate launch ({variable})", mend=mend)
    if precision == "fp8":  # Accelerate would train in float32.
        raise JudgeError("fp8 is not supported", where="accelerate launch", mend="use --mixed_precision bf16")
    if is_asked_for() and precision == "fp16":
        # Its scaler meets the other processes' at every step, though judges may be trained by one process alone.
        raise JudgeError("fp16 is not supported under FSDP", where="--precision fp16", mend="use bf16")
    cpu = computes_on() == "cpu"
    # Accelerate keeps the first precision of a process for all later ones; each run must have its own.
    AcceleratorState._reset_state()
    repeat_exactly()
    kind = PartialState(cpu, timeout=_GRADIENTS).distributed_type
    if kind == DistributedType.MULTI_CPU and is_asked_for():
        # PyTorch shards weights on CPUs too, Accelerate where it believes in GPUs.
        PartialState._shared_state["distributed_type"] = DistributedType.MULTI_GPU
    accelerator = Accelerator(
        cpu=cpu,
        mixed_precision=mixed_precision,
        kwargs_handlers=[InitProcessGroupKwargs(timeout=_GRADIENTS)],
    )
    # Accelerate has put "FSDP" there, and would not find its plugin the next time.
    PartialState._shared_state["distributed_type"] = kind
    asked = promised()
    # accelerate launch with MULTI_CPU starts one process for any --num_processes, and leaves this trace.
    silent = "ACCELERATE_MIXED_PRECISION" in os.environ and "MASTER_ADDR" in os.environ and "RANK" not in os.environ
    if accelerator.num_processes == 1 and (asked > 1 or silent):
        what = f"{asked if asked > 1 else 'several'} processes were asked for, and this one is alone"
        mend = "use the project's accelerate_config.yaml ('distributed_type: MULTI_GPU', on CPUs too), "
        mend += "or ask for --num_processes 1 (and unset MASTER_ADDR, if it is your site that sets it)"
        raise JudgeError(what, where="accelerate launch", mend=mend)
    return accelerator


def repeat_exactly() -> None:
    """No TF32 in float32 on a GPU, and where PyTorch has a choice no algorithm that adds up by chance."""
    if not torch.cuda.is_available():
        return
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = False
    torch.use_deterministic_algorithms(mode=True, warn_only=True)
    # Nothing of ours reads what it has not written.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]  # a property
