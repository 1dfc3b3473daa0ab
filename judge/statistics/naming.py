"""How often captions name an attribute that cannot be seen, by a lexicon.

AnonymousBench (Abdelrahman et al., AAAI 2024, section 5.5.1) has images in which nobody can tell the attribute; its
score is the share of captions from which a human can guess it.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from judge.types import Interval

Mentions = Mapping[str, Sequence[frozenset[str]]]
"""Image id -> the classes that each of its captions names, one caption or more."""


@dataclass(frozen=True, slots=True)
class CaptionShare:
    """A share of captions, in [0, 1], NaN without captions; and the number of images and captions that count.

    ``interval`` is None without captions, or for several captions of a single image.
    """

    value: float
    interval: Interval | None
    images: int
    captions: int


def caption_share(
    hits: Sequence[int], among: Sequence[int], sizes: Sequence[int] | None = None, *, level: float = 0.95
) -> CaptionShare:
    """The share of ``hits`` among the captions that count, by image, [N] each; all images weigh the same.

    The interval is Clopper and Pearson's (1934); where images have several captions, that of as many independent ones
    as these are worth (Korn and Graubard, Survey Methodology 1998). An image's weight is divided by all its captions
    (``sizes``; None where all count).
    """
    from scipy import stats

    counted = np.asarray(among, dtype=np.float64)
    weights = counted if sizes is None else np.asarray(sizes, dtype=np.float64)
    kept = counted > 0
    images, captions = int(kept.sum()), int(counted.sum())
    if not images:
        return CaptionShare(math.nan, None, 0, 0)
    x, t = np.asarray(hits, dtype=np.float64)[kept] / weights[kept], counted[kept] / weights[kept]
    value, worth = float(x.sum() / t.sum()), float(captions)
    if (weights > 1).any():
        if images < 2:
            return CaptionShare(value, None, images, captions)
        variance = images / (images - 1) * float(((x - value * t) ** 2).sum()) / float(t.sum()) ** 2
        binomial = value * (1 - value)
        # Where all captions agree, it is not known how alike those of an image are: an image counts as one caption.
        worth = images if binomial <= 1e-12 else min(captions, binomial / variance if variance > 0 else math.inf)
        tails = [float(stats.t.isf((1 - level) / 2, number - 1)) for number in (captions, images)]
        worth *= (tails[0] / tails[1]) ** 2
    tail, count = (1 - level) / 2, value * worth
    low = float(stats.beta.ppf(tail, count, worth - count + 1)) if count > 1e-9 else 0.0
    high = float(stats.beta.isf(tail, count + 1, worth - count)) if worth - count > 1e-9 else 1.0
    return CaptionShare(value, Interval(low, high, level), images, captions)


@dataclass(frozen=True, slots=True)
class Naming:
    """What the captions of one captioner name; shares are NaN for a class without words.

    ``several``: of captions that name more than one class; ``classes``: of those that name it, alone or with others;
    ``balance``: its share of the captions that name exactly one class.
    """

    captioner: str
    share: CaptionShare
    classes: Mapping[str, CaptionShare]
    several: CaptionShare
    balance: Mapping[str, CaptionShare]


def measure_naming(
    captioner: str, mentions: Mentions, classes: Sequence[str], *, silent: Collection[str] = (), level: float = 0.95
) -> Naming:
    """Shares of one captioner's captions, with intervals; NaN for classes that are ``silent``: without words."""
    unknown = dict.fromkeys(silent, CaptionShare(math.nan, None, 0, 0))
    spoken = [name for name in classes if name not in unknown]
    named = list(mentions.values())
    sizes = [len(of) for of in named]
    one = [sum(len(caption) == 1 for caption in of) for of in named]

    def share(hits: Sequence[int], among: Sequence[int] = sizes) -> CaptionShare:
        return caption_share(hits, among, sizes, level=level)

    return Naming(
        captioner,
        share([sum(bool(caption) for caption in of) for of in named]),
        {name: share([sum(name in caption for caption in of) for of in named]) for name in spoken} | unknown,
        share([sum(len(caption) > 1 for caption in of) for of in named]),
        {name: share([sum(caption == {name} for caption in of) for of in named], one) for name in spoken} | unknown,
    )
