"""Members: the judges of a run, how they are trained, and what their answers depend on.

What a judge's answers depend on, name -> value or hash, is its key, and says why it is trained again. A blueprint lists
what it reads (``reads``, ``fingerprint``); the trainer adds the recipe, data, split and seed. How the work is done
(micro-batches, sharing, threads) changes numbers by rounding alone, and is left out.
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from judge.corpus.splits import Split
from judge.errors import some
from judge.evidence import Slot
from judge.judges import NOTHING, OF_BACKBONES, OPTIONS, Assignment, Blueprint, Materials, Recipe, Sharing
from judge.judges.names import split_reference
from judge.text.coded import SampleTable
from judge.types import FloatArray, IntArray, Sample, Side, Target
from judge.utils.identity import digest_of
from judge.utils.launch import computes_on, launch_precision, promised
from judge.utils.tensors import peek_notes, read_sound

_SAME_NUMBERS = {"micro_batch", "sharing", "checkpointing"}
# The key of the features holds them by content.
_OF_FEATURES = {*OF_BACKBONES, "image_features"}
_DATA, _SPLIT = "captions, labels or images", "its training or test images"
_IMAGES, _CAPTIONS = "the features of images", "the vectors of captions"
_version = cache(version)
DIVERGED = "lower --training learning_rate=X, or use --training precision=no"
"""Advice where a loss or an answer is no number."""
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
        ingredients: what its result depends on, see :func:`identify`; empty before that.
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


def settings_of(judge: Blueprint, setup: TrainingSetup) -> dict[str, Any]:
    """The resolved settings that decide a judge's numbers: name -> value."""
    recipe = setup.recipe_of(judge) if setup.is_trained(judge) else None
    found = asdict(recipe) if recipe else {}
    if recipe and recipe.keep == "last":
        del found["patience"]  # Without validation samples no training ends early.
    given = {part.name: getattr(setup.materials, part.name) for part in fields(Materials)}
    given |= {option: given[name] for option, name in OPTIONS.items()}
    given |= asdict(setup.materials.prompt) if setup.materials.prompt else {}
    from_file = setup.materials.image_features and judge.reads_vectors
    unread = _OF_FEATURES if from_file else {"image_features"}  # Vectors of a file are known by content.
    found |= {name: value for name, value in given.items() if name in judge.options - unread}
    if "precision" in judge.options:
        found["precision"] = None if setup.precision == "no" else setup.precision
    found |= {"plugin": judge.origin} if judge.origin else {}
    return {name: value for name, value in found.items() if name not in _SAME_NUMBERS}


def identify(members: Sequence[Member], setup: TrainingSetup) -> list[dict[str, str]]:
    """What each member's result depends on, name -> value or hash; features must have been computed."""
    assert setup.precomputed or not any(member.judge.backbone or member.judge.reader for member in members)
    evidence, splits, digests = dict[object, str](), dict[object, str](), dict[object, str]()
    judges = {member.judge.name: member.judge for member in members}
    known = {name: _identify_judge(judge, setup) for name, judge in judges.items()}
    keys = setup.precomputed.keys if setup.precomputed else {}
    found = []
    for member in one_by_one(members):
        trained = setup.is_trained(member.judge)
        view = id(member.samples), member.judge.blanked, bool(member.judge.joint)
        if view not in evidence:
            evidence[view] = _evidence_digest(member, keys, digests)
        # The answers of a zero-shot judge depend on the test images of a split alone.
        learns = trained or member.validates
        split = id(member.split), learns
        if split not in splits:
            splits[split] = digest_of(repr(member.split if learns else member.split.test))
        own = {_DATA: evidence[view], _SPLIT: splits[split], "its classes": repr(member.target)}
        own |= {"its seed": str(member.stream)} if trained else {}
        own |= {"its settings": repr((member.settings, member.validates))}
        found.append(known[member.judge.name] | own)
    return found


def _identify_judge(judge: Blueprint, setup: TrainingSetup) -> dict[str, str]:
    """What all members of a judge depend on."""
    kind, reference, suffix = split_reference(judge.name)
    recipe, features = setup.recipe_of(judge), setup.precomputed and setup.precomputed.features.get(judge.name)
    content = judge.fingerprint(setup.materials) if judge.fingerprint else {}
    settings = settings_of(judge, setup) | dict(content)
    own = settings.keys() - _OF_FEATURES
    found = {name: json.dumps(settings[name], sort_keys=True, default=str) for name in own}
    # A checkpoint may be moved: its content counts.
    found["its name"] = f"{kind}{suffix}" if reference and (content or features) else judge.name
    for package in ("caption-judge", "scikit-learn" if recipe is None else "torch"):
        found[f"the version of {package}"] = _version(package)
    if features:
        found[_IMAGES if judge.backbone else _CAPTIONS] = features.key
    if recipe and setup.is_trained(judge) and not setup.keeps_weights:
        # Kept judges are found wherever they were trained. Others draw random numbers by device and process.
        found["the device"] = computes_on()
        found["the number of processes"] = str(promised() if setup.sharing_of(judge) == "data" else 1)
    return found


def _evidence_digest(member: Member, keys: Mapping[str, str], known: dict[object, str]) -> str:
    """Hash of what the member's judge, or all judges trained jointly, perceive; ``known`` caches those of samples."""
    slot, judge = member.samples, member.judge
    if isinstance(slot, Slot) and member.is_refit and not judge.blanked:
        # The samples of a refit are not drawn before it is trained.
        images = [keys.get(image) for image in sorted(slot.images)] if slot.evidence.sides.uses_images else None
        return digest_of(
            repr((slot.side, slot.position, slot.evidence.digest(None if judge.joint else slot.side), images))
        )
    together = slot.evidence.slots.values() if isinstance(slot, Slot) and judge.joint else [slot]
    parts = []
    for samples in (slot, *together):
        key = id(samples), judge.blanked
        if key not in known:
            digest = hashlib.blake2b(digest_size=16)
            for sample in map(judge.perceive, samples):
                image = keys.get(sample.image) if sample.image is not None else None
                digest.update(repr((sample.image_id, sample.words, sample.answers, image)).encode())
            known[key] = digest.hexdigest()
        parts.append(known[key])
    return digest_of(*parts)


def owner_of(member: Member) -> list[Any]:
    """Whose answers a file holds."""
    captioner = member.samples.evidence.captioner if isinstance(member.samples, Slot) else None
    return [member.judge.name, captioner, member.side, member.index, member.seed, member.split.fold]


def explain_again(members: Sequence[Member], store: Path) -> list[str]:
    """Why networks are trained although ``store`` holds answers of them, a sentence for each judge."""
    wanted = {f"{member.key}.safetensors" for member in members}
    new = [one for one in members if one.judge.recipe and not one.is_refit]
    new = [one for one in new if not (store / f"{one.key}.safetensors").exists()]
    stored: dict[str, list[dict[str, str]]] = {}
    for path in store.glob(f"{'?' * 32}.safetensors") if new else ():
        about = None if path.name in wanted else (read_sound(path, peek_notes) or {}).get("identity")
        if about:
            stored.setdefault(repr(about["of"]), []).append(about["depends_on"])
    reasons: dict[str, set[str]] = {}
    for member in new:
        own = {*member.ingredients.items()}
        others = [{name for name, _ in own ^ {*old.items()}} for old in stored.get(repr(owner_of(member)), ())]
        reasons.setdefault(member.judge.name, set()).update(*sorted(others, key=len)[:1])
    return [f"judge '{name}' is trained again: {some(sorted(of))} changed" for name, of in reasons.items() if of]
