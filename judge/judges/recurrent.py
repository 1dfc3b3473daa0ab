"""LIC's LSTM attacker, from scratch: no pre-computed word vectors, as they carry bias of their own.

Source: Hirota et al., CVPR 2022, section 5 and supplement A.1; sizes, dropout and batch as in the released
code. Two bidirectional layers, embedding 100, hidden 256; the final forward and backward states of the
last layer go to one linear layer; dropout 0.5 on embeddings, between the layers and before the output.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence

from judge.judges import Batch, Blueprint, Materials, Recipe
from judge.judges.output import OutputLayer
from judge.text.alignment import UNKNOWN
from judge.types import Sample, Target, Words

_PADDING = "<pad>"


class Parts(NamedTuple):
    """The layers of a recurrent judge, in order; dropout follows the embedding and the encoder."""

    embedding: nn.Embedding
    encoder: nn.LSTM | nn.RNN
    dropout: float
    head: Sequence[nn.Module]


class RecurrentClassifier(nn.Module):
    """Embedding -> LSTM -> linear.

    ``forward`` takes what :func:`number_words` makes, and returns logits [B, A]. Padding never reaches the result:
    sequences are packed.
    """

    def __init__(
        self, vocabulary: dict[str, int], classes: int, *, embedding: int = 100, hidden: int = 256, dropout: float = 0.5
    ) -> None:
        super().__init__()
        self.vocabulary = vocabulary
        self.embedding = nn.Embedding(len(vocabulary), embedding, padding_idx=vocabulary[_PADDING])
        self.encoder = nn.LSTM(embedding, hidden, num_layers=2, bidirectional=True, dropout=dropout, batch_first=True)
        self.dropout = nn.Dropout(dropout)
        self.output = OutputLayer(2 * hidden, classes)

    def collate(self, samples: Sequence[Sample]) -> Batch:
        """Word ids, padded."""
        return number_words(samples, self.vocabulary)

    def forward(self, batch: Batch) -> Tensor:
        """Logits [B, A]."""
        embedded = self.dropout(self.embedding(batch["tokens"]))
        _, (states, _) = self.encoder(pack(embedded, batch))
        logits: Tensor = self.output(self.dropout(torch.cat([states[-2], states[-1]], dim=1)))
        return logits

    def parts(self) -> Parts:
        """For :mod:`judge.training.stacked`."""
        return Parts(self.embedding, self.encoder, self.dropout.p, [self.output])


def build_vocabulary(samples: Sequence[Sample]) -> dict[str, int]:
    """Padding, ``<unk>``, then the words of ``samples`` in alphabetical order."""
    words = {word for sample in samples for word in sample.words} - {UNKNOWN}
    return {word: index for index, word in enumerate([_PADDING, UNKNOWN, *sorted(words)])}


def number_words(samples: Sequence[Sample], vocabulary: Mapping[str, int], question: Words = ()) -> Batch:
    """The words of captions as numbers; of an empty text one ``<unk>``.

    Args:
        samples: whose captions.
        vocabulary: word -> id.
        question: words that follow every caption.

    Returns:
        ``tokens`` [B, T] int64, padded on the right with 0; ``lengths`` [B] int64 >= 1; ``host_lengths``, the same as a
        list of ints, which stays on the host where the tensors are moved: what is read there waits for no device.
    """
    unknown = vocabulary[UNKNOWN]
    lines = [[vocabulary.get(word, unknown) for word in (*sample.words, *question)] or [unknown] for sample in samples]
    lengths = list(map(len, lines))
    tokens = np.zeros((len(lines), max(lengths)), dtype=np.int64)
    # Of thousands of captions at once a tensor for each would be slow.
    tokens[np.arange(tokens.shape[1]) < np.array(lengths)[:, None]] = list(chain.from_iterable(lines))
    return {"tokens": torch.from_numpy(tokens), "lengths": torch.tensor(lengths), "host_lengths": lengths}


def pack(embedded: Tensor, batch: Batch) -> PackedSequence:
    """The real tokens of ``embedded`` [B, T, E], as ``pack_padded_sequence`` packs them, without a word to the device.

    Args:
        embedded: padded on the right.
        batch: with the lengths that :func:`number_words` gives.
    """
    order = batch["lengths"].sort(descending=True).indices
    lengths = sorted(batch["host_lengths"], reverse=True)
    packed = pack_padded_sequence(embedded.index_select(0, order), lengths, batch_first=True)
    return PackedSequence(packed.data, packed.batch_sizes, order)


def _lstm(target: Target, samples: Sequence[Sample], materials: Materials) -> RecurrentClassifier:
    return RecurrentClassifier(build_vocabulary(samples), len(target.classes))


BLUEPRINTS = {
    "lstm": Blueprint(
        "lstm",
        "hirota2022quantifying, supplement A.1",
        network=_lstm,
        stacked=True,
        recipe=Recipe(epochs=20, learning_rate=5e-5, batch_size=64),
    )
}
