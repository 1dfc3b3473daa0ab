"""Frozen readers run once: each distinct caption is read once, whatever the number of seeds, folds, sides and judges.

Kept beside pictures' features and in the same way; keys are the caption's words and what reads them (weights, tokenizer
and pooling by content), so that the next run reads only what is new.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from accelerate.utils import send_to_device

from judge.errors import JudgeError
from judge.judges import FrozenReader
from judge.training.features import ArrayCache, FeatureStore
from judge.training.memory import OutOfMemory, halving
from judge.types import Progress, Sample, Words

_SHARD = 2048
_BATCH = 64


class TextStore(FeatureStore):
    """Vectors of captions, [N, 1, D]; see :class:`~judge.training.features.FeatureStore`."""

    def key_of(self, sample: Sample) -> str:
        """Of the caption's words."""
        return name_words(sample.words)


def name_words(words: Words) -> str:
    """A key for a caption: words are told apart from their borders."""
    return hashlib.blake2b(repr(words).encode(), digest_size=16).hexdigest()


class TextCache:
    """The vectors of one reader, in a folder that all runs and readers share.

    Args:
        reader: reads.
        captions: what is read; any number of times each.
        folder: made if need be.

    Raises:
        JudgeError: the folder cannot be made.
    """

    def __init__(self, reader: FrozenReader, captions: Iterable[Words], folder: Path) -> None:
        self.reader, self.batch = reader, _BATCH
        self.captions: Mapping[str, Words] = {name_words(words): words for words in captions}
        self.cache = ArrayCache(folder, reader.key)

    def missing(self) -> list[str]:
        """Keys of captions that are not kept yet; short ones first, as they go through the reader together."""
        known = self.cache.known()
        return sorted(self.captions.keys() - known.keys(), key=lambda key: (len(self.captions[key]), key))

    def compute(self, keys: Sequence[str], *, device: torch.device, progress: Progress | None = None) -> None:
        """Read and keep the captions with these ``keys``.

        Raises:
            JudgeError: a full disk; vectors that half precision cannot hold; memory ran out.
        """
        self.reader.to(device)  # type: ignore[attr-defined]  # a module, as its protocol says
        for start in range(0, len(keys), _SHARD):
            part = keys[start : start + _SHARD]
            self.cache.keep(part, self._read([self.captions[key] for key in part], device), where="--judge")
            if progress:
                progress("reading captions", start + len(part), len(keys))

    def open(self) -> TextStore:
        """The vectors of all captions; all must have been computed."""
        known = self.cache.known()
        places = {key: known[key] for key in self.captions}
        path, _ = next(iter(places.values()))
        _, positions, width = np.load(path, mmap_mode="r").shape
        return TextStore((positions, width), places)

    def _read(self, captions: Sequence[Words], device: torch.device) -> npt.NDArray[np.float32]:
        """[N, 1, D], as many captions at a time as memory holds."""
        starts = range(0, len(captions), _BATCH)
        with torch.inference_mode():
            found = [self._pass(captions[start : start + _BATCH], device) for start in starts]
        return np.concatenate(found)[:, None]

    def _pass(self, captions: Sequence[Words], device: torch.device) -> npt.NDArray[np.float32]:
        def read(size: int) -> npt.NDArray[np.float32]:
            pieces = [captions[start : start + size] for start in range(0, len(captions), size)]
            rows = [self.reader(send_to_device(self.reader.collate(piece), device)) for piece in pieces]
            return torch.cat(rows).float().cpu().numpy()

        try:
            found, self.batch = halving(read, self.batch)
        except OutOfMemory:
            mend = "take a smaller encoder"
            raise JudgeError("memory does not hold it and a single caption", where="--judge", mend=mend) from None
        return found
