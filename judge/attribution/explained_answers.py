"""A trained judge's answers about captions, and the class of each that is to be explained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np

from judge.errors import JudgeError
from judge.masking.masked_images import MaskedImages
from judge.training.judge_file import Saved, answer
from judge.types import FloatArray, IntArray, Labels, Predictions, Progress, Sample


@dataclass(frozen=True)
class ExplainedAnswers:
    """A trained judge's answers about N captions.

    Attributes:
        saved: the judge.
        samples: the captions, [N].
        answers: its predictions, [N, A].
        explained: the class (or task) to explain, by its place in the target, [N].
        features: feature cache folder.
        pictures: the images, for a judge that uses them.
    """

    saved: Saved
    samples: Sequence[Sample]
    answers: Predictions
    explained: IntArray
    features: Path
    pictures: MaskedImages | None = None

    @property
    def probabilities(self) -> FloatArray:
        """Of the explained class, [N]."""
        return self.of_class(self.answers.probabilities)

    @property
    def classes(self) -> list[str]:
        """Names of the explained classes, [N]."""
        return [self.saved.target.classes[place] for place in self.explained]

    def of_class(self, values: FloatArray) -> FloatArray:
        """The explained class's column of values [N, A], [N]."""
        return np.asarray(values[np.arange(len(values)), self.explained])

    def predict(self, samples: Sequence[Sample], progress: Progress | None = None) -> Predictions:
        """The judge's predictions for other samples of the same images, [M, A]."""
        return answer(self.saved, [samples], features=self.features, pictures=self.pictures, progress=progress)[0]


@dataclass(frozen=True)
class WordAttribution:
    """What words contribute to N answers.

    Attributes:
        method: how that was computed.
        contributions: of each caption's words, in order, [N] of [words].
        base: the answers without any word, [N]: base and contributions sum to the total. NaN for methods whose
            contributions do not add up.
        total: what is explained, [N]: a probability (occlusion) or log-odds.
    """

    method: str
    contributions: Sequence[FloatArray]
    base: FloatArray
    total: FloatArray


def explain_answers(
    saved: Saved,
    parts: Sequence[Sequence[Sample]],
    *,
    features: Path,
    pictures: MaskedImages | None = None,
    labels: Labels | None = None,
    progress: Progress | None = None,
) -> tuple[ExplainedAnswers, list[str]]:
    """Predict, and choose the class to explain: the labelled one (LIC's p_i(a_i)), or the most probable one.

    Args:
        saved: the judge.
        parts: captions that are predicted together, as :func:`~judge.training.judge_file.ask` takes them.
        features: feature cache folder.
        pictures: the images, for a judge that uses them.
        labels: of the images; images without a label are left out.
        progress: called with the progress.

    Returns:
        The answers, and notes for the user, a line each.

    Raises:
        JudgeError: labels of other classes than the judge's, or of none of the images; as ``ask``.
    """
    if labels:
        _check(labels, saved)
        parts = [[sample for sample in part if sample.image_id in labels.by_image] for part in parts]
    given = [part for part in parts if part]
    if not given:
        where = labels.source if labels else "--captions"
        raise JudgeError("no caption is of an image with a label", where=where, mend="use labels of these images")
    answers, notes = answer(saved, given, features=features, pictures=pictures, progress=progress)
    samples = list(chain.from_iterable(given))
    explained = _labelled(samples, labels.by_image, saved) if labels else answers.probabilities.argmax(axis=1)
    return ExplainedAnswers(saved, samples, answers, explained, features, pictures), notes


def _check(labels: Labels, saved: Saved) -> None:
    classes = saved.target.classes
    if saved.target.kind == "tasks":
        mend = "leave --labels out: the most probable task is explained"
        raise JudgeError(f"judge '{saved.judge}' guesses tasks, not an attribute", where=labels.source, mend=mend)
    if other := sorted(set(labels.by_image.values()) - set(classes)):
        what = f"judge '{saved.judge}' does not guess class '{other[0]}', only {', '.join(classes)}"
        raise JudgeError(what, where=labels.source, mend="use labels of the judge's attribute, or --label-value")


def _labelled(samples: Sequence[Sample], labels: Mapping[str, str], saved: Saved) -> IntArray:
    return np.array([saved.target.classes.index(labels[sample.image_id]) for sample in samples], dtype=np.int64)
