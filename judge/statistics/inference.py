"""Intervals and tests of judged metrics: for the procedure on another sample of images, judges trained anew.

A bootstrap over tested images does not know how judges vary with the images that they are trained on: on real captions
without any amplification its 95% intervals of LIC held 0 in 70% of trials of 900 images, and in 57% of 3,400. The
standard errors here include training.

**One pivot**, t = (value - neutral) / error, serves interval and test: a 95% interval leaves out the value that means
no amplification (0; 1 for ratios) exactly where p is below 0.05.

- **Refits** (:func:`from_halves`) train judges again. Two halves of the images share none, and differ by twice the
  standard error of the whole (McCarthy 1969, balanced half-samples; Politis, Romano and Wolf 1999, subsampling): the
  error is the root of the mean of (difference / 2)^2. Where nothing is amplified, the value is also one more draw of
  captions that changed sides, so that the sd of such draws estimates the same error. Both are pooled by their degrees
  of freedom. The halves' own error counts where it is larger: a captioner that names the attribute ten times less often
  than people names it too often when captions change sides, and varies too little. The exchanges' own counts where it
  is clearly larger (F test at 1%): judges that learn from all images what they cannot learn from half of them vary more
  than their halves tell. The distance of the draws' mean, the chance level, from the neutral value is a bias, whose
  square, less that of its own noise, adds to that of the error.
- **Halves of judges that are given what is known** (conditional leakage). Such judges learn from half of the images
  what they learn from all. Without amplification the value is a product of two chance findings: its variance falls with
  the square of the number of images, and halves give an error sqrt(2) times too large. The more is amplified, the more
  the variance falls with the number itself, and halves are then right. Their error is divided by the geometric mean of
  both, 1.19. Exchanges are not used: their mean is 0 by symmetry, and they know nothing of a captioner whose captions
  tell more on some images than on others.
- **Splits** (:func:`from_splits`). Without refits, the values of K splits (folds of one draw, or hold-outs): their
  variance is corrected for training sets that overlap, by 1/K + tested / trained images (Nadeau and Bengio, Machine
  Learning 2003).

BENCHMARKS.md has the share of p below 0.05 in simulated draws.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from judge.types import Interval

# Halves of the images, where no judge need be trained again on them. A half of many images takes longer: a run of them
# has fewer. With 20 intervals are 7 to 8% wider: of 8,000 simulated values without amplification p was below 0.05 in
# 3.3% (with exchanges) and 4.9% (halves alone), with 60 in 3.7% and 5.1%.
HALVES, HALVES_OF_MANY, MANY = 60, 20, 20_000
# Draws of captions that change sides, where no judge need be trained on them: their mean is the chance level. Of 8,000
# simulated values without amplification, each with 20 halves, p was below 0.05 in 3.2% with 400 draws and in 3.3% with
# 100, whose intervals were 0.3% wider.
CHANCE_DRAWS, CHANCE_DRAWS_OF_MANY = 400, 100
# Fewer splits say too little about their own variance.
LEAST_SPLITS = 5
# Values that differ by a smaller share are equal.
_ROUNDING = 1e-12
# Significance level of the tests, and the power by which they are described.
SIGNIFICANT, POWER = 0.05, 0.8
# The geometric mean of sqrt(2) and 1, for judges that are given what is known. docs/trust.md and docs/demo.md have
# trials.
_GIVEN = 2**0.25
# Significance level of the F test whether exchanged captions vary more than halves.
_CLEARLY = 0.01


def halves_of(images: int) -> int:
    """How many halves of the images tell the standard error of a metric whose judges need not be trained on them."""
    return HALVES_OF_MANY if images >= MANY else HALVES


def chance_draws_of(images: int) -> int:
    """How many draws of captions that change sides tell the chance level of such a metric."""
    return CHANCE_DRAWS_OF_MANY if images >= MANY else CHANCE_DRAWS


class Inference(NamedTuple):
    """Error, its degrees of freedom, interval and two-sided p of a value.

    ``chance_level``: mean of the value where captions change sides; None where that was not tried.
    """

    standard_error: float
    degrees: int
    interval: Interval
    p_value: float
    chance_level: float | None = None


class Exchanged(NamedTuple):
    """Values where an image's captions have changed sides: mean, sd and number."""

    mean: float
    sd: float
    draws: int

    @classmethod
    def of(cls, draws: npt.ArrayLike) -> Self | None:
        """Summarise ``draws``, [R]; None for fewer than two, or infinity."""
        drawn = np.asarray(draws, dtype=np.float64)
        if len(drawn) < 2 or not np.isfinite(drawn).all():
            return None
        return cls(float(drawn.mean()), float(drawn.std(ddof=1)), len(drawn))


def from_halves(
    value: float,
    halves: Sequence[float],
    exchanged: Exchanged | None = None,
    *,
    neutral: float = 0.0,
    level: float = 0.95,
    given: bool = False,
) -> Inference | None:
    """Inference of ``value`` from the same metric on halves of the images, and on captions that changed sides.

    ``halves`` are two by two of images that have none in common; ``given``: whether judges are given what is known.
    None where there are fewer than two pairs of halves, one has no value (a class that is never named there), or
    nothing varies but the value is not ``neutral``.
    """
    if len(halves) < 4 or not np.isfinite(halves).all():
        return None
    error, degrees = half_error(halves) / (_GIVEN if given else 1), len(halves) // 2
    if exchanged:
        error, degrees = _pool(error, degrees, exchanged, neutral)
    found = _infer(value, error, degrees, neutral, level)
    return found._replace(chance_level=exchanged.mean) if found and exchanged else found


def _pool(error: float, degrees: int, exchanged: Exchanged, neutral: float) -> tuple[float, int]:
    """Error and degrees of freedom of halves and exchanges together; ``error``, ``degrees``: those of halves."""
    from scipy import stats

    mean, sd, draws = exchanged
    halves, drawn, more = error**2, sd**2, draws - 1
    pooled = (degrees * halves + more * drawn) / (degrees + more)
    if drawn > stats.f.isf(_CLEARLY, more, degrees) * halves:
        variance, degrees = drawn, more
    elif halves > pooled:
        variance = halves
    else:
        variance, degrees = pooled, degrees + more
    bias = max(0.0, (mean - neutral) ** 2 - drawn / draws)
    return math.sqrt(variance + bias), degrees


def _infer(value: float, error: float, degrees: int, neutral: float, level: float) -> Inference | None:
    p_value = t_test(value - neutral, error, degrees)
    return None if p_value is None else Inference(error, degrees, t_interval(value, error, degrees, level), p_value)


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
    there are fewer than five splits, one has no value, or nothing varies but the value is not neutral.
    """
    if len(splits) < LEAST_SPLITS or not np.isfinite(splits).all():
        return None
    if np.ptp(splits) <= _ROUNDING * max(1.0, float(np.abs(splits).max())):
        splits = [splits[0]] * len(splits)  # They differ by rounding alone.
    return _infer(value, split_error(splits, ratio), len(splits) - 1, neutral, level)


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


def smallest_detectable(error: float, degrees: int) -> float:
    """The smallest difference that a t test finds with 80% power."""
    from scipy import stats

    return float(stats.t.isf(SIGNIFICANT / 2, degrees) + stats.t.ppf(POWER, degrees)) * error
