"""The samples that judges read: both sides, resampled for a refit, aligned, by side and caption index."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from judge.evidence.masked import Answers, MaskedCaption, Part
from judge.evidence.preparation import Preparation
from judge.evidence.resample import Resample
from judge.evidence.sides import Sides
from judge.text.alignment import UNKNOWN, AlignmentReport, Gaps
from judge.text.coded import Coded, SampleTable, Tabled, multi_hot
from judge.types import SIDES, FloatArray, IntArray, Sample, Side, Target

Cell = tuple[str, str, str]
"""The classes and the tasks that a caption names, and its answer: names joined by "|"."""


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
