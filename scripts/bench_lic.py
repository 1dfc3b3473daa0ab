"""LIC with LSTM judges: this package compared with a plain sequential PyTorch run of the same recipe.

    python scripts/bench_lic.py agreement --human H.json --captions A.json --captions B.json --labels L.csv
    python scripts/bench_lic.py step

The plain run is the yardstick, for numbers and for speed: ``nn.LSTM``, packed sequences, one classifier after the other
on one thread; it shares nothing with the package but the masked and aligned words and the images of each split.
``agreement`` prints LIC_M and LIC_D of both. ``step`` times an epoch of plain, package and package in bf16 in turns, on
one core. Figures: BENCHMARKS.md.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
import typer
from timing import in_turns, machine, ratios
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_sequence

from judge import evaluate
from judge.corpus import Corpus
from judge.corpus.splits import holdout_split
from judge.evidence import EvidenceBuilder
from judge.judges.names import find_judge
from judge.metrics import find_metric
from judge.text.lexicon import Lexicons, load_lexicon
from judge.training.launch import make_accelerator
from judge.training.loop import NetworkJudge, Trainer
from judge.types import FloatArray, Sample, Target

BATCH, RATE = 64, 5e-5
app = typer.Typer(add_completion=False, help=__doc__)


class Classifier(nn.Module):
    """LIC's LSTM as one would first write it."""

    def __init__(self, words: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, 100, padding_idx=0)
        self.lstm = nn.LSTM(100, 256, num_layers=2, bidirectional=True, dropout=0.5, batch_first=True)
        self.dropout = nn.Dropout(0.5)
        self.output = nn.Linear(512, 2)

    def forward(self, tokens: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """Logits [B, 2]."""
        embedded = self.dropout(self.embedding(tokens))
        packed = pack_padded_sequence(embedded, lengths, batch_first=True, enforce_sorted=False)
        _, (state, _) = self.lstm(packed)
        logits: torch.Tensor = self.output(self.dropout(torch.cat([state[-2], state[-1]], dim=1)))
        return logits


def train_plain(
    train: Sequence[Sample], test: Sequence[Sample], *, seed: int, epochs: int, device: str = "cpu"
) -> FloatArray:
    """One classifier as in LIC's supplement, A.1. Returns p(class) of ``test``, [N, A]."""
    torch.manual_seed(seed)
    vocabulary = {word: i + 2 for i, word in enumerate(sorted({word for s in train for word in s.words}))}
    model = Classifier(len(vocabulary) + 2)
    model.to(device)
    optimiser = torch.optim.Adam(model.parameters(), lr=RATE)

    def batch(samples: Sequence[Sample]) -> tuple[torch.Tensor, torch.Tensor]:
        ids = [torch.tensor([vocabulary.get(word, 1) for word in s.words] or [1]) for s in samples]
        # Lengths are packed by on the host.
        return pad_sequence(ids, batch_first=True).to(device), torch.tensor([len(i) for i in ids])

    for _ in range(epochs):
        order = torch.randperm(len(train)).tolist()
        for start in range(0, len(order), BATCH):
            chosen = [train[i] for i in order[start : start + BATCH]]
            answers = torch.tensor([s.answers[0] for s in chosen]).to(device)
            optimiser.zero_grad()
            loss = nn.functional.cross_entropy(model(*batch(chosen)), answers)
            loss.backward()  # type: ignore[no-untyped-call]  # torch has no types for it
            optimiser.step()
    model.eval()
    with torch.no_grad():
        return np.asarray(model(*batch(test)).softmax(dim=1).double().cpu().numpy())


def plain_scores(corpus: Corpus, *, seeds: int, epochs: int) -> dict[tuple[str, str], float]:
    """(captioner, side) -> LIC's score, averaged over seeds, one classifier after the other."""
    found: dict[tuple[str, str], list[float]] = {}
    builder = EvidenceBuilder(corpus, Lexicons(load_lexicon("gender")))
    for captioner in corpus.generated:
        evidence = builder.build(captioner, find_metric("lic"))
        for seed in range(seeds):
            split = holdout_split(evidence.classes, seed=seed)
            for (side, index), samples in evidence.slots.items():
                train, test = ([s for s in samples if s.image_id in {*part}] for part in (split.train, split.test))
                p = train_plain(train, test, seed=seed * 100 + index, epochs=epochs)
                truth = np.array([s.answers[0] for s in test])
                score = float(np.mean(p[np.arange(len(p)), truth] * (p.argmax(1) == truth)))
                found.setdefault((captioner.name, side), []).append(score)
    return {key: float(np.mean(values)) for key, values in found.items()}


@app.command()
def agreement(
    human: Annotated[Path, typer.Option()],
    captions: Annotated[list[Path], typer.Option()],
    labels: Annotated[Path, typer.Option()],
    seeds: int = 3,
    epochs: int = 20,
) -> None:
    """LIC_M and LIC_D by the plain run and by the package, which takes all cores."""
    torch.set_num_threads(1)
    corpus = Corpus.read(human=human, captions=captions, labels=labels)
    plain = plain_scores(corpus, seeds=seeds, epochs=epochs)
    package = evaluate(corpus, metrics="lic", judge="lstm", protocol="paper", seeds=seeds, epochs=epochs)
    for row in package.table().to_dict("records"):
        for side in ("generated", "human"):
            a, b = plain[str(row["captioner"]), side], float(row[side])
            print(f"{row['captioner']} {side}: plain {a:.4f}, package {b:.4f}, difference {b - a:+.4f}")


def draw_captions(count: int, *, seed: int = 0) -> list[Sample]:
    """Random words, captions of COCO's lengths."""
    rng = np.random.default_rng(seed)
    return [
        Sample(str(i), "human", 0, tuple(f"w{w}" for w in rng.integers(3000, size=rng.integers(8, 15))), (i % 2,))
        for i in range(count)
    ]


def make_judge(epochs: int, precision: str = "no") -> NetworkJudge:
    """LIC's LSTM of the package, with the plain run's recipe."""
    blueprint = find_judge("lstm")
    assert blueprint.recipe
    recipe = type(blueprint.recipe)(epochs=epochs, learning_rate=RATE, batch_size=BATCH)
    trainer = Trainer(make_accelerator(mixed_precision=precision))
    return NetworkJudge(blueprint, Target("attribute", ("a", "b")), recipe, trainer)


@app.command()
def step(rounds: int = 5) -> None:
    """32 optimiser steps on 64 captions each, in turns, by CPU time."""
    torch.set_num_threads(1)
    print(machine())
    samples = draw_captions(BATCH * 32)
    ways: dict[str, Callable[[], object]] = {
        "plain": lambda: train_plain(samples, samples[:1], seed=0, epochs=1),
        "float32": lambda: make_judge(1).fit(samples, seed=0),
        "bf16": lambda: make_judge(1, "bf16").fit(samples, seed=0),
    }
    found = in_turns(ways, rounds, time.process_time)
    for name in ("float32", "bf16"):
        print(f"plain / package, {name}: {ratios(found['plain'], found[name])}")


if __name__ == "__main__":
    app()
