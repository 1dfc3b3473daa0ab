"""How often captions name an attribute that cannot be seen: by a lexicon, and as people could guess it.

AnonymousBench (Abdelrahman et al., AAAI 2024, section 5.5.1) has images in which nobody can tell the attribute; its
score is the share of captions from which a human can guess it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations

import numpy as np

from judge.corpus.rating_sheet import Question
from judge.corpus.ratings import Ratings
from judge.statistics.comparisons import holm
from judge.statistics.shares import Share, ShareDifference, measure_share, paired_difference

Mentions = Mapping[str, Sequence[frozenset[str]]]
"""Image id -> the classes that each of its captions names, one caption or more."""


@dataclass(frozen=True, slots=True)
class Naming:
    """What the captions of one captioner name.

    Attributes:
        captioner: its name.
        share: of captions that name any class.
        classes: class -> share of captions that name it, alone or with others; NaN for one without words.
        several: share of captions that name more than one class.
        balance: class -> its share of the captions that name exactly one class; NaN for one without words.
    """

    captioner: str
    share: Share
    classes: Mapping[str, Share]
    several: Share
    balance: Mapping[str, Share]


def measure_naming(
    captioner: str, mentions: Mentions, classes: Sequence[str], *, silent: Collection[str] = (), level: float = 0.95
) -> Naming:
    """Shares of one captioner's captions, with intervals; none of classes that are ``silent``: without words."""
    unknown = dict.fromkeys(silent, Share(math.nan, None, 0, 0, exact=True))
    spoken = [name for name in classes if name not in unknown]
    named = list(mentions.values())
    sizes = [len(of) for of in named]
    one = [sum(len(caption) == 1 for caption in of) for of in named]

    def share(hits: Sequence[int], among: Sequence[int] = sizes) -> Share:
        return measure_share(hits, among, sizes, level=level)

    return Naming(
        captioner,
        share([sum(bool(caption) for caption in of) for of in named]),
        {name: share([sum(name in caption for caption in of) for of in named]) for name in spoken} | unknown,
        share([sum(len(caption) > 1 for caption in of) for of in named]),
        {name: share([sum(caption == {name} for caption in of) for of in named], one) for name in spoken} | unknown,
    )


def naming_differences(
    mentions: Mapping[str, Mentions], *, generator: np.random.Generator, level: float = 0.95
) -> list[ShareDifference]:
    """Each two captioners' shares of captions that name any class, on the images of both; p corrected for all."""
    shares = {
        name: {image: float(np.mean([bool(classes) for classes in of_image])) for image, of_image in of.items()}
        for name, of in mentions.items()
    }
    found = []
    for first, second in combinations(shares, 2):
        both = [image for image in shares[first] if image in shares[second]]
        gaps = [shares[first][image] - shares[second][image] for image in both]
        if gaps:
            found.append(paired_difference((first, second), gaps, generator=generator, level=level))
    p_values = holm([row.p_value for row in found])
    return [replace(row, p_holm=p) for row, p in zip(found, p_values, strict=True)]


@dataclass(frozen=True, slots=True)
class HumanScore:
    """From how many of a captioner's captions people could guess the attribute, by the majority of raters.

    Attributes:
        captioner: its name.
        share: of captions from which they could; among captions with a majority.
        named: of the same captions, the share in which the lexicon finds a class.
        classes: class -> share of captions from which they guessed it.
        ties: captions without a majority.
        unrated: captions that nobody rated.
    """

    captioner: str
    share: Share
    named: Share
    classes: Mapping[str, Share]
    ties: int
    unrated: int


def measure_human_scores(
    ratings: Ratings, question: Question, classes: Sequence[str], named: Mapping[str, bool], *, level: float = 0.95
) -> list[HumanScore]:
    """A score for each captioner on the sheet.

    Args:
        ratings: what came back.
        question: which of its questions.
        classes: the answers that are guesses; any other is none.
        named: item -> whether the lexicon finds a class in its text.
        level: of intervals.
    """
    majority = ratings.majority(question)
    captioners = dict.fromkeys(sorted({name for item in ratings.sheet.items for name in item.captioners}))
    found = []
    for captioner in captioners:
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
        among = [sum(count for answer, count in of.items() if answer is not None) for of in answers.values()]
        share = partial(measure_share, among=among, level=level)
        of_class = {name: [of[name] for of in answers.values()] for name in classes}
        found.append(
            HumanScore(
                captioner,
                share([sum(counts) for counts in zip(*of_class.values(), strict=True)]),
                share([hits[image] for image in answers]),
                {name: share(counts) for name, counts in of_class.items()},
                ties=sum(of[None] for of in answers.values()),
                unrated=unrated,
            )
        )
    return found


@dataclass(frozen=True, slots=True)
class LexiconCheck:
    """The lexicon against people, over rated texts that have a majority: how many there are of each.

    Attributes:
        both: it names a class, and people could guess.
        lexicon: it names one, and people could not guess.
        people: it names none, and people could guess: words that it lacks, or what is said between the lines.
        neither: neither.
    """

    both: int
    lexicon: int
    people: int
    neither: int


def check_lexicon(
    ratings: Ratings, question: Question, classes: Sequence[str], named: Mapping[str, bool]
) -> LexiconCheck:
    """Compare the majority of raters with ``named``: item -> whether the lexicon finds a class in its text."""
    found = Counter(
        (named[item], answer in classes) for item, answer in ratings.majority(question).items() if answer is not None
    )
    return LexiconCheck(found[True, True], found[True, False], found[False, True], found[False, False])
