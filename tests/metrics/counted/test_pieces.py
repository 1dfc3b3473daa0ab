"""What samples and pairs add to a counted metric: the whole of it, in every variant."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from judge.metrics import METRICS
from judge.metrics.amplification import NEUTRAL, log_mean
from judge.metrics.counted.contingency import ContingencyTable, contingency
from judge.metrics.counted.spec import CountedMetric, Quotients

FIELDS = "together", "attribute", "tasks", "samples"


def variants() -> dict[str, CountedMetric]:
    """Every counted row, and every variant of it."""
    found = {}
    for row in METRICS.values():
        if row.counted:
            found[row.name] = row.counted
            for name in row.counted.variants:
                found[f"{row.name}:{name}"] = row.counted.in_variant(name)
    return {name: metric for name, metric in found.items() if metric is not None}


def linear(table: ContingencyTable, pieces: ContingencyTable) -> float:
    return float(sum((getattr(table, name) * getattr(pieces, name)).sum() for name in FIELDS))


@pytest.mark.parametrize(("name", "metric"), variants().items(), ids=variants())
@given(seed=st.integers(0, 9999), classes=st.integers(2, 3))
@settings(max_examples=20, deadline=None)
def test_all_of_a_metric_is_in_its_parts(name: str, metric: CountedMetric, seed: int, classes: int) -> None:
    del name
    rng = np.random.default_rng(seed)
    samples, labels = 40, 5
    attribute = rng.integers(0, classes, samples)
    named = np.where(rng.random(samples) < 0.3, rng.integers(0, classes, samples), attribute)
    tasks = rng.random((samples, labels)) < rng.random(labels) * 0.5
    told = tasks ^ (rng.random((samples, labels)) < 0.15)
    if seed % 3 == 0:
        told[:, 0] = False  # A label that one side never has.
    one = np.eye(classes, dtype=np.bool_)
    truth, predicted = contingency(one[attribute], tasks), contingency(one[named], told)
    if metric.labels is None:  # Sums over captions by others.
        pairs = [np.stack([rng.random(samples) < 0.5, np.ones(samples, dtype=np.bool_)], axis=1) for _ in range(2)]
        truth, predicted = (contingency(of[:, :1], of[:, 1:]) for of in pairs)
    frozen = metric.freeze(truth, predicted)
    value = frozen.compare(truth, predicted).value
    expected = value - (NEUTRAL["ratio"] if metric.amplification == "ratio" else 0.0)
    human, generated = frozen.pieces(truth, predicted)
    if np.isfinite(value):
        if not isinstance(frozen, Quotients):
            parts = frozen.parts(truth, predicted)  # type: ignore[attr-defined]
            assert float(parts.sum()) == pytest.approx(expected, abs=1e-12)
        assert linear(predicted, generated) - linear(truth, human) == pytest.approx(expected, abs=1e-12)


def test_a_ratio_by_hand() -> None:
    """People name 6 men and 3 women, the captioner 8 and 2: 4 over 2. Logs: log(8/6) of men, log(3/2) of women."""
    none = np.array(0.0)
    truth, predicted = (
        ContingencyTable(np.zeros((1, 1)), np.array([float(men)]), np.array([float(women)]), none)
        for men, women in ((6, 3), (8, 2))
    )
    human, generated = Quotients("ratio").pieces(truth, predicted)
    scale = (2 - 1) / np.log(2)
    men = 8 * generated.attribute[0] - 6 * human.attribute[0]
    women = 2 * generated.tasks[0] - 3 * human.tasks[0]
    assert (men, women) == (pytest.approx(scale * np.log(8 / 6)), pytest.approx(scale * np.log(3 / 2)))


def test_the_logarithmic_mean() -> None:
    found = log_mean(np.array([2.0, 3.0, 1.0]), np.array([2.0, 1.0, 1.0 + 1e-12]))
    np.testing.assert_allclose(found, [2.0, 2 / np.log(3), 1.0], rtol=1e-11)
