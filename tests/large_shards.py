"""Run by test_sharding.py: a captioner of real size in shards among two processes, on PyTorch's fake tensors.

Fake tensors have shapes and types without weights; the fake process group answers at once. Accelerate makes the shards,
and PyTorch's memory tracker follows a training step.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import torch
import transformers as tf
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed._tools.fsdp2_mem_tracker import FSDPMemTracker
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule
from torch.distributed.fsdp._fully_shard import _fully_shard
from torch.testing._internal.distributed.fake_pg import FakeStore

from judge.judges import Recipe
from judge.judges.hf_models import Captioner, add_lora, checkpoint_layers, tune
from judge.judges.huggingface import AnswerJudge
from judge.training.launch import make_accelerator, shard
from judge.training.loop import make_optimiser

WORLD, BATCH, TOKENS = 2, 8, 640


def llava(share: int) -> Any:
    """Of LLaVA-1.5-7B's shape, with one of ``share`` of its layers."""
    seeing = {"hidden_size": 1024, "intermediate_size": 4096, "num_attention_heads": 16}
    writing = {"hidden_size": 4096, "intermediate_size": 11008, "num_attention_heads": 32}
    seeing["num_hidden_layers"], writing["num_hidden_layers"] = 24 // share, 32 // share
    config = tf.LlavaConfig(
        vision_config=tf.CLIPVisionConfig(**seeing, image_size=336, patch_size=14, projection_dim=768).to_dict(),
        text_config=tf.LlamaConfig(**writing, vocab_size=32064, max_position_embeddings=4096).to_dict(),
        image_token_index=32000,
    )
    return tf.LlavaForConditionalGeneration(config)


def make_judge(model: Any) -> AnswerJudge:
    """A judge with adapters, as AnswerJudge makes itself of a checkpoint, without what reads texts and images."""
    captioner = Captioner("", model, None, None, None)
    judge = AnswerJudge.__new__(AnswerJudge)
    nn.Module.__init__(judge)
    judge.captioner, judge.has_answered = captioner, False
    judge.answers, judge.prefixes, judge.arguments = ((3,), (4,)), ((),), captioner.arguments
    judge.frozen, judge.model, judge.bf16 = tune(captioner, "lora"), model, True
    add_lora(captioner)
    judge.store_frozen()
    checkpoint_layers(captioner)
    return judge


def units(judge: AnswerJudge) -> dict[str, int]:
    found = [type(part).__name__ for part in judge.modules() if isinstance(part, FSDPModule)]
    return {name: found.count(name) for name in sorted(set(found))}


def peak(judge: AnswerJudge) -> dict[str, float]:
    """GiB at the height of a training step, by what they are; in bf16, of a batch of texts."""
    optimiser = make_optimiser(judge, Recipe(1, 1e-4))
    ids = torch.zeros(BATCH, TOKENS, dtype=torch.int64)
    text = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    batch = {"shared": {}, "passes": [text], "ends": [torch.ones(BATCH, dtype=torch.int64)], "keep": [1]}
    # Where pictures go among fake words cannot be known: the tower looks at them, and the words stand for all tokens.
    pixels, see = torch.zeros(BATCH, 3, 336, 336), judge.model.get_encoder(modality="image")
    judge.register_forward_pre_hook(lambda *_: see(pixels) and None)
    tracker = FSDPMemTracker(judge, optimiser)
    with tracker:
        judge.train()(batch).sum().backward()
        optimiser.step()
    of_device = max(tracker.get_tracker_snapshot("peak").values(), key=lambda kinds: kinds["Total"])
    found = {str(getattr(kind, "value", kind)): size / 2**30 for kind, size in of_device.items()}
    # From the second step on they are there at its height too.
    moments = [of for slots in optimiser.state.values() for of in slots.values() if of.dim()]
    return found | {"moments": sum(of.to_local().nbytes for of in moments) / 2**30}


def measure(share: int) -> dict[str, Any]:
    """Weights, units and memory of a judge with one of ``share`` of the layers."""
    with torch.device("meta"):
        model = llava(share)
    model.tie_weights()
    weights = model.num_parameters()
    judge = make_judge(model)
    with FakeTensorMode(allow_non_fake_inputs=True):
        shard(make_accelerator(mixed_precision="bf16"), judge)
        for part in judge.modules():  # Fake tensors tell "cpu" from "cpu:0".
            part._buffers |= {name: torch.empty_like(of, device="cpu") for name, of in part._buffers.items()}
        return {"weights": weights, "units": units(judge), "peak": peak(judge)}


def main() -> None:
    os.environ |= {"RANK": "1", "LOCAL_RANK": "1", "WORLD_SIZE": str(WORLD), "LOCAL_WORLD_SIZE": str(WORLD)}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}
    os.environ |= {"ACCELERATE_USE_FSDP": "true", "FSDP_VERSION": "2"}
    torch.distributed.init_process_group("fake", store=FakeStore(), rank=1, world_size=WORLD)
    mesh = init_device_mesh("cpu", (WORLD,))
    # Of fake tensors none can be made.
    _fully_shard._init_default_mesh = lambda *_, **__: mesh  # type: ignore[attr-defined]
    found = {share: measure(share) for share in (8, 4)}
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
