"""Shares of captions against scipy and simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from helpers import known
from scipy import stats

from judge.statistics.naming import caption_share


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
