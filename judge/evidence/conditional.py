"""What judges of conditional leakage read: the captions of both sides, and what is known of their images."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from judge.corpus.tasks import Tasks
from judge.corpus.units import Units
from judge.errors import RowError
from judge.evidence.builder import EvidenceBuilder, mention_table
from judge.evidence.joined import MINIMUM_IMAGES, PEOPLE, Joined
from judge.metrics import Metric
from judge.text.alignment import is_special
from judge.types import Captions, IntArray, Side, Words

LEAST_PEOPLE = 3
"""Human captions of an image where other people's are given: the reference's, and two that are known."""


@dataclass(frozen=True)
class Conditional:
    """The evidence of one captioner; ``metric.given`` says what is known.

    Attributes:
        joined: the N images, with a class each, and facts about both sides.
        units: what is resampled, of these images.
        human, captions: human captions of each image, without words that name the class, [N][H], and the captioner's.
        objects: what each image shows, [N, O], rows of length 1 or 0, people apart; O is 0 if objects are not given.
        images: vectors of the images, [N, D], people hidden, which are made later; D is 0 if images are not given.
        seen: checksum of these vectors, which stays when they are freed; "" before they are made.
    """

    captioner: str
    metric: Metric
    joined: Joined
    units: Units
    human: Sequence[Sequence[Words]]
    captions: Sequence[Sequence[Words]]
    objects: npt.NDArray[np.float32]
    images: npt.NDArray[np.float32]
    seen: str = ""

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the classes."""
        return tuple(sorted({*self.units.classes}))

    @cached_property
    def classes(self) -> IntArray:
        """Class of each image, [N]: its place among ``names``."""
        place = {name: number for number, name in enumerate(self.names)}
        return np.array([place[name] for name in self.units.classes], dtype=np.int64)


def conditional_evidence(builder: EvidenceBuilder, captioner: Captions, metric: Metric) -> Conditional:
    """The evidence of ``captioner``.

    Raises:
        RowError: too few images of a class have three human captions, where people are given; no annotated objects,
            where these are.
        JudgeError: as :meth:`~judge.evidence.EvidenceBuilder.join`.
    """
    joined, _ = builder.join(captioner)
    human, captions = (_spoken(joined, side) for side in ("human", "generated"))
    least = LEAST_PEOPLE if "people" in metric.given else 1
    # Tasks derived from human captions would tell judges what the reference person says.
    tasks = builder.corpus.tasks if "objects" in metric.given else None
    if "objects" in metric.given and tasks is None:
        raise RowError(f"{metric.title} needs annotated objects", where=captioner.name, mend="give --objects")
    enough = {image: name for image, name in joined.classes.items() if len(human[image]) >= least}
    classes = {image: name for image, name in enough.items() if tasks is None or image in tasks.by_image}
    counts = Counter(classes.values())
    size, rarest = min((counts[name], name) for name in {*joined.classes.values()})
    if size < MINIMUM_IMAGES:
        what = f"{size} images of class '{rarest}' have {least} human captions or more; {MINIMUM_IMAGES} are needed"
        instead = "give the images, or their objects, in place of people: --given image, --given objects"
        mend = instead if least > 1 else "give more images"
        raise RowError(what, where=captioner.name, mend=mend)
    dropped = {**joined.dropped, f"fewer than {least} human captions": len(joined.classes) - len(enough)}
    dropped["no annotated objects"] = len(enough) - len(classes)
    return Conditional(
        captioner.name,
        metric,
        # What follows asks for no words but these.
        replace(joined, classes=classes, dropped=dropped, words={}, named={}),
        Units.make(classes, builder.truth.labels.scenes),
        [human[image] for image in classes],
        [captions[image] for image in classes],
        _objects(tasks, [*classes]),
        np.zeros((len(classes), 0), dtype=np.float32),
    )


def _spoken(joined: Joined, side: Side) -> dict[str, list[Words]]:
    """Image -> the words of its captions on a side, without those that name the class."""
    found: dict[str, list[Words]] = {image: [] for image in joined.classes}
    for (image, _, _), masked in zip(joined.rows[side], joined.words[side].masked, strict=True):
        found[image].append(tuple(word for word in masked if word[:1].isalnum() and not is_special(word)))
    return found


def _objects(tasks: Tasks | None, images: Sequence[str]) -> npt.NDArray[np.float32]:
    if tasks is None:
        return np.zeros((len(images), 0), dtype=np.float32)
    names = [name for name in tasks.names if name not in PEOPLE]
    rows = mention_table([tasks.shown(image) for image in images], names).astype(np.float32)
    return np.asarray(rows / np.sqrt(np.maximum(rows.sum(axis=1, keepdims=True), 1)))
