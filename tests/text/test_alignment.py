"""Substitution against hand cases, a naive alignment, and its invariants."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from judge.text.alignment import DELTAS, UNKNOWN, Aligner, find_gaps, is_special, substitute
from judge.text.vectors import Vectors

Words = tuple[str, ...]
FUNCTION = {"a", "the"}
SPOKEN = [*sorted(FUNCTION), "cat", "dog", "sits", "rare", "odd", "<gender>", "<unk>"]
WORDS = st.lists(st.sampled_from(SPOKEN), max_size=6).map(tuple)
CAPTIONS = st.lists(WORDS, max_size=6)


def vectors_of(table: dict[str, list[float]], missing: int = 0) -> Vectors:
    words = sorted(table)
    matrix = np.array([table[word] for word in words], dtype=np.float32).reshape(len(words), -1)
    return Vectors({word: row for row, word in enumerate(words)}, matrix, "test", missing)


# Whole numbers in few dimensions: equal distances are frequent, and words without a vector too.
VECTORS = st.dictionaries(
    st.sampled_from(SPOKEN), st.lists(st.integers(-2, 2).map(float), min_size=2, max_size=2).filter(any), min_size=1
).map(vectors_of)


def naive(human: list[Words], generated: list[Words], vectors: Vectors, delta: float) -> list[Words]:
    """Word by word, as the papers say it."""
    vocabulary = {word for words in generated for word in words}

    def distance(one: str, other: str) -> float:
        u, v = (vectors.matrix[vectors.rows[word]].astype(np.float64) for word in (one, other))
        return 1 - float(u @ v) / (math.hypot(*u) * math.hypot(*v))

    def aligned(word: str) -> str:
        if word.startswith("<") or word in vocabulary:
            return word
        best, least = UNKNOWN, delta
        for other in sorted(vocabulary):
            alike = (word in FUNCTION) == (other in FUNCTION)
            # A hair's breadth is the same distance: the first in the alphabet stays.
            if alike and not other.startswith("<") and {word, other} <= vectors.rows.keys():
                found = distance(word, other)
                if found < least - (1e-9 if best != UNKNOWN else 0):
                    best, least = other, found
        return best

    return [tuple(aligned(word) for word in words) for words in human]


def test_by_hand() -> None:
    human = [("a", "<gender>", "feeds", "a", "giraffe"), ("a", "cat")]
    aligned, report = Aligner("constant").align(human, [("a", "cat", "feeds")])
    assert aligned == [("a", "<gender>", "feeds", "a", UNKNOWN), ("a", "cat")]
    # Words: a, feeds, giraffe, cat; tokens: a x3, feeds, giraffe, cat. The hidden word counts as neither.
    assert (report.words, report.tokens) == (4, 6)
    assert report.words_kept == pytest.approx(3 / 4)
    assert report.tokens_unknown == pytest.approx(1 / 6)
    assert report.tokens_substituted == 0
    assert (report.delta, report.lacking_substituted) == (0, 0)
    aligned, report = Aligner("none").align(human, [("x",)])
    assert aligned == human
    assert report.tokens_kept == report.words_kept == 1
    assert (report.delta, report.lacking_substituted) == (0, None)


# Cosines with couch: 24/25, 1, 3/5, -1.
FURNITURE = vectors_of({"sofa": [24.0, 7.0], "couch": [1.0, 0.0], "stool": [3.0, 4.0], "moon": [-1.0, 0.0]})


def test_contextual_by_hand() -> None:
    human = [("sofa", "<gender>", "stool"), ("moon", "sofa", "giraffe", "couch")]
    # Distances from couch: sofa 1 - 24/25 = 0.04, stool 1 - 3/5 = 0.4, moon 2; giraffe has no vector.
    aligned, report = Aligner("contextual", FURNITURE, 0.41).align(human, [("couch", "<gender>")])
    assert aligned == [("couch", "<gender>", "couch"), (UNKNOWN, "couch", UNKNOWN, "couch")]
    # Words: sofa (2 tokens), stool, moon, giraffe, couch.
    assert (report.words_kept, report.words_substituted, report.words_unknown) == pytest.approx((1 / 5, 2 / 5, 2 / 5))
    assert (report.tokens_kept, report.tokens_substituted) == pytest.approx((1 / 6, 3 / 6))
    # Lacking: sofa twice, stool, moon, giraffe; sofa and stool find a word.
    assert (report.delta, report.lacking_substituted) == (0.41, 3 / 5)
    gaps = find_gaps(human, [("couch",)], FURNITURE)
    rows = gaps.substitutions(0.41)
    assert [(row.word, row.substitute, row.tokens) for row in rows] == [("sofa", "couch", 2), ("stool", "couch", 1)]
    assert [row.distance for row in rows] == pytest.approx([0.04, 0.4])


def test_function_words_and_content_words_keep_apart() -> None:
    """However near they lie: marks and numbers are no content either."""
    east = {"during": [1.0, 0.0], "tennis": [1.0, 0.0], "golf": [1.0, 0.1], "at": [4.0, 3.0]}
    vectors = vectors_of(east | {"2": [0.0, 1.0], "two": [0.1, 1.0], "pair": [0.0, 1.0]})
    human = [("during", "golf", "2")]
    aligned, _ = Aligner("contextual", vectors, 0.5).align(human, [("tennis", "at", "two", "pair")])
    assert aligned == [("at", "tennis", "two")]
    aligned, report = Aligner("contextual", vectors, 2).align(human, [("tennis", "pair")])
    assert aligned == [(UNKNOWN, "tennis", UNKNOWN)]
    assert report.lacking_substituted == 1 / 3


@given(CAPTIONS, CAPTIONS, VECTORS, st.sampled_from([0.0, 0.1, 0.4, 1.0, 1.5, 2.0]))
def test_equals_a_naive_alignment(human: list[Words], generated: list[Words], vectors: Vectors, delta: float) -> None:
    aligned, report = Aligner("contextual", vectors, delta).align(human, generated)
    expected = naive(human, generated, vectors, delta)
    # At a distance that rounding alone tells from delta, either answer is right.
    exact = [distance for _, distance in find_gaps(human, generated, vectors).nearest.values()]
    if not any(abs(distance - delta) < 1e-9 for distance in exact):
        assert aligned == expected
    vocabulary = {word for words in generated for word in words}
    spoken = [word for words in human for word in words if not is_special(word)]
    kept = sum(word in vocabulary for word in spoken)
    assert report.tokens == len(spoken)
    assert report.tokens_kept == pytest.approx(kept / len(spoken) if spoken else 1)


@settings(max_examples=30)
@given(CAPTIONS, CAPTIONS, VECTORS)
def test_the_curve_is_that_of_separate_alignments(human: list[Words], generated: list[Words], vectors: Vectors) -> None:
    gaps = find_gaps(human, generated, vectors)
    curve = [gaps.report(delta) for delta in DELTAS]
    for delta, report in zip(DELTAS[::5], curve[::5], strict=True):
        assert report == Aligner("contextual", vectors, delta).align(human, generated)[1]
    assert curve[0] == Aligner("constant").align(human, generated)[1]
    assert substitute(human, gaps.substitutes(0)) == Aligner("constant").align(human, generated)[0]
    substituted = [report.words_substituted for report in curve]
    assert substituted == sorted(substituted)
