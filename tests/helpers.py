"""Small evidence that several tests share."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from typer.testing import CliRunner, Result

from judge.cli import app
from judge.types import Sample, Target

GENDER = Target("attribute", ("female", "male"))
THREE = Target("attribute", ("a", "b", "c"))


def make_samples(images: int, *, target: Target = GENDER, clue: float = 1.0, seed: int = 0) -> list[Sample]:
    """Captions of noise in which, with probability ``clue``, one word gives the class away."""
    rng = np.random.default_rng(seed)
    samples = []
    for image in range(images):
        answer = int(rng.integers(len(target.classes)))
        told = answer if rng.random() < clue else int(rng.integers(len(target.classes)))
        noise = [f"noise{n}" for n in rng.integers(8, size=int(rng.integers(1, 6)))]
        words = [*noise, f"clue{told}"]
        rng.shuffle(words)
        samples.append(Sample(str(image), "human", 0, tuple(words), (answer,), image=f"{image}.png"))
    return samples


def accuracy(probabilities: np.ndarray, samples: Sequence[Sample]) -> float:
    """Share answered right."""
    return float(np.mean(probabilities.argmax(axis=1) == [sample.answers[0] for sample in samples]))


def judge(*arguments: object) -> Result:
    """The ``judge`` command, run in this process."""
    return CliRunner().invoke(app, [str(argument) for argument in arguments])
