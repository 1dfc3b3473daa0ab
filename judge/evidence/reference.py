"""The reference person: other people's captions of an image that say as much as a captioner's.

Every human caption of an image takes the role of the reference in turn. If a captioner says more than one person does,
the reference is as many people's captions as say as much, joined; only the other people are then known. The reference
is cut at the length at which it says as much as the captioner on average.

A caption says the sum over its different content words of -log2 of the share of captions of its side that hold the
word: common words say little. More people are joined only while the captioner also says more of the words that the
people use who are known: neither boilerplate nor invention, however varied, calls for further people.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass

import numpy as np

from judge.text.tokens import is_content
from judge.types import Words

# A reference says as much as a captioner from this share of its bits on.
_ENOUGH = 0.95
# Captions that find the length at which a reference is cut.
_SAMPLE = 2000


@dataclass(frozen=True, slots=True)
class Reference:
    """The reference's captions in one role, [N], and places of those of the people who remain known, [N][...]."""

    captions: Sequence[Words]
    others: Sequence[Sequence[int]]


class Informative:
    """How much captions of one side say."""

    def __init__(self, captions: Sequence[Words]) -> None:
        counts, number = Counter(word for words in captions for word in {*filter(is_content, words)}), len(captions) + 1
        self.bits: Mapping[str, float] = {word: -math.log2(count / number) for word, count in counts.items()}

    def __call__(self, words: Words, heard: Set[str] | None = None) -> float:
        """Bits of a caption, or of its words that are ``heard``."""
        said = {*filter(is_content, words)}
        return sum(self.bits[word] for word in sorted(said if heard is None else said & heard))

    def cut(self, words: Words, most: float) -> Words:
        """The first words, without further content words once they say ``most`` bits; the last may go half beyond."""
        said, held, found = 0.0, set[str](), []
        for word in words:
            if is_content(word) and word not in held:
                if said + self.bits[word] / 2 > most:
                    continue
                held.add(word)
                said += self.bits[word]
            found.append(word)
        return tuple(found)


def make_references(human: Sequence[Sequence[Words]], captions: Sequence[Words]) -> list[Reference]:
    """The references of a captioner's ``captions``, [N], in each role; ``human``: human captions of images, [N][H].

    There are as many roles as most images have human captions; images with fewer repeat some. Of each image with two
    human captions or more, at least one person remains known.
    """
    told = Informative([words for of in human for words in of])
    wanted = _mean(map(Informative(captions), captions))
    sizes = Counter(len(of) for of in human)
    count = max(sizes, key=lambda size: (sizes[size], size))
    for joined in range(1, max(2, count)):
        roles = [_role(human, role, joined) for role in range(count)]
        texts = [words for role in roles for words in role.captions]
        heard = [frozenset(word for place in others for word in of[place])
                 for role in roles for of, others in zip(human, role.others, strict=True)]  # fmt: skip
        said, agreed = _mean(map(told, texts)), _mean(map(told, texts, heard))
        shared = _mean(map(told, [*captions] * count, heard))
        if said >= _ENOUGH * wanted or agreed >= _ENOUGH * shared:
            break
    # A part of the captions finds the length; all are cut there.
    places = np.random.default_rng(0).permutation(len(texts))[:_SAMPLE]
    sample, others = [texts[place] for place in places], [heard[place] for place in places]
    length = _length(wanted / said, sample, told, [None] * len(sample)) if said > wanted else math.inf
    if joined > 1 and agreed > shared:
        # One person's caption is cut for a brief captioner, and not for one who says little of the image.
        length = min(length, _length(shared / agreed, sample, told, others))
    if length < math.inf:
        roles = [Reference([told.cut(words, length) for words in role.captions], role.others) for role in roles]
    return roles


def _mean(bits: Iterable[float]) -> float:
    return float(np.mean([*bits]))


def _length(share: float, captions: Sequence[Words], told: Informative, heard: Sequence[Set[str] | None]) -> float:
    """The length, in bits, to which captions are cut so that they keep this share of their ``heard`` bits."""
    from scipy.optimize import bisect

    uncut = _mean(map(told, captions, heard))

    def excess(length: float) -> float:
        kept = (told(told.cut(words, length), of) for words, of in zip(captions, heard, strict=True))
        return _mean(kept) - share * uncut

    return float(bisect(excess, 0, 2 * max(map(told, captions)), xtol=0.1))


def _role(human: Sequence[Sequence[Words]], role: int, joined: int) -> Reference:
    """In this role, ``joined`` people are the reference of each image, as far as another remains."""
    captions, others = list[Words](), list[list[int]]()
    for of in human:
        order = [(role + place) % len(of) for place in range(len(of))]
        chosen = max(1, min(joined, len(of) - 1))
        captions.append(tuple(word for place in order[:chosen] for word in of[place]))
        others.append(order[chosen:])
    return Reference(captions, others)
