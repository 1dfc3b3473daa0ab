"""The typical person: of the human captions of each image the one that is most like the others, as one more captioner.

A captioner that says what most people would say is no more stereotyped than they are, and yet judges learn more from
its captions than from varied ones. The typical person shows how much. The choice uses neither labels nor words that
name the attribute.

A captioner that says more of an image than people do tells more of the class, for that reason alone. It is compared
with a typical person who says as much: the human captions of each image, joined and cut to about as many content words.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Self

from judge.corpus import Corpus
from judge.evidence.builder import EvidenceBuilder
from judge.evidence.joined import INDEX_COVERAGE
from judge.text.tokens import content_of, kind_of
from judge.types import Captions, Length, Words

TYPICAL = "typical person"
Longer = Mapping[str, Mapping[Length, str]]
"""Captioner -> length of captions -> the typical person who says as much."""
#: Content words, over those of others, from which captions tell more for that reason alone.
LONGER = 1.25
# Most content words of a longer person: captioners of about equal length share one.
_CUTS = sorted({round(1.1**power) for power in range(80)})
# Marks that stay in its text; others may end a sentence.
_KEPT = {",", "-"}
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


def is_longer(name: str) -> bool:
    """Whether this is the name of a typical person that :func:`add_longer` adds."""
    return name.startswith(f"{TYPICAL} of up to ")


def is_person(name: str) -> bool:
    """Whether this is the name of a typical person."""
    return name == TYPICAL or is_longer(name)


def add_longer(builder: EvidenceBuilder, human: Captions, lengths: Collection[Length]) -> Longer:
    """Add typical persons who say as much as captioners that say more than the typical person does.

    The last captioner of the builder is the typical person. There is no longer person for a captioner that says over
    ``LONGER`` times as much as all human captions of its images together.

    Args:
        builder: one whose last captioner is the typical person (:func:`add_typical`).
        human: all human captions, those of the typical person too.
        lengths: those that raise the run's metrics (:attr:`~judge.metrics.Metric.length`).

    Returns:
        Captioner -> length -> the longer person that it is compared with.
    """
    *captioners, typical = builder.corpus.generated

    def length(captioner: Captions, name: Length) -> float:
        return float(getattr(builder.join(captioner, judged=False)[0].survey["generated"], name))

    long = {(of.name, name): length(of, name) for name in sorted(lengths) for of in captioners}
    long = {key: number for key, number in long.items() if number > LONGER * length(typical, key[1])}
    if not long:
        return {}
    told = _Told.of(builder, human, typical.by_image)
    people, found = dict[str, Captions](), dict[str, dict[Length, str]]()
    for (captioner, name), number in long.items():
        person = told.person(number)
        if number <= LONGER * length(person, name):
            people[person.name] = person
            found.setdefault(captioner, {})[name] = person.name
    builder.corpus = replace(builder.corpus, generated=(*builder.corpus.generated, *people.values()))
    return found


@dataclass(frozen=True)
class _Told:
    """All human captions of each image as one text, the most typical first, without marks that end a sentence.

    ``texts``: image -> its words, and for each word how many different content words there are up to it.
    """

    source: str
    texts: dict[str, tuple[list[str], list[int]]]

    @classmethod
    def of(cls, builder: EvidenceBuilder, human: Captions, images: Collection[str]) -> Self:
        """The texts of ``images``. Their order is that of :func:`add_typical`, whoever the captioners are."""
        labelled = [image for image in human.by_image if image in builder.truth.labels.by_image]
        ordered = in_order(human.by_image, builder.masked, labelled)
        texts = {}
        for image in images:
            words, content, counts = list[str](), set[str](), list[int]()
            for caption in ordered[image]:
                read = [word for word in builder.options.words(caption) if kind_of(word) != "mark" or word in _KEPT]
                words += [",", *read] if words else read
            words = words or [*builder.options.words(ordered[image][0])]  # Captions of marks alone.
            for word in words:
                content |= content_of(builder.mask((word,), "attribute"))
                counts.append(len(content))
            texts[image] = words, counts
        return cls(human.source, texts)

    def person(self, length: float) -> Captions:
        """A person with ``length`` content words or a few more on average, or with all words if these are fewer.

        Equal names are equal captions, so that captioners of about the same length share a person.
        """
        sizes = [counts[-1] for _, counts in self.texts.values()]
        cuts = (cut for cut in _CUTS if cut >= max(sizes) or fmean(min(size, cut) for size in sizes) >= length)
        cut = next(cuts, _CUTS[-1])
        said = {image: (" ".join(words[: bisect_right(counts, cut)]),) for image, (words, counts) in self.texts.items()}
        return Captions(f"{TYPICAL} of up to {cut} words", said, f"{self.source}: the captions of each image, joined")


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
