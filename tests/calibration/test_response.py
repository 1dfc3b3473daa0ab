"""Statistics of trials, on trials made by hand; and that a faulty metric is found out."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from judge.calibration.response import NOTHING, calibrate
from judge.metrics import find_metric
from judge.report.calibration import calibration_json, calibration_tables, verdict

DOSES = (0.1, 0.2, 0.4)


def trials(
    slope: float, *, other: float = 0.0, silence: float = 0.0, sd: float = 0.01, metric: str = "lic"
) -> pd.DataFrame:
    """A metric that answers linearly, with normal noise whose sd it knows."""
    rng = np.random.default_rng(0)
    metric, neutral, rows = "lic", find_metric("lic").neutral, []

    def add(change: str, dose: float, draw: int, value: float) -> None:
        p = 2 * stats.norm.sf(abs(value - neutral) / sd)
        rows.append((change, dose, draw, metric, "linear", value, sd, value - 1.96 * sd, value + 1.96 * sd, p, 2.0))

    for draw in range(400):
        noise = neutral + sd * rng.normal()
        add(NOTHING, 0.0, draw, noise)
        for change, rise in (("A->T", slope), ("T->A", other), ("silence", silence)):
            for dose in DOSES if draw < 20 else ():
                add(change, dose, draw, noise + rise * dose)
    return pd.DataFrame(
        rows, columns=["change", "dose", "draw", "metric", "judge", "value", "error", "low", "high", "p", "seconds"]
    )


def large(value: float, metric: str = "lic") -> pd.DataFrame:
    return pd.DataFrame(
        [("A->T", dose, metric, "linear", value * dose) for dose in DOSES],
        columns=["change", "dose", "metric", "judge", "value"],
    )


def test_a_metric_that_answers() -> None:
    (found,) = calibrate(trials(0.3), large(0.3))
    assert (found.own, found.seconds, found.nulls.draws) == ("A->T", 2.0, 400)
    assert found.nulls.claimed == pytest.approx(1, abs=0.1)
    rejected, held = found.nulls.rejected, found.nulls.held
    assert rejected is not None
    assert held is not None
    assert rejected.interval.low < 0.05 < rejected.interval.high
    assert rejected.value + held.value == pytest.approx(1)
    # Clopper and Pearson by the beta distribution.
    count = round(400 * rejected.value)
    bounds = stats.beta.ppf(0.025, count, 401 - count), stats.beta.ppf(0.975, count + 1, 400 - count)
    assert (rejected.interval.low, rejected.interval.high) == pytest.approx(bounds)
    response = found.response
    assert response is not None
    assert [point.dose for point in response.points] == [0, *DOSES]
    assert [point.large for point in response.points] == pytest.approx([None, 0.03, 0.06, 0.12])
    steps = [point.mean - response.points[0].mean for point in response.points]
    assert steps == pytest.approx([0, 0.03, 0.06, 0.12])
    assert response.shift == pytest.approx(0.12)
    # 0.03 is three standard errors: power 0.85. Of 20 draws each.
    assert response.found_from == 0.1
    values = trials(0.3).query("change != 'T->A' and change != 'silence' and draw < 20")
    assert response.spearman == pytest.approx(stats.spearmanr(values["dose"], values["value"]).statistic)
    assert found.crosstalk == pytest.approx({"T->A": 0, "silence": 0}, abs=1e-12)
    assert verdict(found) == "LIC (linear) finds A->T doses from 0.1 on."


def test_faults_are_found_out() -> None:
    """A sign flipped; a metric that hears nothing, or what it should not; errors that claim too little."""
    (flipped,) = calibrate(trials(-0.3), large(0.3))
    assert flipped.response is not None
    assert flipped.response.right_sign is not None
    assert flipped.response.right_sign.value < 0.05
    assert verdict(flipped) == "LIC (linear) goes the wrong way with A->T doses."
    (deaf,) = calibrate(trials(0.0, other=0.5, silence=-0.5), large(0.3))
    told = "LIC (linear) does not answer to A->T doses, is moved by T->A doses too, takes silence on the attribute for "
    assert verdict(deaf) == told + "mitigation."
    narrow = trials(0.3)
    narrow["p"] /= 5
    (overconfident,) = calibrate(narrow, large(0.3))
    assert "of captioners without amplification significant" in verdict(overconfident)
    (faint,) = calibrate(trials(0.02), large(0.02))
    assert verdict(faint).startswith("LIC (linear) goes up with A->T doses, but") == (faint.response.spearman >= 0.5)  # type: ignore[union-attr,operator]


def test_what_is_written() -> None:
    found = calibrate(trials(0.3), large(0.3))
    row = json.loads(calibration_json(found))["results"][0]
    assert (row["metric"], row["direction"], row["verdict"]) == ("lic", "A->T", verdict(found[0]))
    assert row["changes"]["A->T"]["points"][1]["large_sample"] == pytest.approx(0.03)
    assert row["nulls"]["rejected"]["trials"] == 400
    first, second = calibration_tables(found)
    assert [column.heading for column, _ in first.shown()][2:5] == ["p < 0.05", "holds none", "claimed/sd"]
    assert [cells for column, cells in second.shown() if column.heading == "A->T"] == [["+0.120 (100%)"]]


def test_values_that_are_missing_are_left_out() -> None:
    rows = trials(0.3)
    rows.loc[rows.index[::7], ["value", "error", "low", "high", "p"]] = np.nan
    rows.loc[:, "p"] = np.nan
    (found,) = calibrate(rows, large(0.3))
    assert found.nulls.rejected is None
    assert found.nulls.draws < 400
    assert found.response is not None
    assert found.response.found_from is None
    assert json.loads(calibration_json([found]))["results"][0]["nulls"]["rejected"] is None
