"""Both sides of a captioner, masked, before alignment."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property

import numpy as np

from judge.evidence.masked import CaptionTable, Exchangeable, MaskedCaption
from judge.evidence.preparation import Preparation
from judge.text.alignment import Aligner
from judge.text.survey import Coverage, Survey
from judge.types import Side, Target


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
