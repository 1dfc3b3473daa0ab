"""Features of frozen networks, computed once in half precision, in files that runs, networks and processes share.

Each network has a folder; each file in it (safetensors) holds the features of some images or captions and, in its
notes, their keys and hashes. A key hashes the input (an image's content and mask, a caption's words), the folder's name
hashes the network: epochs, seeds, folds, sides and later runs compute nothing again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, lru_cache, partial
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from accelerate.utils import send_to_device
from safetensors import SafetensorError, safe_open
from torch import Tensor

from judge.errors import JudgeError
from judge.judges import Backbone, FrozenReader
from judge.judges.image_vectors import name_seen
from judge.masking.masked_images import MaskedImages
from judge.training.launch import make_accelerator, make_deterministic, raise_together
from judge.training.loop import run_fitting
from judge.types import Progress, Sample, Words
from judge.utils.files import warn_damaged, writing
from judge.utils.identity import digest_of
from judge.utils.launch import launched
from judge.utils.parallel import choose_device, in_order, threads, usable_cores
from judge.utils.tensors import peek_notes, read_sound, write_tensors

_FORMAT = 3  # Increased whenever other features are made of an image, or files are others.
Place = tuple[Path, int]
"""A file, and the row in it."""
_NAME = "features"  # The name of the tensor in each file.


@dataclass
class FeatureStore:
    """Features of images or captions, [N, P, D] float16, read from files.

    Attributes:
        shape: positions of an image, and features of each: (P, D); a caption has one position.
        places: image id, or name of a caption's words or of a captioned image -> (file, row).
        key: of the network, and of the boxes that it takes.
        regions: how many of the positions, the last ones, are regions of things rather than of the grid.
        kind: what the features are of: "image", "caption", "captioned image".
        learnt: name -> array, what the network learnt from the images of a run; empty for most.
    """

    shape: tuple[int, ...]
    places: Mapping[str, Place]
    key: str
    regions: int = 0
    kind: str = "image"
    learnt: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._open = lru_cache(maxsize=128)(open_rows)  # A process may usually open 1,024 files.

    def __reduce__(self) -> tuple[object, ...]:
        """Another process opens the files itself."""
        return FeatureStore, (self.shape, self.places, self.key, self.regions, self.kind, self.learnt)

    def name(self, sample: Sample) -> str | None:
        """The name of a sample's row; None if it has no image, where features are of images."""
        return name_words(sample.words) if self.kind == "caption" else sample.image

    def rows(self, samples: Sequence[Sample]) -> Tensor:
        """[B, P, D]; zeros for a sample without an image."""
        rows = np.zeros((len(samples), *self.shape), dtype=np.float16)
        for place, sample in enumerate(samples):
            name = self.name(sample)
            if name is not None:
                rows[place] = self.row(self.places[name])
        return torch.from_numpy(rows)

    def row(self, place: Place) -> npt.NDArray[np.float16]:
        """[P, D]."""
        path, row = place
        return np.asarray(self._open(path)[row : row + 1][0])


def name_words(words: Words) -> str:
    """A key for a caption; ("a", "b") and ("ab",) differ."""
    return digest_of(repr(words))


def write_rows(folder: Path, network: str, keys: Sequence[str], rows: npt.NDArray[Any]) -> None:
    """Write a file with a row for each key, [N, ...]."""
    notes = {"network": network, "keys": [*keys], "rows": [digest_of(row.tobytes()) for row in rows]}
    write_tensors(folder / f"{digest_of(repr([*keys]))}.safetensors", {_NAME: rows}, notes)


def find_rows(folder: Path, network: str, wanted: Collection[str]) -> dict[str, Place]:
    """Key -> place of the cached results of ``wanted``.

    Headers are read, and of rows only those wanted. The user is warned of damaged files, which are not used.
    """

    def look(path: Path) -> dict[str, Place]:
        with suppress(FileNotFoundError):  # Another process may empty the cache.
            written = path.stat().st_mtime_ns
            held = [(row, *of) for row, of in enumerate(_rows_in(path, written, network)) if of[0] in wanted]
            if _are_sound(path, written, tuple((row, digest) for row, _, digest in held)):
                return {key: (path, row) for row, key, _ in held}
        return {}

    with ThreadPoolExecutor(usable_cores()) as pool:  # Hashes take time.
        parts = pool.map(look, sorted(folder.glob("*.safetensors")))
        return {key: place for part in parts for key, place in part.items()}


@cache
def _rows_in(path: Path, written: int, network: str) -> list[tuple[str, str]]:
    """Key and hash of each row of a file, ``written`` at a time in ns; none if it is damaged, or another network's."""
    notes = read_sound(path, peek_notes) or {}
    return list(zip(notes["keys"], notes["rows"], strict=True)) if notes.get("network") == network else []


@cache
def _are_sound(path: Path, written: int, rows: tuple[tuple[int, str], ...]) -> bool:
    """Whether rows have the hashes that they were written with."""
    held = open_rows(path) if rows else ()
    sound = all(digest_of(np.ascontiguousarray(held[row : row + 1]).tobytes()) == digest for row, digest in rows)
    if not sound:
        warn_damaged(path)
    return sound


def open_rows(path: Path) -> Any:
    """The rows of a file, mapped: slices of them are arrays of numpy."""
    try:
        file: Any = safe_open(path, framework="np")
        return file.get_slice(_NAME)
    except (OSError, SafetensorError) as error:
        mend = "give the same command again: what is missing is computed again"
        raise JudgeError("features are gone, or damaged", where=str(path), mend=mend) from error


class FeatureCache(ABC):
    """The features of one frozen network, in a folder that runs, networks and processes share; it is made if need be.

    ``keys``: image id, or name of a caption -> key of its features.
    """

    SHARD: int  # Rows of a file.
    BATCH: int  # Rows that a process computes together; the processes of a launch share the batches.
    KIND: str
    OPTION: str  # Names the network, in messages.
    MEND: str
    regions = 0

    def __init__(self, network: Backbone | FrozenReader, keys: Mapping[str, str], folder: Path) -> None:
        self.network, self.keys, self.key = network, keys, network.key
        self.folder, self._where = folder / digest_of(f"{_FORMAT} {network.key}"), f"--cache: {folder}"
        with writing(self._where):
            self.folder.mkdir(parents=True, exist_ok=True)

    @abstractmethod
    def _prepare(self, name: str) -> Any:
        """Input of the network; threads call it while the network computes."""

    @abstractmethod
    def _forward(self, loaded: Sequence[Any], device: torch.device) -> Tensor:
        """[B, P, D]."""

    def missing(self) -> list[str]:
        """Names of those whose results are not cached; the first name of several with one key."""
        known, first = self._known(), dict[str, str]()
        for name, key in self.keys.items():
            first.setdefault(key, name)
        return [name for key, name in first.items() if key not in known]

    def _known(self) -> dict[str, Place]:
        return find_rows(self.folder, self.network.key, {*self.keys.values()})

    def compute(self, names: Sequence[str], *, device: torch.device, progress: Progress | None = None) -> None:
        """Compute the features of ``names`` and write them."""
        if names:
            self.network.to(device)
        for start in range(0, len(names), self.SHARD):
            part = names[start : start + self.SHARD]
            found: list[npt.NDArray[np.float32]] = []
            try:
                found.extend(self._batches(part, device))
            finally:
                if found:  # Also what was computed before an image that cannot be used.
                    features = np.concatenate(found)
                    # Half precision ends at 65,504, which a random network may exceed; NaN may be among features.
                    if not np.abs(features).max() <= np.finfo(np.float16).max:
                        what = "its features do not fit into half precision"
                        raise JudgeError(what, where=self.OPTION, mend="take another")
                    keys = [self.keys[name] for name in part[: len(features)]]
                    write_rows(self.folder, self.network.key, keys, features.astype(np.float16))
            if progress:
                progress(f"computing features of {self.KIND}s", start + len(part), len(names))

    def open(self) -> FeatureStore:
        """The features of all names, which must have been computed."""
        known = self._known()
        if lost := len(set(self.keys.values()) - known.keys()):
            what, mend = f"features of {lost} {self.KIND}s cannot be read again", "check the disk, and start again"
            raise JudgeError(what, where=self._where, mend=mend)
        places = {name: known[key] for name, key in self.keys.items()}
        path, _ = next(iter(places.values()))
        shape = tuple(open_rows(path).get_shape()[1:])
        return FeatureStore(shape, places, self.key, self.regions, self.KIND, getattr(self.network, "learnt", {}))

    def _batches(self, names: Sequence[str], device: torch.device) -> Iterator[npt.NDArray[np.float32]]:
        """On a CPU each batch on one thread, as many at once as there are cores: the same digits on any machine."""
        loaded = in_order((partial(self._prepare, name) for name in names), 2, ahead=2 * self.BATCH)
        alone, faults = device.type == "cpu", list[JudgeError]()
        workers = usable_cores() if alone else 1

        @torch.inference_mode()
        def compute(batch: Sequence[Any], size: int) -> npt.NDArray[np.float32]:
            pieces = (batch[start : start + size] for start in range(0, len(batch), size))
            return np.concatenate([self._forward(piece, device).float().cpu().numpy() for piece in pieces])

        def passes() -> Iterator[Callable[[], npt.NDArray[np.float32]]]:
            try:
                while batch := list(islice(loaded, self.BATCH)):
                    work = partial(compute, batch)
                    yield partial(run_fitting, work, self.BATCH, where=self.OPTION, mend=self.MEND)
            except JudgeError as error:
                faults.append(error)  # Raised once the batches before it are there.

        with threads(1 if alone else None):
            yield from in_order(passes(), workers, ahead=workers)
        if faults:
            raise faults[0]


class ImageCache(FeatureCache):
    """The features of images; ``keys``: image id -> ``images.key``."""

    SHARD, BATCH, KIND = 256, 16, "image"
    OPTION, MEND = "--backbone", "take a smaller one, or a smaller --image-size"

    def __init__(self, backbone: Backbone, images: MaskedImages, keys: Mapping[str, str], folder: Path) -> None:
        super().__init__(backbone, keys, folder)
        self.backbone, self.images = backbone, images
        self.regions = backbone.regions
        if self.regions:
            # The key of an image does not include its boxes, which other judges do not see.
            self.keys = {image: digest_of(repr((key, images.boxes(image)))) for image, key in keys.items()}
            self.key = f"{backbone.key} {digest_of(repr(self.keys))}"

    def _prepare(self, name: str) -> tuple[Tensor, ...]:
        pixels = self.backbone.prepare(self.images.read(name))
        boxes = torch.zeros(self.regions, 4)
        for row, box in zip(boxes, self.images.boxes(name) if self.regions else (), strict=False):
            row[:] = torch.tensor(box)
        return (pixels, boxes) if self.regions else (pixels,)

    def _forward(self, loaded: Sequence[tuple[Tensor, ...]], device: torch.device) -> Tensor:
        return self.backbone(*(torch.stack(part).to(device) for part in zip(*loaded, strict=True)))


class CaptionCache(FeatureCache):
    """The vectors of captions, or of images with a caption, [N, 1, D]; each distinct one is read once.

    ``images``: image id -> key, for a captioner that reads images: captions of an image are then read together, and
    otherwise short ones first.
    """

    SHARD, BATCH, KIND = 2048, 64, "caption"
    OPTION, MEND = "--judge", "take a smaller encoder"

    def __init__(
        self, reader: FrozenReader, samples: Iterable[Sample], folder: Path, images: Mapping[str, str] | None = None
    ) -> None:
        self.reader, self.collating = reader, Lock()  # A tokenizer serves one thread at a time.
        if images is None:
            named = {name_words(sample.words): sample for sample in samples}
            self.samples = dict(sorted(named.items(), key=lambda one: (len(one[1].words), one[0])))
            keys = {name: name for name in self.samples}
        else:
            self.SHARD, self.BATCH, self.KIND = 1024, 32, "captioned image"
            self.MEND = "take a smaller captioner, or --training dtype=bf16"
            ordered = sorted(samples, key=lambda sample: (sample.image or "", sample.words))
            self.samples = {name_seen(sample): sample for sample in ordered}
            seen = {name: of.image and images[of.image] for name, of in self.samples.items()}
            keys = {name: digest_of(repr((seen[name], of.words))) for name, of in self.samples.items()}
        super().__init__(reader, keys, folder)

    def _prepare(self, name: str) -> Any:
        return self.reader.prepare(self.samples[name])

    def _forward(self, loaded: Sequence[Any], device: torch.device) -> Tensor:
        with self.collating:
            batch = self.reader.collate(loaded)
        return self.reader(send_to_device(batch, device))[:, None]


def compute_features(make: Callable[[], FeatureCache], progress: Progress | None) -> FeatureStore:
    """Compute what a cache lacks; each process of a launch whole batches, the same as those of a single process."""
    accelerator = make_accelerator() if launched() else None
    make_deterministic()
    rank, world = (accelerator.process_index, accelerator.num_processes) if accelerator else (0, 1)
    with raise_together():
        # All look for what is missing before any computes, so that they share the same list.
        cache = make()
        missing = cache.missing()
    with raise_together():
        device = accelerator.device if accelerator else choose_device(None)
        own = [name for place, name in enumerate(missing) if place // cache.BATCH % world == rank]
        cache.compute(own, device=device, progress=progress)
    with raise_together():
        # Other processes have computed the rest, unless their machine has a disk of its own.
        cache.compute(cache.missing() if launched() else [], device=device, progress=progress)
        return cache.open()
