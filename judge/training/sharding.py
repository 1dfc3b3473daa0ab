"""Weights in shards among the processes of a launch: PyTorch's FSDP2, by Accelerate.

A launch asks for it (``distributed_type: FSDP``); the plugin is made here, anew for each judge. Units are what
transformers itself repeats and checkpoints: its layers, gathered one at a time. What is left (embeddings, which may be
tied to the output layer, and the output layer) is the root's, gathered once a pass.
"""

from __future__ import annotations

import os

import torch
from accelerate import Accelerator
from accelerate.utils import FullyShardedDataParallelPlugin
from torch import nn
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy

_LOADING = "FSDP_CPU_RAM_EFFICIENT_LOADING"
_TYPES = {"bf16": torch.bfloat16}


def is_asked_for() -> bool:
    """Whether the launch's configuration is one of FSDP."""
    return os.environ.get("ACCELERATE_USE_FSDP", "false").lower() == "true"


def is_sharded(module: nn.Module) -> bool:
    """Whether its weights lie in shards."""
    return isinstance(module, FSDPModule)


def shard(accelerator: Accelerator, module: nn.Module) -> None:
    """Lay the weights of ``module`` in shards, in place; those of the main process are everybody's.

    Args:
        accelerator: of a launch that asked for it.
        module: on the CPU, or of processes other than the main one on ``meta``; weights keep their own types, and
            products are in the accelerator's mixed precision. What ``module`` returns is of the type that it gives it.
    """
    from accelerate.utils import fsdp2_prepare_model

    accelerator.state.fsdp_plugin = _make_plugin(module, accelerator.mixed_precision)
    persistent = []
    for part in module.modules():
        for name, buffer in part._buffers.items():
            if buffer is not None:
                part._buffers[name] = _from_main_process(buffer, accelerator.device)
                persistent += [] if name in part._non_persistent_buffers_set else [(part, name)]
    for part, name in persistent:
        part._non_persistent_buffers_set.add(name)  # Accelerate takes all that is in a state for shards.
    fsdp2_prepare_model(accelerator, module)
    for part, name in persistent:
        part._non_persistent_buffers_set.discard(name)


def find_units(module: nn.Module) -> list[str]:
    """Names of the classes of which each instance is a unit."""
    try:
        from transformers.modeling_layers import GradientCheckpointingLayer
    except ModuleNotFoundError:
        return []
    return sorted({type(part).__name__ for part in module.modules() if isinstance(part, GradientCheckpointingLayer)})


def _make_plugin(module: nn.Module, precision: str) -> FullyShardedDataParallelPlugin:
    """Offloading and resharding are as the launch's configuration has them."""
    before = os.environ.get(_LOADING)
    plugin = FullyShardedDataParallelPlugin(
        fsdp_version=2,
        # Accelerate's own would round what is returned, log-probabilities, and sums of gradients.
        mixed_precision_policy=MixedPrecisionPolicy(_TYPES.get(precision), reduce_dtype=torch.float32),
        auto_wrap_policy="transformer_based_wrap",
        transformer_cls_names_to_wrap=find_units(module),
        cpu_ram_efficient_loading=True,
        activation_checkpointing=False,  # transformers' own, where it is asked for.
    )
    # The plugin tells transformers, which would then load other models in part.
    os.environ[_LOADING] = before or "false"
    return plugin


def _from_main_process(buffer: torch.Tensor, device: torch.device) -> torch.Tensor:
    here = torch.empty_like(buffer, device=device) if buffer.is_meta else buffer.to(device)
    torch.distributed.broadcast(here, src=0)
    return here
