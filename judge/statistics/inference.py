"""Intervals and tests of judged metrics: for the procedure on another sample of images, judges trained anew.

A judge's score varies with the images that it is tested on, and with those that it was trained on. A bootstrap over
tested images knows the first alone: on real captions without any amplification its 95% intervals of LIC held 0 in 70%
of trials of 900 images, and in 57% of 3,400. What includes training:

- **Refits** (:func:`from_refits`). The test draws which of an image's captions is the generated one, and trains all
  judges again: where nothing is amplified the value is one more such draw, so that
  t = (value - mean of draws) / (sd of draws x sqrt(1 + 1/R)) has R - 1 degrees of freedom, if draws are normal (they
  are sums over hundreds of images). The interval is from halves of the images: two that share none differ by twice the
  standard error of the whole (McCarthy 1969, balanced half-samples; Politis, Romano and Wolf 1999, subsampling), so
  that it is the root of the mean of (difference / 2)^2. It keeps its meaning where sides do differ, as the sd of the
  test need not. But judges that learn from all images what they cannot learn from half of them (a network's sudden
  progress) vary more than their halves tell: the standard error is never less than the sd of the test's draws.
- **Splits** (:func:`from_splits`). Without refits, the values of K splits (folds, or hold-outs): their variance is
  corrected for training sets that overlap, by 1/K + tested / trained images (Nadeau and Bengio, Machine Learning 2003).

Tried on the same trials (BENCHMARKS.md, "Trust"; standard error claimed over sd seen, LIC and Leakage of 900 images):
pairs of halves 0.99 and 1.06, sd over single halves 1.22 and 1.32 (the noise of drawing folds counts twice), corrected
splits 1.02 and 1.29, a jackknife over 24 groups of images 1.72 and 2.08 (scores jump where a guess changes, and a
jackknife multiplies such jumps; an infinitesimal jackknife has no derivative to take there), a bootstrap over tested
images 0.74 and 0.91. A bootstrap of images with judges trained again, copies kept together, was 1.36 for LIC in the
review that asked for this, and costs twice as much as halves.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from judge.types import Interval

# Halves of the images, where no judge need be trained again on them.
HALVES = 60
# Fewer splits say too little about their own variance.
LEAST_SPLITS = 5


@dataclass(frozen=True, slots=True)
class Inference:
    """What is known about a value beside it.

    Attributes:
        standard_error: of the value.
        degrees: of freedom of that standard error.
        interval: value +- t standard errors.
        p_value: two-sided; None where no test was made.
        by_chance: mean of the value where captions change sides; None where that was not tried.
    """

    standard_error: float
    degrees: int
    interval: Interval
    p_value: float | None
    by_chance: float | None = None


def from_refits(
    value: float, halves: Sequence[float], exchanged: Sequence[float] = (), *, level: float = 0.95
) -> Inference | None:
    """Inference of ``value`` from the same metric on halves of the images, and on captions that changed sides.

    None where there are fewer than two pairs of halves, or no kind has a value in all draws. No p without two exchanges
    or more that all have a value; where a half has none (a class that it never names), exchanges alone tell the error.

    Args:
        value: of the run's own data.
        halves: two by two of images that have none in common.
        exchanged: on draws of which caption is the generated one.
        level: of the interval.
    """
    if len(halves) < 4:
        return None
    degrees = len(halves) // 2
    p_value = by_chance = spread = None
    if len(exchanged) > 1 and np.isfinite(exchanged).all():
        by_chance, spread = float(np.mean(exchanged)), float(np.std(exchanged, ddof=1))
        p_value = t_test(value - by_chance, spread * math.sqrt(1 + 1 / len(exchanged)), len(exchanged) - 1)
    error = larger_error(halves, spread)
    if error is None:
        return None
    return Inference(error, degrees, t_interval(value, error, degrees, level), p_value, by_chance)


def larger_error(halves: Sequence[float], spread: float | None) -> float | None:
    """The standard error: by halves, and no less than the sd of exchanges; of the two, what is known."""
    known = [half_error(halves)] if np.isfinite(halves).all() else []
    return max([*known, *([] if spread is None else [spread])], default=None)


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

    None where there are fewer than five splits, or one has no value.

    Args:
        value: of all splits together.
        splits: of each.
        ratio: tested images of a split / trained ones.
        neutral: the value that means no amplification.
        level: of the interval.
    """
    if len(splits) < LEAST_SPLITS or not np.isfinite(splits).all():
        return None
    error = split_error(splits, ratio)
    degrees = len(splits) - 1
    return Inference(error, degrees, t_interval(value, error, degrees, level), t_test(value - neutral, error, degrees))


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
