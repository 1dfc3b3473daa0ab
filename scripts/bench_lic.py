"""LIC with LSTM judges: this package against a plain sequential PyTorch run of the same recipe.

    python scripts/bench_lic.py --plain   --human H.json --captions A.json B.json --labels gender.csv --out p.json
    python scripts/bench_lic.py --package --human H.json --captions A.json B.json --labels gender.csv --out q.json
    python scripts/bench_lic.py --compare plain.json package.json

``--plain`` is the yardstick, for numbers and for speed: ``nn.LSTM``, packed sequences, one classifier
after the other, nothing shared with the package but the captions as masked and aligned words and the
images of each split. ``--package`` runs ``judge evaluate``'s own path on the same seeds. Both use one thread
a classifier; the package trains as many at a time as there are cores. Expected on two cores without AMX:
LIC_M and LIC_D within 0.02 of each other, and about twice the speed (BENCHMARKS.md).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from judge.corpus import Corpus
from judge.corpus.splits import balanced_holdout
from judge.evidence import TextOptions, build_evidence
from judge.lexicon import load_lexicon
from judge.metrics import find_metric
from judge.types import Sample

EPOCHS, BATCH, RATE = 20, 64, 5e-5


def train_plain(train: Sequence[Sample], test: Sequence[Sample], *, seed: int, epochs: int = EPOCHS) -> np.ndarray:
    """One classifier as in LIC's supplement, A.1. Returns p(class) of ``test``, [N, A]."""
    import torch
    from torch import nn
    from torch.nn.utils.rnn import pack_padded_sequence, pad_sequence

    class Classifier(nn.Module):
        def __init__(self, words: int) -> None:
            super().__init__()
            self.embedding = nn.Embedding(words, 100, padding_idx=0)
            self.lstm = nn.LSTM(100, 256, num_layers=2, bidirectional=True, dropout=0.5, batch_first=True)
            self.dropout = nn.Dropout(0.5)
            self.output = nn.Linear(512, 2)

        def forward(self, tokens: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
            embedded = self.dropout(self.embedding(tokens))
            packed = pack_padded_sequence(embedded, lengths, batch_first=True, enforce_sorted=False)
            _, (state, _) = self.lstm(packed)
            return self.output(self.dropout(torch.cat([state[-2], state[-1]], dim=1)))

    torch.manual_seed(seed)
    vocabulary = {word: i + 2 for i, word in enumerate(sorted({word for s in train for word in s.words}))}
    model = Classifier(len(vocabulary) + 2)
    optimiser = torch.optim.Adam(model.parameters(), lr=RATE)

    def batch(samples: Sequence[Sample]) -> tuple[torch.Tensor, torch.Tensor]:
        ids = [torch.tensor([vocabulary.get(word, 1) for word in s.words] or [1]) for s in samples]
        return pad_sequence(ids, batch_first=True), torch.tensor([len(i) for i in ids])

    for _ in range(epochs):
        order = torch.randperm(len(train)).tolist()
        for start in range(0, len(order), BATCH):
            chosen = [train[i] for i in order[start : start + BATCH]]
            answers = torch.tensor([s.answers[0] for s in chosen])
            optimiser.zero_grad()
            nn.functional.cross_entropy(model(*batch(chosen)), answers).backward()
            optimiser.step()
    model.eval()
    with torch.no_grad():
        return model(*batch(test)).softmax(dim=1).numpy()


def run_plain(corpus: Corpus, *, seeds: int, epochs: int) -> dict[str, dict[str, float]]:
    """LIC_M and LIC_D of every captioner, averaged over seeds, one classifier after the other."""
    import torch

    torch.set_num_threads(1)
    lexicon, metric = load_lexicon("gender"), find_metric("lic")
    assert corpus.labels is not None
    results: dict[str, dict[str, float]] = {}
    for captioner in corpus.generated:
        evidence = build_evidence(
            corpus, captioner, metric=metric, labels=corpus.labels, lexicon=lexicon, options=TextOptions()
        )
        scores: dict[str, list[float]] = {"human": [], "generated": []}
        for seed in range(seeds):
            split = balanced_holdout(evidence.classes, seed=seed)
            kept, held = set(split.train), set(split.test)
            for (side, index), samples in evidence.samples.items():
                train = [s for s in samples if s.image_id in kept]
                test = [s for s in samples if s.image_id in held]
                p = train_plain(train, test, seed=seed * 100 + index, epochs=epochs)
                truth = np.array([s.answers[0] for s in test])
                scores[side].append(float(np.mean(p[np.arange(len(p)), truth] * (p.argmax(1) == truth))))
                print(f"{captioner.name} seed {seed} {side} {index}: {scores[side][-1]:.4f}", flush=True)
        means = {side: float(np.mean(values)) for side, values in scores.items()}
        results[captioner.name] = means | {"amplification": means["generated"] - means["human"]}
    return results
