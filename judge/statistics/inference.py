"""Intervals and tests of judged metrics: for the procedure on another sample of images, judges trained anew.

A judge's score varies with the images that it is tested on, and with those that it was trained on. A bootstrap over
tested images knows the first alone: on real captions without any amplification its 95% intervals of LIC held 0 in 70%
of trials of 900 images, and in 57% of 3,400. What includes training:

- **Refits** (:func:`from_halves`). The test draws which of an image's captions is the generated one, and trains all
  judges again: where nothing is amplified the value is one more such draw, so that
  t = (value - mean of draws) / (sd of draws x sqrt(1 + 1/R)) has R - 1 degrees of freedom, if draws are normal (they
  are sums over hundreds of images). The interval is from halves of the images: two that share none differ by twice the
  standard error of the whole (McCarthy 1969, balanced half-samples; Politis, Romano and Wolf 1999, subsampling), so
  that it is the root of the mean of (difference / 2)^2. It keeps its meaning where sides do differ, as the sd of the
  test need not: of a captioner that names the attribute ten times less often than people, exchanged captions name it
  too often and vary too little. So where halves vary clearly more than exchanges do (F test at 1%), the test too takes
  the error of halves. And judges that learn from all images what they cannot learn from half of them (a network's
  sudden progress) vary more than their halves tell: the standard error is never less than the sd of the test's draws.
- **Splits** (:func:`from_splits`). Without refits, the values of K splits (folds, or hold-outs): their variance is
  corrected for training sets that overlap, by 1/K + tested / trained images (Nadeau and Bengio, Machine Learning 2003).

On the same trials (BENCHMARKS.md, "Trust"; claimed over observed sd, LIC and Leakage of 900 images) pairs of halves
gave 0.99 and 1.06, corrected splits 1.02 and 1.29, a jackknife over 24 groups of images 1.72 and 2.08, and a bootstrap
over tested images 0.74 and 0.91.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from judge.types import FloatArray, Interval

# Halves of the images, where no judge need be trained again on them.
HALVES = 60
# Fewer splits say too little about their own variance.
LEAST_SPLITS = 5
# Significance level of the tests.
SIGNIFICANT = 0.05
# Significance level of the F test whether halves vary more than exchanged captions.
_CLEARLY = 0.01


class Inference(NamedTuple):
    """Error, interval and test of a value; the fields are those of a table's row.

    Attributes:
        standard_error, degrees: standard error of the value, and its degrees of freedom.
        interval: value +- t standard errors.
        p_value: two-sided; None where no test was made.
        chance_level: mean of the value where captions change sides; None where that was not tried.
        critical: how far the value must be from ``chance_level`` (or from what is neutral) for p below 0.05.
    """

    standard_error: float
    degrees: int
    interval: Interval
    p_value: float | None
    chance_level: float | None = None
    critical: float | None = None


class Exchanged(NamedTuple):
    """Values where an image's captions have changed sides: mean, sd, number, and p of a permutation test, if any."""

    mean: float
    sd: float
    draws: int
    p_value: float | None = None

    @classmethod
    def of(cls, draws: npt.ArrayLike, value: float | None = None) -> Self | None:
        """Summarise ``draws``, [R], and test ``value``, if given; None for fewer than two, or infinity."""
        drawn = np.asarray(draws, dtype=np.float64)
        if len(drawn) < 2 or not np.isfinite(drawn).all():
            return None
        p_value = None if value is None else permutation_p(value, drawn)
        return cls(float(drawn.mean()), float(drawn.std(ddof=1)), len(drawn), p_value)


def permutation_p(value: float, draws: FloatArray) -> float:
    """Two-sided p of a permutation test: twice the smaller tail, with the value among the draws, at most 1."""
    # Equal values may differ in the last digits, as sums of the same parts in another order do.
    scale = float(np.abs(draws).max(initial=max(abs(value), 1e-6)))
    drawn, observed = np.round(draws / scale, 9), np.round(value / scale, 9)
    tail = 1 + min(np.count_nonzero(drawn >= observed), np.count_nonzero(drawn <= observed))
    return min(1.0, 2 * tail / (len(draws) + 1))


def from_halves(
    value: float, halves: Sequence[float], exchanged: Exchanged | None = None, *, level: float = 0.95
) -> Inference | None:
    """Inference of ``value`` from the same metric on halves of the images, and on captions that changed sides.

    ``halves`` are two by two of images that have none in common; without ``exchanged`` there is no test. None where
    there are fewer than two pairs of halves, or one has no value (a class that is never named there).
    """
    if len(halves) < 4 or not np.isfinite(halves).all():
        return None
    error, degrees = half_error(halves), len(halves) // 2
    if exchanged is None:
        return Inference(error, degrees, t_interval(value, error, degrees, level), None)
    p_value, critical = _test(value, error, degrees, exchanged)
    error = max(error, exchanged.sd)
    return Inference(error, degrees, t_interval(value, error, degrees, level), p_value, exchanged.mean, critical)


def _test(value: float, error: float, degrees: int, exchanged: Exchanged) -> tuple[float | None, float]:
    """p, and the distance from the exchanges' mean at which it is 0.05; ``error``: that of halves."""
    from scipy import stats

    mean, sd, draws, p_value = exchanged
    if error**2 > stats.f.isf(_CLEARLY, degrees, draws - 1) * sd**2:
        own = math.hypot(error, sd / math.sqrt(draws))
    else:
        own, degrees = sd * math.sqrt(1 + 1 / draws), draws - 1
        if p_value is not None and (p_value > 2 / (draws + 1) or own == 0):
            return p_value, float(stats.norm.isf(SIGNIFICANT / 2)) * sd
    # Also where no permutation is as far: how much less likely than one in them, Holm's correction must know.
    return t_test(value - mean, own, degrees), float(stats.t.isf(SIGNIFICANT / 2, degrees)) * own


def half_error(halves: Sequence[float]) -> float:
    """Standard error of the whole from values of halves, two by two of images that have none in common."""
    first, second = np.reshape(np.asarray(halves, dtype=np.float64), (-1, 2)).T
    return float(np.sqrt(np.mean((first - second) ** 2) / 4))


def split_error(splits: Sequence[float], ratio: float) -> float:
    """Standard error of the mean of splits whose training images overlap; ``ratio``: tested / trained images."""
    return float(np.std(splits, ddof=1)) * math.sqrt(1 / len(splits) + ratio)


def from_splits(
    value: float, splits: Sequence[float], *, ratio: float, neutral: float = 0.0, level: float = 0.95
) -> Inference | None:
    """Inference of ``value`` from its values in single splits: the corrected resampled t.

    ``ratio``: tested images of a split / trained ones; ``neutral``: the value that means no amplification. None where
    there are fewer than five splits, or one has no value.
    """
    if len(splits) < LEAST_SPLITS or not np.isfinite(splits).all():
        return None
    from scipy import stats

    error = split_error(splits, ratio)
    degrees = len(splits) - 1
    interval, p_value = t_interval(value, error, degrees, level), t_test(value - neutral, error, degrees)
    critical = float(stats.t.isf(SIGNIFICANT / 2, degrees)) * error
    return Inference(error, degrees, interval, p_value, critical=critical)


def t_interval(value: float, error: float, degrees: int, level: float) -> Interval:
    """Value +- t standard errors (scipy)."""
    from scipy import stats

    reach = float(stats.t.ppf((1 + level) / 2, degrees)) * error
    return Interval(value - reach, value + reach, level)


def t_test(difference: float, error: float, degrees: int) -> float | None:
    """Two-sided p of a difference from 0 with this standard error; 1 where both are 0, None where the second is."""
    from scipy import stats

    if error == 0:
        return 1.0 if difference == 0 else None
    return float(2 * stats.t.sf(abs(difference) / error, degrees))
