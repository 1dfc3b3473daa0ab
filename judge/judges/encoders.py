"""Text classifiers trained from scratch: an encoder of words and a head, LIC's LSTM among them.

Sources: LIC's LSTM (Hirota et al., CVPR 2022, section 5 and supplement A.1; sizes, dropout and batch as in the released
code): two bidirectional layers, embedding 100, hidden 256, one linear layer on the final states of the last layer,
dropout 0.5 on embeddings, between the layers and before the output.

DBAC's attackers (section 5.3 and supplement: LSTM and RNN in one and two directions, a Transformer encoder with 1 or 5
heads, each with a 3-layer MLP; the LSTM in one direction is its default) and DPAC's (a 5-layer MLP). Neither paper
publishes sizes or training. **Ours** were chosen for held-out accuracy on COCO captions with gender words hidden, and
are small enough for one core. All embeddings have the same width, so that the encoders are comparable.

No pre-computed word vectors, as they carry bias of their own; words that the training captions never use are ``<unk>``.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from itertools import chain, pairwise

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence

from judge.judges import Batch, Blueprint, Materials, Recipe
from judge.judges.names import HEADS
from judge.text.alignment import UNKNOWN
from judge.types import Sample, Target, Words

# Number of layers of the MLP -> the paper that has it.
SOURCES = {3: "nair2026dbac, section 5.3", 5: "nair2025dpac"}
EMBEDDING, STATE, HIDDEN, DROPOUT = 100, 128, 128, 0.3  # Embeddings are as wide as LIC's, and divisible by 5 heads.


class OutputLayer(nn.Linear):
    """A linear layer that computes in float32, whatever the precision of the layers before it.

    A logit in bf16 has 8 significant bits: different captions would have the same probability.
    """

    def forward(self, x: Tensor) -> Tensor:
        """[..., D] -> [..., A] float32."""
        bias, kind = None if self.bias is None else self.bias.float(), x.device.type
        with torch.autocast(kind, enabled=False) if torch.amp.is_autocast_available(kind) else nullcontext():
            return nn.functional.linear(x.float(), self.weight.float(), bias)


def build_vocabulary(samples: Sequence[Sample]) -> dict[str, int]:
    """Padding, ``<unk>``, then the words of ``samples`` in alphabetical order."""
    words = {word for sample in samples for word in sample.words} - {UNKNOWN}
    return {word: index for index, word in enumerate(["<pad>", UNKNOWN, *sorted(words)])}


def number_words(samples: Sequence[Sample], vocabulary: Mapping[str, int], question: Words = ()) -> Batch:
    """The ids of captions' words, and of a question that follows them; an empty caption becomes one ``<unk>``.

    Returns:
        ``tokens`` [B, T] int64, padded on the right with 0; ``lengths`` [B] int64 >= 1; ``host_lengths``, the same as a
        list of ints, which stays on the host when the tensors are moved, so that reading it waits for no device.
    """
    unknown = vocabulary[UNKNOWN]
    lines = [[vocabulary.get(word, unknown) for word in (*sample.words, *question)] or [unknown] for sample in samples]
    lengths = list(map(len, lines))
    tokens = np.zeros((len(lines), max(lengths)), dtype=np.int64)
    # One array for all captions: a tensor for each would be slow.
    tokens[np.arange(tokens.shape[1]) < np.array(lengths)[:, None]] = list(chain.from_iterable(lines))
    return {"tokens": torch.from_numpy(tokens), "lengths": torch.tensor(lengths), "host_lengths": lengths}


def pack(embedded: Tensor, batch: Batch) -> PackedSequence:
    """The real tokens of ``embedded`` [B, T, E], as by ``pack_padded_sequence``, without waiting for the device."""
    order = batch["lengths"].sort(descending=True).indices
    lengths = sorted(batch["host_lengths"], reverse=True)
    packed = pack_padded_sequence(embedded.index_select(0, order), lengths, batch_first=True)
    return PackedSequence(packed.data, packed.batch_sizes, order)


class Recurrent(nn.Module):
    """An LSTM or a plain (tanh) RNN; a caption's vector is the final state of the last layer, of each direction."""

    def __init__(
        self,
        kind: type[nn.LSTM | nn.RNN],
        embedding: int = EMBEDDING,
        state: int = STATE,
        *,
        bidirectional: bool,
        layers: int = 1,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.layer = kind(embedding, state, layers, dropout=dropout, bidirectional=bidirectional, batch_first=True)
        self.directions = 1 + bidirectional
        self.width = state * self.directions

    def forward(self, embedded: Tensor, batch: Batch) -> Tensor:
        """[B, T, E], padded on the right, and the batch with its lengths -> [B, D]; padding has no influence."""
        _, state = self.layer(pack(embedded, batch))
        final: Tensor = state[0] if isinstance(state, tuple) else state
        return torch.cat(list(final[-self.directions :]), dim=1)


class Transformer(nn.Module):
    """One Transformer encoder layer with sinusoidal positions; a caption's vector is the mean over its real tokens.

    Embeddings are not multiplied by the root of their width: they start with variance 1, and positions would be
    negligible beside them.
    """

    def __init__(self, heads: int) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(EMBEDDING, heads, 2 * EMBEDDING, DROPOUT, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        self.width = EMBEDDING

    def forward(self, embedded: Tensor, batch: Batch) -> Tensor:
        """See :meth:`Recurrent.forward`; padding is masked, in attention and in the mean."""
        padding = torch.arange(embedded.shape[1], device=embedded.device) >= batch["lengths"][:, None]
        placed = embedded + positions(embedded.shape[1], device=embedded.device)
        states = self.layers(placed, src_key_padding_mask=padding).masked_fill(padding[..., None], 0.0)
        mean: Tensor = states.sum(dim=1) / (~padding).sum(dim=1, keepdim=True)
        return mean


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
    """Embedding [V, E] -> encoder, [B, T, E] -> [B, D] -> head, [B, D] -> [B, A]; dropout before the last two."""

    def __init__(
        self,
        vocabulary: Mapping[str, int],
        embedding: nn.Embedding,
        encoder: Recurrent | Transformer,
        head: nn.Sequential,
        *,
        dropout: float = DROPOUT,
    ) -> None:
        super().__init__()
        self.vocabulary = vocabulary
        self.embedding, self.encoder, self.head = embedding, encoder, head
        self.dropout = nn.Dropout(dropout)

    def collate(self, samples: Sequence[Sample]) -> Batch:
        """Word ids, padded."""
        return number_words(samples, self.vocabulary)

    def forward(self, batch: Batch) -> Tensor:
        """Logits [B, A]."""
        embedded = self.dropout(self.embedding(batch["tokens"]))
        logits: Tensor = self.head(self.dropout(self.encoder(embedded, batch)))
        return logits


def make_lstm(
    vocabulary: Mapping[str, int], classes: int, *, embedding: int = 100, hidden: int = 256, dropout: float = 0.5
) -> EncoderClassifier:
    """LIC's LSTM."""
    words = nn.Embedding(len(vocabulary), embedding, padding_idx=0)
    encoder = Recurrent(nn.LSTM, embedding, hidden, bidirectional=True, layers=2, dropout=dropout)
    head = nn.Sequential(OutputLayer(encoder.width, classes))
    return EncoderClassifier(vocabulary, words, encoder, head, dropout=dropout)


_ENCODERS: dict[str, Callable[[], Recurrent | Transformer]] = {
    "lstm": partial(Recurrent, nn.LSTM, bidirectional=False),
    "lstm-bidirectional": partial(Recurrent, nn.LSTM, bidirectional=True),
    "rnn": partial(Recurrent, nn.RNN, bidirectional=False),
    "rnn-bidirectional": partial(Recurrent, nn.RNN, bidirectional=True),
    "transformer-1": partial(Transformer, 1),
    "transformer-5": partial(Transformer, 5),
}


def _network(
    name: str, head: int | None, target: Target, samples: Sequence[Sample], materials: Materials
) -> EncoderClassifier:
    vocabulary, classes = build_vocabulary(samples), len(target.classes)
    if head is None:
        return make_lstm(vocabulary, classes)
    encoder = _ENCODERS[name]()
    words = nn.Embedding(len(vocabulary), EMBEDDING, padding_idx=0)
    return EncoderClassifier(vocabulary, words, encoder, make_mlp(encoder.width, classes, head))


def _blueprint(encoder: str, name: str, head: int) -> Blueprint:
    return Blueprint(
        name,
        f"{SOURCES[head]}; sizes and training are this project's",
        network=partial(_network, encoder, head),
        recipe=Recipe(epochs=8, learning_rate=1e-3, batch_size=64),
    )


# A metric's paper chooses the head ("+mlp5"); the default is DBAC's, except that "lstm" alone is LIC's.
BLUEPRINTS = {
    **{encoder: _blueprint(encoder, encoder, HEADS[0]) for encoder in _ENCODERS},
    **{f"{name}+mlp{head}": _blueprint(name, f"{name}+mlp{head}", head) for name in _ENCODERS for head in HEADS},
    "lstm": Blueprint(
        "lstm",
        "hirota2022quantifying, supplement A.1",
        network=partial(_network, "lstm", None),
        recipe=Recipe(epochs=20, learning_rate=5e-5, batch_size=64),
    ),
}
