"""Members: the judges of a run, and how they are trained."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from judge.corpus.splits import Split
from judge.evidence import Slot
from judge.judges import NOTHING, Assignment, Blueprint, Materials, Recipe, Sharing
from judge.text.coded import SampleTable
from judge.types import FloatArray, IntArray, Sample, Side, Target
from judge.utils.launch import launch_precision

Log = Callable[..., None]
"""Called after each epoch with "epoch" and, as keywords, the judge, the number of the epoch and the losses."""


@dataclass(frozen=True, slots=True)
class Member:
    """One judge to train.

    Attributes:
        samples: the evidence of one side and caption index; shared by all members that split it.
        split: which images it learns from and is scored on.
        seed: the run's seed number. The training seed also depends on the fold and, if the judge reads captions, on
            their index, but not on side or captioner: equal evidence makes equal judges.
        settings: chosen before, e.g. (("C", 0.1),); only for refits.
        validates: whether its loss on validation images is needed, to choose among seeds.
        ingredients: what its result depends on, see :func:`~judge.training.identity.identify`; empty before that.
    """

    judge: Blueprint
    target: Target
    samples: Sequence[Sample]
    split: Split
    seed: int
    index: int = 0
    settings: tuple[tuple[str, float], ...] = ()
    validates: bool = False
    ingredients: Mapping[str, str] = field(default_factory=dict)
    key: str = ""

    @property
    def side(self) -> Side:
        """Whose captions it is about."""
        return self.samples.side if isinstance(self.samples, Slot) else self.samples[0].side

    @property
    def is_refit(self) -> bool:
        """Whether its data are resampled."""
        return isinstance(self.samples, Slot) and self.samples.evidence.resample is not None

    def training(self) -> list[Sample]:
        """The samples that it learns from, weighted by class if classes count equally."""
        return [replace(sample, weight=self.weight(sample)) for sample in self._of(self.split.train)]

    def validation(self) -> list[Sample]:
        """The samples that choose its epoch, weighted likewise; often empty."""
        return [replace(sample, weight=self.weight(sample)) for sample in self._of(self.split.validation)]

    def test(self) -> list[Sample]:
        """The samples that it is scored on, in the order of ``samples``."""
        return self._of(self.split.test)

    def places(self, images: Sequence[str]) -> list[int]:
        """Places in ``samples`` of the samples of ``images``, in order."""
        if isinstance(self.samples, Slot):
            place = self.samples.place
            return sorted([place[image] for image in images if image in place])
        wanted = set(images)
        return [place for place, sample in enumerate(self.samples) if sample.image_id in wanted]

    def _of(self, images: Sequence[str]) -> list[Sample]:
        return [self.judge.perceive(self.samples[place]) for place in self.places(images)]

    def weight(self, sample: Sample) -> float:
        """The weight of a sample in training."""
        if self.target.kind == "tasks":
            return 1.0
        return self.split.weights[self.target.classes[sample.answers[0]]]

    def weights(self, samples: SampleTable) -> FloatArray:
        """The weights of all samples, [N]."""
        if self.target.kind == "tasks":
            return np.ones(len(samples.truth))
        of_classes = np.array([self.split.weights[name] for name in self.target.classes], dtype=np.float64)
        return np.asarray(of_classes[samples.truth.argmax(axis=1)])

    @property
    def stream(self) -> int:
        """The training seed."""
        return derive_seed(self.seed, 0 if "caption" in self.judge.blanked else self.index, self.split.fold)


def derive_seed(*numbers: int) -> int:
    """One seed, of 63 bits, from several numbers; (s,), (s, 0) and (s, 0, 0) give three."""
    # SeedSequence ignores trailing zeros, so the count is hashed too. It is not for three numbers: that would change
    # published figures.
    count = () if len(numbers) == 3 else (len(numbers),)
    return int(np.random.SeedSequence(numbers, spawn_key=count).generate_state(1, np.uint64)[0] >> np.uint64(1))


def assign(members: Sequence[Member]) -> list[Assignment]:
    """Members for joint training: each predicts its test samples and, if it validates, then its validation samples."""
    # Most caption indices have the same images: look up once how a split divides them.
    known: dict[tuple[int, tuple[str, ...]], tuple[IntArray, FloatArray, IntArray]] = {}
    views: dict[int, tuple[SampleTable, Sequence[Sample]]] = {}
    found = []
    for member in members:
        if id(member.samples) not in views:
            perceived = [*map(member.judge.perceive, member.samples)] if member.judge.blanked else member.samples
            views[id(member.samples)] = SampleTable.of(member.samples, len(member.target.classes)), perceived
        table, perceived = views[id(member.samples)]
        key, split = (id(member.split), table.images), member.split
        if key not in known:
            learnt = np.array(member.places(split.train), dtype=np.int64)
            asked = member.places(split.test) + (member.places(split.validation) if member.validates else [])
            known[key] = learnt, member.weights(table)[learnt], np.array(asked, dtype=np.int64)
        seed, name = derive_seed(member.seed, 0, split.fold), (member.seed, split.fold, id(split))
        found.append(Assignment(member.side, perceived, *known[key], seed, name, dict(member.settings)))
    return found


def one_by_one(members: Iterable[Member]) -> Iterator[Member]:
    """Yield the members; free the evidence of each refit before the next one."""
    held: Slot | None = None
    for member in members:
        slot = member.samples
        if held is not None and (not isinstance(slot, Slot) or slot.evidence is not held.evidence):
            held.evidence.release()
        held = slot if isinstance(slot, Slot) and member.is_refit else None
        yield member
    if held is not None:
        held.evidence.release()


@dataclass(frozen=True, slots=True)
class Precomputed:
    """Features of a run's images and captions.

    Attributes:
        keys: image id -> hash of its content and mask.
        features: judge -> the ``FeatureStore`` of images or captions that it is trained on; the ``ImageVectors`` of a
            judge that is trained jointly.
    """

    keys: Mapping[str, str] = field(default_factory=dict)
    features: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TrainingSetup:
    """How members are trained.

    Attributes:
        recipe: overrides of the blueprints' recipes, field -> value, e.g. {"epochs": 2}.
        sharing: how several processes are used; None for each judge's own default.
        mixed_precision: Accelerate's ("no", "bf16", "fp16"); None for that of the launch.
        workers: members trained at a time on this machine; None for one a core. Processes of a launch, and a GPU, train
            one at a time.
        loaders: processes that collate batches ahead for each judge; None for a number that suits judge and device.
        store: folder of the answers of finished members and of checkpoints; None to keep none.
        keeps_weights: whether trained judges are stored there too.
        features: feature cache folder, shared by all runs.
        log: called after each epoch, in worker processes too, to which it is sent; None for no log.
        steps: file that grows by a byte with each optimiser step of any training of this machine; None for no count.
        masking: how images are masked, as settings of ``judge evaluate``; noted in the files of judges.
        precomputed: features of images and captions; None if none are needed, or before they are computed.
    """

    recipe: dict[str, Any] = field(default_factory=dict)
    sharing: Sharing | None = None
    mixed_precision: str | None = None
    workers: int | None = None
    loaders: int | None = None
    store: Path | None = None
    keeps_weights: bool = False
    materials: Materials = NOTHING
    features: Path = Path("runs/cache/features")
    masking: Mapping[str, Any] = field(default_factory=dict)
    precomputed: Precomputed | None = None
    log: Log | None = None
    steps: Path | None = None

    def recipe_of(self, judge: Blueprint) -> Recipe | None:
        """The judge's recipe with the overrides; None for judges that train themselves."""
        recipe = judge.tuned.get(self.materials.tuning, judge.recipe)
        return replace(recipe, **self.recipe) if recipe else None

    def is_trained(self, judge: Blueprint) -> bool:
        """False for a zero-shot judge."""
        return not (self.materials.tuning == "zero-shot" and "zero-shot" in judge.tuned)

    def steps_of(self, member: Member) -> int:
        """Optimiser steps of its training, if none of its images lacks a caption; 0 for a judge that trains itself."""
        recipe = self.recipe_of(member.judge)
        if recipe is None or not self.is_trained(member.judge):
            return 0
        return recipe.epochs * -(-len(member.split.train) // recipe.batch_size)

    def count(self, steps: int) -> None:
        """Count optimiser steps; no training ends because they cannot be counted."""
        if self.steps:
            with suppress(OSError):
                handle = os.open(self.steps, os.O_WRONLY | os.O_APPEND)
                os.write(handle, bytes(steps))
                os.close(handle)

    @property
    def precision(self) -> str:
        """Accelerate's precision of products, from the settings or the launch."""
        return self.mixed_precision or launch_precision()

    def sharing_of(self, judge: Blueprint) -> Sharing:
        """How processes share the training; a judge that trains itself is always trained by one of them."""
        recipe = self.recipe_of(judge)
        return "members" if recipe is None else self.sharing or recipe.sharing
