"""Captions as word numbers say what their words say."""

from __future__ import annotations

from collections import Counter
from itertools import chain

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from judge.text.alignment import substitute
from judge.text.coded import Coded, SampleTable, multi_hot
from judge.types import Sample, Words

WORDS = st.sampled_from(["a", "man", "<gender>", "dog", "é", ""])
CAPTIONS = st.lists(st.lists(WORDS, max_size=5).map(tuple), max_size=8)


def words_of(coded: Coded) -> list[Words]:
    return [coded[place] for place in range(len(coded))]


def same(one: Coded, other: Coded) -> bool:
    arrays = (one.codes, other.codes), (one.starts, other.starts)
    return one.words == other.words and all(np.array_equal(*pair) for pair in arrays)


@given(CAPTIONS, st.data())
def test_captions_as_numbers_are_the_captions(captions: list[Words], data: st.DataObject) -> None:
    """Chosen, they are numbered as if they had been read by themselves."""
    coded = Coded.of(captions)
    assert words_of(coded) == captions
    assert coded.words == tuple(dict.fromkeys(chain.from_iterable(captions)))
    assert coded.lengths.tolist() == [*map(len, captions)]
    chosen = data.draw(st.lists(st.integers(0, len(captions) - 1), max_size=9)) if captions else []
    few = [captions[place] for place in chosen]
    assert same(coded.take(np.array(chosen, dtype=np.int64)), Coded.of(few))
    assert coded.counts(np.array(chosen, dtype=np.int64)) == Counter(chain.from_iterable(few))
    other = tuple(data.draw(st.lists(WORDS, unique=True)))
    places = [other.index(word) if word in other else -1 for word in chain.from_iterable(captions)]
    assert coded.among(other).tolist() == places


@given(CAPTIONS, st.dictionaries(WORDS, st.sampled_from(["<unk>", "man", "cat"])))
def test_words_are_substituted_as_in_captions(captions: list[Words], table: dict[str, str]) -> None:
    """By words that occur, by new ones, and by one for several."""
    assert words_of(Coded.of(captions).substituted(table)) == substitute(captions, table)


def test_arrays_of_samples() -> None:
    sample = Sample("7", "human", 0, ("a", "b"), (1,), image="7", scene="s")
    found = SampleTable.of([sample, Sample("8", "human", 0, (), (0, 2))], 3)
    assert (found.images, found.seen, found.scenes) == (("7", "8"), ("7", None), {"7": "s"})
    assert words_of(found.coded) == [("a", "b"), ()]
    assert found.truth.tolist() == [[False, True, False], [True, False, True]]
    assert multi_hot([], 2).shape == (0, 2)
