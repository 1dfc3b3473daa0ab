"""How often the intervals of ``judge anonymous`` hold a truth that is known, by simulation.

    python scripts/bench_agreement.py shares
    python scripts/bench_agreement.py correlations

``shares``: of 50 images with three captions each. ``correlations``: of few captioners, over normal and lognormal
values. One line a case, in per cent. Figures: docs/guides/anonymous.md.
"""

from __future__ import annotations

import math
from itertools import product
from typing import Annotated

import numpy as np
import typer

from judge.statistics.consistency import spearman_interval
from judge.statistics.naming import caption_share
from judge.types import FloatArray, Interval

CORRELATIONS = 0.0, 0.5, 0.8, 0.95
Z = 1.959963984540054

app = typer.Typer(add_completion=False, help=__doc__)
Trials = Annotated[int, typer.Option(min=1, help="trials of each case")]


@app.command()
def shares(trials: Trials = 3000) -> None:
    """Shares of captions that name a class; captions of an image independent, or with a correlation of 0.4."""
    rng = np.random.default_rng(0)
    print("share  correlation  holds it")
    for share, alike in product((0.05, 0.2, 0.5), (0.0, 0.4)):
        scale = 1 / alike - 1 if alike else 0.0
        of_image = rng.beta(share * scale, (1 - share) * scale, (trials, 50)) if alike else share
        hits = rng.binomial(3, of_image, (trials, 50))
        held = np.mean([holds(caption_share(row, [3] * 50).interval, share) for row in hits.tolist()])
        print(f"{share:5.2f}  {alike:11.1f}  {held:8.1%}")


@app.command()
def correlations(trials: Trials = 100_000) -> None:
    """Pearson's by Fisher, Spearman's by Bonett and Wright."""
    print("captioners  correlation  Pearson, normal  Pearson, lognormal  Spearman")
    for count, correlation in product((4, 5, 9), CORRELATIONS):
        normal = pairs_of(count, correlation, trials)
        # Whose exponentials have this correlation.
        skewed = np.exp(pairs_of(count, math.log1p(correlation * math.expm1(1)), trials))
        values = [fisher_holds(drawn, correlation) for drawn in (normal, skewed)]
        line = f"{count:10d}  {correlation:11.2f}  {values[0]:15.1%}  {values[1]:18.1%}"
        print(f"{line}  {ranks_hold(normal, correlation):8.1%}")


def pairs_of(count: int, correlation: float, trials: int) -> FloatArray:
    """[trials, 2, count], bivariate normal."""
    drawn = np.random.default_rng(count).standard_normal((trials, 2, count))
    drawn[:, 1] = correlation * drawn[:, 0] + math.sqrt(1 - correlation**2) * drawn[:, 1]
    return drawn


def pearsons(drawn: FloatArray) -> FloatArray:
    """[trials, 2, count] -> [trials]."""
    centred = drawn - drawn.mean(axis=2, keepdims=True)
    return np.asarray((centred[:, 0] * centred[:, 1]).sum(axis=1) / np.sqrt((centred**2).sum(axis=2).prod(axis=1)))


def fisher_holds(drawn: FloatArray, truth: float) -> float:
    """Share of Fisher's intervals (those of scipy) that hold ``truth``."""
    gaps = np.abs(np.arctanh(pearsons(drawn)) - math.atanh(truth))
    return float((gaps <= Z / math.sqrt(drawn.shape[2] - 3)).mean())


def ranks_hold(drawn: FloatArray, correlation: float) -> float:
    """Share of intervals that hold Spearman's 6 / pi asin(correlation / 2)."""
    truth = 6 / math.pi * math.asin(correlation / 2)
    ranks = np.round(pearsons(drawn.argsort(axis=2).argsort(axis=2).astype(np.float64)), 12)
    values, counts = np.unique(ranks, return_counts=True)
    held = [holds(spearman_interval(float(value), drawn.shape[2]), truth) for value in values]
    return float(np.average(held, weights=counts))


def holds(interval: Interval | None, truth: float) -> bool:
    """Whether there is an interval that holds ``truth``."""
    return interval is not None and interval.low <= truth <= interval.high


if __name__ == "__main__":
    app()
