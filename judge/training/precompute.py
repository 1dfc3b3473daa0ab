"""Features of pictures and captions computed before judges are trained: by each frozen network once, for all judges."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from judge.errors import JudgeError
from judge.judges import Backbone, Blueprint, FrozenReader, Materials
from judge.masking.detectors.weights import choose_device
from judge.training.feature_store import FeatureStore
from judge.training.features import CaptionCache, FeatureCache, PictureCache
from judge.training.launch import make_accelerator, make_deterministic, raise_together
from judge.training.member import Member, one_by_one
from judge.types import Progress, Words
from judge.utils.launch import launched

Maker = Callable[[Materials], Backbone] | Callable[[Materials], FrozenReader]


@dataclass(frozen=True, slots=True)
class Precomputed:
    """What frozen networks make of a run's pictures and captions.

    Attributes:
        keys: image id -> what its picture shows, hashed.
        features: judge -> the features of pictures or captions that it is trained on.
    """

    keys: Mapping[str, str] = field(default_factory=dict)
    features: Mapping[str, FeatureStore] = field(default_factory=dict)


def precompute(
    members: Sequence[Member], materials: Materials, folder: Path, progress: Progress | None = None
) -> Precomputed:
    """Features for all judges of ``members``; in a launch each process computes its share of them.

    Args:
        members: with the samples whose pictures and captions are needed.
        materials: with the pictures.
        folder: feature cache folder.
        progress: called with the progress.

    Raises:
        JudgeError: no pictures; one that is missing or at fault; weights that cannot be had; a folder that cannot be
            written. In every process of a launch, whichever met it.
    """
    judges = {member.judge.name: member.judge for member in members}
    keys = _picture_keys(members, materials)
    captions = _captions(members)
    made: dict[Maker, FeatureStore] = {}
    features = dict[str, FeatureStore]()
    for name, judge in judges.items():
        if (make := judge.reader or judge.backbone) is not None:
            if make not in made:
                made[make] = _compute(partial(_cache, judge, keys, captions, materials, folder), progress)
            features[name] = made[make]
    return Precomputed(keys, features)


def _picture_keys(members: Sequence[Member], materials: Materials) -> dict[str, str]:
    names = {member.judge.name for member in members if "image" in member.judge.modalities}
    if not names:
        return {}
    if materials.pictures is None:
        what = f"there are no pictures for {', '.join(sorted(names))}"
        raise JudgeError(what, where="--images", mend="give the folder of pictures")
    slots = {id(member.samples): member.samples for member in members}.values()
    images = {sample.image for samples in slots for sample in samples if sample.image is not None}
    return {image: materials.pictures.key(image) for image in sorted(images)}


def _captions(members: Sequence[Member]) -> dict[Maker, dict[Words, None]]:
    """Maker of a reader -> the captions that its judges are trained and scored on."""
    found: dict[Maker, dict[Words, None]] = {}
    done = set()
    for member in one_by_one([member for member in members if member.judge.reader]):
        judge = member.judge
        if judge.reader is not None and (judge.name, id(member.samples)) not in done:
            done.add((judge.name, id(member.samples)))
            found.setdefault(judge.reader, {}).update(
                dict.fromkeys(judge.perceive(sample).words for sample in member.samples)
            )
    return found


def _cache(
    judge: Blueprint,
    keys: Mapping[str, str],
    captions: Mapping[Maker, Iterable[Words]],
    materials: Materials,
    folder: Path,
) -> FeatureCache:
    """The cache of the features that a judge's frozen network computes."""
    if judge.reader is not None:
        return CaptionCache(judge.reader(materials), captions[judge.reader], folder)
    assert materials.pictures is not None
    assert judge.backbone is not None
    return PictureCache(judge.backbone(materials), materials.pictures, keys, folder)


def _compute(make: Callable[[], FeatureCache], progress: Progress | None) -> FeatureStore:
    """Compute what a cache lacks; in a launch each process computes its share."""
    accelerator = make_accelerator() if launched() else None
    make_deterministic()
    rank, world = (accelerator.process_index, accelerator.num_processes) if accelerator else (0, 1)
    with raise_together():
        # All look for what is missing before any computes: what one finds another must not pass over.
        cache = make()
        missing = cache.missing()
    with raise_together():
        device = accelerator.device if accelerator else choose_device(None)
        cache.compute(cache.share(missing, rank, world), device=device, progress=progress)
    with raise_together():
        # What others have computed is there, unless their machine has a disk of its own.
        cache.compute(cache.missing() if launched() else [], device=device, progress=progress)
        return cache.open()
