"""Response of metrics to known doses, from the trials of ``judge calibrate``.

A trial is one corpus whose dose of bias is known, measured by one metric and judge: a row of

| column | |
| --- | --- |
| change, dose | of the generated side (:mod:`judge.calibration.doses`); a dose of 0 has the change "none" |
| draw | number of the draw of images and human captions |
| metric, judge | what measured |
| value, error, low, high, p | amplification, its standard error, 95% interval and p; NaN where there is none |
| basis | what the interval is from: :data:`~judge.statistics.summary.Basis` |
| void | why the trial has no verdict; "" where nothing voids it |
| left_out | images, captions and tasks of the trial that were left out |
| images | how many of each class, in words |
| seconds | of the metrics that share their judges with this one |
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import takewhile
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

from judge.calibration.doses import CHANGES, NOTHING
from judge.metrics import Metric, find_metric
from judge.statistics.inference import POWER, SIGNIFICANT, t_interval
from judge.types import Direction, Interval


class TrialShare(NamedTuple):
    """A share of independent ``trials``, in [0, 1], and its exact 95% interval (Clopper and Pearson 1934)."""

    share: float
    trials: int
    ci: Interval

    @classmethod
    def among(cls, happened: pd.Series[bool]) -> TrialShare | None:
        """The share of trials in which it happened; None without trials."""
        if not len(happened):
            return None
        count = int(np.sum(happened))
        low, high = stats.binomtest(count, len(happened)).proportion_ci(0.95, method="exact")
        return cls(count / len(happened), len(happened), Interval(float(low), float(high)))


@dataclass(frozen=True, slots=True)
class Nulls:
    """A metric where nothing is amplified: human captions against human captions.

    Attributes:
        draws: how many have a value.
        claimed: mean standard error over ``sd``, which should be 1; None without errors.
        rejected: draws with p below 0.05, false positives; None without p.
        held: draws whose 95% interval includes no amplification (coverage); None without intervals.
        void, reason: draws that the run's own checks void, and why they void the first, or "".
    """

    draws: int
    mean: float | None
    sd: float | None
    claimed: float | None
    rejected: TrialShare | None
    held: TrialShare | None
    void: TrialShare | None
    reason: str


@dataclass(frozen=True, slots=True)
class Point:
    """Draws at one dose, in [0, 1].

    Attributes:
        mean, band: the mean of the values and its 95% t-interval; None where too few draws have a value.
        rejected: draws with p below 0.05; None without p.
        found: those of them that moved the way the dose should move the metric, or any way, of a metric that may go
            either; None for a change that should not move it.
    """

    dose: float
    mean: float | None
    band: Interval | None
    rejected: TrialShare | None
    found: TrialShare | None


@dataclass(frozen=True, slots=True)
class Response:
    """Response of a metric to doses of one change.

    Attributes:
        side: which way doses should move the metric: 1, or 0 where they should not, or may move it either way.
        points: by dose, that of 0 first.
        shift, shift_band: mean rise at the largest dose over the same draw without any, with a 95% t-interval; None for
            too few such pairs.
        spearman: mean over draws of the rank correlation of dose and value within the draw, in [-1, 1]; None where
            values do not vary.
        right_sign: share of trials with a dose whose value is on ``side`` of no amplification; None without a side.
        found_from: the least dose from which on 80% of the draws are ``found``; None if there is none.
    """

    change: str
    side: int
    points: tuple[Point, ...]
    shift: float | None
    shift_band: Interval | None
    spearman: float | None
    right_sign: float | None
    found_from: float | None

    @property
    def moves(self) -> int:
        """Which way the largest dose moves the metric, beyond chance: 1, -1 or 0."""
        band = self.shift_band
        return int(band.low > 0) - int(band.high < 0) if band else 0


@dataclass(frozen=True, slots=True)
class Calibration:
    """One metric and judge (its name, "counted" for none).

    Attributes:
        responses: by change.
        seconds: mean time of a trial, with the metrics that share its judges.
        starred: whether intervals leave out training noise.
        left_out: images, captions and tasks that were left out of a trial, at most.
        images: how many of each class a trial has, in words; for trials of several sizes the most frequent.
    """

    metric: Metric
    judge: str
    nulls: Nulls
    responses: Mapping[str, Response]
    seconds: float
    starred: bool
    left_out: int
    images: str

    @property
    def response(self) -> Response | None:
        """Response to the (first) direction that it is meant to measure; None where it was given no such doses."""
        return self.responses.get(directions(self.metric)[0])


def directions(metric: Metric) -> tuple[Direction, ...]:
    """What a metric is meant to measure: that captions reveal the attribute (A->T), or how they name it (T->A)."""
    if metric.direction:
        return (metric.direction,)
    if metric.counted and metric.counted.labels is None:
        return ("T->A",)
    # BA counts who is named with what: it has no direction.
    return ("A->T", "T->A") if metric.counted else ("A->T",)


def calibrate(trials: pd.DataFrame) -> list[Calibration]:
    """Each metric and judge of ``trials``, in order of appearance. Values that are not finite are left out."""
    found = []
    trials = trials.replace([np.inf, -np.inf], np.nan)
    for key, rows in trials.groupby(["metric", "judge"], sort=False):
        name, judge = map(str, key)
        metric = find_metric(name)
        plain = rows[rows["change"] == NOTHING].sort_values("draw")
        responses = {}
        for change in [known for known in CHANGES if known in set(rows["change"])]:
            dosed = rows[rows["change"] == change]
            # Draws without any dose that have companions with one.
            both = pd.concat([plain[plain["draw"].isin(dosed["draw"])], dosed])
            responses[change] = _respond(change, both, metric)
        found.append(
            Calibration(
                metric,
                judge,
                _nulls(plain, metric.neutral),
                responses,
                seconds=float(rows["seconds"].mean()),
                starred=bool((rows["basis"] == "these judges").any()),
                left_out=int(rows["left_out"].max()),
                images=rows["images"].mode()[0],
            )
        )
    return found


def _nulls(rows: pd.DataFrame, neutral: float) -> Nulls:
    values, errors, bounds = rows["value"].dropna(), rows["error"].dropna(), rows[["low", "high"]].dropna()
    mean, _ = _mean_and_band(values)
    spread = float(values.std()) if len(values) > 1 else None
    return Nulls(
        len(values),
        mean,
        spread,
        float(errors.mean() / spread) if len(errors) and spread else None,
        TrialShare.among(rows["p"].dropna() < SIGNIFICANT),
        TrialShare.among((bounds["low"] <= neutral) & (neutral <= bounds["high"])),
        TrialShare.among(rows["void"] != ""),
        next(filter(None, rows["void"]), ""),
    )


def _respond(change: str, rows: pd.DataFrame, metric: Metric) -> Response:
    meant = CHANGES[change].moves in directions(metric)
    side = int(meant and (metric.counted is None or metric.counted.directed))
    rows = rows.assign(right=np.sign(rows["value"] - metric.neutral) == side)
    points = []
    for key, drawn in rows.groupby("dose", sort=True):
        dose, tested = float(str(key)), drawn.dropna(subset=["value", "p"])
        rejected = tested["p"] < SIGNIFICANT
        right = TrialShare.among(rejected & tested["right"] if side else rejected) if meant else None
        points.append(Point(dose, *_mean_and_band(drawn["value"]), TrialShare.among(rejected), right))
    strong = takewhile(lambda point: point.dose and point.found and point.found.share >= POWER, reversed(points))
    table = rows.pivot(index="draw", columns="dose", values="value")
    draws = [row.dropna() for _, row in table.iterrows() if row.max() > row.min()]
    ranks = [stats.spearmanr(row.index, row).statistic for row in draws]
    dosed = rows[rows["dose"] > 0].dropna(subset="value")
    return Response(
        change,
        side,
        tuple(points),
        *_mean_and_band(table.iloc[:, -1] - table.iloc[:, 0]),
        float(np.mean(ranks)) if ranks else None,
        float(dosed["right"].mean()) if side and len(dosed) else None,
        min((point.dose for point in strong), default=None),
    )


def _mean_and_band(values: pd.Series[float]) -> tuple[float | None, Interval | None]:
    values = values.dropna()
    if values.empty:
        return None, None
    mean, degrees = float(values.mean()), len(values) - 1
    return mean, t_interval(mean, float(values.std() / np.sqrt(len(values))), degrees, 0.95) if degrees else None
