"""Intervals of correlations over few captioners: what they hold, and where there is none."""

from __future__ import annotations

import csv
import math
from pathlib import Path

import numpy as np
import pytest
from helpers import known
from scipy import stats

from judge.statistics.correlation import correlate, spearman_interval

Z = 1.959963984540054
DRAWS = 20_000
# (captioners, correlation) -> least share of 95% intervals that hold the truth, as docs/guides/anonymous.md says.
LEAST = {4: 0.955, 5: 0.948, 9: 0.94}


def pairs_of(count: int, correlation: float) -> np.ndarray:
    """[draws, 2, captioners], bivariate normal."""
    drawn = np.random.default_rng(count).standard_normal((DRAWS, 2, count))
    drawn[:, 1] = correlation * drawn[:, 0] + math.sqrt(1 - correlation**2) * drawn[:, 1]
    return drawn


def pearsons(drawn: np.ndarray) -> np.ndarray:
    centred = drawn - drawn.mean(axis=2, keepdims=True)
    return (centred[:, 0] * centred[:, 1]).sum(axis=1) / np.sqrt((centred**2).sum(axis=2).prod(axis=1))


@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.8, 0.95])
@pytest.mark.parametrize("captioners", LEAST)
def test_what_intervals_hold(captioners: int, correlation: float) -> None:
    """Pearson's by Fisher, Spearman's by Bonett and Wright, of a bivariate normal: rho_s = 6 / pi asin(rho / 2)."""
    drawn = pairs_of(captioners, correlation)
    gap = np.abs(np.arctanh(pearsons(drawn)) - math.atanh(correlation))
    assert (gap <= Z / math.sqrt(captioners - 3)).mean() >= LEAST[captioners]
    truth = 6 / math.pi * math.asin(correlation / 2)
    ranks = np.round(pearsons(drawn.argsort(axis=2).argsort(axis=2).astype(float)), 12)
    held = 0
    for value, count in zip(*np.unique(ranks, return_counts=True), strict=True):
        bounds = known(spearman_interval(float(value), captioners))
        assert -1 <= bounds.low < bounds.high <= 1
        held += int(count) * (bounds.low <= truth <= bounds.high)
    assert held / DRAWS >= LEAST[captioners]


def test_spearmans_is_bonett_and_wrights() -> None:
    """Of a value 0.6 of 28: variance (1 + 0.18) / 25 after Fisher's transformation."""
    bounds = known(spearman_interval(0.6, 28))
    half = Z * math.sqrt(1.18 / 25)
    assert (bounds.low, bounds.high) == pytest.approx(
        (math.tanh(math.atanh(0.6) - half), math.tanh(math.atanh(0.6) + half))
    )


def test_equal_rankings_of_few_prove_little() -> None:
    same = correlate([1, 2, 3, 4, 5], [1, 4, 9, 16, 25])
    bounds = known(same.spearman_interval)
    assert same.spearman == pytest.approx(1)
    assert (bounds.low < 0.6, bounds.high) == (True, 1)
    turned = known(correlate([1, 2, 3, 4, 5], [25, 16, 9, 4, 1]).spearman_interval)
    assert (turned.low, turned.high) == pytest.approx((-bounds.high, -bounds.low))


def test_imagecaptioner2_table_5_by_ranks(shared: Path) -> None:
    """Spearman's, 1 - 6 sum d^2 / (n^3 - n) with mean ranks for ties, of the paper's 9 captioners; it prints none."""
    with (shared.parent / "paper_tables" / "imagecaptioner2_table5_anonymousbench.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    people = [float(row["human"]) for row in rows]
    # Ranks by hand, 1 for the lowest.
    assert stats.rankdata(people).tolist() == [7, 2, 3.5, 3.5, 8, 6, 1, 9, 5]
    ranks = {"lic": [7.5, 1, 3.5, 2, 5, 9, 6, 7.5, 3.5], "ic2": [9, 3, 5, 2, 7, 6, 1, 8, 4]}
    for name, by_hand in ranks.items():
        found = correlate([float(row[name]) for row in rows], people)
        assert found.spearman == pytest.approx(np.corrcoef(by_hand, stats.rankdata(people))[0, 1])
        assert known(found.spearman_interval).low < known(found.spearman) < known(found.spearman_interval).high
