"""VL-LIC, a classifier on image and text: LIC's judge, which also sees the picture.

Source: Abdelrahman et al., AAAI 2024, section 5.7: ResNet-50 beside BERT, a classifier on both. The backbone is not
trained; its features are averaged. ``vl-lic`` is trained as ``bert-ft``; ``vl-lic-lstm`` reads with LIC's LSTM.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor, nn

from judge.judges import Backbone, Batch, Blueprint, Features, Materials, Recipe
from judge.judges.backbones import RESNET50, make_backbone
from judge.judges.bert import fingerprint, make_classifier
from judge.judges.output import OutputLayer
from judge.judges.recurrent import RecurrentClassifier, build_vocabulary
from judge.judges.text_encoders import PretrainedClassifier, load_encoder
from judge.types import Sample, Target


class ImageTextClassifier(nn.Module):
    """LIC's LSTM on the caption and features of the picture, side by side -> classes.

    ``forward`` takes what its reader takes, and ``features`` [B, P, D], and returns logits [B, A].

    Args:
        vocabulary: word -> row of the embedding.
        classes: A.
        features: pictures as the backbone sees them; averaged over positions, as ResNet's own classifier does.
        width: of what is made of the caption and of the picture.
        dropout: before the output.
    """

    def __init__(
        self, vocabulary: dict[str, int], classes: int, features: Features, *, width: int = 256, dropout: float = 0.5
    ) -> None:
        super().__init__()
        self.features = features
        self.reader = RecurrentClassifier(vocabulary, width)
        self.sight = nn.Sequential(nn.LayerNorm(features.shape[1]), nn.Linear(features.shape[1], width))
        self.output = nn.Sequential(nn.ReLU(), nn.Dropout(dropout), OutputLayer(2 * width, classes))

    @property
    def vocabulary(self) -> dict[str, int]:
        """Word -> row of the embedding."""
        return self.reader.vocabulary

    def collate(self, samples: Sequence[Sample]) -> Batch:
        """Word ids, padded; pictures' features."""
        return {**self.reader.collate(samples), "features": self.features.rows(samples)}

    def forward(self, batch: Batch) -> Tensor:
        """Logits [B, A]."""
        both = [self.reader(batch), self.sight(batch["features"].float().mean(dim=1))]
        logits: Tensor = self.output(torch.cat(both, dim=1))
        return logits


def _vl_lic(target: Target, samples: Sequence[Sample], materials: Materials) -> PretrainedClassifier:
    assert materials.features is not None
    reader = load_encoder(materials.reader)
    output = make_classifier(reader.width + materials.features.shape[1], len(target.classes))
    return PretrainedClassifier(output, reader=reader, features=materials.features)


def _vl_lic_lstm(target: Target, samples: Sequence[Sample], materials: Materials) -> ImageTextClassifier:
    assert materials.features is not None
    return ImageTextClassifier(build_vocabulary(samples), len(target.classes), materials.features)


def _backbone(materials: Materials) -> Backbone:
    load_encoder(materials.reader)  # Better refused now than when all pictures have been read.
    return make_backbone(materials, RESNET50)


BLUEPRINTS = {
    "vl-lic": Blueprint(
        "vl-lic",
        "abdelrahman2024imagecaptioner2, section 5.7; hirota2022quantifying, supplement A.1; devlin2019bert",
        network=_vl_lic,
        recipe=Recipe(epochs=5, learning_rate=1e-5, batch_size=64, keep="best"),
        modalities=frozenset({"caption", "image"}),
        backbone=_backbone,
        fingerprint=fingerprint,
        reads=frozenset({"reader"}),
    ),
    "vl-lic-lstm": Blueprint(
        "vl-lic-lstm",
        "abdelrahman2024imagecaptioner2, section 5.7; hirota2022quantifying, supplement A.1",
        network=_vl_lic_lstm,
        recipe=Recipe(epochs=20, learning_rate=2e-4, batch_size=64, keep="best"),
        modalities=frozenset({"caption", "image"}),
        backbone=partial(make_backbone, default=RESNET50),
    ),
}
