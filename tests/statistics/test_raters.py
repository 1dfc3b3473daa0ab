"""Krippendorff's alpha against published examples, arithmetic by hand, the library, and known truths."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

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


def alpha(votes: np.ndarray, groups: Sequence[str] | None = None) -> RaterAgreement:
    return krippendorff_alpha(votes, [str(item) for item in range(len(votes))] if groups is None else groups)


def test_krippendorffs_own_example() -> None:
    found = alpha(votes_of(PUBLISHED, 5))
    assert round(known(found.alpha), 3) == 0.743
    assert (found.items, found.answers) == (11, 40)
    assert found.interval is None  # To two of the eleven all observers gave the commonest answer.
    assert found.note == "images with another answer than the commonest one: 9; an interval needs 10"


def test_by_hand() -> None:
    """Two raters, four items: aa, ab, bb, bb. Differing pairs 2, n_a = 3, n_b = 5: 1 - 7 x 2 / (2 x 15) = 8/15."""
    votes = np.array([[2, 0], [1, 1], [0, 2], [0, 2]])
    assert known(alpha(votes).alpha) == pytest.approx(8 / 15)
    # A third answer to the second item, b, by somebody who rated nothing else: d = (9 - 5) / 2 = 2 still; n_b = 6.
    votes[1] = [1, 2]
    assert known(alpha(votes).alpha) == pytest.approx(1 - 8 * 2 / (2 * 18))


def test_where_it_is_not_defined() -> None:
    assert alpha(np.array([[1, 0], [0, 1]])) == RaterAgreement(None, None, 0, 0, "no caption has two raters")
    same = RaterAgreement(None, None, 2, 5, "all of their answers are the same")
    assert alpha(np.array([[2, 0], [3, 0]])) == same


def test_two_raters_who_agree_on_all_may_still_differ() -> None:
    """On 24 captions, 8 of each answer: the exact bound of a share 0 of 24 over De = 3 x 16 x 32 / (48 x 47)."""
    found = alpha(np.repeat(np.eye(3, dtype=int) * 2, 8, axis=0))
    bounds = known(found.interval)
    assert (found.alpha, bounds.high, found.note) == (1, 1, None)
    assert bounds.low == pytest.approx(1 - (1 - 0.025 ** (1 / 24)) / (3 * 16 * 32 / (48 * 47)))


def test_of_few_images_that_tell_anything_there_is_no_interval() -> None:
    """Nine with another answer than the commonest one, whether or not raters disagree; an image's captions are one."""
    few = np.array([[2, 0]] * 40 + [[0, 2]] * 5 + [[1, 1]] * 4)
    found = alpha(few)
    assert (found.interval, found.items) == (None, 49)
    assert "commonest one: 9; an interval needs 10" in known(found.note)
    more = np.vstack([few, [[0, 2]]])
    assert alpha(more).interval is not None
    assert alpha(more, [str(min(item, 48)) for item in range(50)]).interval is None
    assert "one answer is 92% of all" in known(alpha(np.array([[3, 0]] * 110 + [[0, 3]] * 10)).note)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.lists(st.integers(0, 3), min_size=4, max_size=4), min_size=1, max_size=8))
def test_it_is_the_librarys(answers: list[list[int]]) -> None:
    table = np.array(answers).T
    votes = votes_of(table.tolist(), 3)
    found = alpha(votes).alpha
    paired = votes[votes.sum(axis=1) > 1]
    assume(len(paired))
    if (paired.sum(axis=0) > 0).sum() < 2:
        assert found is None
    else:
        theirs = krippendorff.alpha(value_counts=paired, level_of_measurement="nominal")
        assert found == pytest.approx(theirs)


@pytest.mark.parametrize(("items", "raters", "truth"), [(20, 2, 0.9), (40, 2, 0.9), (20, 3, 0.8), (60, 5, 0.5)])
@pytest.mark.parametrize("copies", [1, 2])
def test_intervals_hold_their_level(items: int, raters: int, truth: float, copies: int) -> None:
    """Raters who read the truth with probability sqrt(alpha), and else answer by chance, so that alpha is known.

    600 draws: 93.2% is two standard errors below 95%. ``copies``: captions of an image, which have one true answer.
    """
    rng, draws = np.random.default_rng(5), 600
    images = [str(place // copies) for place in range(items * copies)]
    held, given = 0, 0
    for _ in range(draws):
        true = np.repeat(rng.integers(1, 4, items), copies)
        read = rng.random((raters, len(true))) < truth**0.5
        found = alpha(votes_of(np.where(read, true, rng.integers(1, 4, read.shape)).tolist(), 3), images)
        given += found.interval is not None
        held += found.interval is not None and found.interval.low <= truth <= found.interval.high
    assert given / draws > 0.9
    assert held / given >= 0.932


def test_the_bench_says_what_it_measures(monkeypatch: pytest.MonkeyPatch) -> None:
    """``scripts/bench_agreement.py``: its raters have the alpha that it says, by the library."""
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "scripts")
    bench = import_module("bench_agreement")
    for hard in (False, True):
        votes = bench.rate(np.random.default_rng(0), 40_000, 3, 0.5, [0.1, 0.2, 0.7], hard, 1)[0]
        theirs = krippendorff.alpha(value_counts=votes, level_of_measurement="nominal")
        assert theirs == pytest.approx(0.5, abs=0.02)
