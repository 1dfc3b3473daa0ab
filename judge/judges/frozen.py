"""Text encoders that stay as they are: captions in, vectors out, and a classifier on those.

Each caption is read once and kept (``judge.training.texts``); without dropout, as nothing of them is trained.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor, nn

from judge.judges import Batch, Features
from judge.types import Sample

if TYPE_CHECKING:
    from judge.judges.bert import Reader

Pooling = Literal["cls", "max", "mean"]
# Of a configuration: where it lay, and which versions wrote it.
_NO_CONTENT = {"_name_or_path", "transformers_version"}


class FrozenEncoder(nn.Module):
    """A text encoder that stays as it is: captions in, vectors out.

    Args:
        reader: of the text.
        pooling: how token vectors become one; of several, one behind the other.
        normalised: to length 1.
    """

    def __init__(self, reader: Reader, *, pooling: Sequence[Pooling] = ("cls",), normalised: bool = False) -> None:
        super().__init__()
        self.reader, self.pooling, self.normalised = reader, tuple(pooling), normalised
        self.model: nn.Module = reader.model.eval().requires_grad_(requires_grad=False)
        self.key = f"{_fingerprint(reader)} {self.pooling} {normalised} transformers {version('transformers')}"

    def collate(self, captions: Sequence[tuple[str, ...]]) -> Batch:
        """The encoder's tokens, padded; of a caption too long for it the beginning."""
        return self.reader.tokens(captions)

    def forward(self, batch: Batch) -> Tensor:
        """[B, D]; padding never enters."""
        states = self.model(**batch).last_hidden_state
        found = torch.cat([POOLINGS[name](states, batch["attention_mask"][..., None]) for name in self.pooling], dim=1)
        return nn.functional.normalize(found, dim=1) if self.normalised else found


def _mean(states: Tensor, mask: Tensor) -> Tensor:
    return (states * mask).sum(dim=1) / mask.sum(dim=1)


def _cls(states: Tensor, mask: Tensor) -> Tensor:
    return states[:, 0]


def _max(states: Tensor, mask: Tensor) -> Tensor:
    return states.masked_fill(mask == 0, -torch.inf).amax(dim=1)


# Of token vectors [B, T, D] and their mask [B, T, 1]; a tokenizer pads on the right, and adds a token even to nothing.
POOLINGS: dict[Pooling, Callable[[Tensor, Tensor], Tensor]] = {"cls": _cls, "max": _max, "mean": _mean}


def _fingerprint(reader: Reader) -> str:
    """A reader's configuration, weights and tokenizer, hashed by content; not by where they lie."""
    said = {name: value for name, value in reader.model.config.to_dict().items() if name not in _NO_CONTENT}
    tokenizer = reader.tokenizer
    words = tokenizer.backend_tokenizer.to_str() if tokenizer.is_fast else sorted(tokenizer.get_vocab().items())
    digest = hashlib.blake2b(repr((sorted(said.items()), words, reader.room)).encode(), digest_size=16)
    for name, tensor in reader.model.state_dict().items():
        digest.update(f"{name} {tuple(tensor.shape)}".encode())
        digest.update(tensor.contiguous().numpy().tobytes())
    return digest.hexdigest()


class FrozenClassifier(nn.Module):
    """A classifier on what a frozen encoder read; ``forward`` takes ``features`` [B, 1, D], gives logits [B, A]."""

    def __init__(self, features: Features, output: nn.Module) -> None:
        super().__init__()
        self.features, self.output = features, output

    def collate(self, samples: Sequence[Sample]) -> Batch:
        """The captions' vectors."""
        return {"features": self.features.rows(samples)}

    def forward(self, batch: Batch) -> Tensor:
        """Logits [B, A]."""
        logits: Tensor = self.output(batch["features"].squeeze(1))
        return logits
