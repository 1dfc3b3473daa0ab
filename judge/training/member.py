"""Members: the judges of a run, with what each learns from and is scored on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from judge.corpus.splits import Split
from judge.evidence import Slot
from judge.judges import Assignment, Blueprint
from judge.types import FloatArray, IntArray, Sample, Side, Target


@dataclass(frozen=True, slots=True)
class Member:
    """One judge to train.

    Attributes:
        judge: its blueprint.
        target: what it guesses.
        samples: the evidence of one side and caption index; shared by all members that split it.
        split: which images it learns from and is scored on.
        seed: the run's seed number. The training seed also depends on the fold and, if the judge reads captions, on
            their index, but not on side or captioner: equal evidence makes equal judges.
        index: the caption index.
        settings: chosen before, e.g. (("C", 0.1),); only for refits.
        validates: whether its loss on validation images is needed, to choose among seeds.
        key: name of its result, see :func:`~judge.training.options.name_members`; "" before it is named.
    """

    judge: Blueprint
    target: Target
    samples: Sequence[Sample]
    split: Split
    seed: int
    index: int = 0
    settings: tuple[tuple[str, float], ...] = ()
    validates: bool = False
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
            return sorted(place[image] for image in images if image in place)
        wanted = set(images)
        return [place for place, sample in enumerate(self.samples) if sample.image_id in wanted]

    def _of(self, images: Sequence[str]) -> list[Sample]:
        return [self.judge.perceive(self.samples[place]) for place in self.places(images)]

    def weight(self, sample: Sample) -> float:
        """The weight of a sample in training."""
        if self.target.kind == "tasks":
            return 1.0
        return self.split.weights[self.target.classes[sample.answers[0]]]

    @property
    def stream(self) -> int:
        """The training seed."""
        return derive_seed(self.seed, 0 if "caption" in self.judge.blanked else self.index, self.split.fold)


def derive_seed(*numbers: int) -> int:
    """One seed, of 63 bits, from several numbers; (s,), (s, 0) and (s, 0, 0) give three."""
    # numpy pads with zeros, so the count is hashed too; except for three numbers, which published figures come from.
    count = () if len(numbers) == 3 else (len(numbers),)
    return int(np.random.SeedSequence(numbers, spawn_key=count).generate_state(1, np.uint64)[0] >> np.uint64(1))


def assign(members: Sequence[Member]) -> list[Assignment]:
    """Members for joint training: each predicts its test samples and, if it validates, then its validation samples."""
    # Most caption indices have the same images: look up once how a split divides them.
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
        name = member.seed, member.split.fold, id(member.split)
        seed = derive_seed(member.seed, 0, member.split.fold)
        found.append(Assignment(member.side, member.samples, *known[key], seed, name, dict(member.settings)))
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
