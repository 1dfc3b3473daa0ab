"""Corpora in which nothing is amplified, whatever a metric says: people's captions against people's captions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from judge.corpus import Corpus
from judge.errors import JudgeError
from judge.types import Captions, Labels


def people_as_captioner(
    corpus: Corpus,
    labels: Labels,
    *,
    images: int,
    seed: int,
    captions: int = 1,
    captioners: int = 1,
    mislabelled: float = 0.0,
) -> Corpus:
    """A corpus whose captioners are people: sides are exchangeable, and the true amplification is 0.

    Args:
        corpus: its human captions are used, at least ``captions`` + ``captioners`` of each image.
        labels: of the images.
        images: how many, drawn without replacement.
        seed: of the draw.
        captions: human captions an image.
        captioners: how many; each has one more caption of an image, of another person ("a person", "person 2" ...).
        mislabelled: share of the images whose label is exchanged for another class: labels that were derived from the
            captions agree with all of them.

    Raises:
        JudgeError: too few images have as many captions, and a label.
    """
    written = corpus.human.by_image
    needed = captions + captioners
    usable = sorted(i for i in labels.by_image.keys() & written.keys() if len(written[i]) >= needed)
    if len(usable) < images:
        what = f"{len(usable)} images have {needed} human captions and a label"
        mend = "give several people's captions of each image"
        if usable:
            mend = f"draw {len(usable)} images or fewer (judge calibrate --sample {len(usable)})"
        raise JudgeError(what, where=corpus.human.source, mend=mend)
    generator = np.random.default_rng(seed)
    chosen = sorted(generator.choice(usable, images, replace=False).tolist())
    orders = {image: generator.permutation(len(written[image])) for image in chosen}
    human = {image: tuple(written[image][place] for place in orders[image][:captions]) for image in chosen}
    others = [{image: (written[image][orders[image][place]],) for image in chosen} for place in range(captions, needed)]
    wrong = {image for image in chosen if generator.random() < mislabelled}
    classes = {image: labels.by_image[image] for image in chosen}
    shown = sorted(set(classes.values()))
    other = dict(zip(shown, (*shown[1:], shown[0]), strict=True))  # The next class that has images.
    return Corpus(
        Captions("human", human, corpus.human.source),
        tuple(
            Captions(f"person {number}" if number > 1 else "a person", by_image, corpus.human.source)
            for number, by_image in enumerate(others, start=1)
        ),
        replace(labels, by_image={image: other[name] if image in wrong else name for image, name in classes.items()}),
        corpus.tasks,
    )
