"""The trainer and the fast LSTM against a loop that anybody would write: nn.LSTM, torch's Adam, batch by batch."""

from __future__ import annotations

import copy

import numpy as np
import torch
from helpers import GENDER, make_samples
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence

from judge.judges import Recipe
from judge.judges.recurrent import RecurrentClassifier, build_vocabulary
from judge.training.member import derive_seed
from judge.training.processes import make_accelerator
from judge.training.trainer import Trainer


def test_same_weights_as_a_plain_loop() -> None:
    """Same initial weights, order and batches, no dropout: after two epochs the same weights, up to rounding."""
    samples = make_samples(100, clue=0.6)
    recipe = Recipe(epochs=2, learning_rate=1e-3, batch_size=16)
    torch.manual_seed(0)
    network = RecurrentClassifier(build_vocabulary(samples), 2, embedding=7, hidden=9, dropout=0.0)
    plain = copy.deepcopy(network)
    Trainer(make_accelerator()).fit(network, samples, target=GENDER, recipe=recipe, seed=5)

    optimiser = torch.optim.Adam(plain.parameters(), lr=1e-3)
    for epoch in range(2):
        order = np.random.default_rng(derive_seed(5, epoch)).permutation(len(samples))
        for start in range(0, len(samples), 16):
            chosen = [samples[i] for i in order[start : start + 16]]
            batch = plain.collate(chosen)
            packed = pack_padded_sequence(
                plain.embedding(batch["tokens"]), batch["lengths"], batch_first=True, enforce_sorted=False
            )
            _, (state, _) = plain.encoder(packed)
            logits = plain.output(torch.cat([state[-2], state[-1]], dim=1))
            optimiser.zero_grad()
            nn.functional.cross_entropy(logits, torch.tensor([s.answers[0] for s in chosen])).backward()
            optimiser.step()
    moved = max((a - b).abs().max().item() for a, b in zip(network.parameters(), plain.parameters(), strict=True))
    # Two epochs of Adam at 1e-3 move weights by up to 0.014.
    assert moved < 2e-5


def test_lstm_is_the_papers() -> None:
    """CVPR 2022, A.1: two bidirectional layers, 100 and 256; the count of weights follows."""
    samples = make_samples(10)
    network = RecurrentClassifier(build_vocabulary(samples), 2)
    words = len(build_vocabulary(samples))
    first, second = (4 * 256 * (inputs + 256 + 2) * 2 for inputs in (100, 512))
    assert sum(p.numel() for p in network.parameters()) == words * 100 + first + second + 512 * 2 + 2
