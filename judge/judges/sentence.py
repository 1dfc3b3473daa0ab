"""``sentence:NAME``: a frozen sentence encoder, by name or folder, and an MLP on its vector of a caption.

Source: DBAC, section 5.3 (all-MiniLM-L6-v2, all-mpnet-base-v2, all-distilroberta-v1 and DistilBERT, each with a 3-layer
MLP); DPAC for 5 layers. Width, dropout and training of the MLP are **ours**: neither paper publishes them.

A checkpoint of sentence-transformers pools and normalises as its files say; the tokens of a checkpoint of transformers
are averaged. Each caption is encoded once (``judge.training.features``).
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from torch import nn

from judge.errors import JudgeError, require
from judge.judges import HEADS, SENTENCE, Blueprint, Materials, Recipe, split_head
from judge.judges.encoders import SOURCES, make_mlp
from judge.judges.text_encoders import FrozenEncoder, PretrainedClassifier, load_encoder
from judge.types import Sample, Target
from judge.utils.files import from_home
from judge.utils.hub import explaining, loading, locate, quiet
from judge.utils.reading import read_text

_HUB = "sentence-transformers"
SHORT_NAMES = {name: f"{_HUB}/{name}" for name in ("all-MiniLM-L6-v2", "all-mpnet-base-v2", "all-distilroberta-v1")} | {
    "distilbert-base-uncased": "distilbert/distilbert-base-uncased"
}
_INSTEAD = "name the folder of one, or use --judge linear"


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
        folder = Path(locate(reference, where, mend=_INSTEAD))
        modules = _read_modules(folder, where)
        own = "" if modules is None else modules["Transformer"]
        encoder = load_encoder(str(folder / own), where=where, mend=_INSTEAD)
        if modules is None:
            # The hub's cache may hold weights without modules.json; averaging could then be another encoder.
            if reference.startswith(f"{_HUB}/"):
                what = "its modules.json is missing, which says how it pools"
                raise JudgeError(what, where=where, mend=_INSTEAD)
            return FrozenEncoder(encoder, Pooling(encoder.width, "mean"))
        settings = _read_json(folder / own / "sentence_bert_config.json", where)
        limit = settings.get("max_seq_length") if isinstance(settings, dict) else None
        if isinstance(limit, int):
            encoder.tokenizer.model_max_length = min(encoder.tokenizer.model_max_length, max(limit, 8))
        with quiet(), loading("its pooling cannot be loaded", where, _INSTEAD):
            pooling = Pooling.load(str(folder), subfolder=modules["Pooling"])
        return FrozenEncoder(encoder, nn.Sequential(pooling, *([Normalize()] if "Normalize" in modules else [])))


def _read_modules(folder: Path, where: str) -> dict[str, str] | None:
    """Class -> folder of each module of sentence-transformers; None for a checkpoint of transformers."""
    listed = _read_json(folder / "modules.json", where)
    if listed is None:
        return None
    with explaining("its modules.json is damaged", where, _INSTEAD):
        folders = {one["type"].rpartition(".")[2]: str(one["path"]) for one in listed}
    if unknown := folders.keys() - {"Transformer", "Pooling", "Normalize"}:
        raise JudgeError(f"its module '{min(unknown)}' is not supported", where=where, mend=_INSTEAD)
    if not {"Transformer", "Pooling"} <= folders.keys():
        raise JudgeError("its modules.json lists no transformer, or no pooling", where=where, mend=_INSTEAD)
    return folders


def _read_json(path: Path, where: str) -> Any:
    """The content of a JSON file of a checkpoint; None where it has none."""
    with explaining(f"its {path.name} cannot be read", where, _INSTEAD):
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
        network=partial(_network, layers),
        recipe=Recipe(epochs=8, learning_rate=1e-3, batch_size=64),
        reader=SentenceEncoderLoader(reference),
    )


def _network(head: int, target: Target, samples: Sequence[Sample], materials: Materials) -> PretrainedClassifier:
    return PretrainedClassifier(partial(make_mlp, classes=len(target.classes), layers=head), materials.features)
