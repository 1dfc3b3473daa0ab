"""Both sides of a captioner: masked, resampled for a refit, aligned, and cut into samples."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from itertools import compress
from types import MappingProxyType
from typing import Any, Literal

import numpy as np

from judge.corpus.units import Units
from judge.evidence.masked import Answers, CaptionTable, Exchangeable, MaskedCaption, Part
from judge.evidence.preparation import Preparation
from judge.text.alignment import UNKNOWN, Aligner, AlignmentReport, Gaps
from judge.text.coded import Coded, SampleTable, Tabled, multi_hot, ranges
from judge.text.survey import Coverage, Survey
from judge.types import SIDES, FloatArray, IntArray, Sample, Side, Target

ResampleKind = Literal["exchanged", "half", "shuffled"]
Cell = tuple[str, str, str]
"""The classes and the tasks that a caption names, and its answer: names joined by "|"."""


@dataclass(frozen=True)
class Sides:
    """The captions of humans and of one captioner, masked, before alignment.

    Attributes:
        classes: image id -> class, sorted by image.
        answers: image id -> indices of the true classes or tasks.
        rows: side -> its captions, by image and index; indices that too few images have are left out.
        uses_images: whether judges see the images too.
        coverage, survey, sentences: of the captions before masking, as in :class:`~judge.evidence.joined.Joined`.
        dropped: reason -> images, captions or tasks left out.
        prepared: how captions became the words of ``rows``.
        scenes: image id -> scene, where several images show one with different people; else empty.
    """

    captioner: str
    target: Target
    classes: Mapping[str, str]
    answers: Mapping[str, tuple[int, ...]]
    rows: Mapping[Side, Sequence[MaskedCaption]]
    aligner: Aligner
    uses_images: bool = False
    coverage: Mapping[Side, Coverage] | None = None
    survey: Mapping[Side, Survey] = field(default_factory=dict)
    dropped: Mapping[str, int] = field(default_factory=dict)
    prepared: Preparation | None = None
    sentences: Mapping[Side, int] = field(default_factory=dict)
    scenes: Mapping[str, str] = field(default_factory=dict)

    def __getstate__(self) -> dict[str, object]:
        # Workers are sent arrays: thousands of captions would take ten times as long.
        return {part.name: getattr(self, part.name) for part in fields(self)} | {"rows": self.table}

    @cached_property
    def table(self) -> CaptionTable:
        """``rows`` as arrays."""
        return CaptionTable.of(self.rows)

    @property
    def guesses_names(self) -> bool:
        """Whether judges guess what captions name, and not what is annotated."""
        return bool(self.table.answers)

    @cached_property
    def images(self) -> Mapping[tuple[Side, int], frozenset[str]]:
        """(side, caption index) -> the images that have such a caption."""
        names = np.array(self.table.images, dtype=object)
        return {
            (side, index): frozenset(names[part.image[part.index == index]].tolist())
            for side, part in self.table.parts.items()
            for index in np.unique(part.index).tolist()
        }

    @cached_property
    def exchangeable(self) -> Exchangeable:
        """The units that exchanges move; all draws share them."""
        # The sentences of a caption move together, if captions of both sides are judged by as many.
        numbers = {self.sentences.get(side, 1) for side in self.rows}
        most = numbers.pop() if len(numbers) == 1 else 1
        return Exchangeable.of(self.table, most, self.scenes)

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

    ``number``, from 0, is the same draw for all captioners, which stay comparable.
    """

    kind: ResampleKind
    number: int
    seed: int = 0

    def draw(self, sides: Sides) -> Sides:
        """The resampled sides."""
        if self.kind == "exchanged":
            return replace(sides, rows=self._exchange(sides))
        classes = self.classes(sides.classes, sides.scenes)
        table = sides.table
        if self.kind == "half":
            held = np.array([image in classes for image in table.images])
            rows = replace(table, parts={side: part.take(held[part.image]) for side, part in table.parts.items()})
            return replace(sides, classes=classes, answers={i: sides.answers[i] for i in classes}, rows=rows)
        others = Units.make(sides.classes, sides.scenes).shuffled(self.number, self.seed)
        answers = {image: sides.answers[other] for image, other in others.items()}
        if not sides.guesses_names:
            return replace(sides, classes=classes, answers=answers)
        annotated = np.empty(len(table.images), dtype=np.int64)
        annotated[table.parts["human"].image] = table.parts["human"].text
        places = {image: place for place, image in enumerate(table.images)}
        texts = annotated[[places[others[image]] for image in table.images]]
        rows = replace(table, parts={s: replace(part, text=texts[part.image]) for s, part in table.parts.items()})
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

    def _exchange(self, sides: Sides) -> CaptionTable:
        units = sides.exchangeable
        drawn = np.random.default_rng([self.seed, 1, self.number]).random(len(units.images))[units.alike]
        # The captions sorted by image are replaced by the same captions shuffled within each image.
        taken = np.empty(len(drawn), dtype=np.int64)
        taken[np.argsort(units.images, kind="stable")] = np.lexsort((drawn, units.images))
        moved = units.rows.take(ranges(units.starts[taken], units.lengths[taken]))
        side, first = (np.repeat(of, units.lengths[taken]) for of in (units.side, units.first))
        moved = replace(moved, index=first + moved.index % units.most)
        parts = dict[Side, Part]()
        for number, name in enumerate(sides.table):
            indices = [index for whose, index in sides.images if whose == name]
            parts[name] = moved.take((side == number) & np.isin(moved.index, indices))
        return replace(sides.table, parts=parts)


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

    def preparation(self, side: Side) -> Preparation | None:
        """How new captions become words like those of ``side``; None if that is not known."""
        prepared, drawn = self.sides.prepared, self.drawn
        if prepared and prepared.options.text == "sentences" and self.sides.sentences.get(side, 1) == 1:
            prepared = replace(prepared, options=replace(prepared.options, text="whole"))
        if prepared is None or side == "generated" or drawn.aligner.how == "none":
            return prepared
        gaps, delta = self._gaps
        near = {word: new for word, new in gaps.substitutes(delta).items() if new != UNKNOWN}
        return replace(prepared, vocabulary=frozenset(self._said("generated")), substitutes=near)

    def alignment(self) -> AlignmentReport:
        """Report how many human words alignment kept, substituted or lost."""
        gaps, delta = self._gaps
        return gaps.report(delta)

    @cached_property
    def _gaps(self) -> tuple[Gaps, float]:
        """The words that the generated side lacks, and the threshold of their substitutes."""
        return self.drawn.aligner.gaps(self._said("human"), self._said("generated"))

    def _said(self, side: Side) -> dict[str, int]:
        """The words of a side, with their occurrences."""
        table = self.drawn.table
        return table.texts.counts(table.parts[side].text)

    @cached_property
    def texts(self) -> Mapping[Side, Coded]:
        """Side -> the words of the captions of ``drawn``, aligned, by their places among ``texts`` there."""
        gaps, delta = self._gaps
        texts = self.drawn.table.texts
        return {"human": texts.substituted(gaps.substitutes(delta)), "generated": texts}

    @cached_property
    def answers(self) -> tuple[Answers, ...]:
        """The distinct answers of images or, where captions have their own, of these."""
        drawn = self.drawn
        return drawn.table.answers if drawn.guesses_names else tuple(dict.fromkeys(drawn.answers.values()))

    @cached_property
    def _of_images(self) -> IntArray:
        places, drawn = {of: place for place, of in enumerate(self.answers)}, self.drawn
        return np.array([places.get(drawn.answers.get(image, ()), 0) for image in drawn.table.images], dtype=np.int64)

    def answered(self, part: Part) -> IntArray:
        """The place of each caption's answers among the distinct ones, [R]."""
        return part.answer if self.drawn.guesses_names else self._of_images[part.image]

    def cells(self, part: Part) -> tuple[IntArray, list[Cell]]:
        """The number of each caption's cell, [R], and the cells."""
        size = len(self.answers)
        known, cell = np.unique(part.said * size + self.answered(part), return_inverse=True)
        said, spell = self.drawn.table.said, self.target.spell
        each = (divmod(code, size) for code in known.tolist())
        return cell, [(*said[names], spell(self.answers[answer])) for names, answer in each]

    def shares(self, side: Side) -> FloatArray:
        """One over the number of captions of each image on a side; infinite without any."""
        with np.errstate(divide="ignore"):
            return 1 / np.bincount(self.drawn.table.parts[side].image, minlength=len(self.drawn.table.images))

    def release(self) -> None:
        """Free what was computed from the sides; it is computed again when it is used."""
        for slot in self.slots.values():
            slot.release()
        self.__dict__ = {name: of for name, of in vars(self).items() if name in {"sides", "resample", "slots"}}

    def digest(self, side: Side | None = None) -> str:
        """Checksum of the samples of ``side`` (None: of both), computed without making them."""
        resample, digests = self.resample, self.sides.digests
        apart = side and self.sides.aligner.how == "none" and resample and resample.kind != "exchanged"
        parts = [digests[name] for name in SIDES if not apart or name == side]
        return hashlib.blake2b(repr((resample, digests["rest"], parts)).encode(), digest_size=16).hexdigest()


class Slot(Tabled):
    """The samples of one side and caption index, one per image that has such a caption, made when they are used."""

    def __init__(self, evidence: Evidence, side: Side, position: int) -> None:
        self.evidence, self.side, self.position = evidence, side, position

    def __reduce__(self) -> tuple[type[Slot], tuple[Evidence, Side, int]]:
        return Slot, (self.evidence, self.side, self.position)

    def __getitem__(self, place: Any) -> Any:  # A sample, or several of a slice.
        return self._samples[place]

    def __len__(self) -> int:
        return len(self.part.image)

    def release(self) -> None:
        """Free what was computed."""
        self.__dict__ = {name: vars(self)[name] for name in ("evidence", "side", "position")}

    @cached_property
    def part(self) -> Part:
        """The captions, as places in the lists of a table."""
        part = self.evidence.drawn.table.parts[self.side]
        return part.take(part.index == self.position)

    @cached_property
    def captions(self) -> Sequence[MaskedCaption]:
        """The captions, before alignment, in the order of the samples."""
        return [*self.evidence.drawn.table.captions(self.part)]

    @cached_property
    def table(self) -> SampleTable:
        """The samples as arrays."""
        evidence, drawn = self.evidence, self.evidence.drawn
        images = tuple([drawn.table.images[place] for place in self.part.image.tolist()])
        seen = images if drawn.uses_images else (None,) * len(images)
        truth = multi_hot(evidence.answers, len(evidence.target.classes))[evidence.answered(self.part)]
        return SampleTable(images, seen, drawn.scenes, evidence.texts[self.side].take(self.part.text), truth)

    @cached_property
    def _samples(self) -> list[Sample]:
        table, answers = self.table, self.evidence.answers
        each = zip(table.images, table.seen, self.evidence.answered(self.part).tolist(), strict=True)
        return [
            Sample(i, self.side, self.position, table.coded[n], answers[a], image=seen, scene=table.scenes.get(i))
            for n, (i, seen, a) in enumerate(each)
        ]

    @cached_property
    def place(self) -> Mapping[str, int]:
        """Image id -> place of its sample."""
        return {image: place for place, image in enumerate(self.table.images)}

    @cached_property
    def cells(self) -> tuple[IntArray, list[Cell]]:
        """The cells of the samples, as of :meth:`Evidence.cells`."""
        return self.evidence.cells(self.part)

    @property
    def images(self) -> frozenset[str]:
        """The images that have such a caption."""
        every = self.evidence.sides.images[self.side, self.position]
        resample = self.evidence.resample
        return every & self.evidence.classes.keys() if resample and resample.kind == "half" else every
