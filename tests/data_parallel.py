"""Run by test_scripts.py under ``accelerate launch --num_processes 2``: one judge on both processes.

Compares with the same judge trained by each process alone. Batches of 7 leave shares of 4 and 3 samples, the last
batch holds a single one: the gradient must still be that of the whole batch.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from judge.judges import Batch, Blueprint, Recipe
from judge.training.trainer import NetworkJudge, Trainer, make_accelerator
from judge.types import Sample, Target

TARGET = Target("attribute", ("female", "male"))


class Bag(nn.Module):
    """Counts of words, two linear layers; no dropout, so that only gradients decide."""

    def __init__(self, target: Target, samples: Sequence[Sample]) -> None:
        super().__init__()
        self.words = sorted({word for sample in samples for word in sample.words})
        self.layers = nn.Sequential(nn.Linear(len(self.words), 8), nn.Tanh(), nn.Linear(8, len(target.classes)))

    def collate(self, samples: Sequence[Sample]) -> Batch:
        return {"counts": torch.tensor([[float(s.words.count(word)) for word in self.words] for s in samples])}

    def forward(self, batch: Batch) -> Tensor:
        logits: Tensor = self.layers(batch["counts"])
        return logits


def main() -> None:
    rng = np.random.default_rng(0)
    samples = [
        Sample(str(i), "human", 0, (f"w{rng.integers(5)}", f"w{rng.integers(5)}"), (int(rng.integers(2)),), 1.0 + i % 3)
        for i in range(29)
    ]
    recipe = Recipe(epochs=6, learning_rate=0.05, batch_size=7, keep="best")
    blueprint = Blueprint("bag", "this test", network=Bag, recipe=recipe)
    accelerator = make_accelerator()
    assert accelerator.num_processes == 2

    def probabilities(sharing: str) -> np.ndarray:
        trainer = Trainer(accelerator, sharing=sharing)
        judge = NetworkJudge(blueprint, TARGET, recipe, trainer).fit(samples, seed=0, validation=samples[:9])
        return judge.predict(samples).probabilities

    alone, together = probabilities("members"), probabilities("data")
    assert np.abs(alone - together).max() < 1e-5, np.abs(alone - together).max()
    if accelerator.is_main_process:
        print("equal")  # noqa: T201 - test_scripts.py reads it


if __name__ == "__main__":
    main()
