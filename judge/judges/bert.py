"""LIC's two judges with BERT, or another text encoder of transformers, and VL-LIC, which reads the image too.

Sources: Hirota et al., CVPR 2022, supplement A.1: BERT and a classifier (two linear layers, batch normalisation before
each, LeakyReLU between). ``bert-ft`` fine-tunes both, 5 epochs at 1e-5; ``bert-pre`` trains the classifier alone, 20
epochs at 5e-5, by Adam (the released code has AdamW with a decay of 0.1). The classifier's width of 256 is ours;
``bert-pre`` encodes each caption once, without dropout in BERT.

Abdelrahman et al., AAAI 2024, section 5.7 (VL-LIC): ResNet-50 beside BERT, a classifier on both. The backbone is
frozen; its features are averaged over positions. ``vl-lic`` is trained like ``bert-ft``; ``vl-lic-lstm`` has LIC's LSTM
in place of BERT.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from importlib.metadata import version

import torch
from torch import Tensor, nn

from judge.errors import require
from judge.judges import Backbone, Batch, Blueprint, Features, Materials, Modality, Recipe
from judge.judges.backbones import RESNET50, make_backbone
from judge.judges.encoders import OutputLayer, build_vocabulary, make_lstm
from judge.judges.text_encoders import READER, FrozenEncoder, PretrainedClassifier, load_encoder
from judge.types import Sample, Target
from judge.utils.files import fingerprint_of

_INSTEAD_OF_BERT = "name the folder of one with --reader, or use --judge lstm"


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
    """LIC's LSTM on the caption beside features of the image -> classes.

    ``forward`` takes what :func:`~judge.judges.encoders.number_words` makes and ``features`` [B, P, D], and returns
    logits [B, A].

    Args:
        vocabulary: word -> row of the embedding.
        classes: A.
        features: of images; averaged over positions, as ResNet's own classifier does.
        width: of the caption's vector, and of the image's.
        dropout: before the output.
    """

    def __init__(
        self, vocabulary: Mapping[str, int], classes: int, features: Features, *, width: int = 256, dropout: float = 0.5
    ) -> None:
        super().__init__()
        self.vocabulary, self.features = vocabulary, features
        self.text = make_lstm(vocabulary, width)
        self.image = nn.Sequential(nn.LayerNorm(features.shape[1]), nn.Linear(features.shape[1], width))
        self.output = nn.Sequential(nn.ReLU(), nn.Dropout(dropout), OutputLayer(2 * width, classes))

    def collate(self, samples: Sequence[Sample]) -> Batch:
        """Word ids, padded; features of the images."""
        return {**self.text.collate(samples), "features": self.features.rows(samples)}

    def forward(self, batch: Batch) -> Tensor:
        """Logits [B, A]."""
        both = [self.text(batch), self.image(batch["features"].float().mean(dim=1))]
        logits: Tensor = self.output(torch.cat(both, dim=1))
        return logits


def _fine_tuned(
    instead: str | None, target: Target, samples: Sequence[Sample], materials: Materials
) -> PretrainedClassifier:
    """``bert-ft``, or ``vl-lic`` where there are features of images."""
    encoder = load_encoder(materials.reader, mend=instead)
    features = materials.features
    inputs = encoder.width + (features.shape[1] if features else 0)
    return PretrainedClassifier(make_classifier(inputs, len(target.classes)), encoder=encoder, features=features)


def _frozen(target: Target, samples: Sequence[Sample], materials: Materials) -> PretrainedClassifier:
    assert materials.features is not None
    output = make_classifier(materials.features.shape[1], len(target.classes))
    return PretrainedClassifier(output, features=materials.features)


def _with_lstm(target: Target, samples: Sequence[Sample], materials: Materials) -> ImageTextClassifier:
    assert materials.features is not None
    return ImageTextClassifier(build_vocabulary(samples), len(target.classes), materials.features)


def _first_token(materials: Materials) -> FrozenEncoder:
    return FrozenEncoder(load_encoder(materials.reader, mend=_INSTEAD_OF_BERT))


def _backbone(materials: Materials) -> Backbone:
    load_encoder(materials.reader)  # Refuse a bad encoder before the features of all images are computed.
    return make_backbone(materials, RESNET50)


def _fingerprint(materials: Materials) -> object:
    """What a fine-tuned encoder starts from: the library's version and the files of its folder."""
    require("vision", "transformers")
    return version("transformers"), fingerprint_of(materials.reader or READER)


_LIC = "hirota2022quantifying, supplement A.1"
_VL_LIC = f"abdelrahman2024imagecaptioner2, section 5.7; {_LIC}"
_BOTH: frozenset[Modality] = frozenset({"caption", "image"})

# No micro-batches, and no sharing of batches: batch normalisation depends on all samples of a forward pass.
BLUEPRINTS = {
    "bert-ft": Blueprint(
        "bert-ft",
        f"{_LIC}; devlin2019bert",
        network=partial(_fine_tuned, _INSTEAD_OF_BERT),
        recipe=Recipe(epochs=5, learning_rate=1e-5, batch_size=64),
        fingerprint=_fingerprint,
        reads=frozenset({"reader"}),
    ),
    "bert-pre": Blueprint(
        "bert-pre",
        f"{_LIC}; devlin2019bert",
        network=_frozen,
        recipe=Recipe(epochs=20, learning_rate=5e-5, batch_size=64),
        reader=_first_token,
        reads=frozenset({"reader"}),
    ),
    "vl-lic": Blueprint(
        "vl-lic",
        f"{_VL_LIC}; devlin2019bert",
        network=partial(_fine_tuned, None),
        recipe=Recipe(epochs=5, learning_rate=1e-5, batch_size=64, keep="best"),
        modalities=_BOTH,
        backbone=_backbone,
        fingerprint=_fingerprint,
        reads=frozenset({"reader"}),
    ),
    "vl-lic-lstm": Blueprint(
        "vl-lic-lstm",
        _VL_LIC,
        network=_with_lstm,
        recipe=Recipe(epochs=20, learning_rate=2e-4, batch_size=64, keep="best"),
        modalities=_BOTH,
        backbone=partial(make_backbone, default=RESNET50),
    ),
}
