"""Features as training reads them: mapped from files, or whole on a device."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from numpy.lib.format import open_memmap
from torch import Tensor

from judge.errors import JudgeError
from judge.judges import Batch
from judge.types import Sample, Words
from judge.utils.reading import regular

_OPEN = 128  # Files mapped at a time: a process may have 1,024 open, as a rule.
Kept = npt.NDArray[np.float16]


@dataclass
class FeatureStore:
    """Features of images or captions, [N, P, D] in half precision.

    Attributes:
        shape: positions of a picture, and features of each: (P, D); a caption has one position.
        places: image id, or name of a caption's words -> (file, row).
        key: of the network, and of the boxes that it takes.
        regions: how many of the positions, the last ones, are of things and not of the whole picture.
        captions: whether they are of captions.
    """

    shape: tuple[int, ...]
    places: Mapping[str, tuple[Path, int]]
    key: str
    regions: int = 0
    captions: bool = False
    _resident: dict[torch.device, ResidentFeatures | None] = field(default_factory=dict, repr=False)
    _open: dict[Path, Kept] = field(default_factory=dict, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        """Another process maps the files by itself."""
        return {**self.__dict__, "_open": {}, "_resident": {}}

    def _key(self, sample: Sample) -> str | None:
        return name_words(sample.words) if self.captions else sample.image

    def narrowed(self, samples: Sequence[Sample]) -> FeatureStore:
        """The features of ``samples`` alone: a run has many more than one judge is trained on."""
        keys = {key for key in map(self._key, samples) if key is not None}
        return replace(self, places={key: self.places[key] for key in keys}, _open={}, _resident={})

    def rows(self, samples: Sequence[Sample]) -> Tensor:
        """[B, P, D], as they are kept; zeros for a sample without a picture."""
        rows = np.zeros((len(samples), *self.shape), dtype=np.float16)
        for place, key in enumerate(map(self._key, samples)):
            if key is not None:
                path, row = self.places[key]
                rows[place] = self._map(path)[row]
        return torch.from_numpy(rows)

    def resident(self, device: torch.device) -> ResidentFeatures | None:
        """These features on ``device``, for all judges of this process; None where they fill half of what is free."""
        if device not in self._resident:
            each = 2 * int(np.prod(self.shape))
            fits = 2 * each * (len(self.places) + 1) < free_memory(device)
            self._resident[device] = ResidentFeatures(self, device) if fits else None
        return self._resident[device]

    def not_finite(self) -> Path | None:
        """A file with numbers that are not finite, of which no judge can learn; None for none."""
        files = sorted({path for path, _ in self.places.values()})
        return next((path for path in files if not np.isfinite(self._map(path)).all()), None)

    def _map(self, path: Path) -> Kept:
        """A file, mapped; the one that was asked for least recently is closed."""
        found = self._open.pop(path, None)
        if found is None:
            try:
                found = open_memmap(regular(path), mode="r")
            except (OSError, ValueError) as error:  # It was whole when the run began.
                mend = "give the same command again: what is missing is computed anew"
                raise JudgeError("features are gone, or damaged", where=str(path), mend=mend) from error
            if len(self._open) == _OPEN:
                self._open.pop(next(iter(self._open)))
        self._open[path] = found
        return found


class ResidentFeatures:
    """Features that lie on a device, where a batch gathers its own: a host sends places, no numbers.

    Args:
        store: all of it is copied.
        device: where to.
    """

    def __init__(self, store: FeatureStore, device: torch.device) -> None:
        self.not_finite = store.not_finite
        self.shape, self.regions, self.key, self._key = store.shape, store.regions, store.key, store._key
        self._rows: dict[str, int] = {}
        blank = torch.zeros(1, *store.shape, dtype=torch.float16)  # Of samples without a picture.
        parts, count = [blank.to(device)], 1
        by_file: dict[Path, list[tuple[str, int]]] = {}
        for key, (path, row) in store.places.items():
            by_file.setdefault(path, []).append((key, row))
        for path, rows in by_file.items():
            parts.append(torch.from_numpy(store._map(path)[[row for _, row in rows]]).to(device))
            self._rows |= {key: count + place for place, (key, _) in enumerate(rows)}
            count += len(rows)
        self._table = torch.cat(parts)

    def rows(self, samples: Sequence[Sample]) -> Tensor:
        """[B] int64, for :meth:`gather`."""
        return torch.tensor([0 if key is None else self._rows[key] for key in map(self._key, samples)])

    def gather(self, batch: Batch) -> Batch:
        """The batch, on the device, with features [B, P, D] in place of their rows."""
        return {**batch, "features": self._table[batch["features"]]}


def free_memory(device: torch.device) -> int:
    """Bytes that are free on a GPU; 0 elsewhere, where nothing is gained."""
    return int(torch.cuda.mem_get_info(device)[0]) if device.type == "cuda" else 0


def name_words(words: Words) -> str:
    """A key for a caption; ("a", "b") and ("ab",) differ."""
    return digest(words)


def digest(content: object) -> str:
    """A key for anything that prints whole."""
    return hashlib.blake2b(repr(content).encode(), digest_size=16).hexdigest()
