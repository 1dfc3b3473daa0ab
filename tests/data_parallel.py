"""Run by test_scripts.py under ``accelerate launch --num_processes 2``: one judge on both processes.

Compares with the same judge trained by each process alone. Batches of 7 leave shares of 4 and 3 samples, the last
batch holds a single one: the gradient must still be that of the whole batch. Then once more with the judge's weights
in shards, killed and resumed; captioners of every layout; and how processes share work and end it together.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from helpers import GENDER
from sharded import check_families, check_replicated
from torch import nn
from training.test_loop import KilledError, Normed, Plain

from judge.errors import JudgeError
from judge.judges import Blueprint, Recipe, Sharing
from judge.training.launch import end_launch, gather, in_main_process, is_sharded, make_accelerator, share_out
from judge.training.loop import NetworkJudge, Trainer
from judge.types import Sample


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
