"""Shares of captions against scipy and simulation; Krippendorff's alpha against its book and the library."""

from __future__ import annotations

import math

import krippendorff
import numpy as np
import pytest
from helpers import known
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from judge.statistics.naming import caption_share, krippendorff_alpha

# Krippendorff, Computing Krippendorff's Alpha-Reliability (2011), example C: 4 observers, 12 units; 0 is none.
PUBLISHED = [
    [1, 2, 3, 3, 2, 1, 4, 1, 2, 0, 0, 0],
    [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, 0, 3],
    [0, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, 0],
    [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, 0],
]


def votes_of(answers: list[list[int]], choices: int) -> np.ndarray:
    """Raters' answers, [raters, items], 0 for none -> [items, choices]."""
    table = np.array(answers)
    return np.stack([(table == choice).sum(axis=0) for choice in range(1, choices + 1)], axis=1)


def test_krippendorffs_own_example() -> None:
    assert round(known(krippendorff_alpha(votes_of(PUBLISHED, 5))), 3) == 0.743


def test_alpha_where_it_is_not_defined() -> None:
    assert krippendorff_alpha(np.array([[1, 0], [0, 1]])) is None
    assert krippendorff_alpha(np.array([[2, 0], [3, 0]])) is None


@given(st.integers(2, 4).flatmap(lambda n: st.lists(st.lists(st.integers(0, 3), min_size=n, max_size=n), min_size=2)))
def test_alpha_is_the_librarys(items: list[list[int]]) -> None:
    answers = np.array(items).T.tolist()
    found = krippendorff_alpha(votes_of(answers, 3))
    assume(found is not None)
    data = np.where(np.array(answers) == 0, np.nan, np.array(answers, dtype=float))
    assert found == pytest.approx(krippendorff.alpha(data, level_of_measurement="nominal"), abs=1e-9)


@pytest.mark.parametrize(("hits", "images"), [(0, 10), (3, 50), (25, 50), (50, 50), (1, 1)])
def test_one_caption_an_image_is_exact(hits: int, images: int) -> None:
    found = caption_share([1] * hits + [0] * (images - hits), [1] * images)
    expected = stats.binomtest(hits, images).proportion_ci(0.95, method="exact")
    interval = known(found.interval)
    assert (found.value, interval.low, interval.high) == pytest.approx((hits / images, expected.low, expected.high))


def test_images_weigh_the_same() -> None:
    """Image 1 has four captions and image 2 one: the mean of 1/4 and 1. Of captions of one image all is not known."""
    assert caption_share([1, 1], [4, 1]).value == pytest.approx(5 / 8)
    assert math.isnan(caption_share([0], [0]).value)
    assert caption_share([1], [3]).interval is None
    alike = caption_share([3] * 5, [3] * 5).interval
    single = caption_share([1] * 5, [1] * 5).interval
    assert 0 < known(alike).low < known(single).low + 0.1


@pytest.mark.parametrize("alike", [0.0, 0.4])
@pytest.mark.parametrize("share", [0.05, 0.5])
def test_intervals_of_several_captions_hold_their_level(share: float, alike: float) -> None:
    rng = np.random.default_rng(0)
    scale = 1 / alike - 1 if alike else 0.0
    of_image = rng.beta(share * scale, (1 - share) * scale, (400, 50)) if alike else share
    intervals = [caption_share(row, [3] * 50).interval for row in rng.binomial(3, of_image, (400, 50)).tolist()]
    assert np.mean([known(of).low <= share <= known(of).high for of in intervals]) > 0.91
