"""How a metric answers to known doses, and to nothing: arithmetic on the trials of ``judge calibrate``.

A trial is one corpus whose true amplification is known, measured by one metric and judge: a row of

| column | |
| --- | --- |
| change, dose | of the generated side (:mod:`judge.calibration.inject`); a dose of 0 has the change "none" |
| draw | which images, and which people's captions, are drawn |
| metric, judge | what measured |
| value, error, low, high, p | amplification, its standard error, 95% interval and p; NaN where there is none |
| seconds | of the metrics that share their judges with this one |
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd

from judge.calibration.inject import CHANGES
from judge.metrics import Metric, find_metric
from judge.statistics.comparisons import POWER
from judge.statistics.inference import SIGNIFICANT
from judge.types import Direction, FloatArray, Interval

NOTHING = "none"
Key = tuple[str, float, str, str]
"""(change, dose, metric, judge)."""


class Share(NamedTuple):
    """A share of ``trials``, in [0, 1], and the exact 95% interval of the probability (Clopper and Pearson 1934)."""

    value: float
    trials: int
    interval: Interval

    @classmethod
    def among(cls, happened: Sequence[bool]) -> Share | None:
        """Of trials; None of no trial."""
        from scipy.stats import binomtest

        if not len(happened):
            return None
        count = int(np.sum(happened))
        low, high = binomtest(count, len(happened)).proportion_ci(0.95, method="exact")
        return cls(count / len(happened), len(happened), Interval(float(low), float(high)))


@dataclass(frozen=True, slots=True)
class Nulls:
    """What a metric says where nothing is amplified: people's captions against people's.

    Attributes:
        draws: how many.
        mean, sd: of the values.
        claimed: mean standard error over ``sd``: 1 where errors say what they should; None without errors.
        rejected: draws with p below 0.05; None without p.
        held: draws whose 95% interval holds the neutral value; None without intervals.
    """

    draws: int
    mean: float
    sd: float
    claimed: float | None
    rejected: Share | None
    held: Share | None


@dataclass(frozen=True, slots=True)
class Point:
    """Draws at one dose.

    Attributes:
        dose: in [0, 1].
        mean: of the values.
        band: 95% t-interval of the mean; None of one draw.
        rejected: draws with p below 0.05; None without p.
        large: the value on a large sample, by a judge close to the Bayes judge; None where it was not measured.
    """

    dose: float
    mean: float
    band: Interval | None
    rejected: Share | None
    large: float | None


@dataclass(frozen=True, slots=True)
class Response:
    """How a metric answers to doses of one change.

    Attributes:
        change: a key of :data:`~judge.calibration.inject.CHANGES`.
        points: by dose, that of nothing first.
        spearman: rank correlation of dose and value over draws; None where values do not vary.
        right_sign: draws of any dose whose value is on the side of neutral where it should be: above it, for metrics of
            amplification; for others (Ratio) where the large sample is. None where that is not known.
        found_from: the least dose from which on 80% of the draws have p below 0.05; None if there is none.
    """

    change: str
    points: tuple[Point, ...]
    spearman: float | None
    right_sign: Share | None
    found_from: float | None

    @property
    def shift(self) -> float:
        """Mean at the largest dose less the mean without any."""
        return self.points[-1].mean - self.points[0].mean


@dataclass(frozen=True, slots=True)
class Calibration:
    """One metric and judge.

    Attributes:
        metric: the row.
        judge: its name, "counted" for none.
        own: the direction that it is meant to measure.
        nulls: where nothing is amplified.
        responses: by change.
        seconds: mean time of a trial, with the metrics that share its judges.
    """

    metric: Metric
    judge: str
    own: Direction
    nulls: Nulls
    responses: Mapping[str, Response]
    seconds: float

    @property
    def response(self) -> Response | None:
        """To doses of its own direction; None where none was given."""
        return self.responses.get(self.own)

    @property
    def crosstalk(self) -> dict[str, float]:
        """Change -> its shift over that of the own direction, of the changes that should not move the metric."""
        own = self.response
        if own is None or not own.shift:
            return {}
        return {name: of.shift / own.shift for name, of in self.responses.items() if name != self.own}


def own_direction(metric: Metric) -> Direction:
    """What a metric is meant to measure: how captions reveal the attribute (A->T), or name it (T->A)."""
    if metric.direction:
        return metric.direction
    return "T->A" if metric.counted and metric.counted.labels is None else "A->T"


def calibrate(trials: pd.DataFrame, large: pd.DataFrame) -> list[Calibration]:
    """Each metric and judge of ``trials``, in order of appearance.

    Args:
        trials: see above.
        large: change, dose, metric, judge, value: one row for each dose that was measured on a large sample.
    """
    keys = large[["change", "dose", "metric", "judge"]].itertuples(index=False, name=None)
    known = dict(zip(keys, large["value"].tolist(), strict=True))
    return [
        _calibrate(find_metric(str(metric)), str(judge), rows, known)
        for (metric, judge), rows in trials.groupby(["metric", "judge"], sort=False)
    ]


def _calibrate(metric: Metric, judge: str, rows: pd.DataFrame, large: Mapping[Key, float]) -> Calibration:
    plain = rows[rows["change"] == NOTHING].sort_values("draw")
    responses = {}
    for change in [name for name in CHANGES if name in set(rows["change"])]:
        mine = rows[rows["change"] == change]
        # Draws without any dose that have companions with one.
        start = plain[plain["draw"].isin(mine["draw"])]
        known = {dose: large.get((change, dose, metric.name, judge)) for dose in mine["dose"].unique().tolist()}
        responses[change] = _respond(change, pd.concat([start, mine]), metric, known)
    nulls, seconds = _nulls(plain, metric.neutral), float(rows["seconds"].mean())
    return Calibration(metric, judge, own_direction(metric), nulls, responses, seconds)


def _nulls(rows: pd.DataFrame, neutral: float) -> Nulls:
    values, errors = rows["value"].dropna(), rows["error"].dropna()
    spread = float(values.std(ddof=1))
    return Nulls(
        len(values),
        float(values.mean()),
        spread,
        float(errors.mean() / spread) if len(errors) and spread else None,
        _rejected(rows),
        Share.among([low <= neutral <= high for low, high in rows[["low", "high"]].dropna().itertuples(index=False)]),
    )


def _rejected(rows: pd.DataFrame) -> Share | None:
    return Share.among((rows["p"].dropna() < SIGNIFICANT).tolist())


def _respond(change: str, rows: pd.DataFrame, metric: Metric, large: Mapping[float, float | None]) -> Response:
    from scipy.stats import spearmanr

    rows = rows.dropna(subset="value")
    doses, values = (rows[name].to_numpy(dtype=np.float64) for name in ("dose", "value"))
    points = tuple(_point(dose, rows[doses == dose], large.get(dose)) for dose in np.unique(doses).tolist())
    sides = {point.dose: _side(change, metric, point.large) for point in points if point.dose}
    right = [
        bool(np.sign(value - metric.neutral) == sides[dose])
        for dose, value in zip(doses.tolist(), values.tolist(), strict=True)
        if sides.get(dose)
    ]
    spearman = float(spearmanr(doses, values).statistic) if np.ptp(values) else None
    return Response(change, points, spearman, Share.among(right), _found_from(points))


def _side(change: str, metric: Metric, large: float | None) -> int:
    """Where a dose should move a metric: 1, -1, or 0 where it should not, or that is not known."""
    if CHANGES[change].moves != own_direction(metric):
        return 0
    if metric.verdicts[0] == "amplifies":
        return 1
    return 0 if large is None else int(np.sign(large - metric.neutral))


def _point(dose: float, rows: pd.DataFrame, large: float | None) -> Point:
    from scipy import stats

    values: FloatArray = rows["value"].to_numpy(dtype=np.float64)
    mean = float(values.mean())
    band = None
    if len(values) > 1:
        reach = float(stats.t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values)))
        band = Interval(mean - reach, mean + reach)
    return Point(dose, mean, band, _rejected(rows), large)


def _found_from(points: Sequence[Point]) -> float | None:
    found = None
    for point in reversed(points):
        if not (point.dose and point.rejected and point.rejected.value >= POWER):
            break
        found = point.dose
    return found
