"""Pretrained text encoders: BERT and its like, fine-tuned or frozen, and sentence encoders.

A frozen encoder reads each caption once, without dropout; its vectors are cached (``judge.training.features``).
Only code of transformers and sentence-transformers runs (``trust_remote_code`` is False); weights are safetensors.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from judge.errors import JudgeError, require
from judge.judges import Batch, Features
from judge.judges.hf_models import check_weights, limit_of, loading
from judge.judges.hf_prompts import spell_words
from judge.types import Sample, Words
from judge.utils.hub import knows_words, locate, quiet, read_config
from judge.utils.reading import read_text

READER = "bert-base-uncased"
_OTHERWISE = "name the folder of one with --reader, or use --judge vl-lic-lstm"
# RoBERTa and its like count positions from 2.
_OFFSET = 2
# Entries of a configuration that say where it was and which version wrote it.
_NO_CONTENT = {"_name_or_path", "transformers_version"}


@dataclass(frozen=True)
class TextEncoder:
    """A text encoder, loaded.

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
        """Tokens that it can read; None where nothing limits them."""
        known = limit_of(self.model.config, self.tokenizer)
        return None if known is None else known - _OFFSET

    def tokens(self, captions: Sequence[Words]) -> dict[str, Tensor]:
        """The model's tensors, [B, T], padded; captions that are too long are cut."""
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


def load_encoder(reference: str | None, *, where: str = "", mend: str = _OTHERWISE) -> TextEncoder:
    """Load the text encoder in a folder, or of a name on the hub.

    Args:
        reference: the folder, or the name; None for BERT.
        where: how the user named it, for messages; "" for --reader.
        mend: what to do if it is not available.

    Raises:
        JudgeError: no such folder or name; not a text encoder; no or broken safetensors; no tokenizer; transformers is
            not installed.
    """
    require("vision", "transformers")
    from transformers import AutoModel, AutoTokenizer
    from transformers.models.auto.modeling_auto import MODEL_FOR_MASKED_LM_MAPPING_NAMES

    where = where or (f"--reader {reference}" if reference else f"text encoder '{READER}'")
    name = locate(reference or READER, where)
    with quiet():
        config = read_config(name, where, mend=mend)
        # Models that fill masks in text are text encoders.
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
        """The encoder's tokens, padded; captions that are too long are cut."""
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


def load_sentence_encoder(name: str, *, where: str, mend: str, needs_pooling: bool = False) -> FrozenEncoder:
    """Load a frozen sentence encoder: pooled as its files say; the mean over tokens for a checkpoint of transformers.

    Args:
        name: its folder, or its name on the hub.
        where: how the user named it, for messages.
        mend: what to do if it is not available.
        needs_pooling: refuse a checkpoint without the files of sentence-transformers.

    Raises:
        JudgeError: as :func:`load_encoder`; a module that is not supported; sentence-transformers is not installed.
    """
    require("vision", "sentence_transformers")
    from sentence_transformers.sentence_transformer.modules import Normalize, Pooling

    listed = _read_json(name, "modules.json", where, mend)
    try:
        folders = {one["type"].rpartition(".")[2]: str(one["path"]) for one in listed or []}
    except (TypeError, KeyError, AttributeError) as error:
        raise JudgeError("its modules.json is damaged", where=where, mend=mend) from error
    if unknown := folders.keys() - {"Transformer", "Pooling", "Normalize"}:
        raise JudgeError(f"its module '{min(unknown)}' is not supported", where=where, mend=mend)
    if listed is not None and not {"Transformer", "Pooling"} <= folders.keys():
        raise JudgeError("its modules.json lists no transformer, or no pooling", where=where, mend=mend)
    own = folders.get("Transformer", "")
    encoder = load_encoder(f"{name}/{own}" if own else name, where=where, mend=mend)
    if listed is None and needs_pooling:
        raise JudgeError("its modules.json is missing, which says how it pools", where=where, mend=mend)
    if listed is None:
        return FrozenEncoder(encoder, Pooling(encoder.width, "mean"))
    settings = _read_json(name, f"{own}/sentence_bert_config.json".lstrip("/"), where, mend)
    limit = settings.get("max_seq_length") if isinstance(settings, dict) else None
    if isinstance(limit, int):
        encoder.tokenizer.model_max_length = min(encoder.tokenizer.model_max_length, max(limit, 8))
    with quiet(), loading("its pooling cannot be loaded", where, mend):
        parts: list[nn.Module] = [Pooling.load(name, subfolder=folders["Pooling"])]
    if "Normalize" in folders:
        parts.append(Normalize())
    return FrozenEncoder(encoder, nn.Sequential(*parts))


def _read_json(name: str, file: str, where: str, mend: str) -> Any:
    """The content of a JSON file of a checkpoint; None where it has none."""
    from transformers.utils.hub import cached_file

    try:
        with quiet():
            path = cached_file(name, file, _raise_exceptions_for_missing_entries=False)
    except OSError:  # No such name, or no hub.
        return None
    try:
        return None if path is None else json.loads(read_text(Path(path)))
    except (OSError, ValueError, RecursionError) as error:
        raise JudgeError(f"its {file} cannot be read", where=where, mend=mend) from error


class PretrainedClassifier(nn.Module):
    """A fine-tuned encoder's vector of the caption ([CLS]), computed features of caption or image, or both -> classes.

    ``forward`` takes ``text`` (the encoder's tensors, [B, T]) and ``features`` [B, P, D], and returns logits [B, A].

    Args:
        output: [B, D] -> [B, A]; D is the encoder's width plus that of the features.
        reader: fine-tuned with the rest; None where everything is computed before.
        features: averaged over positions, as by ResNet's own classifier; None where only the caption is read.
    """

    def __init__(
        self, output: nn.Module, *, reader: TextEncoder | None = None, features: Features | None = None
    ) -> None:
        super().__init__()
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
