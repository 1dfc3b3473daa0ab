"""How often captions name an attribute that cannot be seen: by a lexicon, and as people could guess it.

AnonymousBench (Abdelrahman et al., AAAI 2024, section 5.5.1) has images in which nobody can tell the attribute; its
score is the share of captions from which a human can guess it.
"""

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from judge.corpus.ratings import CANNOT_TELL, Ratings
from judge.types import IntArray, Interval

Mentions = Mapping[str, Sequence[frozenset[str]]]
"""Image id -> the classes that each of its captions names, one caption or more."""


@dataclass(frozen=True, slots=True)
class CaptionShare:
    """A share of captions, and the number of images and captions that count.

    ``value``, in [0, 1], is the mean over images of the share among an image's captions, NaN without captions.
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

    whole = np.asarray(among, dtype=np.float64)
    weights = whole if sizes is None else np.asarray(sizes, dtype=np.float64)
    kept = whole > 0
    images, captions = int(kept.sum()), int(whole.sum())
    if not images:
        return CaptionShare(math.nan, None, 0, 0)
    x, t = np.asarray(hits, dtype=np.float64)[kept] / weights[kept], whole[kept] / weights[kept]
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


@dataclass(frozen=True, slots=True)
class HumanScore:
    """Captions of one captioner from which people could guess the attribute, by the majority of raters.

    Attributes:
        share: of captions from which they could; among captions with a majority.
        named: of the same captions, the share in which the lexicon finds a class.
        classes: class -> share of captions from which they guessed it.
        ties, unrated: captions without a majority, and those that nobody rated.
    """

    captioner: str
    share: CaptionShare
    named: CaptionShare
    classes: Mapping[str, CaptionShare]
    ties: int
    unrated: int


def human_score(ratings: Ratings, captioner: str, named: Mapping[str, bool], *, level: float = 0.95) -> HumanScore:
    """The score of one captioner on the sheet; ``named``: item -> whether the lexicon finds a class in its text."""
    majority = ratings.majority()
    answers: dict[str, Counter[str | None]] = {}
    hits: Counter[str] = Counter()  # Image -> captions with a majority in which the lexicon finds a class.
    unrated = 0
    for item in ratings.sheet.items:
        count = item.captioners.get(captioner, 0)
        of_image = answers.setdefault(item.image, Counter())
        if item.name in majority:
            of_image[majority[item.name]] += count
            hits[item.image] += count * (named[item.name] and majority[item.name] is not None)
        else:
            unrated += count
    among = [of.total() - of[None] for of in answers.values()]
    of_class = {name: [of[name] for of in answers.values()] for name in ratings.sheet.answers if name != CANNOT_TELL}
    return HumanScore(
        captioner,
        caption_share([sum(counts) for counts in zip(*of_class.values(), strict=True)], among, level=level),
        caption_share([hits[image] for image in answers], among, level=level),
        {name: caption_share(counts, among, level=level) for name, counts in of_class.items()},
        ties=sum(of[None] for of in answers.values()),
        unrated=unrated,
    )


def krippendorff_alpha(votes: IntArray) -> float | None:
    """Krippendorff's alpha of raters' nominal answers (Content Analysis, 3rd edition 2013, chapter 12).

    In closed form, not by the package `krippendorff`, which is under the GPL; tests compare the two.

    alpha = 1 - Do / De. Do = sum_u d_u / n is the share of pairs of answers that differ, d_u = sum_{c != k} n_uc n_uk /
    (m_u - 1) over items u of m_u >= 2 answers, n_uc of them the answer c; De = sum_{c != k} n_c n_k / (n (n - 1)), with
    n_c and n the sums over these items. ``votes``, [items, answers]: how many raters gave each answer to each item.

    1 is perfect agreement, 0 chance; None where no item has two answers, or all answers are the same.
    """
    counts = votes[votes.sum(axis=1) >= 2]
    totals, of_answers = counts.sum(axis=1), counts.sum(axis=0)
    number = int(totals.sum())
    expected = number**2 - int((of_answers**2).sum())
    if not expected:
        return None
    observed = float(((totals**2 - (counts**2).sum(axis=1)) / (totals - 1)).sum())
    return 1 - observed * (number - 1) / expected
