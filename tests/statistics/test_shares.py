"""Shares of captions: intervals against scipy, closed forms and simulation; tests against enumeration."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from helpers import known
from scipy import stats

from judge.statistics.shares import measure_share, paired_difference, paired_interval


def flips(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


@pytest.mark.parametrize(("hits", "images"), [(0, 10), (3, 50), (25, 50), (50, 50), (1, 1)])
def test_one_caption_an_image_is_exact(hits: int, images: int) -> None:
    found = measure_share([1] * hits + [0] * (images - hits), [1] * images)
    expected = stats.binomtest(hits, images).proportion_ci(0.95, method="exact")
    assert (found.value, found.images, found.captions, found.exact) == (hits / images, images, images, True)
    bounds = known(found.interval)
    assert (bounds.low, bounds.high) == pytest.approx((expected.low, expected.high), abs=1e-9)
    if not hits:  # Closed form.
        assert bounds.high == pytest.approx(1 - 0.025 ** (1 / images))


def test_images_are_all_as_heavy() -> None:
    """(2/2 + 0/1 + 1/4) / 3."""
    found = measure_share([2, 0, 1], [2, 1, 4])
    assert found.value == pytest.approx(1.25 / 3)
    assert (found.images, found.captions, found.exact) == (3, 7, False)
    # Of those that count: (1/2 + 1/4) / (2/2 + 2/4); the image without any is left out.
    part = measure_share([1, 0, 1], [2, 0, 2], [2, 1, 4])
    assert part.value == pytest.approx(0.75 / 1.5)
    assert (part.images, part.captions) == (2, 4)


def test_captions_that_say_the_same_are_worth_one() -> None:
    """Five copies of each image's caption: nearly the interval of one; five independent ones: nearly that of all."""
    one = known(measure_share([1] * 12 + [0] * 28, [1] * 40).interval)
    copies = known(measure_share([5] * 12 + [0] * 28, [5] * 40).interval)
    assert (copies.low, copies.high) == pytest.approx((one.low, one.high), abs=0.01)
    spread = [2, 1, 2, 1] * 10  # Less alike between images than chance would have it.
    all_of_them = stats.binomtest(60, 200).proportion_ci(0.95, method="exact")
    found = known(measure_share(spread, [5] * 40).interval)
    assert (found.low, found.high) == pytest.approx((all_of_them.low, all_of_them.high), abs=0.005)


def test_what_has_no_interval() -> None:
    nothing = measure_share([], [])
    assert math.isnan(nothing.value)
    assert nothing.interval is None
    assert measure_share([1], [3]).interval is None


@pytest.mark.parametrize("alike", [0.0, 0.4])
@pytest.mark.parametrize("share", [0.05, 0.2, 0.5])
def test_intervals_of_several_captions_hold_their_level(share: float, alike: float) -> None:
    """50 images of 3 captions, whose correlation within images is ``alike``: the truth is inside in 95% or more."""
    rng, draws = flips(7), 400
    of_image = rng.beta(share * (1 / alike - 1), (1 - share) * (1 / alike - 1), (draws, 50)) if alike else share
    hits = rng.binomial(3, of_image, (draws, 50))
    held = 0
    for row in hits.tolist():
        bounds = known(measure_share(row, [3] * 50).interval)
        held += bounds.low <= share <= bounds.high
    assert held / draws >= 0.93  # Two standard errors of 400 draws below 95%.


def test_intervals_of_the_balance_hold_their_level() -> None:
    """Of captions that name one class, 30% in all: the share of one class, 3 captions an image, alike within images."""
    rng, draws, truth = flips(8), 300, 0.7
    among = rng.binomial(3, 0.3, (draws, 80))
    hits = rng.binomial(among, rng.beta(truth * 2, (1 - truth) * 2, (draws, 80)))
    held = 0
    for row, counted in zip(hits.tolist(), among.tolist(), strict=True):
        bounds = known(measure_share(row, counted, [3] * 80).interval)
        held += bounds.low <= truth <= bounds.high
    assert held / draws >= 0.925


def test_mcnemar_and_bonett_and_price() -> None:
    """1 image in favour of the first, 6 of the second, of 50: p = 2 (1 + 7) / 2^7; with 2 and 7 of 52 the interval."""
    first = [1.0] * 1 + [0.0] * 6 + [1.0] * 20 + [0.0] * 23
    second = [0.0] * 1 + [1.0] * 6 + [1.0] * 20 + [0.0] * 23
    found = paired_difference(("a", "b"), np.subtract(first, second).tolist(), generator=flips())
    assert found.p_value == pytest.approx(2 * 8 / 2**7)
    assert (found.images, found.value) == (50, pytest.approx(-0.1))
    up, down = 2 / 52, 7 / 52
    reach = 1.959963984540054 * math.sqrt((up + down - (up - down) ** 2) / 52)
    expected = up - down - reach, up - down + reach
    assert (found.interval.low, found.interval.high) == pytest.approx(expected)
    same = paired_difference(("a", "b"), [0.0] * 50, generator=flips())
    assert (same.value, same.p_value) == (0, 1)
    assert same.interval.low < 0 < same.interval.high


def test_signs_are_changed_where_images_have_several_captions() -> None:
    """All 2^6 changes of sign of these gaps, by enumeration."""
    first, second = [1.0, 0.5, 1.0, 0.5, 0.75, 0.25], [0.5, 0.25, 0.0, 0.75, 0.0, 0.0]
    gaps = np.subtract(first, second)
    sums = [float(np.dot(signs, gaps)) for signs in product((-1, 1), repeat=6)]
    expected = 2 * np.mean([value >= gaps.sum() - 1e-9 for value in sums])
    found = paired_difference(("a", "b"), np.subtract(first, second).tolist(), generator=flips())
    assert found.p_value == pytest.approx(expected)


@pytest.mark.parametrize("several", [1, 3])
def test_intervals_of_differences_hold_their_level(several: int) -> None:
    """50 images, shares of 0.3 and 0.15 that go together."""
    rng, draws, held = flips(9), 300, 0
    both = rng.random((draws, 50, several, 2)) < np.array([0.2, 0.05]) / 0.9
    shared = rng.random((draws, 50, several, 1)) < 0.1
    captions = np.where(shared, True, both)  # Shares 0.1 + 0.9 x 0.2/0.9 = 0.3, and 0.15.
    for gaps in np.diff(captions.mean(axis=2)[..., ::-1], axis=2)[..., 0]:
        bounds = paired_interval(gaps)
        held += bounds.low <= 0.15 <= bounds.high
    assert held / draws >= 0.925


def test_of_a_single_image_that_differs_the_sign_tells_nothing() -> None:
    found = paired_difference(("a", "b"), [0.5, 0, 0, 0], generator=np.random.default_rng(0))
    assert (found.value, found.p_value) == (0.125, 1.0)
