"""Captions of 80 to 200 words, as vision-language models write them, made of human captions of known bias."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
from scipy.sparse import csr_array

from judge.calibration.doses import DoseSource, inject
from judge.corpus import Corpus
from judge.text.lexicon import load_lexicon, mask
from judge.text.tokens import tokenize
from judge.types import Captions

OWN, SHORTEST, LONGEST = 3, 80, 200
"""Sentences that describe the image itself; and words of a caption."""


def long_corpus(corpus: Corpus, *, images: int, seed: int, dose: float = 0.0) -> Corpus:
    """Some of the images, with two human captions each and one captioner, "long".

    Its captions join three other human captions of the image and those of the nearest images of the same class, each
    used once and of no image that is drawn, up to a random length. So every sentence says as much of the class as a
    human caption. ``dose``: of A->T bias (:mod:`judge.calibration.doses`) in all sentences but the first.
    """
    assert corpus.labels
    labels, written = corpus.labels.by_image, corpus.human.by_image
    gender = load_lexicon("gender")
    generator = np.random.default_rng([seed, images])
    usable = sorted(image for image, of in written.items() if len(of) >= OWN + 2 and image in labels)
    drawn = sorted(generator.choice(usable, images, replace=False).tolist())
    others = sorted({*usable} - {*drawn})
    near = _nearness(drawn, others, {i: [mask(tokenize(text), gender) for text in written[i]] for i in usable})
    left = {image: list(generator.permutation(written[image])) for image in usable}
    human = {image: tuple(map(str, left[image][:2])) for image in drawn}
    parts = {image: [_sentence(text) for text in left[image][2 : 2 + OWN]] for image in drawn}
    for place in generator.permutation(images):
        image, length = drawn[place], generator.integers(SHORTEST, LONGEST - 25)
        order = iter(np.argsort(-near[place], kind="stable"))
        while sum(len(text.split()) for text in parts[image]) < length:
            donor = others[next(order)]
            if labels[donor] == labels[image] and left[donor]:
                parts[image].append(_sentence(left[donor].pop()))
    later = Captions("long", {image: tuple(of[1:]) for image, of in parts.items()})
    if dose:
        source = DoseSource(corpus.human, corpus.labels, gender, load_lexicon("coco-objects"))
        later = inject(later, source, "A->T", dose, seed=seed)
    joined = {image: (" ".join([parts[image][0], *map(_sentence, later.by_image[image])]),) for image in drawn}
    captioner = replace(later, by_image=joined)
    return replace(corpus, human=replace(corpus.human, by_image=human), generated=(captioner,))


def _sentence(text: str) -> str:
    """A human caption as one sentence, without marks inside that end one."""
    words = text.replace(". ", ", ").strip(" .\n")
    return f"{words[:1].upper()}{words[1:]}."


def _nearness(drawn: list[str], others: list[str], words: dict[str, list[tuple[str, ...]]]) -> np.ndarray:
    """Cosine of the rare words of the masked captions of each drawn and each other image, [D, O]."""
    bags = {image: {word for caption in words[image] for word in caption} for image in (*drawn, *others)}
    counts = Counter(word for of in bags.values() for word in of)
    place = {word: n for n, word in enumerate(sorted(counts))}

    def rows(images: list[str]) -> csr_array:
        found = [
            (n, place[word], np.log(len(bags) / counts[word]))
            for n, image in enumerate(images)
            for word in sorted(bags[image])
        ]
        row, column, value = zip(*found, strict=True)
        table = csr_array((value, (row, column)), shape=(len(images), len(place)))
        return csr_array(table / np.sqrt(table.multiply(table).sum(axis=1))[:, None])

    return (rows(drawn) @ rows(others).T).toarray()
