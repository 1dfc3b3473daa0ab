"""Both sides of a captioner: masked, resampled for a refit, aligned, and cut into samples."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from itertools import compress
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import numpy as np

from judge.corpus.units import Units
from judge.evidence.preparation import Preparation
from judge.text.alignment import UNKNOWN, Aligner, AlignmentReport
from judge.text.survey import Coverage, Survey
from judge.types import SIDES, IntArray, Sample, Side, Target, Words

ResampleKind = Literal["exchanged", "half", "shuffled"]


@dataclass(frozen=True, slots=True)
class MaskedCaption:
    """A caption of a side, masked but not aligned, by image id and index among the image's captions of that side.

    ``named`` are the classes, and ``tasks`` the tasks, that it names, joined by "|"; "" if no metric needs them.
    ``answers`` are indices of what it names, where judges guess that; its ``words`` are then what is annotated of its
    image, ``index`` counts the captions that are left, and ``written`` all captions of the side.
    """

    image: str
    index: int
    words: Words
    named: str = ""
    tasks: str = ""
    answers: tuple[int, ...] | None = None
    written: int | None = None

    def __reduce__(self) -> tuple[type[MaskedCaption], tuple[object, ...]]:
        # Workers are sent thousands: Python's own way for such classes takes five times as long.
        return MaskedCaption, tuple(getattr(self, name) for name in self.__slots__)

    def at(self, index: int) -> MaskedCaption:
        """The caption with another index."""
        if index == self.index:
            return self
        # The function replace of dataclasses takes ten times as long, and refits move a million captions.
        return MaskedCaption(self.image, index, self.words, self.named, self.tasks, self.answers, self.written)

    @property
    def number(self) -> int:
        """Index among the image's captions in the file."""
        return self.index if self.written is None else self.written


class Exchangeable(NamedTuple):
    """What exchanges move: U captions of both sides, or all sentences of each.

    ``most``: sentences of a caption, at most. ``places``: side, and index of the first sentence, [U]. ``captions``:
    their rows, [U]. ``images``: number of the image, [U]. ``alike``: the unit whose random number counts, [U].
    """

    most: int
    places: list[tuple[Side, int]]
    captions: list[list[MaskedCaption]]
    images: IntArray
    alike: IntArray


@dataclass(frozen=True)
class Sides:
    """The captions of humans and of one captioner, masked, before alignment.

    Attributes:
        classes: image id -> class, sorted by image.
        answers: image id -> indices of the true classes or tasks.
        rows: side -> its captions, by image and index; indices that too few images have are left out.
        uses_images: whether judges see the images too.
        coverage: side -> how often its captions name the attribute; None without a lexicon.
        survey: side -> facts about its captions, and about what masking leaves in them.
        dropped: reason -> images, captions or tasks left out.
        prepared: how captions became the words of ``rows``.
        sentences: side -> how many sentences of a caption are captions of their own in ``rows``; 1 for whole captions.
        scenes: image id -> scene, where several images show one with different people; else empty.
    """

    captioner: str
    target: Target
    classes: Mapping[str, str]
    answers: Mapping[str, tuple[int, ...]]
    rows: Mapping[Side, tuple[MaskedCaption, ...]]
    aligner: Aligner
    uses_images: bool = False
    coverage: Mapping[Side, Coverage] | None = None
    survey: Mapping[Side, Survey] = field(default_factory=dict)
    dropped: Mapping[str, int] = field(default_factory=dict)
    prepared: Preparation | None = None
    sentences: Mapping[Side, int] = field(default_factory=dict)
    scenes: Mapping[str, str] = field(default_factory=dict)

    @property
    def guesses_names(self) -> bool:
        """Whether judges guess what captions name, and not what is annotated."""
        return any(row.answers is not None for of in self.rows.values() for row in of[:1])

    def answer(self, row: MaskedCaption) -> tuple[int, ...]:
        """Indices of what judges guess of a caption."""
        return self.answers[row.image] if row.answers is None else row.answers

    @cached_property
    def images(self) -> Mapping[tuple[Side, int], frozenset[str]]:
        """(side, caption index) -> the images that have such a caption."""
        found: dict[tuple[Side, int], set[str]] = {}
        for side, rows in self.rows.items():
            for row in rows:
                found.setdefault((side, row.index), set()).add(row.image)
        return {key: frozenset(images) for key, images in found.items()}

    @cached_property
    def exchangeable(self) -> Exchangeable:
        """What exchanges move; all draws share it."""
        # The sentences of a caption move together, if captions of both sides are judged by as many.
        numbers = {self.sentences.get(side, 1) for side in self.rows}
        most = numbers.pop() if len(numbers) == 1 else 1
        units: dict[tuple[Side, str, int], list[MaskedCaption]] = {}
        for side, rows in self.rows.items():
            for row in rows:
                units.setdefault((side, row.image, row.index // most), []).append(row)
        images = np.unique([image for _, image, _ in units], return_inverse=True)[1]
        # Captions of a scene's images move alike.
        firsts = dict[tuple[Side, str, int], int]()
        alike = [firsts.setdefault((s, self.scenes.get(i, i), n), k) for k, (s, i, n) in enumerate(units)]
        places = [(side, number * most) for side, _, number in units]
        return Exchangeable(most, places, list(units.values()), images, np.array(alike, dtype=np.int64))

    @cached_property
    def digests(self) -> Mapping[str, str]:
        """Checksums of each side's captions, and of the "rest"."""
        found: dict[str, str] = {}
        for side, rows in self.rows.items():
            digest = hashlib.blake2b(digest_size=16)
            for row in rows:
                answers = () if row.answers is None else (row.answers,)
                digest.update(repr((row.image, row.index, row.words, *answers)).encode())
            found[side] = digest.hexdigest()
        vectors = self.aligner.vectors
        space = vectors and (sorted(vectors.rows), hashlib.blake2b(vectors.matrix.tobytes()).hexdigest())
        scenes = (self.scenes,) if self.scenes else ()
        rest = self.answers, self.classes, self.aligner.how, self.aligner.delta, space, *scenes
        return found | {"rest": hashlib.blake2b(repr(rest).encode(), digest_size=16).hexdigest()}


@dataclass(frozen=True, slots=True)
class Resample:
    """A resample of a run's data, for a refit; images of a scene stay together (:mod:`judge.corpus.units`).

    - ``exchanged``: the captions of each image are distributed among the sides at random, as many to each as before.
      Without amplification, and if sides differ in nothing else, the run's own data are one such draw.
    - ``half``: half of the images of each class, drawn without replacement. An even number and the next one are the
      two halves of one draw.
    - ``shuffled``: labels (or all that is annotated, where judges guess from that) are shuffled among images, so that
      captions carry no information about them.

    Attributes:
        number: number of the draw, from 0; the same for all captioners, which stay comparable.
    """

    kind: ResampleKind
    number: int
    seed: int = 0

    def draw(self, sides: Sides) -> Sides:
        """The resampled sides."""
        if self.kind == "exchanged":
            return replace(sides, rows=self._exchange(sides))
        classes = self.classes(sides.classes, sides.scenes)
        if self.kind == "half":
            rows = {side: tuple(row for row in of if row.image in classes) for side, of in sides.rows.items()}
            return replace(sides, classes=classes, answers={i: sides.answers[i] for i in classes}, rows=rows)
        others = Units.make(sides.classes, sides.scenes).shuffled(self.number, self.seed)
        answers = {image: sides.answers[other] for image, other in others.items()}
        if not sides.guesses_names:
            return replace(sides, classes=classes, answers=answers)
        shown = {row.image: row.words for row in sides.rows["human"]}
        rows = {
            side: tuple(replace(row, words=shown[others[row.image]]) for row in of) for side, of in sides.rows.items()
        }
        return replace(sides, classes=classes, answers=answers, rows=rows)

    def classes(
        self, classes: Mapping[str, str], scenes: Mapping[str, str] = MappingProxyType({})
    ) -> Mapping[str, str]:
        """Image id -> class of the resampled images."""
        if self.kind == "exchanged":
            return classes
        units = Units.make(classes, scenes)
        if self.kind == "shuffled":
            return {image: classes[other] for image, other in units.shuffled(self.number, self.seed).items()}
        held = units.half(self.number, self.seed)
        return {image: classes[image] for image in compress(units.images, held)}

    def _exchange(self, sides: Sides) -> dict[Side, tuple[MaskedCaption, ...]]:
        units = sides.exchangeable
        drawn = np.random.default_rng([self.seed, 1, self.number]).random(len(units.images))[units.alike]
        # The captions sorted by image are replaced by the same captions shuffled within each image.
        taken = np.empty(len(drawn), dtype=np.int64)
        taken[np.argsort(units.images, kind="stable")] = np.lexsort((drawn, units.images))
        moved: dict[Side, list[MaskedCaption]] = {side: [] for side in sides.rows}
        for (side, first), other in zip(units.places, taken.tolist(), strict=True):
            for row in units.captions[other]:
                index = first + row.index % units.most
                if (side, index) in sides.images:
                    moved[side].append(row.at(index))
        return {side: tuple(rows) for side, rows in moved.items()}


class Evidence:
    """The samples of the judges of one captioner and one kind of evidence.

    Slow parts are computed when they are first used: those of a refit in the process that trains its judges.
    ``resample`` is None for the run's own data.
    """

    def __init__(self, sides: Sides, resample: Resample | None = None) -> None:
        self.sides, self.resample = sides, resample

    def __reduce__(self) -> tuple[type[Evidence], tuple[Sides, Resample | None]]:
        return Evidence, (self.sides, self.resample)

    @property
    def captioner(self) -> str:
        """Name of the generated side."""
        return self.sides.captioner

    @property
    def target(self) -> Target:
        """What judges guess."""
        return self.sides.target

    @cached_property
    def classes(self) -> Mapping[str, str]:
        """Image id -> class of the judged images."""
        sides = self.sides
        return self.resample.classes(sides.classes, sides.scenes) if self.resample else sides.classes

    @cached_property
    def drawn(self) -> Sides:
        """The sides, resampled."""
        return self.resample.draw(self.sides) if self.resample else self.sides

    @cached_property
    def slots(self) -> dict[tuple[Side, int], Slot]:
        """(side, caption index) -> its samples, one per image that has such a caption, sorted by image."""
        return {
            (side, index): Slot(self, side, index)
            for side, index in sorted(self.sides.images, key=lambda key: (key[0] != "human", key[1]))
        }

    @cached_property
    def written(self) -> Mapping[Side, Mapping[str, int]]:
        """Side -> image id -> number of the image's captions on that side."""
        return {side: Counter(row.image for row in rows) for side, rows in self.drawn.rows.items()}

    def preparation(self, side: Side) -> Preparation | None:
        """How new captions become words like those of ``side``; None if that is not known."""
        prepared, drawn = self.sides.prepared, self.drawn
        if prepared and prepared.options.text == "sentences" and self.sides.sentences.get(side, 1) == 1:
            prepared = replace(prepared, options=replace(prepared.options, text="whole"))
        if prepared is None or side == "generated" or drawn.aligner.how == "none":
            return prepared
        generated = frozenset(word for row in drawn.rows["generated"] for word in row.words)
        pairs = zip(drawn.rows["human"], self.aligned[0], strict=True)
        found = (pair for row, words in pairs for pair in zip(row.words, words, strict=True))
        near = {word: new for word, new in found if new not in (word, UNKNOWN)}
        return replace(prepared, vocabulary=generated, substitutes=near)

    def spell(self, row: MaskedCaption) -> str:
        """The answer of a caption in files: names joined by "|"."""
        return self.target.spell(self.drawn.answer(row))

    @cached_property
    def aligned(self) -> tuple[list[Words], AlignmentReport]:
        """The words of the human side, aligned, and a report."""
        human, generated = ([row.words for row in self.drawn.rows[side]] for side in SIDES)
        return self.drawn.aligner.align(human, generated)

    @cached_property
    def _cut(self) -> dict[tuple[Side, int], tuple[list[Sample], list[MaskedCaption]]]:
        drawn = self.drawn
        found: dict[tuple[Side, int], tuple[list[Sample], list[MaskedCaption]]] = {key: ([], []) for key in self.slots}
        for side, rows in drawn.rows.items():
            aligned = self.aligned[0] if side == "human" else [row.words for row in rows]
            for row, words in zip(rows, aligned, strict=True):
                image = row.image if drawn.uses_images else None
                samples, captions = found[side, row.index]
                scene = drawn.scenes.get(row.image)
                samples.append(Sample(row.image, side, row.index, words, drawn.answer(row), image=image, scene=scene))
                captions.append(row)
        return found

    def release(self) -> None:
        """Free what was computed from the sides; it is computed again when it is used."""
        for holder in (self, *self.slots.values()):
            for name in ("_cut", "aligned", "drawn", "classes", "written", "place", "texts", "cells"):
                holder.__dict__.pop(name, None)

    def digest(self, side: Side | None = None) -> str:
        """Checksum of the samples of ``side`` (None: of both), computed without making them."""
        resample, digests = self.resample, self.sides.digests
        apart = side and self.sides.aligner.how == "none" and resample and resample.kind != "exchanged"
        parts = [digests[name] for name in SIDES if not apart or name == side]
        return hashlib.blake2b(repr((resample, digests["rest"], parts)).encode(), digest_size=16).hexdigest()


class Slot(Sequence[Sample]):
    """The samples of one side and caption index, made when they are first used."""

    def __init__(self, evidence: Evidence, side: Side, position: int) -> None:
        self.evidence, self.side, self.position = evidence, side, position

    def __reduce__(self) -> tuple[type[Slot], tuple[Evidence, Side, int]]:
        return Slot, (self.evidence, self.side, self.position)

    def __getitem__(self, place: Any) -> Any:  # A sample, or several of a slice.
        return self._samples[place]

    def __len__(self) -> int:
        return len(self._samples)

    def __iter__(self) -> Iterator[Sample]:
        return iter(self._samples)

    @property
    def _samples(self) -> list[Sample]:
        return self.evidence._cut[self.side, self.position][0]

    @property
    def captions(self) -> Sequence[MaskedCaption]:
        """The captions, before alignment, in the order of the samples."""
        return self.evidence._cut[self.side, self.position][1]

    @cached_property
    def place(self) -> Mapping[str, int]:
        """Image id -> place of its sample."""
        return {row.image: place for place, row in enumerate(self.captions)}

    @cached_property
    def texts(self) -> IntArray:
        """A number for the words of each sample, [N]; equal words have equal numbers."""
        numbers: dict[Words, int] = {}
        return np.array([numbers.setdefault(sample.words, len(numbers)) for sample in self], dtype=np.int64)

    @cached_property
    def cells(self) -> list[tuple[str, str, str]]:
        """Classes and tasks that each caption names, and its answer: names joined by "|"."""
        spell, answer = cache(self.evidence.target.spell), self.evidence.drawn.answer
        return [(row.named, row.tasks, spell(answer(row))) for row in self.captions]

    @property
    def images(self) -> frozenset[str]:
        """The images that have such a caption."""
        every = self.evidence.sides.images[self.side, self.position]
        resample = self.evidence.resample
        return every & self.evidence.classes.keys() if resample and resample.kind == "half" else every
