"""Shares of captions, with intervals that know which captions are of one image, and differences between captioners.

One caption an image: the exact interval (Clopper and Pearson 1934) and McNemar's exact test. Several: captions of one
image are alike, so that the interval is Clopper and Pearson's of as many independent captions as are worth these (Korn
and Graubard, Survey Methodology 1998), and the test turns the signs of images' differences. Images are all as heavy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from judge.types import FloatArray, Interval

# All sign changes of 13 images; of more as many at random.
_RESAMPLES = 9999


@dataclass(frozen=True, slots=True)
class Share:
    """A share of captions.

    Attributes:
        value: in [0, 1]: mean over images of the share among an image's captions; NaN without captions.
        interval: see the module; None without captions, or for several captions of a single image.
        images: that have captions which count.
        captions: that count.
        exact: whether each image has one caption.
    """

    value: float
    interval: Interval | None
    images: int
    captions: int
    exact: bool


def measure_share(
    hits: Sequence[int], among: Sequence[int], sizes: Sequence[int] | None = None, *, level: float = 0.95
) -> Share:
    """The share of ``hits`` among the captions that count.

    Args:
        hits: captions of each image that have the property, [N].
        among: captions of each image that count, [N]; those of an image may be none.
        sizes: captions of each image in all, [N], which its weight is divided by; ``among`` where all count.
        level: of the interval.
    """
    whole = np.asarray(among, dtype=np.float64)
    weights = whole if sizes is None else np.asarray(sizes, dtype=np.float64)
    kept = whole > 0
    x, t = np.asarray(hits, dtype=np.float64)[kept] / weights[kept], whole[kept] / weights[kept]
    images, captions, exact = int(kept.sum()), int(whole.sum()), bool((weights <= 1).all())
    if not images:
        return Share(math.nan, None, 0, 0, exact)
    value = float(x.sum() / t.sum())
    if exact:
        return Share(value, _exact(value * captions, captions, level), images, captions, exact)
    if images < 2:
        return Share(value, None, images, captions, exact)
    return Share(value, _clustered(x, t, captions, level), images, captions, exact)


def _clustered(x: FloatArray, t: FloatArray, captions: int, level: float) -> Interval:
    """Of images' parts of a ratio, [N] each: the exact interval of the effective number of captions."""
    images, value = len(x), float(x.sum() / t.sum())
    variance = images / (images - 1) * float(((x - value * t) ** 2).sum()) / float(t.sum()) ** 2
    return effective_interval(value, variance, images=images, most=captions, level=level)


def effective_interval(value: float, variance: float, *, images: int, most: int, level: float) -> Interval:
    """The exact interval of a share, of as many independent draws as its variance says (Korn and Graubard 1998).

    Args:
        value: the share, in [0, 1].
        variance: of it, over samples of images; not looked at where the share is 0 or 1.
        images: that it was estimated from, 2 or more.
        most: draws that it is worth at most, such as captions; as many as images, or more.
        level: of the interval.
    """
    from scipy import stats

    binomial = value * (1 - value)
    # Where all captions agree nothing tells how alike those of an image are: then an image is worth one.
    worth = images if binomial <= 1e-12 else min(most, binomial / variance if variance > 0 else math.inf)
    tail = (1 - level) / 2
    worth *= (stats.t.isf(tail, most - 1) / stats.t.isf(tail, images - 1)) ** 2
    return _exact(value * worth, worth, level)


def _exact(hits: float, trials: float, level: float) -> Interval:
    """Clopper and Pearson's interval; ``hits`` and ``trials`` need not be whole."""
    from scipy import stats

    tail = (1 - level) / 2
    low = float(stats.beta.ppf(tail, hits, trials - hits + 1)) if hits > 1e-9 else 0.0
    high = float(stats.beta.isf(tail, hits + 1, trials - hits)) if trials - hits > 1e-9 else 1.0
    return Interval(low, high, level)


@dataclass(frozen=True, slots=True)
class ShareDifference:
    """One captioner's share less another's, on the images that both captioned.

    Attributes:
        first, second: the captioners.
        images: that both have captions of.
        value: the difference, in [-1, 1].
        interval: Bonett and Price's (2012).
        p_value: two-sided; McNemar's exact test, or of sign changes where images have several captions.
        p_holm: corrected for all differences of a table.
    """

    first: str
    second: str
    images: int
    value: float
    interval: Interval
    p_value: float
    p_holm: float | None = None


def paired_difference(
    names: tuple[str, str], gaps: Sequence[float], *, generator: np.random.Generator, level: float = 0.95
) -> ShareDifference:
    """The difference of two captioners' shares on the same images.

    Args:
        names: of both.
        gaps: of each image, the first's share among its captions less the second's, [N >= 1].
        generator: of sign changes, where images have several captions.
        level: of the interval.
    """
    from scipy import stats

    each = np.asarray(gaps, dtype=np.float64)
    if np.isin(each, (-1, 0, 1)).all():
        above, below = int((each > 0).sum()), int((each < 0).sum())
        p_value = float(stats.binomtest(above, above + below).pvalue) if above + below else 1.0
    else:
        p_value = _sign_changes(each[each != 0], generator)
    return ShareDifference(*names, len(each), float(each.mean()), paired_interval(each, level), p_value)


def paired_interval(gaps: FloatArray, level: float = 0.95) -> Interval:
    """Interval of the mean of images' differences, [N] in [-1, 1].

    The plain one with two images added, one in favour of each captioner (Bonett and Price, Journal of Educational and
    Behavioral Statistics 2012): it is of use where few images differ, or none.
    """
    from scipy import stats

    added = np.append(gaps, [1.0, -1.0])
    centre, reach = float(added.mean()), float(stats.norm.isf((1 - level) / 2) * added.std() / math.sqrt(len(added)))
    return Interval(max(-1.0, centre - reach), min(1.0, centre + reach), level)


def _sign_changes(gaps: FloatArray, generator: np.random.Generator) -> float:
    """Two-sided p of the sum of images' differences, none of them 0, if each might as well have the other sign."""
    from scipy import stats

    if len(gaps) < 2:
        return 1.0  # One sign tells nothing, and scipy wants two.
    found = stats.permutation_test(
        (gaps,),
        lambda values, axis: values.sum(axis=axis),
        permutation_type="samples",
        vectorized=True,
        n_resamples=_RESAMPLES,
        rng=generator,
    )
    return float(found.pvalue)
