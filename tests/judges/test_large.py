"""Options for captioners with billions of weights, on tiny ones: bf16, recomputed layers, attention, shared weights."""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from captioners import FAMILIES, PROMPT, SAMPLES, TOLD, Checkpoints, Pictures, ask
from helpers import fault_of, judge_of, network_of
from torch import nn
from transformers.modeling_layers import GradientCheckpointingLayer

from judge.judges import Materials, Recipe, Tuning, hf_models, huggingface
from judge.training.loop import NetworkJudge, make_optimiser

SEEN = Materials(images=Pictures(), prompt=PROMPT)  # type: ignore[arg-type]
RECIPE = Recipe(epochs=1, learning_rate=2e-3, batch_size=8, micro_batch=4)


def fit(folder: Path, materials: Materials, *, seed: int = 0) -> tuple[NetworkJudge, np.ndarray]:
    judge = judge_of(f"hf:{folder}", materials, **asdict(RECIPE)).fit(TOLD, seed=seed)
    return judge, judge.predict(SAMPLES).probabilities


def types(network: nn.Module, *, trained: bool) -> set[torch.dtype]:
    """Of matrices; biases and the weights of norms are always float32."""
    assert {weight.dtype for weight in network.parameters() if weight.dim() < 2} == {torch.float32}
    return {weight.dtype for weight in network.parameters() if weight.requires_grad == trained and weight.dim() > 1}


@pytest.mark.parametrize("family", FAMILIES)
def test_untrained_weights_in_bf16(family: str, checkpoint: Checkpoints) -> None:
    """Trained weights and answers are float32; answers are near float32's; a step changes trained weights only."""
    folder = f"hf:{checkpoint(family)}"
    # Adapters begin at 0: whatever is trained, answers are at first those of the checkpoint.
    expected = ask(network_of(folder, SAMPLES, replace(SEEN, tuning="zero-shot")))
    for tuning in ("frozen", "lora", "zero-shot"):
        halved = network_of(folder, SAMPLES, replace(SEEN, tuning=tuning, dtype="bf16"))
        assert types(halved, trained=False) == {torch.bfloat16}
        assert types(halved, trained=True) == (set() if tuning == "zero-shot" else {torch.float32})
        answers = ask(halved)
        assert answers.dtype == torch.float32
        assert answers.exp().numpy() == pytest.approx(expected.exp().numpy(), abs=0.05)
        assert not torch.equal(answers, expected)
        if tuning == "zero-shot":
            continue
        kept = [weight.clone() for weight in halved.parameters()]
        logits = halved.train()(halved.collate(TOLD[:2]))
        logits[:, 0].sum().backward()
        make_optimiser(halved, RECIPE).step()
        pairs = [*zip(halved.parameters(), kept, strict=True)]
        assert all(torch.equal(weight, before) or weight.requires_grad for weight, before in pairs)
        assert any(not torch.equal(weight, before) for weight, before in pairs)


RECOMPUTING = sorted(FAMILIES.keys() - {"pix2struct"})  # Which cannot recompute its layers.


@pytest.mark.parametrize(
    ("family", "tuning"),
    [*((family, "full") for family in RECOMPUTING), *((family, "lora") for family in ("blip2_t5", "florence2", "git"))]
    + [(family, "lora") for family in ("llava", "mllama", "qwen2_vl", "vit_gpt2")],
)
def test_recomputed_layers_give_the_same_numbers(
    family: str,
    tuning: Tuning,
    checkpoint: Checkpoints,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With dropout, which is off in frozen parts. Each layer runs twice."""
    monkeypatch.setattr(logging.getLogger("transformers"), "propagate", True)
    found, passes = [], []
    for again in (False, True):
        network = network_of(f"hf:{checkpoint(family)}", SAMPLES, replace(SEEN, tuning=tuning, checkpointing=again))
        ran: Counter[str] = Counter()
        for name, part in network.named_modules():
            if isinstance(part, GradientCheckpointingLayer):
                inner = next(of for of in part.modules() if "Norm" in type(of).__name__)
                inner.register_forward_hook(lambda *_, ran=ran, name=name: ran.update([name]))
        torch.manual_seed(1)
        logits = network.train()(network.collate(SAMPLES[:3]))
        logits[:, 0].sum().backward()
        gradients = [weight.grad for weight in network.parameters() if weight.grad is not None]
        found.append([logits.detach(), *gradients])
        passes.append(ran)
    assert len(found[0]) == len(found[1]) > 1
    for one, other in zip(*found, strict=True):
        assert one.numpy() == pytest.approx(other.numpy(), rel=1e-4, abs=1e-5)
    trained = {name for name in passes[1] if passes[1][name] == 2 * passes[0][name]}
    assert len(trained) >= 2  # A frozen vision tower needs no backward pass.
    assert not any(part.training for part in network.eval().modules())
    assert not caplog.messages


def test_attention_is_transformers_own(checkpoint: Checkpoints) -> None:
    folder = checkpoint("git")
    eager = network_of(f"hf:{folder}", SAMPLES, replace(SEEN, attention="eager"))
    assert eager.captioner.model.config._attn_implementation == "eager"
    for name, reason in (("no_such", "no_such"), ("flash_attention_2", "flash")):
        line = fault_of(network_of, f"hf:{folder}", SAMPLES, replace(SEEN, attention=name))
        assert line.startswith(f"--training attn_implementation: '{name}' cannot be used (")
        assert reason in line.split("(")[1].lower()


@pytest.mark.parametrize("tuning", ["full", "frozen", "lora", "zero-shot"])
def test_a_checkpoint_is_loaded_once_for_all_members(
    tuning: Tuning, checkpoint: Checkpoints, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each judge starts from the checkpoint with its own random adapters, as if it had loaded it."""
    loads, load = [], hf_models.load_captioner
    monkeypatch.setattr(hf_models, "load_captioner", lambda *given, **how: loads.append(1) or load(*given, **how))
    materials = replace(SEEN, tuning=tuning)
    apart = []
    for seed in (0, 1):
        huggingface._load.cache_clear()
        apart.append(fit(checkpoint("blip"), materials, seed=seed)[1])
    huggingface._load.cache_clear()
    loads.clear()
    one, *again = [fit(checkpoint("blip"), materials, seed=seed) for seed in (0, 1, 0)]
    assert len(loads) == 1
    for (_, found), expected in zip((one, *again), (*apart, apart[0]), strict=True):
        assert np.array_equal(found, expected)
    if tuning == "zero-shot":
        assert one[0].network.model is again[0][0].network.model  # type: ignore[attr-defined]
