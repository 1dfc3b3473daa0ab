"""Run by test_scripts.py under ``accelerate launch --num_processes 2``: one judge on both processes.

Compares with the same judge trained by each process alone. Batches of 7 leave shares of 4 and 3 samples, the last
batch holds a single one: the gradient must still be that of the whole batch. Then once more with the judge's weights
in shards, killed and resumed; and captioners of every family.
"""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path
from typing import Any, cast

import numpy as np
from helpers import GENDER
from sharded import check_families, check_replicated
from torch import nn
from training.test_trainer import KilledError, Normed, Plain

from judge.errors import JudgeError
from judge.judges import Blueprint, Recipe, Sharing
from judge.training.processes import make_accelerator
from judge.training.sharding import is_sharded
from judge.training.trainer import NetworkJudge, Trainer
from judge.types import Sample


def kill(done: int, loss: float) -> None:
    if done == 3:
        raise KilledError


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
    network = Normed(GENDER, samples)
    with contextlib.suppress(JudgeError):
        Trainer(accelerator, sharing="data").fit(
            network, samples, target=GENDER, recipe=recipe, seed=0, validation=samples
        )
        raise AssertionError("normalised share by share")
    check_replicated(Path(sys.argv[1]))
    # As scripts/configs/fsdp.yaml asks for it.
    os.environ |= {"ACCELERATE_USE_FSDP": "true", "FSDP_VERSION": "2"}
    shards = True
    assert np.abs(alone - probabilities("data")).max() < 1e-5
    kept = {"checkpoint": Path(sys.argv[1]) / "training.safetensors", "seconds": 0}
    with contextlib.suppress(KilledError):
        probabilities("data", on_epoch=kill, **kept)
    accelerator.wait_for_everyone()  # The file is written.
    epochs: list[int] = []
    resumed = probabilities("data", on_epoch=lambda done, loss: epochs.append(done), **kept)
    assert epochs == [4, 5, 6], epochs
    assert np.abs(alone - resumed).max() < 1e-5
    check_families(Path(sys.argv[1]))
    if accelerator.is_main_process:
        print("equal")  # noqa: T201 - test_scripts.py reads it
    # Threads of a process group that is left to the interpreter's end may abort it.
    accelerator.wait_for_everyone()
    accelerator.end_training()


if __name__ == "__main__":
    main()
