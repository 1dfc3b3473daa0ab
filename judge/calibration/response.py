"""Response of metrics to known doses, from the trials of ``judge calibrate``.

A trial is one corpus whose dose of bias is known, measured by one metric and judge: a row of

| column | |
| --- | --- |
| change, dose | of the generated side (:mod:`judge.calibration.doses`); a dose of 0 has the change "none" |
| draw | number of the draw of images and human captions |
| metric, judge | what measured |
| masks | the detector whose masks hid people in drawn scenes ("gt", "yolo"), "none", or "" for human captions |
| value, error, low, high, p | amplification, its standard error, 95% interval and p; NaN where there is none |
| basis | what the interval is from: :data:`~judge.statistics.summary.Basis` |
| void | why the trial has no verdict; "" where nothing voids it |
| left_out | images, captions and tasks of the trial that were left out |
| images | how many of each class, in words |
| seconds | of the metrics that share their judges with this one |
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import NamedTuple

import numpy as np
import pandas as pd

from judge.calibration.doses import CHANGES, NOTHING
from judge.metrics import Metric, find_metric
from judge.statistics.comparisons import POWER
from judge.statistics.inference import SIGNIFICANT
from judge.types import Direction, FloatArray, Interval

Key = tuple[str, float, str, str, str]
"""(change, dose, metric, judge, masks)."""


class TrialShare(NamedTuple):
    """A share of independent ``trials``, in [0, 1], and its exact 95% interval (Clopper and Pearson 1934)."""

    share: float
    trials: int
    ci: Interval

    @classmethod
    def among(cls, happened: pd.Series[bool]) -> TrialShare | None:
        """The share of trials in which it happened; None without trials."""
        from scipy.stats import binomtest

        if not len(happened):
            return None
        count = int(np.sum(happened))
        low, high = binomtest(count, len(happened)).proportion_ci(0.95, method="exact")
        return cls(count / len(happened), len(happened), Interval(float(low), float(high)))


@dataclass(frozen=True, slots=True)
class Nulls:
    """A metric where nothing is amplified: human captions against human captions.

    Attributes:
        draws: how many have a value.
        mean, sd: of the values; None for too few.
        claimed: mean standard error over ``sd``, which should be 1; None without errors.
        rejected: draws with p below 0.05, false positives; None without p.
        held: draws whose 95% interval includes no amplification (coverage); None without intervals.
        void: draws without a verdict, because the run's own checks void them.
        reason: why the first of these has no verdict; "" if all have one.
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
    """Draws at one dose.

    Attributes:
        dose: in [0, 1].
        mean: of the values; None where no draw has one.
        band: 95% t-interval of the mean; None for fewer than two draws.
        rejected: draws with p below 0.05, whatever their sign; None without p.
        found: draws with p below 0.05 that moved the way the dose should move the metric; None without p or such a way.
        worth: how far the dose moves the metric on all images; None where that was not measured.
    """

    dose: float
    mean: float | None
    band: Interval | None
    rejected: TrialShare | None
    found: TrialShare | None
    worth: float | None


@dataclass(frozen=True, slots=True)
class Response:
    """Response of a metric to doses of one change.

    Attributes:
        change: a key of :data:`~judge.calibration.doses.CHANGES`.
        side: which way doses should move the metric, 1 or -1; 0 where they should not, or that is not known.
        points: by dose, that of 0 first.
        shift: mean rise at the largest dose over the same draw without any; None without such a pair.
        shift_band: its 95% t-interval; None for fewer than two pairs.
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
        if self.shift_band is None:
            return 0
        return int(self.shift_band.low > 0) - int(self.shift_band.high < 0)


@dataclass(frozen=True, slots=True)
class Calibration:
    """One metric and judge.

    Attributes:
        metric: the row.
        judge: its name, "counted" for none.
        masks: see the module.
        nulls: where nothing is amplified.
        responses: by change.
        seconds: mean time of a trial, with the metrics that share its judges.
        starred: whether intervals leave out training noise.
        left_out: images, captions and tasks that were left out of a trial, at most.
        images: how many of each class a trial has, in words; for trials of several sizes the most frequent.
    """

    metric: Metric
    judge: str
    masks: str
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
    if metric.counted:
        # BA counts who is named with what: it has no direction.
        return ("T->A",) if metric.counted.labels is None else ("A->T", "T->A")
    return ("A->T",)


def calibrate(trials: pd.DataFrame, worth: Mapping[Key, float]) -> list[Calibration]:
    """Each metric, judge and masks of ``trials``, in order of appearance. Values that are not finite are left out.

    Args:
        trials: see the module.
        worth: how far each dose moves the metric on all images, of the doses for which that was measured.
    """
    found = []
    trials = trials.replace([np.inf, -np.inf], np.nan)
    for key, rows in trials.groupby(["metric", "judge", "masks"], sort=False):
        name, judge, masks = map(str, key)
        metric = find_metric(name)
        plain = rows[rows["change"] == NOTHING].sort_values("draw")
        responses = {}
        for change in [known for known in CHANGES if known in set(rows["change"])]:
            dosed = rows[rows["change"] == change]
            # Draws without any dose that have companions with one.
            both = pd.concat([plain[plain["draw"].isin(dosed["draw"])], dosed])
            of_dose = {dose: worth.get((change, dose, metric.name, judge, masks)) for dose in dosed["dose"]}
            responses[change] = _respond(change, both, metric, of_dose)
        found.append(
            Calibration(
                metric,
                judge,
                masks,
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
    values, errors = (rows[name].dropna().to_numpy(dtype=np.float64) for name in ("value", "error"))
    spread = float(values.std(ddof=1)) if len(values) > 1 else None
    bounds = rows[["low", "high"]].dropna()
    return Nulls(
        len(values),
        _mean(values),
        spread,
        float(errors.mean() / spread) if len(errors) and spread else None,
        TrialShare.among(rows["p"].dropna() < SIGNIFICANT),
        TrialShare.among((bounds["low"] <= neutral) & (neutral <= bounds["high"])),
        TrialShare.among(rows["void"] != ""),
        next(filter(None, rows["void"]), ""),
    )


def _respond(change: str, rows: pd.DataFrame, metric: Metric, worth: Mapping[float, float | None]) -> Response:
    from scipy.stats import spearmanr

    side = 0
    if CHANGES[change].moves in directions(metric):
        # Up, if the metric is one of amplification; others (Ratio) as on all images.
        side = 1 if metric.verdicts[0] != "higher" else int(np.sign(worth[max(worth)] or 0))
    points = tuple(
        _point(float(str(dose)), of, metric.neutral, side, worth) for dose, of in rows.groupby("dose", sort=True)
    )
    table = rows.pivot(index="draw", columns="dose", values="value")
    rises = (table.iloc[:, -1] - table.iloc[:, 0]).dropna().to_numpy(dtype=np.float64)
    dosed = rows.loc[rows["dose"] > 0, "value"].dropna().to_numpy(dtype=np.float64)
    draws = [row.dropna() for _, row in table.iterrows() if row.max() > row.min()]
    ranks = [spearmanr(row.index.to_numpy(dtype=np.float64), row.to_numpy()).statistic for row in draws]
    return Response(
        change,
        side,
        points,
        _mean(rises),
        _band(rises),
        _mean(np.array(ranks)),
        float(np.mean(np.sign(dosed - metric.neutral) == side)) if side and len(dosed) else None,
        _found_from(points),
    )


def _point(dose: float, rows: pd.DataFrame, neutral: float, side: int, worth: Mapping[float, float | None]) -> Point:
    values: FloatArray = rows["value"].dropna().to_numpy(dtype=np.float64)
    tested = rows.dropna(subset=["value", "p"])
    rejected = tested["p"] < SIGNIFICANT
    found = TrialShare.among(rejected & (np.sign(tested["value"] - neutral) == side)) if side else None
    return Point(dose, _mean(values), _band(values), TrialShare.among(rejected), found, worth.get(dose))


def _mean(values: FloatArray) -> float | None:
    return float(values.mean()) if len(values) else None


def _band(values: FloatArray) -> Interval | None:
    """95% t-interval of a mean."""
    from scipy import stats

    if len(values) < 2:
        return None
    reach = float(stats.t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values)))
    return Interval(float(values.mean()) - reach, float(values.mean()) + reach)


def _found_from(points: Sequence[Point]) -> float | None:
    dosed = [point for point in reversed(points) if point.dose]
    found = takewhile(lambda point: point.found is not None and point.found.share >= POWER, dosed)
    return min((point.dose for point in found), default=None)
