"""Conditional leakage: what a caption tells of the class beyond what is known of its image.

In every role (:mod:`judge.evidence.reference`) a judge reads what is known (:mod:`judge.judges.given`), and either the
captioner's caption or the reference person's, with how well it fits what is known. The gain of a caption is how much it
lowers the judge's loss, and the amplification is the captioner's gain less the reference's, averaged over roles.

Halves of the images measure it again, for intervals and tests, with the run's vectors and references.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
from scipy.sparse import csr_array

from judge.evidence.conditional import Conditional
from judge.evidence.reference import References, make_references
from judge.judges.given import Given, give, shares_of
from judge.measure.jobs import Request
from judge.measure.table import COLUMNS
from judge.statistics.comparisons import Key
from judge.statistics.summary import ROW
from judge.text.vector_space import Reals, VectorSpace, unit
from judge.types import SIDES, BoolArray, FloatArray, IntArray, Side, Words
from judge.utils.parallel import parallel

# A test at 5% finds an amplification of so many standard errors with 80% power.
_FOUND = 2.8


@dataclass(frozen=True)
class Reading:
    """What judges read in one role, [N, D] each: what is known, the reference's caption and the captioner's."""

    known: Reals
    human: Reals
    generated: Reals

    def among(self, held: BoolArray) -> Reading:
        """The same of some of the images."""
        return Reading(self.known[held], self.human[held], self.generated[held])


@dataclass(frozen=True)
class Measured:
    """A captioner that was measured.

    Attributes:
        key: its row of the table.
        of: its evidence.
        scores, refits: its rows of ``scores.parquet`` and of ``replicates.parquet``.
        space: makes features of captions.
        weights: of these features for each class, [D, K]: means over the judges of its captions.
    """

    key: Key
    of: Conditional
    scores: pd.DataFrame
    refits: pd.DataFrame
    space: VectorSpace
    weights: FloatArray

    def words(self, image: str, index: int) -> list[tuple[str, float]]:
        """Words of a caption, and by how much each raises the share that judges predict for the image's class.

        It is the difference that leaving the word out makes, but for the fit.
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
    return parallel(_measure, requests, workers)


def gain_words(measured: Sequence[Measured], examples: pd.DataFrame) -> pd.DataFrame:
    """The words of captioners' captions among ``examples``, with columns of :func:`~judge.measure.words.caption_words`.

    ``contribution``: see :meth:`Measured.words`.
    """
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
    references = make_references(of.people, [texts[0] for texts in of.captions])
    space, readings = _read(of, references, request.judge)
    whole = _Judges(readings, of.classes, of.units.index)
    refits = pd.DataFrame(_refits(request, whole), columns=COLUMNS)
    return Measured(request.key, of, _scores(request, whole), refits, space, whole.weights())


def _read(of: Conditional, references: References, judge: str) -> tuple[VectorSpace, list[Reading]]:
    """Features, and what judges read in each role; a captioner's several captions of an image take turns."""
    counts = [len(texts) for texts in of.people]
    turns = max(len(texts) for texts in of.captions)
    said = [[texts[turn % len(texts)] for texts in of.captions] for turn in range(turns)]
    told = [words for texts in of.people for words in texts]
    weights = np.concatenate([np.repeat(1 / np.array(counts), counts), np.full(turns * len(counts), 1 / turns)])
    space = VectorSpace([*told, *(words for turn in said for words in turn)], weights, judge=judge)
    return space, [*_readings(of, references, space, said)]


def _readings(
    of: Conditional, references: References, space: VectorSpace, said: Sequence[Sequence[Words]]
) -> Iterator[Reading]:
    """What judges read in each role; ``said``: the captioner's captions, which take turns."""
    counts, told = [len(texts) for texts in of.people], [words for texts in of.people for words in texts]
    parts, starts = space.parts(told), np.cumsum(counts) - counts
    generated = [space.vectors(*space.parts(turn)) for turn in said]
    for number, reference in enumerate(references.roles):
        known = [of.objects, of.images]
        if "people" in of.metric.given:
            # A row for each image, which adds up the captions of those who are known.
            images = np.repeat(np.arange(len(counts)), [len(others) for others in reference.others])
            places = [start + other for start, others in zip(starts, reference.others, strict=True) for other in others]
            sums = csr_array((np.ones(len(places), np.float32), (images, places)), shape=(len(counts), len(told)))
            known.append(space.vectors(*(np.asarray(sums @ part) for part in parts)))
        human = space.vectors(*space.parts(reference.captions))
        yield Reading(np.concatenate(known, axis=1), human, generated[number % len(said)])


def _with_fit(known: Given, human: Reals, generated: Reals) -> Iterator[Reals]:
    """Captions of the reference and of the captioner, [N, D], each with a last column: how well it fits what is known.

    The fit is the cosine between a caption, less the mean of its side, and the reference's caption as what is known
    predicts it. Without the fit a judge cannot see that a caption contradicts what is known: it adds up both.
    """
    expected = unit(known.expect(human))
    for captions in (human, generated):
        yield np.column_stack([captions, (unit(captions - captions.mean(axis=0)) * expected).sum(axis=1)])


class _Judges:
    """The judges of all roles."""

    def __init__(self, readings: Sequence[Reading], classes: IntArray, units: IntArray | None) -> None:
        self.readings, self.classes, self.units = readings, classes, units
        self.given = give([role.known for role in readings], classes, units)

    @cached_property
    def captions(self) -> list[dict[Side, Reals]]:
        """Of each role: side -> features of its captions, and how well each fits what is known, [N, D + 1]."""
        return [
            dict(zip(SIDES, _with_fit(given, role.human, role.generated), strict=True))
            for given, role in zip(self.given, self.readings, strict=True)
        ]

    @cached_property
    def errors(self) -> list[dict[Side, FloatArray]]:
        """Of each role: side -> errors, [N, K], of the judge that reads its captions too."""
        return [
            {side: given.reading(told) for side, told in captions.items()}
            for given, captions in zip(self.given, self.captions, strict=True)
        ]

    def weights(self) -> FloatArray:
        """Of features of the captioner's captions but their fit, [D, K]: means over roles."""
        each = [given.weights(told["generated"])[:-1] for given, told in zip(self.given, self.captions, strict=True)]
        return np.asarray(np.mean(each, axis=0))

    def gains(self) -> tuple[float, float]:
        """Gains of both sides: means over the images of a class, then over classes and roles."""
        counts = np.bincount(self.classes)
        weights = 1 / counts[self.classes] / len(counts) / len(self.given)
        losses = [(weights @ _loss(given.errors), *(weights @ _loss(of[side]) for side in SIDES))
                  for given, of in zip(self.given, self.errors, strict=True)]  # fmt: skip
        known, human, generated = np.sum(losses, axis=0)
        return float(known - human), float(known - generated)

    def among(self, held: BoolArray) -> _Judges:
        """Judges of some of the images."""
        units = None if self.units is None else self.units[held]
        return _Judges([role.among(held) for role in self.readings], self.classes[held], units)


def _loss(errors: FloatArray) -> FloatArray:
    """[N] of errors [N, K]."""
    return np.asarray((errors**2).sum(axis=1))


def _refits(request: Request, whole: _Judges) -> Iterator[list[object]]:
    """Rows of ``replicates.parquet``."""
    for number, held in enumerate(request.of.units.halves(2 * request.refits, request.seed)):
        human, generated = whole.among(held).gains()
        yield [*request.key, "half", number, human, generated, generated - human, human, generated]


def _scores(request: Request, whole: _Judges) -> pd.DataFrame:
    """Rows of ``scores.parquet``: both sides in every role; ``index`` is the role, ``baseline`` the loss before."""
    of, names = request.of, np.array(request.of.names)
    captioner, metric, judge = request.key
    parts = []
    for index, (captions, given, errors) in enumerate(zip(whole.captions, whole.given, whole.errors, strict=True)):
        for side in SIDES:
            shares = shares_of(errors[side], of.classes)
            parts.append(
                pd.DataFrame(
                    {
                        "image_id": of.units.images,
                        "captioner": captioner,
                        "side": side,
                        "index": index,
                        "metric": metric,
                        "judge": judge,
                        "seed": request.seed,
                        "fold": 0,
                        "named": "",
                        "tasks": "",
                        "answer": of.units.classes,
                        "probability": shares[np.arange(len(shares)), of.classes],
                        "predicted": names[shares.argmax(axis=1)],
                        "loss": _loss(errors[side]),
                        "validation_loss": np.nan,
                        "baseline": _loss(given.errors),
                        "fit": captions[side][:, -1],
                    }
                )
            )
    found = pd.concat(parts, ignore_index=True)
    return found if of.units.index is None else found.assign(scene=[*of.units.of] * len(parts))
