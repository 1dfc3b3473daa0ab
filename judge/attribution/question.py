"""What is to be explained: a trained judge's answers about captions, and the class whose probability is meant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np

from judge.errors import JudgeError
from judge.masking.masked_images import MaskedImages
from judge.training.asking import ask
from judge.training.saved import Saved
from judge.types import FloatArray, IntArray, Labels, Predictions, Progress, Sample


@dataclass(frozen=True)
class Question:
    """A trained judge's answers, to be explained.

    Attributes:
        saved: the judge.
        samples: what it is asked about, N of them.
        answers: what it says, [N, A].
        explained: the class (or task) of each that is explained, [N].
        features: feature cache folder.
        pictures: what a judge that sees is shown.
    """

    saved: Saved
    samples: Sequence[Sample]
    answers: Predictions
    explained: IntArray
    features: Path
    pictures: MaskedImages | None = None

    @property
    def probabilities(self) -> FloatArray:
        """Of the class explained, [N]."""
        return self.of_class(self.answers.probabilities)

    @property
    def classes(self) -> list[str]:
        """Names of those explained, [N]."""
        return [self.saved.target.classes[place] for place in self.explained]

    def of_class(self, values: FloatArray) -> FloatArray:
        """Of values [N, A] those of the class explained, [N]."""
        return np.asarray(values[np.arange(len(values)), self.explained])

    def ask(self, samples: Sequence[Sample], progress: Progress | None = None) -> Predictions:
        """What the judge answers about other samples of the same pictures, [M, A]."""
        return ask(self.saved, [samples], features=self.features, pictures=self.pictures, progress=progress)[0]


@dataclass(frozen=True)
class WordAttribution:
    """What words contribute to N answers.

    Attributes:
        method: how that was found.
        contributions: of each caption's words, in order, [N] of [words].
        base: what the answers would be without any word, [N]; base and contributions add up to the total. NaN where
            contributions of a method do not add up.
        total: what is explained, [N]: a probability (occlusion) or log odds.
    """

    method: str
    contributions: Sequence[FloatArray]
    base: FloatArray
    total: FloatArray


def pose(
    saved: Saved,
    parts: Sequence[Sequence[Sample]],
    *,
    features: Path,
    pictures: MaskedImages | None = None,
    labels: Labels | None = None,
    progress: Progress | None = None,
) -> tuple[Question, list[str]]:
    """Ask a judge, and choose the class to explain: LIC's p_i(a_i) where labels say a_i, else the most probable one.

    Args:
        saved: the judge.
        parts: captions that are asked about together, as :func:`~judge.training.asking.ask` takes them.
        features: feature cache folder.
        pictures: what a judge that sees is shown.
        labels: of the images; those without one are left out.
        progress: called with the progress.

    Returns:
        The question, and what a user must know, a line each.

    Raises:
        JudgeError: labels of other classes than the judge's, or of none of the images; as ``ask``.
    """
    if labels:
        _check(labels, saved)
        parts = [[sample for sample in part if sample.image_id in labels.by_image] for part in parts]
    asked = [part for part in parts if part]
    if not asked:
        where = labels.source if labels else "--captions"
        raise JudgeError("no caption is of an image with a label", where=where, mend="use labels of these images")
    answers, notes = ask(saved, asked, features=features, pictures=pictures, progress=progress)
    samples = list(chain.from_iterable(asked))
    explained = _true(samples, labels.by_image, saved) if labels else answers.probabilities.argmax(axis=1)
    return Question(saved, samples, answers, explained, features, pictures), notes


def _check(labels: Labels, saved: Saved) -> None:
    classes = saved.target.classes
    if saved.target.kind == "tasks":
        mend = "leave --labels out: the most probable task is explained"
        raise JudgeError(f"judge '{saved.judge}' guesses tasks, no attribute", where=labels.source, mend=mend)
    if other := sorted(set(labels.by_image.values()) - set(classes)):
        what = f"class '{other[0]}' is none of those that judge '{saved.judge}' guesses ({', '.join(classes)})"
        raise JudgeError(what, where=labels.source, mend="use labels of the judge's attribute, or --label-value")


def _true(samples: Sequence[Sample], labels: Mapping[str, str], saved: Saved) -> IntArray:
    return np.array([saved.target.classes.index(labels[sample.image_id]) for sample in samples], dtype=np.int64)
