"""Krippendorff's alpha against published examples, arithmetic by hand, the library, and known truths."""

from __future__ import annotations

from collections.abc import Sequence

import krippendorff
import numpy as np
import pytest
from helpers import known
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from judge.statistics.raters import RaterAgreement, krippendorff_alpha

# Krippendorff, Computing Krippendorff's Alpha-Reliability (2011), example C: 4 observers, 12 units; 0 is none.
PUBLISHED = [
    [1, 2, 3, 3, 2, 1, 4, 1, 2, 0, 0, 0],
    [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, 0, 3],
    [0, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, 0],
    [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, 0],
]


def votes_of(answers: Sequence[Sequence[int]], choices: int) -> np.ndarray:
    """Raters' answers, [raters, items], 0 for none -> [items, choices]."""
    table = np.array(answers)
    return np.stack([(table == choice).sum(axis=0) for choice in range(1, choices + 1)], axis=1)


def alpha(votes: np.ndarray, groups: Sequence[str] | None = None, **options: int) -> RaterAgreement:
    given_ = [str(item) for item in range(len(votes))] if groups is None else groups
    return krippendorff_alpha(votes, given_, generator=np.random.default_rng(0), **{"resamples": 200, **options})


def test_krippendorffs_own_example() -> None:
    found = alpha(votes_of(PUBLISHED, 5))
    assert round(known(found.alpha), 3) == 0.743
    assert (found.items, found.answers) == (11, 40)
    bounds = known(found.interval)
    assert bounds.low < 0.743 < bounds.high <= 1


def test_by_hand() -> None:
    """Two raters, four items: aa, ab, bb, bb. Differing pairs 2, n_a = 3, n_b = 5: 1 - 7 x 2 / (2 x 15) = 8/15."""
    votes = np.array([[2, 0], [1, 1], [0, 2], [0, 2]])
    assert known(alpha(votes).alpha) == pytest.approx(8 / 15)
    # A third answer to the second item, b, by somebody who rated nothing else: d = (9 - 5) / 2 = 2 still; n_b = 6.
    votes[1] = [1, 2]
    assert known(alpha(votes).alpha) == pytest.approx(1 - 8 * 2 / (2 * 18))


def test_where_it_is_not_defined() -> None:
    assert alpha(np.array([[1, 0], [0, 1]])) == RaterAgreement(None, None, 0, 0)
    assert alpha(np.array([[2, 0], [3, 0]])) == RaterAgreement(None, None, 2, 5)
    perfect = alpha(np.array([[2, 0], [0, 2], [2, 0], [0, 2]] * 10))
    assert perfect.alpha == 1
    # A single image has no spread.
    assert alpha(np.array([[2, 0], [1, 1]]), ["a", "a"]).interval is None


@settings(deadline=None, max_examples=60)
@given(st.lists(st.lists(st.integers(0, 3), min_size=4, max_size=4), min_size=1, max_size=8))
def test_it_is_the_librarys(answers: list[list[int]]) -> None:
    table = np.array(answers).T
    votes = votes_of(table.tolist(), 3)
    found = alpha(votes, resamples=100).alpha
    paired = votes[votes.sum(axis=1) > 1]
    assume(len(paired))
    if (paired.sum(axis=0) > 0).sum() < 2:
        assert found is None
    else:
        theirs = krippendorff.alpha(value_counts=paired, level_of_measurement="nominal")
        assert found == pytest.approx(theirs)


def test_intervals_hold_their_level() -> None:
    """60 captions, 3 raters who read the truth in 80% and else answer by chance: 95% intervals hold alpha in 90% or
    more, and whether the captions are of images of their own or two of an image that are the same.
    """
    rng, draws = np.random.default_rng(5), 120

    def rate(truth: np.ndarray) -> np.ndarray:
        read = rng.random((3, len(truth))) < 0.8
        return votes_of(np.where(read, truth, rng.integers(1, 4, (3, len(truth)))).tolist(), 3)

    true_alpha = known(alpha(rate(rng.integers(1, 4, 100_000)), resamples=100).alpha)
    assert true_alpha == pytest.approx(0.64, abs=0.01)  # Both read it: 0.8^2.
    images = [str(place // 2) for place in range(60)]
    held = 0
    for _ in range(draws):
        bounds = known(alpha(rate(np.repeat(rng.integers(1, 4, 30), 2)), images).interval)
        held += bounds.low <= true_alpha <= bounds.high
    assert held / draws >= 0.9
