"""Features of frozen networks, computed once and cached on disk in half precision: see :mod:`.disk_cache`."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, islice
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from accelerate.utils import send_to_device
from torch import Tensor

from judge.corpus.image_features import choose_features, read_image_features
from judge.errors import JudgeError
from judge.evidence import Slot
from judge.judges import Backbone, Blueprint, FrozenReader, Materials, Modality
from judge.judges.image_vectors import ImageVectors, name_seen
from judge.judges.linear import make_encoder
from judge.masking.masked_images import MaskedImages
from judge.training.batches import run_fitting
from judge.training.disk_cache import FeatureStore, Place, find_rows, name_words, open_rows, write_rows
from judge.training.launch import make_accelerator, make_deterministic, raise_together
from judge.training.member import Member, Precomputed, one_by_one
from judge.types import Progress, Sample
from judge.utils.files import writing
from judge.utils.identity import digest_of
from judge.utils.launch import launched
from judge.utils.parallel import choose_device, in_order, threads, usable_cores

_FORMAT = 3  # Increased whenever other features are made of an image, or files are others.
Maker = Callable[[Materials], Backbone] | Callable[[Materials], FrozenReader]


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
        self.folder, self._where = folder / digest_of(f"{_FORMAT} {network.key}"), f"--features {folder}"
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
            self.MEND = "take a smaller captioner, or --dtype bf16"
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


def precompute(
    members: Sequence[Member], materials: Materials, folder: Path, progress: Progress | None = None
) -> Precomputed:
    """Features for all judges of ``members``; in a launch each process computes its share of them.

    Raises:
        JudgeError: no images; one that is missing or cannot be used; weights that cannot be loaded; a folder that
            cannot be written. In every process of a launch, whichever failed.
    """
    judges = {member.judge.name: member.judge for member in members}
    seeing = sorted(name for name, judge in judges.items() if "image" in judge.modalities)
    images = set[str]()
    for samples in (member.samples for member in members if member.judge.name in seeing):
        # The samples of a refit need not be made to know their images.
        images |= samples.images if isinstance(samples, Slot) else {of.image for of in samples if of.image is not None}
    reading = [name for name in seeing if judges[name].reads_vectors]
    known = _of_file(images, materials.image_features) if reading and materials.image_features else {}
    if known and reading == seeing:
        keys = {image: digest_of(vector.tobytes()) for image, vector in known.items()}
    else:
        keys = _keys(images, materials, ", ".join(seeing)) if seeing else {}
    captions = _captions(members)

    def open_cache(judge: Blueprint) -> FeatureCache:
        if judge.reader is not None:
            reader = judge.reader(materials)
            samples = chain.from_iterable(of.values() for (make, _), of in captions.items() if make == judge.reader)
            sees = "image" in judge.modalities and judge.joint
            return CaptionCache(reader, samples, folder, keys if sees else None)
        assert materials.images is not None
        assert judge.backbone is not None
        return ImageCache(judge.backbone(materials), materials.images, keys, folder)

    stores, vectors = dict[Maker, FeatureStore](), dict[tuple[Maker, frozenset[Modality]], ImageVectors]()
    features = dict[str, FeatureStore | ImageVectors]()
    for name, judge in judges.items():
        if not (make := judge.reader or judge.backbone):
            continue
        view = make, judge.blanked if judge.reader else frozenset[Modality]()
        from_file = known and judge.reads_vectors
        if make not in stores and not from_file:  # Any judge of a maker stands for all.
            stores[make] = _compute(partial(open_cache, judge), progress)
        if judge.joint and view not in vectors:
            vectors[view] = _fit(known) if from_file else _pool(stores[make], captions.get(view, {}).values())
        features[name] = vectors[view] if judge.joint else stores[make]
    return Precomputed(keys, features)


def covers(found: Precomputed, members: Sequence[Member]) -> bool:
    """Whether features that were computed hold all that the readers of ``members`` read."""
    for member in one_by_one([of for of in members if of.judge.reader]):
        known = found.features[member.judge.name]
        if any(known.name(member.judge.perceive(sample)) not in known.places for sample in member.samples):
            return False
    return True


def see(images: Iterable[str], materials: Materials, folder: Path, progress: Progress | None = None) -> ImageVectors:
    """The vectors of ``images``, of the encoder that linear judges have; errors as of :func:`precompute`."""
    if materials.image_features:
        return _fit(_of_file(images, materials.image_features))
    return _pool(_encode(images, materials, folder, "conditional leakage", progress))


def see_others(
    known: ImageVectors, images: Iterable[str], materials: Materials, folder: Path, progress: Progress | None = None
) -> ImageVectors:
    """The vectors of ``images`` by the offset and axes of ``known``; errors as of :func:`precompute`."""
    store = _encode(images, materials, folder, "a judge that sees", progress)
    return replace(known.of_others(_means(store, store.places)), features=store)


def _encode(
    images: Iterable[str], materials: Materials, folder: Path, whose: str, progress: Progress | None
) -> FeatureStore:
    """The features of images by the encoder of linear judges."""
    keys = _keys(images, materials, whose)
    assert materials.images is not None
    make = partial(ImageCache, images=materials.images, keys=keys, folder=folder)
    return _compute(lambda: make(make_encoder(materials)), progress)


def _keys(images: Iterable[str], materials: Materials, whose: str) -> dict[str, str]:
    """Image id -> hash of its content and mask."""
    if materials.images is None:
        raise JudgeError(f"there are no images for {whose}", where="--images", mend="give the folder of images")
    return {image: materials.images.key(image) for image in sorted(images)}


def _of_file(images: Iterable[str], file: Path) -> dict[str, npt.NDArray[np.float32]]:
    """Image id -> its vector in a file."""
    return choose_features(read_image_features(file), images, str(file))


def _fit(known: Mapping[str, npt.NDArray[np.float32]]) -> ImageVectors:
    """On one thread: the same digits in every process."""
    with threads(1):
        return ImageVectors.of(known)


def _pool(store: FeatureStore, samples: Collection[Sample] = ()) -> ImageVectors:
    """The vectors of a store, or of some captioned images in it: means over positions.

    Of captioned images they are fitted to human captions: other captioners change no vector of a captioner's captions.
    On one thread: the same digits in every process.
    """
    sides = {name_seen(sample): sample.side for sample in samples}
    rows = _means(store, sides or store.places)
    human = [name for name, side in sides.items() if side == "human"]
    with threads(1):
        found = ImageVectors.of(rows, human, key=store.key, captioned=bool(samples))
    return replace(found, features=replace(store, places={}))


def _means(store: FeatureStore, names: Iterable[str]) -> dict[str, npt.NDArray[np.float32]]:
    """Means over positions, [D] each."""
    return {name: store.row(store.places[name]).astype(np.float32).mean(axis=0) for name in names}


def _captions(members: Sequence[Member]) -> dict[tuple[Maker, frozenset[Modality]], dict[str, Sample]]:
    """Maker of a reader, and what is blanked -> the captioned images that its judges are trained and scored on.

    Of equal ones the human side's is kept.
    """
    found: dict[tuple[Maker, frozenset[Modality]], dict[str, Sample]] = {}
    done = set()
    for member in one_by_one([member for member in members if member.judge.reader]):
        judge = member.judge
        if judge.reader is not None and (judge.name, id(member.samples)) not in done:
            done.add((judge.name, id(member.samples)))
            own = found.setdefault((judge.reader, judge.blanked), {})
            for sample in map(judge.perceive, member.samples):
                if sample.side == "human" or name_seen(sample) not in own:
                    own[name_seen(sample)] = sample
    return found


def _compute(make: Callable[[], FeatureCache], progress: Progress | None) -> FeatureStore:
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
