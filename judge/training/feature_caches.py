"""Features of frozen networks, computed once and cached on disk in half precision: see :mod:`.disk_cache`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from accelerate.utils import send_to_device
from torch import Tensor

from judge.errors import JudgeError
from judge.judges import Backbone, FrozenReader
from judge.judges.image_vectors import name_seen
from judge.masking.masked_images import MaskedImages
from judge.training.disk_cache import FeatureStore, Place, find_rows, name_words, open_rows, write_rows
from judge.training.launch import make_accelerator, make_deterministic, raise_together
from judge.training.loop import run_fitting
from judge.types import Progress, Sample
from judge.utils.files import writing
from judge.utils.identity import digest_of
from judge.utils.launch import launched
from judge.utils.parallel import choose_device, in_order, threads, usable_cores

_FORMAT = 3  # Increased whenever other features are made of an image, or files are others.


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
