"""Statistics of trials, on trials made by hand; and that a faulty metric is found out."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from helpers import known
from scipy import stats

from judge.calibration.doses import NOTHING
from judge.calibration.response import Calibration, calibrate
from judge.metrics import find_metric
from judge.report.calibration import calibration_json, calibration_tables, draw_calibration, verdict

pytestmark = pytest.mark.figures

DOSES, SD = (0.1, 0.2, 0.4), 0.01


def trials(slope: float, *, other: float = 0.0, silence: float = 0.0, metric: str = "lic") -> pd.DataFrame:
    """A metric that answers linearly, with normal noise whose sd it knows: 400 null draws, 20 with doses."""
    rng = np.random.default_rng(0)
    neutral, rows = find_metric(metric).neutral, []
    for draw in range(400):
        noise, jitter = SD * rng.normal(), SD / 10 * rng.normal(size=(3, len(DOSES)))
        values = {(NOTHING, 0.0): noise}
        for number, (change, rise) in enumerate((("A->T", slope), ("T->A", other), ("silence", silence))):
            for place, dose in enumerate(DOSES if draw < 20 else ()):
                values[change, dose] = noise + rise * dose + jitter[number, place]
        for (change, dose), value in values.items():
            p = 2 * stats.norm.sf(abs(value) / SD)
            low, high = neutral + value - 1.96 * SD, neutral + value + 1.96 * SD
            numbers = neutral + value, SD, low, high, p, 2.0
            rows.append((change, dose, draw, metric, "linear", *numbers, "refits", "", 3, "450 female, 450 male"))
    columns = ["change", "dose", "draw", "metric", "judge", "value", "error", "low", "high", "p", "seconds"]
    columns += ["basis", "void", "left_out", "images"]
    return pd.DataFrame(rows, columns=columns)


def one(rows: pd.DataFrame) -> Calibration:
    (found,) = calibrate(rows)
    return found


def test_a_metric_that_answers() -> None:
    rows = trials(0.3)
    found = one(rows)
    nulls = found.nulls
    assert (found.seconds, nulls.draws) == (2.0, 400)
    assert nulls.claimed == pytest.approx(1, abs=0.1)
    rejected, held = known(nulls.rejected), known(nulls.held)
    assert rejected.ci.low < 0.05 < rejected.ci.high
    assert rejected.share + held.share == pytest.approx(1)
    # Clopper and Pearson by the beta distribution.
    count = round(400 * rejected.share)
    bounds = stats.beta.ppf(0.025, count, 401 - count), stats.beta.ppf(0.975, count + 1, 400 - count)
    assert (rejected.ci.low, rejected.ci.high) == pytest.approx(bounds)
    response = known(found.response)
    assert [point.dose for point in response.points] == [0, *DOSES]
    wide = rows[rows["change"].isin([NOTHING, "A->T"]) & (rows["draw"] < 20)].pivot(
        index="draw", columns="dose", values="value"
    )
    assert [point.mean for point in response.points] == pytest.approx(wide.mean().tolist())
    # What is shared by a draw cancels in its rises.
    rises = (wide[0.4] - wide[0.0]).to_numpy()
    assert response.shift == pytest.approx(rises.mean())
    low, high = stats.t.interval(0.95, 19, rises.mean(), stats.sem(rises))
    band = known(response.shift_band)
    assert (band.low, band.high, response.moves) == (pytest.approx(low), pytest.approx(high), 1)
    assert response.spearman == pytest.approx(
        np.mean([stats.spearmanr(wide.columns, row)[0] for row in wide.to_numpy()])
    )
    assert (response.right_sign, response.found_from) == (1.0, 0.1)
    assert verdict(found) == "LIC (linear) finds A->T doses from 0.1 on."


def test_faults_are_found_out() -> None:
    """A sign flipped; a metric that hears nothing, or what it should not; errors that claim too little."""
    flipped = one(trials(-0.3))
    assert known(flipped.response).right_sign == 0
    assert known(flipped.response).found_from is None  # Significant, but on the wrong side.
    assert verdict(flipped) == "LIC (linear) goes the wrong way with A->T doses."
    deaf = verdict(one(trials(0.0, other=0.5, silence=-0.5)))
    told = "LIC (linear) does not answer to A->T doses; rises with T->A doses too; falls with silence on the attribute "
    assert deaf == f"{told}too."
    faint = verdict(one(trials(0.02)))
    assert faint.startswith("LIC (linear) answers to A->T doses, but the largest is found in ")
    assert faint.endswith(" of 20 draws only.")
    narrow = trials(0.3)
    narrow["p"] /= 5
    assert verdict(one(narrow)).endswith("% of captioners without amplification.")


def test_what_cannot_be_told() -> None:
    rows = trials(0.3)
    untested = one(rows.assign(p=np.nan, low=np.nan, high=np.nan, error=np.nan))
    assert (untested.nulls.rejected, untested.nulls.held, untested.nulls.claimed) == (None, None, None)
    assert verdict(untested) == "LIC (linear) answers to A->T doses (not tested: no p)."
    other = one(rows[rows["change"].isin([NOTHING, "silence"])])
    assert verdict(other) == "LIC (linear) was given no A->T doses."
    gone = one(rows.assign(value=rows["value"].where(rows["dose"] < 0.4, np.inf)))
    last = known(gone.response).points[-1]
    assert (last.dose, last.mean, last.rejected, known(gone.response).shift) == (0.4, None, None, None)
    nothing = one(rows.assign(value=np.nan))
    assert nothing.nulls.draws == 0
    for found in (untested, other, gone, nothing):
        assert json.loads(calibration_json([found]))["results"][0]["verdict"] == verdict(found)
        assert all(len(list(table.shown())) > 1 for table in calibration_tables([found]))
        assert draw_calibration([found], "png").startswith(b"\x89PNG")


def test_metrics_without_a_side_may_go_either_way() -> None:
    """Ratio is found where p is below 0.05, whatever its sign."""
    (found,) = calibrate(trials(0.0, other=-0.3, metric="ratio:female/male"))
    assert (known(found.response).side, known(found.response).right_sign) == (0, None)
    assert verdict(found).startswith("Ratio")
    assert verdict(found).endswith("finds T->A doses from 0.1 on.")
    assert found.nulls.mean == pytest.approx(0, abs=3 * SD / 20)  # Counted: above the chance level.
