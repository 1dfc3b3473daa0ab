"""Judges with a pretrained text encoder of transformers (BERT, RoBERTa, DistilBERT, ...): LIC's two, and VL-LIC.

Sources: Hirota et al., CVPR 2022, supplement A.1: BERT and a classifier (two linear layers, batch normalisation before
each, LeakyReLU between). ``bert-ft`` fine-tunes both, 5 epochs at 1e-5; ``bert-pre`` trains the classifier alone, 20
epochs at 5e-5, by Adam (the released code has AdamW with a decay of 0.1). The classifier's width of 256 is ours;
``bert-pre`` encodes each caption once, without dropout in BERT, and its vectors are cached (``training.features``).

Abdelrahman et al., AAAI 2024, section 5.7 (VL-LIC): ResNet-50 beside BERT, a classifier on both. The backbone is
frozen; its features are averaged over positions. The paper does not state how VL-LIC was trained: ``vl-lic`` is
trained like ``bert-ft``; ``vl-lic-lstm`` has LIC's LSTM in place of BERT, and is trained like that. Both keep the epoch
with the least validation loss.

``sentence:NAME`` is a frozen sentence encoder, by name or folder, and an MLP on its vector of a caption. Sources: DBAC,
section 5.3 (all-MiniLM-L6-v2, all-mpnet-base-v2, all-distilroberta-v1 and DistilBERT, each with a 3-layer MLP); DPAC
for 5 layers. Width, dropout and training of the MLP are **ours**: neither paper publishes them. A checkpoint of
sentence-transformers pools and normalises as its files say; the tokens of a checkpoint of transformers are averaged.

Code that comes with a checkpoint never runs (``trust_remote_code`` is False), and weights are safetensors.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from judge.errors import JudgeError, require
from judge.judges import Backbone, Batch, Blueprint, Features, Materials, Modality, Recipe
from judge.judges.backbones import RESNET50, make_backbone
from judge.judges.encoders import SOURCES, OutputLayer, build_vocabulary, make_lstm, make_mlp
from judge.judges.hf_models import limit_of
from judge.judges.hf_prompts import spell_words
from judge.judges.names import HEADS, SENTENCE, split_head
from judge.types import Sample, Target, Words
from judge.utils.files import from_home
from judge.utils.hub import explaining, knows_words, load_model, loading, locate, quiet, read_config
from judge.utils.identity import content_of
from judge.utils.reading import read_text

READER = "bert-base-uncased"
_INSTEAD = "name the folder of one with --reader, or use --judge lstm or vl-lic-lstm"
_OTHER_SENTENCES = "name the folder of one, or use --judge linear"
_HUB = "sentence-transformers"
SHORT_NAMES = {name: f"{_HUB}/{name}" for name in ("all-MiniLM-L6-v2", "all-mpnet-base-v2", "all-distilroberta-v1")} | {
    "distilbert-base-uncased": "distilbert/distilbert-base-uncased"
}


@dataclass(frozen=True)
class TextEncoder:
    """A text encoder of transformers, float32, on the CPU, and its tokenizer, which pads on the right.

    ``content``: of its files.
    """

    model: Any
    tokenizer: Any
    content: str

    @property
    def width(self) -> int:
        """Features of a token, D."""
        return int(self.model.config.hidden_size)

    @property
    def limit(self) -> int | None:
        """Longest input in tokens; None for no limit."""
        known = limit_of(self.model.config, self.tokenizer)
        return None if known is None else known - 2  # RoBERTa and similar models count positions from 2.

    def tokens(self, captions: Sequence[Words]) -> dict[str, Tensor]:
        """The model's tensors, [B, T], padded; long captions are truncated."""
        lines = [spell_words(self.tokenizer, words) for words in captions]
        cut = self.limit is not None
        return dict(self.tokenizer(lines, padding=True, truncation=cut, max_length=self.limit, return_tensors="pt"))


def load_encoder(reference: str | None, *, where: str = "", mend: str = _INSTEAD) -> TextEncoder:
    """Load the text encoder in a folder, or of a name on the hub; None for BERT.

    ``where``: how the user named it, for messages; "" for --reader.

    Raises:
        JudgeError: no such folder or name; not a text encoder; no or broken safetensors; no tokenizer; transformers is
            not installed.
    """
    require("vision", "transformers")
    from transformers import AutoModel, AutoTokenizer
    from transformers.models.auto.modeling_auto import MODEL_FOR_MASKED_LM_MAPPING_NAMES

    where = where or _named(reference)
    name = locate(reference or READER, where, mend=mend)
    with quiet():
        config = read_config(name, where, mend=mend)
        if config["model_type"] not in MODEL_FOR_MASKED_LM_MAPPING_NAMES or config.get("is_encoder_decoder"):
            what = f"'{config['model_type']}' is not a text encoder"  # Masked language models are.
            raise JudgeError(what, where=where, mend="choose BERT, RoBERTa, DistilBERT or their like")
        model = load_model(AutoModel, name, where, dtype=torch.float32)
        with loading("its tokenizer cannot be loaded safely", where, mend):
            tokenizer = AutoTokenizer.from_pretrained(name, trust_remote_code=False)
    if not knows_words(tokenizer) or tokenizer.pad_token_id is None:
        raise JudgeError("its tokenizer is missing", where=where, mend="save it beside the weights")
    tokenizer.padding_side = "right"
    return TextEncoder(model, tokenizer, content_of(name))


class FrozenEncoder(nn.Module):
    """A text encoder that is not trained: captions in, vectors out.

    ``pooling``: modules of sentence-transformers that turn token vectors into one; None for the first token ([CLS]).
    """

    def __init__(self, encoder: TextEncoder, pooling: nn.Module | None = None) -> None:
        super().__init__()
        self.encoder, self.pooling = encoder, pooling
        self.model: nn.Module = encoder.model.eval().requires_grad_(requires_grad=False)
        how = "cls" if pooling is None else str(pooling)
        self.key = f"{encoder.content} {how} transformers {version('transformers')}"

    def prepare(self, sample: Sample) -> Words:
        """Its words."""
        return sample.words

    def collate(self, prepared: Sequence[Words]) -> Batch:
        """The encoder's tokens, padded; long captions are truncated."""
        return self.encoder.tokens(prepared)

    def forward(self, batch: Batch) -> Tensor:
        """[B, D]; padding has no influence."""
        vectors: Tensor = self.model(**batch).last_hidden_state
        if self.pooling is None:
            return vectors[:, 0]
        given = {"token_embeddings": vectors, "attention_mask": batch["attention_mask"]}
        pooled: dict[str, Tensor] = self.pooling(given)
        return pooled["sentence_embedding"]


class PretrainedClassifier(nn.Module):
    """A fine-tuned encoder's vector of the caption ([CLS]), pre-computed features, or both -> classes.

    Features, [B, P, D], are averaged over positions, as by ResNet's own classifier. ``make_output`` makes the
    classifier, [B, D] -> [B, A], from D, the encoder's width plus that of the features.
    """

    def __init__(
        self, make_output: Callable[[int], nn.Module], features: Features | None, encoder: TextEncoder | None = None
    ) -> None:
        super().__init__()
        self.text_encoder, self.features = encoder, features
        self.encoder: nn.Module | None = encoder.model if encoder else None
        self.output = make_output((encoder.width if encoder else 0) + (features.shape[1] if features else 0))

    def collate(self, samples: Sequence[Sample]) -> Batch:
        """The encoder's tokens; features."""
        encoder = self.text_encoder
        text = {"text": encoder.tokens([sample.words for sample in samples])} if encoder else {}
        return text | ({"features": self.features.rows(samples)} if self.features else {})

    def forward(self, batch: Batch) -> Tensor:
        """Logits [B, A]."""
        texts = [self.encoder(**batch["text"]).last_hidden_state[:, 0]] if self.encoder else []
        images = [batch["features"].float().mean(dim=1)] if self.features else []
        logits: Tensor = self.output(torch.cat([*texts, *images], dim=1))
        return logits


class BatchNorm(nn.BatchNorm1d):
    """Batch normalisation that normalises a batch of one by the running statistics."""

    def forward(self, x: Tensor) -> Tensor:
        """[B, D] -> [B, D]."""
        if len(x) > 1 or not self.training:
            return super().forward(x)
        return nn.functional.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, eps=self.eps)


def make_classifier(inputs: int, classes: int, *, width: int = 256) -> nn.Sequential:
    """LIC's: two linear layers, ``width`` between them, batch normalisation before each; [B, D] -> [B, A]."""
    return nn.Sequential(
        BatchNorm(inputs), nn.Linear(inputs, width), BatchNorm(width), nn.LeakyReLU(), OutputLayer(width, classes)
    )


class ImageTextClassifier(nn.Module):
    """LIC's LSTM on the caption beside features of the image, [B, P, D], averaged over positions -> classes."""

    def __init__(self, vocabulary: Mapping[str, int], classes: int, features: Features) -> None:
        super().__init__()
        self.vocabulary, self.features = vocabulary, features
        self.text = make_lstm(vocabulary, 256)
        self.image = nn.Sequential(nn.LayerNorm(features.shape[1]), nn.Linear(features.shape[1], 256))
        self.output = nn.Sequential(nn.ReLU(), nn.Dropout(0.5), OutputLayer(512, classes))

    def collate(self, samples: Sequence[Sample]) -> Batch:
        """Word ids, padded; features of the images."""
        return {**self.text.collate(samples), "features": self.features.rows(samples)}

    def forward(self, batch: Batch) -> Tensor:
        """Logits [B, A]."""
        both = [self.text(batch), self.image(batch["features"].float().mean(dim=1))]
        logits: Tensor = self.output(torch.cat(both, dim=1))
        return logits


def _network(
    target: Target, samples: Sequence[Sample], materials: Materials, *, tuned: bool = True
) -> PretrainedClassifier:
    """``bert-ft``; ``vl-lic``, which has features of images; ``bert-pre``, which is not ``tuned``, of captions."""
    encoder = load_encoder(materials.reader) if tuned else None
    return PretrainedClassifier(partial(make_classifier, classes=len(target.classes)), materials.features, encoder)


def _with_lstm(target: Target, samples: Sequence[Sample], materials: Materials) -> ImageTextClassifier:
    assert materials.features is not None
    return ImageTextClassifier(build_vocabulary(samples), len(target.classes), materials.features)


def _backbone(materials: Materials) -> Backbone:
    load_encoder(materials.reader)  # Refuse a bad encoder before the features of all images are computed.
    return make_backbone(materials, RESNET50)


def _named(reference: str | None) -> str:
    return f"--reader {reference}" if reference else f"text encoder '{READER}'"


def _fingerprint(materials: Materials) -> dict[str, str]:
    require("vision", "transformers")
    content = content_of(materials.reader or READER, where=_named(materials.reader))
    return {"the version of transformers": version("transformers"), "reader": content}


def _on_vectors(head: int, target: Target, samples: Sequence[Sample], materials: Materials) -> PretrainedClassifier:
    return PretrainedClassifier(partial(make_mlp, classes=len(target.classes), layers=head), materials.features)


@dataclass(frozen=True, slots=True)
class SentenceEncoderLoader:
    """Loads a frozen sentence encoder; equal loaders share its vectors."""

    reference: str

    def __call__(self, materials: Materials) -> FrozenEncoder:  # noqa: D102, ARG002 - required by Blueprint.reader
        require("vision", "sentence_transformers")
        from sentence_transformers.sentence_transformer.modules import Normalize, Pooling

        reference, where = self.reference, f"--judge {SENTENCE}{self.reference}"
        if not from_home(reference).is_dir():
            name, at, revision = reference.partition("@")
            reference = f"{SHORT_NAMES.get(name, name)}{at}{revision}"
        folder = Path(locate(reference, where, mend=_OTHER_SENTENCES))
        modules = _read_modules(folder, where)
        own = "" if modules is None else modules["Transformer"]
        encoder = load_encoder(str(folder / own), where=where, mend=_OTHER_SENTENCES)
        if modules is None:
            # The hub's cache may hold weights without modules.json; averaging could then be another encoder.
            if reference.startswith(f"{_HUB}/"):
                what = "its modules.json is missing, which says how it pools"
                raise JudgeError(what, where=where, mend=_OTHER_SENTENCES)
            return FrozenEncoder(encoder, Pooling(encoder.width, "mean"))
        settings = _read_json(folder / own / "sentence_bert_config.json", where)
        limit = settings.get("max_seq_length") if isinstance(settings, dict) else None
        if isinstance(limit, int):
            encoder.tokenizer.model_max_length = min(encoder.tokenizer.model_max_length, max(limit, 8))
        with quiet(), loading("its pooling cannot be loaded", where, _OTHER_SENTENCES):
            pooling = Pooling.load(str(folder), subfolder=modules["Pooling"])
        return FrozenEncoder(encoder, nn.Sequential(pooling, *([Normalize()] if "Normalize" in modules else [])))


def _read_modules(folder: Path, where: str) -> dict[str, str] | None:
    """Class -> folder of each module of sentence-transformers; None for a checkpoint of transformers."""
    listed = _read_json(folder / "modules.json", where)
    if listed is None:
        return None
    with explaining("its modules.json is damaged", where, _OTHER_SENTENCES):
        folders = {one["type"].rpartition(".")[2]: str(one["path"]) for one in listed}
    if unknown := folders.keys() - {"Transformer", "Pooling", "Normalize"}:
        raise JudgeError(f"its module '{min(unknown)}' is not supported", where=where, mend=_OTHER_SENTENCES)
    if not {"Transformer", "Pooling"} <= folders.keys():
        raise JudgeError("its modules.json lists no transformer, or no pooling", where=where, mend=_OTHER_SENTENCES)
    return folders


def _read_json(path: Path, where: str) -> Any:
    """The content of a JSON file of a checkpoint; None where it has none."""
    with explaining(f"its {path.name} cannot be read", where, _OTHER_SENTENCES):
        return json.loads(read_text(path)) if path.exists() else None


def make_blueprint(name: str) -> Blueprint:
    """The judge of an encoder, a name on the hub or a folder, and "+mlp5" or "+mlp3", which is the default."""
    reference, head = split_head(name)
    if not reference.strip():
        mend = f"name one, or the folder of one: {', '.join(f'{SENTENCE}{name}' for name in SHORT_NAMES)}"
        raise JudgeError("no sentence encoder is named", where=f"--judge {SENTENCE}", mend=mend)
    layers = head or HEADS[0]
    return Blueprint(
        f"{SENTENCE}{reference}{f'+mlp{head}' if head else ''}",
        f"{SOURCES[layers]}; the MLP's sizes and training are this project's",
        network=partial(_on_vectors, layers),
        recipe=Recipe(epochs=8, learning_rate=1e-3, batch_size=64),
        reader=SentenceEncoderLoader(reference),
    )


_LIC = "hirota2022quantifying, supplement A.1"
_VL_LIC = f"abdelrahman2024imagecaptioner2, section 5.7; {_LIC}"
_BOTH: frozenset[Modality] = frozenset({"caption", "image"})

# No micro-batches, and no sharing of batches: batch normalisation depends on all samples of a forward pass.
_TUNED, _FROZEN = Recipe(epochs=5, learning_rate=1e-5), Recipe(epochs=20, learning_rate=5e-5)
_READS: dict[str, Any] = {"fingerprint": _fingerprint, "reads": frozenset({"reader"})}
_MADE = (
    Blueprint("bert-ft", f"{_LIC}; devlin2019bert", network=_network, recipe=_TUNED, **_READS),
    Blueprint(
        "bert-pre",
        f"{_LIC}; devlin2019bert",
        network=partial(_network, tuned=False),
        recipe=_FROZEN,
        reader=lambda materials: FrozenEncoder(load_encoder(materials.reader)),
        **_READS,
    ),
    Blueprint(
        "vl-lic",
        f"{_VL_LIC}; devlin2019bert",
        network=_network,
        recipe=replace(_TUNED, keep="best"),
        modalities=_BOTH,
        backbone=_backbone,
        **_READS,
    ),
    Blueprint(
        "vl-lic-lstm",
        _VL_LIC,
        network=_with_lstm,
        recipe=replace(_FROZEN, keep="best"),
        modalities=_BOTH,
        backbone=partial(make_backbone, default=RESNET50),
    ),
)
BLUEPRINTS = {blueprint.name: blueprint for blueprint in _MADE}
