"""Learned metrics as functions on arrays: from the probabilities of judges to amplification.

Each sample is an image with one held-out caption of either side. The caller masks and aligns captions and trains
judges, as ``judge evaluate`` does; the values are those of ``judge evaluate`` for one judge and one caption a side.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from judge.metrics import METRICS
from judge.metrics.counted.contingency import hot, read_probabilities, same_samples
from judge.metrics.scores import SCORES, Judged, frequency_loss
from judge.statistics.inference import LEAST_SPLITS, from_splits
from judge.statistics.judged import Statistic
from judge.types import BoolArray, Direction, FloatArray, Interval, TargetKind


class LearnedAmplification(NamedTuple):
    """A learned metric of arrays: the amplification, a fraction, and the scores of the judges of both sides.

    ``value`` is NaN where a side has no value. ``interval`` (95%) and ``p_value`` are for another sample of images, and
    judges trained anew, by the corrected resampled t-test (Nadeau and Bengio, Machine Learning 2003). They are None
    without ``folds``, or where a fold has no value, or where values do not vary.
    """

    value: float
    human: float
    generated: float
    interval: Interval | None = None
    p_value: float | None = None


def lic(
    y: npt.ArrayLike,
    human_probabilities: npt.ArrayLike,
    generated_probabilities: npt.ArrayLike,
    *,
    folds: npt.ArrayLike | None = None,
) -> LearnedAmplification:
    """LIC (Hirota et al., CVPR 2022, eq. 9-11): probability of the true class where it is the most probable one.

    Classes count equally. The judge of human captions is right in one of two cases, that of generated ones in both:

        >>> found = lic([0, 1], [[0.6, 0.4], [0.8, 0.2]], [[1.0, 0.0], [0.2, 0.8]])
        >>> round(found.value, 4), found.human, found.generated
        (0.6, 0.3, 0.9)

    With the fold in which each image was tested, the result has an interval and p:

        >>> folds, right = [0, 0, 1, 1, 2, 2, 3, 3, 4, 4], [0.9, 0.8, 0.7, 0.9, 0.8, 0.7, 0.9, 0.6, 0.8, 0.9]
        >>> found = lic([0] * 10, [[0.5, 0.5]] * 10, [[p, 1 - p] for p in right], folds=folds)
        >>> round(found.value, 3), round(found.interval.low, 3), found.p_value < 0.001
        (0.3, 0.207, True)

    Args:
        y: annotated class of each image, [N], from 0.
        human_probabilities: probabilities of the judge of human captions, [N, K].
        generated_probabilities: probabilities of the judge of generated captions, [N, K].
        folds: the fold of each image, [N], of cross-fitted judges: an image is scored by judges of the other folds'
            images. Five or more.

    Raises:
        ValueError: arrays of other values or shapes; probabilities of a sample that do not sum to one; fewer folds.
    """
    return _measure("lic", (y, human_probabilities), (y, generated_probabilities), folds=folds)


def leakage(
    y: npt.ArrayLike,
    human_probabilities: npt.ArrayLike,
    generated_probabilities: npt.ArrayLike,
    *,
    folds: npt.ArrayLike | None = None,
) -> LearnedAmplification:
    """Leakage (Wang et al. 2019; LIC, eq. 4-6): difference of accuracies, classes counting equally.

        >>> found = leakage([0, 1], [[0.6, 0.4], [0.8, 0.2]], [[1.0, 0.0], [0.2, 0.8]])
        >>> found.value, found.human, found.generated
        (0.5, 0.5, 1.0)

    Arguments and errors are those of :func:`lic`.
    """
    return _measure("leakage", (y, human_probabilities), (y, generated_probabilities), folds=folds)


def imagecaptioner2(
    y: npt.ArrayLike,
    human_probabilities: npt.ArrayLike,
    generated_probabilities: npt.ArrayLike,
    *,
    ratio: bool = False,
    folds: npt.ArrayLike | None = None,
) -> LearnedAmplification:
    """ImageCaptioner2 (Abdelrahman et al., AAAI 2024, eq. 1-2): mean probability of the true class.

        >>> found = imagecaptioner2([0, 1], [[0.6, 0.4], [0.8, 0.2]], [[1.0, 0.0], [0.2, 0.8]])
        >>> found.value, found.human, found.generated
        (0.5, 0.4, 0.9)

    With ``ratio`` the sides are divided instead of subtracted. Other arguments and errors are those of :func:`lic`.
    """
    name = "imagecaptioner2-ratio" if ratio else "imagecaptioner2"
    return _measure(name, (y, human_probabilities), (y, generated_probabilities), folds=folds)


def dbac(
    y: npt.ArrayLike,
    human_probabilities: npt.ArrayLike,
    generated_probabilities: npt.ArrayLike,
    human_mentions: npt.ArrayLike,
    generated_mentions: npt.ArrayLike,
    direction: Direction = "A->T",
    *,
    folds: npt.ArrayLike | None = None,
) -> LearnedAmplification:
    """DBAC (Nair et al., WACV 2026): normalised difference of omega, one over the mean loss times the mean prior.

    "A->T": judges guess the image's class, and w = P(t)/P(a) with the tasks t that the caption names. "T->A":
    judges guess the tasks of the image, and w = P(a^)/P(T) with the class a^ that the caption names; captions that name
    none, or several, are left out.

    All captions name one task, so that w = 1 / (1/2) = 2. Omega is 2 / log 2 where the judge is unsure, and 2 / log 4
    where it gives the truth 1/4; (1 / log 4 - 1 / log 2) / (1 / log 4 + 1 / log 2) = -1/3:

        >>> unsure, wrong, named = [[0.5, 0.5]] * 2, [[0.25, 0.75], [0.75, 0.25]], [[1], [1]]
        >>> round(dbac([0, 1], unsure, wrong, named, named).value, 4)
        -0.3333

    Args:
        y: the truth: classes, [N] ("A->T"), or tasks, multi-hot [N, L] ("T->A").
        human_probabilities: answers of the judge of human captions: of the classes, [N, K], or of each task, [N, L].
        generated_probabilities: the same of the judge of the captioner's captions.
        human_mentions: tasks that human captions name, multi-hot [N, L], or classes, multi-hot [N, K] or one each, [N].
        generated_mentions: the same of generated captions.
        direction: "A->T" or "T->A".
        folds: as of :func:`lic`.

    Raises:
        ValueError: arrays of other values or shapes, or another direction; fewer than five folds.
    """
    sides = (y, human_probabilities, human_mentions), (y, generated_probabilities, generated_mentions)
    return _measure("dbac", *sides, direction=direction, folds=folds)


def dpac(
    y: npt.ArrayLike,
    human_probabilities: npt.ArrayLike,
    generated_probabilities: npt.ArrayLike,
    human_mentions: npt.ArrayLike,
    generated_mentions: npt.ArrayLike,
    direction: Direction = "A->T",
    *,
    folds: npt.ArrayLike | None = None,
) -> LearnedAmplification:
    """DPAC (Nair et al. 2025, eq. 9-11): normalised difference of psi, the mean of p(true) times the prior.

    As in the example of :func:`dbac` w is 2; p(true) is 1/2 and 1/4:

        >>> found = dpac([0, 1], [[0.5, 0.5]] * 2, [[0.25, 0.75], [0.75, 0.25]], [[1], [1]], [[1], [1]])
        >>> round(found.value, 4), found.human, found.generated
        (-0.3333, 1.0, 0.5)

    Arguments and errors are those of :func:`dbac`.
    """
    sides = (y, human_probabilities, human_mentions), (y, generated_probabilities, generated_mentions)
    return _measure("dpac", *sides, direction=direction, folds=folds)


def theils_u(
    human_named: npt.ArrayLike,
    human_probabilities: npt.ArrayLike,
    generated_named: npt.ArrayLike,
    generated_probabilities: npt.ArrayLike,
    direction: Direction = "T->A",
) -> LearnedAmplification:
    """U, Theil's uncertainty coefficient, cross-validated: 1 - CE(named | annotated) / CE(named), generated - human.

    Theil (American Journal of Sociology 1970), with the predictive losses of Xu et al. (ICLR 2020). Judges guess what a
    caption names from what is annotated of its image; their probabilities are held out. CE(named) is the mean loss of
    frequencies among the side's other captions (``judge evaluate``: among those that a judge learns from). "T->A": the
    class that a caption names, from the image's tasks. "A->T": the tasks that it names, from the image's class.

    Two of three captions name class 0: one of the two others does too. None beside the third names class 1, which then
    counts as half a caption of 3.5. The human judge knows no more than that, the other one is right:

        >>> frequencies = [[0.5, 0.5], [0.5, 0.5], [6 / 7, 1 / 7]]
        >>> found = theils_u([0, 0, 1], frequencies, [0, 0, 1], [[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
        >>> found.human, found.generated
        (0.0, 1.0)

    Args:
        human_named: what human captions name: one class each, [N] from 0 ("T->A"), or tasks, multi-hot [N, L] ("A->T").
        human_probabilities: answers of the judge of human captions: of classes, [N, K], or of each task, [N, L].
        generated_named: the same of generated captions; their number may differ.
        generated_probabilities: answers of the judge of generated captions.
        direction: "T->A" or "A->T".

    Raises:
        ValueError: arrays of other values or shapes, or another direction.
    """
    sides = (human_named, human_probabilities), (generated_named, generated_probabilities)
    return _measure("u", *sides, direction=direction)


def _measure(
    name: str,
    *sides: tuple[npt.ArrayLike, ...],
    direction: Direction | None = None,
    folds: npt.ArrayLike | None = None,
) -> LearnedAmplification:
    """A metric of METRICS; each side: truth, probabilities and, for priors, mentions."""
    directed = {"A->T": f"{name}-at", "T->A": f"{name}-ta"}
    metric = METRICS.get(directed.get(direction or "", name))
    if metric is None:
        raise ValueError(f'the direction is "A->T" or "T->A", not {direction!r}')
    truths = hot("y", *(side[0] for side in sides))
    said = hot("mentions", *(side[2] for side in sides)) if metric.prior else truths
    answers = read_probabilities(truths, *(side[1] for side in sides), single=metric.target == "attribute")
    tables = [_captions(metric.target, metric.score, *of) for of in zip(truths, answers, said, strict=True)]
    statistic = Statistic(metric, pd.concat(tables))

    def measure(parts: Sequence[pd.DataFrame]) -> Any:
        return statistic(*(np.asarray(statistic.rows(part).table.sum(axis=0)) for part in parts))

    found = measure(tables)
    value = LearnedAmplification(float(found.value), float(found.human.value), float(found.generated.value))
    if folds is None:
        return value
    of_image = np.asarray(folds)
    if of_image.ndim != 1 or pd.isna(of_image).any():
        raise ValueError("folds: one number or name for each image is needed, and none is missing")
    same_samples(y=truths[0], folds=of_image)
    if (number := len(np.unique(of_image))) < LEAST_SPLITS:
        raise ValueError(f"folds: {LEAST_SPLITS} or more are needed, not {number}")
    values = [float(measure([table[of_image == fold] for table in tables]).value) for fold in np.unique(of_image)]
    tested = from_splits(value.value, values, ratio=1 / (number - 1), neutral=metric.neutral)
    return value if tested is None else value._replace(interval=tested.interval, p_value=tested.p_value)


def _captions(
    target: TargetKind, score: str, truth: BoolArray, probabilities: FloatArray, mentions: BoolArray
) -> pd.DataFrame:
    same_samples(y=truth, mentions=mentions)
    if target == "attribute" and (truth.sum(axis=1) != 1).any():
        raise ValueError("y: one class a sample is needed")
    wide = np.pad(truth, ((0, 0), (0, probabilities.shape[1] - truth.shape[1])))
    scores = SCORES[score].quantity(Judged.of_arrays(wide, probabilities, target))
    names, answers = (["|".join(map(str, np.flatnonzero(row))) for row in table] for table in (mentions, truth))
    columns = {"side": "", "image_id": np.arange(len(truth)), "named": names, "tasks": names, "answer": answers}
    baseline = frequency_loss(wide.sum(axis=0) - wide, len(wide) - 1, wide, target)
    return pd.DataFrame({**columns, "n": 1.0, "q": scores, "baseline": baseline})
