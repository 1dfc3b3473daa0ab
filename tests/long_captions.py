"""Captions of 80 to 200 words, as vision-language models write them, made of human captions of known bias."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import numpy as np

from judge.calibration.doses import DoseSource, inject
from judge.corpus import Corpus
from judge.text.lexicon import load_lexicon
from judge.types import Captions

OWN, SHORTEST, LONGEST = 3, 80, 200
"""Sentences that describe the image itself; and words of a caption."""


def long_corpus(corpus: Corpus, *, images: int, seed: int, dose: float = 0.0) -> Corpus:
    """Some of the images, with two human captions each and one captioner, "long".

    Its captions join three other human captions of the image, and human captions of other images of its class up to a
    random length, each used once. So every sentence says as much of the class as a human caption does. ``dose``: of
    A->T bias (:mod:`judge.calibration.doses`) in all sentences but the first.
    """
    assert corpus.labels
    labels, written = corpus.labels.by_image, corpus.human.by_image
    generator = np.random.default_rng([seed, images])
    usable = sorted(image for image, of in written.items() if len(of) >= OWN + 2 and image in labels)
    chosen = generator.permutation(len(usable))
    drawn, others = sorted(usable[n] for n in chosen[:images]), [usable[n] for n in chosen[images:]]
    human, parts, pool = dict[str, tuple[str, ...]](), dict[str, list[str]](), defaultdict[str, list[str]](list)
    for image in others:
        pool[labels[image]] += written[image]
    for of in pool.values():
        generator.shuffle(of)
    for image in drawn:
        own = [written[image][n] for n in generator.permutation(len(written[image]))]
        human[image], parts[image] = tuple(own[:2]), [_sentence(text) for text in own[2 : 2 + OWN]]
        length = generator.integers(SHORTEST, LONGEST - 25)
        while sum(len(text.split()) for text in parts[image]) < length:
            parts[image].append(_sentence(pool[labels[image]].pop()))
    later = Captions("long", {image: tuple(of[1:]) for image, of in parts.items()})
    if dose:
        source = DoseSource(corpus.human, corpus.labels, load_lexicon("gender"), load_lexicon("coco-objects"))
        later = inject(later, source, "A->T", dose, seed=seed)
    joined = {image: (" ".join([parts[image][0], *map(_sentence, later.by_image[image])]),) for image in drawn}
    captioner = replace(later, by_image=joined)
    return replace(corpus, human=replace(corpus.human, by_image=human), generated=(captioner,))


def _sentence(text: str) -> str:
    """A human caption as one sentence, without marks inside that end one."""
    words = text.replace(". ", ", ").strip(" .\n")
    return f"{words[:1].upper()}{words[1:]}."
