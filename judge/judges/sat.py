"""Show, Attend and Tell as a judge, and what it shares with GRIT: a caption and a cloze question beside image features.

Source: Xu et al., ICML 2015 (soft attention, section 4.2, and the deep output of equation 7), as ImageCaptioner2's
judge (Abdelrahman et al., AAAI 2024, sections 4.2 and 5.2): caption and template are given word by word, nothing is
generated, and the answer is the next word. Its probability is a share of the whole vocabulary (equations 1 and 2).
Everything but the frozen backbone is trained from scratch, by cross-entropy on the answer alone, as equation 1 has it:
the judge is not trained to write captions. Weights start as He et al. (ICCV 2015) draw them, embeddings, whose input
has a single 1, with variance 1, and the output layer as torch's layers do, as judges would be sure before training.

``sat-512`` has the widths of public implementations, 512, and LIC's learning rate, 5e-5, as section 5.2 refers to LIC's
training; ``sat`` is smaller and learns faster.

Differences from Xu et al.:

- the gate on the attended features (section 4.2.1) has a value for each feature; theirs is one number, beta;
- features are first projected to fewer dimensions, by LayerNorm and a linear layer; theirs are used as they are;
- the forget gate's bias starts at 1;
- dropout is applied once, before the output layer;
- there is no penalty for unequal attention to positions (their "doubly stochastic" attention).
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, nn

from judge.judges import PROMPTED, Answering, Batch, Blueprint, Features, Materials, Network, Recipe
from judge.judges.backbones import RESNET101, make_backbone
from judge.judges.encoders import OutputLayer, build_vocabulary, number_words
from judge.judges.prompts import make_prompt
from judge.text.tokens import tokenize
from judge.types import Sample, Target, Words


class Cloze(NamedTuple):
    """A question that follows every caption, and its answers, [A]; the vocabulary includes the words of both.

    With ``answering`` "restricted" judges return logits of answers, else their log-probabilities among all words.
    """

    vocabulary: dict[str, int]
    question: Words
    answers: Words
    features: Features
    answering: Answering = "vocabulary"


class ClozeJudge(nn.Module):
    """Base of captioners that read a caption, a cloze question and image features, and answer with one word.

    Their ``forward`` takes what :func:`~judge.judges.encoders.number_words` makes and ``features`` [B, P, D], and
    returns logits [B, A]. Padding has no influence. They have two layers over the vocabulary, as captioners do: an
    embedding and an output layer, which is not tied to it.
    """

    def __init__(self, cloze: Cloze) -> None:
        super().__init__()
        self.vocabulary, self.question, answers, self.features, answering = cloze
        self.among_all = answering == "vocabulary"
        self.rows = nn.Buffer(torch.tensor([self.vocabulary[word] for word in answers]), persistent=False)

    def collate(self, samples: Sequence[Sample]) -> Batch:
        """Word ids of captions and question, padded; features of the images."""
        return {**number_words(samples, self.vocabulary, self.question), "features": self.features.rows(samples)}

    def answer(self, logits: Tensor) -> Tensor:
        """Logits of all words, [B, V] -> [B, A]."""
        return (logits.log_softmax(dim=1) if self.among_all else logits).index_select(1, self.rows)


def make_cloze_judge(
    kind: Callable[[Cloze], Network], target: Target, samples: Sequence[Sample], materials: Materials
) -> Network:
    """A network of this ``kind``, a :class:`ClozeJudge`; for ``Blueprint.network``.

    An answer of several words ("something else") is one entry of the vocabulary, since [Answer] is one word.
    """
    assert materials.features is not None
    prompt = materials.prompt or make_prompt("gender")
    question, answers = tokenize(prompt.question), tuple(map(str.lower, prompt.words(target.classes)))
    vocabulary = build_vocabulary([*samples, Sample("", "human", 0, (*question, *answers), (0,))])
    return kind(Cloze(vocabulary, question, answers, materials.features, materials.answering))


class ShowAttendTell(ClozeJudge):
    """Embedding -> LSTM with attention to the image -> dropout -> words."""

    def __init__(self, cloze: Cloze, *, embedding: int, hidden: int, attention: int) -> None:
        super().__init__(cloze)
        words, columns = len(cloze.vocabulary), cloze.features.shape[1]
        # Projected first, since the network attends to them at every word.
        self.project = nn.Sequential(nn.LayerNorm(columns), nn.Linear(columns, hidden))
        self.embedding = nn.Embedding(words, embedding, padding_idx=0)
        self.initial = nn.Linear(hidden, 2 * hidden)
        self.key, self.query = nn.Linear(hidden, attention), nn.Linear(hidden, attention)
        self.energy = nn.Linear(attention, 1)
        self.gate = nn.Linear(hidden, hidden)
        self.from_word, self.from_image = nn.Linear(embedding, 4 * hidden), nn.Linear(hidden, 4 * hidden, bias=False)
        self.from_hidden = nn.Linear(hidden, 4 * hidden, bias=False)
        self.dropout = nn.Dropout(0.5)
        self.hidden_output, self.image_output = nn.Linear(hidden, embedding), nn.Linear(hidden, embedding)
        self.output = OutputLayer(embedding, words)
        for layer in self.modules():
            if type(layer) is nn.Linear:
                nn.init.kaiming_normal_(layer.weight)
                if layer.bias is not None:
                    nn.init.zeros_(layer.bias)
        # Remember at first (Jozefowicz et al., ICML 2015): the question lies between a clue and the answer.
        nn.init.ones_(self.from_word.bias.data[hidden : 2 * hidden])

    def collate(self, samples: Sequence[Sample]) -> Batch:
        """As the base class, longest first; ``places`` [B] int64 is the row of each sample."""
        # At every step the captions that continue are the first rows. Sorting here avoids a copy of the features,
        # which are most of a batch.
        order = sorted(range(len(samples)), key=lambda place: len(samples[place].words), reverse=True)
        places = torch.tensor(order).argsort()
        return {**super().collate([samples[place] for place in order]), "places": places}

    def forward(self, batch: Batch) -> Tensor:
        """Logits [B, A]."""
        lengths = batch["lengths"]
        embedded = self.embedding(batch["tokens"])
        hidden, attended = self._read(embedded, batch["host_lengths"], self.project(batch["features"].float()))
        last = embedded[torch.arange(len(lengths), device=lengths.device), lengths - 1]
        deep = self.hidden_output(hidden) + self.image_output(attended) + last
        return self.answer(self.output(self.dropout(deep)))[batch["places"]]

    def _read(self, embedded: Tensor, lengths: list[int], image: Tensor) -> tuple[Tensor, Tensor]:
        """Hidden states and attended features at each row's last word, [B, H] each; rows are sorted, longest first."""
        # Computed and split for all steps at once: the gradient of a slice is as large as the whole tensor.
        inputs = self.from_word(embedded).unbind(dim=1)
        keys = self.key(image)
        hidden, cell = self.initial(image.mean(dim=1)).tanh().chunk(2, dim=-1)
        ends = []
        for step, word in enumerate(inputs):
            weights = self.energy(torch.tanh(keys + self.query(hidden)[:, None])).softmax(dim=1)
            attended = self.gate(hidden).sigmoid() * torch.bmm(weights.transpose(1, 2), image)[:, 0]
            gates = word[: len(hidden)] + self.from_image(attended) + self.from_hidden(hidden)
            enter, forget, new, leave = gates.chunk(4, dim=-1)
            cell = forget.sigmoid() * cell + enter.sigmoid() * new.tanh()
            hidden = leave.sigmoid() * cell.tanh()
            going = sum(length > step + 1 for length in lengths)
            if going < len(hidden):
                ends.append((hidden[going:], attended[going:]))
                hidden, cell, keys, image = hidden[:going], cell[:going], keys[:going], image[:going]
        states, images = zip(*reversed(ends), strict=True)
        return torch.cat(states), torch.cat(images)


BLUEPRINTS = {
    name: Blueprint(
        name,
        "xu2015show; abdelrahman2024imagecaptioner2, section 4.2",
        network=partial(make_cloze_judge, partial(ShowAttendTell, embedding=width, hidden=width, attention=attention)),
        recipe=Recipe(epochs=40, learning_rate=rate, batch_size=128, keep="best"),
        modalities=frozenset({"caption", "image"}),
        reads=PROMPTED,
        backbone=partial(make_backbone, default=RESNET101),
    )
    for name, rate, width, attention in (("sat", 4e-4, 128, 64), ("sat-512", 5e-5, 512, 512))
}
