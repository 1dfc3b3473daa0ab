"""Vectors of captions."""

from __future__ import annotations

import numpy as np
import pytest

from judge.text.vector_space import FEATURES, WIDTH, VectorSpace

WORDS = ["dog", "cat", "runs", "sleeps", "grass", "sofa", "red", "small", "ball", "lamp"]


def draw(count: int) -> list[tuple[str, ...]]:
    generator = np.random.default_rng(0)
    return [tuple(generator.choice(WORDS, 4).tolist()) for _ in range(count)]


@pytest.mark.parametrize("judge", FEATURES)
def test_a_rotation_keeps_what_is_alike(judge: str) -> None:
    """All directions are kept where there are few: products are those of the parts, each of length 1."""
    captions = draw(60)
    space = VectorSpace(captions, np.ones(60), judge)
    parts = space.parts(captions)
    vectors = space.vectors(*parts)
    scaled = [part / np.linalg.norm(part, axis=1, keepdims=True) for part in parts if part.shape[1]]
    expected = sum(np.array(part @ part.T) for part in scaled)
    assert vectors.shape[1] <= WIDTH
    np.testing.assert_allclose(vectors @ vectors.T, expected, atol=0.05)
    assert len(scaled) == (2 if judge == "words+embedding" else 1)


def test_the_order_of_words_does_not_matter_and_sums_are_read_as_captions() -> None:
    captions = draw(60)
    space = VectorSpace(captions, np.ones(60), "linear")
    one = space.vectors(*space.parts([("dog", "runs")]))
    np.testing.assert_allclose(one, space.vectors(*space.parts([("runs", "dog")])), atol=1e-5)
    words, embedding = space.parts([("dog", "runs")] * 2)
    np.testing.assert_allclose(space.vectors(words[:1] + words[1:], embedding[:1]), one, atol=1e-5)


def test_rare_words_and_no_words_have_vectors_of_zeros() -> None:
    space = VectorSpace([("dog", "runs")] * 5 + [("zebra",), ()], np.ones(7), "linear")
    assert not space.vectors(*space.parts([("zebra",), ()])).any()
    assert space.vectors(*space.parts([("dog",)])).any()
    nothing = VectorSpace([()] * 5, np.ones(5), "linear")
    assert nothing.vectors(*nothing.parts([()])).shape == (1, 0)


def test_many_captions_are_read_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Vectors are the same, to the last digit; directions are learnt from some captions, drawn at random."""
    captions = draw(60)
    some = sorted(np.random.default_rng(0).permutation(60)[:30])
    expected = VectorSpace([captions[place] for place in some], np.ones(30), "words+embedding")
    monkeypatch.setattr("judge.text.vector_space._LEARNT", 30)
    monkeypatch.setattr("judge.text.vector_space.TOGETHER", 7)
    found = VectorSpace(captions, np.ones(60), "words+embedding")
    vectors = [space.vectors(*space.parts(captions)) for space in (expected, found)]
    np.testing.assert_array_equal(*vectors)
