"""Constant substitution against a hand case and its invariants."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge.alignment import UNKNOWN, align

WORDS = st.lists(st.sampled_from(["a", "cat", "dog", "sits", "<gender>", "rare"]), max_size=6).map(tuple)


def test_by_hand() -> None:
    human = [("a", "<gender>", "feeds", "a", "giraffe"), ("a", "cat")]
    aligned, report = align(human, [("a", "cat", "feeds")], how="constant")
    assert aligned == [("a", "<gender>", "feeds", "a", UNKNOWN), ("a", "cat")]
    # Words: a, feeds, giraffe, cat; tokens: a x3, feeds, giraffe, cat. The hidden word counts as neither.
    assert (report.words, report.tokens) == (4, 6)
    assert report.words_kept == pytest.approx(3 / 4)
    assert report.tokens_unknown == pytest.approx(1 / 6)


def test_none_keeps_all() -> None:
    human = [("a", "giraffe")]
    aligned, report = align(human, [("x",)], how="none")
    assert aligned == human
    assert report.tokens_kept == report.words_kept == 1


@given(st.lists(WORDS), st.lists(WORDS))
def test_invariants(human: list[tuple[str, ...]], generated: list[tuple[str, ...]]) -> None:
    aligned, report = align(human, generated, how="constant")
    vocabulary = {word for words in generated for word in words}
    assert [len(words) for words in aligned] == [len(words) for words in human]
    assert {word for words in aligned for word in words} <= vocabulary | {UNKNOWN, "<gender>"}
    assert align(aligned, generated, how="constant")[0] == aligned
    assert align(generated, generated, how="constant")[0] == generated
    assert report.tokens_kept + report.tokens_unknown == pytest.approx(1)
