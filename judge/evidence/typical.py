"""The typical person: of the human captions of each image the one that is most like the others, as one more captioner.

A captioner that says what most people would say is no more stereotyped than they are, and yet judges learn more from
its captions than from varied ones. The typical person shows how much. The choice uses neither labels nor words that
name the attribute.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from judge.corpus import Corpus
from judge.evidence.builder import EvidenceBuilder
from judge.evidence.joined import INDEX_COVERAGE
from judge.types import Captions, Words

TYPICAL = "typical person"
#: Human captions that an image needs: of two, neither is more like the other.
LEAST = 3
#: End of the reason where too few images have them.
TOO_FEW = f"have {LEAST} human captions or more"


def add_typical(builder: EvidenceBuilder) -> str:
    """Make the typical person of the captioners' images the last captioner of the builder's corpus.

    The human side, which all captioners are compared with, loses these captions. Labels have been derived before, from
    all human captions. Rarity of words is that of the captions of all images with a label, so that the choice does not
    depend on the run's captioners.

    Returns:
        Why there is no typical person, as a clause; "" where there is one.
    """
    corpus, human = builder.corpus, builder.corpus.human.by_image
    labelled = [image for image in human if image in builder.truth.labels.by_image]
    described = {image for captions in corpus.generated for image in captions.by_image}
    images = [image for image in labelled if image in described]
    enough = sum(len(human[image]) >= LEAST for image in images)
    if not images or enough < INDEX_COVERAGE * len(images):
        return f"{enough:,} of {len(images):,} images {TOO_FEW}"
    found = with_typical(corpus, builder.masked, labelled)
    *others, typical = found.generated
    said = {image: of for image, of in typical.by_image.items() if image in described}
    builder.corpus = replace(found, generated=(*others, replace(typical, by_image=said)))
    return ""


def with_typical(corpus: Corpus, masked: Callable[[str], Words], images: Collection[str] | None = None) -> Corpus:
    """The corpus with the typical caption of each image moved from the human side to a captioner, the last one.

    Images with fewer than ``LEAST`` human captions keep them all, and the typical person says nothing about them.

    Args:
        corpus: with one caption or more of each image.
        masked: the words of a caption, in which those that name the attribute are masked.
        images: those whose typical caption is moved, and whose captions say how rare a word is; None: all.
    """
    human = corpus.human.by_image
    written = human if images is None else {image: human[image] for image in images}
    bags = {image: [frozenset(masked(caption)) for caption in of] for image, of in written.items()}
    counts = Counter(word for of in bags.values() for words in of for word in words)
    total = sum(map(len, bags.values()))
    rarity = {word: math.log(total / count) for word, count in counts.items()}
    places = {image: _most_typical(of, rarity) for image, of in bags.items() if len(of) >= LEAST}
    typical = {image: (written[image][place],) for image, place in places.items()}
    rest = {image: (*of[: places[image]], *of[places[image] + 1 :]) for image, of in written.items() if image in places}
    source = f"{corpus.human.source}: the caption of each image most like the others"
    human_side = replace(corpus.human, by_image={**human, **rest})
    return replace(corpus, human=human_side, generated=(*corpus.generated, Captions(TYPICAL, typical, source)))


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
