"""Conditional leakage: what a caption tells of the class beyond what is known of its image.

In every role (:mod:`judge.evidence.reference`) a judge reads what is known (:mod:`judge.judges.given`), and either the
captioner's caption or the reference person's, with how well it fits what is known. The gain of a caption is how much it
lowers the judge's loss, and the amplification is the captioner's gain less the reference's, averaged over roles.

Halves of the images measure it again, for intervals and tests, with the run's vectors and references.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from scipy.sparse import csr_array

from judge.evidence.conditional import Conditional
from judge.evidence.reference import Reference, make_references
from judge.judges.given import Given, Told, give, shares_of
from judge.measure.jobs import Request
from judge.measure.table import COLUMNS
from judge.statistics.comparisons import Key
from judge.statistics.summary import ROW
from judge.text.vector_space import TOGETHER, Reals, VectorSpace, unit
from judge.types import SIDES, BoolArray, FloatArray, IntArray, Side
from judge.utils.cells import constant, joined_tables
from judge.utils.parallel import give_back, parallel

# A test at 5% finds an amplification of so many standard errors with 80% power.
_FOUND = 2.8


@dataclass(frozen=True)
class Readings:
    """What judges read, [N, D] each: what is known, the reference's captions (of each role) and the captioner's.

    The roles share what is known, or each has its own; the captioner's captions of an image take turns.
    """

    known: Sequence[Reals]
    human: Sequence[Reals]
    generated: Sequence[Reals]

    def among(self, held: BoolArray) -> Readings:
        """The readings of some of the images."""
        return Readings(*([rows[held] for rows in part] for part in (self.known, self.human, self.generated)))


@dataclass(frozen=True)
class Measured:
    """A captioner that was measured: its key, its evidence, and its rows of the run's files.

    ``space`` makes features of captions; ``weights``: of these for each class, [D, K], means over the judges.
    """

    key: Key
    of: Conditional
    scores: pd.DataFrame
    refits: pd.DataFrame
    space: VectorSpace
    weights: FloatArray

    def words(self, image: str, index: int) -> list[tuple[str, float]]:
        """Words of a caption, and by how much each raises the share that judges predict for the image's class.

        It is the difference that leaving the word out makes. How well the caption fits what is known does not count.
        """
        place = self.of.units.images.index(image)
        words = self.of.captions[place][index]
        texts = [words, *(words[:n] + words[n + 1 :] for n in range(len(words)))]
        whole, *without = self.space.vectors(*self.space.parts(texts)) @ self.weights[:, self.of.classes[place]]
        return [(word, float(whole - other)) for word, other in zip(words, without, strict=True)]


def expected_detectable(counts: Sequence[int]) -> float:
    """A rough estimate of the smallest amplification that images can show; ``counts``: images of each class.

    The standard error of COCO captions was 0.0092 with 270 and 630 images, and 0.0035 with 1,031 and 2,566: about
    N ** -0.71, where N images of balanced classes would have the same error.
    """
    balanced = len(counts) ** 2 / sum(1 / count for count in counts)
    return float(_FOUND * balanced**-0.71)


def warn_of_few(requests: Sequence[Request], small: float) -> Iterator[str]:
    """A line where images can show only amplifications that are not ``small``; of the captioner with most images."""
    each = (np.bincount(request.of.classes).tolist() for request in requests)
    images, least = max(((sum(counts), expected_detectable(counts)) for counts in each), default=(0, 0.0))
    if least > small:
        shown = f"{100 * least:.{int(least < 0.1)}f}%"
        yield f"With {images:,} images, conditional leakage can show only amplifications of more than about {shown}"


def measure_conditional(requests: Sequence[Request], *, workers: int) -> list[Measured]:
    """Measure ``requests``, in their order, by at most ``workers`` processes."""
    found = parallel(_measure, requests, workers)
    # What workers were sent does not stay in memory twice.
    return [replace(one, of=request.of) for one, request in zip(found, requests, strict=True)]


def gain_words(measured: Sequence[Measured], examples: pd.DataFrame) -> pd.DataFrame:
    """:meth:`Measured.words` of captions in ``examples``, as :func:`~judge.measure.words.caption_words` has columns."""
    rows = list[tuple[object, ...]]()
    known = examples[examples["side"] == "generated"][[*ROW, "image_id", "index"]].drop_duplicates()
    for of in measured:
        chosen = known[(known[ROW] == list(of.key)).all(axis=1)]
        for image, index in zip(chosen["image_id"], chosen["index"], strict=True):
            words = enumerate(of.words(image, index))
            rows += [(*of.key, "generated", image, index, place, *word) for place, word in words]
    return pd.DataFrame(rows, columns=[*ROW, "side", "image_id", "index", "place", "word", "contribution"])


def _measure(request: Request) -> Measured:
    of = request.of
    references = make_references(of.human, [texts[0] for texts in of.captions])
    space, readings = _read(of, references, request.judge)
    judges = _Judges(readings, of.classes, of.units.index)
    refits = pd.DataFrame(_refits(request, judges), columns=COLUMNS)
    found = Measured(request.key, of, _scores(request, judges), refits, space, judges.weights())
    del readings, judges
    give_back()
    return found


def _read(of: Conditional, references: Sequence[Reference], judge: str) -> tuple[VectorSpace, Readings]:
    """Features, and what judges read; a captioner's several captions of an image take turns."""
    counts = [len(texts) for texts in of.human]
    turns = max(len(texts) for texts in of.captions)
    said = [[texts[turn % len(texts)] for texts in of.captions] for turn in range(turns)]
    told = [words for texts in of.human for words in texts]
    weights = np.concatenate([np.repeat(1 / np.array(counts), counts), np.full(turns * len(counts), 1 / turns)])
    space = VectorSpace([*told, *(words for turn in said for words in turn)], weights, judge=judge)
    human = [space.vectors(*space.parts(role.captions)) for role in references]
    generated = [space.vectors(*space.parts(captions)) for captions in said]
    return space, Readings(_known(of, references, space), human, generated)


def _known(of: Conditional, references: Sequence[Reference], space: VectorSpace) -> list[Reals]:
    alike = np.concatenate([of.objects, of.images], axis=1)
    if "people" not in of.metric.given:
        return [alike]
    # The parts of all captions together would take gigabytes.
    step = max(1, TOGETHER // max(map(len, of.human)))
    parts = [slice(start, start + step) for start in range(0, len(of.human), step)]
    others = zip(*(_others(of, references, space, part) for part in parts), strict=True)
    return [np.concatenate([alike, np.concatenate(rows)], axis=1) for rows in others]


def _others(of: Conditional, references: Sequence[Reference], space: VectorSpace, part: slice) -> Iterator[Reals]:
    """The captions of those who are known, added up, of some of the images, [N, D] in each role."""
    human = of.human[part]
    starts = np.cumsum([0, *map(len, human)])
    told = space.parts([words for texts in human for words in texts])
    for role in references:
        known = role.others[part]
        images = np.repeat(np.arange(len(human)), [*map(len, known)])
        places = [start + other for start, others in zip(starts[:-1], known, strict=True) for other in others]
        sums = csr_array((np.ones(len(places), np.float32), (images, places)), shape=(len(human), starts[-1]))
        yield space.vectors(*(np.asarray(sums @ rows) for rows in told))


def _with_fit(known: Given, *sides: Told) -> Iterator[Told]:
    """Captions of the reference and of the captioner, each with a last feature: how well it fits what is known.

    The fit is the cosine between a caption, less the mean of its side, and the reference's caption as what is known
    predicts it. Without it a judge cannot see that a caption contradicts what is known.
    """
    expected = unit(known.expect(sides[0]))
    for features, rest in sides:
        fit = known.tell((unit(features - features.mean(axis=0)) * expected).sum(axis=1, keepdims=True))
        yield Told(np.hstack([features, fit.features]), np.hstack([rest, fit.rest]))


class _Judges:
    """The judges of all roles."""

    def __init__(self, readings: Readings, classes: IntArray, units: IntArray | None) -> None:
        self.readings, self.classes, self.units = readings, classes, units
        self.given = give(readings.known, classes, units)

    def roles(self) -> Iterator[tuple[Given, dict[Side, Told]]]:
        """Of each role, made one after the other: the judge of what is known; side -> captions with their fit."""
        captions = self.readings.generated
        alike = len(self.given) == len(captions) == 1
        for role, human in enumerate(self.readings.human):
            given = self.given[role % len(self.given)]
            if role == 0 or not alike:
                generated = given.tell(captions[role % len(captions)])
            yield given, dict(zip(SIDES, _with_fit(given, given.tell(human), generated), strict=True))

    def weights(self) -> FloatArray:
        """Of features of the captioner's captions but their fit, [D, K]: means over roles."""
        return np.asarray(np.mean([given.weights(told["generated"])[:-1] for given, told in self.roles()], axis=0))

    def gains(self) -> tuple[float, float]:
        """Gains of both sides: means over the images of a class, then over classes and roles."""
        counts = np.bincount(self.classes)
        weights = 1 / counts[self.classes] / len(counts) / len(self.readings.human)
        losses = [
            [weights @ _loss(given.errors), *(weights @ _loss(given.reading(told[side])) for side in SIDES)]
            for given, told in self.roles()
        ]
        known, human, generated = np.sum(losses, axis=0)
        return float(known - human), float(known - generated)

    def among(self, held: BoolArray) -> _Judges:
        """Judges of some of the images."""
        units = None if self.units is None else self.units[held]
        return _Judges(self.readings.among(held), self.classes[held], units)


def _loss(errors: FloatArray) -> FloatArray:
    return np.asarray((errors**2).sum(axis=1))


def _refits(request: Request, judges: _Judges) -> Iterator[list[object]]:
    for number, held in enumerate(request.of.units.halves(2 * request.refits, request.seed)):
        human, generated = judges.among(held).gains()
        yield [*request.key, "half", number, human, generated, generated - human, human, generated]


def _scores(request: Request, judges: _Judges) -> pd.DataFrame:
    """Rows of ``scores.parquet``: both sides in every role; ``index`` is the role, ``baseline`` the loss before."""
    of, names = request.of, pd.Index(request.of.names)
    captioner, metric, judge = request.key
    images, parts = pd.Categorical(of.units.images), []
    for index, (given, told) in enumerate(judges.roles()):
        for side in SIDES:
            errors = given.reading(told[side])
            shares = shares_of(errors, of.classes)
            columns = {
                "image_id": images,
                "captioner": constant(captioner, len(images)),
                "side": constant(side, len(images)),
                "index": index,
                "metric": constant(metric, len(images)),
                "judge": constant(judge, len(images)),
                "seed": request.seed,
                "fold": 0,
                "named": constant("", len(images)),
                "tasks": constant("", len(images)),
                "answer": pd.Categorical.from_codes(of.classes, names),
                "probability": shares[np.arange(len(shares)), of.classes],
                "predicted": pd.Categorical.from_codes(shares.argmax(axis=1), names),
                "loss": _loss(errors),
                "validation_loss": np.nan,
                "baseline": _loss(given.errors),
                "fit": told[side].features[:, -1],
            }
            parts.append(pd.DataFrame(columns))
    found = joined_tables(parts)
    return found if of.units.index is None else found.assign(scene=[*of.units.of] * len(parts))
