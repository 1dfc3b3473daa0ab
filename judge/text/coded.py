"""Captions as arrays of word numbers: refits move, align and count millions of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any, Self

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
        return type(self)(tuple([self.words[place] for place in order.tolist()]), rank[codes], _starts(lengths))


def ranges(starts: IntArray, lengths: IntArray) -> IntArray:
    """The numbers from each start on, as many as its length says, one range after the other."""
    before = np.cumsum(lengths) - lengths
    return np.asarray(np.repeat(starts - before, lengths) + np.arange(lengths.sum()))


def _starts(lengths: IntArray) -> IntArray:
    return np.append(0, np.cumsum(lengths))


class Samples(Sequence[Sample]):
    """Samples of one side and caption index, [N], and what they hold as arrays."""

    def __init__(self, samples: Sequence[Sample]) -> None:
        self._listed = samples

    @classmethod
    def of(cls, samples: Sequence[Sample]) -> Samples:
        """The samples, with their arrays."""
        return samples if isinstance(samples, Samples) else cls(samples)

    @property
    def _samples(self) -> Sequence[Sample]:
        return self._listed

    def __getitem__(self, place: Any) -> Any:  # A sample, or several of a slice.
        return self._samples[place]

    def __len__(self) -> int:
        return len(self._samples)

    def __iter__(self) -> Iterator[Sample]:
        return iter(self._samples)

    @cached_property
    def image_ids(self) -> tuple[str, ...]:
        """The image of each."""
        return tuple(sample.image_id for sample in self._samples)

    @cached_property
    def seen(self) -> tuple[str | None, ...]:
        """The image that a judge sees with each, if any."""
        return tuple(sample.image for sample in self._samples)

    @cached_property
    def scenes(self) -> Mapping[str, str]:
        """Image id -> the scene that it shows, where images show any."""
        return {sample.image_id: sample.scene for sample in self._samples if sample.scene}

    @cached_property
    def coded(self) -> Coded:
        """The words of each."""
        return Coded.of(sample.words for sample in self._samples)

    def truth(self, classes: int) -> BoolArray:
        """Which classes are true of each, [N, classes]."""
        return multi_hot([sample.answers for sample in self._samples], classes)


def multi_hot(answers: Sequence[tuple[int, ...]], classes: int) -> BoolArray:
    """Which classes each of the answers holds, [N, classes]."""
    table = np.zeros((len(answers), classes), dtype=np.bool_)
    table[np.repeat(np.arange(len(answers)), [*map(len, answers)]), [*chain.from_iterable(answers)]] = True
    return table
