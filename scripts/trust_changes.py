"""Changes of human captions without bias that give them another form: repetition, verbosity and paraphrases.

Importing this file adds them to the changes that :func:`judge.calibration.doses.inject` knows.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from functools import lru_cache

import numpy as np

from judge.calibration.doses import CHANGES, LEAST, Change, DoseSource
from judge.text import alignment
from judge.text.embedding import WORDLLAMA, load_embedding
from judge.text.lexicon import mask
from judge.text.tokens import tokenize
from judge.types import FloatArray, Words

PROTOTYPES = 200
"""Human captions that others are replaced by: at a dose of 0.8 as many captions have twins as of LIC's captioners."""
# How many words may replace another one, and their least cosine.
_SYNONYMS, _ALIKE = 3, 0.5
# Of them a verbose caption has three. They name nobody and no object.
_BOILERPLATE = (
    "the image captures a moment of everyday life",
    "the background is slightly blurred",
    "the scene appears to be well lit",
    "there are various other things in the scene",
    "the colors of the image are vivid",
    "the overall atmosphere is calm and relaxed",
    "several details can be seen in the background",
    "the composition draws attention to the center of the image",
    "the setting suggests an ordinary day",
    "the weather appears to be pleasant",
    "overall the image conveys a sense of enjoyment",
    "it is not clear what lies outside of the frame",
)
_SENTENCES = 3


@lru_cache(maxsize=8)
def synonyms(source: DoseSource) -> dict[str, list[str]]:
    """Word of ``common_words`` that is used ``LEAST`` times or more -> similar ones, the most similar first.

    Words of entries of lexicons are left out.
    """
    written = [words for captions in source.captions.values() for words in captions]
    uses = Counter(words[place] for words in written for place in source.free_places(words))
    # A word of an entry may complete it: "parking" in front of "meter".
    lexicons = [lexicon for lexicon in (source.attribute, source.tasks) if lexicon]
    entries = [entry for of in lexicons for listed in (*of.classes.values(), of.hidden_only) for entry in listed]
    apart = {word for entry in entries for word in tokenize(entry)}
    words = sorted(word for word, count in uses.items() if count >= LEAST and word not in apart)
    vectors = embed([(word,) for word in words])
    found = {}
    for place, word in enumerate(words):
        cosines = vectors @ vectors[place]
        cosines[place] = -1
        nearest_first = np.argsort(-cosines, kind="stable")[:_SYNONYMS]
        found[word] = [words[other] for other in nearest_first if cosines[other] > _ALIKE]
    return found


def mentions(source: DoseSource, words: Words) -> list[Words]:
    """The words of each mention of the attribute."""
    return [words[start:stop] for start, stop, _ in source.attribute.find(words)] if source.attribute else []


@lru_cache(maxsize=8)
def prototypes(source: DoseSource) -> dict[int, tuple[list[Words], FloatArray]]:
    """Number of mentions of the attribute -> captions with so many, in which they are masked; their embeddings.

    Captions are drawn at random, whatever the class of their images; possessives ("a woman's bag") are left out.
    """
    every = [words for image in source.captions for words in source.captions[image]]
    order = np.random.default_rng(0).permutation(len(every))
    found: dict[int, dict[Words, None]] = defaultdict(dict)
    for place in order[:PROTOTYPES]:
        masked, count = mask(every[place], source.attribute), len(mentions(source, every[place]))
        if sum(map(alignment.is_special, masked)) == count:
            found[count][masked] = None
    return {count: ([*of], embed(of)) for count, of in found.items()}


def embed(masked: Iterable[Words]) -> FloatArray:
    """Embeddings of captions without the tokens for masked words, [N, D], of length 1."""
    bare = [tuple(word for word in words if not alignment.is_special(word)) for words in masked]
    return load_embedding(WORDLLAMA).captions(bare)


def _repeat(source: DoseSource, words: Words, _: str, dose: float, generator: np.random.Generator) -> Words:
    """With probability ``dose`` the most similar prototype with as many words for people, which are the caption's."""
    known = prototypes(source)
    own_people = mentions(source, words)
    if generator.random() >= dose or len(own_people) not in known:
        return words
    captions, vectors = known[len(own_people)]
    (own,) = embed([mask(words, source.attribute)])
    nearest_one, people = captions[int(np.argmax(vectors @ own))], iter(own_people)
    parts = (next(people) if alignment.is_special(word) else (word,) for word in nearest_one)
    return tuple(word for part in parts for word in part)


def _lengthen(_: DoseSource, words: Words, __: str, dose: float, generator: np.random.Generator) -> Words:
    """With probability ``dose`` some sentences of boilerplate follow, as large captioners write them."""
    moved, drawn = generator.random(), generator.permutation(len(_BOILERPLATE))[:_SENTENCES]
    if moved >= dose:
        return words
    end = () if words[-1:] == (".",) else (".",)
    return (*words, *end, *(word for place in drawn for word in (*_BOILERPLATE[place].split(), ".")))


def _paraphrase(source: DoseSource, words: Words, _: str, dose: float, generator: np.random.Generator) -> Words:
    """With probability ``dose`` each content word becomes a similar one, and the words for a task others for it."""
    spans = {start: (stop, task) for start, stop, task in source.find_tasks(words)}
    free, changed, place = {*source.free_places(words)}, list[str](), 0
    while place < len(words):
        stop, task = spans.get(place, (place + 1, ""))
        own = words[place:stop]
        moved, choice = generator.random(2)
        known: list[Words] = [(word,) for word in synonyms(source).get(words[place], ())] if place in free else []
        if task:
            known = source.phrases[task, source.is_plural(own, task)]
        changed += known[int(choice * len(known))] if moved < dose and known else own
        place = stop
    return tuple(changed)


CHANGES |= {"repetition": Change(_repeat), "verbosity": Change(_lengthen), "paraphrase": Change(_paraphrase)}
