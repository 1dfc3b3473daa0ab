"""Show, Attend and Tell as a judge: reads the masked caption and the question while it attends to the picture.

Source: Xu et al., ICML 2015 (soft attention, section 4.2, and the deep output of equation 7), as ImageCaptioner2's
judge (Abdelrahman et al., AAAI 2024, section 4.2): caption and template are fed word by word as they are given, never
generated, and the answer is read from the last step. Trained from nothing but the frozen backbone, by cross-entropy on
the answer alone; so of the output layer the answers' rows are all that is needed.

It departs from Xu et al. in this:

- the gate on the attended features (section 4.2.1) is a value for each feature; theirs is one number, beta;
- the deep output passes through tanh before the output layer, which equation 7 does not have;
- features are first narrowed, by LayerNorm and a linear layer; theirs are used as they are;
- the forget gate's bias starts at 1;
- dropout is in one place, before the output layer;
- attention is not drawn to all positions alike (their "doubly stochastic" penalty).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor, nn

from judge.judges import PROMPTED, Answering, Batch, Blueprint, Features, Recipe
from judge.judges.backbones import RESNET101, make_backbone
from judge.judges.cloze import ClozeReader, maker
from judge.judges.output import OutputLayer
from judge.types import Sample, Words


class ShowAttendTell(ClozeReader):
    """Embedding -> LSTM that attends to the picture -> answers.

    Args:
        embedding, hidden, attention: widths.
        dropout: before the output.
    """

    def __init__(  # noqa: PLR0913 - widths
        self,
        vocabulary: dict[str, int],
        question: Words,
        classes: int,
        features: Features,
        *,
        embedding: int = 128,
        hidden: int = 128,
        attention: int = 64,
        dropout: float = 0.5,
        answering: Answering = "restricted",
    ) -> None:
        super().__init__(vocabulary, question, classes, features, answering)
        # Narrower at once: the network attends to it at every word.
        self.sight = nn.Sequential(nn.LayerNorm(features.shape[1]), nn.Linear(features.shape[1], hidden))
        self.embedding = nn.Embedding(len(vocabulary), embedding, padding_idx=0)
        self.start = nn.Linear(hidden, 2 * hidden)
        self.look, self.ask = nn.Linear(hidden, attention), nn.Linear(hidden, attention)
        self.energy = nn.Linear(attention, 1)
        self.gate = nn.Linear(hidden, hidden)
        self.words, self.sights = nn.Linear(embedding, 4 * hidden), nn.Linear(hidden, 4 * hidden, bias=False)
        self.memory = nn.Linear(hidden, 4 * hidden, bias=False)
        # Remember at first (Jozefowicz et al., ICML 2015): between a clue and the answer lies the whole question.
        nn.init.ones_(self.words.bias.data[hidden : 2 * hidden])
        self.dropout = nn.Dropout(dropout)
        self.from_memory, self.from_sight = nn.Linear(hidden, embedding), nn.Linear(hidden, embedding)
        self.output = OutputLayer(embedding, self.outputs)

    def collate(self, samples: Sequence[Sample]) -> Batch:
        """As of any; longest first, and ``places``, [B] int64: the row of each sample."""
        # At every step those that still have a word to read are the first rows. Sorted here, features need not be
        # copied for it: they are most of what a batch holds.
        order = sorted(range(len(samples)), key=lambda place: len(samples[place].words), reverse=True)
        places = torch.tensor(order).argsort()
        return {**super().collate([samples[place] for place in order]), "places": places}

    def forward(self, batch: Batch) -> Tensor:
        """Logits [B, A]."""
        lengths = batch["lengths"]
        sights = self.sight(batch["features"].float())
        embedded = self.embedding(batch["tokens"])
        memory, sight = self._read(embedded, batch["host_lengths"], sights)
        last = embedded[torch.arange(len(lengths), device=lengths.device), lengths - 1]
        deep = self.from_memory(memory) + self.from_sight(sight) + last
        return self.answers(self.output(self.dropout(deep.tanh())))[batch["places"]]

    def _read(self, embedded: Tensor, lengths: list[int], sights: Tensor) -> tuple[Tensor, Tensor]:
        """Memory and attended features at each row's last word, [B, H] each; rows from the longest on."""
        # All that does not depend on the step before is done at once. (Taken apart at once too: the gradient of a
        # slice is as large as the whole, and would be filled anew for each step.)
        inputs = self.words(embedded).unbind(dim=1)
        keys = self.look(sights)
        hidden, cell = self.start(sights.mean(dim=1)).tanh().chunk(2, dim=-1)
        ends = []
        for step, word in enumerate(inputs):
            weights = self.energy(torch.tanh(keys + self.ask(hidden)[:, None])).softmax(dim=1)
            sight = self.gate(hidden).sigmoid() * torch.bmm(weights.transpose(1, 2), sights)[:, 0]
            hidden, cell = _remember(word[: len(hidden)] + self.sights(sight) + self.memory(hidden), cell)
            going = sum(length > step + 1 for length in lengths)
            if going < len(hidden):
                ends.append((hidden[going:], sight[going:]))
                hidden, cell, keys, sights = hidden[:going], cell[:going], keys[:going], sights[:going]
        memories, attended = zip(*reversed(ends), strict=True)
        return torch.cat(memories), torch.cat(attended)


def _remember(gates: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
    """One step of an LSTM: (hidden, cell) from the sum of what reaches its gates, [B, 4H]."""
    enter, forget, new, leave = gates.chunk(4, dim=-1)
    cell = forget.sigmoid() * cell + enter.sigmoid() * new.tanh()
    return leave.sigmoid() * cell.tanh(), cell


BLUEPRINTS = {
    "sat": Blueprint(
        "sat",
        "xu2015show; abdelrahman2024imagecaptioner2, section 4.2",
        network=maker(ShowAttendTell),
        recipe=Recipe(epochs=40, learning_rate=4e-4, batch_size=128, keep="best"),
        modalities=frozenset({"caption", "image"}),
        reads=PROMPTED,
        backbone=partial(make_backbone, default=RESNET101),
    )
}
