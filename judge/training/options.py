"""How members are trained, and keys of their results: hashes of everything that decides a result."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from judge.evidence import Slot
from judge.judges import NOTHING, OPTIONS, Blueprint, Materials, Recipe, Sharing
from judge.training.member import Member, one_by_one
from judge.types import Progress, Sample
from judge.utils.launch import computes_on, launch_precision, promised

if TYPE_CHECKING:
    from judge.training.features import Precomputed

# How the work is done: the numbers are the same, up to rounding.
_SAME_NUMBERS = {"micro_batch", "sharing", "checkpointing"}
Log = Callable[..., None]
"""Called after each epoch with "epoch" and, as keywords, the judge, the number of the epoch and the losses."""


@dataclass(frozen=True, slots=True)
class TrainingSetup:
    """How members are trained.

    Attributes:
        recipe: overrides of the blueprints' recipes, field -> value, e.g. {"epochs": 2}.
        sharing: how several processes are used; None for each judge's own default.
        mixed_precision: Accelerate's ("no", "bf16", "fp16"); None for that of the launch.
        workers: members trained at a time on this machine; None for one a core. Processes of a launch, and a GPU, train
            one at a time.
        stack: whether judges that can be are trained together as one program; None for doing so on GPUs only.
        loaders: processes that collate batches ahead for each judge; None for a number that suits judge and device.
        store: folder of the answers of finished members and of checkpoints; None to keep none.
        keeps_weights: whether trained judges are stored there too.
        materials: what judges are given beside their samples.
        features: feature cache folder, shared by all runs.
        log: called after each epoch; None for no log.
        masking: how images are masked, as settings of ``judge evaluate``; noted in the files of judges.
        precomputed: features of images and captions; None if none are needed, or before they are computed.
    """

    recipe: dict[str, Any] = field(default_factory=dict)
    sharing: Sharing | None = None
    mixed_precision: str | None = None
    workers: int | None = None
    stack: bool | None = None
    loaders: int | None = None
    store: Path | None = None
    keeps_weights: bool = False
    materials: Materials = NOTHING
    features: Path = Path("runs/features")
    masking: Mapping[str, Any] = field(default_factory=dict)
    precomputed: Precomputed | None = None
    log: Log | None = None

    def precompute(self, members: Sequence[Member], progress: Progress | None = None) -> TrainingSetup:
        """A setup with the features that the judges of ``members`` need.

        Raises:
            JudgeError: as :func:`~judge.training.features.precompute`.
        """
        judges = {member.judge.name: member.judge for member in members}.values()
        if self.precomputed or not any("image" in judge.modalities or judge.reader for judge in judges):
            return self
        from judge.training.features import precompute

        return replace(self, precomputed=precompute(members, self.materials, self.features, progress))

    def recipe_of(self, judge: Blueprint) -> Recipe | None:
        """The judge's recipe with the overrides; None for judges that train themselves."""
        recipe = judge.tuned.get(self.materials.tuning, judge.recipe)
        return replace(recipe, **self.recipe) if recipe else None

    def is_trained(self, judge: Blueprint) -> bool:
        """False for a zero-shot judge."""
        return not (self.materials.tuning == "zero-shot" and "zero-shot" in judge.tuned)

    def settings_of(self, judge: Blueprint) -> dict[str, Any]:
        """The resolved settings that decide a judge's numbers: name -> value."""
        recipe = self.recipe_of(judge) if self.is_trained(judge) else None
        found = asdict(recipe) if recipe else {}
        given = {part.name: getattr(self.materials, part.name) for part in fields(Materials)}
        given |= {option: given[name] for option, name in OPTIONS.items()}
        given |= asdict(self.materials.prompt) if self.materials.prompt else {}
        found |= {name: value for name, value in given.items() if name in judge.options}
        if "precision" in judge.options:
            found["precision"] = _precision(self)
        return {name: value for name, value in found.items() if name not in _SAME_NUMBERS}

    def sharing_of(self, judge: Blueprint) -> Sharing:
        """How processes share the training; a judge that trains itself is always trained by one of them."""
        recipe = self.recipe_of(judge)
        return "members" if recipe is None else self.sharing or recipe.sharing

    def stacks(self, judge: Blueprint) -> bool:
        """Whether judges of this kind are trained together as one program.

        fp16 scales the loss of each judge by itself, so such judges are trained one by one; so are those whose learning
        rate changes.
        """
        recipe = self.recipe_of(judge)
        if not judge.stacked or self.sharing_of(judge) != "members" or _precision(self) == "fp16":
            return False
        if recipe is None or recipe.warmup or recipe.decay or recipe.clip is not None:
            return False
        return computes_on() != "cpu" if self.stack is None else self.stack


def prepare_members(
    members: Sequence[Member], setup: TrainingSetup, progress: Progress | None = None
) -> tuple[list[Member], TrainingSetup]:
    """The members with their keys, and a setup with the features that they need.

    Raises:
        JudgeError: as :func:`~judge.training.features.precompute`.
    """
    setup = setup.precompute(members, progress)
    return [replace(member, key=key) for member, key in zip(members, name_members(members, setup), strict=True)], setup


def name_members(members: Sequence[Member], setup: TrainingSetup) -> list[str]:
    """A key for each member's result: equal keys, equal numbers. Features must have been computed."""
    evidence: dict[object, str] = {}
    splits: dict[object, str] = {}
    digests: dict[object, str] = {}
    names = []
    assert setup.precomputed or not any(member.judge.backbone or member.judge.reader for member in members)
    keys = setup.precomputed.keys if setup.precomputed else {}
    for member in one_by_one(members):
        view = id(member.samples), member.judge.blanked, bool(member.judge.joint)
        if view not in evidence:
            evidence[view] = _evidence_digest(member, keys, digests)
        # The answers of a zero-shot judge depend on the test images of a split alone.
        trained = setup.is_trained(member.judge) or member.validates
        split = id(member.split), trained
        if split not in splits:
            splits[split] = _digest(repr(member.split if trained else member.split.test))
        setting = _setting(member, setup)
        names.append(_digest(repr((setting, splits[split], evidence[view]))))
    return names


def _digest(*texts: str) -> str:
    return hashlib.blake2b("".join(texts).encode(), digest_size=16).hexdigest()


def _setting(member: Member, setup: TrainingSetup) -> tuple[object, ...]:
    """What decides a member's result beside its evidence and split."""
    judge = member.judge
    recipe = setup.recipe_of(judge)
    packages = [_version(name) for name in ("caption-judge", "scikit-learn" if recipe is None else "torch")]
    features = setup.precomputed and setup.precomputed.features.get(judge.name)
    given = features.key if features else None, setup.materials.settings if recipe else None
    start = judge.fingerprint(setup.materials) if judge.fingerprint else None
    # Stored judges are found by later runs wherever they were trained; their files say where that was.
    place = recipe and (_precision(setup) if setup.keeps_weights else _place(member, setup))
    chosen = member.settings, member.validates
    stream = member.stream if setup.is_trained(judge) else None
    return packages, judge.name, member.target, recipe, stream, chosen, place, given, start


_version = cache(version)


def _place(member: Member, setup: TrainingSetup) -> tuple[str, ...]:
    """Precision and device; if processes train one judge together, also their number and, on CPUs, their threads."""
    import torch

    precision, device = _precision(setup) or "no", computes_on()
    if setup.sharing_of(member.judge) == "members":
        # Stacked judges draw other dropout masks, and may sum products in another order.
        return precision, device, "stacked" if setup.stacks(member.judge) else "whole"
    threads = str(torch.get_num_threads()) if device == "cpu" else ""
    return precision, device, str(promised()), threads


def _precision(setup: TrainingSetup) -> str | None:
    """The precision of products, from the settings or the launch; None for float32."""
    found = setup.mixed_precision or launch_precision()
    return None if found == "no" else found


def _evidence_digest(member: Member, keys: Mapping[str, str], known: dict[object, str]) -> str:
    """Hash of what the member's judge, or all judges trained jointly, perceive; ``known`` caches those of samples."""
    slot, judge = member.samples, member.judge
    if isinstance(slot, Slot) and member.is_refit and not judge.blanked:
        # The samples of a refit are not drawn before it is trained.
        images = [keys.get(image) for image in sorted(slot.images)] if slot.evidence.sides.uses_images else None
        return _digest(
            repr((slot.side, slot.position, slot.evidence.digest(None if judge.joint else slot.side), images))
        )
    together = slot.evidence.slots.values() if isinstance(slot, Slot) and judge.joint else [slot]
    parts = []
    for samples in (slot, *together):
        key = id(samples), judge.blanked
        if key not in known:
            known[key] = _samples_digest(map(judge.perceive, samples), keys)
        parts.append(known[key])
    return _digest(*parts)


def _samples_digest(samples: Iterable[Sample], keys: Mapping[str, str]) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for sample in samples:
        image = keys.get(sample.image) if sample.image is not None else None
        digest.update(repr((sample.image_id, sample.words, sample.answers, image)).encode())
    return digest.hexdigest()
