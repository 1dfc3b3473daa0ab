"""``sentence:NAME``: a frozen sentence encoder, by name or folder, and an MLP on its vector of a caption.

Source: DBAC, section 5.3 (all-MiniLM-L6-v2, all-mpnet-base-v2, all-distilroberta-v1 and DistilBERT, each with a 3-layer
MLP); DPAC for 5 layers. Width, dropout and training of the MLP are **ours**: neither paper publishes them.

A checkpoint of sentence-transformers pools and normalises as its files say; the tokens of one of transformers are
averaged. Each caption is read once (``judge.training.features``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from judge.errors import JudgeError
from judge.judges import HEADS, SENTENCE, Blueprint, Materials, Recipe, split_head
from judge.judges.encoders import SOURCES, make_mlp
from judge.judges.text_encoders import FrozenEncoder, PretrainedClassifier, load_sentence_encoder
from judge.types import Sample, Target
from judge.utils.files import from_home

_HUB = "sentence-transformers"
SHORT_NAMES = {name: f"{_HUB}/{name}" for name in ("all-MiniLM-L6-v2", "all-mpnet-base-v2", "all-distilroberta-v1")} | {
    "distilbert-base-uncased": "distilbert/distilbert-base-uncased"
}


@dataclass(frozen=True, slots=True)
class SentenceReader:
    """Loads the encoder of a reference; a value, so that all judges with the same one share its vectors."""

    reference: str

    def __call__(self, materials: Materials) -> FrozenEncoder:  # noqa: ARG002 - every maker is given them
        """Load it.

        Raises:
            JudgeError: as :func:`~judge.judges.text_encoders.load_sentence_encoder`.
        """
        folder = from_home(self.reference)
        name = str(folder) if folder.is_dir() else SHORT_NAMES.get(self.reference, self.reference)
        # The hub's cache may hold an encoder's weights without its pooling: the mean would be another encoder.
        return load_sentence_encoder(
            name,
            where=f"--judge {SENTENCE}{self.reference}",
            mend="name the folder of one, or use --judge linear",
            needs_pooling=name.startswith(f"{_HUB}/"),
        )


def make_blueprint(name: str) -> Blueprint:
    """The judge of an encoder.

    Args:
        name: a name on the hub or a folder, and "+mlp3" or "+mlp5"; an MLP of 3 layers without.

    Raises:
        JudgeError: nothing is named.
    """
    reference, head = split_head(name)
    if not reference.strip():
        mend = f"name one, or the folder of one: {', '.join(f'{SENTENCE}{name}' for name in SHORT_NAMES)}"
        raise JudgeError("no sentence encoder is named", where=f"--judge {SENTENCE}", mend=mend)
    layers = head or HEADS[0]
    return Blueprint(
        f"{SENTENCE}{reference}{f'+mlp{head}' if head else ''}",
        f"{SOURCES[layers]}; the MLP's sizes and training are this project's",
        network=partial(_network, layers),
        recipe=Recipe(epochs=8, learning_rate=1e-3, batch_size=64),
        reader=SentenceReader(reference),
    )


def _network(head: int, target: Target, samples: Sequence[Sample], materials: Materials) -> PretrainedClassifier:
    assert materials.features is not None
    output = make_mlp(materials.features.shape[1], len(target.classes), head)
    return PretrainedClassifier(output, features=materials.features)
