"""What is to be trained, and how: members, the setup, and a name for each result.

A member is one judge to train: what it learns from, what it is scored on, its seed.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

from judge.corpus.splits import Split
from judge.errors import JudgeError
from judge.evidence import Slot
from judge.judges import NOTHING, Assignment, Blueprint, Materials, Recipe, Sharing, find_judge
from judge.types import FloatArray, IntArray, Progress, Sample, Side, Target

if TYPE_CHECKING:
    from judge.training.features import FeatureStore

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Member:
    """One judge to train.

    Attributes:
        judge: name in the registry.
        target: what it guesses.
        samples: the evidence of one side and caption index; shared by all members that split it.
        split: which images it learns from and is scored on.
        seed: the run's seed number. The training seed also takes fold and, of judges that read, caption index, but
            neither side nor captioner: identical evidence makes identical judges.
        index: the caption index.
        settings: what was chosen for it before, e.g. (("C", 0.1),); of a refit.
        validates: whether its loss on validation images is wanted, to choose among seeds by.
    """

    judge: str
    target: Target
    samples: Sequence[Sample]
    split: Split
    seed: int
    index: int = 0
    settings: tuple[tuple[str, float], ...] = ()
    validates: bool = False

    @property
    def side(self) -> Side:
        """Whose captions it is about."""
        return self.samples.side if isinstance(self.samples, Slot) else self.samples[0].side

    @property
    def is_refit(self) -> bool:
        """Whether its data are drawn anew."""
        return isinstance(self.samples, Slot) and self.samples.evidence.resample is not None

    def training(self) -> list[Sample]:
        """What it learns from, weighted by class where classes are to count equally."""
        return [replace(sample, weight=self.weight(sample)) for sample in self._of(self.split.train)]

    def validation(self) -> list[Sample]:
        """What chooses its epoch, weighted likewise; often empty."""
        return [replace(sample, weight=self.weight(sample)) for sample in self._of(self.split.validation)]

    def test(self) -> list[Sample]:
        """What it is scored on, in the order of ``samples``."""
        return self._of(self.split.test)

    def places(self, images: Sequence[str]) -> list[int]:
        """Where the samples of ``images`` stand in ``samples``, in order."""
        if isinstance(self.samples, Slot):
            place = self.samples.place
            return sorted(place[image] for image in images if image in place)
        wanted = set(images)
        return [place for place, sample in enumerate(self.samples) if sample.image_id in wanted]

    def _of(self, images: Sequence[str]) -> list[Sample]:
        perceive = find_judge(self.judge).perceive
        return [perceive(self.samples[place]) for place in self.places(images)]

    def weight(self, sample: Sample) -> float:
        """What a sample counts in training."""
        if self.target.kind == "tasks":
            return 1.0
        return self.split.weights[self.target.classes[sample.answers[0]]]

    @property
    def stream(self) -> int:
        """The training seed."""
        return _stream(self.seed, 0 if "caption" in find_judge(self.judge).blanked else self.index, self.split.fold)


def assign(members: Sequence[Member]) -> list[Assignment]:
    """Members for joint training; each is asked about its test samples and, where it validates, then about those."""
    # Captions of most indices are of the same images: what a split makes of these is looked up once.
    known: dict[tuple[int, tuple[str, ...]], tuple[IntArray, FloatArray, IntArray]] = {}
    images: dict[int, tuple[str, ...]] = {}
    found = []
    for member in members:
        of = images.setdefault(id(member.samples), tuple(sample.image_id for sample in member.samples))
        key = id(member.split), of
        if key not in known:
            learnt, test = member.places(member.split.train), member.places(member.split.test)
            places = test + (member.places(member.split.validation) if member.validates else [])
            counts = [member.weight(member.samples[place]) for place in learnt]
            known[key] = np.array(learnt, dtype=np.int64), np.array(counts), np.array(places, dtype=np.int64)
        train, weights, asked = known[key]
        name = member.seed, member.split.fold, id(member.split)
        seed = _stream(member.seed, 0, member.split.fold)
        settings = dict(member.settings)
        found.append(Assignment(member.side, member.samples, train, weights, asked, seed, name, settings))
    return found


def _stream(*numbers: int) -> int:
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0] >> np.uint64(1))


@dataclass(frozen=True, slots=True)
class Precomputed:
    """What the judges of a run see, and what frozen readers read for them, before the first is trained.

    Attributes:
        keys: image id -> what its picture shows, hashed.
        backbones: judge -> the key of its backbone, and of the boxes that it is told; or the key of its frozen reader.
        features: judge -> the pictures as its backbone sees them, or the captions as its reader reads them.
    """

    keys: Mapping[str, str] = field(default_factory=dict)
    backbones: Mapping[str, str] = field(default_factory=dict)
    features: Mapping[str, FeatureStore] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TrainingSetup:
    """How members are trained.

    Attributes:
        recipe: overrides of the blueprints' recipes, field -> value, e.g. {"epochs": 2}.
        sharing: how several processes are used; None for each judge's own default.
        mixed_precision: Accelerate's ("no", "bf16", "fp16"); None for its own setting.
        workers: members trained at a time on this machine; None for one a core. A launch of several
            processes, or a GPU, has one a process.
        store: folder of finished members and of trainings under way; None to keep none.
        keeps_weights: whether trained networks are kept there too.
        materials: what judges are given beside their samples.
        features: folder of pictures' and captions' features, shared by all runs.
        precomputed: what judges see, and what is read for them; None where it has not been looked at.
    """

    recipe: dict[str, Any] = field(default_factory=dict)
    sharing: Sharing | None = None
    mixed_precision: str | None = None
    workers: int | None = None
    store: Path | None = None
    keeps_weights: bool = False
    materials: Materials = NOTHING
    features: Path = Path("runs/features")
    precomputed: Precomputed | None = None

    def precompute(self, members: Sequence[Member], progress: Progress | None = None) -> TrainingSetup:
        """A setup in which what judges see has been looked at; by all processes of a launch, each a share.

        Raises:
            JudgeError: as :func:`~judge.training.precompute.precompute_pictures` and ``precompute_captions``.
        """
        if self.precomputed is not None:
            return self
        judges = {
            found.name: found for found in {member.judge: find_judge(member.judge) for member in members}.values()
        }
        precomputed = Precomputed()
        if any("image" in blueprint.modalities for blueprint in judges.values()):
            slots = {id(member.samples): member.samples for member in members}.values()
            images = {sample.image for samples in slots for sample in samples if sample.image is not None}
            from judge.training.precompute import precompute_pictures

            precomputed = precompute_pictures(
                judges, sorted(images), self.materials, self.features, launched=launched(), progress=progress
            )
        if any(blueprint.reader for blueprint in judges.values()):
            from judge.training.precompute import precompute_captions

            read_too = precompute_captions(
                members, self.materials, self.features, launched=launched(), progress=progress
            )
            precomputed = replace(
                precomputed,
                backbones={**precomputed.backbones, **read_too.backbones},
                features={**precomputed.features, **read_too.features},
            )
        return replace(self, precomputed=precomputed)

    def file_of(self, key: str) -> Path | None:
        """Where the answers of the member with this name are kept; its weights beside them."""
        return self.store / f"{key}.safetensors" if self.store else None

    def recipe_of(self, blueprint: Blueprint) -> Recipe | None:
        """The judge's recipe with the overrides in place; None for judges that train themselves."""
        recipe = blueprint.tuned.get(self.materials.tuning, blueprint.recipe)
        return replace(recipe, **self.recipe) if recipe else None

    def is_trained(self, member: Member) -> bool:
        """False for a judge that is asked as it is (zero-shot)."""
        return not (self.materials.tuning == "zero-shot" and "zero-shot" in find_judge(member.judge).tuned)

    def units(self, member: Member) -> int:
        """Units of work of a member, for progress: its epochs, or 1."""
        recipe = self.recipe_of(find_judge(member.judge))
        return recipe.epochs if recipe else 1

    def sharing_of(self, member: Member) -> Sharing:
        """A judge that trains itself is always whole; a network as asked, or as its recipe says."""
        recipe = self.recipe_of(find_judge(member.judge))
        return "members" if recipe is None else self.sharing or recipe.sharing


_RANKS = ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK")


def launched() -> bool:
    """Whether ``accelerate launch``, torchrun or mpirun started this process."""
    return "ACCELERATE_MIXED_PRECISION" in os.environ or any(name in os.environ for name in _RANKS)


def is_main_process() -> bool:
    """Whether this process writes the files and talks to the user."""
    return next((os.environ[name] for name in _RANKS if name in os.environ), "0") == "0"


def in_main_process(work: Callable[[], T]) -> T:
    """What ``work`` returns, in every process: the main one does it, the others wait.

    Raises:
        JudgeError: what ``work`` raised; in all processes.
    """
    if not launched():
        return work()
    from judge.training.processes import gather, make_accelerator

    make_accelerator()
    found: T | None = None
    fault: JudgeError | None = None
    if is_main_process():
        try:
            found = work()
        except JudgeError as error:  # The others wait in gather: tell them before giving up.
            fault = error
    main, fault = gather((found, fault))[0]
    if fault is not None:
        raise fault
    return cast(T, main)


def one_by_one(members: Iterable[Member]) -> Iterator[Member]:
    """The members; what was made of a refit's evidence is forgotten when the next refit's turn comes."""
    held: Slot | None = None
    for member in members:
        slot = member.samples
        if held is not None and (not isinstance(slot, Slot) or slot.evidence is not held.evidence):
            held.evidence.release()
        held = slot if isinstance(slot, Slot) and member.is_refit else None
        yield member
    if held is not None:
        held.evidence.release()


def name_members(members: Sequence[Member], setup: TrainingSetup) -> list[str]:
    """A name for each member's result: equal names, equal numbers. The setup must have looked."""
    assert setup.precomputed is not None
    known: dict[object, str] = {}
    splits: dict[int, str] = {}
    digests: dict[object, str] = {}
    names = []
    for member in one_by_one(members):
        view = id(member.samples), find_judge(member.judge).blanked
        if view not in known:
            known[view] = _evidence_digest(member, setup.precomputed, digests)
        if id(member.split) not in splits:
            splits[id(member.split)] = hashlib.blake2b(repr(member.split).encode(), digest_size=16).hexdigest()
        names.append(_key(member, setup, splits[id(member.split)], known[view]))
    return names


def _key(member: Member, setup: TrainingSetup, split: str, evidence: str) -> str:
    """A name for the member's result: everything that decides it, hashed. Equal names, equal numbers."""
    blueprint = find_judge(member.judge)
    recipe = setup.recipe_of(blueprint)
    packages = [_version(name) for name in ("caption-judge", "scikit-learn" if recipe is None else "torch")]
    assert setup.precomputed is not None
    seen = setup.precomputed.backbones.get(blueprint.name), setup.materials.told if recipe else None
    start = blueprint.fingerprint(setup.materials) if blueprint.fingerprint else None
    # What is kept for later runs is found wherever it was trained; a network's file says where that was.
    place = recipe and (setup.mixed_precision if setup.keeps_weights else _place(member, setup))
    chosen = member.settings, member.validates
    setting = (packages, blueprint.name, member.target, recipe, member.stream, chosen, place, seen, start)
    return hashlib.blake2b(repr((setting, split, evidence)).encode(), digest_size=16).hexdigest()


_version = cache(version)


def _place(member: Member, setup: TrainingSetup) -> tuple[str, ...]:
    """Precision, device and, where processes train one judge together, their number, and their threads on CPUs."""
    import torch

    precision = setup.mixed_precision or os.environ.get("ACCELERATE_MIXED_PRECISION", "no")
    device = str(torch.accelerator.current_accelerator()) if torch.accelerator.is_available() else "cpu"
    if setup.sharing_of(member) == "members":
        return precision, device, "whole"
    threads = str(torch.get_num_threads()) if device == "cpu" else ""
    return precision, device, os.environ.get("WORLD_SIZE", "1"), threads


def _evidence_digest(member: Member, precomputed: Precomputed, known: dict[object, str]) -> str:
    """Of what the member's judge perceives; of judges trained jointly, of what all of them do.

    ``known``: of samples, filled here: each judge trained jointly reads those of all.
    """
    slot, blueprint = member.samples, find_judge(member.judge)
    digest = hashlib.blake2b(digest_size=16)
    if isinstance(slot, Slot) and member.is_refit and not blueprint.blanked:
        # Not made before it is trained on.
        seen = (
            [precomputed.keys.get(image) for image in sorted(slot.images)] if slot.evidence.sides.uses_images else None
        )
        told = slot.side, slot.position, slot.evidence.digest(None if blueprint.joint else slot.side), seen
        digest.update(repr(told).encode())
        return digest.hexdigest()
    together = slot.evidence.slots.values() if isinstance(slot, Slot) and blueprint.joint else [slot]
    for samples in (slot, *together):
        key = id(samples), blueprint.blanked
        if key not in known:
            known[key] = _samples_digest(map(blueprint.perceive, samples), precomputed)
        digest.update(known[key].encode())
    return digest.hexdigest()


def _samples_digest(samples: Iterable[Sample], precomputed: Precomputed) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for sample in samples:
        picture = precomputed.keys.get(sample.image) if sample.image is not None else None
        digest.update(repr((sample.image_id, sample.words, sample.answers, picture)).encode())
    return digest.hexdigest()
