"""Which features of frozen networks the judges of a run read; vectors of a file stand in for those of images."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from judge.corpus.image_features import choose_features, read_image_features
from judge.errors import JudgeError
from judge.evidence import Slot
from judge.judges import Backbone, Blueprint, FrozenReader, Materials, Modality
from judge.judges.image_vectors import ImageVectors, name_seen
from judge.judges.linear import make_encoder
from judge.training.member import Member, Precomputed, one_by_one
from judge.types import Progress, Sample
from judge.utils.identity import digest_of
from judge.utils.parallel import threads

if TYPE_CHECKING:
    from judge.training.disk_cache import FeatureStore
    from judge.training.feature_caches import FeatureCache

Maker = Callable[[Materials], Backbone] | Callable[[Materials], FrozenReader]


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
    known = _read(images, materials.image_features) if reading and materials.image_features else {}
    if known and reading == seeing:
        keys = {image: digest_of(vector.tobytes()) for image, vector in known.items()}
    else:
        keys = _keys(images, materials, ", ".join(seeing)) if seeing else {}
    captions = _captions(members)

    def open_cache(judge: Blueprint) -> FeatureCache:
        from judge.training.feature_caches import CaptionCache, ImageCache

        if judge.reader is not None:
            reader = judge.reader(materials)
            samples = chain.from_iterable(of.values() for (make, _), of in captions.items() if make == judge.reader)
            sees = "image" in judge.modalities and judge.joint
            return CaptionCache(reader, samples, folder, keys if sees else None)
        assert materials.images is not None
        assert judge.backbone is not None
        return ImageCache(judge.backbone(materials), materials.images, keys, folder)

    stores: dict[Maker, FeatureStore] = {}
    vectors: dict[tuple[Maker, frozenset[Modality]], ImageVectors] = {}
    features: dict[str, FeatureStore | ImageVectors] = {}
    for name, judge in judges.items():
        if not (make := judge.reader or judge.backbone):
            continue
        view = make, judge.blanked if judge.reader else frozenset[Modality]()
        from_file = known and judge.reads_vectors
        if make not in stores and not from_file:  # Any judge of a maker stands for all.
            # Imports torch, which a run with vectors of a file does without: it takes half a gigabyte.
            from judge.training.feature_caches import compute_features

            stores[make] = compute_features(partial(open_cache, judge), progress)
        if judge.joint and view not in vectors:
            vectors[view] = _of_file(known) if from_file else _pool(stores[make], captions.get(view, {}).values())
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
        return _of_file(_read(images, materials.image_features))
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
    from judge.training.feature_caches import ImageCache, compute_features

    keys = _keys(images, materials, whose)
    assert materials.images is not None
    make = partial(ImageCache, images=materials.images, keys=keys, folder=folder)
    return compute_features(lambda: make(make_encoder(materials)), progress)


def _keys(images: Iterable[str], materials: Materials, whose: str) -> dict[str, str]:
    """Image id -> hash of its content and mask."""
    if materials.images is None:
        raise JudgeError(f"there are no images for {whose}", where="--images", mend="give the folder of images")
    return {image: materials.images.key(image) for image in sorted(images)}


def _read(images: Iterable[str], file: Path) -> dict[str, npt.NDArray[np.float32]]:
    """Image id -> its vector in a file."""
    return choose_features(read_image_features(file), images, str(file))


def _of_file(known: Mapping[str, npt.NDArray[np.float32]]) -> ImageVectors:
    with threads(1):  # The same digits in every process.
        return ImageVectors.of(known)


def _pool(store: FeatureStore, samples: Iterable[Sample] = ()) -> ImageVectors:
    """The vectors of a store, or of some captioned images in it: means over positions.

    Of captioned images they are fitted to human captions: other captioners change no vector of a captioner's captions.
    """
    sides = {name_seen(sample): sample.side for sample in samples}
    rows = _means(store, sides or store.places)
    human = [name for name, side in sides.items() if side == "human"]
    with threads(1):
        found = ImageVectors.of(rows, human, key=store.key, captioned=bool(sides))
    return replace(found, features=replace(store, places={}))


def _means(store: FeatureStore, names: Iterable[str]) -> dict[str, npt.NDArray[np.float32]]:
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
