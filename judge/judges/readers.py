"""Text encoders of transformers: loading them, and vectors of captions by encoders that are not trained.

A frozen encoder reads each caption once, without dropout; its vectors are cached (``judge.training.features``).
Only what transformers itself brings runs here: ``trust_remote_code`` is always False, and weights are safetensors.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, Literal

import torch
from torch import Tensor, nn

from judge.errors import JudgeError, require
from judge.judges import Batch, Features
from judge.judges.hf_models import check_weights, limit_of, loading
from judge.judges.hf_prompts import spell_words
from judge.types import Sample
from judge.utils.hub import knows_words, locate, quiet, read_config

READER = "bert-base-uncased"
Pooling = Literal["cls", "max", "mean"]
_OTHERWISE = "name the folder of one with --reader, or use --judge vl-lic-lstm"
# RoBERTa and its like count positions from 2.
_OFFSET = 2
# Of a configuration: where it lay, and which versions wrote it.
_NO_CONTENT = {"_name_or_path", "transformers_version"}


@dataclass(frozen=True)
class Reader:
    """A text encoder, loaded.

    Attributes:
        model: transformers' model, float32, on the CPU.
        tokenizer: its own; pads on the right.
    """

    model: Any
    tokenizer: Any

    @property
    def width(self) -> int:
        """Of its vector of a token, D."""
        return int(self.model.config.hidden_size)

    @property
    def limit(self) -> int | None:
        """Tokens that it can read; None where nothing limits them."""
        known = limit_of(self.model.config, self.tokenizer)
        return None if known is None else known - _OFFSET

    def tokens(self, captions: Sequence[tuple[str, ...]]) -> dict[str, Tensor]:
        """The model's own tensors, [B, T], padded; of a caption too long for it the beginning."""
        lines = [spell_words(self.tokenizer, words) for words in captions]
        cut = self.limit is not None
        return dict(self.tokenizer(lines, padding=True, truncation=cut, max_length=self.limit, return_tensors="pt"))

    def fingerprint(self) -> str:
        """Configuration, weights and tokenizer, hashed by content; not by where they lie."""
        config = {name: value for name, value in self.model.config.to_dict().items() if name not in _NO_CONTENT}
        tokenizer = self.tokenizer
        words = tokenizer.backend_tokenizer.to_str() if tokenizer.is_fast else sorted(tokenizer.get_vocab().items())
        digest = hashlib.blake2b(repr((sorted(config.items()), words, self.limit)).encode(), digest_size=16)
        for name, tensor in self.model.state_dict().items():
            digest.update(f"{name} {tuple(tensor.shape)}".encode())
            digest.update(tensor.contiguous().numpy().tobytes())
        return digest.hexdigest()


def load_reader(reference: str | None, *, where: str = "", mend: str = _OTHERWISE) -> Reader:
    """The text encoder in a folder, or of a name on the hub (fetched by transformers, if it may).

    Args:
        reference: the folder, or the name; None for BERT.
        where: what users typed to name it, for messages; "" where that was --reader.
        mend: what to do where it cannot be had.

    Raises:
        JudgeError: no such folder or name; no encoder of text; no or broken safetensors; no tokenizer; transformers is
            not installed.
    """
    require("vision", "transformers")
    from transformers import AutoModel, AutoTokenizer

    where = where or (f"--reader {reference}" if reference else f"text encoder '{READER}'")
    name = locate(reference or READER, where)
    with quiet():
        _check_kind(name, where, mend)
        with loading("its weights or tokenizer cannot be had in safe form", where, mend):
            model, notes = AutoModel.from_pretrained(
                name, dtype=torch.float32, trust_remote_code=False, use_safetensors=True, output_loading_info=True
            )
            tokenizer = AutoTokenizer.from_pretrained(name, trust_remote_code=False)
    check_weights(notes, where)
    if not knows_words(tokenizer) or tokenizer.pad_token_id is None:
        raise JudgeError("its tokenizer is missing", where=where, mend="save it beside the weights")
    tokenizer.padding_side = "right"
    return Reader(model.eval(), tokenizer)


def _check_kind(name: str, where: str, mend: str) -> None:
    """What fills masks in text is an encoder of text."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_MASKED_LM_MAPPING_NAMES

    config = read_config(name, where, mend=mend)
    if config["model_type"] not in MODEL_FOR_MASKED_LM_MAPPING_NAMES or config.get("is_encoder_decoder"):
        what = f"'{config['model_type']}' is no encoder of text"
        raise JudgeError(what, where=where, mend="choose BERT, RoBERTa, DistilBERT or their like")


class FrozenEncoder(nn.Module):
    """A text encoder that is not trained: captions in, vectors out.

    Args:
        reader: of the text.
        pooling: how token vectors become one; of several, one behind the other.
        normalised: to length 1.
    """

    def __init__(self, reader: Reader, *, pooling: Sequence[Pooling] = ("cls",), normalised: bool = False) -> None:
        super().__init__()
        self.reader, self.pooling, self.normalised = reader, tuple(pooling), normalised
        self.model: nn.Module = reader.model.eval().requires_grad_(requires_grad=False)
        self.key = f"{reader.fingerprint()} {self.pooling} {normalised} transformers {version('transformers')}"

    def collate(self, captions: Sequence[tuple[str, ...]]) -> Batch:
        """The encoder's tokens, padded; of a caption too long for it the beginning."""
        return self.reader.tokens(captions)

    def forward(self, batch: Batch) -> Tensor:
        """[B, D]; padding never enters."""
        states = self.model(**batch).last_hidden_state
        found = torch.cat([POOLINGS[name](states, batch["attention_mask"][..., None]) for name in self.pooling], dim=1)
        return nn.functional.normalize(found, dim=1) if self.normalised else found


# Of token vectors [B, T, D] and their mask [B, T, 1]; a tokenizer pads on the right, and adds a token even to nothing.
POOLINGS: dict[Pooling, Callable[[Tensor, Tensor], Tensor]] = {
    "cls": lambda states, _: states[:, 0],
    "max": lambda states, mask: states.masked_fill(mask == 0, -torch.inf).amax(dim=1),
    "mean": lambda states, mask: (states * mask).sum(dim=1) / mask.sum(dim=1),
}


class PretrainedClassifier(nn.Module):
    """A fine-tuned encoder's reading of the caption, computed features of caption or picture, or both -> classes.

    ``forward`` takes ``text`` (the encoder's own tensors, [B, T]) and ``features`` [B, P, D], and returns logits
    [B, A]. A caption's vector is the encoder's output at its first token ([CLS]).

    Args:
        output: [B, D] -> [B, A]; D is the encoder's width and that of the features, added.
        reader: fine-tuned with the rest; None where all is computed before.
        features: averaged over positions, as ResNet's own classifier does; None where the caption alone is read.
    """

    def __init__(self, output: nn.Module, *, reader: Reader | None = None, features: Features | None = None) -> None:
        super().__init__()
        self.has_idle_weights = reader is not None  # Of a pooler, which is not used.
        self.reader, self.features = reader, features
        self.encoder: nn.Module | None = reader.model if reader else None
        self.output = output

    def collate(self, samples: Sequence[Sample]) -> Batch:
        """The encoder's tokens; features."""
        text = {"text": self.reader.tokens([sample.words for sample in samples])} if self.reader else {}
        return text | ({"features": self.features.rows(samples)} if self.features else {})

    def forward(self, batch: Batch) -> Tensor:
        """Logits [B, A]."""
        parts = []
        if self.encoder:
            parts.append(self.encoder(**batch["text"]).last_hidden_state[:, 0])
        if self.features:
            parts.append(batch["features"].float().mean(dim=1))
        logits: Tensor = self.output(torch.cat(parts, dim=1) if len(parts) > 1 else parts[0])
        return logits
