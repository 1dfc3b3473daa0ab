"""The corpora of ``judge calibrate``: people's captions against people's, one side changed by a known dose."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from judge.calibration.grammar import World
from judge.calibration.inject import CHANGES, inject
from judge.calibration.nulls import people_as_captioner
from judge.calibration.response import NOTHING
from judge.calibration.source import Source
from judge.corpus import Corpus
from judge.text.tokens import tokenize
from judge.types import Captions, Labels

# The number of the draw that holds all images.
WHOLE = -1


@dataclass(frozen=True, slots=True)
class Trial:
    """A corpus whose true amplification is known.

    Attributes:
        change, dose, draw: see :mod:`judge.calibration.response`; draw ``WHOLE`` for all images.
        corpus: people's captions, and those of one captioner.
        world: what pictures are drawn of; None of people's own captions.
    """

    change: str
    dose: float
    draw: int
    corpus: Corpus
    world: World | None = None


@dataclass(frozen=True, slots=True)
class Design:
    """Which trials there are.

    Attributes:
        changes: keys of :data:`~judge.calibration.inject.CHANGES`.
        doses: above 0, of each change.
        draws: of each dose.
        nulls: draws without any change; the first ``draws`` of them are those that doses are given to.
        images: of a draw.
        seed: of the first draw.
    """

    changes: Sequence[str]
    doses: Sequence[float]
    draws: int
    nulls: int
    images: int
    seed: int = 0


def draw_trials(corpus: Corpus, labels: Labels, source: Source, design: Design) -> Iterator[Trial]:
    """All draws; of each image one caption is people's and another, of another person, the captioner's.

    Raises:
        JudgeError: too few images have two captions and a label; what :func:`~judge.calibration.inject.inject` refuses.
    """
    for number in range(max(design.nulls, design.draws)):
        drawn = people_as_captioner(corpus, labels, images=design.images, seed=seed_of(design.seed, number))
        yield from _dosed(drawn, source, design, number, design.changes if number < design.draws else ())


def all_images(corpus: Corpus, labels: Labels, source: Source, design: Design, *, reduced: bool) -> Iterator[Trial]:
    """All images, with two captions a side if most have as many: what doses are worth, of changes that are bias.

    ``reduced``: only words of the attribute and of tasks are left, which is what these changes touch: a judge of so few
    words needs few images to come close to the best one.

    Raises:
        JudgeError: as of :func:`draw_trials`.
    """
    changes = [name for name in design.changes if CHANGES[name].moves]
    if not changes:
        return
    written = corpus.human.by_image
    counts = [len(written[image]) for image in labels.by_image.keys() & written.keys()]
    two, four = (sum(count >= least for count in counts) for least in (2, 4))
    side, images = (2, four) if 2 * four >= two else (1, two)
    drawn = people_as_captioner(corpus, labels, images=images, seed=design.seed, captions=side, captioners=side)
    first, *others = drawn.generated
    together = {image: sum((of.by_image[image] for of in others), texts) for image, texts in first.by_image.items()}
    drawn = replace(drawn, generated=(replace(first, by_image=together),))
    for trial in _dosed(drawn, source, design, WHOLE, changes):
        yield replace(trial, corpus=_reduced(trial.corpus, source)) if reduced else trial


def _dosed(drawn: Corpus, source: Source, design: Design, number: int, changes: Sequence[str]) -> Iterator[Trial]:
    yield Trial(NOTHING, 0.0, number, drawn)
    (captioner,) = drawn.generated
    for change in changes:
        seed = seed_of(design.seed, number - WHOLE, [*CHANGES].index(change))
        for dose in sorted(set(design.doses)):
            changed = inject(captioner, source, change, dose, seed=seed)
            yield Trial(change, dose, number, replace(drawn, generated=(changed,)))


def seed_of(*parts: int) -> int:
    """A seed of its own for each draw, and each change in it, whatever the first seed is."""
    return int(np.random.SeedSequence(parts).generate_state(1)[0])


def _reduced(corpus: Corpus, source: Source) -> Corpus:
    return replace(
        corpus,
        human=_reduce(corpus.human, source),
        generated=tuple(_reduce(side, source) for side in corpus.generated),
    )


def _reduce(captions: Captions, source: Source) -> Captions:
    def words(text: str) -> str:
        found = tokenize(text)
        kept = source.named_places(found)
        # A caption of nothing is none: a mark says no more.
        return " ".join(word for place, word in enumerate(found) if place in kept) or "."

    return replace(captions, by_image={image: tuple(map(words, of)) for image, of in captions.by_image.items()})
