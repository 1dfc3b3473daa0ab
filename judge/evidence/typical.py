"""The typical person: of the human captions of each image the one that is most like the others, as one more captioner.

A captioner that says what most people would say is no more stereotyped than they are, and yet judges learn more from
its captions than from varied ones. The typical person shows how much. The choice uses neither labels nor words that
name the attribute.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

from judge.corpus import Corpus
from judge.types import Captions, Words

TYPICAL = "typical person"
#: Human captions that an image needs: of two, neither is more like the other.
LEAST = 3


def with_typical(corpus: Corpus, masked: Callable[[str], Words]) -> Corpus:
    """The corpus with the typical caption of each image moved from the human side to a captioner, the last one.

    Images with fewer than ``LEAST`` human captions keep them all, and the typical person says nothing about them.

    Args:
        corpus: with one caption or more of each image.
        masked: the words of a caption, in which those that name the attribute are masked.
    """
    written = corpus.human.by_image
    bags = {image: [frozenset(masked(caption)) for caption in of] for image, of in written.items()}
    counts = Counter(word for of in bags.values() for words in of for word in words)
    total = sum(map(len, bags.values()))
    rarity = {word: math.log(total / count) for word, count in counts.items()}
    places = {image: _most_typical(of, rarity) for image, of in bags.items() if len(of) >= LEAST}
    typical = {image: (written[image][place],) for image, place in places.items()}
    rest = {image: (*of[: places[image]], *of[places[image] + 1 :]) for image, of in written.items() if image in places}
    human = replace(corpus.human, by_image={**written, **rest})
    captioner = Captions(TYPICAL, typical, f"{corpus.human.source}: the caption of each image most like the others")
    return replace(corpus, human=human, generated=(*corpus.generated, captioner))


def _most_typical(bags: Sequence[frozenset[str]], rarity: dict[str, float]) -> int:
    """The place of the caption that shares most with the others; the first of equals.

    Two captions share the rarity (inverse document frequency) of their common words over that of all their words.
    """

    def weigh(words: frozenset[str]) -> float:
        return math.fsum(rarity[word] for word in words)  # Exact: the order of a set does not matter.

    def shared(one: frozenset[str], other: frozenset[str]) -> float:
        return weigh(one & other) / (weigh(one | other) or 1.0)

    likeness = [sum(shared(one, other) for n, other in enumerate(bags) if n != place) for place, one in enumerate(bags)]
    return likeness.index(max(likeness))
