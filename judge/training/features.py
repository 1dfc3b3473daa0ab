"""Features of frozen networks, computed once and kept on disk as half-precision numbers, mapped on reading.

A folder for each network, a file for each batch of pictures or captions, written whole and named by its checksum; an
index beside it says which row is whose. Keys are what goes in (a picture's content and mask, a caption's words) and
the network (architecture, weights by content, size): all epochs, seeds, folds and sides, and the next run, compute
nothing again.
"""

from __future__ import annotations

import hashlib
import io
import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, ClassVar

import numpy as np
import numpy.typing as npt
import torch
from accelerate.utils import send_to_device
from numpy.lib.format import open_memmap
from torch import Tensor, nn

from judge.errors import JudgeError
from judge.judges import Backbone, FrozenReader, RegionBackbone
from judge.masking.masked_images import MaskedImages
from judge.training.feature_store import FeatureStore, digest, name_words
from judge.training.memory import OutOfMemory, halving
from judge.types import Progress, Words
from judge.utils.files import as_mendable, read_json_cache, warn_damaged, write_whole, writing
from judge.utils.parallel import usable_cores
from judge.utils.reading import open_regular

_FORMAT = 1  # Counts up whenever what is made of a picture changes.
_CHECKED: set[tuple[Path, int, int]] = set()  # Files read whole by this process, with time and size.


class FeatureCache(ABC):
    """The features of one frozen network, in a folder that runs, networks and processes share.

    Args:
        network: a module, with a ``key``.
        keys: image id, or name of a caption -> key of its features.
        folder: feature cache folder; made if need be.

    Raises:
        JudgeError: the folder cannot be made.
    """

    SHARD: ClassVar[int]  # Rows of a file.
    BATCH: ClassVar[int]
    KIND: ClassVar[str]
    OPTION: ClassVar[str]  # Names the network, in messages.
    WORK: ClassVar[str]
    MEND: ClassVar[str]
    regions = 0

    def __init__(self, network: Backbone | FrozenReader, keys: Mapping[str, str], folder: Path) -> None:
        self.network, self.keys, self.batch, self.key = network, keys, self.BATCH, network.key
        self.folder = folder / hashlib.blake2b(f"{_FORMAT} {network.key}".encode(), digest_size=12).hexdigest()
        self._where = f"--features {folder}"
        with writing(self._where):
            self.folder.mkdir(parents=True, exist_ok=True)

    @abstractmethod
    def _load(self, names: Sequence[str]) -> Iterator[Any]:
        """What the network takes in, one by one."""

    @abstractmethod
    def _forward(self, loaded: Sequence[Any], device: torch.device) -> Tensor:
        """[B, P, D]."""

    def missing(self) -> list[str]:
        """Names of those whose features are not kept yet; of several with one key the first."""
        known = self._known()
        first: dict[str, str] = {}
        for name, key in self.keys.items():
            first.setdefault(key, name)
        return [name for key, name in first.items() if key not in known]

    def share(self, names: Sequence[str], rank: int, world: int) -> list[str]:
        """What one of several processes computes: whole batches, as one process alone would pass them."""
        return [name for place, name in enumerate(names) if place // self.BATCH % world == rank]

    def compute(self, names: Sequence[str], *, device: torch.device, progress: Progress | None = None) -> None:
        """Compute and keep the features of ``names``.

        Raises:
            JudgeError: a picture at fault, a full disk, features that half precision cannot hold; memory ran out.
        """
        if isinstance(self.network, nn.Module):
            self.network.to(device)
        for start in range(0, len(names), self.SHARD):
            part = names[start : start + self.SHARD]
            found: list[npt.NDArray[np.float32]] = []
            try:
                found.extend(self._passes(part, device))
            finally:
                if found:  # What was computed before a picture at fault is kept as well.
                    features = np.concatenate(found)
                    self._keep([self.keys[name] for name in part[: len(features)]], features)
            if progress:
                progress(self.WORK, start + len(part), len(names))

    def open(self) -> FeatureStore:
        """The features of all; they must have been computed.

        Raises:
            JudgeError: some cannot be read again.
        """
        known = self._known()
        if lost := len(set(self.keys.values()) - known.keys()):
            what, mend = f"features of {lost} {self.KIND}s cannot be read again", "check the disk, and start again"
            raise JudgeError(what, where=self._where, mend=mend)
        places = {name: known[key] for name, key in self.keys.items()}
        path, _ = next(iter(places.values()))
        shape = open_memmap(path, mode="r").shape[1:]
        captions = self.KIND == "caption"
        return FeatureStore(shape, places, self.key, self.regions, captions=captions)

    def features(self, names: Sequence[str], device: torch.device) -> npt.NDArray[np.float32]:
        """[N, P, D], computed, not kept; as many at a time as memory holds."""
        return np.concatenate(list(self._passes(names, device)))

    @torch.inference_mode()
    def _passes(self, names: Sequence[str], device: torch.device) -> Iterator[npt.NDArray[np.float32]]:
        loaded = self._load(names)
        while batch := list(islice(loaded, self.BATCH)):
            yield self._pass(batch, device)

    def _pass(self, batch: Sequence[Any], device: torch.device) -> npt.NDArray[np.float32]:
        def run(size: int) -> npt.NDArray[np.float32]:
            pieces = (batch[start : start + size] for start in range(0, len(batch), size))
            found = (self._forward(piece, device) for piece in pieces)
            return np.concatenate([t.float().cpu().numpy() for t in found])

        try:
            found, self.batch = halving(run, self.batch)
        except OutOfMemory:
            what = f"memory does not hold it and a single {self.KIND}"
            raise JudgeError(what, where=self.OPTION, mend=self.MEND) from None
        return found

    def _keep(self, keys: Sequence[str], features: npt.NDArray[np.float32]) -> None:
        if not np.isfinite(features).all():
            raise JudgeError("its features are no finite numbers", where=self.OPTION, mend="take another")
        # Half precision ends at 65,504, beyond which a random network may well go.
        if not np.abs(features).max() <= np.finfo(np.float16).max:
            raise JudgeError("its features do not fit into half precision", where=self.OPTION, mend="take another")
        buffer = io.BytesIO()
        np.save(buffer, features.astype(np.float16))
        buffer.seek(0)
        name = self._name(buffer, keys)
        with writing(self._where):
            write_whole(self.folder / f"{name}.npy", buffer.getvalue())
            write_whole(self.folder / f"{name}.json", json.dumps(keys).encode())

    def _name(self, content: BinaryIO, keys: Sequence[str]) -> str:
        """A file is named by what it holds, whose rows these are, and the network: others are not whole."""
        found = hashlib.blake2b(f"{self.network.key} {json.dumps(keys)}".encode(), digest_size=16)
        found.update(content.read())
        return found.hexdigest()

    def _known(self) -> dict[str, tuple[Path, int]]:
        """Key -> file and row, of all that is wanted and kept; files that are not whole are told, and removed."""
        wanted = set(self.keys.values())
        indices = sorted(self.folder.glob("*.json"))
        with ThreadPoolExecutor(usable_cores()) as pool:  # Checksums are as fast as there are cores.
            parts = list(pool.map(lambda index: self._read_index(index, wanted), indices))
        found: dict[str, tuple[Path, int]] = {}
        faulty: dict[str, list[Path]] = {}
        for index, keys in zip(indices, parts, strict=True):
            path = index.with_suffix(".npy")
            if isinstance(keys, str):
                faulty.setdefault(keys, []).append(path)
                for file in (path, index):
                    with suppress(OSError):
                        file.unlink()
            else:
                found |= {key: (path, row) for row, key in enumerate(keys)}
        for what, paths in faulty.items():
            warn_damaged(*((paths[0], what) if len(paths) == 1 else (self.folder, f"{what} in {len(paths)} files")))
        return found

    def _read_index(self, index: Path, wanted: set[str]) -> list[str] | str:
        """Keys of the rows of a file, none where none is wanted; or what is the matter with it.

        A file's numbers are read whole once in a process.

        Raises:
            JudgeError: it cannot be read.
        """
        path = index.with_suffix(".npy")
        keys = read_json_cache(index)
        if keys is None or not all(isinstance(key, str) for key in keys):
            return "not whole"
        try:
            with open_regular(path) as file:
                stat = path.stat()
                if wanted.isdisjoint(keys):
                    return []
                if (path, stat.st_mtime_ns, stat.st_size) not in _CHECKED and self._name(file, keys) != index.stem:
                    return "damaged"
        except FileNotFoundError:
            return "not whole"
        except OSError as error:
            raise as_mendable(error, str(path)) or error from error
        _CHECKED.add((path, stat.st_mtime_ns, stat.st_size))
        return keys


class PictureCache(FeatureCache):
    """The features of pictures; ``keys``: image id -> ``pictures.key``."""

    SHARD, BATCH, KIND, WORK = 256, 16, "picture", "computing features of pictures"
    OPTION, MEND = "--backbone", "take a smaller one, or a smaller --image-size"

    def __init__(self, backbone: Backbone, pictures: MaskedImages, keys: Mapping[str, str], folder: Path) -> None:
        super().__init__(backbone, keys, folder)
        self.backbone, self.pictures = backbone, pictures
        if isinstance(backbone, RegionBackbone):
            self.regions = backbone.regions
            # What things a picture shows is no part of its key: other judges do not know.
            self.keys = {image: digest((key, pictures.boxes(image))) for image, key in keys.items()}
            self.key = f"{backbone.key} {digest(self.keys)}"

    def _load(self, names: Sequence[str]) -> Iterator[tuple[Tensor, ...]]:
        """Pictures are read and masked on threads while the network computes."""
        with ThreadPoolExecutor(2) as pool:
            ready = pool.map(lambda image: self.backbone.prepare(self.pictures.read(image)), names)
            for image, picture in zip(names, ready, strict=True):
                yield (picture, self._boxes(image)) if self.regions else (picture,)

    def _forward(self, loaded: Sequence[tuple[Tensor, ...]], device: torch.device) -> Tensor:
        return self.backbone(*(torch.stack(part).to(device) for part in zip(*loaded, strict=True)))

    def _boxes(self, image: str) -> Tensor:
        boxes = torch.zeros(self.regions, 4)
        for row, box in zip(boxes, self.pictures.boxes(image), strict=False):
            row[:] = torch.tensor(box)
        return boxes


class CaptionCache(FeatureCache):
    """The vectors of captions, [N, 1, D]; each distinct caption is read once, short ones first."""

    SHARD, BATCH, KIND, WORK = 2048, 64, "caption", "computing features of captions"
    OPTION, MEND = "--judge", "take a smaller encoder"

    def __init__(self, reader: FrozenReader, captions: Iterable[Words], folder: Path) -> None:
        named = {name_words(words): words for words in captions}
        self.reader = reader
        self.captions = dict(sorted(named.items(), key=lambda item: (len(item[1]), item[0])))
        super().__init__(reader, {name: name for name in self.captions}, folder)

    def _load(self, names: Sequence[str]) -> Iterator[Words]:
        return (self.captions[name] for name in names)

    def _forward(self, loaded: Sequence[Words], device: torch.device) -> Tensor:
        return self.reader(send_to_device(self.reader.collate(loaded), device))[:, None]
