"""The typical person: of the human captions of each image the one that is most like the others, as one more captioner.

A captioner that says what most people would say is no more stereotyped than they are, and yet judges learn more from
its captions than from varied ones. The typical person shows how much. The choice uses neither labels nor words that
name the attribute.

A captioner that says more of an image than people do tells more of the class, for that reason alone. It is compared
with a typical person who says as much: the human captions of each image, joined and cut to as many content words.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from statistics import fmean

from judge.corpus import Corpus
from judge.evidence.builder import EvidenceBuilder
from judge.evidence.joined import INDEX_COVERAGE
from judge.text.tokens import content_of
from judge.types import Captions, Words

TYPICAL = "typical person"
#: Content words, over those of others, from which captions tell more for that reason alone.
LONGER = 1.25
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


def is_person(name: str) -> bool:
    """Whether a captioner of this name is a typical person."""
    return name.startswith(TYPICAL)


def add_longer(builder: EvidenceBuilder, human: Captions) -> dict[str, str]:
    """Add typical persons who say as much as captioners that say more than people do; ``human``: all their captions.

    The builder's last captioner is the typical person. Captioners of about as many content words share a person. None
    is added for a captioner that says much more than all human captions of its images together.

    Returns:
        Captioner -> the typical person that it is compared with.
    """
    *captioners, typical = builder.corpus.generated
    surveys = {of.name: builder.join(of, judged=False)[0].survey for of in (*captioners, typical)}
    lengths = {name: of["generated"].words_read for name, of in surveys.items()}
    found, people = {of.name: TYPICAL for of in captioners}, dict[str, Captions]()
    longer = [name for name in found if lengths[name] > LONGER * lengths[TYPICAL]]
    ordered = in_order(human.by_image, builder.masked, typical.by_image) if longer else {}
    sizes = [len(content_of(chain.from_iterable(map(builder.masked, of)))) for of in ordered.values()]
    for name in longer:
        most = _cut(sizes, lengths[name])
        mean = fmean(min(size, most) for size in sizes)
        if lengths[name] <= LONGER * mean:
            found[name] = person = f"{TYPICAL} of {mean:.0f} words"
            said = {image: (_say(of, most, builder.masked),) for image, of in ordered.items()}
            people[person] = Captions(person, said, f"{human.source}: the captions of each image, joined and cut")
    builder.corpus = replace(builder.corpus, generated=(*builder.corpus.generated, *people.values()))
    return found


def _cut(sizes: Sequence[int], length: float) -> int:
    """How many content words texts that have so many may keep, each, for a mean of ``length``, or the largest mean."""
    cuts = range(1, max(sizes))
    return next((most for most in cuts if fmean(min(size, most) for size in sizes) >= length), max(sizes))


def _say(captions: Sequence[str], most: int, masked: Callable[[str], Words]) -> str:
    """Captions one after the other, with a comma between two, up to the content word after ``most`` different ones."""
    said, content = list[str](), set[str]()
    for caption in captions:
        said[-1:] = [f"{word}," for word in said[-1:]]
        for word in caption.rstrip(" .").split():
            content |= content_of(masked(word))
            if said and len(content) > most:
                return " ".join(said).rstrip(",")
            said.append(word)
    return " ".join(said)


def with_typical(corpus: Corpus, masked: Callable[[str], Words], images: Collection[str] | None = None) -> Corpus:
    """The corpus with the typical caption of each image moved from the human side to a captioner, the last one.

    Images with fewer than ``LEAST`` human captions keep them all, and the typical person says nothing about them.

    Args:
        corpus: with one caption or more of each image.
        masked: the words of a caption, in which those that name the attribute are masked.
        images: those whose typical caption is moved, and whose captions say how rare a word is; None: all.
    """
    human = corpus.human.by_image
    ordered = in_order(human, masked, human if images is None else images)
    ordered = {image: of for image, of in ordered.items() if len(of) >= LEAST}
    typical = {image: of[:1] for image, of in ordered.items()}
    places = {image: human[image].index(caption) for image, (caption,) in typical.items()}
    rest = {image: (*human[image][:place], *human[image][place + 1 :]) for image, place in places.items()}
    source = f"{corpus.human.source}: the caption of each image most like the others"
    human_side = replace(corpus.human, by_image={**human, **rest})
    return replace(corpus, human=human_side, generated=(*corpus.generated, Captions(TYPICAL, typical, source)))


def in_order(
    human: Mapping[str, Sequence[str]], masked: Callable[[str], Words], images: Iterable[str]
) -> dict[str, tuple[str, ...]]:
    """The captions of ``images``, those that share most with the others of their image first; equals as they come.

    Two captions share the rarity (inverse document frequency) of their common words over that of all their words.
    """
    bags = {image: [frozenset(masked(caption)) for caption in human[image]] for image in images}
    counts = Counter(word for of in bags.values() for words in of for word in words)
    total = sum(map(len, bags.values()))
    rarity = {word: math.log(total / count) for word, count in counts.items()}
    return {image: tuple(human[image][place] for place in _by_likeness(of, rarity)) for image, of in bags.items()}


def _by_likeness(bags: Sequence[frozenset[str]], rarity: dict[str, float]) -> list[int]:
    """Places of captions, those that share most with the others first."""

    def weigh(words: frozenset[str]) -> float:
        return math.fsum(rarity[word] for word in words)  # Exact: the order of a set does not matter.

    def shared(one: frozenset[str], other: frozenset[str]) -> float:
        return weigh(one & other) / (weigh(one | other) or 1.0)

    likeness = [sum(shared(one, other) for n, other in enumerate(bags) if n != place) for place, one in enumerate(bags)]
    return sorted(range(len(bags)), key=likeness.__getitem__, reverse=True)
