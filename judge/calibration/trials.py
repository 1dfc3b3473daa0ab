"""The trials of ``judge calibrate``: human captions stand for a captioner's, and are changed by a known dose."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from judge.calibration.doses import CHANGES, NOTHING, DoseSource, inject
from judge.corpus import Corpus
from judge.errors import JudgeError
from judge.types import Captions, Labels


@dataclass(frozen=True, slots=True)
class Trial:
    """A corpus of one captioner whose true amplification is known; fields as in :mod:`judge.calibration.response`."""

    change: str
    dose: float
    draw: int
    corpus: Corpus


@dataclass(frozen=True, slots=True)
class Design:
    """Which trials there are: ``nulls`` draws of images without any change; the first ``draws`` have doses too."""

    changes: Sequence[str]
    doses: Sequence[float]
    draws: int
    nulls: int
    images: int
    seed: int = 0

    def numbered(self) -> Iterator[tuple[int, Sequence[str]]]:
        """The number of each draw, and its changes."""
        return ((n, self.changes if n < self.draws else ()) for n in range(max(self.nulls, self.draws)))


def people_as_captioner(corpus: Corpus, labels: Labels, *, images: int, seed: int) -> Corpus:
    """A corpus whose captioner is "a person": sides are exchangeable, and the true amplification is 0.

    Each of the ``images``, drawn without replacement, has a human caption, and one of another person for the captioner.
    """
    written = corpus.human.by_image
    usable = sorted(i for i in labels.by_image.keys() & written.keys() if len(written[i]) > 1)
    if len(usable) < images:
        what = f"{len(usable)} images have 2 human captions and a label"
        mend = f"draw {len(usable)} images or fewer (judge calibrate --sample {len(usable)})"
        raise JudgeError(what, where=corpus.human.source, mend=mend if usable else "give several captions an image")
    generator = np.random.default_rng(seed)
    chosen = sorted(generator.choice(usable, images, replace=False).tolist())
    orders = {image: generator.permutation(len(written[image])) for image in chosen}
    human, person = (
        Captions(name, {image: (written[image][of[place]],) for image, of in orders.items()}, corpus.human.source)
        for place, name in enumerate(("human", "a person"))
    )
    classes = {image: labels.by_image[image] for image in chosen}
    return Corpus(human, (person,), replace(labels, by_image=classes), corpus.tasks)


def caption_trials(corpus: Corpus, source: DoseSource, design: Design) -> Iterator[Trial]:
    """Yield all draws of human captions."""
    for number, changes in design.numbered():
        drawn = people_as_captioner(corpus, source.labels, images=design.images, seed=_seed_of(design.seed, number))
        yield Trial(NOTHING, 0.0, number, drawn)
        for change, dose in product(changes, sorted(set(design.doses))):
            seed = _seed_of(design.seed, number + 1, [*CHANGES].index(change))
            changed = inject(drawn.generated[0], source, change, dose, seed=seed)
            yield Trial(change, dose, number, replace(drawn, generated=(changed,)))


def _seed_of(*parts: int) -> int:
    return int(np.random.SeedSequence(parts).generate_state(1)[0])
