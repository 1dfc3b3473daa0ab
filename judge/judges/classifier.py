"""A classifier on image and text: LIC's judge, which now also sees the picture.

Source: Abdelrahman et al., AAAI 2024, section 5.7 (VL-LIC): ResNet-50 beside LIC's text encoder, a classifier on both.
``vl-lic-lstm`` reads with LIC's LSTM, where the paper (and ``vl-lic``) reads with BERT.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from judge.judges import Backbone, Batch, Blueprint, Features, Materials, Recipe
from judge.judges.backbones import RESNET50, make_backbone
from judge.judges.recurrent import RecurrentClassifier, build_vocabulary
from judge.types import Sample, Target


class ImageTextClassifier(nn.Module):
    """What is read and what is seen, side by side -> classes.

    ``forward`` takes the reader's ``tokens`` and ``lengths``, and ``features`` [B, P, D], and returns logits [B, A].

    Args:
        vocabulary: word -> row of the embedding.
        classes: A.
        features: pictures as the backbone sees them; averaged over positions, as ResNet's own classifier does.
        width: of what is read and of what is seen.
        dropout: before the output.
    """

    def __init__(
        self, vocabulary: dict[str, int], classes: int, features: Features, *, width: int = 256, dropout: float = 0.5
    ) -> None:
        super().__init__()
        self.features = features
        self.reader = RecurrentClassifier(vocabulary, width)
        self.sight = nn.Sequential(nn.LayerNorm(features.shape[1]), nn.Linear(features.shape[1], width))
        self.output = nn.Sequential(nn.ReLU(), nn.Dropout(dropout), nn.Linear(2 * width, classes))

    def collate(self, samples: Sequence[Sample]) -> Batch:
        """Word ids, padded; pictures' features."""
        return {**self.reader.collate(samples), "features": self.features.rows(samples)}

    def forward(self, batch: Batch) -> Tensor:
        """Logits [B, A]."""
        both = [self.reader(batch), self.sight(batch["features"].mean(dim=1))]
        logits: Tensor = self.output(torch.cat(both, dim=1))
        return logits


def _vl_lic(target: Target, samples: Sequence[Sample], materials: Materials) -> ImageTextClassifier:
    assert materials.features is not None
    return ImageTextClassifier(build_vocabulary(samples), len(target.classes), materials.features)


def _backbone(materials: Materials) -> Backbone:
    return make_backbone(materials, RESNET50)


BLUEPRINTS = {
    "vl-lic-lstm": Blueprint(
        "vl-lic-lstm",
        "abdelrahman2024imagecaptioner2, section 5.7; hirota2022quantifying, supplement A.1",
        network=_vl_lic,
        recipe=Recipe(epochs=20, learning_rate=2e-4, batch_size=64, keep="best"),
        modalities=frozenset({"caption", "image"}),
        backbone=_backbone,
    )
}
