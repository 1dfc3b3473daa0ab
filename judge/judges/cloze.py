"""What Show, Attend and Tell and GRIT share: they read a caption and a cloze question beside a picture's features."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from torch import Tensor, nn

from judge.judges import Answering, Batch, Features, Materials, Network
from judge.judges.prompts import Prompt, make_prompt
from judge.judges.recurrent import build_vocabulary, number_words
from judge.text.tokens import tokenize
from judge.types import Sample, Target, Words


class ClozeReader(nn.Module):
    """Caption and question as word ids, pictures as features; logits of the answers.

    ``forward`` of those that inherit takes what :func:`~judge.judges.recurrent.number_words` makes and ``features``
    [B, P, D], and returns logits [B, A]. Nothing that is padded reaches the result.

    Args:
        vocabulary: word -> row of the embedding, padding and ``<unk>`` among them.
        question: the template's words, which follow every caption.
        classes: A.
        features: pictures as the backbone sees them.
        answering: "vocabulary" gives every other word a row of the output too: probabilities are then shares of all.
    """

    def __init__(
        self, vocabulary: dict[str, int], question: Words, classes: int, features: Features, answering: Answering
    ) -> None:
        super().__init__()
        self.vocabulary, self.question, self.features = vocabulary, question, features
        self.classes, self.answering = classes, answering

    @property
    def outputs(self) -> int:
        """Rows of the output layer."""
        return self.classes + (len(self.vocabulary) if self.answering == "vocabulary" else 0)

    def collate(self, samples: Sequence[Sample]) -> Batch:
        """Word ids of captions and question, padded; pictures' features."""
        return {**number_words(samples, self.vocabulary, self.question), "features": self.features.rows(samples)}

    def answers(self, logits: Tensor) -> Tensor:
        """Logits [B, A] of the output layer's; where all words have a row, the answers' log share of them."""
        return logits if logits.shape[1] == self.classes else logits.log_softmax(dim=1)[:, : self.classes]


def question_of(prompt: Prompt | None) -> Words:
    """The question, word by word."""
    return tokenize((prompt or make_prompt("gender")).question)


def maker(kind: Callable[..., Network]) -> Callable[[Target, Sequence[Sample], Materials], Network]:
    """What a blueprint of ``kind``, a :class:`ClozeReader`, makes its networks with."""
    return partial(_make, kind)


def _make(kind: Callable[..., Network], target: Target, samples: Sequence[Sample], materials: Materials) -> Network:
    assert materials.features is not None
    question = question_of(materials.prompt)
    vocabulary = build_vocabulary([*samples, Sample("", "human", 0, question, (0,))])
    return kind(vocabulary, question, len(target.classes), materials.features, answering=materials.answering)
