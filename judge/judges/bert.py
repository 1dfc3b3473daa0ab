"""LIC's two judges with BERT, or another text encoder of transformers.

Source: Hirota et al., CVPR 2022, supplement A.1: BERT and a classifier (two linear layers, batch normalisation before
each, LeakyReLU between). ``bert-ft`` fine-tunes both, 5 epochs at 1e-5; ``bert-pre`` trains the classifier alone, 20
epochs at 5e-5, by Adam (the released code has AdamW with a decay of 0.1). The classifier's width of 256 is ours;
``bert-pre`` reads each caption once, without dropout in BERT.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version

from torch import Tensor, nn

from judge.errors import require
from judge.judges import Blueprint, Materials, Recipe
from judge.judges.output import OutputLayer
from judge.judges.text_encoders import READER, FrozenEncoder, PretrainedClassifier, load_encoder
from judge.types import Sample, Target
from judge.utils.files import fingerprint_of

_OTHERWISE = "name the folder of one with --reader, or use --judge lstm"


class BatchNorm(nn.BatchNorm1d):
    """Batch normalisation that takes a batch of one: it is normalised by the running statistics."""

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


def _bert_ft(target: Target, samples: Sequence[Sample], materials: Materials) -> PretrainedClassifier:
    reader = load_encoder(materials.reader, mend=_OTHERWISE)
    return PretrainedClassifier(make_classifier(reader.width, len(target.classes)), reader=reader)


def _bert_pre(target: Target, samples: Sequence[Sample], materials: Materials) -> PretrainedClassifier:
    assert materials.features is not None
    output = make_classifier(materials.features.shape[1], len(target.classes))
    return PretrainedClassifier(output, features=materials.features)


def _first_token(materials: Materials) -> FrozenEncoder:
    return FrozenEncoder(load_encoder(materials.reader, mend=_OTHERWISE))


def fingerprint(materials: Materials) -> object:
    """What a fine-tuned encoder starts from: the library's version and the files of its folder."""
    require("vision", "transformers")
    return version("transformers"), fingerprint_of(materials.reader or READER)


# Neither micro-batches nor shares: batch normalisation is over all that passes at once.
BLUEPRINTS = {
    "bert-ft": Blueprint(
        "bert-ft",
        "hirota2022quantifying, supplement A.1; devlin2019bert",
        network=_bert_ft,
        recipe=Recipe(epochs=5, learning_rate=1e-5, batch_size=64),
        fingerprint=fingerprint,
        reads=frozenset({"reader"}),
    ),
    "bert-pre": Blueprint(
        "bert-pre",
        "hirota2022quantifying, supplement A.1; devlin2019bert",
        network=_bert_pre,
        recipe=Recipe(epochs=20, learning_rate=5e-5, batch_size=64),
        reader=_first_token,
        reads=frozenset({"reader"}),
    ),
}
