"""Captions as arrays of word numbers: refits move, align and count millions of them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Self

import numpy as np

from judge.types import BoolArray, IntArray, Sample, Words


@dataclass(frozen=True, eq=False)
class Coded:
    """N captions: ``codes``, [T], are places in ``words``; those of caption n begin at ``starts[n]``, [N + 1]."""

    words: Words
    codes: IntArray
    starts: IntArray

    @classmethod
    def of(cls, captions: Iterable[Words]) -> Self:
        """Captions of words; words are numbered in the order in which they occur."""
        captions = list(captions)
        words = tuple(dict.fromkeys(chain.from_iterable(captions)))
        places = {word: place for place, word in enumerate(words)}
        starts = np.cumsum([0, *map(len, captions)])
        each = map(places.__getitem__, chain.from_iterable(captions))
        return cls(words, np.fromiter(each, dtype=np.int64, count=starts[-1]), starts)

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, caption: int) -> Words:
        codes = self.codes[self.starts[caption] : self.starts[caption + 1]]
        return tuple([self.words[code] for code in codes.tolist()])

    def __reduce__(self) -> tuple[type[Self], tuple[Words, IntArray, IntArray]]:
        return type(self), (self.words, self.codes, self.starts)

    @cached_property
    def lengths(self) -> IntArray:
        """Number of words of each caption, [N]."""
        return np.diff(self.starts)

    @cached_property
    def _places(self) -> Mapping[str, int]:
        return {word: place for place, word in enumerate(self.words)}

    def among(self, words: Words) -> IntArray:
        """The codes with places in other ``words``, [T]; -1 for a word that is not there."""
        if words is self.words:
            return self.codes
        places = {word: place for place, word in enumerate(words)}
        return np.array([places.get(word, -1) for word in self.words], dtype=np.int64)[self.codes]

    def counts(self, captions: IntArray) -> dict[str, int]:
        """Word -> its occurrences in some captions, of those that occur."""
        number = np.bincount(self.codes[ranges(self.starts[captions], self.lengths[captions])], minlength=1)
        return {self.words[place]: int(number[place]) for place in np.flatnonzero(number).tolist()}

    def substituted(self, table: Mapping[str, str]) -> Self:
        """The captions with each word of ``table`` replaced."""
        table = {word: other for word, other in table.items() if word in self._places}
        words = (*self.words, *(word for word in dict.fromkeys(table.values()) if word not in self._places))
        places = {word: place for place, word in enumerate(words)}
        codes = np.arange(len(words))
        codes[[places[word] for word in table]] = [places[word] for word in table.values()]
        return type(self)(words, codes[self.codes], self.starts)

    def take(self, captions: IntArray) -> Self:
        """Some captions, in the order of their places; words are numbered anew, as in :meth:`of`."""
        lengths = self.lengths[captions]
        codes = self.codes[ranges(self.starts[captions], lengths)]
        first = np.full(len(self.words), len(codes), dtype=np.int64)
        first[codes[::-1]] = np.arange(len(codes) - 1, -1, -1)  # Of equal codes the last assignment counts.
        order = np.argsort(first, kind="stable")[: np.count_nonzero(first < len(codes))]
        rank = np.empty(len(self.words), dtype=np.int64)
        rank[order] = np.arange(len(order))
        words = tuple([self.words[place] for place in order.tolist()])
        return type(self)(words, rank[codes], np.append(0, np.cumsum(lengths)))


def ranges(starts: IntArray, lengths: IntArray) -> IntArray:
    """The numbers from each start on, as many as its length says, one range after the other."""
    before = np.cumsum(lengths) - lengths
    return np.asarray(np.repeat(starts - before, lengths) + np.arange(lengths.sum()))


@dataclass(frozen=True, eq=False)
class SampleTable:
    """N samples of one side and caption index as arrays.

    ``images``: the image of each, and ``seen`` the one that a judge sees with it, if any; ``scenes``: image id -> the
    scene that it shows, where images show any; ``truth``: which classes are true of each, [N, classes].
    """

    images: tuple[str, ...]
    seen: tuple[str | None, ...]
    scenes: Mapping[str, str]
    coded: Coded
    truth: BoolArray

    @classmethod
    def of(cls, samples: Sequence[Sample], classes: int) -> SampleTable:
        """The table of samples, which may have it already."""
        if isinstance(samples, Tabled):
            return samples.table
        return cls(
            tuple(sample.image_id for sample in samples),
            tuple(sample.image for sample in samples),
            {sample.image_id: sample.scene for sample in samples if sample.scene},
            Coded.of(sample.words for sample in samples),
            multi_hot([sample.answers for sample in samples], classes),
        )


class Tabled(Sequence[Sample]):
    """Samples that have their table before they are made."""

    @cached_property
    @abstractmethod
    def table(self) -> SampleTable:
        """The samples as arrays."""


def multi_hot(answers: Sequence[tuple[int, ...]], classes: int) -> BoolArray:
    """Which classes each of the answers holds, [N, classes]."""
    table = np.zeros((len(answers), classes), dtype=np.bool_)
    table[np.repeat(np.arange(len(answers)), [*map(len, answers)]), [*chain.from_iterable(answers)]] = True
    return table
