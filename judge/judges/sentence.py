"""``sentence:NAME``: a frozen sentence encoder, by name or folder, and an MLP on its vector of a caption.

Source: DBAC, section 5.3 (all-MiniLM-L6-v2, all-mpnet-base-v2, all-distilroberta-v1 and DistilBERT, each with a 3-layer
MLP); DPAC for 5 layers. Width, dropout and training of the MLP are **ours**: neither paper publishes them.

A checkpoint in the layout of sentence-transformers pools and normalises as its files say; one of transformers is
averaged over its real tokens. Loaded through transformers alone: ``trust_remote_code`` is always False, and weights are
safetensors. Each caption is read once (``judge.training.features``).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from judge.errors import JudgeError
from judge.judges import HEADS, SENTENCE, Blueprint, Materials, Recipe, split_head
from judge.judges.encoders import SOURCES, make_mlp
from judge.judges.readers import POOLINGS, FrozenEncoder, Pooling, PretrainedClassifier, load_reader
from judge.types import Sample, Target
from judge.utils.files import from_home
from judge.utils.hub import quiet
from judge.utils.reading import read_text

_HUB = "sentence-transformers"
SHORT_NAMES = {name: f"{_HUB}/{name}" for name in ("all-MiniLM-L6-v2", "all-mpnet-base-v2", "all-distilroberta-v1")} | {
    "distilbert-base-uncased": "distilbert/distilbert-base-uncased"
}
_LEAST = 8  # Tokens, of a limit that makes sense.
_OTHERWISE = "name the folder of one, or use --judge linear"
# In configurations written before 2026, in the order in which sentence-transformers puts several.
_FLAGS: dict[str, str] = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
}


@dataclass(frozen=True, slots=True)
class SentenceReader:
    """Makes the encoder of a reference; a value, so that all judges that read with it share its vectors."""

    reference: str

    @property
    def where(self) -> str:
        """What users typed."""
        return f"--judge {SENTENCE}{self.reference}"

    def __call__(self, materials: Materials) -> FrozenEncoder:  # noqa: ARG002 - every maker is given them
        """Load it.

        Raises:
            JudgeError: as :func:`~judge.judges.readers.load_reader`; a pooling, or a layer on top, that is not known
                here.
        """
        folder = from_home(self.reference)
        name = str(folder) if folder.is_dir() else SHORT_NAMES.get(self.reference, self.reference)
        modules = self._modules(name)
        own = modules.get("Transformer", "")
        reader = load_reader(f"{name}/{own}" if own else name, where=self.where, mend=_OTHERWISE)
        if not modules:
            if name.startswith(f"{_HUB}/"):
                # Its weights lie in the hub's cache, and how it pools does not: the mean would be another encoder.
                raise self._refused("its modules.json cannot be had")
            return FrozenEncoder(reader, pooling=("mean",))
        limits = self._read(name, own, "sentence_bert_config.json")
        limit = limits.get("max_seq_length") if isinstance(limits, dict) else None
        if isinstance(limit, int):
            reader.tokenizer.model_max_length = min(reader.tokenizer.model_max_length, max(limit, _LEAST))
        pooling = self._pooling(self._read(name, modules["Pooling"], "config.json"))
        return FrozenEncoder(reader, pooling=pooling, normalised="Normalize" in modules)

    def _modules(self, name: str) -> dict[str, str]:
        """Kind -> folder of the modules that modules.json lists; none for a checkpoint of transformers alone."""
        listed = self._read(name, "", "modules.json")
        if listed is None:
            return {}
        try:
            found = {module["type"].rpartition(".")[2]: str(module["path"]) for module in listed}
        except (TypeError, KeyError, AttributeError) as error:
            raise self._refused("its modules.json is at fault") from error
        if unknown := found.keys() - {"Transformer", "Pooling", "Normalize"}:
            raise self._refused(f"its module '{min(unknown)}' is not known here")
        if not {"Transformer", "Pooling"} <= found.keys():
            raise self._refused("its modules.json lists no transformer, or no pooling")
        return found

    def _pooling(self, config: Any) -> tuple[Pooling, ...]:
        """The ``pooling_mode`` of a configuration, or its flags: none that is set may be ignored."""
        config = config if isinstance(config, dict) else {}
        flags = sorted(name for name, value in config.items() if name.startswith("pooling_mode_") and value is True)
        modes = config.get("pooling_mode")
        if not isinstance(modes, list):
            modes = [_FLAGS.get(name, name) for name in flags] if modes is None else [modes]
        unknown = [str(mode) for mode in modes if str(mode) not in POOLINGS]
        if unknown or not modes:
            raise self._refused(f"its pooling ({', '.join(unknown) or 'none'}) is not known here")
        return tuple(modes)

    def _read(self, name: str, folder: str, file: str) -> Any:
        """The content of a JSON file of the checkpoint; None where it has none."""
        from transformers.utils.hub import cached_file

        inside = f"{folder}/{file}" if folder else file
        try:
            with quiet():
                path = cached_file(name, inside, _raise_exceptions_for_missing_entries=False)
        except OSError:  # No such name, or no hub.
            return None
        try:
            return None if path is None else json.loads(read_text(Path(path)))
        except (OSError, ValueError, RecursionError) as error:
            raise self._refused(f"its {inside} cannot be read") from error

    def _refused(self, what: str) -> JudgeError:
        return JudgeError(what, where=self.where, mend=_OTHERWISE)


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
