"""Judges that read with a text encoder of transformers, BERT unless told otherwise: LIC's two, and VL-LIC.

Source: Hirota et al., CVPR 2022, supplement A.1: BERT and a classifier (two linear layers, batch normalisation before
each, LeakyReLU between). ``bert-ft`` fine-tunes both, 5 epochs at 1e-5; ``bert-pre`` trains the classifier alone, 20
epochs at 5e-5, by Adam (the released code has AdamW with a decay of 0.1). The classifier's width of 256 is ours;
``bert-pre`` reads each caption once, without dropout in BERT.
Abdelrahman et al., AAAI 2024, section 5.7, for ``vl-lic``: ResNet-50 beside BERT, a classifier on both, trained as
``bert-ft``; the picture's features stay as they are, averaged.

Only what transformers itself brings runs here: ``trust_remote_code`` is always False, and weights are safetensors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from judge.errors import JudgeError, require
from judge.judges import Backbone, Batch, Blueprint, Features, Materials, Recipe
from judge.judges.backbones import RESNET50, make_backbone
from judge.judges.frozen import FrozenClassifier, FrozenEncoder
from judge.judges.hf_models import check_weights, room_for_text
from judge.judges.hf_prompts import spell_words
from judge.types import Sample, Target
from judge.utils.files import fingerprint_of
from judge.utils.hub import first_line, knows_words, quiet

READER = "bert-base-uncased"
_OTHERWISE = "name the folder of one with --reader, or use --judge vl-lic-lstm"
_OTHER_TEXT = "name the folder of one with --reader, or use --judge lstm"
# RoBERTa and its like count positions from 2.
_OFFSET = 2


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
    def room(self) -> int | None:
        """Tokens that it can read; None where nothing limits them."""
        known = room_for_text(self.model.config, self.tokenizer)
        return None if known is None else known - _OFFSET

    def tokens(self, captions: Sequence[tuple[str, ...]]) -> dict[str, Tensor]:
        """The model's own tensors, [B, T], padded; of a caption too long for it the beginning."""
        lines = [spell_words(self.tokenizer, words) for words in captions]
        cut = self.room is not None
        return dict(self.tokenizer(lines, padding=True, truncation=cut, max_length=self.room, return_tensors="pt"))


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
    import transformers

    where = where or (f"--reader {reference}" if reference else f"text encoder '{READER}'")
    path = Path(reference or READER).expanduser()
    name = str(path) if path.is_dir() else (reference or READER)
    if not path.is_dir() and (path.is_absolute() or name.startswith((".", "~"))):
        raise JudgeError("no such folder", where=where, mend="check the path")
    loader: Any = transformers
    with quiet():
        _check_kind(name, where, mend)
        try:
            model, notes = loader.AutoModel.from_pretrained(
                name, dtype=torch.float32, trust_remote_code=False, use_safetensors=True, output_loading_info=True
            )
            tokenizer = loader.AutoTokenizer.from_pretrained(name, trust_remote_code=False)
        except Exception as error:  # The hub's client, the file system and transformers each have errors of their own.
            what = f"its weights or tokenizer cannot be had in safe form ({first_line(error)})"
            raise JudgeError(what, where=where, mend=mend) from error
    check_weights(notes, where)
    if not knows_words(tokenizer) or tokenizer.pad_token_id is None:
        raise JudgeError("its tokenizer is missing", where=where, mend="save it beside the weights")
    tokenizer.padding_side = "right"
    return Reader(model.eval(), tokenizer)


def _check_kind(name: str, where: str, mend: str) -> None:
    """Look at the configuration before any weight is touched: what fills masks in text is an encoder of text."""
    from transformers import PreTrainedConfig
    from transformers.models.auto.modeling_auto import MODEL_FOR_MASKED_LM_MAPPING_NAMES

    try:
        config: dict[str, Any] = PreTrainedConfig.get_config_dict(name)[0]
    except Exception as error:
        raise JudgeError(f"cannot be had ({first_line(error)})", where=where, mend=mend) from error
    kind = config.get("model_type")
    if kind not in MODEL_FOR_MASKED_LM_MAPPING_NAMES or config.get("is_encoder_decoder"):
        what = f"'{kind}' is no encoder of text" if kind else "no checkpoint of transformers is there (config.json)"
        raise JudgeError(what, where=where, mend="choose BERT, RoBERTa, DistilBERT or their like")


class BatchNorm(nn.BatchNorm1d):
    """Batch normalisation that stands a batch of one: by what it has seen so far."""

    def forward(self, x: Tensor) -> Tensor:
        """[B, D] -> [B, D]."""
        if len(x) > 1 or not self.training:
            return super().forward(x)
        return nn.functional.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, eps=self.eps)


def make_classifier(inputs: int, classes: int, *, width: int = 256) -> nn.Sequential:
    """LIC's: two linear layers, ``width`` between them, batch normalisation before each; [B, D] -> [B, A]."""
    return nn.Sequential(
        BatchNorm(inputs), nn.Linear(inputs, width), BatchNorm(width), nn.LeakyReLU(), nn.Linear(width, classes)
    )


class PretrainedClassifier(nn.Module):
    """What an encoder reads and, for judges that see, what is seen, side by side -> classes.

    ``forward`` takes ``text`` (the encoder's own tensors, [B, T]) and ``features`` [B, P, D], and returns logits
    [B, A]. The encoder's output at its first token ([CLS]) stands for the caption.

    Args:
        reader: fine-tuned with the rest.
        classes: A.
        features: pictures as the backbone sees them; averaged over positions, as ResNet's own classifier does. None
            for a judge that only reads.
    """

    def __init__(self, reader: Reader, classes: int, features: Features | None = None) -> None:
        super().__init__()
        self.has_idle_weights = True  # Of a pooler, which is not asked.
        self.reader, self.features = reader, features
        self.encoder: nn.Module = reader.model
        seen = features.shape[1] if features else 0
        self.output = make_classifier(reader.model.config.hidden_size + seen, classes)

    def collate(self, samples: Sequence[Sample]) -> Batch:
        """The encoder's tokens; pictures' features."""
        text = self.reader.tokens([sample.words for sample in samples])
        return {"text": text} | ({"features": self.features.rows(samples)} if self.features else {})

    def forward(self, batch: Batch) -> Tensor:
        """Logits [B, A]."""
        read = self.encoder(**batch["text"]).last_hidden_state[:, 0]
        both = torch.cat([read, batch["features"].mean(dim=1)], dim=1) if self.features else read
        logits: Tensor = self.output(both)
        return logits


def _vl_lic(target: Target, samples: Sequence[Sample], materials: Materials) -> PretrainedClassifier:
    assert materials.features is not None
    return PretrainedClassifier(load_reader(materials.reader), len(target.classes), materials.features)


def _bert_ft(target: Target, samples: Sequence[Sample], materials: Materials) -> PretrainedClassifier:
    return PretrainedClassifier(load_reader(materials.reader, mend=_OTHER_TEXT), len(target.classes))


def _bert_pre(target: Target, samples: Sequence[Sample], materials: Materials) -> FrozenClassifier:
    assert materials.features is not None
    return FrozenClassifier(materials.features, make_classifier(materials.features.shape[1], len(target.classes)))


def _backbone(materials: Materials) -> Backbone:
    load_reader(materials.reader)  # Better refused now than when all pictures have been looked at.
    return make_backbone(materials, RESNET50)


def _first_token(materials: Materials) -> FrozenEncoder:
    return FrozenEncoder(load_reader(materials.reader, mend=_OTHER_TEXT))


def _fingerprint(materials: Materials) -> object:
    require("vision", "transformers")
    return version("transformers"), fingerprint_of(materials.reader or READER)


# Neither micro-batches nor shares for any of them: batch normalisation is of what passes at once.
BLUEPRINTS = {
    "bert-ft": Blueprint(
        "bert-ft",
        "hirota2022quantifying, supplement A.1; devlin2019bert",
        network=_bert_ft,
        recipe=Recipe(epochs=5, learning_rate=1e-5, batch_size=64),
        fingerprint=_fingerprint,
    ),
    "bert-pre": Blueprint(
        "bert-pre",
        "hirota2022quantifying, supplement A.1; devlin2019bert",
        network=_bert_pre,
        recipe=Recipe(epochs=20, learning_rate=5e-5, batch_size=64),
        reader=_first_token,
    ),
    "vl-lic": Blueprint(
        "vl-lic",
        "abdelrahman2024imagecaptioner2, section 5.7; hirota2022quantifying, supplement A.1; devlin2019bert",
        network=_vl_lic,
        recipe=Recipe(epochs=5, learning_rate=1e-5, batch_size=64, keep="best"),
        modalities=frozenset({"caption", "image"}),
        backbone=_backbone,
        fingerprint=_fingerprint,
    ),
}
