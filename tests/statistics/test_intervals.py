"""Intervals and tests against closed forms, scipy's own answers on the plain case, and coverage by simulation."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from judge.statistics.intervals import Sides, bootstrap, permutation_test


def difference(means: np.ndarray) -> np.ndarray:
    return means[1, 0] - means[0, 0]


def sides(*classes: np.ndarray) -> Sides:
    return Sides(tuple(part[:, None] for part in classes), tuple(np.ones(part.shape[1]) for part in classes))


def test_means_by_hand() -> None:
    """Class means are 0.5 and 1 on the human side, 1 and 0 on the generated one; image 3 was scored twice."""
    sums = np.array([[[0.0, 1.0]], [[1.0, 1.0]]]), np.array([[[2.0]], [[0.0]]])
    found = Sides(sums, (np.ones(2), np.array([2.0])))
    assert found.means()[:, 0] == pytest.approx([(0.5 + 1) / 2, (1 + 0) / 2])


def test_bootstrap_agrees_with_the_normal_interval() -> None:
    """Two classes of different size: variance of the mean of class means is (s1^2/n1 + s2^2/n2) / 4."""
    rng = np.random.default_rng(0)
    first, second = rng.normal(0.1, 0.3, (2, 900)), rng.normal(0.2, 0.5, (2, 300))
    data = sides(first, second)
    interval = bootstrap(data, difference, generator=rng, resamples=4000)
    gaps = [part[1] - part[0] for part in (first, second)]
    error = np.sqrt(sum(gap.var(ddof=1) / len(gap) for gap in gaps)) / 2
    centre = float(np.mean([gap.mean() for gap in gaps]))
    assert interval.low == pytest.approx(centre - 1.96 * error, abs=0.15 * error)
    assert interval.high == pytest.approx(centre + 1.96 * error, abs=0.15 * error)


def test_coverage() -> None:
    """Of 200 samples the 90% interval holds the true difference, 0.05, in 84 to 96% (binomial, 3 sd)."""
    rng = np.random.default_rng(1)
    held = 0
    for _ in range(200):
        base = rng.random((1, 80))
        data = np.concatenate([base, base + rng.normal(0.05, 0.2, (1, 80))])
        found = bootstrap(sides(data[:, :50], data[:, 50:]), difference, generator=rng, resamples=300, level=0.9)
        held += found.low <= 0.05 <= found.high
    assert 0.84 <= held / 200 <= 0.96


def test_images_keep_their_two_sides_together() -> None:
    """Sides that move together have no uncertainty in their difference, however much images differ."""
    base = np.random.default_rng(2).random((1, 100))
    found = bootstrap(sides(np.concatenate([base, base + 0.25])), difference, generator=np.random.default_rng(0))
    assert (found.low, found.high) == pytest.approx((0.25, 0.25))


def test_same_generator_same_interval() -> None:
    data = sides(np.random.default_rng(3).random((2, 40)))
    first, again = (bootstrap(data, difference, generator=np.random.default_rng(5)) for _ in range(2))
    assert first == again


def test_permutation_agrees_with_the_paired_t_test() -> None:
    rng = np.random.default_rng(4)
    data = rng.normal(0, 1, (2, 200))
    data[1] += 0.15
    found = permutation_test(sides(data), difference, generator=rng, resamples=20_000)
    assert found == pytest.approx(stats.ttest_rel(data[1], data[0]).pvalue, abs=0.02)


def test_permutation_of_identical_sides_is_one() -> None:
    base = np.random.default_rng(5).random((1, 30))
    assert permutation_test(sides(np.concatenate([base, base])), difference, generator=np.random.default_rng(0)) == 1.0


def test_permutation_of_three_images_by_hand() -> None:
    """All three gaps are +1: of the 8 swaps, 1 is as high and 1 as low, so p = 2/8."""
    data = sides(np.array([[0.0, 0.0, 0.0], [1.0, 1.0, 1.0]]))
    assert permutation_test(data, difference, generator=np.random.default_rng(0)) == pytest.approx(2 / 8, abs=0.02)
