"""Pretrained text encoders of transformers (BERT, RoBERTa, DistilBERT, ...), fine-tuned or frozen.

A frozen encoder encodes each caption once, without dropout; its vectors are cached (``judge.training.features``).
Code that comes with a checkpoint never runs (``trust_remote_code`` is False), and weights are safetensors.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import torch
from torch import Tensor, nn

from judge.errors import JudgeError, require
from judge.judges import Batch, Features
from judge.judges.hf_models import check_weights, limit_of, loading
from judge.judges.hf_prompts import spell_words
from judge.types import Sample, Words
from judge.utils.hub import knows_words, locate, quiet, read_config

READER = "bert-base-uncased"
_INSTEAD = "name the folder of one with --reader, or use --judge vl-lic-lstm"
_OFFSET = 2  # RoBERTa and similar models count positions from 2.
_NO_CONTENT = {"_name_or_path", "transformers_version"}  # Entries of a configuration that do not change the model.


@dataclass(frozen=True)
class TextEncoder:
    """A loaded text encoder.

    Attributes:
        model: transformers' model, float32, on the CPU.
        tokenizer: pads on the right.
    """

    model: Any
    tokenizer: Any

    @property
    def width(self) -> int:
        """Features of a token, D."""
        return int(self.model.config.hidden_size)

    @property
    def limit(self) -> int | None:
        """Longest input in tokens; None for no limit."""
        known = limit_of(self.model.config, self.tokenizer)
        return None if known is None else known - _OFFSET

    def tokens(self, captions: Sequence[Words]) -> dict[str, Tensor]:
        """The model's tensors, [B, T], padded; long captions are truncated."""
        lines = [spell_words(self.tokenizer, words) for words in captions]
        cut = self.limit is not None
        return dict(self.tokenizer(lines, padding=True, truncation=cut, max_length=self.limit, return_tensors="pt"))

    def fingerprint(self) -> str:
        """Hash of configuration, weights and tokenizer, wherever they are stored."""
        config = {name: value for name, value in self.model.config.to_dict().items() if name not in _NO_CONTENT}
        tokenizer = self.tokenizer
        words = tokenizer.backend_tokenizer.to_str() if tokenizer.is_fast else sorted(tokenizer.get_vocab().items())
        digest = hashlib.blake2b(repr((sorted(config.items()), words, self.limit)).encode(), digest_size=16)
        for name, tensor in self.model.state_dict().items():
            digest.update(f"{name} {tuple(tensor.shape)}".encode())
            digest.update(tensor.contiguous().numpy().tobytes())
        return digest.hexdigest()


def load_encoder(reference: str | None, *, where: str = "", mend: str | None = None) -> TextEncoder:
    """Load the text encoder in a folder, or of a name on the hub.

    Args:
        reference: the folder, or the name; None for BERT.
        where: how the user named it, for messages; "" for --reader.
        mend: what to do if it is not available; None to suggest a judge without BERT.

    Raises:
        JudgeError: no such folder or name; not a text encoder; no or broken safetensors; no tokenizer; transformers is
            not installed.
    """
    require("vision", "transformers")
    from transformers import AutoModel, AutoTokenizer
    from transformers.models.auto.modeling_auto import MODEL_FOR_MASKED_LM_MAPPING_NAMES

    mend = mend or _INSTEAD
    where = where or (f"--reader {reference}" if reference else f"text encoder '{READER}'")
    name = locate(reference or READER, where)
    with quiet():
        config = read_config(name, where, mend=mend)
        # Masked language models are text encoders.
        if config["model_type"] not in MODEL_FOR_MASKED_LM_MAPPING_NAMES or config.get("is_encoder_decoder"):
            what = f"'{config['model_type']}' is not a text encoder"
            raise JudgeError(what, where=where, mend="choose BERT, RoBERTa, DistilBERT or their like")
        with loading("its weights or tokenizer cannot be loaded safely", where, mend):
            model, notes = AutoModel.from_pretrained(
                name, dtype=torch.float32, trust_remote_code=False, use_safetensors=True, output_loading_info=True
            )
            tokenizer = AutoTokenizer.from_pretrained(name, trust_remote_code=False)
    check_weights(notes, where)
    if not knows_words(tokenizer) or tokenizer.pad_token_id is None:
        raise JudgeError("its tokenizer is missing", where=where, mend="save it beside the weights")
    tokenizer.padding_side = "right"
    return TextEncoder(model.eval(), tokenizer)


class FrozenEncoder(nn.Module):
    """A text encoder that is not trained: captions in, vectors out.

    Args:
        encoder: of the text.
        pooling: modules of sentence-transformers that turn token vectors into one; None for the first token ([CLS]).
    """

    def __init__(self, encoder: TextEncoder, pooling: nn.Module | None = None) -> None:
        super().__init__()
        self.encoder, self.pooling = encoder, pooling
        self.model: nn.Module = encoder.model.eval().requires_grad_(requires_grad=False)
        how = "cls" if pooling is None else str(pooling)
        self.key = f"{encoder.fingerprint()} {how} transformers {version('transformers')}"

    def collate(self, captions: Sequence[Words]) -> Batch:
        """The encoder's tokens, padded; long captions are truncated."""
        return self.encoder.tokens(captions)

    def forward(self, batch: Batch) -> Tensor:
        """[B, D]; padding has no influence."""
        states = self.model(**batch).last_hidden_state
        if self.pooling is None:
            first: Tensor = states[:, 0]
            return first
        pooled = self.pooling({"token_embeddings": states, "attention_mask": batch["attention_mask"]})
        found: Tensor = pooled["sentence_embedding"]
        return found


class PretrainedClassifier(nn.Module):
    """A fine-tuned encoder's vector of the caption ([CLS]), pre-computed features, or both -> classes.

    ``forward`` takes ``text`` (the encoder's tensors, [B, T]) and ``features`` [B, P, D], and returns logits [B, A].

    Args:
        output: [B, D] -> [B, A]; D is the encoder's width plus that of the features.
        encoder: fine-tuned with the rest; None where all features are pre-computed.
        features: averaged over positions, as by ResNet's own classifier; None for the caption alone.
    """

    def __init__(
        self, output: nn.Module, *, encoder: TextEncoder | None = None, features: Features | None = None
    ) -> None:
        super().__init__()
        self.text_encoder, self.features = encoder, features
        self.encoder: nn.Module | None = encoder.model if encoder else None
        self.output = output

    def collate(self, samples: Sequence[Sample]) -> Batch:
        """The encoder's tokens; features."""
        encoder = self.text_encoder
        text = {"text": encoder.tokens([sample.words for sample in samples])} if encoder else {}
        return text | ({"features": self.features.rows(samples)} if self.features else {})

    def forward(self, batch: Batch) -> Tensor:
        """Logits [B, A]."""
        parts = []
        if self.encoder:
            parts.append(self.encoder(**batch["text"]).last_hidden_state[:, 0])
        if self.features:
            parts.append(batch["features"].float().mean(dim=1))
        logits: Tensor = self.output(torch.cat(parts, dim=1))
        return logits
