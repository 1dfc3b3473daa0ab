"""Frozen backbones run once: a picture's features, on disk, as half-precision numbers that are mapped, not read.

A folder a backbone, a file a batch of pictures, written whole; an index beside each says which row is which picture.
Keys are what a judge sees (content, mask) and what it sees with (architecture, weights, size): forty epochs, all seeds
and sides, and the next run, never decode an image again.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from numpy.lib.format import open_memmap
from torch import Tensor

from judge.errors import JudgeError
from judge.judges import Backbone, RegionBackbone
from judge.masking.hidden import HiddenPictures
from judge.training.memory import OutOfMemory, halving
from judge.types import Progress, Sample
from judge.utils.files import write_whole

_FORMAT = 1  # Counts up whenever what is made of a picture changes.
_SHARD = 256
_BATCH = 16


@dataclass
class FeatureStore:
    """Features of pictures, or of what else :meth:`key_of` names, [N, P, D] in half precision.

    Attributes:
        shape: positions of a picture, and features of each: (P, D).
        places: what ``key_of`` gives (an image id) -> (file, row).
        regions: how many of the positions, the last ones, are of things and not of the whole picture.
    """

    shape: tuple[int, int]
    places: Mapping[str, tuple[Path, int]]
    regions: int = 0
    _open: dict[Path, npt.NDArray[np.float16]] = field(default_factory=dict, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        """Another process maps the files by itself."""
        return {"shape": self.shape, "places": self.places, "regions": self.regions, "_open": {}}

    def key_of(self, sample: Sample) -> str | None:
        """What of a sample has features; None where it lacks that."""
        return sample.image

    def narrowed(self, samples: Sequence[Sample]) -> FeatureStore:
        """Those of ``samples`` alone: a run knows of many more than one judge is trained on."""
        keys = {key for key in map(self.key_of, samples) if key is not None}
        return replace(self, places={key: self.places[key] for key in keys}, _open={})

    def rows(self, samples: Sequence[Sample]) -> Tensor:
        """[B, P, D] float32; zeros for a sample without a picture."""
        rows = np.zeros((len(samples), *self.shape), dtype=np.float32)
        for place, key in enumerate(map(self.key_of, samples)):
            if key is not None:
                path, row = self.places[key]
                if path not in self._open:
                    self._open[path] = open_memmap(path, mode="r")
                rows[place] = self._open[path][row]
        return torch.from_numpy(rows)


class ArrayCache:
    """Rows of features by key, in a folder that runs and processes share: a file for each batch, written whole.

    Args:
        folder: of all that is kept of frozen networks; made if need be.
        key: of the network; its own folder within.

    Raises:
        JudgeError: the folder cannot be made.
    """

    def __init__(self, folder: Path, key: str) -> None:
        self.folder = folder / hashlib.blake2b(f"{_FORMAT} {key}".encode(), digest_size=12).hexdigest()
        with self._mendable():
            self.folder.mkdir(parents=True, exist_ok=True)

    def keep(self, keys: Sequence[str], features: npt.NDArray[np.float32], *, where: str) -> None:
        """Write the rows [N, P, D] of ``keys``; ``where``: the option that names the network, for messages.

        Raises:
            JudgeError: a full disk; features that half precision cannot hold.
        """
        # Half precision ends at 65,504, beyond which a random network may well go.
        if not np.isfinite(features).all() or np.abs(features).max() > np.finfo(np.float16).max:
            raise JudgeError("its features do not fit into half precision", where=where, mend="take another")
        name = hashlib.blake2b(json.dumps(keys).encode(), digest_size=12).hexdigest()
        buffer = io.BytesIO()
        np.save(buffer, features.astype(np.float16))
        with self._mendable():
            write_whole(self.folder / f"{name}.npy", buffer.getvalue())
            write_whole(self.folder / f"{name}.json", json.dumps(keys).encode())

    def known(self) -> dict[str, tuple[Path, int]]:
        """Key -> file and row, of all that is kept; a file that is not whole is passed over."""
        found: dict[str, tuple[Path, int]] = {}
        for index in sorted(self.folder.glob("*.json")):
            path = index.with_suffix(".npy")
            try:
                keys = json.loads(index.read_bytes())
                kept = open_memmap(path, mode="r")
                if kept.ndim == 3 and kept.dtype == np.float16 and len(kept) == len(keys):
                    found |= {key: (path, row) for row, key in enumerate(keys)}
            except (OSError, ValueError, TypeError, OverflowError, RecursionError):
                continue
        return found

    @contextmanager
    def _mendable(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            where, mend = f"--features {self.folder.parent}", "name a folder that you own, on a disk with room"
            raise JudgeError(f"cannot be written ({error.strerror})", where=where, mend=mend) from error


class FeatureCache:
    """The features of one backbone, in a folder that all runs and backbones share.

    Args:
        backbone: sees.
        pictures: what is seen.
        keys: image id -> ``pictures.key``, and, for a backbone that takes boxes, the boxes.
        folder: made if need be.

    Raises:
        JudgeError: the folder cannot be made.
    """

    def __init__(self, backbone: Backbone, pictures: HiddenPictures, keys: Mapping[str, str], folder: Path) -> None:
        self.backbone, self.pictures, self.keys = backbone, pictures, keys
        self.batch = _BATCH
        self.cache = ArrayCache(folder, backbone.key)

    def missing(self) -> list[str]:
        """Images whose features are not kept yet; of several with one key the first."""
        known = self.cache.known()
        first: dict[str, str] = {}
        for image, key in self.keys.items():
            first.setdefault(key, image)
        return [image for key, image in first.items() if key not in known]

    def compute(self, images: Sequence[str], *, device: torch.device, progress: Progress | None = None) -> None:
        """Compute and keep the features of ``images``.

        Raises:
            JudgeError: a picture at fault, a full disk, features that half precision cannot hold; memory ran out.
        """
        self.backbone.to(device)  # type: ignore[attr-defined]  # a module, as its protocol says
        for start in range(0, len(images), _SHARD):
            part = images[start : start + _SHARD]
            self.cache.keep([self.keys[image] for image in part], self._see(part, device), where="--backbone")
            if progress:
                progress("looking at pictures", start + len(part), len(images))

    def open(self) -> FeatureStore:
        """The features of all images; all must have been computed."""
        known = self.cache.known()
        places = {image: known[key] for image, key in self.keys.items()}
        path, _ = next(iter(places.values()))
        _, positions, features = open_memmap(path, mode="r").shape
        return FeatureStore((positions, features), places, self._regions)

    def _see(self, images: Sequence[str], device: torch.device) -> npt.NDArray[np.float32]:
        """[N, P, D]; pictures are read and masked on threads while the network computes."""
        found = []
        with ThreadPoolExecutor(2) as pool, torch.inference_mode():
            ready = pool.map(lambda image: self.backbone.prepare(self.pictures.read(image)), images)
            for start in range(0, len(images), _BATCH):
                batch = images[start : start + _BATCH]
                told = [torch.stack([next(ready) for _ in batch])]
                if self._regions:
                    told.append(torch.stack([self._boxes(image) for image in batch]))
                found.append(self._pass(told, device))
        return np.concatenate(found)

    def _pass(self, told: Sequence[Tensor], device: torch.device) -> npt.NDArray[np.float32]:
        """[B, P, D], as many pictures at a time as memory holds."""

        def see(size: int) -> npt.NDArray[np.float32]:
            pieces = zip(*(torch.split(part, size) for part in told), strict=True)
            rows = [self.backbone(*(part.to(device) for part in piece)).float().cpu().numpy() for piece in pieces]
            return np.concatenate(rows)

        try:
            found, self.batch = halving(see, self.batch)
        except OutOfMemory:
            mend = "take a smaller one, or a smaller --image-size"
            raise JudgeError("memory does not hold it and a single picture", where="--backbone", mend=mend) from None
        return found

    @property
    def _regions(self) -> int:
        return self.backbone.regions if isinstance(self.backbone, RegionBackbone) else 0

    def _boxes(self, image: str) -> Tensor:
        boxes = torch.zeros(self._regions, 4)
        for row, box in zip(boxes, self.pictures.boxes(image), strict=False):
            row[:] = torch.tensor(box)
        return boxes
