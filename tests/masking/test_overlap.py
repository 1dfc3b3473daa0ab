"""Overlap of detections with ground truth: against hand calculations, slow loops and pycocotools."""

from __future__ import annotations

import math
from dataclasses import astuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from judge.masking.folder import Hiding
from judge.masking.instances import Instance, from_box, from_mask
from judge.masking.overlap import average_precision, count, pool
from judge.statistics.intervals import bootstrap_pooled

MASKS = arrays(np.bool_, (7, 9))


def square(top: int, left: int, side: int, *, score: float = 1.0, label: str = "person") -> Instance:
    mask = np.zeros((20, 20), dtype=np.bool_)
    mask[top : top + side, left : left + side] = True
    return from_mask(mask, label, score=score)


def test_by_hand() -> None:
    """A person of 100 pixels, found as 10 x 8 of it and 2 x 8 beside: 80 found, 20 missed, 16 beside."""
    truth = [square(0, 0, 10)]
    found = [from_box((0, 0, 12, 8), (20, 20), "person", score=0.9)]
    counts = count(truth, found, Hiding(), (20, 20))
    assert astuple(counts) == (100, 96, 80, 20, 96)
    recall, iou, visible, beside = pool(np.array(astuple(counts), dtype=np.float64))
    assert (recall, iou, visible, beside) == pytest.approx((0.8, 80 / 116, 0.2, 16 / 96))


def test_hiding_decides_what_is_left_visible() -> None:
    """A triangle found exactly: as a segment nothing is visible, by its upper half a half, by its box much beside."""
    truth = [from_mask(np.tri(20, dtype=np.bool_), "person")]
    for hiding, expected in ((Hiding(mode="partial"), (0.5, 0)), (Hiding(mode="box"), (0, 190 / 400))):
        visible, beside = pool(np.array(astuple(count(truth, truth, hiding, (20, 20))), float))[2:]
        assert (visible, beside) == expected


def test_thresholds_labels_and_foreground_choose_on_both_sides() -> None:
    small, large, dog = square(15, 15, 3), square(0, 0, 10), square(0, 12, 6, label="dog")
    unsure = square(0, 0, 10, score=0.3)
    assert count([small, large, dog], [unsure], Hiding(), (20, 20)).found == 0
    assert count([small, large, dog], [unsure], Hiding(threshold=0.2), (20, 20)).both == 100
    assert count([small, large, dog], [small], Hiding(foreground="largest"), (20, 20)).truth == 100
    assert count([small, large, dog], [dog], Hiding(labels=("dog",)), (20, 20)).both == 36


@given(MASKS, MASKS)
def test_counts_equal_a_loop(truth: np.ndarray, found: np.ndarray) -> None:
    counts = count([from_mask(truth, "person")], [from_mask(found, "person")], Hiding(), (7, 9))
    pairs = [(bool(t), bool(f)) for t, f in zip(truth.flat, found.flat, strict=True)]
    assert counts.truth == sum(t for t, _ in pairs)
    assert counts.both == sum(t and f for t, f in pairs)
    assert counts.visible == sum(t and not f for t, f in pairs)
    shares = pool(np.array(astuple(counts), dtype=np.float64))
    either = sum(t or f for t, f in pairs)
    assert shares[1] == pytest.approx(counts.both / either) if either else math.isnan(shares[1])
    assert np.nansum([shares[0], shares[2]]) == pytest.approx(1) if counts.truth else math.isnan(shares[0])


def test_precision_of_the_truth_is_one_and_of_a_hand_made_case_as_defined() -> None:
    """Two people in two pictures; one is found, a false alarm scores higher: precision 1/2 up to recall 1/2."""
    truth = {"a": [square(0, 0, 10)], "b": [square(0, 0, 10)]}
    assert average_precision(truth, truth, "person") == (1.0, 1.0)
    found = {"a": [square(0, 0, 10, score=0.6)], "b": [square(10, 10, 10, score=0.9)]}
    # 101 recall points, of which 0.00 to 0.50 have precision 1/2.
    assert average_precision(truth, found, "person") == pytest.approx((51 / 101 / 2, 51 / 101 / 2))
    # IoU 0.8: right up to the threshold 0.80, that is at 7 of 10 thresholds.
    looser = {name: [from_box((0, 0, 10, 8), (20, 20), "person")] for name in truth}
    assert average_precision(truth, looser, "person") == pytest.approx((0.7, 1.0))
    # Of nothing it is NaN, never zero.
    nothing: dict[str, list[Instance]] = {"a": []}
    assert all(map(math.isnan, average_precision(nothing, nothing, "person")))
    assert average_precision({"a": [square(0, 0, 5)]}, nothing, "person") == (0.0, 0.0)


def test_intervals_of_pooled_shares_cover_and_shrink() -> None:
    rng = np.random.default_rng(3)
    truth = rng.integers(50, 150, 400).astype(float)
    both = rng.binomial(truth.astype(int), 0.7).astype(float)
    table = np.stack([truth, both, both, truth - both, both], axis=1)
    many = bootstrap_pooled(table, pool, generator=np.random.default_rng(0))[0]
    few = bootstrap_pooled(table[:40], pool, generator=np.random.default_rng(0))[0]
    assert many is not None
    assert few is not None
    assert many.low < 0.7 < many.high
    assert (few.high - few.low) / (many.high - many.low) == pytest.approx(10**0.5, rel=0.4)
    # Standard error of a ratio of sums, by the delta method.
    residual = both - both.sum() / truth.sum() * truth
    error = np.sqrt((residual**2).sum()) / truth.sum()
    assert many.high - many.low == pytest.approx(2 * 1.96 * error, rel=0.1)


def test_one_picture_and_a_share_of_nothing_have_no_interval() -> None:
    """A detector that finds nothing hides nothing: no share of that is beside, and nobody is warned."""
    assert bootstrap_pooled(np.ones((1, 5)), pool, generator=np.random.default_rng(0)) == [None] * 4
    table = np.array([[100.0, 0, 0, 100, 0]] * 5 + [[50.0, 0, 0, 50, 0]])
    recall, iou, visible, beside = bootstrap_pooled(table, pool, generator=np.random.default_rng(0), resamples=100)
    assert beside is None
    assert recall is not None
    assert iou is not None
    assert visible is not None
    assert (recall.low, recall.high, iou.high, visible.low) == (0, 0, 0, 1)


@given(st.integers(0, 3))
def test_pool_is_vectorised(extra: int) -> None:
    counts = np.arange(5.0 * (extra + 1)).reshape(5, extra + 1) + 1
    for column in range(extra + 1):
        np.testing.assert_array_equal(pool(counts)[:, column], pool(counts[:, column]))
