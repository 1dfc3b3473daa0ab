"""Pictures looked at and captions read before judges are trained: by each frozen network once, for all judges."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from judge.errors import JudgeError
from judge.judges import Backbone, Blueprint, FrozenReader, Materials, RegionBackbone, find_judge
from judge.masking.detectors.weights import choose_device
from judge.masking.hidden import HiddenPictures
from judge.training.features import FeatureCache, FeatureStore
from judge.training.processes import gather, make_accelerator
from judge.training.setup import Member, Precomputed, one_by_one
from judge.training.texts import TextCache
from judge.types import Progress, Words


def precompute_pictures(
    judges: Mapping[str, Blueprint],
    images: Sequence[str],
    materials: Materials,
    folder: Path,
    *,
    launched: bool = False,
    progress: Progress | None = None,
) -> Precomputed:
    """What ``judges`` see of ``images``.

    Args:
        judges: by name.
        images: ids of the pictures that stand in samples.
        materials: with the pictures.
        folder: where features are kept.
        launched: this process has companions, and each computes its share of the features.
        progress: told of progress.

    Raises:
        JudgeError: no pictures; one that is missing or at fault; weights that cannot be had; a folder that cannot be
            written. In every process of a launch, whichever met it.
    """
    if materials.pictures is None:
        names = ", ".join(sorted(judges))
        raise JudgeError(f"there are no pictures for {names}", where="--images", mend="give the folder of pictures")
    accelerator = make_accelerator() if launched else None
    rank, world = (accelerator.process_index, accelerator.num_processes) if accelerator else (0, 1)
    device = accelerator.device if accelerator else choose_device(None)
    keys = {image: materials.pictures.key(image) for image in images}
    eyes: dict[Callable[[Materials], Backbone], str] = {}
    opened: dict[Callable[[Materials], Backbone], FeatureStore] = {}
    for make in {blueprint.backbone: None for blueprint in judges.values()}:
        if make is not None:
            with _together(launched):
                backbone = make(materials)
                told = _with_boxes(keys, materials.pictures) if isinstance(backbone, RegionBackbone) else keys
                cache = FeatureCache(backbone, materials.pictures, told, folder)
                # All look before any computes: what one finds another must not pass over.
                missing = cache.missing()
            with _together(launched):
                cache.compute(missing[rank::world], device=device, progress=progress)
            # What things a picture shows is no part of its key: other judges do not know.
            eyes[make] = backbone.key if told is keys else f"{backbone.key} {_digest(told)}"
            opened[make] = cache.open()
    by_judge = {name: blueprint.backbone for name, blueprint in judges.items() if blueprint.backbone is not None}
    return Precomputed(
        keys,
        {name: eyes[make] for name, make in by_judge.items()},
        {name: opened[make] for name, make in by_judge.items()},
    )


def precompute_captions(
    members: Sequence[Member],
    materials: Materials,
    folder: Path,
    *,
    launched: bool = False,
    progress: Progress | None = None,
) -> Precomputed:
    """What frozen readers make of the captions of ``members``; as :func:`look`, for those judges that have one.

    Raises:
        JudgeError: a reader that cannot be had; a folder that cannot be written. In every process of a launch,
            whichever met it.
    """
    accelerator = make_accelerator() if launched else None
    rank, world = (accelerator.process_index, accelerator.num_processes) if accelerator else (0, 1)
    device = accelerator.device if accelerator else choose_device(None)
    backbones: dict[str, str] = {}
    features: dict[str, FeatureStore] = {}
    for make, (judges, captions) in _by_reader(members).items():
        with _together(launched):
            cache = TextCache(make(materials), captions, folder)
            missing = cache.missing()
        with _together(launched):
            cache.compute(missing[rank::world], device=device, progress=progress)
        backbones |= dict.fromkeys(judges, cache.reader.key)
        features |= dict.fromkeys(judges, cache.open())
    return Precomputed(backbones=backbones, features=features)


def _by_reader(
    members: Sequence[Member],
) -> dict[Callable[[Materials], FrozenReader], tuple[set[str], dict[Words, None]]]:
    """Maker of a reader -> the judges that have it, and the captions that they are trained and scored on."""
    found: dict[Callable[[Materials], FrozenReader], tuple[set[str], dict[Words, None]]] = {}
    done = set()
    for member in one_by_one(members):
        blueprint = find_judge(member.judge)
        if blueprint.reader is not None and (blueprint.name, id(member.samples)) not in done:
            done.add((blueprint.name, id(member.samples)))
            judges, captions = found.setdefault(blueprint.reader, (set(), {}))
            judges.add(blueprint.name)
            captions |= dict.fromkeys(blueprint.perceive(sample).words for sample in member.samples)
    return found


def _with_boxes(keys: Mapping[str, str], pictures: HiddenPictures) -> dict[str, str]:
    """``keys`` that also tell where things are."""
    return {image: _digest((key, pictures.boxes(image))) for image, key in keys.items()}


def _digest(told: object) -> str:
    return hashlib.blake2b(repr(told).encode(), digest_size=16).hexdigest()


@contextmanager
def _together(launched: bool) -> Iterator[None]:
    """Processes meet at the end; a fault of one is raised in all, so that none waits for another that has gone."""
    fault: JudgeError | None = None
    try:
        yield
    except JudgeError as error:
        fault = error
    for met in gather(fault) if launched else [fault]:
        if met is not None:
            raise met
