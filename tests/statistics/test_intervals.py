"""Intervals and tests against closed forms, scipy's own answers on the plain case, and coverage by simulation."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest
from helpers import known
from scipy.linalg import block_diag

from judge.statistics.inference import MANY
from judge.statistics.intervals import Exchange, Rows, bootstrap_pooled
from judge.statistics.summary import DEFAULT
from judge.types import FloatArray, Interval


def table(*classes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What images of several classes add, [N, 4K]: of each class a count and both sides; and their classes."""
    strata = np.repeat(np.arange(len(classes)), [part.shape[1] for part in classes])
    counted = [np.column_stack([np.ones(part.shape[1]), *part]) for part in classes]
    return block_diag(*counted), strata


def difference(sums: np.ndarray) -> np.ndarray:
    """Generated - human, classes counting equally."""
    counts, before, after = sums.reshape(-1, 3, *sums.shape[1:]).swapaxes(0, 1)
    return ((after - before) / counts).mean(axis=0)[None]


def interval(*classes: np.ndarray, **how: object) -> Interval:
    data, strata = table(*classes)
    return known(*bootstrap_pooled(data, difference, strata=strata, **how))  # type: ignore[arg-type]


def test_bootstrap_agrees_with_the_normal_interval() -> None:
    """Two classes of different size: variance of the mean of class means is (s1^2/n1 + s2^2/n2) / 4."""
    rng = np.random.default_rng(0)
    first, second = rng.normal(0.1, 0.3, (2, 900)), rng.normal(0.2, 0.5, (2, 300))
    found = interval(first, second, generator=rng, resamples=4000)
    gaps = [part[1] - part[0] for part in (first, second)]
    error = np.sqrt(sum(gap.var(ddof=1) / len(gap) for gap in gaps)) / 2
    centre = np.mean([gap.mean() for gap in gaps])
    expected = centre - 1.96 * error, centre + 1.96 * error
    assert (found.low, found.high) == pytest.approx(expected, abs=0.15 * error)


def test_a_class_with_one_image_has_no_interval() -> None:
    data, strata = table(np.random.default_rng(0).random((2, 9)), np.array([[0.1], [0.2]]))
    assert bootstrap_pooled(data, difference, strata=strata, generator=np.random.default_rng(0)) == [None]


def paired(before: np.ndarray, after: np.ndarray) -> Rows:
    """A caption of each side for each image."""
    images = np.arange(len(before))
    values = np.concatenate([before, after])[:, None] / len(before)
    return Rows(values, np.tile(images, 2), np.repeat([False, True], len(images)))


def test_excess_of_parts_of_the_images() -> None:
    """The mean over exchanges of a mean gap is 0: what is left is the gap of each part, here 1 and 2."""
    before, after = np.zeros(40), np.repeat([1.0, 2.0], 20)
    parts = np.stack([np.arange(40) < 20, np.arange(40) >= 20])

    def mean_gap(human: FloatArray, generated: FloatArray) -> FloatArray:
        return (generated[1] - human[1]) / human[0]

    rows = paired(before, after)
    counted = Rows(np.c_[np.ones(80), np.concatenate([before, after])], rows.image, rows.generated)
    found = Exchange(counted, mean_gap, generator=np.random.default_rng(0)).excess(parts, exchanges=2000)
    assert found == pytest.approx([1, 2], abs=0.03)


@pytest.mark.parametrize("more", [0, 1])
@pytest.mark.parametrize("copied", [False, True])
def test_rows_of_one_kind_add_what_each_adds(more: int, copied: bool) -> None:
    """Rows that name a row of a table have the sums, exchanges and parts of the same rows written out.

    With ``more`` than one human caption of some images, rows of a kind have different weights.
    """
    generator = np.random.default_rng(0)
    image = np.concatenate([np.repeat(np.arange(30), [2 + more * (n % 2) for n in range(30)]), np.arange(30)])
    generated = np.arange(len(image)) >= len(image) - 30
    table, kind = generator.integers(0, 3, (5, 4)).astype(float), generator.integers(0, 5, len(image))
    copies = generated & (image < 10) if copied else None
    parts = generator.random((6, 30)) < 0.5

    def product(human: FloatArray, of_captioner: FloatArray) -> FloatArray:
        return np.asarray((human * of_captioner).sum(axis=0))

    found = []
    for rows in (
        Rows(table, image, generated, kind, copied=copies),
        Rows(table[kind], image, generated, copied=copies),
    ):
        exchange = Exchange(rows, product, generator=np.random.default_rng(1))
        excess = exchange.excess(parts, exchanges=3)
        found.append([*rows.sums(), exchange.values(20), excess, *(side.toarray() for side in rows.by_image())])
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("written", [[1, 1, 1], [1, 2, 1]])
def test_captions_change_sides_as_often_as_all_ways_to_do_so(written: list[int]) -> None:
    """Three images with three human captions, two and one, and ``written`` generated ones: every way is enumerated.

    The value is no mean: of a ratio of sums, what there is by chance is not 0.
    """
    people = [3, 2, 1]
    image = np.concatenate([np.repeat(np.arange(3), people), np.repeat(np.arange(3), written)])
    generated = np.arange(len(image)) >= sum(people)
    values = np.random.default_rng(0).integers(1, 9, (len(image), 1)).astype(float)

    def ratio(before: FloatArray, after: FloatArray) -> FloatArray:
        return after[0] / before[0]

    def by_hand(chosen: set[int]) -> float:
        sides = [0.0, 0.0]
        for side, counts in enumerate((people, written)):
            for row, whose in enumerate(image):
                if (row in chosen) == bool(side):
                    sides[side] += values[row, 0] / counts[whose]
        return sides[1] / sides[0]

    ways = product(*(combinations(np.flatnonzero(image == k).tolist(), count) for k, count in enumerate(written)))
    every = np.array([by_hand({row for of in way for row in of}) for way in ways])
    rows, draws = Rows(values, image, generated), np.random.default_rng(1)
    found = known(Exchange(rows, ratio, generator=draws).chance(40_000))
    assert found.mean == pytest.approx(every.mean(), abs=4 * every.std() / 200)
    assert found.sd == pytest.approx(every.std(), rel=0.02)


def test_captions_that_are_copied_from_people_may_be_any_of_theirs() -> None:
    """The human side keeps its captions: of two images with three and two, all six ways.

    By hand: sums of weights 6 / 3 and 6 / 2 are 24 of either image's human captions, and 6 times the generated one.
    """
    values = np.array([1.0, 4, 7, 2, 6, 4, 2])
    image, generated = np.array([0, 0, 0, 1, 1, 0, 1]), np.arange(7) >= 5
    table = np.zeros((7, 2))
    table[np.arange(7), image] = values

    def common(before: FloatArray, after: FloatArray) -> FloatArray:
        return np.asarray((before * after).sum(axis=0))

    rows = Rows(table, image, generated, copied=generated)
    assert common(*rows.sums()) == 24 * 6 * (4 + 2)
    ways = 24 * 6 * np.array([one + other for one, other in product([1, 4, 7], [2, 6])])
    exchange = Exchange(rows, common, generator=np.random.default_rng(1))
    found = known(exchange.chance(40_000))
    assert (found.mean, found.sd) == (pytest.approx(ways.mean(), rel=0.01), pytest.approx(ways.std(), rel=0.02))
    # Also in parts of the images.
    excess = exchange.excess(np.array([[True, False], [False, True]]), exchanges=4000)
    assert excess == pytest.approx([0, 24 * 6 * (2 - 4)], abs=24)


def test_draws_without_a_value_have_no_chance_level() -> None:
    """A share of nothing: where the only 1 changes sides, the human side holds nothing to divide by."""
    rows = Rows(np.array([[1.0], [0.0], [0.0], [0.0]]), np.array([0, 1, 0, 1]), np.array([False, False, True, True]))

    def share(before: FloatArray, after: FloatArray) -> FloatArray:
        return np.where(before[0] > 0, after[0] / np.maximum(before[0], 1), np.nan)

    assert Exchange(rows, share, generator=np.random.default_rng(0)).chance(2000) is None


def test_coverage() -> None:
    """Of 200 samples the 90% interval holds the true difference, 0.05, in 84 to 96% (binomial, 3 sd)."""
    rng = np.random.default_rng(1)
    held = 0
    for _ in range(200):
        base = rng.random((1, 80))
        data = np.concatenate([base, base + rng.normal(0.05, 0.2, (1, 80))])
        found = interval(data[:, :50], data[:, 50:], generator=rng, resamples=300, level=0.9)
        held += found.low <= 0.05 <= found.high
    assert 0.84 <= held / 200 <= 0.96


def test_a_run_of_many_images_draws_fewer_exchanges() -> None:
    """Never more than its resamples."""
    few, many = DEFAULT.exchanges_of(MANY - 1), DEFAULT.exchanges_of(MANY)
    assert few > many > 1
    assert DEFAULT._replace(resamples=50).exchanges_of(MANY) == 50
