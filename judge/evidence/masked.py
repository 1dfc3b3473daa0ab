"""The masked captions of both sides, one by one and as arrays, which resamples move."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import NamedTuple, Self

import numpy as np

from judge.text.coded import Coded
from judge.types import BoolArray, IntArray, Side, Words

Answers = tuple[int, ...]
_NONE = -1


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
    answers: Answers | None = None
    written: int | None = None

    @property
    def number(self) -> int:
        """Index among the image's captions in the file."""
        return self.index if self.written is None else self.written


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """The R captions of a side, by places in the lists of its :class:`CaptionTable`, [R] each.

    ``answer`` and ``written`` are -1 where a caption has none of its own.
    """

    image: IntArray
    index: IntArray
    text: IntArray
    said: IntArray
    answer: IntArray
    written: IntArray

    def take(self, rows: IntArray | BoolArray) -> Part:
        """Some rows."""
        return Part(*(getattr(self, name)[rows] for name in self.__slots__))

    @classmethod
    def joined(cls, parts: Sequence[Part]) -> Part:
        """The rows of several parts."""
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in cls.__slots__))


@dataclass(frozen=True, eq=False)
class CaptionTable(Mapping[Side, Sequence[MaskedCaption]]):
    """The captions of both sides as arrays; as a mapping, side -> its captions, which are made when they are used.

    ``parts``: side -> its captions, by places in the other lists: image ids, words, the classes and the tasks that
    captions name, and, where judges guess that, what they name.
    """

    images: tuple[str, ...]
    texts: Coded
    said: tuple[tuple[str, str], ...]
    answers: tuple[Answers, ...]
    parts: Mapping[Side, Part]

    @classmethod
    def of(cls, rows: Mapping[Side, Sequence[MaskedCaption]]) -> CaptionTable:
        """The table of captions, in their order; ``rows`` itself if it is one."""
        if isinstance(rows, CaptionTable):
            return rows
        images, said, answers = dict[str, int](), dict[tuple[str, str], int](), dict[Answers, int]()
        parts, start = dict[Side, Part](), 0
        for side, captions in rows.items():
            columns = [
                [images.setdefault(row.image, len(images)) for row in captions],
                [row.index for row in captions],
                range(start, start + len(captions)),
                [said.setdefault((row.named, row.tasks), len(said)) for row in captions],
                [_NONE if (of := row.answers) is None else answers.setdefault(of, len(answers)) for row in captions],
                [_NONE if row.written is None else row.written for row in captions],
            ]
            parts[side] = Part(*(np.array(column, dtype=np.int64) for column in columns))
            start += len(captions)
        texts = Coded.of(row.words for row in chain.from_iterable(rows.values()))
        return cls(tuple(images), texts, tuple(said), tuple(answers), parts)

    def __getitem__(self, side: Side) -> tuple[MaskedCaption, ...]:
        if side not in self._made:
            self._made[side] = tuple(self.captions(self.parts[side]))
        return self._made[side]

    def __iter__(self) -> Iterator[Side]:
        return iter(self.parts)

    def __len__(self) -> int:
        return len(self.parts)

    def __reduce__(self) -> tuple[type[CaptionTable], tuple[object, ...]]:
        return CaptionTable, (self.images, self.texts, self.said, self.answers, self.parts)

    @cached_property
    def _made(self) -> dict[Side, tuple[MaskedCaption, ...]]:
        return {}

    def captions(self, part: Part) -> Iterator[MaskedCaption]:
        """The captions of these rows."""
        columns = (getattr(part, name).tolist() for name in Part.__slots__)
        for image, index, text, said, answer, written in zip(*columns, strict=True):
            named, tasks = self.said[said]
            answers = None if answer == _NONE else self.answers[answer]
            number = None if written == _NONE else written
            yield MaskedCaption(self.images[image], index, self.texts[text], named, tasks, answers, number)


class Exchangeable(NamedTuple):
    """What exchanges move: U captions of both sides, or all sentences of each.

    ``most``: sentences of a caption, at most. ``rows``: of both sides, by their units; ``starts`` and ``lengths``: of
    each unit among them, [U]. ``side`` (its number) and ``first`` (index of the first sentence): of each unit, [U].
    ``images``: number of the image, [U]. ``alike``: the unit whose random number counts, [U].
    """

    most: int
    rows: Part
    starts: IntArray
    lengths: IntArray
    side: IntArray
    first: IntArray
    images: IntArray
    alike: IntArray

    @classmethod
    def of(cls, table: CaptionTable, most: int, scenes: Mapping[str, str]) -> Self:
        """Find the units of the captions of ``table``; ``scenes``: image id -> scene, empty without any."""
        parts, images = [*table.parts.values()], table.images
        rows, side = Part.joined(parts), np.repeat(np.arange(len(parts)), [len(part.image) for part in parts])
        number = rows.index // most
        width = int(number.max(initial=0)) + 1
        firsts, unit = _in_order((side * len(images) + rows.image) * width + number)
        lengths = np.bincount(unit)
        # Captions of a scene's images move alike.
        numbers = dict[str, int]()
        scene = np.array([numbers.setdefault(scenes.get(image, image), len(numbers)) for image in images])
        same, alike = _in_order(((side * len(images) + scene[rows.image]) * width + number)[firsts])
        return cls(
            most,
            rows.take(np.argsort(unit, kind="stable")),
            np.cumsum(lengths) - lengths,
            lengths,
            side[firsts],
            number[firsts] * most,
            rows.image[firsts],
            same[alike],
        )


def _in_order(keys: IntArray) -> tuple[IntArray, IntArray]:
    """The first place of each distinct key, in the order in which keys occur, and its number at every place."""
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    order = np.argsort(first)
    return first[order], np.argsort(order)[inverse]
