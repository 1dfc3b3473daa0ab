"""Run by test_scripts.py under ``accelerate launch --num_processes 2``: one judge on both processes equals one alone.

Batches of 7 leave shares of 4 and 3 samples, and a last batch of 1. The judge is replicated, then sharded, killed and
resumed; so are captioners of each layout, whole or with adapters. Dropout, which differs between shares, is off.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from accelerate import Accelerator
from captioners import FAMILIES, PROMPT, SAMPLES, Pictures
from helpers import GENDER, save_captioner
from torch import nn
from training.test_loop import Forgetful, KilledError, Normed, Plain

from judge.errors import JudgeError
from judge.judges import Blueprint, Materials, Network, Recipe, Sharing
from judge.judges.hf_models import load_captioner
from judge.judges.names import find_judge
from judge.training.judge_file import save_network
from judge.training.launch import end_launch, gather, in_main_process, is_sharded, make_accelerator, share_out
from judge.training.loop import NetworkJudge, Trainer
from judge.types import Sample

TRAINED = [replace(SAMPLES[i % 5], image=str(i), answers=(i % 2,)) for i in range(7)]
ASKED = Materials(answering="restricted", images=Pictures(), prompt=PROMPT, tuning="zero-shot")  # type: ignore[arg-type]
# A layout each, and shared embeddings: of the other families the layouts are those of one of these, or of git.
LARGE = {"blip", "blip2_t5", "florence2", "llava", "qwen2_5_vl"}
RECIPE = Recipe(epochs=1, learning_rate=0.003, batch_size=4, micro_batch=1, keep="best", sharing="data")


def without_dropout(blueprint: Blueprint) -> Blueprint:
    """A judge without any; captioners have it in modules, and as numbers."""

    def network(*given: Any) -> Network:
        assert blueprint.network is not None
        made: Any = blueprint.network(*given)
        for part in made.modules():
            for name, value in vars(part).items():
                if name == "p" or ("drop" in name and isinstance(value, float)):
                    setattr(part, name, 0.0)
        return made

    return replace(blueprint, network=network)


def fit(folder: Path, sharing: Sharing, materials: Materials, **how: Any) -> NetworkJudge:
    accelerator = make_accelerator(mixed_precision=how.pop("precision", None))
    blueprint, trainer = without_dropout(find_judge(f"hf:{folder}")), Trainer(accelerator, sharing=sharing, **how)
    judge = NetworkJudge(blueprint, GENDER, RECIPE, trainer, materials)
    return judge.fit(TRAINED, seed=0, validation=SAMPLES)


def answers(judge: NetworkJudge) -> np.ndarray:
    return judge.predict(SAMPLES).probabilities


def alone(folder: Path, materials: Materials, **how: Any) -> np.ndarray:
    """Answers of a judge that is whole, trained by the main process."""
    return in_main_process(lambda: answers(fit(folder, "members", materials, **how)))


def check_replicated(root: Path) -> None:
    """Whole in every process: weights that no answer passes through wait for nothing, layers are passed again."""
    folder = in_main_process(partial(save_captioner, root / "idle", "llava"))
    for again in (False, True):
        materials = replace(ASKED, tuning="full", checkpointing=again)
        one, two = fit(folder, "members", materials), fit(folder, "data", materials)
        assert np.abs(answers(one) - answers(two)).max() < 2e-6
        weights = list(cast(nn.Module, two.network).parameters())
        assert any(weight.grad is None for weight in weights)
        assert all(weight.requires_grad for weight in weights)
        # What a file holds makes the judge again, the idle weights with it.
        path, before = root / f"idle-{make_accelerator().process_index}.safetensors", answers(two)
        save_network(two, path)
        assert np.array_equal(answers(two.restore(SAMPLES, path, seed=0)), before)


def check_halving(samples: Sequence[Sample]) -> None:
    """Where one process lacks memory in a prediction, both end with the same weights and answers."""
    recipe = Recipe(epochs=3, learning_rate=0.05, batch_size=8, micro_batch=2, keep="best", clip=0.5)
    blueprint = Blueprint("bag", "this test", network=Forgetful, recipe=recipe)
    accelerator = make_accelerator()
    Forgetful.most = 1 if accelerator.process_index else 1000
    judge = NetworkJudge(blueprint, GENDER, recipe, Trainer(accelerator, sharing="data"))
    judge.fit(samples, seed=0, validation=samples[:9])
    found = judge.predict(samples).probabilities
    assert [np.array_equal(found, other) for other in gather(found)] == [True, True]
    weights = {name: weight.tolist() for name, weight in judge.module.state_dict().items()}
    assert gather(weights) == [weights, weights]


def check_families(root: Path) -> None:
    """Sharded and whole learn the same, to 2e-6 in probability, and do learn.

    Adapters stand beside weights in bf16, which are passed again in the backward pass.
    """
    large = replace(ASKED, tuning="lora", dtype="bf16", checkpointing=True)
    chosen = LARGE | {"git"}
    folders = {name: in_main_process(partial(save_captioner, root / name, name)) for name in sorted(FAMILIES)}
    layouts = in_main_process(lambda: {name: load_captioner(str(folder)).layout for name, folder in folders.items()})
    assert {layouts[name] for name in chosen} == {*layouts.values()}
    for family in sorted(chosen):
        folder = folders[family]
        before = alone(folder, ASKED)
        for materials in (replace(ASKED, tuning="full"), *([large] if family in LARGE else [])):
            expected, judge = alone(folder, materials), fit(folder, "data", materials)
            assert is_sharded(cast(nn.Module, judge.network))
            found = answers(judge)
            assert np.abs(found - before).max() > 0.01, (family, materials.tuning)
            # A rounding to bf16 that goes the other way shows.
            bound = 2e-6 if materials.dtype == "float32" else 0.02
            assert np.abs(found - expected).max() < bound, (family, materials.tuning)
    _check_precision(folder)


def _check_precision(folder: Path) -> None:
    """In bf16 log-probabilities are float32: about as near to float32's as those of a judge that is whole."""
    materials = replace(ASKED, tuning="full")
    exact, whole = alone(folder, materials), alone(folder, materials, precision="bf16")
    sharded = answers(fit(folder, "data", materials, precision="bf16"))
    assert np.abs(sharded - exact).max() < 2 * np.abs(whole - exact).max()


def kill(done: int, history: object) -> None:
    if done == 3:
        raise KilledError


def meet() -> None:
    """What is shared out comes back whole; an error of the second process ends the work of both."""
    assert share_out(range(5), lambda share: [item**2 for item in share]) == [0, 1, 4, 9, 16]
    done: list[int] = []

    def work(share: Sequence[int]) -> Iterator[int]:
        for item in share:
            if item == 2502:
                raise JudgeError("no room")
            time.sleep(0.01)
            yield item
            done.append(item)

    with pytest.raises(JudgeError, match="no room"):
        share_out(range(5000), work)
    assert len(done) < 1000
    assert in_main_process(lambda: len(done)) == gather(len(done))[0]


def main() -> None:
    rng = np.random.default_rng(0)
    samples = [
        Sample(str(i), "human", 0, (f"w{rng.integers(5)}", f"w{rng.integers(5)}"), (int(rng.integers(2)),), 1.0 + i % 3)
        for i in range(29)
    ]
    recipe = Recipe(epochs=6, learning_rate=0.05, batch_size=7, keep="best")
    blueprint = Blueprint("bag", "this test", network=Plain, recipe=recipe)
    accelerator = make_accelerator()
    assert accelerator.num_processes == 2

    def probabilities(sharing: Sharing, **rest: Any) -> np.ndarray:
        trainer = Trainer(make_accelerator(), sharing=sharing, **rest)
        judge = NetworkJudge(blueprint, GENDER, recipe, trainer).fit(samples, seed=0, validation=samples[:9])
        assert is_sharded(cast(nn.Module, judge.network)) == (sharing == "data" and shards)
        return judge.predict(samples).probabilities

    shards = False
    alone, together = probabilities("members"), probabilities("data")
    assert np.abs(alone - together).max() < 1e-5, np.abs(alone - together).max()
    normed = Blueprint("normed", "this test", network=Normed, recipe=recipe)
    with pytest.raises(JudgeError, match="batch normalisation is of one process's samples"):
        NetworkJudge(normed, GENDER, recipe, Trainer(accelerator, sharing="data")).fit(
            samples, seed=0, validation=samples
        )
    check_replicated(Path(sys.argv[1]))
    check_halving(samples)
    # As scripts/configs/fsdp.yaml asks for it.
    os.environ |= {"ACCELERATE_USE_FSDP": "true", "FSDP_VERSION": "2"}
    shards = True
    # A shard's gradient is summed at every pass: nobody holds a whole one.
    unsynchronised = Accelerator.no_sync

    def no_sync(self: Accelerator, model: nn.Module) -> Any:
        assert not is_sharded(model)
        return unsynchronised(self, model)

    Accelerator.no_sync = no_sync  # type: ignore[method-assign]
    assert np.abs(alone - probabilities("data")).max() < 1e-5
    kept = {"checkpoint": Path(sys.argv[1]) / "training.safetensors", "seconds": 0}
    with contextlib.suppress(KilledError):
        probabilities("data", on_epoch=kill, **kept)
    accelerator.wait_for_everyone()  # The file is written.
    epochs: list[int] = []
    resumed = probabilities("data", on_epoch=lambda done, loss: epochs.append(done), **kept)
    assert epochs == [4, 5, 6], epochs
    assert np.abs(alone - resumed).max() < 1e-5
    # On disks of their own: the main process's file is not the other's.
    apart = kept | {"checkpoint": Path(sys.argv[1]) / str(accelerator.process_index) / "training.safetensors"}
    with contextlib.suppress(KilledError):
        probabilities("data", on_epoch=kill, **apart)
    assert np.abs(alone - probabilities("data", on_epoch=lambda done, loss: epochs.append(done), **apart)).max() < 1e-5
    assert epochs[3:] == [1, 2, 3, 4, 5, 6], epochs
    check_families(Path(sys.argv[1]))
    meet()
    if accelerator.is_main_process:
        print("equal")  # noqa: T201 - test_scripts.py reads it
    # Threads of a process group that is left to the interpreter's end may abort it.
    accelerator.wait_for_everyone()
    end_launch()


if __name__ == "__main__":
    main()
