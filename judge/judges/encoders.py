"""DBAC's and DPAC's attackers from scratch: an encoder of words and an MLP, trained on the captions that they judge.

Source: DBAC (section 5.3 and supplement: LSTM and RNN in one and two directions, a Transformer encoder
with 1 or 5 heads, each with a 3-layer MLP; the LSTM in one direction is its default) and DPAC (a 5-layer MLP). All
sizes and the training are **ours**, as neither paper publishes them: chosen for held-out accuracy on COCO captions
with gender words hidden, and small enough for one core. All begin with embeddings of one width, to be comparable.

No pre-computed word vectors; words that the training captions never use are ``<unk>``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import chain, pairwise

import torch
from torch import Tensor, nn

from judge.judges import HEADS, Batch, Blueprint, Materials, Recipe
from judge.judges.output import OutputLayer
from judge.judges.recurrent import Parts, build_vocabulary, number_words, pack
from judge.types import Sample, Target

# Layers of the MLP -> whose they are: DBAC's 3, DPAC's 5.
SOURCES = {3: "nair2026dbac, section 5.3", 5: "nair2025dpac"}
EMBEDDING = 100  # As LIC's; 5 heads divide it.
STATE = 128
HIDDEN = 128
DROPOUT = 0.3


class Recurrent(nn.Module):
    """One layer of an LSTM or a plain (tanh) RNN; a caption's vector is its final state, of each direction."""

    def __init__(self, kind: type[nn.LSTM | nn.RNN], *, bidirectional: bool) -> None:
        super().__init__()
        self.layer = kind(EMBEDDING, STATE, batch_first=True, bidirectional=bidirectional)
        self.width = STATE * (1 + bidirectional)

    def forward(self, embedded: Tensor, batch: Batch) -> Tensor:
        """[B, T, E], padded on the right, and the batch with its lengths -> [B, D]; padding never enters."""
        _, state = self.layer(pack(embedded, batch))
        final: Tensor = state[0] if isinstance(state, tuple) else state
        return torch.cat(list(final), dim=1)


class Transformer(nn.Module):
    """One Transformer encoder layer with sinusoidal positions; a caption's vector is the mean over its real tokens.

    Embeddings are not scaled by the root of their width, as they begin with a variance of 1: positions would drown.
    """

    def __init__(self, heads: int) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(EMBEDDING, heads, 2 * EMBEDDING, DROPOUT, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        self.width = EMBEDDING

    def forward(self, embedded: Tensor, batch: Batch) -> Tensor:
        """As :meth:`Recurrent.forward`; padding is masked, in attention and in the mean."""
        padding = torch.arange(embedded.shape[1], device=embedded.device) >= batch["lengths"][:, None]
        placed = embedded + positions(embedded.shape[1], device=embedded.device)
        states = self.layers(placed, src_key_padding_mask=padding).masked_fill(padding[..., None], 0.0)
        found: Tensor = states.sum(dim=1) / (~padding).sum(dim=1, keepdim=True)
        return found


def positions(steps: int, width: int = EMBEDDING, *, device: torch.device | None = None) -> Tensor:
    """[T, E]: sines in the even columns, cosines in the odd ones (Vaswani et al., 2017, section 3.5)."""
    rates = torch.exp(torch.arange(0, width, 2, device=device) * (-math.log(10_000.0) / width))
    angles = torch.arange(steps, device=device)[:, None] * rates
    return torch.stack([angles.sin(), angles.cos()], dim=2).flatten(1)


def make_mlp(inputs: int, classes: int, layers: int) -> nn.Sequential:
    """An MLP of ``layers`` linear layers, with ReLU and dropout between them: [B, D] -> [B, A]."""
    widths = [inputs, *[HIDDEN] * (layers - 1)]
    inner = [(nn.Linear(*pair), nn.ReLU(), nn.Dropout(DROPOUT)) for pair in pairwise(widths)]
    return nn.Sequential(*chain.from_iterable(inner), OutputLayer(widths[-1], classes))


class EncoderClassifier(nn.Module):
    """Embedding -> encoder -> MLP.

    ``forward`` takes what :func:`~judge.judges.recurrent.number_words` makes, and returns logits [B, A].
    """

    def __init__(
        self, vocabulary: Mapping[str, int], encoder: Recurrent | Transformer, classes: int, *, head: int
    ) -> None:
        super().__init__()
        self.vocabulary = vocabulary
        self.embedding = nn.Embedding(len(vocabulary), EMBEDDING, padding_idx=0)
        self.encoder = encoder
        self.dropout = nn.Dropout(DROPOUT)
        self.head = make_mlp(encoder.width, classes, head)

    def collate(self, samples: Sequence[Sample]) -> Batch:
        """Word ids, padded."""
        return number_words(samples, self.vocabulary)

    def forward(self, batch: Batch) -> Tensor:
        """Logits [B, A]."""
        embedded = self.dropout(self.embedding(batch["tokens"]))
        logits: Tensor = self.head(self.dropout(self.encoder(embedded, batch)))
        return logits

    def parts(self) -> Parts:
        """For :mod:`judge.training.stacked`, of recurrent encoders."""
        assert isinstance(self.encoder, Recurrent)
        return Parts(self.embedding, self.encoder.layer, self.dropout.p, list(self.head))


_ENCODERS: dict[str, Callable[[], Recurrent | Transformer]] = {
    "lstm": partial(Recurrent, nn.LSTM, bidirectional=False),
    "lstm-bidirectional": partial(Recurrent, nn.LSTM, bidirectional=True),
    "rnn": partial(Recurrent, nn.RNN, bidirectional=False),
    "rnn-bidirectional": partial(Recurrent, nn.RNN, bidirectional=True),
    "transformer-1": partial(Transformer, 1),
    "transformer-5": partial(Transformer, 5),
}


def _network(
    name: str, head: int, target: Target, samples: Sequence[Sample], materials: Materials
) -> EncoderClassifier:
    return EncoderClassifier(build_vocabulary(samples), _ENCODERS[name](), len(target.classes), head=head)


def _blueprint(encoder: str, head: int, *, full: bool) -> Blueprint:
    return Blueprint(
        f"{encoder}+mlp{head}" if full else encoder,
        f"{SOURCES[head]}; sizes and training are this project's",
        network=partial(_network, encoder, head),
        stacked=not encoder.startswith("transformer"),
        recipe=Recipe(epochs=8, learning_rate=1e-3, batch_size=64),
    )


# A metric's paper chooses the head; without one it is DBAC's. "lstm" alone is LIC's own (``recurrent.py``).
BLUEPRINTS = {
    made.name: made
    for encoder in _ENCODERS
    for made in (_blueprint(encoder, HEADS[0], full=False), *(_blueprint(encoder, head, full=True) for head in HEADS))
    if made.name != "lstm"
}
