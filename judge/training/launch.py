"""Processes started together by ``accelerate launch``: device and precision, shared work, weights in shards (FSDP).

A process that is alone imports no torch through this module.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from itertools import count
from typing import TYPE_CHECKING, TypeVar, cast

from judge.errors import JudgeError
from judge.utils.launch import computes_on, is_main_process, launch_precision, launched, promised, shared_store
from judge.utils.parallel import end_with

if TYPE_CHECKING:
    from accelerate import Accelerator
    from torch import nn

S = TypeVar("S")
T = TypeVar("T")
_SHARDS = "use scripts/configs/fsdp.yaml, which shards weights"
# Unsupported requests: variable, the value that requests nothing, what it is, what to do instead.
_REFUSED = (
    ("ACCELERATE_USE_DEEPSPEED", "false", "DeepSpeed is", _SHARDS),
    ("ACCELERATE_USE_MEGATRON_LM", "false", "Megatron-LM is", _SHARDS),
    ("ACCELERATE_USE_PARALLELISM_CONFIG", "false", "parallelism other than of data is", _SHARDS),
    ("ACCELERATE_DYNAMO_BACKEND", "no", "torch.compile is", "leave --dynamo_backend out"),
    (
        *("ACCELERATE_GRADIENT_ACCUMULATION_STEPS", "1", "gradient accumulation by the launch is"),
        "leave it out: --training batch_size=N takes larger batches, and --training micro_batch=N cuts them up",
    ),
)
# The fastest process waits while the slowest trains its judges. A launcher ends all processes when one has ended.
_TIMEOUT = timedelta(days=7)
_LOADING = "FSDP_CPU_RAM_EFFICIENT_LOADING"
_barriers = count()  # Numbers the blocks of ``raise_together``, which all processes enter in the same order.


def make_accelerator(*, mixed_precision: str | None = None) -> Accelerator:
    """Make Accelerate's view of this process: its device, its precision, the processes launched with it.

    On a machine without a GPU ``cpu=True`` is passed on: otherwise Accelerate starts processes that each believe that
    they are alone. ``mixed_precision`` None leaves the precision to the launch.

    Raises:
        JudgeError: the launcher promised several processes and this one sees no other; the launch requests what judges
            do not support, or FSDP in fp16.
    """
    from accelerate import Accelerator
    from accelerate.state import AcceleratorState, PartialState
    from accelerate.utils import InitProcessGroupKwargs

    for variable, absent, what, mend in _REFUSED:
        if os.environ.get(variable, absent).lower() != absent:
            raise JudgeError(f"{what} not supported", where=f"accelerate launch ({variable})", mend=mend)
    precision = mixed_precision or launch_precision()
    if precision == "fp8":  # Accelerate would train in float32.
        raise JudgeError("fp8 is not supported", where="accelerate launch", mend="use --mixed_precision bf16")
    if uses_fsdp() and precision == "fp16":
        # The gradient scaler synchronises all processes at every step, and judges may be trained by one process alone.
        raise JudgeError("fp16 is not supported under FSDP", where="--training precision=fp16", mend="use bf16")
    make_deterministic()
    cpu = computes_on() == "cpu"
    # Accelerate keeps the first precision of a process for all later ones; each run must have its own.
    AcceleratorState._reset_state()
    kind = PartialState(cpu, timeout=_TIMEOUT).distributed_type
    timeout = InitProcessGroupKwargs(timeout=_TIMEOUT)
    accelerator = Accelerator(cpu=cpu, mixed_precision=mixed_precision, kwargs_handlers=[timeout])
    # Under FSDP Accelerate overwrites this, and would not find its plugin the next time.
    PartialState._shared_state["distributed_type"] = kind
    if accelerator.num_processes > 1:
        end_with(os.getppid())  # Also where another program calls this package.
        atexit.unregister(_leave)
        atexit.register(_leave)
        return accelerator
    processes = promised()
    # accelerate launch with MULTI_CPU starts one process for any --num_processes, and leaves this trace.
    silent = "ACCELERATE_MIXED_PRECISION" in os.environ and "MASTER_ADDR" in os.environ and "RANK" not in os.environ
    if processes > 1 or silent:
        what = f"{processes if processes > 1 else 'several'} processes were requested, and this one is alone"
        mend = "use the project's accelerate_config.yaml ('distributed_type: MULTI_GPU', on CPUs too), "
        mend += "or --num_processes 1 (and unset MASTER_ADDR, if it is your site that sets it)"
        raise JudgeError(what, where="accelerate launch", mend=mend)
    return accelerator


def make_deterministic() -> None:
    """On a GPU: no TF32 in float32, and deterministic algorithms where PyTorch has them."""
    import torch

    if not torch.cuda.is_available():
        return
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = False
    torch.use_deterministic_algorithms(mode=True, warn_only=True)
    # We never read uninitialised memory.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]  # a property


@contextmanager
def undisturbed() -> Iterator[None]:
    """Leave another training of this process as it is: Accelerate's state, torch's random numbers and its settings."""
    import torch
    from accelerate.state import AcceleratorState

    cuda, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    known, tf32 = dict(AcceleratorState._shared_state), (cuda.allow_tf32, cudnn.allow_tf32, cudnn.benchmark)
    deterministic = torch.are_deterministic_algorithms_enabled()
    warns = torch.is_deterministic_algorithms_warn_only_enabled()
    fills = torch.utils.deterministic.fill_uninitialized_memory  # type: ignore[attr-defined]  # a property
    with torch.random.fork_rng():
        try:
            yield
        finally:
            AcceleratorState._reset_state()
            AcceleratorState._shared_state.update(known)
            cuda.allow_tf32, cudnn.allow_tf32, cudnn.benchmark = tf32
            torch.use_deterministic_algorithms(deterministic, warn_only=warns)
            torch.utils.deterministic.fill_uninitialized_memory = fills  # type: ignore[attr-defined]


def gather(item: T) -> list[T]:
    """Return ``item`` of every process of the launch, in rank order, in every process."""
    if shared_store() is None:
        return [item]
    from accelerate.utils import gather_object

    return cast("list[T]", gather_object([item]))


@contextmanager
def raise_together() -> Iterator[Callable[[], bool]]:
    """Raise the first error, by rank, in all processes, at the end of the block, where they wait for each other.

    Yields a function that says whether another process has failed: long work calls it to stop early.
    """
    if not launched():
        yield lambda: False
        return
    store, key = shared_store(), f"judge/failed/{next(_barriers)}"
    error: JudgeError | None = None
    try:
        yield lambda: store is not None and bool(store.check([key]))
    except JudgeError as raised:
        error = raised
        if store is not None:
            store.set(key, "")
    for found in gather(error):
        if found is not None:
            raise found


def in_main_process(work: Callable[[], T]) -> T:
    """Return in every process what ``work`` returns or raises; the main process runs it, the others wait."""
    if not launched():
        return work()
    from accelerate.utils import broadcast_object_list

    make_accelerator()
    with raise_together():
        found = work() if is_main_process() else None
    return cast(T, broadcast_object_list([found])[0])


def share_out(items: Sequence[S], work: Callable[[Sequence[S]], Iterable[T]]) -> list[T]:
    """Return what ``work`` makes of ``items``, in order, in every process; each process does consecutive items.

    ``work`` is stopped when another process has failed, and its JudgeErrors are raised in all processes.
    """
    if not launched():
        return list(work(items))
    found: list[T] = []
    with make_accelerator().split_between_processes(list(items)) as share, raise_together() as failed:
        for result in work(share):
            found.append(result)
            if failed():
                break
    return [result for part in gather(found) for result in part]


def end_launch() -> None:
    """Wait for the other processes and leave them; does nothing in a process that is alone."""
    if shared_store() is not None:
        accelerator = make_accelerator()
        accelerator.wait_for_everyone()
        accelerator.end_training()


def _leave() -> None:
    """Leave the process group at exit: threads of Gloo that are left behind may abort the interpreter."""
    import torch

    if torch.distributed.is_initialized() and torch.distributed.get_backend() == "gloo":
        torch.distributed.destroy_process_group()


def uses_fsdp() -> bool:
    """Whether the configuration of the launch requests FSDP."""
    return os.environ.get("ACCELERATE_USE_FSDP", "false").lower() == "true"


def is_sharded(module: nn.Module) -> bool:
    """Whether the weights of ``module`` are sharded."""
    from torch.distributed.fsdp import FSDPModule

    return isinstance(module, FSDPModule)


def shard(accelerator: Accelerator, module: nn.Module) -> None:
    """Shard the weights of ``module`` in place (FSDP2); the weights of the main process become those of all.

    ``module`` is on the CPU, or on ``meta`` in other processes. Weights keep their types, products are computed in the
    accelerator's mixed precision, and outputs have the type that ``module`` gives them.
    """
    import torch
    from accelerate.utils import FullyShardedDataParallelPlugin, fsdp2_prepare_model
    from torch.distributed.fsdp import MixedPrecisionPolicy

    device, products = accelerator.device, torch.bfloat16 if accelerator.mixed_precision == "bf16" else None
    before = os.environ.get(_LOADING)
    # Offloading and resharding come from the configuration of the launch.
    accelerator.state.fsdp_plugin = FullyShardedDataParallelPlugin(
        fsdp_version=2,
        # Accelerate's own policy would round outputs, which are log-probabilities, and sums of gradients.
        mixed_precision_policy=MixedPrecisionPolicy(products, reduce_dtype=torch.float32),
        auto_wrap_policy="transformer_based_wrap",
        transformer_cls_names_to_wrap=find_units(module),
        cpu_ram_efficient_loading=True,
        activation_checkpointing=False,  # --gradient-checkpointing is transformers' own.
    )
    # The plugin sets this, and transformers would then load other models in part.
    os.environ[_LOADING] = before or "false"
    persistent = []
    for part in module.modules():
        for name, buffer in part._buffers.items():
            if buffer is not None:
                here = torch.empty_like(buffer, device=device) if buffer.is_meta else buffer.to(device)
                torch.distributed.broadcast(here, src=0)
                part._buffers[name] = here
                persistent += [] if name in part._non_persistent_buffers_set else [(part, name)]
    for part, name in persistent:
        part._non_persistent_buffers_set.add(name)  # Accelerate takes everything in the state for shards.
    fsdp2_prepare_model(accelerator, module)
    for part, name in persistent:
        part._non_persistent_buffers_set.discard(name)


def find_units(module: nn.Module) -> list[str]:
    """Names of the layer classes that are gathered one instance at a time: those that transformers checkpoints."""
    try:
        from transformers.modeling_layers import GradientCheckpointingLayer
    except ModuleNotFoundError:
        return []
    return sorted({type(part).__name__ for part in module.modules() if isinstance(part, GradientCheckpointingLayer)})
