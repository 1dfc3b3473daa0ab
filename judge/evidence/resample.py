"""A run's data drawn anew, for refits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import compress
from types import MappingProxyType
from typing import Literal

import numpy as np

from judge.corpus.units import Units
from judge.evidence.masked import CaptionTable, Part
from judge.evidence.sides import Sides
from judge.text.coded import ranges
from judge.types import Side

ResampleKind = Literal["exchanged", "half", "shuffled"]


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
