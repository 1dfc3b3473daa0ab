"""Agreement of two lists of scores, against the plain formula and a published table."""

from __future__ import annotations

import csv
import math
from pathlib import Path

import numpy as np
import pytest
from helpers import known
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from judge.metrics import METRICS
from judge.statistics.correlation import agreements, correlate
from judge.statistics.summary import Summary

VALUES = st.floats(-100, 100, allow_nan=False).map(lambda value: round(value, 3))


@settings(deadline=None)
@given(st.lists(st.tuples(VALUES, VALUES), min_size=4, max_size=12))
def test_pearson_is_the_plain_formula(pairs: list[tuple[float, float]]) -> None:
    x, y = np.array(pairs).T
    assume(np.ptp(x) > 0.1 and np.ptp(y) > 0.1)
    found = correlate(x.tolist(), y.tolist())
    dx, dy = x - x.mean(), y - y.mean()
    r = (dx * dy).sum() / math.sqrt((dx**2).sum() * (dy**2).sum())
    assert found.pearson == pytest.approx(r, abs=1e-9)
    assume(abs(r) < 0.999)
    # Fisher: atanh(r) is normal with variance 1 / (n - 3).
    half = 1.959963984540054 / math.sqrt(len(x) - 3)
    expected = math.tanh(math.atanh(r) - half), math.tanh(math.atanh(r) + half)
    assert (known(found.interval).low, known(found.interval).high) == pytest.approx(expected, abs=1e-6)


def test_imagecaptioner2_table_6(shared: Path) -> None:
    """Abdelrahman et al., section 5.6: scores under detectors are "fully correlated" with those under true masks."""
    path = shared.parent / "paper_tables" / "imagecaptioner2_table6_detectors.csv"
    with path.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    truth, yolo, rcnn = ([float(row[name]) for row in rows] for name in ("gt_masks", "yolox", "mask_rcnn"))
    for other in (yolo, rcnn):
        found = correlate(truth, other)
        assert found.pairs == 9
        assert known(found.pearson) > 0.98
        assert known(found.interval).low > 0.9


def test_two_pairs_have_no_interval() -> None:
    two = correlate([1.0, 2.0], [5.0, 4.0])
    assert (two.pearson, two.spearman, two.interval) == (pytest.approx(-1), pytest.approx(-1), None)


def summary(captioner: str, amplification: float | None, judge: str = "sat") -> Summary:
    return Summary(captioner, METRICS["imagecaptioner2"], judge, 0.5, 0.6, amplification, None, None, None, 10, 1)


def test_agreement_joins_captioners_by_name() -> None:
    variants = {
        "gt": [summary("a", 0.1), summary("b", 0.2), summary("c", 0.4), summary("d", None), summary("a", 0.1, "grit")],
        "yolo": [summary("c", 0.8), summary("a", 0.2), summary("b", 0.4), summary("d", 0.3)],
        "maskrcnn": [summary("a", 0.4), summary("b", 0.2), summary("c", 0.1)],
    }
    found = {(row.judge, row.variant): row.correlation for row in agreements(variants)}
    assert set(found) == {("sat", "yolo"), ("sat", "maskrcnn"), ("grit", "yolo"), ("grit", "maskrcnn")}
    assert (found["sat", "yolo"].pairs, found["sat", "yolo"].pearson) == (3, pytest.approx(1))
    assert found["sat", "maskrcnn"].spearman == pytest.approx(-1)
    assert found["grit", "yolo"].pairs == 0
