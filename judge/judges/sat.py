"""Show, Attend and Tell as a judge: reads the masked caption and the question while it looks at the picture.

Source: Xu et al., ICML 2015 (soft attention, section 4.2, and the deep output of equation 7), as ImageCaptioner2's
judge (Abdelrahman et al., AAAI 2024, section 4.2): caption and template are fed word by word as they are given, never
generated, and the answer is read from the last step. Trained from nothing but the frozen backbone, by cross-entropy on
the answer alone; so of the output layer the answers' rows are all that is needed.

It departs from Xu et al. in this:

- the gate on what is looked at (section 4.2.1) is a value for each feature; theirs is one number, beta;
- the deep output passes through tanh before the output layer, which equation 7 does not have;
- features are first narrowed, by LayerNorm and a linear layer; theirs are used as they are;
- the forget gate's bias starts at 1;
- dropout is in one place, before the output layer;
- attention is not pulled towards looking everywhere equally often (their "doubly stochastic" penalty).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from judge.judges import Answering, Backbone, Batch, Blueprint, Features, Materials, Recipe
from judge.judges.backbones import RESNET101, make_backbone
from judge.judges.prompts import Prompt, make_prompt
from judge.judges.recurrent import build_vocabulary
from judge.text.alignment import UNKNOWN
from judge.text.tokens import tokenize
from judge.types import Sample, Target

_PADDING = 0


class ShowAttendTell(nn.Module):
    """Embedding -> LSTM that attends to the picture -> answers.

    ``forward`` takes ``tokens`` [B, T] int64 padded on the right, ``lengths`` [B] int64 >= 1 and ``features``
    [B, P, D], and returns logits [B, A]. Nothing that is padded reaches the result.

    Args:
        vocabulary: word -> row of the embedding, padding and ``<unk>`` among them.
        question: the template's words, which follow every caption.
        classes: A.
        features: pictures as the backbone sees them.
        embedding, hidden, attention: widths.
        dropout: before the output.
        answering: "vocabulary" gives every other word a row of the output too: probabilities are then shares of all.
    """

    def __init__(  # noqa: PLR0913 - widths
        self,
        vocabulary: dict[str, int],
        question: tuple[str, ...],
        classes: int,
        features: Features,
        *,
        embedding: int = 128,
        hidden: int = 128,
        attention: int = 64,
        dropout: float = 0.5,
        answering: Answering = "restricted",
    ) -> None:
        super().__init__()
        self.vocabulary, self.question, self.features = vocabulary, question, features
        self.classes, self.answering = classes, answering
        # Narrower at once: the network looks again at every word.
        self.sight = nn.Sequential(nn.LayerNorm(features.shape[1]), nn.Linear(features.shape[1], hidden))
        seen = hidden
        self.embedding = nn.Embedding(len(vocabulary), embedding, padding_idx=_PADDING)
        self.start = nn.Linear(seen, 2 * hidden)
        self.look, self.ask, self.energy = (
            nn.Linear(seen, attention),
            nn.Linear(hidden, attention),
            nn.Linear(attention, 1),
        )
        self.gate = nn.Linear(hidden, seen)
        self.words, self.sights = nn.Linear(embedding, 4 * hidden), nn.Linear(seen, 4 * hidden, bias=False)
        self.memory = nn.Linear(hidden, 4 * hidden, bias=False)
        # Remember at first (Jozefowicz et al., ICML 2015): between what tells and the answer lies the whole question.
        nn.init.ones_(self.words.bias.data[hidden : 2 * hidden])
        self.dropout = nn.Dropout(dropout)
        self.from_memory, self.from_sight = nn.Linear(hidden, embedding), nn.Linear(seen, embedding)
        self.output = nn.Linear(embedding, classes + (len(vocabulary) if answering == "vocabulary" else 0))

    def collate(self, samples: Sequence[Sample]) -> Batch:
        """Word ids of captions and question, padded; pictures' features."""
        return {**spell(samples, self.vocabulary, self.question), "features": self.features.rows(samples)}

    def forward(self, batch: Batch) -> Tensor:
        """Logits [B, A]."""
        # Longest first: at every step those that still have a word to read are the first rows.
        lengths, order = batch["lengths"].sort(descending=True, stable=True)
        sights = self.sight(batch["features"][order])
        embedded = self.embedding(batch["tokens"][order])
        memory, sight = self._read(embedded, lengths.tolist(), sights)
        last = embedded[torch.arange(len(lengths), device=lengths.device), lengths - 1]
        deep = self.from_memory(memory) + self.from_sight(sight) + last
        logits: Tensor = self.output(self.dropout(deep.tanh()))
        # Over the whole vocabulary where all words have a row: then the answers' share of it.
        found = logits if logits.shape[1] == self.classes else logits.log_softmax(dim=1)[:, : self.classes]
        return found[order.argsort()]

    def _read(self, embedded: Tensor, lengths: list[int], sights: Tensor) -> tuple[Tensor, Tensor]:
        """What is remembered and looked at with each row's last word, [B, H] each; rows from the longest on."""
        # All that does not depend on the step before is done at once. (Taken apart at once too: the gradient of a
        # slice is as large as the whole, and would be filled anew for each step.)
        told = self.words(embedded).unbind(dim=1)
        keys = self.look(sights)
        hidden, cell = self.start(sights.mean(dim=1)).tanh().chunk(2, dim=-1)
        ends = []
        for step, word in enumerate(told):
            weights = self.energy(torch.tanh(keys + self.ask(hidden)[:, None])).softmax(dim=1)
            sight = self.gate(hidden).sigmoid() * torch.bmm(weights.transpose(1, 2), sights)[:, 0]
            hidden, cell = _remember(word[: len(hidden)] + self.sights(sight) + self.memory(hidden), cell)
            going = sum(length > step + 1 for length in lengths)
            if going < len(hidden):
                ends.append((hidden[going:], sight[going:]))
                hidden, cell, keys, sights = hidden[:going], cell[:going], keys[:going], sights[:going]
        memories, seen = zip(*reversed(ends), strict=True)
        return torch.cat(memories), torch.cat(seen)


def _remember(gates: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
    """One step of an LSTM: (hidden, cell) from the sum of what reaches its gates, [B, 4H]."""
    enter, forget, new, leave = gates.chunk(4, dim=-1)
    cell = forget.sigmoid() * cell + enter.sigmoid() * new.tanh()
    return leave.sigmoid() * cell.tanh(), cell


def spell(samples: Sequence[Sample], vocabulary: dict[str, int], question: tuple[str, ...]) -> dict[str, Tensor]:
    """Captions and the question after each as ``tokens`` [B, T], padded on the right, and ``lengths`` [B]."""
    unknown = vocabulary[UNKNOWN]
    lines = [(*sample.words, *question) for sample in samples]
    # A template may begin with the answer: then an empty caption is one unknown word, as for the LSTM.
    ids = [[vocabulary.get(word, unknown) for word in line] or [unknown] for line in lines]
    tokens = torch.full((len(ids), max(map(len, ids))), _PADDING)
    for row, line in zip(tokens, ids, strict=True):
        row[: len(line)] = torch.tensor(line)
    return {"tokens": tokens, "lengths": torch.tensor([len(line) for line in ids])}


def learn_words(
    target: Target, samples: Sequence[Sample], prompt: Prompt | None
) -> tuple[dict[str, int], tuple[str, ...]]:
    """The vocabulary of captions and question, and the question.

    Raises:
        JudgeError: an answer for a class that is none, as all captioners refuse it.
    """
    if prompt:
        prompt.words(target.classes)
    question = ask(prompt)
    return build_vocabulary([*samples, Sample("", "human", 0, question, (0,))]), question


def ask(prompt: Prompt | None) -> tuple[str, ...]:
    """The question, word by word."""
    return tokenize((prompt or make_prompt("gender")).question)


def _sat(target: Target, samples: Sequence[Sample], materials: Materials) -> ShowAttendTell:
    assert materials.features is not None
    vocabulary, question = learn_words(target, samples, materials.prompt)
    classes, features = len(target.classes), materials.features
    return ShowAttendTell(vocabulary, question, classes, features, answering=materials.answering)


def _backbone(materials: Materials) -> Backbone:
    return make_backbone(materials, RESNET101)


BLUEPRINTS = {
    "sat": Blueprint(
        "sat",
        "xu2015show; abdelrahman2024imagecaptioner2, section 4.2",
        network=_sat,
        recipe=Recipe(epochs=40, learning_rate=4e-4, batch_size=128, keep="best"),
        modalities=frozenset({"caption", "image"}),
        backbone=_backbone,
    )
}
